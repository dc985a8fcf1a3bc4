"""Confidence bounds for ratios of sums over independent clusters, and for weighted sums of such ratios.

    theta_k = sum_q u_qk / sum_q d_qk,   value_i = sum_t c_it theta_{index_it}

Clusters q (queries with their documents, say) are drawn independently; what is inside one is not. A ratio of sums is no
mean, so that its bounds are asymptotic: the delete-one jackknife's variance of each value, with Student's t. Its
degrees of freedom are (sum_q d_q^2)^2 / sum_q d_q^4 - 1, those of a sum of squares of which cluster q has a share that
grows with d_q^2, as where all of a cluster behaves alike. Where clusters are few or skewed, t is too narrow on one
side. With z_q = sum_t c_t (u_qt - theta_t d_qt) / sum_q d_qt, the amount by which cluster q moves the value, the
quantile should be

    t - G (2 t^2 + 1) / 6 + B t^2 + C,    G = sum z^3 / (sum z^2)^(3/2)

where B and C say how the measured variance depends on the value, through the denominators (`_lean`). A bound uses this
quantile only where it is wider than t. Every ratio is taken with two clusters more, of mean size, one at the lowest and
one at the highest value possible, so that a ratio that is the same in every cluster is not thought to be certain.

Source: Efron, Stein (1981), Annals of Statistics 9, 586-596, for the jackknife, which overestimates on the whole;
    Agresti, Caffo (2000), American Statistician 54, 280-288, for one success and one failure more in each sample; Kish
    (1965) for the effective number of clusters of unequal weight, below which nothing is said; Bell, McCaffrey (2002),
    Survey Methodology 28, 169-181, for degrees of freedom under a working model, after Satterthwaite; Hall (1992), JRSS
    B 54, 221-228, for the quantile of t under skewness.
Departs: B and C are ours, by the expansion that gives Hall's; the wider of both quantiles is taken.
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
    """Asymptotic bounds of the largest contrast of K ratios of sums; lower and upper hold with probability 1 - alpha
    each.

    numerators, denominators: (Q, K) of Q independent clusters, denominators >= 0. low, high: between which
    numerator / denominator lies in every cluster. whole: as in `area_bounds`, alpha if None. Infinite for a contrast of
    a ratio with fewer than CLUSTERS effective clusters.
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
    fourth = (d**4).sum(0)
    freedom = np.divide((d**2).sum(0) ** 2, fourth, out=np.ones_like(fourth), where=fourth > 0)
    freedom = np.where(used, freedom[contrasts.index], np.inf).min(-1) - 1
    skew, bend, shift = _lean(u - pooled * d, d, bottom, contrasts)

    def width(level: float, up: bool) -> np.ndarray:
        t = special.stdtrit(np.maximum(np.minimum(freedom, few - 1), 1), 1 - level)
        lean = -skew * (2 * t**2 + 1) / 6 + bend * t**2 + shift
        return np.where(few < CLUSTERS, np.inf, (t + np.maximum(-lean if up else lean, 0.0)) * error)

    level = alpha / len(contrasts)
    lower, upper = centre - width(level, up=False), centre + width(level, up=True)
    return largest(contrasts, estimates, lower, upper, centre + width(whole or alpha, up=True))


def _lean(
    residuals: np.ndarray, d: np.ndarray, total: np.ndarray, contrasts: Contrasts
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """G, B and C (m,) of the module's docstring. residuals: (Q, K) u - theta d; d: (Q, K) with sums total (K,).

    The measured variance moves with the value as theta_k moves with it, by beta_k, and z with theta_k, by d_k / sum
    d_k.
    """
    safe = np.where(total > 0, total, 1.0)
    moved, weight = residuals / safe, d / safe - 1 / len(d)
    c, index = contrasts.coefficient, contrasts.index
    z = contrasts.of(moved)  # (Q, m)
    variance = (z**2).sum(0)
    v = np.where(variance > 0, variance, 1.0)
    own, weight = moved[:, index], weight[:, index]  # (Q, m, t)
    beta = (own * z[..., None]).sum(0) / v[:, None]
    bend = (c * beta * (z[..., None] * weight).sum(0)).sum(-1) / np.sqrt(v)
    shift = -(c * (weight * (own - beta * z[..., None])).sum(0)).sum(-1) / np.sqrt(v)
    return (z**3).sum(0) / v**1.5, bend, shift
