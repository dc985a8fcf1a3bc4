"""Least squares with multipliers that are not negative, by a method that always returns.

SciPy's `nnls` gives up after 3 changes of its active set for each column, which nearly parallel columns can exceed. It
is allowed more here. Where that is not enough, another active-set method goes on with columns of one length.

Source: Lawson and Hanson (1974), chapter 23; Stark and Parker (1995), "Bounded-variable least squares".
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import lsq_linear, nnls

CHANGES = 100
"""Most changes of the active set for each column, of either method."""


def nonnegative_least_squares(system: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, float]:
    """y (k,) >= 0 of the smallest |A y - b|, and that length; system: A (n, k); target: b (n,)."""
    most = CHANGES * max(1, system.shape[1])
    try:
        y, residual = nnls(system, target, maxiter=most)
    except RuntimeError:
        lengths = np.linalg.norm(system, axis=0)
        lengths[lengths == 0] = 1.0
        found = lsq_linear(system / lengths, target, bounds=(0, np.inf), method="bvls", tol=1e-14, max_iter=most)
        y = np.maximum(found.x, 0) / lengths
        residual = np.linalg.norm(system @ y - target)
    return y, float(residual)
