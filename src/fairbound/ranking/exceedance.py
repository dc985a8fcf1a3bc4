"""The share of each group's rows above every score: the curves behind fairness of distributions of scores."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairbound.base.errors import DataError


def exceedance(scores: Any, group: Any, groups: int, weight: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """thresholds (t,), the distinct scores in descending order, and above (k, t): the share of each group's weight that
    scores above each of them.

    scores: (n,) real. group: (n,) in 0 .. k - 1, -1 for none. weight: (n,) >= 0, None for 1. A group without weight has
    NaN. Time O(n log n + k t). Raises: DataError for NaN among the scores, or arrays that do not fit.
    """
    s, g = np.asarray(scores, dtype=np.float64), np.asarray(group)
    w = np.ones(len(s)) if weight is None else np.asarray(weight, dtype=np.float64)
    if s.ndim != 1 or g.shape != s.shape or w.shape != s.shape or np.isnan(s).any():
        raise DataError(
            f"scores, groups and weights must be (n,) and scores without NaN, got {s.shape}, {g.shape}, {w.shape}."
        )
    known = (g >= 0) & (w > 0)
    s, g, w = s[known], g[known], w[known]
    order = np.argsort(-s, kind="stable")
    s, g, w = s[order], g[order], w[order]
    first = np.flatnonzero(np.r_[True, s[1:] != s[:-1]]) if len(s) else np.zeros(0, dtype=np.int64)
    above = np.empty((groups, len(first)))
    for k in range(groups):
        reached = np.r_[0.0, np.cumsum(np.where(g == k, w, 0.0))]
        above[k] = reached[first] / reached[-1] if reached[-1] > 0 else np.nan
    return s[first], above
