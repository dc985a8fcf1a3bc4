"""Stochastic gradient descent on the objective alone: the baseline that ignores every bound.

Source: Kliachkin et al. (2025), section 4.2, "SGD".
Departs: the paper states neither step size nor batch size (a configuration in its code has 0.005 and 8). Rows of
    balanced batches, the default, are weighted back to the population; sampling="shuffled" is plain SGD.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from fairbound.methods.primal import (
    OptimizerFactory,
    check_optimizer,
    decayed,
    make_optimizer,
    move,
    nonnegative,
    positive,
)
from fairbound.problems.problem import Draws, Problem


@dataclass(frozen=True, kw_only=True)
class SGD:
    """step_size: of plain steps or of the named optimizer; optimizer: "sgd", "momentum", "adam", "adamw" or a factory.

    The step size at step k is step_size / (1 + k / decay_steps)^decay.
    """

    step_size: float = 0.1
    optimizer: str | OptimizerFactory = "sgd"
    decay: float = 0.0
    decay_steps: float = 1000.0

    name: ClassVar[str] = "sgd"
    presets: ClassVar[dict[str, dict]] = {}

    def __post_init__(self) -> None:
        positive(step_size=self.step_size, decay_steps=self.decay_steps)
        nonnegative(decay=self.decay)
        check_optimizer(self.optimizer)


@dataclass(frozen=True)
class State:
    """x: (..., n) iterate, moved in place; k: steps done; multipliers: always empty (..., 0)."""

    x: Tensor
    k: int
    multipliers: Tensor
    optimizer: torch.optim.Optimizer | None


def init(config: SGD, problem: Problem, x: Tensor, draws: Draws) -> State:
    return State(x, 0, x.new_zeros(*x.shape[:-1], 0), make_optimizer(config.optimizer, x, config.step_size))


def step(config: SGD, state: State, problem: Problem, draws: Draws) -> State:
    batch = draws("objective", state.k)
    _, gradient = problem.gradient(state.x, batch, (1.0, None))
    move(state.x, gradient, state.optimizer, config.step_size, decayed(state.k, config.decay_steps, config.decay))
    state.x.copy_(problem.domain.project(state.x))
    return replace(state, k=state.k + 1)
