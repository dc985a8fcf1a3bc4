"""What `solve` says of a problem of one's own where training met the bounds nowhere but at its start."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

import fairbound as fb
from fairbound.instances import instance
from fairbound.methods import ALM, SGD, FullBatchALM
from fairbound.methods.method import has_step_size
from fairbound.problems.domain import Ball
from fairbound.solver.solve import _divergence
from fairbound.testing.known import KnownProblem
from twelve_rows import convex_fair, tiny


def hill():
    """min (x - 3)^2 subject to x <= 0.5 in a ball; the start meets the bound."""
    functions = lambda x: [(x[..., 0] - 3).square(), x[..., 0] - 0.5]  # noqa: E731
    slopes = lambda x: [2 * (x - 3), torch.ones_like(x)]  # noqa: E731
    return KnownProblem("hill", functions, slopes, [0.0], convex_fair().optimum, 1, domain=Ball(radius=50.0))


def test_the_result_between_the_start_and_an_iterate_is_said_to_be_one():
    problem = hill()
    found = fb.solve(problem, SGD(step_size=0.1), budget="100 steps")
    start = problem.start([0])
    assert not found.found and int(found.best_step) == 0 and bool(found.feasible)
    assert float(start) < float(found.x) <= 0.5 < float(found.last)
    assert "The result is that point, or a better one between it and iterates that missed them." in found.message
    assert "step size or method" in found.message and "groups" not in found.message and "led away" not in found.message


def test_steps_that_lead_away_from_objective_and_bounds_are_named():
    found = fb.solve(hill(), ALM(step_size=30.0, margin=0.0), budget="1 steps")
    assert float(found.last) > 6.5, "beyond 6 the objective exceeds that of the start"
    assert "objective rose from 9" in found.message and "largest violation from 0 to" in found.message
    assert "smaller step size" in found.message
    assert has_step_size(ALM()) and has_step_size(None) and not has_step_size(FullBatchALM())


@pytest.mark.parametrize("method", [FullBatchALM(), ALM(step_size=30.0, margin=0.0)], ids=lambda m: m.name)
def test_a_step_size_is_named_where_there_is_one(method):
    run = SimpleNamespace(
        recorder=SimpleNamespace(rows=[{"train": {"f": 1.0, "g": [0.1]}}, {"train": {"f": 2.0, "g": [0.3]}}]),
        settings=SimpleNamespace(method=method),
    )
    said = _divergence(run)
    assert "objective rose from 1 to 2" in said and "from 0.1 to 0.3" in said
    assert ("smaller step size" in said) == hasattr(method, "step_size")
    assert fb.solve(tiny(), method, budget="1 steps").method == method


def test_bounds_on_groups_have_advice_on_groups():
    found = fb.solve(tiny(), SGD(step_size=50.0), budget="1 steps")
    assert "merge small groups" in found.message and "another step size or method" not in found.message


def test_a_problem_without_rows_is_not_said_to_be_met_on_rows():
    problem = instance("inventory-2-10-10")
    met = fb.solve(problem, "certified_level_set", budget="200 steps")
    assert problem.rows == 1 and met.message.startswith("every bound is met") and "rows" not in met.message
    both = fb.solve(problem, "certified_level_set", budget="200 steps", validation=problem)
    assert both.message.startswith("every bound is met on the problem and on that of validation")
    missed = fb.solve(hill(), SGD(step_size=0.1), budget="3 steps", x0=torch.tensor([2.0], dtype=torch.float64))
    assert missed.message.startswith("no iterate met every bound on the training rows; the smallest excess")
