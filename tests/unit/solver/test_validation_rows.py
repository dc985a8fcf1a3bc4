"""Validation rows choose the iterate and train nothing; an iterate must meet the bounds on the training rows too."""

from __future__ import annotations

import pytest
import torch

from fairbound.methods import ALM, SGD, SSLALM, SwitchingSubgradient
from fairbound.solver.solve import solve
from fairbound.testing.known import KnownProblem, Optimum
from twelve_rows import tiny


def at_least(least: float) -> KnownProblem:
    """min x subject to x >= least, from a start near 3."""
    optimum = Optimum(torch.tensor([least]), least, torch.ones(1), torch.zeros(1), 0.0, 1.0, "the bound itself")
    return KnownProblem(
        f"x >= {least}",
        lambda x: [x[..., 0], least - x[..., 0]],
        lambda x: [torch.ones_like(x), -torch.ones_like(x)],
        [3.0],
        optimum,
        1,
    )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("train", "held"), [(1.0, 0.5), (0.5, 1.0)], ids=["training binds", "validation binds"])
def test_the_tighter_of_training_and_validation_decides(train, held, seed):
    """Steps of 0.02 down the line pass every point from 3 to 0, and the lowest that meets both bounds is at most a step
    above 1; the looser bound alone would let x go down to 0.5."""
    solution = solve(
        at_least(train), SGD(step_size=0.02), validation=at_least(held), budget="200 steps", record_every=1, seed=seed
    )
    assert float(solution.last) < 0.5 and bool(solution.feasible)
    assert 1 <= float(solution.x) <= 1.02 + 1e-12


@pytest.mark.parametrize("config", [ALM(dual_every=2), SwitchingSubgradient(), SSLALM()], ids=lambda c: c.name)
def test_training_is_the_same_with_validation_rows_and_without(config):
    def run(validation=None):
        train = tiny("loss_gap <= 0.05", rows=[0, 1, 2, 5, 6, 7])
        return solve(train, config, budget="60 steps", batch_size=6, validation=validation)

    alone, chosen = run(), run(tiny("loss_gap <= 0.05", rows=[3, 4, 8, 9, 10, 11]))
    assert torch.equal(alone.last, chosen.last) and alone.counts == chosen.counts
