"""Confidence limits of the means of bounded values, weighted or not, that hold for every number of rows: betting.

A gambler bets that the mean of values x_i in [0, 1] is above m. The capital multiplies by 1 + l_i w_i (x_i - m), where
the bet l_i in [0, 1 / m) is chosen from earlier rows and weights w_i lie in [0, 1]. If m is the weighted mean
E[w x] / E[w], each factor has mean 1 whatever ties weights to values, so by Ville's inequality the capital ever reaches
1 / level with probability at most ``level``. The lower limit is the largest m at which it does; capital falls with m,
so bisection finds it. The upper limit is that of 1 - x, mirrored.

The bet is the predictable plug-in for n rows, sqrt(2 log(1 / level) / (n v_i)) with v_i the variance of w (x - mean)
over earlier rows and one made-up row, and at most CAP / m. Rows must be independent draws; they are permuted with a
fixed seed, which leaves independent draws what they are and mixes a file that was sorted.

Source: Waudby-Smith, Ramdas (2024), JRSS B 86, 1-27, section 3.1, equation 26 and Theorem 3 ("hedged capital") with one
side at a time. Departs: weights; the made-up row weighs what earlier rows weigh on average.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fairbound.base.errors import DataError, OptionError
from fairbound.confidence.bisection import bisected
from fairbound.confidence.single import check_level

CAP = 0.75  # the share of its capital that the gambler risks at most
BISECTIONS = 30
PLACES = 64
"""Places among the rows at which `likely_width` looks at the bets."""
SEED = 20240417


def mean_limits(
    values: Any,
    cell_of_value: Any,
    cells: int,
    level: float,
    low: float = 0.0,
    high: float = 1.0,
    weights: Any = None,
    largest_weight: float | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Limits (lower, upper), each (K,), of the mean of every cell; each is wrong with probability at most ``level``.

    values: (n,) in [low, high], independent draws within a cell. cell_of_value: (n,) in 0..K-1, or -1 for none.
    weights: (n,) >= 0; limits are then of E[w x] / E[w]. largest_weight: the largest weight that a row could have; the
    guarantee needs it. Default: the largest that occurs, and the limits are then guaranteed only if no row could weigh
    more. [low, high] for a cell without rows. Raises: DataError for values outside [low, high] or weights that do not
    fit.
    """
    x, w, cell = _read(values, cell_of_value, cells, low, high, weights, largest_weight)
    order = np.lexsort((np.random.default_rng(SEED).random(len(x)), cell))
    x, w = x[order], w[order]
    sizes = np.bincount(cell, minlength=cells)
    lower = _lower(x, w, sizes, check_level(level))
    upper = 1 - _lower(1 - x, w, sizes, level)
    return low + (high - low) * lower, low + (high - low) * upper


def likely_width(mean: np.ndarray, variance: np.ndarray, n: np.ndarray, level: float) -> np.ndarray:
    """About how far lower limits lie below the means (K,), in [0, 1], of n (K,) rows to come of this variance (K,).

    At d below the mean a bet b gains b d - b^2 (v + d^2) / 2 a row, as logarithms begin, and the gains of all rows are to be
    log(1 / level). Bets are those of rows that have the variance from the first row on. Of rows whose values vary much the
    limits turn out a tenth nearer, as the capital counts where it is largest.
    """
    target, root = float(np.log(1 / level)), (np.arange(PLACES) + 0.5) / PLACES
    earlier, share = n * root[:, None] ** 2, 2 * root[:, None] / PLACES  # bets rise as roots of the rows before
    plain = np.sqrt(2 * target * (earlier + 1) / (n * (0.25 + earlier * variance)))
    width = np.zeros(len(mean))
    for _ in range(3):
        bet = np.minimum(plain, CAP / np.maximum(mean - width, 1e-300))
        gain, loss = n * (bet * share).sum(0), n * (bet**2 * share).sum(0) / 2
        width = np.minimum((target + loss * (variance + width**2)) / gain, mean)
    return width


def _read(
    values: Any,
    cell_of_value: Any,
    cells: int,
    low: float,
    high: float,
    weights: Any,
    largest_weight: float | None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values and weights in [0, 1] and cells, of the rows that count."""
    x, cell = np.asarray(values, dtype=np.float64), np.asarray(cell_of_value)
    w = np.ones(len(x)) if weights is None else np.asarray(weights, dtype=np.float64)
    if not low < high:
        raise OptionError(f"the range of the values needs low < high, got low={low}, high={high}.")
    if not x.shape == cell.shape == w.shape or x.ndim != 1:
        raise DataError(f"values, cells and weights must be (n,), got {x.shape}, {cell.shape} and {w.shape}.")
    if len(cell) and (cell.min() < -1 or cell.max() >= cells):
        raise DataError(f"cells must lie in -1..{cells - 1}, got {int(cell.min())} to {int(cell.max())}.")
    if not (np.isfinite(w).all() and (w >= 0).all()):
        raise DataError("weights must be finite and non-negative.")
    used = (cell >= 0) & (w > 0)
    x, w, cell = x[used], w[used], cell[used]
    if not ((x >= low) & (x <= high)).all():
        outside = int((~((x >= low) & (x <= high))).sum())
        raise DataError(f"{outside} of {len(x)} values lie outside [{low}, {high}]; state a wider range, or clip them.")
    most = float(w.max(initial=0.0)) if largest_weight is None else largest_weight
    if len(w) and most < w.max():
        raise DataError(f"largest_weight is {most}, but a row weighs {float(w.max())}.")
    return (x - low) / (high - low), w / most if len(w) else w, cell


def _lower(x: np.ndarray, w: np.ndarray, sizes: np.ndarray, level: float) -> np.ndarray:
    """Lower limits (K,) for rows that stand cell by cell, in the order of the bets; 0 without rows."""
    target = np.log(1 / level)
    full = sizes > 0
    size = sizes[full]
    start = np.cumsum(size) - size
    limit = np.zeros(len(sizes))
    if not full.any():
        return limit
    bet = _bets(x, w, np.repeat(start, size), np.repeat(size, size), target)

    def reached(middle: np.ndarray) -> np.ndarray:
        m = np.repeat(middle, size)
        gain = np.log1p(np.minimum(bet, CAP / m) * w * (x - m))
        capital = np.cumsum(gain)
        return np.maximum.reduceat(capital, start) - (capital[start] - gain[start]) >= target

    limit[full] = bisected(reached, np.zeros(len(size)), np.ones(len(size)), BISECTIONS)[0]
    return limit


def _bets(x: np.ndarray, w: np.ndarray, start: np.ndarray, size: np.ndarray, target: float) -> np.ndarray:
    """(n,) bets before their cap, each from the rows of its cell before it. start, size: (n,) of each row's cell."""
    earlier = np.arange(len(x)) - start

    def before(a: np.ndarray) -> np.ndarray:
        sums = np.concatenate([[0.0], np.cumsum(a)])[:-1]
        return sums - sums[start]

    def typical(a: np.ndarray) -> np.ndarray:
        return np.where(earlier > 0, before(a) / np.maximum(earlier, 1), 1.0)

    weight = before(w) + w
    made_up = weight / (earlier + 1)
    mean = (before(w * x) + w * x + made_up / 2) / (weight + made_up)
    variance = (typical(w**2) / 4 + before((w * (x - mean)) ** 2)) / (earlier + 1)
    return np.sqrt(2 * target / (size * np.maximum(variance, 1e-300)))
