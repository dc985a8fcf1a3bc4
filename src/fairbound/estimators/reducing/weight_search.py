"""Weights of several scores whose weighted sum, with one threshold, meets bounds at the lowest error found.

What is lowered is error + penalty . excess of the true decisions, at GRID thresholds of each sum.

Source: Hooke, Jeeves (1961), direct search.
Departs: bounds as an exact penalty, which is twice the sum of the multipliers of the best lottery.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fairbound.estimators.reducing.lottery import GRID
from fairbound.postprocessing.sweep import ROUNDING, Sweep

MOVES = (0.5, 0.25, 0.1, 0.05, 0.02)
MOST = 200
"""Thresholds are looked for so often from each start before the last round of moves begins ..."""
ROWS = 10_000_000
"""... or fewer times, on so many rows in all."""


@dataclass(frozen=True)
class Weighted:
    """weights: (k,) of each score. threshold: of their sum. error: share of wrong decisions, in their costs."""

    weights: np.ndarray
    threshold: float
    error: float


class Search:
    """Weights of scores (k, n), which say how much each counts. penalty: of an excess over the bounds."""

    def __init__(self, sweep: Sweep, scores: np.ndarray, penalty: float):
        self.sweep, self.scores, self.penalty, self.used = sweep, scores, penalty, 0
        self.best: tuple[float, np.ndarray] | None = None

    def best_by_moves(
        self, starts: Sequence[np.ndarray], moved: Callable[[np.ndarray, float], list[np.ndarray]]
    ) -> Weighted | None:
        """The most accurate weights on the ways from these starts that meet the bounds; None where none do.
        moved: the weights (k,) that a move of some size leads to."""
        most = min(MOST, ROWS // self.scores.shape[1])
        return self.best_of([self.run(start, most, moved) for start in starts])

    def best_of(self, ends: Sequence[np.ndarray]) -> Weighted | None:
        """The most accurate of these weights, and of the best of all tried before, with the best of all thresholds; None
        where none meets the bounds."""
        found = []
        for weights in (*ends, *([] if self.best is None else [self.best[1]])):
            threshold, excess, error = self.sweep.best(weights @ self.scores, np.inf)
            if excess <= ROUNDING:
                found.append(Weighted(weights, threshold, error))
        return min(found, key=lambda one: one.error, default=None)

    def at(self, weights: np.ndarray) -> float:
        """The lowest penalised error of any threshold."""
        self.used += 1
        selected = self.sweep.selected(weights @ self.scores, GRID)
        error, worst = self.sweep.errors(selected), self.sweep.largest(selected)
        least = float(np.where(worst <= ROUNDING, error, np.inf).min())
        if least < (np.inf if self.best is None else self.best[0]):
            self.best = (least, weights)
        return float((error + self.penalty * np.maximum(worst, 0)).min())

    def run(self, weights: np.ndarray, most: int, moved: Callable[[np.ndarray, float], list[np.ndarray]]) -> np.ndarray:
        """The weights where no move of any size is better, or `most` sums have been tried."""
        value, end = self.at(weights), self.used + most
        for move in MOVES:
            while self.used < end:
                tried = [(self.at(other), other) for other in moved(weights, move)]
                lowest, other = min(tried, key=lambda one: one[0])
                if lowest >= value - 1e-12:
                    break
                value, weights = lowest, other
        return weights
