"""Confidence bounds for one rate or one mean, from counts alone; arrays of cells at once.

Sources: Clopper, Pearson (1934); Wilson (1927); Maurer, Pontil (2009), Theorem 4; Hoeffding (1963).
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from scipy import special

from fairbound.base.errors import DataError, OptionError

Side = Literal["two-sided", "lower", "upper"]
MeanMethod = Literal["student-t", "empirical-bernstein", "hoeffding"]


def clopper_pearson(
    successes: Any, counts: Any, alpha: float = 0.05, side: Side = "two-sided"
) -> tuple[np.ndarray, np.ndarray]:
    """Exact binomial bounds (lower, upper), each of the broadcast shape; coverage at least 1 - alpha for every rate.

    successes, counts: 0 <= successes <= counts; [0, 1] where counts = 0. Reals are read by the same formula, an
    approximation for weighted samples (successes and counts of ``GroupCounts.trials``).
    side: "lower" leaves upper at 1 and "upper" leaves lower at 0; "two-sided" spends alpha / 2 on each.
    """
    return _one_side(*limits(*check_trials(successes, counts), check_level(alpha, side)), side)


def wilson(
    successes: Any, counts: Any, alpha: float = 0.05, side: Side = "two-sided", continuity: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Score bounds (lower, upper) of a binomial rate; coverage near 1 - alpha on average, below it near 0 and 1.

    Arguments as ``clopper_pearson``. continuity: move the successes by one half first; conservative nearly everywhere.
    """
    x, n = check_trials(successes, counts)
    z = float(special.ndtri(1 - check_level(alpha, side)))
    size = np.where(n > 0, n, 1.0)
    ends = []
    for sign in (-1, 1):
        p = np.clip(x + sign * 0.5 * continuity, 0, n) / size
        middle = p + z * z / (2 * size)
        end = (middle + sign * z * np.sqrt(p * (1 - p) / size + (z / (2 * size)) ** 2)) / (1 + z * z / size)
        ends.append(np.clip(np.where(n > 0, end, sign > 0), 0.0, 1.0))
    return _one_side(np.where(x > 0, ends[0], 0.0), np.where(x < n, ends[1], 1.0), side)


def mean_bounds(
    mean: Any,
    variance: Any,
    counts: Any,
    alpha: float = 0.05,
    side: Side = "two-sided",
    *,
    method: MeanMethod = "student-t",
    low: float | None = None,
    high: float | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Bounds (lower, upper) of a mean, from the sample's mean, variance (divisor n - 1) and number of rows.

    method: "student-t" holds asymptotically (finite variance; short of nominal for few, skewed rows);
    "empirical-bernstein" (Maurer, Pontil 2009) and "hoeffding" need [low, high] and are guaranteed for values in it.
    Infinite, or [low, high], where counts < 2.
    """
    m, n = np.asarray(mean, dtype=np.float64), np.asarray(counts, dtype=np.float64)
    width = mean_width(np.asarray(variance, dtype=np.float64), n, check_level(alpha, side), method, low, high)
    m = np.where(n > 0, m, 0.0)
    floor, ceiling = (-np.inf, np.inf) if low is None or high is None else (low, high)
    lower, upper = np.maximum(m - width, floor), np.minimum(m + width, ceiling)
    return _one_side(lower, upper, side, floor, ceiling)


def limits(x: np.ndarray, n: np.ndarray, level: Any) -> tuple[np.ndarray, np.ndarray]:
    """Clopper-Pearson limits, each at ``level``; [0, 1] without rows."""
    lower = np.where(x > 0, special.betaincinv(np.where(x > 0, x, 1.0), n - x + 1, level), 0.0)
    return lower, np.where(x < n, special.betainccinv(x + 1, np.where(x < n, n - x, 1.0), level), 1.0)


def mean_width(
    v: np.ndarray, n: np.ndarray, level: Any, method: str, low: float | None, high: float | None
) -> np.ndarray:
    check_choice("method", method, ("student-t", "empirical-bernstein", "hoeffding"))
    if method == "student-t":
        size = np.maximum(n, 2)
        return np.where(n >= 2, special.stdtrit(size - 1, 1 - level) * np.sqrt(v / size), np.inf)
    if low is None or high is None or not low < high:
        raise OptionError(f"{method} bounds need the range of the values: low < high, got low={low}, high={high}.")
    if method == "hoeffding":
        return np.where(n >= 1, (high - low) * np.sqrt(np.log(1 / level) / (2 * np.maximum(n, 1))), np.inf)
    size, log = np.maximum(n, 2), np.log(2 / level)
    width = np.sqrt(2 * v * log / size) + 7 * (high - low) * log / (3 * (size - 1))
    return np.where(n >= 2, width, np.inf)


def check_choice(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise OptionError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}.")


def check_level(alpha: float, side: Side) -> float:
    check_choice("side", side, ("two-sided", "lower", "upper"))
    if not 0 < alpha <= 0.5:
        raise OptionError(f"alpha must lie in (0, 0.5], got {alpha}; it is the chance of error, 0.05 for 95 % bounds.")
    return alpha / 2 if side == "two-sided" else alpha


def check_trials(successes: Any, counts: Any) -> tuple[np.ndarray, np.ndarray]:
    x, n = np.asarray(successes, dtype=np.float64), np.asarray(counts, dtype=np.float64)
    try:
        wrong = ~((x >= 0) & (x <= n * (1 + 1e-12)) & np.isfinite(n))
    except ValueError:
        raise DataError(f"successes {x.shape} and counts {n.shape} do not broadcast together.") from None
    if wrong.any():
        raise DataError(f"successes must lie between 0 and counts; {int(wrong.sum())} of {wrong.size} do not.")
    return np.minimum(x, n), n


def _one_side(
    lower: np.ndarray, upper: np.ndarray, side: Side, floor: float = 0.0, ceiling: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    if side == "upper":
        return np.full_like(lower, floor), upper
    return lower, (np.full_like(upper, ceiling) if side == "lower" else upper)
