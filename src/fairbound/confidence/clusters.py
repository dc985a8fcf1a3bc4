"""Confidence bounds for ratios of sums over independent clusters, and for weighted sums of such ratios.

    theta_k = sum_q u_qk / sum_q d_qk,   value_i = sum_t c_it theta_{index_it}

Clusters q (queries with their documents, say) are drawn independently; what is inside one is not. A ratio of sums is no mean, so
that its bounds are asymptotic: the delete-one jackknife's variance of each value, with Student's t of as many degrees of
freedom as there are clusters that weigh, less one. Every ratio is taken with two clusters more, of mean size, one at the lowest and one
at the highest value possible, so that a ratio that is the same in every cluster is not thought to be certain.

Source: Efron, Stein (1981), Annals of Statistics 9, 586-596, for the jackknife, which overestimates on the whole; Agresti, Caffo
    (2000), American Statistician 54, 280-288, for one success and one failure more in each sample; Kish (1965) for the
    effective number of clusters of unequal weight.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from fairbound.base.errors import DataError
from fairbound.confidence.contrasts import Contrasts, GapBounds, largest
from fairbound.confidence.single import check_level

CLUSTERS = 20  # fewest (effective) clusters of a ratio for finite bounds; docs/ranking.md has the measured errors


def ratio_of_sums_bounds(
    numerators: Any,
    denominators: Any,
    contrasts: Contrasts,
    alpha: float = 0.05,
    *,
    low: float,
    high: float,
    whole: float | None = None,
) -> GapBounds:
    """Asymptotic bounds of the largest contrast of K ratios of sums; lower and upper hold with probability 1 - alpha each.

    numerators, denominators: (Q, K) of Q independent clusters, denominators >= 0. low, high: between which numerator / denominator
    lies in every cluster. whole: as in `area_bounds`, alpha if None. Infinite for a contrast of a ratio with fewer than CLUSTERS effective clusters.
    Raises: DataError for shapes that do not fit and for numbers that are not finite.
    """
    u, d = np.asarray(numerators, dtype=np.float64), np.asarray(denominators, dtype=np.float64)
    if u.shape != d.shape or u.ndim != 2 or not np.isfinite(u).all() or not np.isfinite(d).all() or (d < 0).any():
        raise DataError(f"numerators and denominators must be finite (clusters, K), got {u.shape} and {d.shape}.")
    contrasts.check(u.shape[1])
    check_level(alpha)
    total = d.sum(0)
    ratio = np.divide(u.sum(0), total, out=np.full(len(total), np.nan), where=total > 0)
    estimates = contrasts.of(ratio)
    square = (d**2).sum(0)
    clusters = np.divide(total**2, square, out=np.zeros_like(total), where=square > 0)

    weighs = (d > 0).sum(0)
    mean = np.divide(total, weighs, out=np.zeros_like(total), where=weighs > 0)
    u, d = np.concatenate([u, [low * mean, high * mean]]), np.concatenate([d, [mean, mean]])
    top, bottom = u.sum(0), d.sum(0)
    rest = bottom - d
    without = np.divide(top - u, rest, out=np.full(u.shape, 0.0), where=rest > 0)
    pooled = np.divide(top, bottom, out=np.zeros_like(total), where=bottom > 0)
    moved = np.where(d > 0, without - pooled, 0.0)  # (Q + 2, K) by how much each cluster moves each ratio
    n = (d > 0).sum(0)
    with np.errstate(invalid="ignore"):
        change = contrasts.of(moved * np.sqrt(np.maximum(n - 1, 0) / np.maximum(n, 1)))
    error = np.sqrt((change**2).sum(0))
    used = contrasts.coefficient != 0
    few = np.where(used, clusters[contrasts.index], np.inf).min(-1)
    centre = np.where(np.isnan(estimates), 0.0, estimates)

    def width(level: float) -> np.ndarray:
        return np.where(few < CLUSTERS, np.inf, special.stdtrit(np.maximum(few - 1, 1), 1 - level) * error)

    all_at_once = width(alpha / len(contrasts))
    alone = centre + width(whole or alpha)
    return largest(contrasts, estimates, centre - all_at_once, centre + all_at_once, alone)
