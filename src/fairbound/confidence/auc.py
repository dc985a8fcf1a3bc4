"""Confidence bounds for contrasts of areas under ROC curves between sets of rows, which may overlap.

An area AUC(G, G') is the mean over pairs of a row of G and a row of G'. Its variance is that of the placements: with
P(z) the share of G' that scores below z, and Q(z) the share of G above it,

    AUC - theta ~ mean over G of (P - theta) + mean over G' of (Q - theta),

a sum over rows, so that areas with rows in common have covariances too. The limits of a single area are
Clopper-Pearson's with as many trials as give a share this variance. Few rows, or an area near 1, say little about the
variance. So its estimate is mixed with the largest variance that any two samples of at least m rows can have, theta
(1 - theta) / m. The estimate has the weight m min(theta, 1 - theta), the rows in the wrong order; the largest variance
has the weight PRIOR. Where no pair is in the wrong order, the largest variance alone counts, and the limit level^(1/m)
is exact: m disjoint pairs must all be in order. Limits of two areas are joined for their difference by MOVER with the
areas' correlation.

Sources: DeLong, DeLong, Clarke-Pearson (1988), Biometrics 44, 837-845; Obuchowski (1997), Biometrics 53, 567-578, for
    clusters; Birnbaum, Klose (1957), Ann. Math. Statist. 28,
933-945, for the largest variance; Zou (2007), Psychological Methods 12, 399-413, for MOVER with correlation. Departs:
their limits are normal; see docs/intervals.md for how often these are wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from fairbound.confidence.contrasts import Contrasts, GapBounds, largest
from fairbound.confidence.rows_needed import fewest_rows
from fairbound.confidence.single import check_level, rate_limits
from fairbound.ranking.known_rows import known_rows
from fairbound.rows.weighted import kish_size

PRIOR = 3.0  # rows in the wrong order that the largest variance counts for; docs/intervals.md
MOST_KEPT = 1 << 24  # numbers of rows' parts of areas that are kept for correlations


@dataclass(frozen=True)
class Areas:
    """What rows say of A areas.

    estimates: (A,). variances: (A,) of the estimates. rows: (A,) (effective) rows of the smaller of an area's two sets;
    infinite for a set against itself, whose area is 1/2 for certain. together: (p,) ascending, a * A + b of the areas
    a < b whose correlations (p,) are not 0.
    """

    estimates: np.ndarray
    variances: np.ndarray
    rows: np.ndarray
    together: np.ndarray
    correlations: np.ndarray

    def correlation(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """The correlation of the areas a and b, arrays that broadcast together; 0 where none was needed."""
        key = np.minimum(a, b) * len(self.estimates) + np.maximum(a, b)
        if not len(self.together):
            return (a == b).astype(float)
        place = np.minimum(np.searchsorted(self.together, key), len(self.together) - 1)
        found = np.where(self.together[place] == key, self.correlations[place], 0.0)
        return np.where(a == b, 1.0, found)


def measure_areas(
    scores: Any,
    cells: Any,
    sets: np.ndarray,
    pairs: np.ndarray,
    contrasts: Contrasts,
    weight: Any = None,
    clusters: Any = None,
) -> Areas:
    """The areas AUC(sets[a], sets[b]) for the rows (a, b) of pairs (A, 2), as the contrasts of them need.

    scores: (n,) real. cells: (n,) of each row, -1 for none. sets: (S, k) bool, which cells each set has. weight:
    (n,) >= 0. clusters: (n,) which rows belong together, numbers from 0 on; what they add to an area's error is then
    added up first (Obuchowski), and rows are effective numbers of clusters. Estimates are NaN where a set has no row.
    Time O(n log n), and of each area, and each contrast of two that have rows in common, as long as its sets.
    """
    contrasts.check(len(pairs))
    rows = _Rows(scores, cells, sets, weight, clusters)
    found = [rows.area(int(a), int(b)) for a, b in pairs]
    estimates, variances, least = (np.array(part, dtype=float) for part in zip(*found, strict=True))
    correlations: dict[int, float] = {}
    for areas, used in zip(contrasts.index.tolist(), (contrasts.coefficient != 0).tolist(), strict=True):
        mine = sorted({a for a, there in zip(areas, used, strict=True) if there})
        for a, b in combinations(mine, 2):
            key = a * len(pairs) + b
            if key not in correlations and rows.common(pairs[a], pairs[b]):
                correlations[key] = rows.correlation(pairs[a], pairs[b])
    together = np.array(sorted(correlations), dtype=np.int64)
    return Areas(estimates, variances, least, together, np.array([correlations[key] for key in together.tolist()]))


@dataclass(frozen=True)
class _Set:
    """The m rows of a set, by ascending score: their numbers, scores and weights, and how many (effective) rows or
    clusters they are."""

    rows: np.ndarray
    scores: np.ndarray
    weight: np.ndarray
    size: float

    @cached_property
    def _before(self) -> np.ndarray:
        """(m + 1,) the weight of the first rows, for each number of them."""
        return np.concatenate([[0.0], np.cumsum(self.weight)])

    def below(self, scores: np.ndarray) -> np.ndarray:
        """(q,) the share of the weight that lies below each of the scores (q,), ties as one half."""
        first, last = (self._before[np.searchsorted(self.scores, scores, side)] for side in ("left", "right"))
        return (first + last) / 2 / self._before[-1]


@dataclass(frozen=True)
class _Part:
    """What each row, or cluster, adds to the error of an area: numbers of them without a repeat, and values."""

    units: np.ndarray
    values: np.ndarray

    def __len__(self) -> int:
        return len(self.units)

    @cached_property
    def square(self) -> float:
        return float((self.values**2).sum())


class _Rows:
    """The rows by ascending score, and what each of them adds to an area."""

    def __init__(self, scores: Any, cells: Any, sets: np.ndarray, weight: Any, clusters: Any):
        scores, cells, weight, known = known_rows(scores, cells, weight)
        order = np.argsort(scores, kind="stable")
        self.sets, self.scores, self.weight = sets, scores[order], weight[order]
        self.clusters = None if clusters is None else np.unique(clusters[known], return_inverse=True)[1].ravel()[order]
        ends = np.cumsum(np.bincount(cells, minlength=sets.shape[1]))
        self._of_cells = np.split(np.argsort(cells[order], kind="stable"), ends[:-1])
        self._table = np.zeros(len(order))
        self._sets: dict[int, _Set] = {}
        self._parts: dict[tuple[int, int], _Part] = {}
        self._kept = 0

    def area(self, a: int, b: int) -> tuple[float, float, float]:
        """Estimate, variance, and rows of the smaller set."""
        size = min(self._set(a).size, self._set(b).size)
        if size <= 0:
            return np.nan, np.nan, 0.0
        if a == b:
            return 0.5, 0.0, np.inf
        estimate, part = self._measured(a, b)
        return estimate, part.square, size

    def correlation(self, one: np.ndarray, two: np.ndarray) -> float:
        """The correlation of two areas, 0 where one of them does not vary."""
        first, second = (self._part(int(a), int(b)) for a, b in (one, two))
        both = np.sqrt(first.square * second.square)
        if not both > 0:
            return 0.0
        self._table[first.units] = first.values
        product = float(self._table[second.units] @ second.values)
        self._table[first.units] = 0.0
        return float(np.clip(product / both, -1, 1))

    def common(self, one: np.ndarray, two: np.ndarray) -> bool:
        """Whether both areas vary, and some cell, or perhaps a cluster, is part of both."""
        if one[0] == one[1] or two[0] == two[1]:
            return False
        return self.clusters is not None or bool((self.sets[one].any(0) & self.sets[two].any(0)).any())

    def _set(self, a: int) -> _Set:
        if a not in self._sets:
            cells = np.flatnonzero(self.sets[a])
            rows = np.concatenate([np.zeros(0, dtype=np.int64), *(self._of_cells[c] for c in cells)])
            rows = np.sort(rows) if len(cells) > 1 else rows
            w = self.weight[rows]
            each = w if self.clusters is None else np.bincount(self.clusters[rows], weights=w)
            self._sets[a] = _Set(rows, self.scores[rows], w, kish_size(each) if len(w) else 0.0)
        return self._sets[a]

    def _part(self, a: int, b: int) -> _Part:
        """The part of `_measured`, kept while there is room."""
        if (a, b) in self._parts:
            return self._parts[a, b]
        part = self._measured(a, b)[1]
        if self._kept + len(part) <= MOST_KEPT:
            self._kept += len(part)
            self._parts[a, b] = part
        return part

    def _measured(self, a: int, b: int) -> tuple[float, _Part]:
        """The estimate of AUC(a, b), and what each row, or cluster, adds to its error, with divisors of rows - 1."""
        first, second = self._set(a), self._set(b)
        above, below = second.below(first.scores), 1 - first.below(second.scores)
        estimate = float(np.average(above, weights=first.weight))
        values = []
        for inside, placed in ((first, above), (second, below)):
            factor = np.sqrt(inside.size / (inside.size - 1)) if inside.size > 1 + 1e-9 else 0.0
            values.append(factor * inside.weight / inside.weight.sum() * (placed - estimate))
        rows, parts = np.concatenate([first.rows, second.rows]), np.concatenate(values)
        if self.clusters is None and not (self.sets[a] & self.sets[b]).any():
            return estimate, _Part(rows, parts)
        units, place = np.unique(rows if self.clusters is None else self.clusters[rows], return_inverse=True)
        return estimate, _Part(units, np.bincount(place.ravel(), weights=parts))


def area_bounds(areas: Areas, contrasts: Contrasts, alpha: float = 0.05, whole: float | None = None) -> GapBounds:
    """Bounds of the largest contrast of areas; lower and upper hold with probability 1 - alpha each, asymptotically.

    whole: the error of the upper bound, where these are a part of more contrasts that share the lower bound's; alpha if
    None. Bonferroni over the contrasts, but for the upper bound (`largest`). A contrast that uses an area without rows
    has estimate NaN and trivial bounds.
    """
    level = check_level(alpha) / len(contrasts)
    upper, lower = _upper(areas, contrasts, level), -_upper(areas, -contrasts, level)
    return largest(contrasts, contrasts.of(areas.estimates), lower, upper, _upper(areas, contrasts, whole or alpha))


def area_rows_needed(
    areas: Areas,
    contrasts: Contrasts,
    rows: int,
    bound: float,
    alpha: float = 0.05,
    whole: float | None = None,
    power: float = 0.5,
) -> int | None:
    """Fewest rows that would decide "the largest contrast <= bound" if estimates, and shares of rows, stayed as
    observed on `rows` rows; None if none would. whole: as in `area_bounds`."""
    if np.isnan(areas.estimates).any():
        return None
    check_level(alpha)

    def upper(which: Contrasts, n: int, together: int) -> np.ndarray:
        grown = replace(areas, variances=areas.variances * rows / n, rows=areas.rows * n / rows)
        return _upper(grown, which, (whole or alpha) if together == 1 else alpha / together)

    correlation = areas.correlation if len(areas.together) else None
    return fewest_rows(contrasts, areas.estimates, bound, upper, whole or alpha, power, correlation=correlation)


def _upper(areas: Areas, contrasts: Contrasts, level: float) -> np.ndarray:
    """(m,) upper bounds, each wrong with probability at most `level`."""
    c, index = contrasts.coefficient, contrasts.index
    low, high = area_limits(areas.estimates, areas.variances, areas.rows, level)
    above, theta = c > 0, areas.estimates
    width = np.where(c != 0, c * np.where(above, (high - theta)[index], (low - theta)[index]), 0.0)
    signed, t = np.sign(c) * width, index.shape[1]
    spread = (width**2).sum(-1)
    for one, two in combinations(range(t), 2):
        spread = spread + 2 * signed[:, one] * signed[:, two] * areas.correlation(index[:, one], index[:, two])
    most = np.where(c != 0, c * above, 0.0).sum(-1)
    bound = contrasts.of(theta) + np.sqrt(np.maximum(spread, 0.0))
    return np.where(np.isnan(bound), most, np.minimum(bound, most))


def area_limits(
    estimates: np.ndarray, variances: np.ndarray, rows: np.ndarray, level: float
) -> tuple[np.ndarray, np.ndarray]:
    """Limits (lower, upper) of single areas, each wrong with probability at most `level`, asymptotically; [0,
    1] without rows."""
    sure = np.isinf(rows)
    some = (rows > 0) & ~sure
    theta, m = np.where(some, estimates, 0.5), np.where(some, rows, 1.0)
    most = theta * (1 - theta) / m
    share = np.divide(np.where(some, variances, 0.0), most, out=np.ones_like(most), where=most > 0)
    wrong = m * np.minimum(theta, 1 - theta)
    trials = m * (wrong + PRIOR) / (wrong * np.minimum(share, 1.0) + PRIOR)
    low, high = rate_limits(theta * trials, trials, level)
    low, high = np.where(some, low, np.where(sure, 0.5, 0.0)), np.where(some, high, np.where(sure, 0.5, 1.0))
    return low, high
