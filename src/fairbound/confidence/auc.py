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
from itertools import combinations
from typing import Any

import numpy as np

from fairbound.confidence.contrasts import Contrasts, GapBounds, largest
from fairbound.confidence.rows_needed import fewest_rows
from fairbound.confidence.single import check_level, rate_limits
from fairbound.ranking.known_rows import known_rows
from fairbound.rows.weighted import kish_size

PRIOR = 3.0  # rows in the wrong order that the largest variance counts for; docs/intervals.md


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
    added up first (Obuchowski), and rows are effective numbers of clusters. Estimates are NaN where a set has no row. Time O(n log n + n (A + contrasts of areas with rows in
    common)).
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


class _Placements:
    """Scores (n,) ranked once, for placements: of every row, the share of a set of rows that scores below it.

    weight: (n,) > 0."""

    def __init__(self, scores: np.ndarray, weight: np.ndarray):
        self.weight = weight
        distinct, place = np.unique(scores, return_inverse=True)
        self._place, self._distinct = place.ravel(), len(distinct)

    def below(self, rows: np.ndarray) -> np.ndarray:
        """(n,) share of the weight of the set rows (n,), True for its members, that scores below each row, ties as one
        half.

        NaN where the set has no weight."""
        weight = np.bincount(self._place[rows], weights=self.weight[rows], minlength=self._distinct)
        total = weight.sum()
        if total <= 0:
            return np.full(len(self._place), np.nan)
        return ((np.cumsum(weight) - weight / 2) / total)[self._place]


class _Rows:
    """The rows, and what each of them adds to an area."""

    def __init__(self, scores: Any, cells: Any, sets: np.ndarray, weight: Any, clusters: Any):
        counted, self.cells, self.weight, known = known_rows(scores, cells, weight)
        self.sets, self.placements = sets, _Placements(counted, self.weight)
        self.clusters = None if clusters is None else np.unique(clusters[known], return_inverse=True)[1].ravel()

    def area(self, a: int, b: int) -> tuple[float, float, float]:
        """Estimate, variance, and rows of the smaller set."""
        sizes = [self._size(self._in(c)) for c in (a, b)]
        if min(sizes) <= 0:
            return np.nan, np.nan, 0.0
        if a == b:
            return 0.5, 0.0, np.inf
        estimate, parts = self._parts(a, b)
        return estimate, float((parts**2).sum()), min(sizes)

    def correlation(self, one: np.ndarray, two: np.ndarray) -> float:
        """The correlation of two areas, 0 where one of them does not vary."""
        first, second = (self._parts(int(a), int(b))[1] for a, b in (one, two))
        both = np.sqrt((first**2).sum() * (second**2).sum())
        return float(np.clip(first @ second / both, -1, 1)) if both > 0 else 0.0

    def common(self, one: np.ndarray, two: np.ndarray) -> bool:
        """Whether some cell, or perhaps a cluster, is part of both areas."""
        return self.clusters is not None or bool((self.sets[one].any(0) & self.sets[two].any(0)).any())

    def _in(self, a: int) -> np.ndarray:
        return self.sets[a][self.cells]

    def _size(self, inside: np.ndarray) -> float:
        w = self.weight[inside]
        if self.clusters is not None:
            w = np.bincount(self.clusters[inside], weights=w)
        return kish_size(w) if len(w) else 0.0

    def _parts(self, a: int, b: int) -> tuple[float, np.ndarray]:
        """The estimate of AUC(a, b), and (n,) what each row, or cluster, adds to its error, with divisors of rows - 1."""
        first, second = self._in(a), self._in(b)
        above, below = self.placements.below(second), 1 - self.placements.below(first)
        estimate = float(np.average(above[first], weights=self.weight[first]))
        parts = np.zeros(len(self.weight))
        for inside, placed in ((first, above), (second, below)):
            w, size = self.weight[inside], self._size(inside)
            factor = np.sqrt(size / (size - 1)) if size > 1 + 1e-9 else 0.0
            parts[inside] += factor * w / w.sum() * (placed[inside] - estimate)
        return estimate, parts if self.clusters is None else np.bincount(self.clusters, weights=parts)


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

    return fewest_rows(contrasts, areas.estimates, bound, upper, whole or alpha, power, correlation=areas.correlation)


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
