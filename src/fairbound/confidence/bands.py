"""Bands that hold a whole distribution function, whatever it is, of several groups at once.

Of n independent rows the empirical distribution function lies everywhere within sqrt(log(2 / level) / (2 n)) of the
true one with probability at least 1 - level, so that whatever follows from the functions, at any threshold, may be read
off the bands.

Source: Dvoretzky, Kiefer, Wolfowitz (1956); Massart (1990), The tight constant in the Dvoretzky-Kiefer-Wolfowitz
inequality.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fairbound.confidence.single import check_level


def band_widths(rows: Any, alpha: float) -> np.ndarray:
    """(k,) half widths of bands that hold for all of k groups together with probability at least 1 - alpha
    (Bonferroni).

    rows: (k,) independent rows of each group, effective ones where rows have weights (then asymptotic); 1 without rows.
    """
    n = np.asarray(rows, dtype=np.float64)
    with np.errstate(divide="ignore"):
        width = np.sqrt(np.log(2 * max(n.size, 1) / check_level(alpha)) / (2 * n))
    return np.minimum(width, 1.0)
