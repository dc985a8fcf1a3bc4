"""The last way from the best iterate that meets the bounds towards one of lower objective that does not."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fairbound.fairness.problem import FairProblem
from fairbound.models.mlp import MLP
from fairbound.solver.best import BISECTIONS, Best
from fairbound.solver.solve import solve


def measure(x):
    """f falls along the first axis, and the bound is that the first entry is at most 0.3, of run 1 at most 0.7."""
    limit = torch.tensor([0.3, 0.7], dtype=x.dtype)[: x.shape[0]] if x.dim() > 1 else 0.3
    return -x[..., 0], (x[..., 0] - limit).clamp_min(0)


def offered(*points):
    best = Best.none(points[0])
    for step, x in enumerate(points):
        best.offer(x, *measure(x), step)
    return best


def test_it_ends_within_a_halving_of_the_bound():
    best = offered(torch.zeros(2), torch.tensor([1.0, 0.5]))
    best.land(measure, 2)
    assert 0.3 - 2.0**-BISECTIONS <= float(best.x[0]) <= 0.3
    assert float(best.x[1]) == pytest.approx(0.5 * float(best.x[0]))
    assert float(best.violation) == 0 and int(best.step) == 0


@pytest.mark.parametrize(("limit", "found"), [(0.3, False), (0.7, True)])
def test_a_point_landed_from_the_start_counts_from_half_of_what_training_gained(limit, found):
    bounded = lambda x: (-x[..., 0], (x[..., 0] - limit).clamp_min(0))  # noqa: E731
    best = Best.none(torch.zeros(2))
    for step, x in enumerate((torch.zeros(2), torch.tensor([1.0, 0.5]))):
        best.offer(x, *bounded(x), step)
    best.land(bounded, 2)
    assert float(best.x[0]) == pytest.approx(limit, abs=2.0**-BISECTIONS) and best.found == found
    assert int(best.step) == (2 if found else 0)


def test_a_point_landed_from_a_later_iterate_counts_however_near_to_it():
    best = offered(torch.zeros(2), torch.tensor([0.29, 0.0]), torch.tensor([1.0, 0.5]))
    best.land(measure, 2)
    assert best.found and int(best.step) == 2


def test_every_run_of_a_stack_lands_by_itself():
    start = torch.zeros(2, 2)
    best = offered(start, torch.tensor([[1.0, 0.0], [1.0, 0.0]]))
    best.land(measure, 2)
    assert torch.allclose(best.x[:, 0], torch.tensor([0.3, 0.7]), atol=2.0**-BISECTIONS)
    assert bool((best.violation == 0).all())


def test_nothing_moves_where_no_late_iterate_is_better_or_none_met_the_bounds():
    worse = offered(torch.tensor([0.2, 0.0]), torch.tensor([-1.0, 0.0]))
    worse.land(measure, 2)
    assert float(worse.x[0]) == pytest.approx(0.2) and int(worse.step) == 0
    missed = offered(torch.tensor([0.9, 0.0]), torch.tensor([0.8, 0.0]))
    missed.land(measure, 2)
    assert float(missed.x[0]) == pytest.approx(0.8) and float(missed.violation) > 0


# -- points that the problem itself finds nearer to its bounds -------------------------------------------------------


def approached(best, nearer, **options):
    return best.approach(measure, 5, nearer=nearer, generator=torch.Generator().manual_seed(0), **options)


def test_the_lowest_of_the_points_that_the_problem_finds_is_taken():
    best = offered(torch.zeros(2), torch.tensor([0.9, 0.5]), torch.tensor([0.8, 0.25]))
    assert approached(best, lambda x: x * torch.tensor([0.3, 1.0]))
    assert torch.allclose(best.x, torch.tensor([0.27, 0.5])) and int(best.step) == 5 == int(best.met)
    assert float(best.f) == pytest.approx(-0.27) and float(best.violation) == 0


def test_a_point_of_higher_objective_or_outside_the_bounds_is_not_taken():
    best = offered(torch.zeros(2), torch.tensor([0.25, 0.0]), torch.tensor([0.9, 0.0]))
    for far in (0.2, 0.4):
        assert approached(best, lambda x, far=far: torch.tensor([far, 1.0]))
        assert torch.equal(best.x, torch.tensor([0.25, 0.0])) and int(best.step) == 1


def test_the_best_iterate_is_bettered_too_and_every_run_by_itself():
    best = offered(torch.zeros(2, 2), torch.tensor([[0.1, 0.0], [0.2, 0.0]]))
    for run in range(2):
        one = lambda x, run=run: (-x[0], (x[0] - (0.3, 0.7)[run]).clamp_min(0))  # noqa: E731
        assert best.approach(one, 5, nearer=lambda x: 2 * x, run=run, generator=torch.Generator())
    assert torch.allclose(best.x[:, 0], torch.tensor([0.2, 0.4])) and best.step.tolist() == [5, 5]


def test_where_no_point_meets_the_bounds_others_beside_the_nearest_are_tried():
    best, seen = offered(torch.zeros(2), torch.tensor([0.9, 0.5]), torch.tensor([0.8, 0.25])), []

    def nearer(x):
        """Every point is left where it is but the fourth, which is random."""
        seen.append(x)
        return x * (torch.tensor([0.3, 1.0]) if len(seen) == 4 else 1.0)

    assert approached(best, nearer) and len(seen) == 4 and best.found and float(best.violation) == 0
    beside = torch.tensor([0.8, 0.25])
    assert all(0 < float((x - beside).norm()) < 0.05 for x in seen[2:])


def test_a_start_that_alone_meets_the_bounds_is_bettered_and_still_said_to_be_the_start():
    best = offered(torch.zeros(2), torch.tensor([0.9, 0.5]))
    best.better_start(measure, nearer=lambda x: x + torch.tensor([0.2, 0.0]))
    assert torch.equal(best.x, torch.tensor([0.2, 0.0])) and float(best.f) == pytest.approx(-0.2)
    assert (
        int(best.step) == 0
        and not best.found
        and "only the starting point meets them" in best.verdict(" on the training rows", True)
    )


def test_a_start_that_is_better_than_iterates_that_meet_the_bounds_is_said_to_be_the_result():
    best = offered(torch.tensor([0.2, 0.0]), torch.tensor([0.1, 0.0]))
    assert int(best.step) == 0 and best.found
    assert "lowest at the starting point, which is the result" in best.verdict(" on the training rows", True)
    assert (
        offered(torch.zeros(2), torch.tensor([0.1, 0.0])).verdict(" on the training rows", True)
        == "every bound is met on the training rows."
    )


def test_a_start_is_left_where_an_iterate_met_the_bounds_or_none_missed_them():
    for best in (offered(torch.zeros(2), torch.tensor([0.1, 0.0]), torch.tensor([0.9, 0.5])), offered(torch.zeros(2))):
        before = best.x.clone()
        best.better_start(measure, nearer=lambda x: x + torch.tensor([0.2, 0.0]))
        assert torch.equal(best.x, before)


@pytest.mark.parametrize("method", ["sgd", "alm", "full_batch_alm:thresholds"])
def test_whatever_the_method_a_constant_that_alone_meets_the_bounds_decides_as_most_rows_are_labelled(method):
    rng = np.random.default_rng(0)
    group, X = np.repeat(["a", "b"], 40), rng.normal(size=(80, 2))
    y = (rng.random(80) < 0.8).astype(int)
    problem = FairProblem(MLP(2), X, y, group, "partial_statistical_parity[0.1:0.6] <= 0.001", dtype=torch.float64)
    found = solve(problem, method, budget="3 steps", seed=0)
    assert found.feasible and not found.found
    score = problem.all_scores(found.x)
    assert torch.allclose(score, torch.full_like(score, float(np.log(y.mean() / (1 - y.mean())))), atol=1e-3)


def test_it_says_where_the_problem_knows_no_nearer_point():
    best = offered(torch.zeros(2), torch.tensor([0.9, 0.5]))
    before = best.x.clone()
    assert not approached(best, lambda x: None) and torch.equal(best.x, before)
    assert approached(best, lambda x: 0.1 * x, stopped=lambda: True) and torch.equal(best.x, before)


# -- the search where no iterate met the bounds ---------------------------------------------------------------------


def staircase(x):
    """f is the distance from (1, 1); the bound holds in narrow rings about it, of which 2 in 5 do."""
    f = (x - 1).norm(dim=-1)
    return f, torch.where((f * 50).long() % 5 < 2, 0.0, 0.1 + 0 * f)


def searched(best, seed=0, points=1500, project=lambda x: x):
    best.search(staircase, 7, project=project, points=points, generator=torch.Generator().manual_seed(seed))
    return best


def missed():
    """A run whose only late iterate misses the bound by a ring's width."""
    start, late = torch.tensor([0.0, 0.0]), torch.tensor([1.0, 1.05])
    best = Best.none(start)
    best.offer(start, torch.tensor(9.0), torch.tensor(0.0), 0)
    best.offer(late, *staircase(late), 1)
    assert float(best.recent_violation[-1]) > 0 and not best.found
    return best


@pytest.mark.parametrize("seed", range(5))
def test_a_point_near_a_late_iterate_meets_the_bound_where_none_did(seed):
    best = searched(missed(), seed)
    f, violation = staircase(best.x)
    assert best.found and float(violation) == 0 == float(best.violation) and int(best.step) == 7
    assert float(f) == pytest.approx(float(best.f)) and float(f) < 0.05  # the rings inside that of the iterate
    assert torch.equal(best.x, searched(missed(), seed).x)


def test_a_start_that_meets_the_bound_is_not_given_up_for_a_worse_point():
    """A run that begins at the solution of another bound, and leaves it for good."""
    best = missed()
    best.f = torch.tensor(1e-4, dtype=torch.float64)
    start = best.x.clone()
    searched(best)
    assert torch.equal(best.x, start) and not best.found and float(best.f) == 1e-4


def test_a_search_stays_in_the_domain_and_goes_on_from_the_point_that_misses_least():
    far = torch.tensor([3.0, 3.0])

    def slope(x):
        return x.norm(dim=-1), (x.norm(dim=-1) - 1.5).clamp_min(0)

    best = Best.none(torch.zeros(2))
    best.offer(far, *slope(far), 1)
    seen = []
    best.search(
        lambda x: (seen.append(x), slope(x))[1], 3, project=lambda x: x.clamp_min(0.5), points=1500,
        generator=torch.Generator().manual_seed(0),
    )  # fmt: skip
    assert len(seen) > 1 and all(float(x.min()) >= 0.5 for x in seen)
    assert best.found and float(best.x.norm()) <= 1.5


@pytest.mark.parametrize("seed", range(5))
def test_a_chain_that_ends_nowhere_is_followed_by_one_from_another_late_iterate(seed):
    dead_end, other = torch.tensor([5.0, 0.0]), torch.tensor([-6.5, 0.0])

    def two_valleys(x):
        """Right of 0 the violation is at least 0.05, at the dead end; left of it a disc of radius 1/2 meets the bound."""
        right, left = 0.05 + (x - dead_end).norm(dim=-1), ((x + dead_end).norm(dim=-1) - 0.5).clamp_min(0)
        return x.norm(dim=-1), torch.where(x[..., 0] > 0, right, left)

    best = Best.none(torch.zeros(2))
    for step, x in enumerate((other, dead_end), 1):
        best.offer(x, *two_valleys(x), step)
    best.search(two_valleys, 3, project=lambda x: x, points=1500, generator=torch.Generator().manual_seed(seed))
    assert best.found and float((best.x + dead_end).norm()) <= 0.5


def test_a_search_ends_when_it_is_told_to():
    best, before = missed(), missed().x
    best.search(staircase, 7, project=lambda x: x, points=1500, generator=torch.Generator(), stopped=lambda: True)
    assert torch.equal(best.x, before) and not best.found


def test_nothing_is_searched_where_an_iterate_met_the_bounds_or_training_saw_few_rows():
    best = missed()
    before = best.x.clone()
    assert torch.equal(searched(best, points=9).x, before) and not best.found
    inside = torch.tensor([1.0, 1.01])
    best.offer(inside, *staircase(inside), 2)
    assert best.found and torch.equal(searched(best).x, inside)
