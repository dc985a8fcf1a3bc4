"""What one model gains over another on the training rows, beside what chance gives its free numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fairbound.estimators.trained import decisions
from fairbound.fairness.evaluation.row_sums import SLICE
from fairbound.fairness.problem import FairProblem
from fairbound.ranking.wins import auc

SURE = 2.0
"""Standard errors taken off a gain of accuracy beside those that as many free numbers gain by chance."""


class Gain(NamedTuple):
    """By how much a model is more accurate than another, or its loss is lower, and the standard error of that."""

    accuracy: float
    error: float

    def beyond_chance(self, problem: FairProblem) -> bool:
        """Whether this is more than chance gives the best of as many free numbers as the model has."""
        return self.accuracy > beyond_chance(problem) * self.error

    def over_constant(self, problem: FairProblem, area: float) -> bool:
        """Whether this suffices where the other model is no better than a constant, which has no free numbers: the area
        under the ROC curve must be surely above that of a constant too."""
        return self.accuracy > SURE * self.error and ranks_surely(problem, area)


def gained(problem: FairProblem, x: Tensor, other: Tensor) -> Gain:
    """What `other` (n,) gains over x (n,) on the problem's rows; the standard error is McNemar's, of the rows decided
    otherwise."""
    weight = problem.weight_of_rows()
    before, after = (decisions(problem, at) for at in (x, other))
    sums = torch.zeros(3, dtype=torch.float64, device=weight.device)
    for w, y, old, new in zip(*(each.split(SLICE) for each in (weight, problem.targets, before, after)), strict=True):
        more = (w * ((new == y.long()).to(w.dtype) - (old == y.long()).to(w.dtype))).double()
        sums += torch.stack([w.double().sum(), more.sum(), more.square().sum()])
    return _of_all(problem, sums)


def loss_gained(problem: FairProblem, x: Tensor, other: Tensor) -> Gain:
    """By how much the mean loss of `other` (n,) is below that of x (n,) on the problem's rows, and the standard error of
    that."""
    before, after = (problem.loss.value(problem.all_scores(at), problem.targets).double() for at in (x, other))
    weight = problem.weight_of_rows().double()
    gain = weight * (before - after)
    sums = torch.stack([weight.sum(), gain.sum(), gain.square().sum()])
    return _of_all(problem, sums)


def _of_all(problem: FairProblem, sums: Tensor) -> Gain:
    """The gain in all parts. sums: (3,) of the rows' weights, gains and squared gains in this one."""
    total, gain, square = problem.shards.sum(sums).tolist()
    return Gain(gain / total, square**0.5 / total)


def beyond_chance(problem: FairProblem) -> float:
    """How many standard errors of a gain are more than chance gives the best of n free numbers: sqrt(n) of them in the
    mean, and SURE more."""
    return problem.n**0.5 + SURE


def ranks_surely(problem: FairProblem, area: float) -> bool:
    """Whether an area under the ROC curve of the problem's rows is surely above that of scores that know nothing of the
    label (1/2, with the standard error of Mann and Whitney)."""
    mass = problem.weight_of_classes(2)
    share, rows = float(mass[1] / mass.sum()), problem.total_rows
    return area - 0.5 > beyond_chance(problem) * ((rows + 1) / (12 * share * (1 - share))) ** 0.5 / rows


def area(problem: FairProblem, x: Tensor) -> float:
    """The area under the ROC curve of the problem's rows at x (n,), ties counted half;
    NaN where they have one class."""
    weight = None if problem.row_weight is None else problem.row_weight.cpu().numpy()
    parts = problem.shards.gather((problem.all_scores(x).cpu().numpy(), problem.targets.cpu().numpy(), weight))
    scores, y = (np.concatenate([part[i] for part in parts]) for i in range(2))
    return auc(scores, y == 1, y == 0, None if weight is None else np.concatenate([part[2] for part in parts]))
