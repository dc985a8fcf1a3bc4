"""Stochastic gradient descent on the objective alone: the baseline that ignores every bound.

Source: Kliachkin et al. (2025), section 4.2, "SGD".
Departs: the paper states neither step size nor batch size (a configuration in its code has 0.005 and 8). Rows of
    balanced batches, the default, are weighted back to the population; sampling="shuffled" is plain SGD.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fairbound.base.checks import nonnegative, positive
from fairbound.methods.method import Method, State, no_multipliers
from fairbound.methods.primal import OptimizerFactory, check_optimizer, decayed, make_optimizer, move
from fairbound.problems.problem import Draws, Evaluation, Problem, Weights


@dataclass(frozen=True, kw_only=True)
class SGDState(State):
    """x: (..., n) iterate, moved in place; multipliers: zero; optimizer: the torch optimiser that moves x,
    None for plain steps."""

    optimizer: torch.optim.Optimizer | None


@dataclass(frozen=True, kw_only=True)
class SGD(Method[SGDState]):
    """For training without bounds: stochastic gradient descent on the loss alone.

    Take it as the baseline, to see what bounds cost.
    Formulas and source: help(fairbound.methods.sgd).

    step_size: > 0, of plain steps or of the named optimizer; at step k it is step_size / (1 + k / decay_steps)^decay.
    optimizer: "sgd" for plain steps, "momentum", "adam", "adamw", or a function of a list of tensors that makes one.
    decay: >= 0, the power by which steps fade; 0 for constant steps.
    decay_steps: > 0, after how many steps they begin to.
    """

    step_size: float = 0.1
    optimizer: str | OptimizerFactory = "sgd"
    decay: float = 0.0
    decay_steps: float = 1000.0

    name: ClassVar[str] = "sgd"
    partial: ClassVar[bool] = True
    takes_bounds: ClassVar[bool] = False

    def __post_init__(self) -> None:
        positive(self, "step_size", "decay_steps")
        nonnegative(self, "decay")
        check_optimizer(self.optimizer)

    def init(self, problem: Problem, x: Tensor, draws: Draws) -> SGDState:
        """At x (..., n), which is moved in place."""
        optimizer = make_optimizer(self.optimizer, x, self.step_size)
        return SGDState(x=x, k=0, multipliers=no_multipliers(problem, x), optimizer=optimizer)

    def weights(self, problem: Problem, x: Tensor) -> Weights | Callable[[Evaluation], Weights]:
        """What f and each g weigh in a step from x (..., n): f alone."""
        return 1.0, None

    def step(self, state: SGDState, problem: Problem, draws: Draws) -> SGDState:
        """One step along the weighted gradients on a batch, projected."""
        _, gradient = problem.gradient(state.x, draws("objective", state.k), self.weights(problem, state.x))
        move(state.x, gradient, state.optimizer, self.step_size, decayed(state.k, self.decay_steps, self.decay))
        state.x.copy_(problem.domain.project(state.x))
        return state.next()
