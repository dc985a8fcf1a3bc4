"""Fairness as a penalty on the loss: how far a statistic of each group is from the same statistic of everybody.

    penalty = || (|stat_g / stat - 1|)_g ||_p        stat_g = sum_{i in g} num_i / sum_{i in g} den_i

num_i and den_i are linear in sigmoid(score_i) and may depend on the label, so rates, accuracy, precision and F-scores
have one formula, and its gradient in the scores is a chain rule through one ratio per group.

Source: Buyl, Defrance, De Bie (2024), fairret: a framework for differentiable fairness regularization terms; `NormLoss`
    of the package fairret 0.1.3, whose value and gradient these are wherever that package defines them.
Departs: a group whose statistic is undefined on a batch (no row, or no positive for the true positive rate) is left out
    and counted; the package takes its statistic as 0, the largest violation. Where the statistic of everybody is
    undefined or 0 the penalty is 0 and counted; the package raises. Rows are weighted as in the objective.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fairbound.base.errors import DataError, OptionError
from fairbound.fairness.comparing import attribute_sets
from fairbound.fairness.compiled.statistics import RATES
from fairbound.fairness.evaluation.batches import Batch
from fairbound.fairness.problem import FairProblem
from fairbound.models.scoring import noise
from fairbound.problems.wrappers import innermost
from fairbound.rows.groups import MISSING, cross

Attributes = Literal["each", "crossed"] | tuple[str, ...]
Penalty = Callable[[Tensor, Tensor, Tensor], Tensor]
"""scores (B, 1), groups one-hot (B, S), targets (B, 1) -> (), differentiable in the scores: a fairret, or your own."""


STATISTICS = {"positive_rate": RATES["selection_rate"]} | {
    name: RATES[name]
    for name in ("true_positive_rate", "false_positive_rate", "accuracy", "positive_predictive_value", "false_omission_rate",
                 "false_negatives_per_false_positive", "f1")
}  # fmt: skip
"""The rates that a penalty may be of, by the package's names."""


class PenaltyOfScores(NamedTuple):
    """value: (...,); slope: (..., B) in the scores; undefined: groups left out because the rows do not define them."""

    value: Tensor
    slope: Tensor
    undefined: int


@dataclass(frozen=True)
class NormPenalty:
    """The p-norm over groups of |statistic of the group / statistic of everybody - 1|.

    statistic: a name in STATISTICS. norm: p, 1 <= p < infinity.
    """

    statistic: str = "accuracy"
    norm: float = 1.0

    def __post_init__(self) -> None:
        if self.statistic not in STATISTICS:
            raise OptionError(f"unknown statistic {self.statistic!r}; known: {', '.join(STATISTICS)}.")
        if not 1 <= self.norm < float("inf"):
            raise OptionError(f"norm must be a finite p >= 1, got {self.norm!r}.")

    def __call__(
        self, scores: Tensor, groups: Tensor, targets: Tensor, weights: Tensor | None = None
    ) -> PenaltyOfScores:
        """scores, targets: (..., B); groups: (..., B, S) of 0 and 1, a row of zeros where the group is not known;
        weights: (..., B) >= 0, or None for equal ones. A row of unknown group counts among everybody."""
        w = torch.ones_like(scores) if weights is None else weights.expand_as(scores)
        p = torch.sigmoid(scores)
        rate = STATISTICS[self.statistic]
        (num0, num1), (den0, den1) = (_of_rows(table, targets.to(p)) for table in (rate.counted, rate.among))
        num, den = w * (num0 + num1 * p), w * (den0 + den1 * p)
        totals = torch.stack([num, den], -2) @ groups  # (..., 2, S)
        all_num, all_den = num.sum(-1, keepdim=True), den.sum(-1, keepdim=True)
        used = (totals[..., 1, :] > 0) & (all_den > 0) & (all_num > 0)
        group_den = torch.where(used, totals[..., 1, :], 1.0)
        one = torch.ones_like(all_den)
        overall = torch.where(all_num > 0, all_num, one) / torch.where(all_den > 0, all_den, one)
        stat = totals[..., 0, :] / group_den
        relative = torch.where(used, stat / overall - 1, 0.0)
        violation = relative.abs()
        value = violation.sum(-1) if self.norm == 1 else torch.linalg.vector_norm(violation, self.norm, dim=-1)
        if self.norm == 1:
            turned = relative.sign()
        else:
            length = torch.where(value > 0, value, 1.0).unsqueeze(-1)
            turned = (violation / length) ** (self.norm - 1) * relative.sign()
        d_stat = turned / (overall * group_den)  # in the group's numerator
        d_all = -(turned * stat).sum(-1, keepdim=True) / (overall.square() * torch.where(all_den > 0, all_den, one))
        spread = torch.stack([d_stat, d_stat * stat], -2) @ groups.mT  # (..., 2, B)
        slope = (spread[..., 0, :] + d_all) * num1 - (spread[..., 1, :] + d_all * overall) * den1
        return PenaltyOfScores(value, w * slope * p * (1 - p), int((~used).sum()))


def _of_rows(table: np.ndarray, y: Tensor) -> tuple[Tensor, Tensor]:
    """(..., B) a and b: a row of label y that is decided positive with probability p adds a + b p to a sum.
    table: weights by label and decision."""
    first, slope = table[:, 0], table[:, 1] - table[:, 0]
    return tuple(v[0] + (v[1] - v[0]) * y for v in (first.tolist(), slope.tolist()))  # type: ignore[return-value]


def _of_callable(penalty: Penalty, scores: Tensor, groups: Tensor, targets: Tensor) -> PenaltyOfScores:
    """Value and slope of a user's penalty by autograd, run by run."""
    if scores.dim() > 1:
        pairs = zip(groups.expand(*scores.shape, -1), targets.expand_as(scores), strict=True)
        runs = [_of_callable(penalty, s, g, y) for s, (g, y) in zip(scores, pairs, strict=True)]
        return PenaltyOfScores(torch.stack([v.value for v in runs]), torch.stack([v.slope for v in runs]), 0)
    with torch.enable_grad():
        leaf = scores.detach().requires_grad_()
        value = penalty(leaf.unsqueeze(-1), groups, targets.unsqueeze(-1))
        if not isinstance(value, Tensor) or value.numel() != 1:
            shape = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
            raise OptionError(f"the penalty must return one number as a tensor, got {shape}.")
        (slope,) = torch.autograd.grad(value.reshape(()), leaf, allow_unused=True, materialize_grads=True)
    return PenaltyOfScores(value.detach().reshape(()), slope, 0)


def one_hot(problem: FairProblem, attributes: Attributes = "each") -> Tensor:
    """(n_rows, S) in the order of the problem's rows: a 0/1 column for each group that occurs.

    attributes: "each" sensitive attribute by itself (a row has as many ones as attributes), "crossed" for their
        combinations, or names to cross. Zeros where the attribute is missing.
    Raises: DataError where the problem has no groups; OptionError for an unknown attribute.
    """
    kept, key = problem.full().kept, (one_hot, attributes)
    if key in kept:
        return kept[key]  # type: ignore[no-any-return]
    groups = problem.groups
    if not groups.attributes:
        raise DataError("the penalty compares groups, but the problem was built without sensitive features.")
    columns = []
    for chosen in attribute_sets(attributes, groups.attributes, "the penalty"):
        code = cross([groups.codes[:, a] for a in chosen], [len(groups.labels[a]) for a in chosen])
        columns.append(code[:, None] == np.unique(code[code != MISSING])[None, :])
    table = np.concatenate(columns, axis=1)[problem.strata.order]
    made = kept[key] = torch.as_tensor(table, device=problem.device).to(problem.dtype)
    return made


class PenaltyOnScores(ABC):
    """A penalty on the scores of a FairProblem's rows in groups, for `fairbound.problems.penalised.Penalised`.

    attributes: see `one_hot`. undefined: groups left out so far because a batch does not define their statistic.
    """

    def __init__(self, problem: Any, attributes: Attributes = "each"):
        made = innermost(problem)
        if not isinstance(made, FairProblem):
            raise OptionError(f"a penalty on groups needs a FairProblem, got {type(made).__name__}.")
        if made.model.outputs != 1:
            raise OptionError(f"the penalty needs one score per row, the model gives {made.model.outputs}.")
        self.problem, self.undefined = made, 0
        self.sensitive = one_hot(made, attributes)

    def value(self, x: Tensor, batch: Batch) -> Tensor:
        """(...,) the penalty at x (..., n) on the rows of the batch."""
        with noise(self.problem.model, batch.seed):
            scores = self.problem.model.scores(x, batch.features)
        return self.of_scores(scores, batch).value

    def gradient(self, x: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """(...,) the penalty, and (..., n) its gradient."""
        with noise(self.problem.model, batch.seed):
            scores, tape = self.problem.model.forward(x, batch.features)
        made = self.of_scores(scores, batch)
        self.undefined += made.undefined
        return made.value, tape.vjp(made.slope)

    def groups_of(self, batch: Batch) -> Tensor:
        """(..., B, S) which of the groups each row of the batch is in."""
        return self.sensitive if batch.rows is None else self.sensitive[batch.rows]

    @abstractmethod
    def of_scores(self, scores: Tensor, batch: Batch) -> PenaltyOfScores:
        """Value (...,), slope in the scores (..., B) and undefined groups on a batch."""


class GroupPenalty(PenaltyOnScores):
    """How far a statistic of each group is from that of everybody, or a penalty of your own.

    penalty: a NormPenalty; or a function of (scores (B, 1), groups one-hot (B, S), targets (B, 1)) that returns one
        number and is differentiable, which sees the rows of a batch without their weights: with sampling="balanced"
        everybody is then equally many rows of every stratum.
    """

    def __init__(self, problem: Any, penalty: NormPenalty | Penalty, attributes: Attributes = "each"):
        super().__init__(problem, attributes)
        self.penalty = penalty

    def of_scores(self, scores: Tensor, batch: Batch) -> PenaltyOfScores:
        groups = self.groups_of(batch)
        if isinstance(self.penalty, NormPenalty):
            return self.penalty(scores, groups, batch.targets.expand_as(scores), batch.objective)
        return _of_callable(self.penalty, scores, groups, batch.targets)


def attributes_of(asked: Any) -> Attributes:
    """Whose groups a penalty compares, as "each", "crossed" or a tuple of names; one name becomes such a tuple.
    Raises: OptionError for anything else."""
    if isinstance(asked, str):
        return asked if asked in ("each", "crossed") else (asked,)  # type: ignore[return-value]
    if not isinstance(asked, list | tuple) or not asked or not all(isinstance(name, str) for name in asked):
        raise OptionError(f"attributes must be 'each', 'crossed' or a tuple of names, got {asked!r}.")
    return tuple(asked)


def penalty_of(statistic: str, norm: float, penalty: Any) -> NormPenalty | Penalty:
    """The user's penalty where there is one, else the NormPenalty of these options."""
    if penalty is None:
        return NormPenalty(statistic, norm)
    if not callable(penalty):
        raise OptionError(f"penalty must be a function of (scores, groups, targets), got {penalty!r}.")
    return penalty
