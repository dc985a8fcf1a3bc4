"""Logistic regression on a dense table, with a penalty on its weights, by Newton's method.

    minimise  sum_i mass_i (log(1 + exp(s_i)) - y_i s_i) + penalty . x^2 / 2,    s = A x

Second derivatives are taken anew only where the ones at hand no longer make steps shorten fast. A table of float32
takes half the time; its sums are of float32 too.

Source: Nocedal and Wright (2006), section 3.3.
"""

from __future__ import annotations

import numpy as np
import torch
from torch.nn.functional import softplus

from fairbound.tables.numbers import slices

ITERATIONS, SETTLED = 50, 1e-8
"""Newton steps of a fit at most, and the fall of the mean loss expected of one at which it is the last."""

ROUNDED = 1e-5
"""Of second derivatives of float32 the share added to the diagonal, which rounding may have taken off."""

SLOW = 0.1
"""Where a step is expected to bring more than this share of what the step before was,
second derivatives are taken anew."""


def fitted(
    A: np.ndarray,
    y: np.ndarray,
    mass: np.ndarray,
    penalty: np.ndarray,
    x: np.ndarray,
    Q: np.ndarray | None = None,
    settled: float = SETTLED,
) -> np.ndarray:
    """(p,) the lowest sum of the logistic losses of rows A (n, p) with labels y (n,), times their mass (n,), and of
    penalty (p,) / 2 x^2, by damped Newton steps from x. Q: A' Q A (p, p) nearby,
    which serves while steps shorten fast. settled: as SETTLED."""
    scores, before = times(A, x), np.inf
    now = total(scores, y, mass) + penalty @ x**2 / 2
    for _ in range(ITERATIONS):
        p = probabilities(scores)
        slope = times(A.T, mass * (p - y)) + penalty * x
        fresh = Q is None
        Q = second(A, mass, p) if Q is None else Q
        step = np.linalg.solve(ridged(penalty, Q), slope)
        expected = slope @ step / 2
        if not fresh and expected > SLOW * before:
            Q = None
            continue
        share, along = 1.0, times(A, step)
        while True:
            moved = x - share * step
            after = total(scores - share * along, y, mass) + penalty @ moved**2 / 2
            if after <= now or share < 1e-6:
                break
            share /= 2
        x, scores, now, before = moved, scores - share * along, after, expected
        if expected < settled * len(y):
            break
    return x


def probabilities(scores: np.ndarray) -> np.ndarray:
    """(n,) of label 1."""
    return torch.sigmoid(torch.from_numpy(scores)).numpy()


def times(A: np.ndarray, x: np.ndarray) -> np.ndarray:
    """A x as float64, multiplied in the precision of A."""
    return (A @ x.astype(A.dtype, copy=False)).astype(float, copy=False)


def second(A: np.ndarray, mass: np.ndarray, p: np.ndarray) -> np.ndarray:
    """(p, p) A' Q A at the probabilities p (n,), Q = diag(mass p (1 - p)). Of float64 no copy of A is made."""
    weight = np.sqrt(mass * p * (1 - p)).astype(A.dtype, copy=False)[:, None]
    if A.dtype == np.float32:
        root = A * weight
        Q = (root.T @ root).astype(float)
        Q[np.diag_indices_from(Q)] *= 1 + ROUNDED
        return Q
    Q = np.zeros((A.shape[1], A.shape[1]))
    for part in slices(len(A)):
        root = A[part] * weight[part]
        Q += root.T @ root
    return Q


def total(scores: np.ndarray, y: np.ndarray, mass: np.ndarray) -> float:
    """The sum of the rows' losses, times their mass."""
    return float(mass @ (softplus(torch.from_numpy(scores)).numpy() - y * scores))


def ridged(penalty: np.ndarray, Q: np.ndarray) -> np.ndarray:
    """Q and the penalty on its diagonal, with a little that keeps an inverse."""
    return Q + np.diag(penalty + 1e-9 * Q.trace())
