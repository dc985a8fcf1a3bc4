"""Confidence bounds for contrasts of means, and the rows that would decide a bound on them.

"guaranteed": betting limits of the single means (``fairbound.confidence.betting``) at the level alpha / (number of
cells, counted twice where a cell is used with both signs), combined; the upper bound of the largest contrast divides
alpha by the cells of one contrast only. They hold for values in a stated range, for every number of
rows and every distribution. "asymptotic": Welch's t, Bonferroni over contrasts, for values without a range. It breaks
its promise for few, skewed values, so a contrast that uses a cell of fewer than ASYMPTOTIC_ROWS rows gets infinite
bounds. Values that are rarely very large break it at any number of rows. docs/intervals.md has the measured errors.

Source: Welch (1947), Biometrika 34, 28-35.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from fairbound.base.errors import DataError, OptionError
from fairbound.confidence.betting import likely_width, mean_limits
from fairbound.confidence.contrasts import Contrasts, GapBounds, largest
from fairbound.confidence.rates import check_cells
from fairbound.confidence.rows_needed import Correlation, fewest_rows
from fairbound.confidence.single import check_level

ASYMPTOTIC_ROWS = 200  # fewest (effective) rows of a cell for Welch's t; docs/intervals.md


def moments(
    values: Any, cell_of_value: Any, cells: int, weights: Any = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means, variances of one row and counts (K,) of every cell, for ``welch_bounds``.

    With weights: counts are Kish's effective sizes, and variances / counts the linearised variances of the weighted
    means, ``sum w^2 (x - mean)^2 / (sum w)^2 * count / (count - 1)``, which see weights that go with the values. Equal
    weights give the usual variance with divisor n - 1. NaN mean without rows, variance 0 of one row.
    cell_of_value: (n,) in 0..K-1, or -1 for none.
    """
    x, cell = np.asarray(values, dtype=np.float64), np.asarray(cell_of_value)
    w = np.ones(len(x)) if weights is None else np.asarray(weights, dtype=np.float64)
    used = cell >= 0
    x, cell, w = x[used], cell[used], w[used]
    total, square = (np.bincount(cell, weights=a, minlength=cells) for a in (w, w**2))
    some = total > 0
    safe, safe2 = np.where(some, total, 1.0), np.where(some, square, 1.0)
    mean = np.bincount(cell, weights=w * x, minlength=cells) / safe
    count = np.where(some, safe**2 / safe2, 0.0)
    with np.errstate(over="ignore"):  # an infinite variance says that nothing is known
        spread = np.bincount(cell, weights=(w * (x - mean[cell])) ** 2, minlength=cells) / safe**2
    more = count > 1 + 1e-9
    variance = np.where(more, spread * count**2 / np.where(more, count - 1, 1.0), 0.0)
    return np.where(some, mean, np.nan), variance, count


def mean_bounds(
    values: Any,
    cell_of_value: Any,
    cells: int,
    contrasts: Contrasts,
    alpha: float = 0.05,
    *,
    low: float,
    high: float,
    weights: Any = None,
) -> GapBounds:
    """Guaranteed bounds of the largest contrast of the means of values in [low, high]; arguments as ``mean_limits``.

    Lower and upper hold with probability 1 - alpha each. With weights, see ``mean_limits``. Where coefficients are
    measured shares, what these add is asymptotic.
    """
    contrasts.check(cells)
    mean, _, count = moments(values, cell_of_value, cells, weights)
    c, index = contrasts.coefficient, contrasts.index

    def ends(sharing: int) -> list[np.ndarray]:
        level = check_level(alpha) / max(sharing, 1)
        limits = mean_limits(values, cell_of_value, cells, level, low, high, weights)
        shares = -special.ndtri(level) * np.sqrt(contrasts.moved_by_shares(count))
        at = [(c * np.where((c > 0) == up, limits[1][index], limits[0][index])).sum(-1) for up in (False, True)]
        return [at[0] - shares, at[1] + shares]

    lower, upper = ends(int(contrasts.sides(cells).sum()))
    singles = ends(_terms(contrasts))[1]
    return largest(contrasts, contrasts.of(mean), lower, upper, singles)


def _terms(contrasts: Contrasts) -> int:
    """The most cells that one contrast uses."""
    return int((contrasts.coefficient != 0).sum(-1).max())


def welch_bounds(
    means: Any,
    variances: Any,
    counts: Any,
    contrasts: Contrasts,
    alpha: float = 0.05,
    least_rows: float = ASYMPTOTIC_ROWS,
) -> GapBounds:
    """Asymptotic bounds of the largest contrast of means; arguments (K,) as from ``moments``.

    Infinite where a contrast uses a cell with fewer than ``least_rows`` (at least 2) rows.
    """
    m, v, n = _samples(means, variances, counts, contrasts)
    width = _welch_width(v, n, contrasts, check_level(alpha) / len(contrasts), least_rows)
    single = _welch_width(v, n, contrasts, alpha, least_rows)
    estimates = contrasts.of(np.where(n > 0, m, np.nan))
    centre = np.where(np.isnan(estimates), 0.0, estimates)
    return largest(contrasts, estimates, centre - width, centre + width, centre + single)


def _welch_width(v: np.ndarray, n: np.ndarray, contrasts: Contrasts, level: float, least_rows: float) -> np.ndarray:
    enough = n >= max(least_rows, 2)
    safe = np.maximum(n, 2)
    parts = np.where(contrasts.coefficient != 0, contrasts.coefficient**2 * (v / safe)[contrasts.index], 0.0)
    square = parts.sum(-1) + contrasts.moved_by_shares(n)
    spent = (parts**2 / (safe - 1)[contrasts.index]).sum(-1)
    freedom = np.divide(square**2, spent, out=np.ones_like(square), where=spent > 0)
    lacks = ((contrasts.coefficient != 0) & ~enough[contrasts.index]).any(-1)
    return np.where(lacks, np.inf, special.stdtrit(freedom, 1 - level) * np.sqrt(square))


def mean_rows_needed(
    means: Any,
    variances: Any,
    shares: Any,
    contrasts: Contrasts,
    bound: float,
    alpha: float = 0.05,
    *,
    low: float | None = None,
    high: float | None = None,
    power: float = 0.5,
    correlation: Correlation | None = None,
) -> int | None:
    """``rate_rows_needed`` for means that stay as observed, with the observed variances of one row (K,).

    Without a range: for ``welch_bounds``, with the chance that its cells get ASYMPTOTIC_ROWS of so many rows. With low and high: for ``mean_bounds``, whose width is not known before the
    rows are; it is that of ``likely_width``.
    correlation: of the means, as of `fewest_rows`.
    """
    m, s = check_cells(means, shares, "means")
    _, v, s = _samples(m, variances, s, contrasts)
    if (s <= 0).any():
        return None
    if (low is None) != (high is None) or (low is not None and high is not None and not low < high):
        raise OptionError(f"the range of the values needs low < high, got low={low}, high={high}.")
    check_level(alpha)
    sides = max(int(contrasts.sides(len(m)).sum()), 1)
    used = np.unique(contrasts.index[contrasts.coefficient != 0])

    def upper(which: Contrasts, n: int, together: int) -> np.ndarray:
        if low is None or high is None:
            likely = np.where(which.coefficient != 0, _chance_of_enough(n, s)[which.index], 1.0).prod(-1)
            if together == 1:  # to be met, all need enough
                likely = np.minimum(likely, _chance_of_enough(n, s[used]).prod())
            return np.where(likely < power, np.inf, which.of(m) + _welch_width(v, n * s, which, alpha / together, 2))
        log = float(np.log((_terms(contrasts) if together == 1 else sides) / alpha))
        below, above = (
            likely_width(np.clip(side / (high - low), 0.0, 1.0), v / (high - low) ** 2, n * s, np.exp(-log))
            for side in (m - low, high - m)
        )
        far = (high - low) * np.where(which.coefficient > 0, above[which.index], below[which.index])
        shares = np.sqrt(2 * log * which.moved_by_shares(n * s))
        return which.of(m) + (np.abs(which.coefficient) * far).sum(-1) + shares

    return fewest_rows(contrasts, m, bound, upper, alpha, power, deviation=np.sqrt(v / s), correlation=correlation)


def _chance_of_enough(n: int, shares: np.ndarray) -> np.ndarray:
    """(K,) about how probably cells with these shares of n rows get ASYMPTOTIC_ROWS of them."""
    more = n * shares - ASYMPTOTIC_ROWS + 0.5
    return special.ndtr(more / np.sqrt(np.maximum(n * shares * (1 - shares), 1e-12)))


def _samples(
    means: Any, variances: Any, counts: Any, contrasts: Contrasts
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    m, v, n = (np.asarray(a, dtype=np.float64) for a in (means, variances, counts))
    if not m.shape == v.shape == n.shape or m.ndim != 1:
        raise DataError(f"means, variances and counts must be (K,), got {m.shape}, {v.shape} and {n.shape}.")
    contrasts.check(len(m))
    return m, np.where(n > 0, np.nan_to_num(v), 0.0), n
