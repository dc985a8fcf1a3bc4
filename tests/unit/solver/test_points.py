"""A run begins at a finite point of the domain, and calls no point feasible that lies outside it or whose values are NaN."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

import fairbound as fb
from fairbound.base.errors import NonFiniteError, OptionError
from fairbound.methods import SGD
from fairbound.solver.points import outside
from fairbound.testing.problems import PROBLEMS


class Unprojected(SGD):
    """SGD that forgets the domain."""

    def step(self, state, problem, draws):
        _, slope = problem.gradient(state.x, draws("zeta", state.k), (1.0, None))
        return replace(state, x=state.x - 0.1 * slope, k=state.k + 1)


@pytest.mark.parametrize("name", ["box", "ball", "simplex"])
def test_a_start_outside_the_domain_is_refused_and_the_nearest_point_of_it_taken(name):
    problem = PROBLEMS[name]()
    far = torch.full((problem.n,), 2.0, dtype=torch.float64)
    with pytest.raises(OptionError, match=r"x0 lies outside the problem's domain, by .*project"):
        fb.solve(problem, "alm", budget="5 steps", x0=far)
    near = problem.domain.project(far)
    assert outside(problem, far) > 0 == outside(problem, near)
    fb.solve(problem, "alm", budget="5 steps", x0=near)


@pytest.mark.parametrize(
    ("x0", "error", "said"),
    [
        ([0.0, 0.0, 0.0], OptionError, r"must be a torch tensor of real numbers of shape .* got a list"),
        (torch.zeros(3, dtype=torch.int64), OptionError, "real numbers"),
        (torch.tensor([0.0, math.nan, 0.0], dtype=torch.float64), NonFiniteError, "x0 holds NaN"),
    ],
)
def test_what_is_no_point_is_refused_as_a_start(x0, error, said):
    with pytest.raises(error, match=said):
        fb.solve(PROBLEMS["box"](), "alm", budget="5 steps", x0=x0)


def test_a_method_that_leaves_the_domain_finds_nothing_feasible_there():
    problem = PROBLEMS["simplex"]()
    solution = fb.solve(problem, Unprojected(), budget="200 steps")
    assert outside(problem, solution.last) > 0.01
    assert not solution.feasible or outside(problem, solution.x) == 0


@pytest.mark.parametrize("stack", [False, True])
@pytest.mark.parametrize("part", ["f", "g"])
def test_nan_that_first_appears_in_the_search_after_the_last_step_is_skipped_or_raised_as_asked(part, stack):
    """Points of the search lie beside the iterates: NaN of some of them is theirs, not the end of a run."""

    def made():
        problem = PROBLEMS["active"]()
        evaluate, seen = problem.evaluate, []

        def lost(x):  # NaN at all points that no record asks for
            found = evaluate(x)
            seen.append(x)
            known = len(seen) <= records
            return found if known else replace(found, **{part: getattr(found, part) * math.nan})

        problem.evaluate = lost
        return problem

    records = math.inf
    options = {"budget": "60 steps", "record_every": 20, "seed": (0, 1) if stack else 0}
    whole = fb.solve(made(), "alm", **options)
    records = len(whole.records)
    with pytest.raises(NonFiniteError):
        fb.solve(made(), "alm", **options)
    skipped = fb.solve(made(), "alm", nonfinite="skip", **options)
    assert skipped.counts.nonfinite > 0 and skipped.steps == 60 and len(skipped.records) == records
    assert bool(torch.isfinite(skipped.x).all())


@pytest.mark.parametrize(("part", "said"), [("f", "as the objective"), ("g", "for the constraint")])
def test_nan_from_a_problem_is_told_at_once(part, said):
    problem = PROBLEMS["box"]()
    evaluate = problem.evaluate

    def lost(x):
        found = evaluate(x)
        return replace(found, **{part: getattr(found, part) * math.nan})

    problem.evaluate = lost
    with pytest.raises(NonFiniteError, match=said):
        fb.solve(problem, "alm", budget="5 steps")
