"""Choosing kappa, the bound on the surrogate, so that an exact linear score meets the stated bound on the true areas.

Which kappa does so is found by trying: first a grid of kappas, downwards from one that does not bind, then halving
between the best kappa that meets the bound and the next larger one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fairbound.fairness.area_problems.linear_auc import LinearAUC, LinearScores
from fairbound.subproblems import SubproblemError

SMALLEST, GRID, HALVINGS = 1e-3, 12, 5
UNBOUNDED = 1e6  # a kappa that never binds


class Tried(NamedTuple):
    """A solution with the true area under the ROC curve and the true value of the bound's metric of its scores."""

    scores: LinearScores
    auc: float
    value: float


class Path(NamedTuple):
    """chosen: the largest area among those tried that meet the bound, else the nearest to it. met: whether one does."""

    chosen: Tried
    met: bool
    tried: list[Tried]


def along_kappa(program: LinearAUC, measure: Callable[[np.ndarray], tuple[float, float]], bound: float) -> Path:
    """Try kappas until value <= bound. measure: weights (d,) -> area and value, on the rows that judge."""
    free = program.solve(UNBOUNDED)
    tried = [Tried(free, *measure(free.weights))]
    if tried[0].value <= bound:
        return Path(tried[0], True, tried)
    largest = max(float(free.differences.max(initial=0.0)), 2 * SMALLEST)

    def attempt(kappa: float, start: LinearScores) -> Tried | None:
        try:
            found = program.solve(kappa, start)
        except SubproblemError:
            return None
        tried.append(Tried(found, *measure(found.weights)))
        return tried[-1]

    start = free
    for kappa in np.geomspace(largest, SMALLEST, GRID)[1:].tolist():
        now = attempt(kappa, start)
        if now is None:
            break
        start = now.scores
    best = _best(tried, bound)
    if best is not None:
        above = min((t.scores.kappa for t in tried[1:] if t.scores.kappa > best.scores.kappa), default=largest)
        low, high = best.scores.kappa, above
        for _ in range(HALVINGS):
            middle = float(np.sqrt(low * high))
            now = attempt(middle, best.scores)
            met = now is not None and now.value <= bound
            low, high = (middle, high) if met else (low, middle)
        best = _best(tried, bound)
    return Path(best or min(tried, key=lambda t: t.value), best is not None, tried)


def _best(tried: list[Tried], bound: float) -> Tried | None:
    """The one of largest area among those that meet the bound."""
    return max((t for t in tried if t.value <= bound), key=lambda t: t.auc, default=None)
