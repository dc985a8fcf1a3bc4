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
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fairbound.estimators.facts.fit_warnings import ROUNDING
from fairbound.estimators.linear.lowest_loss import lowest_loss
from fairbound.estimators.problems import Problems
from fairbound.estimators.trained import Trained, meeting
from fairbound.estimators.validation import VALIDATION
from fairbound.fairness.pointwise import LOGISTIC
from fairbound.fairness.problem import FairProblem
from fairbound.models.mlp import is_linear
from fairbound.models.model import Model, ModuleModel
from fairbound.models.scoring import has_last_intercept, last_intercept
from fairbound.rows.groups import label_text
from fairbound.rows.shards import Shards
from fairbound.rows.sparse import SparseRows
from fairbound.solver.solve import Solution

ROUNDS = 200
"""How often all bounded classes are looked at."""

FEWEST = 20
"""Rows of each bounded class to hold back, at least, for a network; with fewer none are."""

MOST_WORK = 1 << 30
"""Scores of all rows times rounds, at most, but for two rounds."""

OFFSETS = (
    "The bounds are on errors of classes alone: the model is the one without bounds, with the least added to the scores of these classes "
    "that meets them."
)

INTERRUPTED = (
    "Training without the bounds was interrupted, and nothing that is added to the scores of classes meets them."
)


def takes_free_model(
    model: Model, features: Any, algorithm: Any, objective: Any, stated: Sequence[Any], shards: Shards
) -> bool:
    """Whether a network is to be trained without its bounds, and its scores moved then: under bounds on errors of classes
    alone, where decisions are the aim, the method was left to "auto", and one process holds all rows. The other arguments
    are as in `choosing.chosen`; features: rows that the model can be run on."""
    if algorithm != "auto" or not moves_meet(objective, stated) or is_linear(model) or not shards.alone:
        return False
    return has_last_intercept(model, features)


def moves_meet(objective: Any, stated: Sequence[Any]) -> bool:
    """Whether decisions are the aim, and each bound is on the error, or the recall, of a class."""
    return objective in ("auto", "accuracy") and bool(stated) and all(bound.about == "class" for bound in stated)


def held_for_classes(asked: float | str, stated: Sequence[Any], codes: np.ndarray, classes: Sequence[Any]) -> float:
    """The share of rows that a network of `takes_free_model` is not trained on, so that they show what is to be added to
    scores of new rows: `asked`, or by "auto" VALIDATION where that is FEWEST rows of each bounded class.

    codes: (n,) the classes of the rows, by their places among the labels `classes`.
    """
    if asked != "auto":
        return float(asked)
    counts = dict(zip(map(label_text, classes), np.bincount(codes, minlength=len(classes)), strict=True))
    enough = all(VALIDATION * counts.get(b.class_, 0) >= max(b.fewest_rows, FEWEST) for b in stated)
    return VALIDATION if enough else 0.0


def linear_with_offsets(
    trained: Trained, without_bounds: Callable[[], Solution], classes: Sequence[Any] | np.ndarray
) -> Trained | None:
    """`with_offsets` of the linear model without bounds.

    trained: under bounds on errors of classes. without_bounds: trains without them, where that is not the lowest loss of
    two classes; `trained` comes back where that is interrupted. None of rows held back too, and of several processes,
    each of which knows its own rows only.
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
    return with_offsets(trained, free, classes)


def network_with_offsets(found: Trained, made: Problems, classes: Sequence[Any] | np.ndarray) -> Trained | None:
    """`with_offsets` of a network that was trained without bounds, `found`. made: the problems of the same rows under
    them. Where training was interrupted and no move meets the bounds, the network as it is; else a module begins again
    where it began."""
    problem, solution = made.problem, found.solution
    x = solution.x[: problem.model.n]
    trained = found._replace(problem=problem, held=made.held)
    moved = with_offsets(trained, x, classes)
    if moved is not None or not solution.interrupted:
        if moved is None and isinstance(problem.model, ModuleModel):
            problem.model.bind(problem.model.start(torch.Generator(), x.dtype))
        return moved
    violation = problem.evaluate(x).violation.double().cpu()
    return trained._replace(
        solution=replace(solution, x=x, feasible=violation <= 0, violation=violation, message=INTERRUPTED)
    )


def with_offsets(trained: Trained, free: Tensor, classes: Sequence[Any] | np.ndarray) -> Trained | None:
    """A model without bounds whose last intercepts are moved until bounds on errors of classes are met, on the rows held
    back too.

    trained: of the problem under these bounds. free: (n,) the model's parameters. classes: the labels. None where no
    such move meets the bounds.
    """
    problem = trained.problem
    at = last_intercept(problem.model, free, problem.features)
    if at is None:
        return None
    labels, most = [str(label_text(c)) for c in classes], np.full(len(classes), np.inf)
    for bound in problem.plan.notions:
        c = labels.index(bound.class_)
        most[c] = min(most[c], bound.bound)
    offsets = least_offsets([_rows_of(part, free) for part in trained.parts], most)
    if offsets is None:
        return None
    x = free.clone()
    x[at] += x.new_tensor(offsets[1:] - offsets[0] if len(x[at]) == 1 else offsets)
    if not all(within(_rows_of(part, x), most) for part in trained.parts):
        return None
    return trained._replace(solution=meeting(trained, x, OFFSETS), notes=[*trained.notes, OFFSETS], optimality={})


class Rows(NamedTuple):
    """scores: (n, C) of rows. codes: (n,) their classes. weight: (n,) theirs."""

    scores: np.ndarray
    codes: np.ndarray
    weight: np.ndarray


def _rows_of(problem: FairProblem, x: Tensor) -> Rows:
    """The rows of a problem with their scores at x (n,); of two classes these are 0 and the score of the second."""
    scores = problem.all_scores(x).double().cpu().numpy()
    scores = np.column_stack([np.zeros_like(scores), scores]) if scores.ndim == 1 else scores
    return Rows(scores, problem.targets.long().cpu().numpy(), problem.weight_of_rows().double().cpu().numpy())


def least_offsets(parts: Sequence[Rows], most: np.ndarray) -> np.ndarray | None:
    """(C,) the least numbers >= 0 whose addition to the scores makes each class c err, where its score is not above all
    others, on at most a share most[c] of its rows' weight, in each of the `parts`; None where rounds end before all
    bounds are met.

    most: (C,), infinity for classes without a bound.
    """
    offsets, bounded = np.zeros(len(most)), np.flatnonzero(np.isfinite(most))
    for _ in range(min(ROUNDS, max(2, MOST_WORK // sum(part.scores.size for part in parts)))):
        before = offsets.copy()
        for c in bounded:
            for scores, codes, weight in parts:
                lacking = np.delete(scores + offsets, c, axis=1).max(1) - scores[:, c]
                offsets[c] = max(offsets[c], _least(lacking, codes == c, weight, most[c]))
        if (offsets == before).all():
            return offsets
    return None


def within(rows: Rows, most: np.ndarray) -> bool:
    """Whether each class c errs on at most a share most[c] (C,) of its rows' weight, up to ROUNDING."""
    scores, codes, weight = rows
    every = np.arange(len(codes))
    others = scores.copy()
    others[every, codes] = -np.inf
    errs = scores[every, codes] <= others.max(1)
    total, wrong = (np.bincount(codes, w, minlength=len(most)) for w in (weight, weight * errs))
    return bool((wrong <= _allowed(np.minimum(most, 1.0), total)).all())


def _allowed(most: Any, total: Any) -> Any:
    """The weight that may err of `total`, where a share `most` may. Sums and products are rounded, which must not take a
    whole row from it."""
    return (most + ROUNDING) * total


def _least(lacking: np.ndarray, own: np.ndarray, weight: np.ndarray, most: float) -> float:
    """The least number above what is lacking (n,) to all `own` rows but to a share `most` of their weight, half-way to
    what is lacking to the next row of any class."""
    order = lacking[own].argsort()
    needed, reached = lacking[own][order], weight[own][order].cumsum()
    left = reached[-1] - np.append(0.0, reached)  # weight that errs where the first k rows do not
    k = int(np.argmax(left <= _allowed(most, reached[-1])))
    if k == 0:
        return -np.inf
    least = needed[k - 1]
    return float(least + np.min(lacking[lacking > least], initial=least + 1e-3 * (1 + abs(least)))) / 2
