"""The last way from the best iterate that meets the bounds towards one of lower objective that does not."""

from __future__ import annotations

import pytest
import torch

from fairbound.solver.best import BISECTIONS, Best


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
    assert float(best.violation) == 0 and int(best.step) == 2


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
