"""Stochastic gradient descent on the loss plus a fairness penalty: the regularised baseline, which heeds no bound.

    x <- Proj_X(x - tau_k grad (f + strength * penalty)(x)),   both on one batch

Source: Kliachkin et al. (2025), section 4.2, "SGD-Fairret"; Buyl, Defrance, De Bie (2024) for the penalty.
Departs: rows of balanced batches are weighted back to the population, in the loss and in the penalty, where the paper's
    code leaves equally many rows of every group unweighted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from fairbound.base.errors import OptionError
from fairbound.fairness.fairret import Attributes, PenalisedProblem, Penalty, penalty_of
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
class SGDFairret:
    """Options of SGD with a fairness penalty.

    strength: >= 0, of the penalty beside the mean loss; 0 is SGD. The paper does not state its
        own; a configuration in its code has 0.5 ("pmult"), step size 0.05 and batches of 8.
    statistic: what groups should agree on: "accuracy" (the paper's), "positive_rate", "true_positive_rate",
        "false_positive_rate", "positive_predictive_value", "false_omission_rate", "f1" or
        "false_negatives_per_false_positive". norm: p >= 1 of the norm over groups.
    attributes: groups of "each" sensitive attribute, "crossed" for combinations, or a tuple of names to cross.
    penalty: any function of (scores (B, 1), groups one-hot (B, S), targets (B, 1)) in place of `statistic` and `norm`,
        e.g. `NormLoss(Accuracy())` of the package fairret (pip install fairbound[fairret]).
    step_size, optimizer, decay, decay_steps: as in SGD.
    """

    strength: float = 1.0
    statistic: str = "accuracy"
    norm: float = 1.0
    attributes: Attributes = "each"
    penalty: Penalty | None = None
    step_size: float = 0.1
    optimizer: str | OptimizerFactory = "sgd"
    decay: float = 0.0
    decay_steps: float = 1000.0

    name: ClassVar[str] = "sgd_fairret"
    presets: ClassVar[dict[str, dict]] = {"paper": {"step_size": 0.05, "strength": 0.5}}

    def __post_init__(self) -> None:
        positive(step_size=self.step_size, decay_steps=self.decay_steps)
        nonnegative(strength=self.strength, decay=self.decay)
        check_optimizer(self.optimizer)
        penalty_of(self.statistic, self.norm, self.penalty)
        if isinstance(self.attributes, str) and self.attributes not in ("each", "crossed"):
            object.__setattr__(self, "attributes", (self.attributes,))
        elif not isinstance(self.attributes, (str, tuple)):
            raise OptionError(f"attributes must be 'each', 'crossed' or a tuple of names, got {self.attributes!r}.")


@dataclass(frozen=True)
class State:
    """x: (..., n) iterate, moved in place; k: steps done; multipliers: always empty (..., 0)."""

    x: Tensor
    k: int
    multipliers: Tensor
    optimizer: torch.optim.Optimizer | None


def penalised(config: SGDFairret, problem: Problem) -> PenalisedProblem:
    """The problem with the configured penalty in its objective. Raises: OptionError where it has no rows in groups."""
    penalty = penalty_of(config.statistic, config.norm, config.penalty)
    return PenalisedProblem(problem, penalty, config.strength, config.attributes)  # type: ignore[arg-type]


def init(config: SGDFairret, problem: Problem, x: Tensor, draws: Draws) -> State:
    penalised(config, problem)
    return State(x, 0, x.new_zeros(*x.shape[:-1], 0), make_optimizer(config.optimizer, x, config.step_size))


def step(config: SGDFairret, state: State, problem: Problem, draws: Draws) -> State:
    batch = draws("objective", state.k)
    _, gradient = penalised(config, problem).gradient(state.x, batch, (1.0, None))
    move(state.x, gradient, state.optimizer, config.step_size, decayed(state.k, config.decay_steps, config.decay))
    state.x.copy_(problem.domain.project(state.x))
    return replace(state, k=state.k + 1)
