"""The rows of two models drawn again: what the contrasts of bounds may be in truth, given the rows.

Where shares or means of rows are compared, every row gets an exponential weight, and so does one more row in each group,
whose values make a contrast as large, or as small, as may be. Of a single share, the quantiles of this are Clopper and
Pearson's limits; of any mean of bounded numbers, those of Gaffke. What is independent is drawn independently, and adds
up. Of numbers without bounds one more row has the extreme ones of the rows themselves. Of rows alike in groups, label and
both decisions the weights are summed at once: with W the sum of their own weights and S that of the squares, the sum has
the gamma law of mean W and variance S, which is exact where the weights are equal.

Of areas and distributions of scores a draw is n rows with replacement.

Sources: Fay, Proschan, Brittain (2015), Biometrics 71, 146-156, for adding up limits of independent shares by draws;
Gaffke (2005), Revista de Matematica: Teoria y Aplicaciones 12, 73-87, for one more row. Departs: ours are several
rates of two models, sums of weighted rows, and numbers without bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from fairbound.base.errors import EmptyGroupError
from fairbound.fairness.notions import Bound
from fairbound.fairness.scored import Scored
from fairbound.fairness.verdicts.extremes import Extremes, extremes_of_draws

DRAWN_AT_ONCE = 1 << 20
"""Rows of draws that are measured together."""


class DrawnAgain:
    """both: n rows as each of two models decides them. draws: how often they are drawn, by the random numbers of
    `seed`, which are the same for every bound."""

    def __init__(self, both: Sequence[Scored], draws: int, seed: int):
        self.both, self.draws, self.seed = both, draws, seed

    def measured(self, bound: Bound) -> np.ndarray:
        """Of the rows themselves the contrasts (2, m) of both models, as of `contrasts`."""
        return contrasts(bound, self.both, self.both[0].mass[1])

    def extremes(self, bound: Bound) -> Extremes:
        """The contrasts of a bound that compares means, at most and at least, of both models."""
        rows, total, square = self._cells if bound.judged_from == "counts" else self._rows
        rng, size, found = np.random.default_rng(self.seed), max(1, DRAWN_AT_ONCE // len(total)), []
        for first in range(0, self.draws, size):
            shape = (min(size, self.draws - first), len(total))
            masses = rng.standard_gamma(total**2 / square, shape) * (square / total)
            found.append(extremes_of_draws(bound, rows, masses, square, rng))
        return Extremes.joined(found)

    def percentiles(self, bound: Bound, shape: tuple[int, ...]) -> np.ndarray:
        """(2, draws, m) the contrasts of both models in draws of rows with replacement, those of this shape (2, m)."""
        rng, weight, n = np.random.default_rng(self.seed), self.both[0].mass[1], len(self.both[0])
        times = (np.bincount(rng.integers(0, n, n), minlength=n) for _ in range(self.draws))
        found = [each for one in times if (each := contrasts(bound, self.both, one * weight)).shape == shape]
        return np.array(found).reshape(len(found), *shape).swapaxes(0, 1)

    @cached_property
    def _rows(self) -> tuple[list[Scored], np.ndarray, np.ndarray]:
        """The rows of positive weight, their weights and these squared."""
        some = np.flatnonzero(self.both[0].mass[1])
        _, weight, square = (part[some] for part in self.both[0].mass)
        return [rows.take(some) for rows in self.both], weight, square

    @cached_property
    def _cells(self) -> tuple[list[Scored], np.ndarray, np.ndarray]:
        """As `_rows`, those that are alike as one, with their sums."""
        (first, second), weight, square = self._rows
        table = np.column_stack([first.groups.codes, first.target, first.predicted, second.predicted])
        kinds, at, place = np.unique(table, axis=0, return_index=True, return_inverse=True)
        total, squares = (np.bincount(place.ravel(), part) for part in (weight, square))
        cells = [
            replace(
                one, target=kinds[:, -3], predicted=kinds[:, k], scores=None, weight=total, groups=one.groups.take(at)
            )
            for one, k in zip((first, second), (-2, -1), strict=True)
        ]
        return cells, total, squares


def contrasts(bound: Bound, both: Sequence[Scored], weight: np.ndarray) -> np.ndarray:
    """(2, m) the contrasts of both models where the rows have these weights (n,); the value itself of a bound that is no
    largest contrast of groups, and (2, 0) where one is not defined. Of ratios those to 0 are infinite."""
    try:
        found = np.array([bound.contrasts(replace(one, weight=weight)) for one in both])
    except EmptyGroupError:
        return np.zeros((2, 0))
    defined = ~np.isnan(found) if getattr(bound, "compares", None) == "ratios" else np.isfinite(found)
    return found if defined.all() else np.zeros((2, 0))
