"""Where areas with group terms begin: one score, scaled and shifted for each group; and bounds met on validation rows too."""

import numpy as np
import pytest
import torch

import fairbound as fb
from fairbound.estimators.linear.auc_training import Start, auc_start
from fairbound.estimators.linear.group_starts import area_start
from fairbound.estimators.runs import solution_of
from fairbound.fairness.problem import FairProblem
from fairbound.methods import FullBatchALM
from fairbound.models.mlp import MLP
from fairbound.ranking.wins import auc
from fairbound.solver.solve import solve
from fairbound.tables.group_terms import with_terms

RUN = {"budget": "15 steps", "sampling": "full"}


def rows(n=200, seed=0, groups=2):
    """Rows of groups whose scores differ in place and in spread."""
    rng = np.random.default_rng(seed)
    code = rng.integers(0, groups, n)
    X = rng.normal(size=(n, 3)) * (1 + code[:, None]) + code[:, None]
    y = (X[:, 0] + X[:, 1] + rng.normal(size=n) > 1).astype(int)
    return X, y, code


def problem_of(X, y, code, bound, terms=True, bias=True):
    F = with_terms(X, code, code.max() + 1) if terms else X
    return FairProblem(MLP(F.shape[1], bias=bias), F, y, np.array(list("abc"))[code], bound, objective="auc")


def shared(x, d, groups):
    """(groups, d) the weights that x gives the rows of each group, and (groups,) their shifts."""
    own, rest = x[:d], x[d : d + (groups - 1) * (d + 1)].reshape(groups - 1, d + 1)
    return np.vstack([own, own + rest[:, 1:]]), np.r_[0.0, rest[:, 0]]


@pytest.mark.parametrize(
    ("groups", "bias"),
    [(2, False), (3, True), *(pytest.param(*more, marks=pytest.mark.long) for more in ((2, True), (3, False)))],
)
def test_the_start_is_one_score_scaled_and_shifted(groups, bias, monkeypatch):
    X, y, code = rows(groups=groups)
    made = problem_of(X, y, code, "auc_parity[group] <= 0.02", bias=bias)
    poor = Start(torch.zeros(made.n), 1.0, True)  # the score of 0 meets the bound, and has a smaller area
    exact = lambda problem, held: poor if problem is made else auc_start(problem, held)  # noqa: E731
    monkeypatch.setattr("fairbound.estimators.linear.group_starts.auc_start", exact)
    start = area_start(made, None, groups)
    weights, shifts = shared(start.x.numpy(), 3, groups)
    first = weights[0] / np.linalg.norm(weights[0])
    assert start.met and np.abs(weights - np.outer(weights @ first, first)).max() < 1e-5 * np.abs(weights).max()
    assert np.ptp(weights @ first) > 1e-3 and np.abs(shifts[1:]).min() > 1e-3
    free = problem_of(X, y, code, "auc_parity[group] <= 1", terms=False, bias=False)
    best = solve(free, FullBatchALM(), **RUN).x.numpy()
    assert best @ first > 0.999 * np.linalg.norm(best)  # of the largest area without a bound


@pytest.mark.parametrize("seed, kind", [(0, "group"), pytest.param(1, "inter", marks=pytest.mark.long)])
def test_group_terms_rank_no_worse_than_scaling_and_shifting(seed, kind):
    """Scores of the best model without a bound, scaled and shifted on a grid, are linear scores with group terms."""
    X, y, code = rows(seed=seed)
    group = np.array(list("ab"))[code]
    free = solve(problem_of(X, y, code, f"auc_parity[{kind}] <= 1", terms=False, bias=False), FullBatchALM(), **RUN)
    moved = fb.ScaleAndShift(f"auc_parity[{kind}] <= 0.03").fit(X @ free.x.double().numpy(), y, group)
    made = problem_of(X, y, code, f"auc_parity[{kind}] <= 0.03")
    start = area_start(made, None, 2)
    assert moved.met_ and start.met and float(made.evaluate(start.x).violation) == 0
    assert 1 - float(made.evaluate(start.x).f) > moved.auc_ - 1e-3
    model = fb.FairClassifier(f"auc_parity[{kind}] <= 0.03", objective="auc", group_terms=True, random_state=0)
    scores = model.fit(X, y, sensitive_features=group).decision_function(X, sensitive_features=group)
    assert auc(scores, y == 1, y == 0) > moved.auc_ - 1e-3 and model.fit_report_["feasible"]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
def test_bounds_that_validation_rows_miss_become_constraints(seed):
    """Signed differences of the two parts lie on either side of 0, so that less of one is more of the other."""
    X, y, code = rows(400, seed)
    bound = "auc_parity[group] <= 0.05"
    made, beside = (problem_of(X + more * code[:, None], y, code, bound, terms=False) for more in (0.0, 0.25))
    once, found = (run(made, FullBatchALM(), validation=beside, **RUN) for run in (solve, solution_of))
    assert float(beside.evaluate(once.last).violation) > 0 and found.steps > once.steps
    assert float(made.evaluate(found.last).violation) <= 1e-4 and float(beside.evaluate(found.last).violation) <= 1e-4
    assert bool(found.feasible) and all(float(p.evaluate(found.x).violation) == 0 for p in (made, beside))
    assert not once.feasible or float(beside.evaluate(found.x).f) <= float(beside.evaluate(once.x).f)
    assert ("constraints of training" in found.message) == (not torch.equal(found.x, once.x))
    assert all(len(row["multipliers"]) == made.m for row in found.records)
    assert found.records[-1]["multipliers"] == pytest.approx(found.state.multipliers.view(2, -1).sum(0).tolist())
    alone = [run(made, FullBatchALM(), **RUN).steps for run in (solve, solution_of)]
    assert alone[0] == alone[1] < found.steps


@pytest.mark.long
def test_a_classifier_says_that_validation_rows_were_constraints():
    X, y, code = rows(400, 8)
    model = fb.FairClassifier("auc_parity[inter] <= 0.02", objective="auc", validation=0.3, random_state=1)
    report = model.fit(X, y, sensitive_features=code).fit_report_
    assert "constraints of training" in report["message"] and report["feasible"]
    assert any("(validation rows)" in name for name in report["optimality"]["multipliers"])


def test_a_large_margin_is_kept():
    X, y, code = rows()
    made = problem_of(X, y, code, "auc_parity[group] <= 0.05", terms=False)
    found = solve(made, FullBatchALM(margin=0.8), **RUN)
    assert float(made.evaluate(found.last).g.max()) < -0.6 * 0.05
    far = solve(
        made, FullBatchALM(margin=0.8, penalty=1e-6, sharpness=(1.0,), iterations=2), **RUN | {"budget": "2 steps"}
    )
    assert float(made.evaluate(far.last).g.max()) > 0  # rounds that end outside do not lower it
    assert (far.state.margin >= 0.8 * 0.05 - 1e-8).all()
