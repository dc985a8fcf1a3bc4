"""Confidence bounds for differences of rates and of means; the verdict on a bound, and the rows that would decide it.

Which statement is bounded. Groups have independent samples, so a selection rate in group k is a binomial proportion
p_k and a fairness gap is the largest of m contrasts ``sum_k c_k p_k``: |p_1 - p_2| is the two contrasts (1, -1) and
(-1, 1). All bounds are one-sided at level 1 - alpha. With ``correction`` "bonferroni" or "sidak" they hold for all
contrasts at once, so that a reader may look at any of them. With "none" each holds by itself, and the *largest upper
bound* still covers the largest contrast: whichever contrast is truly the largest, its own bound covers it with
probability 1 - alpha. Holm's procedure sharpens a list of decisions but no bound, and its first step, the one that
decides whether the largest contrast exceeds a bound, is Bonferroni's; so it is not offered. Over contrasts, which are
dependent, "sidak" is the usual approximation; over cells (method "exact"), which are independent, it is exact.

Methods for contrasts of rates. "exact" unites Clopper-Pearson bounds of the single rates: coverage is guaranteed.
"mover" (the default) recovers variances from them: ``sum_k c_k p_k + sqrt(sum_k (c_k w_k)^2) + max_k |c_k| / (2 n_k)``
with w_k the distance from p_k to its bound on the side that matters. It is much sharper, and by exact enumeration not
below nominal for differences of rates in [0.005, 0.5] with 20 rows or more in the smaller group
(``tests/claims/test_intervals.py``); without its last term it falls short there.

Sources: Newcombe (1998), Statistics in Medicine 17, 873-890, method 10; Zou, Donner (2008), Statistics in Medicine 27,
1693-1702. Departs: they combine two-sided limits (Newcombe: Wilson's) and have no last term.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import special

from fairbound.base.errors import DataError, OptionError
from fairbound.confidence.single import (
    MeanMethod,
    check_choice,
    check_level,
    check_trials,
    clopper_pearson,
    limits,
    mean_bounds,
    mean_width,
    wilson,
)

__all__ = [
    "GapBounds",
    "clopper_pearson",
    "contrast_matrix",
    "contrast_upper_bound",
    "mean_bounds",
    "mean_contrast_upper_bound",
    "mean_gap_bounds",
    "rate_gap_bounds",
    "rows_needed",
    "rows_needed_for_means",
    "verdict",
    "wilson",
]

Correction = Literal["bonferroni", "sidak", "none"]
RateMethod = Literal["mover", "exact"]
Verdict = Literal["met", "violated", "insufficient"]

MOST_ROWS = 10**12
MOST_ENTRIES = 3 * 10**8


def contrast_matrix(
    n_groups: int,
    against: Literal["pairwise", "overall", "best"] = "pairwise",
    *,
    shares: Sequence[float] | None = None,
    n_rates: int = 1,
    agg: Literal["max", "sum"] = "max",
) -> np.ndarray:
    """(m, n_rates * n_groups) contrasts whose largest value is the gap; cells are ordered by rate, then by group.

    "pairwise" and "best": every ordered pair, as the gap is max - min. "overall": each group against the mean with
    ``shares`` (n_groups,), both signs; the shares are taken as known. n_rates = 2 for equalised odds (true, then false
    positive rates): agg "max" puts the rates' contrasts below each other, "sum" adds them with every pattern of signs.
    """
    check_choice("against", against, ("pairwise", "overall", "best"))
    check_choice("agg", agg, ("max", "sum"))
    if n_groups < 2:
        raise DataError(f"a gap compares at least two groups, got {n_groups}.")
    if against != "overall" and n_rates * n_groups**3 > MOST_ENTRIES:
        raise DataError(f'{n_groups} groups make too many pairs to bound one by one; use against="overall".')
    unit = np.eye(n_groups)
    if against == "overall":
        if shares is None or len(shares) != n_groups or min(shares) < 0 or not np.isclose(sum(shares), 1):
            raise OptionError(
                f'against="overall" needs shares: {n_groups} non-negative numbers with sum 1, got {shares}.'
            )
        half = unit - np.asarray(shares, dtype=np.float64)
    else:
        half = np.array([unit[a] - unit[b] for a, b in itertools.combinations(range(n_groups), 2)])
    if agg == "sum" and n_rates > 1:
        if against == "best":
            raise OptionError(
                'agg="sum" has no contrasts against="best": the best group differs by rate. Use "pairwise".'
            )
        signs = itertools.product((1, -1), repeat=n_rates)
        return np.concatenate([np.concatenate([s * half for s in pattern], axis=1) for pattern in signs])
    return np.kron(np.eye(n_rates), np.concatenate([half, 0.0 - half]))


def contrast_upper_bound(
    successes: Any,
    counts: Any,
    coefficients: Any,
    alpha: float = 0.05,
    method: RateMethod = "mover",
    correction: Correction = "bonferroni",
) -> np.ndarray:
    """(m,) upper bounds of ``sum_k c_jk p_k`` for independent rates p_k; simultaneous unless correction is "none".

    successes, counts: (K,), or (..., K) for a stack of samples, giving (..., m). coefficients: (m, K).
    A contrast that uses a rate with counts = 0 gets the largest value it could have. Lower bounds: minus the upper
    bounds of minus the coefficients, or ``rate_gap_bounds``. Raises: DataError for counts or shapes that do not fit.
    """
    check_choice("method", method, ("mover", "exact"))
    x, n = check_trials(successes, counts)
    c = _coefficients(coefficients, x.shape[-1])
    up, down = np.maximum(c, 0).T, np.minimum(c, 0).T
    most = up.sum(0)
    if method == "exact":
        bound = np.zeros((*x.shape[:-1], len(c)))
        for level, chosen in _cell_levels(c, alpha, correction):
            lower, upper = limits(x, n, level)
            bound[..., chosen] = upper @ up[:, chosen] + lower @ down[:, chosen]
        return np.minimum(bound, most)
    lower, upper = limits(x, n, _contrast_level(len(c), alpha, correction))
    p = np.divide(x, n, out=np.zeros_like(x), where=n > 0)
    spread = np.sqrt((upper - p) ** 2 @ up**2 + (p - lower) ** 2 @ down**2)
    with np.errstate(divide="ignore", invalid="ignore"):
        step = np.where(c != 0, np.abs(c) / (2 * n[..., None, :]), 0.0).max(-1)
    return np.minimum(p @ c.T + spread + step, most)


def mean_contrast_upper_bound(
    means: Any,
    variances: Any,
    counts: Any,
    coefficients: Any,
    alpha: float = 0.05,
    method: MeanMethod = "student-t",
    correction: Correction = "bonferroni",
    *,
    low: float | None = None,
    high: float | None = None,
) -> np.ndarray:
    """(m,) upper bounds of ``sum_k c_jk mu_k`` for means of independent samples; stacks as ``contrast_upper_bound``.

    means, variances (divisor n - 1), counts: (..., K). "student-t" (Welch's degrees of freedom) is asymptotic, the
    other methods unite guaranteed bounds of the single means for values in [low, high]. Infinite where a sample that
    the contrast uses has fewer than two rows ("hoeffding": none).
    """
    m, v, n = np.broadcast_arrays(*(np.asarray(a, dtype=np.float64) for a in (means, variances, counts)))
    c = _coefficients(coefficients, m.shape[-1])
    enough = n >= (1 if method == "hoeffding" else 2)
    useless = (~enough).astype(float) @ (c != 0).T.astype(float) > 0
    m, v, n = np.where(enough, m, 0.0), np.where(enough, v, 0.0), np.where(enough, n, 2.0)
    centre = m @ c.T
    if method == "student-t":
        parts = v / n
        square = parts @ (c**2).T
        freedom = np.divide(square**2, (parts**2 / (n - 1)) @ (c**4).T, out=np.ones_like(square), where=square > 0)
        width = special.stdtrit(freedom, 1 - _contrast_level(len(c), alpha, correction)) * np.sqrt(square)
    else:
        width = np.zeros_like(centre)
        for level, chosen in _cell_levels(c, alpha, correction):
            width[..., chosen] = mean_width(v, n, level, method, low, high) @ np.abs(c[chosen]).T
    return np.where(useless, np.inf, centre + width)


@dataclass(frozen=True)
class GapBounds:
    """Bounds of the largest of m contrasts.

    value, lower, upper: in the metric's units; lower is at least 0 where the contrasts add up to zero, as a gap's do.
    worst: the contrast with the largest estimate.
    estimates, lowers, uppers: (m,), NaN and infinite or trivial where a contrast uses an empty group.
    """

    value: float
    lower: float
    upper: float
    worst: int
    estimates: np.ndarray
    lowers: np.ndarray
    uppers: np.ndarray

    def verdict(self, bound: float) -> Verdict:
        return verdict(self.lower, self.upper, bound)


def rate_gap_bounds(
    successes: Any,
    counts: Any,
    coefficients: Any,
    alpha: float = 0.05,
    method: RateMethod = "mover",
    correction: Correction = "bonferroni",
) -> GapBounds:
    """Bounds of a gap of rates: the largest of the contrasts; arguments as ``contrast_upper_bound``, one sample (K,).

    Lower and upper bound hold with probability 1 - alpha each, so a verdict is wrong with probability at most alpha.
    correction "none" is for the upper bounds (valid for the largest contrast); the lower ones are always simultaneous.
    """
    x, n = check_trials(successes, counts)
    c = _coefficients(coefficients, x.shape[-1])
    upper = contrast_upper_bound(x, n, c, alpha, method, correction)
    lower = -contrast_upper_bound(x, n, -c, alpha, method, "bonferroni" if correction == "none" else correction)
    return _gap(np.divide(x, n, out=np.full_like(x, np.nan), where=n > 0), c, lower, upper)


def mean_gap_bounds(
    means: Any,
    variances: Any,
    counts: Any,
    coefficients: Any,
    alpha: float = 0.05,
    method: MeanMethod = "student-t",
    correction: Correction = "bonferroni",
    *,
    low: float | None = None,
    high: float | None = None,
) -> GapBounds:
    """Bounds of a gap of means, as ``rate_gap_bounds``; arguments as ``mean_contrast_upper_bound``, one sample (K,)."""
    m, n = np.broadcast_arrays(np.asarray(means, dtype=np.float64), np.asarray(counts, dtype=np.float64))
    c = _coefficients(coefficients, m.shape[-1])
    simultaneous: Correction = "bonferroni" if correction == "none" else correction
    upper = mean_contrast_upper_bound(m, variances, n, c, alpha, method, correction, low=low, high=high)
    lower = -mean_contrast_upper_bound(m, variances, n, -c, alpha, method, simultaneous, low=low, high=high)
    return _gap(np.where(n > 0, m, np.nan), c, lower, upper)


def verdict(lower: float, upper: float, bound: float) -> Verdict:
    """ "met" where upper <= bound, "violated" where lower > bound, else (and for NaN) "insufficient"."""
    if upper <= bound:
        return "met"
    return "violated" if lower > bound else "insufficient"


def rows_needed(
    rates: Any,
    shares: Any,
    bound: float,
    coefficients: Any,
    alpha: float = 0.05,
    method: RateMethod = "mover",
    correction: Correction = "bonferroni",
) -> int | None:
    """Fewest held-out rows that would decide ``gap <= bound`` if the rates stayed as observed; None if none would.

    rates: (K,) in [0, 1]. shares: (K,) each cell's share of all held-out rows (for a true positive rate: the share of
    rows that are in the group and positive), positive. The gap is decided once its upper bound is at most ``bound``, or
    its lower bound above it. None where the gap equals the bound, or 10^12 rows would not do.
    """
    p, s = _cells(rates, shares, "rates")
    if (p > 1).any() or (p < 0).any():
        raise DataError(f"rates must lie in [0, 1], got {p.tolist()}.")

    def decided(n: int) -> bool:
        return (
            rate_gap_bounds(p * (n * s), n * s, coefficients, alpha, method, correction).verdict(bound)
            != "insufficient"
        )

    return _fewest(float((_coefficients(coefficients, len(p)) @ p).max()), bound, s, decided)


def rows_needed_for_means(
    means: Any,
    variances: Any,
    shares: Any,
    bound: float,
    coefficients: Any,
    alpha: float = 0.05,
    method: MeanMethod = "student-t",
    correction: Correction = "bonferroni",
    *,
    low: float | None = None,
    high: float | None = None,
) -> int | None:
    """``rows_needed`` for a gap of means whose samples keep the observed means and variances (K,)."""
    m, s = _cells(means, shares, "means")

    def decided(n: int) -> bool:
        bounds = mean_gap_bounds(m, variances, n * s, coefficients, alpha, method, correction, low=low, high=high)
        return bounds.verdict(bound) != "insufficient"

    return _fewest(float((_coefficients(coefficients, len(m)) @ m).max()), bound, s, decided)


def _fewest(value: float, bound: float, shares: np.ndarray, decided: Callable[[int], bool]) -> int | None:
    if np.isclose(value, bound, rtol=0, atol=1e-12) or (shares <= 0).any():
        return None
    high = 1
    while not decided(high):
        high *= 2
        if high > MOST_ROWS:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if decided(middle) else (middle, high)
    return high


def _gap(values: np.ndarray, c: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> GapBounds:
    used = np.where(c != 0, c * np.where(np.isnan(values), 0.0, values), 0.0).sum(1)
    estimates = np.where((np.isnan(values) & (c != 0)).any(1), np.nan, used)
    if np.isnan(estimates).all():
        worst, value = 0, np.nan
    else:
        worst = int(np.nanargmax(estimates))
        value = float(estimates[worst])
    low = float(lower.max())
    if np.allclose(c.sum(0), 0, atol=1e-9):
        low = max(low, 0.0)
    return GapBounds(value, low, float(upper.max()), worst, estimates, lower, upper)


def _contrast_level(m: int, alpha: float, correction: Correction) -> float:
    check_choice("correction", correction, ("bonferroni", "sidak", "none"))
    alpha = check_level(alpha, "upper")
    return {"bonferroni": alpha / m, "sidak": -np.expm1(np.log1p(-alpha) / m), "none": alpha}[correction]


def _cell_levels(c: np.ndarray, alpha: float, correction: Correction) -> list[tuple[Any, np.ndarray]]:
    """Levels for the one-sided bounds of single cells, and the rows of ``c`` that each set of levels serves.

    Contrasts share cells, so what holds for the (at most two) used sides of every cell holds for every contrast.
    """
    check_choice("correction", correction, ("bonferroni", "sidak", "none"))
    alpha = check_level(alpha, "upper")
    if correction == "none":
        used = (c != 0).sum(1)
        return [(alpha / max(int(k), 1), np.flatnonzero(used == k)) for k in np.unique(used)]
    everything = np.arange(len(c))
    sides = (c > 0).any(0).astype(int) + (c < 0).any(0)
    if correction == "bonferroni":
        return [(alpha / max(int(sides.sum()), 1), everything)]
    return [(_contrast_level(max(int((sides > 0).sum()), 1), alpha, "sidak") / np.maximum(sides, 1), everything)]


def _coefficients(coefficients: Any, k: int) -> np.ndarray:
    c = np.atleast_2d(np.asarray(coefficients, dtype=np.float64))
    if c.ndim != 2 or c.shape[1] != k or len(c) == 0 or not np.isfinite(c).all():
        raise DataError(f"coefficients must be finite with shape (m, {k}), got {c.shape}.")
    return c


def _cells(values: Any, shares: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    v, s = np.asarray(values, dtype=np.float64), np.asarray(shares, dtype=np.float64)
    if v.shape != s.shape or v.ndim != 1 or not np.isfinite(v).all():
        raise DataError(f"{name} must be finite (K,) and shares (K,), got {v.tolist()} and {s.tolist()}.")
    return v, s
