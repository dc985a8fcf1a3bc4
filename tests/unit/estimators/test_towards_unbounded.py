"""Linear models moved towards the one without bounds, where training under bounds on areas or distributions ended far
inside them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

import fairbound as fb
from fairbound.estimators.gains import area
from fairbound.estimators.linear import full_batch
from fairbound.estimators.linear.lowest_loss import lowest_loss
from fairbound.estimators.linear.towards_unbounded import moved_outward
from fairbound.fairness.objectives import Accuracy
from fairbound.fairness.problem import FairProblem
from fairbound.models.mlp import MLP
from fairbound.solver.solve import solve

never = partial(bool, 0)


def rows(n=1500, seed=0):
    """Two features that tell the label, the first one in group 1 alone, and two groups."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 3))
    y = (np.where(group == 1, X[:, 0], 0.3 * X[:, 2]) + X[:, 1] + rng.logistic(size=n) > 0).astype(int)
    return X.astype(np.float32), y, group


def ended_at(problem, x):
    """A solution of the problem at x (n,), which meets the bounds and is its start."""
    x = torch.as_tensor(x, dtype=torch.float32)
    assert float(problem.evaluate(x).violation) == 0
    ended = solve(problem, "full_batch_alm", x0=x, budget="1 steps")
    return replace(ended, x=x, feasible=torch.tensor(True), best_step=torch.tensor(0))


@pytest.mark.parametrize("objective", ["auc", None])
def test_a_model_far_inside_a_bound_on_areas_is_moved_to_it(objective):
    X, y, group = rows()
    problem = FairProblem(MLP(3), X, y, group, "auc_parity[intra] <= 0.03", objective=objective)
    before = ended_at(problem, [0.2, 0.5, 0.3, 0.0])
    assert float(problem.evaluate(before.x).extra["stated"]) < 0.02
    after = moved_outward(problem, problem, before, 0.0, never)
    found = problem.evaluate(after.x)
    assert float(found.violation) == 0 and 0.02 < float(found.extra["stated"]) <= 0.03
    assert float(found.f) < float(problem.evaluate(before.x).f) - 0.001
    assert "moved towards the one without bounds" in after.message
    assert moved_outward(problem, problem, before, 0.0, lambda: True) is before  # no time is left


def test_no_decision_that_was_right_is_given_up_for_a_lower_loss():
    X, y, group = rows(600, seed=7)
    problem = FairProblem(MLP(3), X, y, group, "auc_parity[intra] <= 0.03", objective=Accuracy(0.0))
    before = ended_at(problem, [0.15, 0.5, 0.3, 0.0])
    found = [problem.evaluate(at.x) for at in (before, moved_outward(problem, problem, before, 0.0, never))]
    assert found[1].extra["accuracy"] >= found[0].extra["accuracy"] and found[1].f < found[0].f


def test_scores_rank_no_worse_where_their_order_is_to_stay():
    X, y, group = rows(seed=1)
    X = (2 * X).round() / 2 + 0.5 * group[:, None] * np.array([1, 0, 0], dtype=np.float32)
    problem = FairProblem(MLP(3), X, y, group, "partial_statistical_parity[0.2:0.5] <= 0.1", objective=Accuracy(0.9))
    x = problem.nearer(torch.cat([lowest_loss(problem, 0.0) * 0.5, problem.start([0])[4:]]))
    before = ended_at(problem, x)
    free, kept = (moved_outward(problem, problem, before, 0.0, never, order) for order in (False, True))
    assert area(problem, free.x) < area(problem, before.x) < area(problem, kept.x)


def test_a_constant_gives_way_to_a_model_without_the_columns_that_miss_the_bound():
    """One column tells the groups: mixed with it, however little, the other orders rows of few different values apart."""
    rng = np.random.default_rng(2)
    group, other = rng.integers(0, 2, 600), rng.integers(0, 3, 600)
    X = np.column_stack([rng.integers(0, 4, 600) + group, other]).astype(np.float32)
    y = (0.5 * X[:, 0] - 0.4 * other + 0.3 * group + rng.normal(size=600) > 0.4).astype(int)
    problem = FairProblem(MLP(2), X, y, group, "partial_statistical_parity[0:0.3] <= 0.02")
    before = ended_at(problem, torch.zeros_like(problem.start([0])))
    after = moved_outward(problem, problem, before, 0.0, never)
    assert float(problem.evaluate(after.x).violation) <= 0 and after.found
    assert after.x[0] == 0 and after.x[1] < 0


def test_a_constant_under_a_bound_on_distributions_gives_way_to_a_model():
    X, y, group = rows()
    X = (2 * X).round() / 2 + 0.5 * group[:, None] * np.array([1, 0, 0], dtype=np.float32)
    problem = FairProblem(MLP(3), X, y, group, "partial_statistical_parity[0.2:0.5] <= 0.1")
    before = ended_at(problem, torch.zeros_like(problem.start([0])))
    after = moved_outward(problem, problem, before, 0.0, never)
    found = problem.evaluate(after.x)
    assert float(found.violation) == 0 and float(found.f) < float(problem.evaluate(before.x).f) - 0.02


def test_training_ends_with_that_move(monkeypatch):
    X, y, group = rows()
    moved = lambda problem, aim, solution, *options: replace(solution, message="moved")  # noqa: E731
    monkeypatch.setattr(full_batch, "moved_outward", moved)
    for objective in ("auc", "auto"):
        fair = fb.FairClassifier("auc_parity[intra] <= 0.03", objective=objective).fit(X, y, sensitive_features=group)
        assert fair.fit_report_["message"] == "moved"
