"""Moves the intercept of the model without bounds until they are met, where smooth training seldom finds such models.

The rate of a group of one row is 0 or 1. So under a bound of 0.05 the rates of all other groups are to lie within 0.05
of one of these. Training that begins between the two sees no slope that leads to either, and often ends at a constant.
The model without bounds orders the rows already: its intercept is moved to STEPS ranks of the scores, and the best of
these models that meets the bounds is taken where it is better than what training found. Two more models are tried, in
which all rows of such groups count as negative, or as positive. Scores that were moved are brought to scale (see
`scaled`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from fairbound.estimators.linear.lowest_loss import lowest_loss
from fairbound.estimators.linear.scale_of_scores import scaled
from fairbound.estimators.trained import Trained, better, measured_accuracy, meeting, met_by
from fairbound.fairness.few_rows import bounds_below_a_step
from fairbound.fairness.pointwise import LOGISTIC
from fairbound.fairness.problem import FairProblem
from fairbound.models.mlp import is_linear
from fairbound.rows.sparse import SparseRows

STEPS = 200
"""Ranks that the intercept is moved to."""

FEW = 5
"""Rows of a group up to which its steps lie too far apart for smooth training."""

SWEPT = "The model without bounds, with the intercept that is best within them, is better than what training under them found, and is taken."


def swept_intercept(trained: Trained) -> Trained:
    """`trained`, or the model without bounds with the best intercept that meets them, if that is better. Where the
    method was left to "auto" it is tried for a linear model of two classes of which only the start met the bounds, or
    where a group of at most FEW rows moves in steps above a bound."""
    problem, solution, model = trained.problem, trained.solution, trained.problem.model
    if not trained.automatic or not is_linear(model, 1) or not model.bias or problem.loss is not LOGISTIC:
        return trained
    if isinstance(problem.features, SparseRows):
        return trained
    if not trained.single or not trained.model_alone or not problem.m or problem.plan.ranks:
        return trained
    cells = np.append(problem.counts_of_cells(), problem.rows)
    alone = problem.within(cells <= FEW)
    coarse = bounds_below_a_step(problem.plan, problem.counts_of_cells()) and alone.any()
    if solution.interrupted or (solution.found and not coarse):
        return trained
    decay = trained.optimality.get("weight_decay", 0.0)
    orders = [lowest_loss(problem, decay, alone, label) for label in ((None, 0, 1) if coarse else (None,))]
    _, x = min((best_intercept(trained.parts, order) for order in orders), key=lambda found: found[0])
    if x is None:
        return trained
    x = scaled(trained.parts, x, decay)
    swept = trained._replace(solution=meeting(trained, x, SWEPT), optimality={})
    return better(trained, swept, "auto" if problem.refined else "no", SWEPT)


def best_intercept(
    parts: Sequence[FairProblem], x: Tensor, by_accuracy: bool = False, at: slice = slice(-1, None)
) -> tuple[float, Tensor | None]:
    """What is minimised, and x (n,) of a linear model with the intercept, which is the place `at` with what moves with it,
    at which it is lowest of those that meet the bounds of all `parts`: minus the accuracy on the first, or its objective where accuracy is not asked for (nor
    `by_accuracy`). It is moved to STEPS ranks, and to where all rows are decided alike. Infinity and None where none of these does."""
    problem, best, least = parts[0], None, np.inf
    for threshold in places_between(parts, x):
        moved = x.clone()
        moved[at] -= threshold
        found = [part.evaluate(moved) for part in parts]
        accuracy = measured_accuracy(found[0]) if by_accuracy or problem.refined else None
        aim = float(found[0].f) if accuracy is None else -accuracy
        if aim < least and met_by(found):
            best, least = moved, aim
    return least, best


def places_between(parts: Sequence[FairProblem], x: Tensor) -> list[Tensor]:
    """Thresholds at STEPS ranks of the scores at x (n,) of the first of `parts`, and on either side of all scores."""
    scores, every = parts[0].all_scores(x).sort().values, torch.cat([part.all_scores(x) for part in parts])
    places = np.unique(np.linspace(0, len(scores) - 1, STEPS + 1).astype(int))[1:]
    beyond = 0.01 * every.abs().max() + 1e-6
    return [*(scores[places - 1] + scores[places]) / 2, every.min() - beyond, every.max() + beyond]
