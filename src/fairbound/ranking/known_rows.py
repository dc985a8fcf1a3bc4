"""The scores, cells and weights of the rows that count."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairbound.base.errors import DataError


def known_rows(scores: Any, cells: Any, weight: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Scores, cells and weights (r,) of the rows in a cell that weigh something, and (n,) bool which these are.

    scores: (n,) real. cells: (n,) of each row, -1 for none. weight: (n,) >= 0, None for 1.
    Raises: DataError for NaN among the scores, or arrays that do not fit.
    """
    s, c = np.asarray(scores, dtype=np.float64), np.asarray(cells)
    w = np.ones(len(s)) if weight is None else np.asarray(weight, dtype=np.float64)
    if s.ndim != 1 or c.shape != s.shape or w.shape != s.shape or np.isnan(s).any():
        raise DataError(
            f"scores, cells and weights must be (n,) and scores without NaN, got {s.shape}, {c.shape}, {w.shape}."
        )
    known = (c >= 0) & (w > 0)
    return s[known], c[known], w[known], known
