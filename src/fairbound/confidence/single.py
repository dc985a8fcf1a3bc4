"""Confidence limits of one rate or one mean from counts alone; arrays of cells at once.

Sources: Clopper, Pearson (1934); Maurer, Pontil (2009), Theorem 4; Korn, Graubard (1998), Survey Methodology 24,
193-201, for weighted rates. Departs: Korn and Graubard multiply the effective number of rows by a ratio of squared
Student quantiles for the design's degrees of freedom; here rows are drawn independently and the ratio is 1. What rates
learn of each other's weights is ours.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from scipy import special

from fairbound.base.checks import check_choice
from fairbound.base.errors import DataError, OptionError

Side = Literal["two-sided", "lower", "upper"]

PRIOR = 3.0
"""Rows of the rarer outcome of a rate that the weights of the other rates count for; docs/intervals.md."""


def clopper_pearson(
    successes: Any, counts: Any, alpha: float = 0.05, side: Side = "two-sided"
) -> tuple[np.ndarray, np.ndarray]:
    """Exact binomial bounds (lower, upper), each of the broadcast shape; coverage at least 1 - alpha for every rate.

    successes, counts: 0 <= successes <= counts; [0, 1] where counts = 0. Reals are read by the same formula, an
    approximation for weighted samples (``effective_trials``).
    side: "lower" leaves upper at 1 and "upper" leaves lower at 0; "two-sided" spends alpha / 2 on each.
    """
    check_choice("side", side, ("two-sided", "lower", "upper"))
    level = check_level(alpha) / (2 if side == "two-sided" else 1)
    lower, upper = rate_limits(*check_trials(successes, counts), level)
    if side == "upper":
        return np.zeros_like(lower), upper
    return lower, (np.ones_like(upper) if side == "lower" else upper)


def rate_limits(x: np.ndarray, n: np.ndarray, level: Any) -> tuple[np.ndarray, np.ndarray]:
    """Clopper-Pearson limits (lower, upper), each with error at most ``level``; [0, 1] without rows."""
    lower = np.where(x > 0, special.betaincinv(np.where(x > 0, x, 1.0), n - x + 1, level), 0.0)
    return lower, np.where(x < n, special.betainccinv(x + 1, np.where(x < n, n - x, 1.0), level), 1.0)


def effective_trials(hit_weight: Any, weight: Any, hit_square: Any, square: Any) -> tuple[np.ndarray, np.ndarray]:
    """Successes and trials (K,) of a binomial sample as informative as weighted rows; reals, for Clopper-Pearson.

    hit_weight, weight: (K,) sums of the weights of the successes, and of all rows. hit_square, square: sums of the
    squared weights. Trials are the `effective_size`. Equal weights give the counts of rows. Asymptotic.

    A rate with few rows of the rarer outcome does not show how heavy these are. So its variance is mixed with the one that
    it has if they outweigh the other rows as they do in all K rates, where that leaves fewer trials.
    """
    hit, w, hit2, w2 = (np.asarray(a, dtype=np.float64) for a in (hit_weight, weight, hit_square, square))
    with np.errstate(divide="ignore", invalid="ignore"):
        p = np.where(w > 0, np.clip(hit / w, 0, 1), 0.0)
    spread = hit2 * (1 - p) ** 2 + np.maximum(w2 - hit2, 0) * p**2
    trials = effective_size(w, w2, p * (1 - p), spread)
    trials = np.minimum(trials, _trials_as_elsewhere(p, trials, (hit, hit2), (w - hit, np.maximum(w2 - hit2, 0))))
    return p * trials, trials


def _trials_as_elsewhere(
    p: np.ndarray, trials: np.ndarray, hits: tuple[np.ndarray, np.ndarray], misses: tuple[np.ndarray, np.ndarray]
) -> np.ndarray:
    """(K,) the trials of rates p, mixed with those that the weights of all K rates give them.

    hits, misses: sums (K,) of weights and of their squares. Of either outcome sum w^2 / sum w is how heavy its rows are,
    and (sum w)^2 / sum w^2 how many they are. How much heavier one is than the other is averaged over the rates that
    have both, each counted as often as it has rows of the outcome with fewer. Infinite where that is not known, or not
    above 1.
    """
    total = hits[0] + misses[0]
    some = [part[0] > 1e-9 * total for part in (hits, misses)]
    heavy, count = (
        [np.divide(a, b, out=np.zeros_like(p), where=of) for a, b, of in zip(above, below, some, strict=True)]
        for above, below in (
            ((hits[1], misses[1]), (hits[0], misses[0])),
            ((hits[0] ** 2, misses[0] ** 2), (hits[1], misses[1])),
        )
    )
    both = some[0] & some[1]
    shown = np.where(both, np.minimum(*count), 0.0)
    if not shown.any():
        return np.full_like(p, np.inf)
    heavier = [np.average(a[both] / b[both], weights=shown[both]) for a, b in (heavy, heavy[::-1])]
    rarer = p <= 0.5
    ratio, share, seen, other = (np.where(rarer, *each) for each in (heavier, (p, 1 - p), count, heavy[::-1]))
    with np.errstate(divide="ignore", invalid="ignore"):
        learnt = total / (other * (ratio * (1 - share) + share))
        mixed = (seen + PRIOR) / (seen / trials + PRIOR / learnt)
    return np.where((total > 0) & (ratio > 1 + 1e-9), mixed, np.inf)


def effective_size(weight: Any, square: Any, variance: Any, spread: Any) -> np.ndarray:
    """(K,) How many rows of equal weight tell as much of a mean as weighted ones do, a real.

    weight, square: (K,) sums of the weights w and of w^2. variance: of one row's number z, in these weights. spread:
    sum w^2 (z - mean)^2. The size is variance / v with v = spread / (sum w)^2, the linearised variance of the weighted
    mean, which sees weights that go with z; but at most Kish's size (sum w)^2 / sum w^2, and that one where nothing
    varies.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        kish = np.where(weight > 0, weight**2 / square, 0.0)
        return np.where((variance > 0) & (spread > 0), np.minimum(kish, variance * weight**2 / spread), kish)


def bernstein_width(variances: Any, counts: Any, level: Any, length: Any) -> np.ndarray:
    """Distance from a sample's mean to its one-sided empirical Bernstein limit, for values in an interval of
    ``length``.

    variances: of one row, divisor n - 1. Infinite below two rows. Guaranteed: error at most ``level``.
    """
    v, n = np.asarray(variances, dtype=np.float64), np.asarray(counts, dtype=np.float64)
    size, log = np.maximum(n, 2), np.log(2 / level)
    return np.where(n >= 2, np.sqrt(2 * v * log / size) + 7 * length * log / (3 * (size - 1)), np.inf)


def check_level(alpha: float) -> float:
    """alpha as it came; raises OptionError outside (0, 0.5]."""
    if not 0 < alpha <= 0.5:
        raise OptionError(f"alpha must lie in (0, 0.5], got {alpha}; it is the chance of error, 0.05 for 95 % bounds.")
    return alpha


def check_trials(successes: Any, counts: Any) -> tuple[np.ndarray, np.ndarray]:
    """Both as floats; successes above counts by rounding alone are lowered. Raises DataError where they do not fit."""
    x, n = np.asarray(successes, dtype=np.float64), np.asarray(counts, dtype=np.float64)
    try:
        wrong = ~((x >= 0) & (x <= n * (1 + 1e-12)) & np.isfinite(n))
    except ValueError:
        raise DataError(f"successes {x.shape} and counts {n.shape} do not broadcast together.") from None
    if wrong.any():
        raise DataError(f"successes must lie between 0 and counts; {int(wrong.sum())} of {wrong.size} do not.")
    return np.minimum(x, n), n
