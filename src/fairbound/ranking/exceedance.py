"""The share of each group's rows above every score: the curves behind fairness of distributions of scores."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairbound.ranking.known_rows import known_rows


def exceedance(scores: Any, group: Any, groups: int, weight: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """thresholds (t,), the distinct scores in descending order, and above (k, t): the share of each group's weight that
    scores above each of them.

    scores: (n,) real. group: (n,) in 0 .. k - 1, -1 for none. weight: (n,) >= 0, None for 1. A group without weight has
    NaN. Time O(n log n + k t). Raises: DataError for NaN among the scores, or arrays that do not fit.
    """
    s, g, w, _ = known_rows(scores, group, weight)
    order = np.argsort(-s, kind="stable")
    s, g, w = s[order], g[order], w[order]
    first = np.flatnonzero(np.r_[True, s[1:] != s[:-1]]) if len(s) else np.zeros(0, dtype=np.int64)
    above = np.empty((groups, len(first)))
    for k in range(groups):
        reached = np.r_[0.0, np.cumsum(np.where(g == k, w, 0.0))]
        above[k] = reached[first] / reached[-1] if reached[-1] > 0 else np.nan
    return s[first], above
