"""This library's steps for the benchmarks, through its public functions: a FairProblem, a method, `step`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from harness import Step
from tasks import FixedBatch, Rows, mlp
from torch import nn

from fairbound.fairness.problem import FairProblem
from fairbound.methods import ALM
from fairbound.models.model import Model, ModuleModel, model_of
from fairbound.optim import Dual
from fairbound.problems.problem import Draws

STEP_SIZE = 0.01
DUAL_STEP_SIZE = 0.05
PERIOD = ALM().dual_every
"""Primal steps between two dual updates of the default method."""


def problem(model: Model, rows: Rows, stated: str | None) -> FairProblem:
    """The stated bound on `rows`, group codes as the only sensitive attribute."""
    groups = None if stated is None else rows.group.numpy().reshape(-1, 1)
    return FairProblem(model, rows.x, rows.y, groups, stated)


def of_module(net: nn.Module) -> Model:
    """Any nn.Module: autograd."""
    return ModuleModel(net)


def built_in(name: str, features: int) -> Model:
    """ "linear" or "mlp:64,32": the built-in forward and backward."""
    return model_of(name, features)


class PreparedDraws(Draws):
    """Batches drawn in advance, so that a step can be timed apart from drawing; a cycle of `count` for each stream."""

    def __init__(self, problem: FairProblem, batch_size: int, sampling: str = "balanced", count: int = 64):
        super().__init__(problem, (0,), batch_size, sampling)
        self.count = count
        self.kept: dict[tuple, list[Any]] = {}

    def __call__(self, name: str, k: int, size: int | None = None, sampling: str | None = None) -> Any:
        key = (name, size, sampling)
        if key not in self.kept:
            count = 4 if sampling == "full" or (size or 0) > 4 * self.batch_size else self.count
            self.kept[key] = [super(PreparedDraws, self).__call__(name, i, size, sampling) for i in range(count)]
        batches = self.kept[key]
        return batches[k % len(batches)]


def step_of(problem: FairProblem, batch_size: int, config: Any = None, drawing: bool = False) -> Step:
    """One step of `config` (ALM with default options but the step sizes); `drawing` includes drawing its batches."""
    config = ALM(step_size=STEP_SIZE, dual_step_size=DUAL_STEP_SIZE) if config is None else config
    draws = Draws(problem, (0,), batch_size) if drawing else PreparedDraws(problem, batch_size)
    state = config.init(problem, problem.start((0,)), draws)

    def step(i: int) -> None:
        nonlocal state
        state = config.step(state, problem, draws)

    return step


def draw(problem: FairProblem, batch_size: int, sampling: str = "balanced") -> Step:
    """Drawing one batch, features, labels, weights and group means' shares included."""
    draws = Draws(problem, (0,), batch_size, sampling)
    return lambda i: draws("primal", i)


def module_mlp(features: int) -> Model:
    """The MLP 64-32 as an nn.Module run by autograd."""
    return ModuleModel(mlp(features))


def run_step(problem: FairProblem, seeds: tuple[int, ...], batch_size: int, config: Any) -> Step:
    """One step of a run, or of a stack of runs where there are several seeds, drawing included."""
    draws = Draws(problem, seeds, batch_size)
    state = config.init(problem, problem.start(seeds), draws)

    def step(i: int) -> None:
        nonlocal state
        state = config.step(state, problem, draws)

    return step


def dual_in_a_loop(net: nn.Module, batches: Sequence[FixedBatch], rows: Rows, stated: str) -> Step:
    """One step of a user's own torch loop with the three changed lines of `fairbound.optim`."""
    optimizer = torch.optim.SGD(net.parameters(), lr=STEP_SIZE)
    dual = Dual(stated, groups=rows.group.reshape(-1, 1), targets=rows.y, dual_step_size=DUAL_STEP_SIZE)
    k = len(batches)

    def step(i: int) -> None:
        b = batches[i % k]
        optimizer.zero_grad()
        loss = dual.loss(net(b.x).squeeze(-1), b.y, b.group)
        loss.backward()
        optimizer.step()
        dual.step()

    return step
