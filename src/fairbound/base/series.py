"""Series of measurements of several runs: held values, trailing means, quartiles, and statistics over runs.

A run is known at its evaluations only; between two of them its value is that of the earlier one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

SMOOTHED = 10
QUARTILES = {"q25": 0.25, "median": 0.5, "q75": 0.75}
Floats = Sequence[float] | np.ndarray


def held(at: Floats, values: Floats, grid: np.ndarray) -> np.ndarray:
    """(t,) the value of the last evaluation at or before each grid point; NaN before the first.

    at: (r,) non-decreasing; values: (r,).
    """
    place = np.searchsorted(np.asarray(at, dtype=float), grid, side="right") - 1
    known = np.asarray(values, dtype=float)
    return np.where(place >= 0, known[np.maximum(place, 0)], np.nan)


def band(curves: np.ndarray) -> dict[str, np.ndarray]:
    """mean, q25, median and q75 (t,) over the known runs at every grid point. curves: (runs, t),
    NaN where not known."""
    known = ~np.isnan(curves).all(axis=0)
    out = {name: np.full(curves.shape[1], np.nan) for name in ("mean", *QUARTILES)}
    if known.any():
        out["mean"][known] = np.nanmean(curves[:, known], axis=0)
        for name, q in QUARTILES.items():
            out[name][known] = np.nanquantile(curves[:, known], q, axis=0)
    return out


def quartiles(values: np.ndarray) -> dict[str, np.ndarray]:
    """q25, median and q75 over runs (linear between order statistics), where a run may be infinite.
    values: (runs, t)."""
    ordered, last = np.sort(values, axis=0), len(values) - 1
    out = {}
    for name, q in QUARTILES.items():
        low = int(q * last)
        share, high = q * last - low, min(low + 1, last)
        with np.errstate(invalid="ignore"):
            between = ordered[low] + share * (ordered[high] - ordered[low])
        out[name] = np.where((share == 0) | (ordered[low] == ordered[high]), ordered[low], between)
    return out


def trailing_mean(values: Floats, window: int) -> np.ndarray:
    """(r,) the mean of each value and up to `window` - 1 before it."""
    total = np.concatenate([[0.0], np.cumsum(np.asarray(values, dtype=float))])
    n = np.arange(1, len(total))
    first = np.maximum(0, n - window)
    return (total[n] - total[first]) / (n - first)


def feasible(gaps: Floats, bound: float, window: int = SMOOTHED) -> np.ndarray:
    """(r,) whether the mean size of the gap over the last `window` evaluations is within the bound, once there are
    `window` of them."""
    sizes = np.abs(np.asarray(gaps, dtype=float))
    return (trailing_mean(sizes, window) <= bound) & (np.arange(len(sizes)) >= window - 1)


def first_reached(at: Floats, within: np.ndarray) -> float | None:
    """Where a run is first within the bound; None where it never is."""
    hits = np.flatnonzero(within)
    return float(at[hits[0]]) if len(hits) else None


def floats(values: Sequence[float | None]) -> np.ndarray:
    """The values as an array, NaN for None."""
    return np.array(values, dtype=float)
