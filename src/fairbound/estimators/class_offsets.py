"""Meets bounds on errors of classes by what is added to the scores of the model without bounds.

Of all classifiers that keep the errors of some classes, the one that errs least compares the classes' probabilities after
those of the bounded classes are multiplied by numbers of at least 1: so something is added to their log odds. The least
numbers that meet the bounds are found class by class; what is added to one class makes others err more, so it goes round:

    t <- 0
    until every bound is met:
        for each bounded class c: t_c <- the least number >= t_c with which class c errs within its bound, others as they are

Source: Neyman and Pearson (1933) for two classes: the most powerful test is a threshold on the ratio of likelihoods; Tian
    and Feng (2025), Neyman-Pearson multi-class classification via cost-sensitive learning, for more.
Departs: the model is not trained again with the classes' costs; its scores are moved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fairbound.estimators.swept_intercept import lowest_loss
from fairbound.estimators.trained import Trained, meeting
from fairbound.fairness.pointwise import LOGISTIC
from fairbound.models.mlp import is_linear
from fairbound.models.scoring import last_intercept
from fairbound.rows.groups import label_text
from fairbound.rows.sparse import SparseRows
from fairbound.solver.solve import Solution

ROUNDS = 200
"""How often all bounded classes are looked at."""

MOST_WORK = 1 << 30
"""Scores of all rows times rounds, at most, but for two rounds."""

OFFSETS = (
    "The bounds are on errors of classes alone: the model is the one without bounds, with the least added to the scores of these classes "
    "that meets them."
)


def with_offsets(
    trained: Trained, without_bounds: Callable[[], Solution], classes: Sequence[Any] | np.ndarray
) -> Trained | None:
    """The model without bounds, whose last intercepts are moved until bounds on errors of classes are met.

    trained: under bounds on errors of classes. without_bounds: trains without them, where that is not the lowest loss of
    two classes; `trained` comes back where that is interrupted. classes: the labels. None where no such move meets the bounds, of rows held back, and of several
    processes, each of which knows its own rows only.
    """
    problem = trained.problem
    if trained.held is not None or not trained.single:
        return None
    if problem.loss is LOGISTIC and is_linear(problem.model, 1) and not isinstance(problem.features, SparseRows):
        free = lowest_loss(problem, trained.optimality.get("weight_decay", 0.0))
    else:
        alone, before = without_bounds(), trained.solution
        spent = replace(
            before, steps=before.steps + alone.steps, seconds=before.seconds + alone.seconds, stopped=alone.stopped
        )
        trained, free = trained._replace(solution=spent), alone.x[: problem.model.n]
        if alone.interrupted:
            return trained
    at = last_intercept(problem.model, free, problem.features)
    if at is None:
        return None
    scores = problem.all_scores(free).double().cpu().numpy()
    if scores.ndim == 1:
        scores = np.column_stack([np.zeros_like(scores), scores])
    labels, most = [str(label_text(c)) for c in classes], np.full(len(classes), np.inf)
    for bound in problem.plan.notions:
        c = labels.index(bound.class_)
        most[c] = min(most[c], bound.bound)
    codes, weight = problem.targets.long().cpu().numpy(), problem.weight_of_rows().double().cpu().numpy()
    offsets = least_offsets(scores, codes, weight, most)
    if offsets is None:
        return None
    x = free.clone()
    x[at] += x.new_tensor(offsets[1:] - offsets[0] if len(x[at]) == 1 else offsets)
    if float(problem.evaluate(x).violation) > 0:
        return None
    return trained._replace(solution=meeting(trained, x, OFFSETS), notes=[*trained.notes, OFFSETS], optimality={})


def only_errors_of_classes(bounds: Sequence[Any]) -> bool:
    """Whether each bound is on the error, or the recall, of a class."""
    return bool(bounds) and all(bound.about == "class" for bound in bounds)


def least_offsets(scores: np.ndarray, codes: np.ndarray, weight: np.ndarray, most: np.ndarray) -> np.ndarray | None:
    """(C,) the least numbers >= 0 whose addition to scores (n, C) makes each class c err, where its score is not above all
    others, on at most a share most[c] of its rows' weight; None where rounds end before all bounds are met.

    codes: (n,) the classes of the rows, of weight (n,). most: (C,), infinity for classes without a bound.
    """
    offsets, bounded = np.zeros(scores.shape[1]), np.flatnonzero(np.isfinite(most))
    for _ in range(min(ROUNDS, max(2, MOST_WORK // scores.size))):
        before = offsets.copy()
        for c in bounded:
            lacking = np.delete(scores + offsets, c, axis=1).max(1) - scores[:, c]
            offsets[c] = max(offsets[c], _least(lacking, codes == c, weight, most[c]))
        if (offsets == before).all():
            return offsets
    return None


def _least(lacking: np.ndarray, own: np.ndarray, weight: np.ndarray, most: float) -> float:
    """The least number above what is lacking (n,) to all `own` rows but to a share `most` of their weight, half-way to
    what is lacking to the next row of any class."""
    order = lacking[own].argsort()
    needed, reached = lacking[own][order], weight[own][order].cumsum()
    left = reached[-1] - np.append(0.0, reached)  # weight that errs where the first k rows do not
    k = int(np.argmax(left <= most * reached[-1]))
    if k == 0:
        return -np.inf
    least = needed[k - 1]
    return float(least + np.min(lacking[lacking > least], initial=least + 1e-3 * (1 + abs(least)))) / 2
