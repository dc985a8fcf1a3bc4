"""Evaluations that speak of some constraints only: methods keep a number for each, and touch those of the batch alone."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch

import fairbound as fb
from fairbound.base.errors import OptionError
from fairbound.base.seeds import seed_for
from fairbound.methods import ALM, PLADA, SGD, SSLALM, YNW, SwitchingSubgradient
from fairbound.problems.base import BaseProblem
from fairbound.problems.problem import Draws, Evaluation, Measured


class Few(NamedTuple):
    index: torch.Tensor
    size: int


class Targets(BaseProblem):
    """min |x|^2 / 2 subject to b_i - x_i <= 0: the optimum is b where b > 0, with multiplier b. `some` of them a batch."""

    def __init__(self, m=12, some=None, scale=1.0):
        self.n = self.m = self.rows = m
        self.b = torch.linspace(-0.5, 1.0, m, dtype=torch.float64)
        self.some, self.partial, self.dual_scale = some, some is not None, scale

    def start(self, seeds):
        return torch.zeros(self.n, dtype=torch.float64)

    def sample(self, seeds, name, k, size, kind):
        if self.some is None:
            return Few(torch.arange(self.m), self.m)
        if self.some == self.m:
            return Few(torch.arange(self.m), self.m)
        generator = torch.Generator().manual_seed(seed_for(name, k, root=seeds[0]))
        return Few(torch.randperm(self.m, generator=generator)[: self.some], self.some)

    def values(self, x, batch, true=False):
        g = (self.b - x)[batch.index]
        return Evaluation(x.square().sum() / 2, g, None, batch.index if self.partial else None)

    def gradient(self, x, batch, weights):
        e = self.values(x, batch) if callable(weights) else None
        w0, w = weights(e) if callable(weights) else weights
        slope = w0 * x
        if w is not None:
            slope = slope.index_add(0, batch.index, -(w if callable(weights) or not self.partial else w[batch.index]))
        return e, slope

    def evaluate(self, x):
        return Measured(x.square().sum() / 2, self.b - x, {})

    def jvp(self, x, batch, dx):
        return torch.cat([(x @ dx)[None], -dx[batch.index]])

    def jacobian(self, x, batch, which=None):
        rows = torch.cat([x[None], -torch.eye(self.n, dtype=x.dtype)[batch.index]])
        return self.values(x, batch), rows if which is None else rows[list(which)]


METHODS = [
    ALM(dual_every=1, margin=0.0, dual_rows=4),
    YNW(horizon=100),
    PLADA(constraint_rows=4),
    SwitchingSubgradient(),
    SGD(),
]


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
@pytest.mark.parametrize("m", [12, 40])
def test_an_index_of_all_constraints_changes_nothing(method, m):
    plain, indexed = Targets(m), Targets(m, some=m)
    states = []
    for problem in (plain, indexed):
        draws = Draws(problem, (0,), 4, "uniform")
        state = method.init(problem, problem.start((0,)), draws)
        for _ in range(30):
            state = method.step(state, problem, draws)
        states.append(state)
    assert torch.equal(states[0].x, states[1].x) and torch.equal(states[0].multipliers, states[1].multipliers)
    assert method.name in ("sgd", "switching_subgradient") or bool((states[1].multipliers > 0).any())


@pytest.mark.parametrize("method", METHODS[:3], ids=lambda m: m.name)
@pytest.mark.parametrize("m", [12, 40])
def test_a_step_touches_the_constraints_of_its_batch_alone(method, m):
    problem = Targets(m, some=3)
    draws = Draws(problem, (1,), 3, "uniform")
    state = method.init(problem, problem.start((1,)), draws)
    stream = "xi" if method.name == "ynw" else "dual"
    for k in range(20):
        before = state.multipliers.clone()
        state = method.step(state, problem, draws)
        touched = torch.zeros(m, dtype=torch.bool)
        touched[draws(stream, k).index] = True
        assert torch.equal(state.multipliers[~touched], before[~touched])
        if bool((state.multipliers[touched] != 0).any() or (before[touched] != 0).any()):
            assert bool((state.multipliers[touched] != before[touched]).any())


def test_alm_finds_the_optimum_and_its_multipliers_from_some_constraints_a_step():
    """Each of 12 constraints is seen in a quarter of the steps, so that its multiplier weighs a quarter in the mean gradient."""
    problem = Targets(12, some=3)
    method = ALM(
        dual_every=1, margin=0.0, dual_step_size=0.5, penalty=0.0, step_size=0.02, decay=0.6, decay_steps=200.0
    )
    found = fb.solve(problem, method, budget="6000 steps", batch_size=3, average=3)
    assert float((found.last - problem.b.clamp_min(0)).abs().max()) < 0.05
    assert float((found.state.multipliers / 4 - problem.b.clamp_min(0)).abs().max()) < 0.15


def test_a_method_that_needs_all_constraints_is_refused():
    with pytest.raises(OptionError, match=r"ssl_alm needs all constraints at every step.* 12 "):
        fb.solve(Targets(12, some=3), SSLALM(), budget="1 steps")


def test_all_rows_at_once_speak_of_all_constraints():
    class WholeAtOnce(Targets):
        def sample(self, seeds, name, k, size, kind):
            return Few(torch.arange(self.m), self.m) if kind == "full" else super().sample(seeds, name, k, size, kind)

        def values(self, x, batch, true=False):
            e = super().values(x, batch, true)
            return e._replace(subset=None) if len(batch.index) == self.m else e

    problem = WholeAtOnce(12, some=3)
    found = fb.solve(problem, "full_batch_alm", budget="60 steps")
    assert float((found.x - problem.b.clamp_min(0)).abs().max()) < 1e-3
    with pytest.raises(OptionError, match="batch of all rows speaks of some constraints only"):
        fb.solve(Targets(12, some=3), "full_batch_alm", budget="1 steps")


def test_bounds_exchanged_shift_the_constraints_that_were_seen():
    from fairbound.problems.wrappers import Rebounded

    problem = Targets(12, some=3)
    moved = Rebounded(problem, torch.arange(12.0))
    batch = problem.sample((0,), "s", 0, 3, "uniform")
    x = problem.start((0,))
    shift = moved.values(x, batch).g - problem.values(x, batch).g
    assert torch.equal(shift, -batch.index.double())
