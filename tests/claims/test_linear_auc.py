"""The exact linear score under the quadratic surrogate of auc_parity, against a cone solver and against the double sums."""

import numpy as np
import pytest
import torch
from scipy import sparse

import fairbound as fb
from fairbound.base.errors import EmptyGroupError, OptionError
from fairbound.fairness.area_problems.linear_auc import LinearAUC, moments_of
from fairbound.fairness.areas.compared import KINDS
from fairbound.fairness.metrics import auc
from fairbound.fairness.notions import constraint
from fairbound.fairness.problem import FairProblem
from fairbound.models.mlp import MLP
from fairbound.rows.groups import Groups
from fairbound.rows.occurring import Occurring
from fairbound.subproblems import SubproblemError

cvxpy = pytest.importorskip("cvxpy")


def rows(seed=0, n=300, groups="ab", d=4):
    rng = np.random.default_rng(seed)
    g = rng.choice(list(groups), n)
    y = (rng.random(n) < 0.4).astype(int)
    X = (
        rng.normal(size=(n, d))
        + y[:, None] * rng.normal(size=d)
        + np.stack([g == k for k in groups], 1) @ rng.normal(size=(len(groups), d))
    )
    return X, y, g


def text(kind, c1=0.5):
    return f"auc_parity[{kind},surrogate=quadratic,c1={c1}]"


def by_cones(X, y, g, kind, kappa, c1):
    """The program written out from masks of rows, solved by Clarabel through cvxpy: the least loss, and w."""
    P, N, D = y == 1, y == 0, np.ones(len(y), dtype=bool)
    w = cvxpy.Variable(X.shape[1])

    def loss(a, b):
        A, B = X[a], X[b]
        S = np.cov(A.T, ddof=0) + np.cov(B.T, ddof=0)
        root = np.linalg.cholesky(S + 1e-15 * np.trace(S) * np.eye(len(S))).T
        return c1 * (cvxpy.sum_squares(root @ w) + cvxpy.square((A.mean(0) - B.mean(0)) @ w - 1))

    bounds = []
    names = sorted(set(g))
    for a in names:
        for b in names:
            if a == b:
                continue
            A, B = g == a, g == b
            first, second = {
                "group": ((A, B), (D, D)),
                "inter": ((P & A, N & B), (P & B, N & A)),
                "intra": ((P & A, N & A), (P & B, N & B)),
                "bnsp": ((P & A, N), (P & B, N)),
            }[kind]
            bounds.append(loss(first[1], first[0]) + loss(*second) - 1 <= kappa)
    problem = cvxpy.Problem(cvxpy.Minimize(loss(P, N)), bounds)
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
    return problem.value, w.value


@pytest.mark.parametrize("c1", [0.5, 0.25])
@pytest.mark.parametrize("kind", ["group", "inter", "intra", "bnsp"])
def test_it_is_the_cone_solver_s_optimum(kind, c1):
    for seed, groups, kappa in ((0, "ab", 0.05), (1, "ab", 0.4), (2, "abc", 0.1)):
        X, y, g = rows(seed, groups=groups)
        found = LinearAUC.of(text(kind, c1), X, y, g).solve(kappa)
        value, w = by_cones(X, y, g, kind, kappa, c1)
        assert found.loss == pytest.approx(value, abs=1e-6) and abs(found.gap) < 1e-9
        assert found.differences.max() <= kappa + 1e-9
        np.testing.assert_allclose(found.weights, w, atol=1e-4)


@pytest.mark.parametrize("kind", ["group", "inter", "intra"])
@pytest.mark.parametrize("c1", [0.6, 1.0])
def test_no_score_meets_a_kappa_below_twice_c1_less_1(kind, c1):
    """l(t) + l(-t) = 2 c1 (t^2 + 1), so the two sides of a difference add to 4 c1 - 2 or more: constant scores have the least."""
    X, y, g = rows(0)
    program = LinearAUC.of(text(kind, c1), X, y, g)
    with pytest.raises(SubproblemError):
        program.solve(2 * c1 - 1 - 0.02)
    assert program.solve(2 * c1 - 1 + 0.02).differences.max() <= 2 * c1 - 1 + 0.02 + 1e-9


@pytest.mark.parametrize("kind", KINDS)
def test_its_numbers_are_those_of_training_on_all_rows(kind):
    X, y, g = rows(3, groups="abc")
    found = LinearAUC.of(text(kind), X, y, g).solve(0.2)
    problem = FairProblem(
        MLP(4), X, y, g, f"{text(kind)} <= 0.2", objective="auc[surrogate=quadratic]", dtype=torch.float64
    )
    x = torch.zeros(problem.n, dtype=torch.float64)
    with_intercept = problem.model.scores(torch.eye(problem.n, dtype=torch.float64), torch.zeros(1, 4).double()).ravel()
    x[with_intercept == 0] = torch.as_tensor(found.weights)
    measured = problem.values(x, problem.full())
    assert float(measured.f) == pytest.approx(found.loss, abs=1e-10)
    np.testing.assert_allclose(measured.g.numpy() + 0.2, found.differences, atol=1e-10)


def test_moments_of_shards_give_the_same_solution():
    X, y, g = rows(4)
    X[:, 3] = X[:, 0] - X[:, 1]  # a column that the others give
    g = np.where(np.arange(300) % 7 == 0, None, g)
    bound, groups = constraint(text("intra"), bound=0.0), Groups.of(g)
    parts = [np.arange(300) % 3 == r for r in range(3)]
    shards = [moments_of(bound, groups.take(part), y[part], sparse.csr_matrix(X[part])) for part in parts]
    counts = [Occurring.of(groups.take(part), y[part]) for part in parts]
    merged = LinearAUC(bound, counts[0].merge(counts[1]).merge(counts[2]), shards[2].merge(shards[0]).merge(shards[1]))
    whole = LinearAUC.of(bound, X, y, g)
    for kappa in (0.5, 0.1, 0.02):
        one, two = whole.solve(kappa), merged.solve(kappa)
        assert one.loss == pytest.approx(two.loss, abs=1e-10)
        np.testing.assert_allclose(X @ one.weights, X @ two.weights, atol=1e-6)
        assert merged.solve(kappa, start=one).loss == pytest.approx(one.loss, abs=1e-10)


def test_weights_count_as_copies():
    X, y, g = rows(5)
    w = np.random.default_rng(0).integers(0, 3, 300)
    weighted = LinearAUC.of(text("inter"), X, y, g, sample_weight=w).solve(0.1)
    copies = LinearAUC.of(text("inter"), *(np.repeat(part, w, axis=0) for part in (X, y, g))).solve(0.1)
    assert weighted.loss == pytest.approx(copies.loss, abs=1e-10)


def test_what_cannot_be_solved_is_said():
    X, y, g = rows(6)
    for bound, said in (("auc_parity[intra]", "surrogate=quadratic"), ("demographic_parity", "takes one auc_parity")):
        with pytest.raises(OptionError, match=said):
            LinearAUC.of(bound, X, y, g)
    with pytest.raises(OptionError, match="2 attributes apart"):
        LinearAUC.of(text("intra"), X, y, {"one": g, "two": g[::-1]})
    with pytest.raises(OptionError, match="kappa must be at least 0"):
        LinearAUC.of(text("intra"), X, y, g).solve(-0.1)
    with pytest.raises(EmptyGroupError):
        LinearAUC.of(text("intra"), X, np.where(g == "a", 0, y), g)
    with pytest.raises(SubproblemError, match="no point meets all constraints"):
        LinearAUC.of(text("group", 2.0), X, y, g).solve(0.1)


def test_a9a_has_the_known_solution(data_dir):
    data = fb.data.load("a9a", data_dir)
    train, test = data.splits["train"], data.splits["test"]
    sex = data.group("sex")
    program = LinearAUC.of(text("group"), data.X[train], data.y[train], sex[train])
    free, bound = program.solve(1e9), program.solve(0.2)
    for found, area, gap in ((free, 0.8998, 0.246), (bound, 0.8795, 0.007)):
        s = data.X[test] @ found.weights
        assert auc(s, data.y[test]) == pytest.approx(area, abs=1e-4)
        assert fb.measure("auc_parity[group]", s, data.y[test], sex[test], threshold=0) == pytest.approx(gap, abs=6e-4)
