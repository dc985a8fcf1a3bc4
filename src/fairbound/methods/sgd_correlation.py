"""Stochastic gradient descent on the objective plus the correlation of scores and groups: a baseline that ignores every
bound.

    x <- Proj_X(x - tau_k grad (f + strength * |corr(scores, group)|)(x)),   both on one batch

Source: Beutel et al. (2019), Fairness in recommendation ranking through pairwise comparisons; Yao, Lin, Yang (2023),
E.2 ("correlation-penalty").
Departs: see `fairness/correlation.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fairbound.base.checks import nonnegative
from fairbound.fairness.correlation import Correlation
from fairbound.fairness.fairret import Attributes, attributes_of
from fairbound.methods.sgd import SGD, SGDState
from fairbound.problems.penalised import Penalised
from fairbound.problems.problem import Draws, Problem


@dataclass(frozen=True, kw_only=True)
class SGDCorrelation(SGD):
    """For fairness as a wish, without a bound: SGD on the loss plus the correlation of scores and groups.

    Take it as a baseline for bounds on areas under ROC curves, as its source does.
    Formulas and source: help(fairbound.methods.sgd_correlation).

    strength: >= 0, of the penalty; 0 is SGD.
    attributes: whose groups, "each", "crossed" or a tuple of names to cross.
    step_size, optimizer, decay, decay_steps: as in SGD.
    """

    strength: float = 1.0
    attributes: Attributes = "each"
    name: ClassVar[str] = "sgd_correlation"
    partial: ClassVar[bool] = False
    takes_bounds: ClassVar[bool] = True
    penalises_groups: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        nonnegative(self, "strength")
        object.__setattr__(self, "attributes", attributes_of(self.attributes))

    def step(self, state: SGDState, problem: Problem, draws: Draws) -> SGDState:
        """A step of SGD on the penalised problem."""
        return super().step(state, Penalised(problem, Correlation(problem, self.attributes), self.strength), draws)
