"""Curves of several runs on one axis: quartiles, shares of feasible runs, best loss among feasible iterates.

A run is known at its evaluations only; between two of them its value is that of the earlier one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

SMOOTHED = 10
AXES = ("seconds", "samples", "calls")
Floats = Sequence[float] | np.ndarray


def held(at: Floats, values: Floats, grid: np.ndarray) -> np.ndarray:
    """(t,) the value of the last evaluation at or before each grid point; NaN before the first.

    at: (r,) non-decreasing; values: (r,).
    """
    place = np.searchsorted(np.asarray(at, dtype=float), grid, side="right") - 1
    known = np.asarray(values, dtype=float)
    return np.where(place >= 0, known[np.maximum(place, 0)], np.nan)


def band(curves: np.ndarray) -> dict[str, list[float | None]]:
    """mean, median and quartiles over runs, at every grid point. curves: (runs, t); NaN where a run is not known."""
    out = {}
    with np.errstate(invalid="ignore"):
        known = ~np.isnan(curves).all(axis=0)
        part = curves[:, known]
        for name, values in (
            ("mean", np.nanmean(part, axis=0) if part.size else np.empty(0)),
            *((n, np.nanquantile(part, q, axis=0) if part.size else np.empty(0)) for n, q in _QUARTILES),
        ):
            full = np.full(curves.shape[1], np.nan)
            full[known] = values
            out[name] = _plain(full)
    return out


_QUARTILES = (("q25", 0.25), ("median", 0.5), ("q75", 0.75))


def quartiles(values: np.ndarray) -> dict[str, np.ndarray]:
    """q25, median and q75 over runs (linear between order statistics), where a run may be infinite. values: (runs, t)."""
    ordered, last = np.sort(values, axis=0), len(values) - 1
    out = {}
    for name, q in _QUARTILES:
        low = int(q * last)
        share, high = q * last - low, min(low + 1, last)
        with np.errstate(invalid="ignore"):
            between = ordered[low] + share * (ordered[high] - ordered[low])
        out[name] = np.where((share == 0) | (ordered[low] == ordered[high]), ordered[low], between)
    return out


def trailing_mean(values: Floats, window: int = SMOOTHED) -> np.ndarray:
    """(r,) the mean of each value and up to `window` - 1 before it."""
    total = np.concatenate([[0.0], np.cumsum(np.asarray(values, dtype=float))])
    n = np.arange(1, len(total))
    first = np.maximum(0, n - window)
    return (total[n] - total[first]) / (n - first)


def feasible(gaps: Floats, bound: float, window: int = SMOOTHED) -> np.ndarray:
    """(r,) whether the mean size of the gap over the last `window` evaluations is within the bound, once there are
    `window` of them (or all, in a shorter run)."""
    sizes = np.abs(np.asarray(gaps, dtype=float))
    return (trailing_mean(sizes, window) <= bound) & (np.arange(len(sizes)) >= min(window, len(sizes)) - 1)


def first_reached(at: Floats, within: np.ndarray) -> float | None:
    """Where a run is first within the bound; None where it never is."""
    hits = np.flatnonzero(within)
    return float(at[hits[0]]) if len(hits) else None


def profile(runs: Sequence[dict[str, Any]], axis: str, bound: float, points: int = 160) -> dict[str, Any]:
    """Data profile of one method over `axis` ("seconds", "samples" or "calls"), on training rows.

    runs: {axis: (r,), "gap": (r,), "loss": (r,)} of each run.
    Returns: grid; reached: share of runs that have had an iterate within the bound; now: share whose gaps are within it
    in the mean of 10 evaluations; loss: over the runs counted in `reached`, the median of the best such loss so far.
    """
    end = max((run[axis][-1] for run in runs), default=0.0)
    start = min((run[axis][1] for run in runs if len(run[axis]) > 1), default=end / 100)
    grid = np.geomspace(max(start, end / 1e4, 1e-9), max(end, 1e-9), points)
    now, ever, losses = [], [], []
    for run in runs:
        inside = np.abs(run["gap"]) <= bound
        best = np.minimum.accumulate(np.where(inside, run["loss"], np.inf))
        now.append(held(run[axis], feasible(run["gap"], bound), grid))
        ever.append(held(run[axis], np.maximum.accumulate(inside), grid))
        losses.append(held(run[axis], np.where(np.isinf(best), np.nan, best), grid))
    return {
        "grid": _plain(grid),
        "now": _plain(np.nan_to_num(np.array(now)).mean(axis=0)),
        "reached": _plain(np.nan_to_num(np.array(ever)).mean(axis=0)),
        "loss": band(np.array(losses))["median"],
    }


def curves(runs: Sequence[dict[str, Any]], end: float, points: int = 160) -> dict[str, Any]:
    """Quartile bands over seconds in [0, end]. runs: {"seconds": (r,), name: (r,), ...} of each run."""
    grid = np.linspace(0.0, end, points)
    names = [name for name in runs[0] if name not in AXES]
    return {
        "grid": _plain(grid),
        **{name: band(np.array([held(run["seconds"], run[name], grid) for run in runs])) for name in names},
    }


def spread(values: Sequence[float | None]) -> tuple[float | None, float | None, int]:
    """(mean, standard deviation with n - 1, n) of the known values; None where too few are known."""
    known = np.array([v for v in values if v is not None], dtype=float)
    if not len(known):
        return None, None, 0
    return float(known.mean()), float(known.std(ddof=1)) if len(known) > 1 else None, len(known)


def _plain(values: np.ndarray) -> list[float | None]:
    return [None if not np.isfinite(v) else float(v) for v in values]
