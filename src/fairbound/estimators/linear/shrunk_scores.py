"""Scores shrunk until mean losses are within their bounds, where the fewest wrong decisions are asked for.

A bound on a difference of mean losses is a bound on scores: the nearer they all are to 0, the nearer every mean loss to
log 2, whatever is decided. Training, in which scores and decisions move together, then ends at models that decide worse
than one answer for all rows does. So the orders of the model without bounds and of the trained one are taken:

    for each threshold t at a rank of the scores s, and beyond them, from the most accurate on
        of the shares c in SHARES for which c (s - t) meets the bounds, that of the lowest loss

The first that meets the bounds is taken where it is more accurate than the trained model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from fairbound.estimators.linear.full_batch import train_full_batch
from fairbound.estimators.linear.lowest_loss import lowest_loss
from fairbound.estimators.linear.swept_intercept import places_between
from fairbound.estimators.optimality import optimality
from fairbound.estimators.problems import problem_like
from fairbound.estimators.trained import Trained, measured_accuracy, meeting, met_by
from fairbound.fairness.objectives import Accuracy
from fairbound.fairness.pointwise import LOGISTIC
from fairbound.methods import FullBatchALM
from fairbound.models.mlp import MLP, is_linear
from fairbound.rows.sparse import SparseRows

SHARES = tuple((2.0 ** -np.arange(0, 10.5, 0.5)).tolist())
"""What the scores are multiplied by, from the largest."""

TRIED = 20
"""Thresholds, from the most accurate on, of which every share is tried."""

SHRUNK = (
    "A model whose scores were moved and multiplied by {:.2g} until mean losses were within their bounds decides more rows "
    "rightly than what training found, and is taken. Its probabilities say little."
)


WOULD = (
    "The model without bounds with its scores moved and multiplied by {:.2g} meets the bounds and decides {:.3f} of the "
    "training rows rightly, though its probabilities say little: objective='accuracy' takes such a model."
)


class Shrunk(NamedTuple):
    """x: (n,), which meets the bounds. accuracy: of its decisions on the training rows. share: what the scores were
    multiplied by."""

    x: Tensor
    accuracy: float
    share: float


def of_losses(trained: Trained) -> bool:
    """Whether a linear model of two classes is under bounds on mean losses, and its training aims at accuracy."""
    problem, model = trained.problem, trained.problem.model
    covered = is_linear(model, 1) and isinstance(model, MLP) and model.bias and problem.loss is LOGISTIC
    losses = any(bound.judged_from == "losses" for bound in problem.plan.notions)
    dense = not isinstance(problem.features, SparseRows)
    return covered and losses and dense and trained.single and trained.model_alone and problem.refined


def with_shrunk_scores(trained: Trained, decay: float, **options: Any) -> Trained:
    """`trained`, or what `shrunk` makes of its order or of that of the fewest wrong decisions without bounds, whichever
    is more accurate. decay: the weight decay. options: budget, seed and progress of `solve`."""
    if not of_losses(trained) or trained.solution.interrupted:
        return trained
    problem, method = trained.problem, trained.method
    assert isinstance(method, FullBatchALM)
    free = problem_like(problem, problem.model, None, None, objective=Accuracy(0.0), stated=())
    unbounded = train_full_batch(free, None, method, refined="yes", weight_decay=decay, sampling="full", **options)[0]
    if unbounded.interrupted:
        return trained._replace(solution=replace(trained.solution, stopped="interrupted"))
    if (found := shrunk(trained, (unbounded.x, trained.solution.x))) is None:
        return trained
    said = SHRUNK.format(found.share)
    near = {**trained.optimality, **optimality(problem, method, found.x, problem.total_rows), "error_share": 0.0}
    return trained._replace(solution=meeting(trained, found.x, said), notes=[*trained.notes, said], optimality=near)


def shrunk(trained: Trained, orders: Sequence[Tensor]) -> Shrunk | None:
    """The most accurate model of the module's docstring that meets the bounds, if it decides more rows rightly than
    `trained` or that misses a bound; else None. orders: models (n,) each."""
    best, least = None, (trained.accuracy() or 0.0) if bool(trained.solution.feasible) else -1.0
    for x in orders:
        if (found := _most_accurate(trained, x, least)) is not None:
            best, least = found, found.accuracy
    return best


def shrunk_words(trained: Trained) -> str:
    """What is said of a model that has learnt nothing: that one with smaller scores would be more accurate; "" where none
    is known."""
    if not of_losses(trained) or not trained.automatic:
        return ""
    order = lowest_loss(trained.problem, trained.optimality.get("weight_decay", 0.0))
    found = shrunk(trained, (order,))
    return "" if found is None else WOULD.format(found.share, found.accuracy)


def _most_accurate(trained: Trained, x: Tensor, least: float) -> Shrunk | None:
    """Of the order of the scores at x (n,), if it is more accurate than `least`."""
    problem = trained.problem
    moved = []
    for threshold in [x.new_zeros(()), *places_between(trained.parts, x)]:
        at = x.clone()
        at[-1] -= threshold
        moved.append((measured_accuracy(problem.evaluate(at)) or 0.0, at))
    for accuracy, at in sorted(moved, key=lambda one: -one[0])[:TRIED]:
        if accuracy <= least:
            return None
        met = []
        for share in SHARES:
            found = [part.evaluate(share * at) for part in trained.parts]
            if met_by(found):
                met.append((float(found[0].extra["loss"]), share))
        if met:
            share = min(met)[1]
            return Shrunk(share * at, accuracy, share)
    return None
