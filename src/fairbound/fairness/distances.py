"""Wasserstein distances between samples on the line, exact, O(n log n)."""

from __future__ import annotations

import numpy as np

from fairbound.base.errors import DataError, EmptyGroupError, OptionError


def wasserstein(
    a: np.ndarray,
    b: np.ndarray,
    a_weight: np.ndarray | None = None,
    b_weight: np.ndarray | None = None,
    order: float = 1,
) -> float:
    """Wasserstein distance of the given order between two weighted samples on the line, in the units of the values.

    ``(integral over u in (0, 1) of |A^-1(u) - B^-1(u)|^order)^(1/order)`` with the samples' quantile functions.

    a, b: (n_a,), (n_b,) finite. a_weight, b_weight: non-negative, default 1 each. order: at least 1.
    Raises: EmptyGroupError where a sample has no weight; OptionError for an order below 1.
    """
    if not order >= 1:
        raise OptionError(f"order must be at least 1, got {order}.")
    a_values, a_levels = _quantiles(a, a_weight, "first")
    b_values, b_levels = _quantiles(b, b_weight, "second")
    levels = np.union1d(a_levels, b_levels)
    width = np.diff(levels, prepend=0.0)
    a_at = a_values[np.minimum(np.searchsorted(a_levels, levels), len(a_values) - 1)]
    b_at = b_values[np.minimum(np.searchsorted(b_levels, levels), len(b_values) - 1)]
    return float(np.sum(width * np.abs(a_at - b_at) ** order) ** (1 / order))


def binned_squared_wasserstein(reference: np.ndarray, other: np.ndarray, bins: int = 50) -> float:
    """The column "Wd" of KLBM25's Table 3: the *squared* order-2 distance between two histograms of predictions.

    Both histograms use equal bins over the range of ``reference``; what ``other`` has outside that range is dropped.
    It is a square, so it is about a tenth of ``wasserstein`` there; use ``wasserstein`` for anything but comparing.

    reference, other: (n,) finite, the predictions of the first and of the second group.
    Raises: EmptyGroupError where a sample is empty, or ``other`` has nothing inside the range of ``reference``.
    """
    if len(reference) == 0 or len(other) == 0:
        raise EmptyGroupError("binned_squared_wasserstein: a sample is empty; check the group's rows.")
    first, edges = np.histogram(reference, bins=bins)
    second, _ = np.histogram(other, bins=edges)
    if second.sum() == 0:
        raise EmptyGroupError(
            "binned_squared_wasserstein: the second sample lies outside the first one's range; use wasserstein."
        )
    return wasserstein(edges[1:], edges[1:], first, second, order=2) ** 2


def _quantiles(values: np.ndarray, weight: np.ndarray | None, which: str) -> tuple[np.ndarray, np.ndarray]:
    """Distinct values in order, and the cumulative share of weight at each; the last share is exactly 1."""
    values = np.asarray(values, dtype=np.float64)
    weight = np.ones(len(values)) if weight is None else np.asarray(weight, dtype=np.float64)
    if values.shape != weight.shape or values.ndim != 1:
        raise DataError(f"the {which} sample has values of shape {values.shape} and weights of shape {weight.shape}.")
    values, weight = values[weight > 0], weight[weight > 0]
    if len(values) == 0:
        raise EmptyGroupError(f"wasserstein: the {which} sample has no row with weight; it has no distribution.")
    if not np.isfinite(values).all():
        raise DataError(f"wasserstein: the {which} sample has values that are not finite.")
    distinct, inverse = np.unique(values, return_inverse=True)
    total = np.cumsum(np.bincount(inverse, weights=weight))
    return distinct, total / total[-1]
