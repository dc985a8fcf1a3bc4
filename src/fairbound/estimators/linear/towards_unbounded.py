"""A linear model moved towards the one without bounds, as far as bounds on areas and distributions allow.

Training under such bounds follows smooth stand-ins of them, and may end far inside the bounds, or at a constant. Moves
of one straight line are measured exactly, so from a model x that meets the bounds and the one u of the lowest loss:

    up to ROUNDS times, while the objective falls, no fewer decisions are right, and with "auto" scores rank no worse
        of the points x + t (u - x) at PLACES places, closer to each other near x, take the best that meets the bounds;
            halve the distance to the next place HALVINGS times
        where the problem itself moves points inside its bounds (`FairProblem.nearer`), take the best that it makes of
            the points at PULLS

Where x is the start, which alone met the bounds, every point of that line has the order of u. So the rounds begin at a
model on few columns too (`_of_few_columns`).

Where the order of the scores is the objective, those of u have the spread of those of x: no scale changes an order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fairbound.estimators.gains import area
from fairbound.estimators.linear.lowest_loss import lowest_loss
from fairbound.estimators.trained import measured_accuracy
from fairbound.fairness.pointwise import HINGE, LOGISTIC
from fairbound.fairness.problem import FairProblem
from fairbound.models.mlp import is_linear
from fairbound.rows.sparse import SparseRows
from fairbound.solver.solve import Solution

ROUNDS, PLACES, HALVINGS = 4, 32, 6
PULLS = (1.0, 0.5, 0.25, 0.125)
COLUMNS = 30
"""Columns that a model on few of them is made of, at most."""

GAIN = 1e-4
"""What the objective must fall by, at least, for a move, and for another round."""

MOVED = (
    "every bound is met on the training rows. The model was moved towards the one without bounds, as far as they allow."
)


def moved_outward(
    problem: FairProblem,
    aim: Any,
    solution: Solution,
    decay: float,
    late: Callable[[], bool],
    keeps_order: bool = False,
) -> Solution:
    """A feasible solution of `problem`, or that with the better point as above, for a model of two classes.

    aim: the problem with the objective that points are compared by. decay: in it. late: whether to end.
    keeps_order: whether the area under the ROC curve is to be no smaller."""
    plan, model = problem.plan, problem.model
    plain = is_linear(model, 1) and getattr(model, "bias", False) and not isinstance(problem.features, SparseRows)
    if not plain or not plan.statistics or not problem.m or problem.loss not in (LOGISTIC, HINGE):
        return solution
    x, own = solution.x, model.n
    free = torch.cat([lowest_loss(problem, decay), x[own:]])
    if plan.ranks:
        spread = float(problem.all_scores(free).std())
        free[:own] *= float(problem.all_scores(x).std()) / spread if spread > 0 else 0.0
    measure = lambda at: _Point.of(aim, at, area(problem, at) if keeps_order else 0.0)  # noqa: E731
    start = measure(x)
    now, found = _outward(measure, aim, start, free, late)
    if not solution.found and (few := _of_few_columns(measure, start, problem, decay, late)) is not start:
        few, _ = _outward(measure, aim, few, free, late)
        now, found = (few, True) if few.better_than(now) else (now, found)
    if start.f - now.f < GAIN:
        return solution
    step = torch.full_like(solution.best_step, max(solution.steps, 1)) if found else solution.best_step
    return replace(solution, x=now.x, message=MOVED, best_step=step)


def _outward(
    measure: Callable[[Tensor], _Point], aim: Any, now: _Point, free: Tensor, late: Callable[[], bool]
) -> tuple[_Point, bool]:
    """Where the rounds end that begin at `now`, and whether the problem itself moved a point on the way. free: (n,)."""
    pulled = False
    for _ in range(ROUNDS):
        before = now
        now = _farthest(measure, now, free, late)
        tried = (aim.nearer(now.x + t * (free - now.x)) for t in PULLS)
        further = _best(measure, now, (at for at in tried if at is not None), late)
        pulled, now = pulled or further is not now, further
        if late() or before.f - now.f < GAIN:
            break
    return now, pulled


class _Point(NamedTuple):
    """x: (n,). f: the objective there. accuracy, area: 0 where they are no part of the aim. met: whether it meets the
    bounds."""

    x: Tensor
    f: float
    accuracy: float
    area: float
    met: bool

    @classmethod
    def of(cls, aim: Any, x: Tensor, area: float) -> _Point:
        found = aim.evaluate(x)
        accuracy = measured_accuracy(found) if aim.refined else None
        return cls(x, float(found.f), accuracy or 0.0, area, float(found.violation) <= 0)

    def better_than(self, other: _Point) -> bool:
        """Whether it meets the bounds at a lower objective, and neither decides fewer rows rightly nor ranks worse."""
        return self.met and self.f < other.f and self.accuracy >= other.accuracy and self.area >= other.area


def _best(
    measure: Callable[[Tensor], _Point], now: _Point, points: Iterable[Tensor], late: Callable[[], bool]
) -> _Point:
    """The best of `now` and of the points (n,)."""
    for x in points:
        if late():
            break
        tried = measure(x)
        now = tried if tried.better_than(now) else now
    return now


def _of_few_columns(
    measure: Callable[[Tensor], _Point], now: _Point, problem: FairProblem, decay: float, late: Callable[[], bool]
) -> _Point:
    """The best of `now` and of models of the lowest loss on few columns: each of the COLUMNS that go most with the labels is
    added to those before it where that is better."""
    features = problem.features
    assert not isinstance(features, SparseRows)
    weight = problem.weight_of_rows() / problem.weight_of_rows().sum()
    y = problem.targets.to(weight)
    mean = weight @ features
    spread = (weight @ features.square() - mean.square()).clamp_min(0).sqrt()
    with_labels = (((y - weight @ y) * weight) @ features).abs() / torch.where(spread > 0, spread, torch.inf)
    left = np.ones(features.shape[1], dtype=bool)
    for column in with_labels.argsort(descending=True, stable=True)[:COLUMNS].tolist():
        if late():
            break
        left[column] = False
        x = torch.cat([lowest_loss(problem, decay, without=left), now.x[problem.model.n :]])
        tried = measure(x)
        left[column] = not tried.better_than(now)
        now = now if left[column] else tried
    return now


def _farthest(measure: Callable[[Tensor], _Point], now: _Point, free: Tensor, late: Callable[[], bool]) -> _Point:
    """The best point found on the line from `now` to `free` (n,)."""
    at = lambda t: now.x + t * (free - now.x)  # noqa: E731
    places = [(k / PLACES) ** 2 for k in range(PLACES + 1)]
    best, place = now, 0
    for k in range(1, PLACES + 1):
        if late():
            return best
        if (tried := measure(at(places[k]))).better_than(best):
            best, place = tried, k
    inside, outside = places[place], places[min(place + 1, PLACES)]
    for _ in range(HALVINGS if outside > inside else 0):
        middle = (inside + outside) / 2
        better = (tried := measure(at(middle))).better_than(best)
        best = tried if better else best
        inside, outside = (middle, outside) if better else (inside, middle)
    return best
