"""A linear model part of the way to a more accurate one that orders the rows too badly.

Two models under the same bounds, x and x': the second decides more rows right, but its scores are in a worse order than
is allowed. On the straight line between them, x + t (x' - x), the order goes from the one to the other:

    halve [0, 1] until the farthest t is known at which the order is allowed, up to 2^-HALVINGS;
    there, of all places of the intercept that meet the bounds, take one that decides the fewest rows wrongly, and of the
        stretch of those that decide alike the one of the lowest loss; go there if the loss is above that of both ends by
        at most the share of rows that fewer are decided wrongly than at x

The order does not depend on the intercept, so the two can be chosen one after the other. Places of the intercept are
counted as in `fewer_wrong`, whose line is the intercept's here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from torch import Tensor

from fairbound.fairness.lines.counted_rows import CountedRows
from fairbound.fairness.lines.fewer_wrong import fewest
from fairbound.fairness.objectives import Accuracy

HALVINGS = 8
"""How often the interval of t is halved."""

MARGIN = 0.01
"""How far the nearest score stays from 0 where the stretch is that long, in standard deviations of the scores."""


def part_way(problem: Any, x: Tensor, other: Tensor, allowed: Callable[[Tensor], bool]) -> tuple[Tensor, float]:
    """The point and t as above where it is more accurate than x (n,), else x and 0.

    problem: a FairProblem of a linear model, whose objective is an `Accuracy`; x and 0 come back where it has no
    `CountedRows`. x: meets its bounds. other: (n,). allowed: whether the order of the scores of a point is.
    """
    problem = problem.with_objective(Accuracy(1.0))
    whole = CountedRows.of(problem, x)
    if whole is None or not whole.bias:
        return x, 0.0
    t, beyond = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = (t + beyond) / 2
        t, beyond = (middle, beyond) if allowed(x + middle * (other - x)) else (t, middle)
    if t == 0.0:
        return x, 0.0
    point, before = x + t * (other - x), problem.evaluate(x)
    scores = whole.scores(point).double().cpu().numpy()
    reach = 1.01 * float(np.abs(scores).max())
    than = np.r_[float(before.f), np.zeros(problem.m)]
    found = fewest(scores, np.ones_like(scores), reach, whole.turns, whole.sums(point), than, whole.judged)
    tried = [point]
    if found is not None:
        tried.append(with_intercept(point, _calibrated(problem, point, scores, found[0])))
    most = float(before.f) + max(float(end.extra["loss"]) for end in (before, problem.evaluate(other)))
    measured = [
        (float(at.f), i)
        for i, at in enumerate(map(problem.evaluate, tried))
        if float(at.violation) <= 0 and float(at.f) + float(at.extra["loss"]) <= most
    ]
    error, best = min(measured, default=(np.inf, 0))
    return (tried[best], t) if error < float(before.f) else (x, 0.0)


def with_intercept(point: Tensor, by: float) -> Tensor:
    """The point (n,) with another intercept."""
    out = point.clone()
    out[-1] += by
    return out


def _calibrated(problem: Any, point: Tensor, scores: np.ndarray, by: float) -> float:
    """Of the moves of the intercept that decide every row as `by` does the one of the lowest loss. scores: (k,) at the
    point (n,)."""
    low = np.max(-scores, where=-scores < by, initial=-np.inf)
    high = np.min(-scores, where=-scores > by, initial=np.inf)
    far = (
        float(np.abs(scores).max()) + math.log(len(scores)) + 1
    )  # beyond it all are too high, or too low, for the lowest loss
    loss = lambda t: float(problem.evaluate(with_intercept(point, t)).extra["loss"])  # noqa: E731
    best = minimize_scalar(loss, bounds=(-far, far), method="bounded", options={"xatol": 1e-3}).x
    margin = min((high - low) / 2, MARGIN * float(scores.std()))
    return float(np.clip(best, low + margin, high - margin))
