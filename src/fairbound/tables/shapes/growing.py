"""A regression to which columns come one by one, and from which those that are not needed go again."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import chdtri

from fairbound.tables.shapes.bending import NEARLY, PENALTY
from fairbound.tables.shapes.regressions import TWO_CLASSES, Curved, fitted, ridged, times


class Growing:
    """The regression of labels (n,) on features (n, d) to which at most `most` columns come.

    start: (d + 1,) an intercept and weights nearby, None for zeros. The table is of float32: its rounding is far less
    than chance.
    """

    def __init__(
        self,
        features: np.ndarray,
        labels: np.ndarray,
        most: int,
        loss: Any = TWO_CLASSES,
        start: np.ndarray | None = None,
    ):
        self.labels, self.loss, self.mass = labels, loss, np.ones(len(labels))
        self.width = features.shape[1] + 1
        self.room = np.empty((len(features), self.width + most), np.float32, order="F")
        self.room[:, 0], self.room[:, 1 : self.width] = 1.0, features
        self.x = np.zeros(self.width) if start is None else start
        self.dispersion = 1.0
        self.near: Curved | None = None

    @property
    def penalty(self) -> np.ndarray:
        """(w,) on the squares of the weights."""
        return np.r_[0.0, np.full(self.width - 1, PENALTY)]

    def add(self, column: np.ndarray) -> None:
        """Add a column (n,)."""
        self.room[:, self.width] = column
        self.width += 1

    def fitted(self) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """(n,) labels less what the regression expects, nearly at its end; (n,) the variance of each by chance; and
        (n,) squares of the former where the latter is taken as one for all rows. All are such that the variance is the
        curvature of the loss."""
        A, x = self.room[:, : self.width], np.r_[self.x, np.zeros(self.width - len(self.x))]
        near = None if self.near is None else self.near.widened(A)
        self.x, scores, self.near = fitted(A, self.labels, self.mass, self.penalty, x, near, NEARLY, self.loss)
        expected = self.loss.expected(scores)
        left, spread = self.labels - expected, self.loss.curvature(expected)
        self.dispersion = self.loss.dispersion(left, self.width)
        left = left / self.dispersion**0.5
        return left, spread, None if self.loss.spread_is_known else left**2

    def spread_of(self, features: slice) -> float:
        """The standard deviation of what some of the features that it began with add to the scores."""
        places = slice(1 + features.start, 1 + features.stop)
        return float(times(self.room[:, places], self.x[places]).std())

    def keep_needed(self, first: int, level: float) -> list[bool]:
        """Of each column from place `first` on whether the loss, as last fitted, asks for it, when the least sure have
        gone one by one: chance alone makes the loss as much larger with probability `level` over the number of columns
        at most. Those that are not needed are dropped."""
        if first == self.width:
            return []
        near = self.near
        assert near is not None and len(near.Q) == self.width
        needed, x = self._needed(first, level, near.Q)
        if not all(needed):
            kept = np.flatnonzero(np.r_[np.ones(first, dtype=bool), needed])
            for place, column in enumerate(kept[first:], first):
                self.room[:, place] = self.room[:, column]
            self.width, self.x = len(kept), x[kept]
            self.near = near._replace(Q=near.Q[np.ix_(kept, kept)])
        return needed

    def _needed(self, first: int, level: float, Q: np.ndarray) -> tuple[list[bool], np.ndarray]:
        """As `keep_needed`, and (w,) nearly the weights of a regression without those that are not needed. Q: (w, w)
        second derivatives."""
        A, x = self.room[:, : self.width], self.x
        loss = self.loss.total(times(A, x), self.labels, self.mass)
        inverse = np.linalg.inv(ridged(self.penalty, Q))
        unsure, enough = set(range(first, self.width)), chdtri(1, level / (self.width - first))
        enough = enough * self.dispersion
        gone = set[int]()
        while unsure:
            least = min(unsure, key=lambda j: x[j] ** 2 / inverse[j, j])
            share = inverse[:, least] / inverse[least, least]
            if x[least] ** 2 / inverse[least, least] > enough:
                break
            unsure.remove(least)
            without = x - share * x[least]
            more = self.loss.total(times(A, without), self.labels, self.mass) - loss
            if 2 * more <= enough:
                gone.add(least)
                x, loss, inverse = without, loss + more, inverse - np.outer(share, inverse[least])
        return [j not in gone for j in range(first, self.width)], x
