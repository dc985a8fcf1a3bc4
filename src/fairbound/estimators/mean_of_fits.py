"""A weighted mean of the scores of several fits, with one threshold, that meets bounds where no single fit does
without many more errors.

A lottery over fits decides a row by a draw; the mean of their scores decides it the same every time. Shares and
threshold are looked for on the training rows. One share after another is moved up and down, by smaller and smaller
moves, as long as error + penalty . excess falls. Of all shares and thresholds on the way, the most accurate that meets
the true bounds is taken.

Source: Caruana, Niculescu-Mizil, Crew, Ksikes (2004), Ensemble selection from libraries of models; Hooke, Jeeves
    (1961), direct search.
Departs: bounds as an exact penalty, which is twice the sum of the multipliers of the best lottery; begins at the
    best fit and at that lottery.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairbound.estimators.lottery import GRID, NEGLIGIBLE, Lottery
from fairbound.postprocessing.scoring import CODES, scores_of
from fairbound.postprocessing.sweep import ROUNDING, Sweep

MOVES = (0.5, 0.25, 0.1, 0.05, 0.02)
MOST = 200
"""Thresholds are looked for so often from each start before the last round of moves begins ..."""
SINGLE = 3
ROWS = 10_000_000
"""... or fewer times, on so many rows in all."""


@dataclass(frozen=True)
class SeveralModels:
    """models: fitted to tables of the same columns, whose number and names are those of the first one."""

    models: tuple[Any, ...]

    def __getattr__(self, name: str) -> Any:
        if name in ("n_features_in_", "feature_names_in_"):
            return getattr(self.models[0], name)
        raise AttributeError(name)


@dataclass(frozen=True)
class MeanOfFits(SeveralModels):
    """models: fitted to the labels 0 and 1, with scores as `scores_of` has them. shares: of each, with sum 1."""

    shares: tuple[float, ...]

    def decision_function(self, X: Any) -> np.ndarray:
        """(n,) the mean of the models' scores."""
        parts = zip(self.models, self.shares, strict=True)
        return np.asarray(sum(share * scores_of(model, "auto", X, CODES) for model, share in parts))


@dataclass(frozen=True)
class Mean:
    """shares: (k,) of each score; of a mean their sum is 1. error: share of wrong decisions."""

    shares: np.ndarray
    threshold: float
    error: float


def best_mean(sweep: Sweep, scores: Sequence[np.ndarray], lottery: Lottery) -> Mean | None:
    """The most accurate mean found that meets the bounds on the rows of the scores, each (n,); None where none does.

    The search looks at GRID thresholds of each mean, and at all of its best ones at the end."""
    search = Search(sweep, np.stack(scores), lottery.penalty, _moved)
    single = np.eye(len(scores))
    starts = [single[k] for k in np.argsort([search.at(one) for one in single], kind="stable")[:SINGLE]]
    if lottery.shares.sum() > NEGLIGIBLE:
        starts.append(lottery.shares / lottery.shares.sum())
    return search.best_of(starts)


class Search:
    """Moves of weights of scores (k, n), which say how much each counts. penalty: of an excess over the bounds.
    moved: the weights (k,) that a move of some size leads to."""

    def __init__(
        self,
        sweep: Sweep,
        scores: np.ndarray,
        penalty: float,
        moved: Callable[[np.ndarray, float], list[np.ndarray]],
    ):
        self.sweep, self.scores, self.penalty, self.moved, self.used = sweep, scores, penalty, moved, 0
        self.best: tuple[float, np.ndarray] | None = None

    def best_of(self, starts: Sequence[np.ndarray]) -> Mean | None:
        """The most accurate weights on the ways from these starts that meet the bounds; None where none do."""
        ends = [self.run(start, min(MOST, ROWS // self.scores.shape[1])) for start in starts]
        found = []
        for shares in (*ends, *([] if self.best is None else [self.best[1]])):
            threshold, excess, error = self.sweep.best(shares @ self.scores, np.inf)
            if excess <= ROUNDING:
                found.append(Mean(shares, threshold, error))
        return min(found, key=lambda one: one.error, default=None)

    def at(self, shares: np.ndarray) -> float:
        """The lowest penalised error of any threshold."""
        self.used += 1
        selected = self.sweep.selected(shares @ self.scores, GRID)
        error, worst = self.sweep.errors(selected), self.sweep.largest(selected)
        least = float(np.where(worst <= ROUNDING, error, np.inf).min())
        if least < (np.inf if self.best is None else self.best[0]):
            self.best = (least, shares)
        return float((error + self.penalty * np.maximum(worst, 0)).min())

    def run(self, shares: np.ndarray, most: int) -> np.ndarray:
        """The weights at the end."""
        value, end = self.at(shares), self.used + most
        for move in MOVES:
            while self.used < end:
                tried = [(self.at(other), other) for other in self.moved(shares, move)]
                lowest, other = min(tried, key=lambda one: one[0])
                if lowest >= value - 1e-12:
                    break
                value, shares = lowest, other
        return shares


def _moved(shares: np.ndarray, move: float) -> list[np.ndarray]:
    """One share more or less by `move`, and all divided by their sum."""
    out = []
    for number, sign in [(n, sign) for n in range(len(shares)) for sign in (1, -1)]:
        other = shares.copy()
        other[number] = max(0.0, other[number] + sign * move)
        if (sign > 0 or shares[number] > 0) and other.sum() > 0:
            out.append(other / other.sum())
    return out
