"""Confidence bounds for contrasts and ratios of rates, and the rows that would decide a bound on them.

Cell k has x_k successes in n_k trials, a binomial sample with rate p_k. Bounds are one-sided at level 1 - alpha. Those
of each contrast hold for all at once, by Bonferroni; those of the largest contrast are sharper (`largest`,
`pair_level`). Holm's procedure sharpens a list of decisions but no bound, so it is not offered.

The bounds of differences recover variances (MOVER) from Clopper-Pearson limits of the single rates:
``sum_k c_k p_k + sqrt(sum_k (c_k w_k)^2) + max_k |c_k| h_k`` with w_k the distance from the estimate to its limit on
the side that matters and h_k = 1 / (2 n_k) half a row; where the c_k are measured shares, their variance is added under
the root, times the squared normal quantile (`Contrasts.between`). Asymptotic, but by exact enumeration not below nominal where
docs/intervals.md says so; without its last term it falls short. One rate alone has its Clopper-Pearson limits
(`share_bounds`).

The limits of a rate near 0 or 1 are further away on one side, as its distribution is skewed. A sum of K rates is less
skewed, by sqrt(K), but the root of squares is not. So of more than two cells, with u_k the mean distance of both limits,
or the normal quantile times the standard error of (x_k + 1) / (n_k + 2) where that is more, the root is replaced by

    r + sum_k (c_k u_k)^2 |c_k| (w_k - (both distances of k) / 2) / r^2,   r^2 = sum_k (c_k u_k)^2

A transform is an increasing function h of a rate, applied to estimates and limits: what a limit covers, its image
covers. Half a row is then |h(p +- 1 / (2 n)) - h(p)|, on the side that matters where [0, 1] has room for it, else on
the other. Treatment equality FN / FP is p / (1 - p) of the share p of false negatives among the errors, and the F1
score 2 p / (1 + p) of the share p of true positives among true positives and errors; given those numbers of rows, both
shares are binomial.

Sources: Newcombe (1998), Statistics in Medicine 17, 873-890, method 10; Zou, Donner (2008), Statistics in Medicine 27,
1693-1702. Departs: they combine two-sided limits (Newcombe: Wilson's) and have no last term, and take the root of w_k of
any number of cells.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from fairbound.base.errors import DataError
from fairbound.confidence.contrasts import (
    ONE_CELL,
    ROOM,
    Contrasts,
    GapBounds,
    largest,
    pair_level,
    smallest,
)
from fairbound.confidence.rows_needed import Upper, fewest_rows
from fairbound.confidence.single import check_level, check_trials, rate_limits

Transform = Callable[[np.ndarray], np.ndarray]


def rate_bounds(
    successes: Any,
    trials: Any,
    contrasts: Contrasts,
    alpha: float = 0.05,
    transform: Transform | None = None,
) -> GapBounds:
    """Bounds of the largest contrast of rates; lower and upper hold with probability 1 - alpha each.

    successes, trials: (K,), reals where rows are weighted (``effective_trials``). transform: increasing on [0, 1], may
    be infinite at its ends. A contrast that uses a cell without trials has estimate NaN and trivial bounds.
    """
    x, n = check_trials(successes, trials)
    upper = rate_upper_bounds(x, n, contrasts, alpha, transform)
    lower = -rate_upper_bounds(x, n, -contrasts, alpha, transform)
    singles = _upper(x, n, contrasts, alpha, transform)
    below = largest_lower(x, n, contrasts, alpha, transform)
    p = np.divide(x, n, out=np.full_like(x, np.nan), where=n > 0)
    return largest(contrasts, contrasts.of(_image(p, transform)), lower, upper, singles, float(below))


def largest_lower(
    successes: Any,
    trials: Any,
    contrasts: Contrasts,
    alpha: float = 0.05,
    transform: Transform | None = None,
) -> np.ndarray:
    """(...,) lower bounds of the largest contrast; successes, trials: (..., K), a stack of samples. By Bonferroni, or,
    of differences in both orders, at the level of `pair_level` where there is room."""
    x, n = np.broadcast_arrays(*check_trials(successes, trials))
    plain = check_level(alpha) / len(contrasts)
    return -_below(x, n, -contrasts, plain, pair_level(contrasts, alpha), transform).min(-1)


def _below(
    x: np.ndarray,
    n: np.ndarray,
    against: Contrasts,
    plain: float,
    pairs: float | None,
    transform: Transform | None,
) -> np.ndarray:
    """(..., m) upper bounds of the contrasts `against`, the opposites of those whose largest is bounded from below: at
    the level `plain`, or where there is room at the level `pairs`."""
    bound = _upper(x, n, against, plain, transform)
    if pairs is None:
        return bound
    sharp = _upper(x, n, against, pairs, transform)
    with np.errstate(divide="ignore", invalid="ignore"):
        estimate = against.of(_image(np.where(n > 0, x / n, np.nan), transform))
        return np.where(-sharp >= ROOM * (sharp - estimate), np.minimum(sharp, bound), bound)


def rate_upper_bounds(
    successes: Any,
    trials: Any,
    contrasts: Contrasts,
    alpha: float = 0.05,
    transform: Transform | None = None,
) -> np.ndarray:
    """(..., m) simultaneous upper bounds; successes, trials: (..., K), a stack of samples. Lower: of minus the
    contrasts.

    Raises: DataError for counts or cells that do not fit, OptionError for alpha outside (0, 0.5].
    """
    x, n = np.broadcast_arrays(*check_trials(successes, trials))
    contrasts.check(x.shape[-1])
    return _upper(x, n, contrasts, check_level(alpha) / len(contrasts), transform)


def _upper(x: np.ndarray, n: np.ndarray, contrasts: Contrasts, level: float, transform: Transform | None) -> np.ndarray:
    """Upper bounds (..., m) from limits of the single cells at ``level``."""
    c, index = contrasts.coefficient, contrasts.index
    above = c > 0
    ends = _image(np.array([0.0, 1.0]), transform)
    with np.errstate(divide="ignore", invalid="ignore"):
        most = np.where(c != 0, c * np.where(above, ends[1], ends[0]), 0.0).sum(-1)
        low, high = (_image(v, transform) for v in rate_limits(x, n, level))
        p = np.where(n > 0, x / n, 0.0)
        middle = _image(p, transform)
        up, down = _half_rows(p, n, middle, transform)
        width = np.where(above, (high - middle)[..., index], (middle - low)[..., index])
        shares = special.ndtri(level) ** 2 * contrasts.moved_by_shares(n)
        spread = np.sqrt((np.where(c != 0, c * width, 0.0) ** 2).sum(-1) + shares)
        many = (c != 0).sum(-1) > 2
        if transform is None and many.any():
            spread = np.where(many, _of_many(x, n, contrasts, level, width, (high - low)[..., index], shares), spread)
        half = np.where(c != 0, np.abs(c) * np.where(above, up[..., index], down[..., index]), 0.0).max(-1)
        bound = contrasts.of(middle) + spread + half
        most = most + np.sqrt(shares)
        return np.where(np.isnan(bound), most, np.minimum(bound, most))


def _of_many(
    x: np.ndarray,
    n: np.ndarray,
    contrasts: Contrasts,
    level: float,
    width: np.ndarray,
    both: np.ndarray,
    shares: np.ndarray,
) -> np.ndarray:
    """(..., m) how far limits of contrasts lie from the estimates, as of more than two cells. width, both: (..., m, t) w_k,
    and the sum of it and of the distance on the other side. shares: (..., m) what is added to the squares."""
    c, q = np.abs(contrasts.coefficient), (x + 1) / (n + 2)
    normal = -special.ndtri(level) * np.sqrt(q * (1 - q) / n)
    square = (c * np.maximum(both / 2, normal[..., contrasts.index])) ** 2
    square = np.where(c > 0, square, 0.0)
    root = np.sqrt(square.sum(-1) + shares)
    return root + np.where(c > 0, square * c * (width - both / 2), 0.0).sum(-1) / root**2


def _half_rows(
    p: np.ndarray, n: np.ndarray, middle: np.ndarray, transform: Transform | None
) -> tuple[np.ndarray, np.ndarray]:
    """What half a row adds to and takes from each cell's estimate ``middle``; infinite without trials."""
    half = np.where(n > 0, 0.5 / n, np.inf)
    if transform is None:
        return half, half
    up, down = _image(np.minimum(p + half, 1), transform) - middle, middle - _image(np.maximum(p - half, 0), transform)
    up, down = np.where(p + half > 1, np.fmax(up, down), up), np.where(p - half < 0, np.fmax(up, down), down)
    return np.where(n > 0, up, np.inf), np.where(n > 0, down, np.inf)


def _image(p: np.ndarray, transform: Transform | None) -> np.ndarray:
    if transform is None:
        return p
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(transform(p), dtype=np.float64)


def ratio_bounds(successes: Any, trials: Any, pairs: Any, alpha: float = 0.05) -> GapBounds:
    """Bounds of the smallest ratio p_a / p_b over pairs (P, 2) of cells (a, b), sense "at least"; in [0, inf].

    Inverts the contrasts ``tau p_b - p_a``, each at level alpha / P for the bounds of all ratios at once, and at level
    alpha for the lower bound of the smallest, as in `largest`: the lower bound of a ratio is the largest tau whose
    contrast's upper bound is at most 0, its upper bound the smallest tau whose contrast's lower bound is above 0. So
    the verdict is that of ``rate_bounds`` on these contrasts with tau the stated bound. The upper bound of a contrast
    grows with tau. Its lower bound is concave in tau, negative at 0, and below tau times (b's lower limit less half a
    row); where it is ever positive that factor is, so its slope stays positive, and one tau parts. Both are roots of
    squares.

    A ratio is NaN where both rates are 0 or a cell has no trials. At most 1 where every pair occurs in both orders.
    """
    x, n = check_trials(successes, trials)
    ab = np.asarray(pairs)
    if ab.ndim != 2 or ab.shape[1] != 2 or not len(ab) or ab.dtype.kind not in "iu":
        raise DataError(f"pairs must be integers (P, 2) with P >= 1, got {ab.dtype} {ab.shape}.")
    if ab.min() < 0 or ab.max() >= len(x):
        raise DataError(f"pairs must name cells from 0 to {len(x) - 1}, got {int(ab.min())} to {int(ab.max())}.")
    some = n > 0
    p = np.divide(x, n, out=np.zeros_like(x), where=some)
    half = np.divide(0.5, n, out=np.zeros_like(x), where=some)
    a, b = ab.T
    useless = ~(some[a] & some[b])

    def ends(level: float) -> tuple[np.ndarray, np.ndarray]:
        low, high = rate_limits(x, n, level)
        down, up = p - low, high - p
        least = np.minimum(
            _tau_within(p[a], p[b] + half[b], down[a], up[b]), _tau_within(p[a] - half[a], p[b], down[a], up[b])
        )
        most = np.maximum(
            _tau_beyond(p[a], p[b] - half[b], up[a], down[b]), _tau_beyond(p[a] + half[a], p[b], up[a], down[b])
        )
        return np.where(useless, 0.0, least), np.where(useless, np.inf, most)

    lowers, uppers = ends(check_level(alpha) / len(ab))
    lower = float(ends(alpha)[0].min())
    with np.errstate(divide="ignore", invalid="ignore"):
        estimates = np.where(useless, np.nan, p[a] / p[b])
    both_orders = bool(np.isin(a * len(x) + b, b * len(x) + a).all())
    return smallest(estimates, lower, lowers, uppers, both_orders)


def _tau_within(a: np.ndarray, b: np.ndarray, v: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Largest tau >= 0 with ``tau b - a + sqrt((tau w)^2 + v^2) <= 0``, 0 where there is none; b, v, w >= 0."""
    room = np.where(a > v, a * a - v * v, 0.0)
    below = a * b + np.sqrt(w * w * room + b * b * v * v)
    return np.divide(room, below, out=np.zeros_like(room), where=room > 0)


def _tau_beyond(a: np.ndarray, b: np.ndarray, v: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Smallest tau beyond which ``tau b - a - sqrt((tau w)^2 + v^2) > 0``, inf where there is none; a, v, w >= 0."""
    slope = np.where(b > w, b * b - w * w, 0.0)
    above = a * b + np.sqrt(a * a * w * w + v * v * slope)
    return np.divide(above, slope, out=np.full_like(slope, np.inf), where=slope > 0)


def rate_rows_needed(
    rates: Any,
    shares: Any,
    contrasts: Contrasts,
    bound: float,
    alpha: float = 0.05,
    transform: Transform | None = None,
    power: float = 0.5,
) -> int | None:
    """About the fewest held-out rows that would decide ``gap <= bound`` with probability ``power`` if the observed
    rates are the truth; None if none would.

    rates: (K,) in [0, 1]. shares: (K,) each cell's share of all held-out rows (for a true positive rate: the share of
    rows that are in the group and positive). The gap is decided once its upper bound is at most ``bound``, or its lower
    bound above it: see `rows_needed.fewest_rows`. None where a share is 0, the gap equals the bound, or 10^12 rows would not do. For a bound on
    ratios: their contrasts and bound 0.
    """
    p, s = check_cells(rates, shares, "rates")
    if (p > 1).any() or (p < 0).any():
        raise DataError(f"rates must lie in [0, 1], got {p.tolist()}.")
    contrasts.check(len(p))
    if (s <= 0).any():
        return None
    upper = upper_of_rates(p, s, contrasts, alpha, transform)
    return fewest_rows(contrasts, _image(p, transform), bound, upper, alpha, power)


def upper_of_rates(
    p: np.ndarray, s: np.ndarray, contrasts: Contrasts, alpha: float, transform: Transform | None = None
) -> Upper:
    """The upper bounds of `rate_bounds` on contrasts, as `rows_needed.fewest_rows` asks for them; p, s: (K,) rates, and
    shares of the rows."""
    pairs = pair_level(contrasts, check_level(alpha))

    def upper(which: Contrasts, n: int, together: int) -> np.ndarray:
        level = alpha / together
        if together == 1:
            return _upper(p * (n * s), n * s, which, level, transform)
        return _below(p * (n * s), n * s, which, level, pairs, transform)

    return upper


def share_bounds(successes: float, trials: float, alpha: float) -> GapBounds:
    """Clopper-Pearson bounds of one rate, each with probability 1 - alpha; trials > 0."""
    (low,), (high,) = rate_limits(*check_trials([successes], [trials]), check_level(alpha))
    value = successes / trials
    lower, upper = min(float(low), value), max(float(high), value)  # of rounding
    return GapBounds(value, lower, upper, 0, np.array([value]), np.array([lower]), np.array([upper]))


def share_rows_needed(rate: float, share: float, bound: float, alpha: float, power: float = 0.5) -> int | None:
    """`rate_rows_needed` of one rate with its bounds of `share_bounds`."""

    def upper(which: Contrasts, n: int, together: int) -> np.ndarray:
        low, high = rate_limits(np.array([rate * n * share]), np.array([n * share]), alpha)
        return high if which.coefficient[0, 0] > 0 else -low

    return fewest_rows(ONE_CELL, np.array([rate]), bound, upper, alpha, power)


def check_cells(values: Any, shares: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Both as floats (K,); raises DataError where they do not fit together or values are not finite."""
    v, s = np.asarray(values, dtype=np.float64), np.asarray(shares, dtype=np.float64)
    if v.shape != s.shape or v.ndim != 1 or not np.isfinite(v).all():
        raise DataError(f"{name} must be finite (K,) and shares (K,), got {v.tolist()} and {s.tolist()}.")
    return v, s
