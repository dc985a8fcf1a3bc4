"""Multiplies the scores of a linear model by the number above 0 at which its probabilities are nearest to those of the
model without bounds.

Decisions are the same at any scale. So a model that was trained or moved towards the fewest wrong decisions has a scale
that says little: weight decay makes scores small, and a smoothed error rate makes them large. The labels would set it
too large where rows are few, as decisions were fitted to the same labels. The model without bounds has a weight decay
that was chosen for rows it has not seen:

    take the k > 0 of the lowest   mean of  log(1 + exp(k s_i)) - p_i k s_i        s: scores,  p: its probabilities

Where rows are many beside the weights the labels take the place of p, which saves that model's fit. Where that model is
not known (sparse rows, several processes, other losses, more than two classes, no intercept), k has the lowest loss.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from fairbound.estimators.linear.lowest_loss import lowest_loss
from fairbound.estimators.trained import measured_accuracy, met_by
from fairbound.fairness.objectives import Accuracy
from fairbound.fairness.pointwise import LOGISTIC
from fairbound.fairness.problem import FairProblem
from fairbound.models.mlp import is_linear
from fairbound.rows.sparse import SparseRows

WIDEST = 8.0
"""The largest logarithm of the number, to either side."""

MANY = 200
"""So many rows for every weight tell the scale by their labels alone."""

GAIN = 0.001
"""By how much the mean must fall for another scale."""


def scaled(parts: Sequence[FairProblem], x: Tensor, decay: float) -> Tensor:
    """x (n,) times the number of the module's docstring; x where that changes little, or a bound of `parts`, problems of
    a linear model, would be missed. Decisions on the rows of the first stay as they are. decay: the weight decay."""
    problem = parts[0]
    if problem.n != problem.model.n:
        return x
    aim = _aim(problem, x, decay)
    power = minimize_scalar(aim, bounds=(-WIDEST, WIDEST), method="bounded", options={"xatol": 0.01}).x
    if aim(0.0) - aim(power) < GAIN:
        return x
    tried = math.exp(power) * x
    found = [part.evaluate(tried) for part in parts]
    same = (measured_accuracy(found[0]) or 0.0) >= (measured_accuracy(problem.evaluate(x)) or 0.0)
    return tried if same and met_by(found) else x


def _aim(problem: FairProblem, x: Tensor, decay: float) -> Callable[[float], float]:
    """What is minimised, of the logarithm of the number."""
    model, features = problem.model, problem.features
    plain = is_linear(model, 1) and model.bias and problem.loss is LOGISTIC and problem.shards.alone
    if not plain or isinstance(features, SparseRows):
        loss = problem.with_objective(Accuracy(0.0))
        return lambda power: float(loss.evaluate(math.exp(power) * x).f)
    scores, weight = problem.all_scores(x).double(), problem.weight_of_rows().double()
    weight = weight / weight.sum()
    if problem.rows >= MANY * problem.n:
        near = problem.targets.double()
    else:
        near = problem.all_scores(lowest_loss(problem, decay)).double().sigmoid()

    def aim(power: float) -> float:
        made = math.exp(power) * scores
        return float(weight @ (torch.nn.functional.softplus(made) - near * made))

    return aim
