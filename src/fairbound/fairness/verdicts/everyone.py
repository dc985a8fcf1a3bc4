"""Groups beside all rows: the value of all rows is the mean of the groups' values, weighted by their shares of the rows.

The shares are measured too. Other rows of the same population have other shares, and so another value of everyone. How
much that moves a comparison is `Contrasts.between`: with shares s_h and values v_h, the value of n rows moves by the
variance ``(sum_h s_h v_h^2 - (sum_h s_h v_h)^2) / n``. It is 0 where all groups have one value, and matters where
groups lie far apart.
"""

from __future__ import annotations

import numpy as np

from fairbound.fairness.comparing import ValueContrasts
from fairbound.fairness.verdicts.values import Values


def without_overall(made: ValueContrasts, of: Values, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The contrasts with the value of all rows written as the mean of the groups': index and coefficient (m, t) of
    units, and how much shares move each (m,), as of `Contrasts.between`."""
    index, coefficient = made.index, made.coefficient
    share = of.totals / np.maximum(of.totals.sum(1, keepdims=True), 1e-300)  # (R, k)
    is_overall = index % (k + 1) == k
    deviation = _deviation(share, of)
    at, c, moved = [index], [np.where(is_overall, 0.0, coefficient)], np.zeros(len(index))
    for t in range(index.shape[1]):
        value = index[:, t] // (k + 1)
        each = value[:, None] * (k + 1) + np.arange(k)
        weight = np.where(is_overall[:, [t]], coefficient[:, [t]] * share[value], 0.0)
        at.append(each)
        c.append(weight)
        moved += np.where(is_overall[:, t], np.abs(coefficient[:, t]) * deviation[value], 0.0)
    index, coefficient = np.where(np.concatenate(c, 1) != 0, np.concatenate(at, 1), 0), np.concatenate(c, 1)
    return index, coefficient, moved**2 * _rows_behind(index, coefficient, of, k)


def _deviation(share: np.ndarray, of: Values) -> np.ndarray:
    """(R,) the standard deviation of each value of all rows by the shares of the groups."""
    v, rows = np.nan_to_num(of.estimates), of.trials.sum(1)
    mean = (share * v).sum(1)
    spread = (share * (v - mean[:, None]) ** 2).sum(1)
    return np.sqrt(np.divide(spread, rows, out=np.zeros_like(mean), where=rows > 0))


def _rows_behind(index: np.ndarray, coefficient: np.ndarray, of: Values, k: int) -> np.ndarray:
    """(m,) the rows of all cells that each contrast uses."""
    used = np.zeros((len(index), of.trials.shape[0] * (k + 1)))
    i, t = np.nonzero(coefficient)
    used[i, index[i, t]] = 1.0
    return np.asarray(used @ np.pad(of.trials, ((0, 0), (0, 1))).ravel())
