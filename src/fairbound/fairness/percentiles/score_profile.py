"""Data for a figure over percentiles: each group's score at every percentile, and how far the groups are apart there.

With F_k(theta) the share of group k above theta, the score of group k at percentile p (0 is the top) is the lowest one
that at most the share p of the group lies above. The disparity at p is the largest |F_k(theta) - F_j(theta)| of two
groups that are compared, at the highest theta with F_k(theta) >= p, for either group in the part of k. Over all p that
groups attain, the largest disparity is the distance of their distributions (Kolmogorov-Smirnov).

Source: He, Huang, Yao, Lin (2026), Definition 4.1 and Figure 2, whose curve shows the same pairs of shares.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fairbound.fairness.percentiles.judging import Curves

PERCENTILES = np.arange(101) / 100
_ALL = 1 - 1e-12


def score_at(curves: Curves, group: int, percentiles: np.ndarray) -> np.ndarray:
    """(q,) the scores of a group at percentiles (q,) in [0, 1]."""
    above = curves.above[group, 1:-1]
    last = np.flatnonzero(above < _ALL)[-1]
    place = np.searchsorted(above, percentiles, side="right") - 1
    return curves.thresholds[np.minimum(place, last)]


def disparity_at(curves: Curves, percentiles: np.ndarray) -> np.ndarray:
    """(q,) the largest difference of two groups' shares above one threshold, in [0, 1],
    at percentiles (q,) of either group."""
    out = np.zeros(len(percentiles))
    above = curves.above
    for stratum in np.unique(curves.compared.stratum):
        inside = np.flatnonzero(curves.compared.stratum == stratum)
        top, low = above[inside].max(0), above[inside].min(0)
        for k in inside:
            place = np.searchsorted(above[k], percentiles, side="left")
            place = np.minimum(place, above.shape[1] - 1)
            out = np.maximum(out, np.maximum(top - above[k], above[k] - low)[place])
    return out


def profile(curves: Curves, attribute: str) -> dict[str, Any]:
    """Plain data: attribute, percentiles, disparity at each of them, and of every group its rows,
    scores and intervals."""
    return {
        "attribute": attribute,
        "percentiles": PERCENTILES.tolist(),
        "disparity": disparity_at(curves, PERCENTILES).tolist(),
        "groups": {
            curves.compared.name(k): {
                "rows": int(curves.count[k]),
                "scores": score_at(curves, k, PERCENTILES).tolist(),
                "intervals": [list(part) for part in curves.intervals[k].parts],
            }
            for k in range(len(curves.compared))
        },
    }


def attribute_name(curves: Curves, names: Any) -> str:
    """The compared attributes in words; names: those of the groups of the rows."""
    return " x ".join(names[a] for a in curves.compared.attributes)
