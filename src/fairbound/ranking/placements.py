"""Placements: of every row, the share of a set of rows that scores below it. Variances of areas are made of them.

Source: DeLong, DeLong, Clarke-Pearson (1988), Biometrics 44, 837-845.
"""

from __future__ import annotations

from typing import Any

import numpy as np


class Placements:
    """Scores (n,) ranked once; weight: (n,) >= 0, None for 1."""

    def __init__(self, scores: Any, weight: Any):
        s = np.asarray(scores, dtype=np.float64)
        self.weight = np.ones(len(s)) if weight is None else np.asarray(weight, dtype=np.float64)
        distinct, place = np.unique(s, return_inverse=True)
        self._place, self._distinct = place.ravel(), len(distinct)

    def below(self, rows: np.ndarray) -> np.ndarray:
        """(n,) share of the weight of the set rows (n,), True for its members, that scores below each row, ties as one
        half.

        NaN where the set has no weight."""
        weight = np.bincount(self._place[rows], weights=self.weight[rows], minlength=self._distinct)
        total = weight.sum()
        if total <= 0:
            return np.full(len(self._place), np.nan)
        return ((np.cumsum(weight) - weight / 2) / total)[self._place]
