"""Linear models of few distinct rows, moved along lines."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from scipy.optimize import check_grad
from scipy.special import expit

import fairbound as fb
from fairbound.fairness.lines import sweeping
from fairbound.fairness.lines.sweeping import FewRows
from fairbound.fairness.objectives import ClassLoss
from fairbound.fairness.problem import FairProblem
from fairbound.models.mlp import MLP

BOUNDS = ("demographic_parity <= 0.05", "equalized_odds <= 0.1", "error_rate_parity <= 0.1")


def rows(n=600, side=5, seed=0):
    """(n, 2) features with `side` values each, labels, groups and weights."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 3, n)
    X = np.clip(rng.integers(0, side, (n, 2)) + (rng.random((n, 2)) < 0.3 * group[:, None]), 0, side - 1)
    y = (rng.random(n) < expit(1.5 * X[:, 0] - X[:, 1] - 1)).astype(int)
    return X.astype(np.float64), y, group, rng.integers(1, 4, n)


def problem(stated=BOUNDS[0], objective="accuracy", weighted=False, **options):
    X, y, group, weight = rows(**options)
    more = {"sample_weight": weight} if weighted else {}
    return FairProblem(MLP(2), X, y, group, stated, objective=objective, dtype=torch.float64, **more)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("stated", "objective", "share"),
    [*((bound, "accuracy", 0.9) for bound in BOUNDS), ("predictive_parity <= 0.2", None, 0.0)],
)
def test_bounds_and_objective_of_a_division_are_those_of_the_rows(stated, objective, share, weighted):
    made = problem(stated, objective, weighted)
    few = FewRows.of(made)
    assert len(few.rows) == 25
    for x in torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1)):
        measured, scores = made.evaluate(x), few.rows @ x.numpy()
        g = made.contrasts.values(torch.as_tensor(few.none + (scores > 0) @ few.each))[0]
        torch.testing.assert_close(g, measured.g)
        of_line = few._best(scores, 0 * scores, np.zeros(1), share, lambda q: np.zeros(1))
        assert of_line[1] == pytest.approx(float(measured.f))


@pytest.mark.parametrize("stated", BOUNDS[:2])
def test_the_best_division_is_found_from_anywhere(stated):
    """Of all lines through pairs of a grid's points, beside which every way to divide them lies."""
    made = problem(stated, side=4)
    few = FewRows.of(made)
    normals = []
    for a, b in itertools.combinations(few.rows, 2):
        normal = np.cross(a, b)
        for turn, shift in itertools.product((-1e-3, 0, 1e-3), (-1e-3, 0, 1e-3)):
            tilted = normal + turn * np.cross(normal, [0, 0, 1]) + shift * np.array([0, 0, np.abs(normal).max()])
            normals += [tilted, -tilted]
    tried = made.evaluate(torch.as_tensor(np.array(normals)))
    least = 1 - float(tried.extra["accuracy"][tried.violation == 0].max())
    starts = torch.randn(20, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    missed = starts[made.evaluate(starts).violation > 0][:3]
    assert len(missed) == 3
    for x in missed:
        measured = made.evaluate(made.nearer(x))
        assert float(measured.violation) == 0
        assert 1 - float(measured.extra["accuracy"]) <= least + 1e-9


def test_a_point_of_a_line_has_the_lowest_loss_beside_its_crossings():
    few = FewRows.of(problem())
    scores, along = few.rows @ np.array([0.5, -0.2, 0.1]), few.rows @ np.array([0.1, 0.3, -0.45])

    def loss(t):
        at = scores + t[0] * along
        return np.logaddexp(0, -at) @ few.positive + np.logaddexp(0, at) @ few.negative

    def slope(t):
        return [along @ ((few.positive + few.negative) * expit(scores + t[0] * along) - few.positive)]

    assert check_grad(loss, slope, [0.3]) < 1e-6
    best = few._lowest(scores, along, np.abs(along).max())
    assert abs(slope([best])[0]) < 1e-6
    points = few._between(scores, along)
    signs = {tuple(scores + t * along > 0) for t in points}
    assert len(signs) == len(points) == len(np.unique(np.round(-scores / along, 9))) + 1
    assert np.min(np.abs(points - best)) < 1e-9


def test_other_problems_have_no_lines():
    X, y, group, _ = rows()
    many = np.random.default_rng(0).normal(size=X.shape)
    for made in (
        FairProblem(MLP(2), many, y, group, BOUNDS[0]),
        FairProblem(MLP(2, (3,)), X, y, group, BOUNDS[0]),
        FairProblem(MLP(2), X, y, group, BOUNDS[0], loss="hinge"),
        FairProblem(MLP(2), X, y, group, BOUNDS[0], objective=ClassLoss(1)),
        FairProblem(MLP(2), X, y, group, "group_loss <= 0.1"),
        FairProblem(MLP(2), X, y, group, "auc_parity[inter] <= 0.1"),
        FairProblem(MLP(2), X, y),
    ):
        assert FewRows.of(made) is None


def test_few_distinct_rows_late_in_a_table_are_not_taken_for_few():
    X, y, group, _ = rows(n=3000)
    X[:1000] = np.random.default_rng(0).normal(size=(1000, 2))
    order = np.r_[1000:3000, :1000]
    assert FewRows.of(FairProblem(MLP(2), X[order], y[order], 0 * group + (np.arange(3000) > 2000), BOUNDS[0])) is None


def test_zeros_of_either_sign_are_one_number():
    _, y, group, _ = rows(n=3000)
    X = np.column_stack([np.arange(3000) % 150, np.random.default_rng(1).choice([-0.0, 0.0], 3000)])
    assert len(FewRows.of(FairProblem(MLP(2), X, y, group, BOUNDS[0])).rows) == 150


def passengers(seed, n=900):
    """Two columns of a ship's passengers, whether they were saved, and their class: women of every class, and rich men, were."""
    rng = np.random.default_rng(seed)
    ship = rng.choice(3, n, p=(0.25, 0.2, 0.55))
    woman = (rng.random(n) < np.array([0.45, 0.38, 0.28])[ship]).astype(float)
    age = np.round(np.clip(rng.normal(np.array([39, 29, 25])[ship], 13), 1, 75))
    saved = rng.random(n) < np.where(woman == 1, np.array([0.96, 0.88, 0.47])[ship], np.array([0.34, 0.15, 0.15])[ship])
    return np.column_stack([woman, age]), saved.astype(int), ship


@pytest.mark.parametrize("seed", [1, pytest.param(23, marks=pytest.mark.long)])
def test_no_model_of_few_distinct_rows_is_left_near_a_constant(seed):
    """Where training alone ends near one, which rounding may decide: without lines both ships lose their gain here."""
    X, y, ship = passengers(seed)
    fair = fb.FairClassifier("demographic_parity <= 0.05", weight_decay=0.0).fit(X, y, sensitive_features=ship)
    assert fair.fit_report_["feasible"] and fair.fit_report_["constraints"][0]["train_value"] <= 0.05
    assert fair.score(X, y) > max(y.mean(), 1 - y.mean()) + 0.05


def test_a_model_that_meets_the_bounds_stays_where_another_is_not_clearly_more_accurate(monkeypatch):
    made = problem()
    starts = torch.randn(50, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    met = starts[made.evaluate(starts).violation == 0]
    worst = met[made.evaluate(met).extra["accuracy"].argmin()]
    moved = made.nearer(worst)
    few = FewRows.of(made)
    before, after = (few.rows @ x.numpy() > 0 for x in (worst, moved))
    right, of = few.positive - few.negative, few.positive + few.negative
    wins = len(made.targets) * right @ (after * 1.0 - before)
    changed = len(made.targets) * of @ (after != before)
    assert few.gained(worst.numpy(), moved.numpy()) == pytest.approx(wins / changed**0.5)
    assert wins > sweeping.CLEARLY * changed**0.5
    monkeypatch.setattr(sweeping, "CLEARLY", 1.01 * wins / changed**0.5)
    assert made.nearer(worst) is None


def test_a_start_of_zeros_leads_somewhere():
    made = problem()
    few, x = FewRows.of(made), np.zeros(3)
    moved = few.moved(x, 0.97, lambda q: np.zeros(len(q)), np.random.default_rng(0))
    assert few.gained(x, moved) > 0
    assert float(made.evaluate(made.nearer(torch.as_tensor(x))).violation) == 0


def test_the_model_without_bounds_is_where_the_loss_is_flat():
    few = FewRows.of(problem())
    p = expit(few.rows @ few.free())
    np.testing.assert_allclose(few.rows.T @ ((few.positive + few.negative) * p - few.positive), 0, atol=1e-4)


def test_scores_have_the_scale_of_lowest_loss():
    made = problem()
    x = made.nearer(torch.tensor([1.0, -1.0, 0.0], dtype=torch.float64))
    losses = [float(made.evaluate(scale * x).extra["loss"]) for scale in (0.98, 1.0, 1.02)]
    assert losses[1] < min(losses[0], losses[2])
