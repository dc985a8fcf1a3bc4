"""Stochastic gradient descent on the loss plus a fairness penalty: the regularised baseline, which ignores every bound.

    x <- Proj_X(x - tau_k grad (f + strength * penalty)(x)),   both on one batch

Source: Kliachkin et al. (2025), section 4.2, "SGD-Fairret"; Buyl, Defrance, De Bie (2024) for the penalty.
Departs: rows of balanced batches are weighted back to the population, in the loss and in the penalty, where the paper's
    code leaves equally many rows of every group unweighted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from torch import Tensor

from fairbound.base.checks import nonnegative, positive
from fairbound.fairness.fairret import Attributes, GroupPenalty, Penalty, attributes_of, penalty_of
from fairbound.methods.sgd import SGD, SGDState
from fairbound.problems.penalised import Penalised
from fairbound.problems.problem import Draws, Problem


@dataclass(frozen=True, kw_only=True)
class SGDFairretState(SGDState):
    """As SGD's; undefined: int, how often a batch did not define a group's statistic, which was then left out."""

    undefined: int = 0


@dataclass(frozen=True, kw_only=True)
class SGDFairret(SGD):
    """For fairness as a wish, without a bound: SGD on the loss plus a penalty on how far groups differ in a statistic.

    Take it as the regularised baseline; which strength meets which bound has to be tried.
    Formulas and source: help(fairbound.methods.sgd_fairret).

    strength: >= 0, of the penalty beside the mean loss; 0 is SGD. The paper does not state its own; a configuration in
        its code has 0.5 ("pmult"), step size 0.05 and batches of 8.
    statistic: what groups should agree on: "accuracy" (the paper's), "positive_rate", "true_positive_rate",
        "false_positive_rate", "positive_predictive_value", "false_omission_rate", "f1" or
        "false_negatives_per_false_positive".
    norm: p >= 1 of the norm over groups.
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
    name: ClassVar[str] = "sgd_fairret"
    takes_bounds: ClassVar[bool] = True
    penalises_groups: ClassVar[bool] = True
    presets: ClassVar[dict[str, dict]] = {"paper": {"step_size": 0.05, "strength": 0.5}}

    def __post_init__(self) -> None:
        super().__post_init__()
        nonnegative(self, "strength")
        positive(self, "norm")
        penalty_of(self.statistic, self.norm, self.penalty)
        object.__setattr__(self, "attributes", attributes_of(self.attributes))

    def penalised(self, problem: Problem) -> Penalised:
        """The problem with the configured penalty in its objective.
        Raises: OptionError where it has no rows in groups."""
        penalty = GroupPenalty(problem, penalty_of(self.statistic, self.norm, self.penalty), self.attributes)
        return Penalised(problem, penalty, self.strength)

    def init(self, problem: Problem, x: Tensor, draws: Draws) -> SGDFairretState:
        """As SGD, at x (..., n)."""
        made = super().init(self.penalised(problem), x, draws)
        return SGDFairretState(**vars(made))

    def step(self, state: SGDFairretState, problem: Problem, draws: Draws) -> SGDFairretState:  # type: ignore[override]
        """A step of SGD on the penalised problem."""
        penalised = self.penalised(problem)
        moved = super().step(state, penalised, draws)
        return replace(moved, undefined=state.undefined + penalised.penalty.undefined)  # type: ignore
