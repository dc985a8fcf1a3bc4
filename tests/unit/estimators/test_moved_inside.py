"""A linear model moved inside the bounds of many groups along lines, where training ended near a constant."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fairbound.estimators.linear.moved_inside import NOTE, moved_inside
from fairbound.estimators.trained import Trained, meeting
from fairbound.fairness.objectives import Accuracy
from fairbound.fairness.problem import FairProblem
from fairbound.methods import FullBatchALM
from fairbound.models.mlp import MLP
from fairbound.solver.budget import Budget
from fairbound.solver.solve import solve

BUDGET = Budget(steps=40)
BOUND = "equalized_odds <= 0.025"


def rows(seed: int, signal: float = 1.5, common: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """1,500 rows of seven groups, whose features lie apart; labels by four of twelve features."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 7, 1500)
    X = rng.normal(size=(1500, 12))
    y = (signal * X[:, :4].sum(1) + rng.logistic(size=1500) > common).astype(int)
    return X + 0.3 * rng.normal(size=(7, 12))[group], y, group


def at_a_constant(X: np.ndarray, y: np.ndarray, group: np.ndarray, bound: str = BOUND, decay: float = 0.0) -> Trained:
    """A run that ended where every row is given one label."""
    problem = FairProblem(MLP(X.shape[1]), X, y, group, bound, objective=Accuracy(0.0))
    method = FullBatchALM()
    solution = solve(problem, method, budget=Budget(steps=1))
    trained = Trained(problem, None, solution, method, BUDGET, [], [], {"weight_decay": decay, "error_share": 0.65})
    return trained._replace(solution=meeting(trained, torch.zeros(problem.n), ""))


def moved(trained: Trained) -> Trained:
    return moved_inside(trained, budget=BUDGET, seed=0, progress=False)


@pytest.mark.parametrize("decay", [pytest.param(0.0, marks=pytest.mark.long), 1e-3])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
def test_a_constant_gives_way_to_a_model_that_meets_the_bounds_of_all_groups(seed: int, decay: float) -> None:
    before = at_a_constant(*rows(seed), decay=decay)
    after = moved(before)
    measured = after.measured()
    assert float(measured.violation) <= 0
    assert float(after.accuracy()) > float(before.accuracy()) + 0.1
    assert after.notes == [NOTE]
    assert bool(after.solution.feasible)
    assert after.solution.steps > before.solution.steps
    assert after.optimality["error_share"] == 0.0
    assert after.optimality["violation"] <= 0


def test_a_model_is_left_alone_where_labels_tell_nothing_or_one_is_common_or_rows_are_held_back() -> None:
    nothing = at_a_constant(*rows(0, signal=0.0), "equalized_odds <= 0.1")
    assert moved(nothing) is nothing
    common = at_a_constant(*rows(0, common=-5.0))
    assert moved(common) is common
    held = at_a_constant(*rows(0))
    held = held._replace(held=held.problem)
    assert moved(held) is held


def test_a_model_is_left_alone_that_decides_more_than_a_constant() -> None:
    before = at_a_constant(*rows(1))
    after = moved(before)
    assert moved(after) is after


def test_a_model_that_lines_leave_outside_the_bounds_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairbound.estimators.linear.moved_inside.fewer_wrong", lambda problem, x: x)
    before = at_a_constant(*rows(0))
    assert float(moved(before).measured().violation) <= 0
