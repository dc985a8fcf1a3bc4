"""Logistic regression and least squares on a dense table, with a penalty on the weights, by Newton's method.

    minimise  sum_i mass_i (b(s_i) - y_i s_i) + penalty . x^2 / 2,    s = A x

b(s) is log(1 + exp(s)) of labels 0 and 1, s^2 / 2 of numbers. Second derivatives are taken anew only where the ones at hand no longer make steps shorten fast. A table of float32
takes half the time; its sums are of float32 too.

Source: Nocedal and Wright (2006), section 3.3; McCullagh and Nelder (1989), Generalized linear models, for b.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch.nn.functional import softplus

from fairbound.tables.numbers import slices

ITERATIONS, SETTLED = 50, 1e-8
"""Newton steps of a fit at most, and the fall of the mean loss expected of one at which it is the last."""

ROUNDED = 1e-5
"""Of second derivatives of float32 the share added to the diagonal, which rounding may have taken off."""

NOTHING = 1e-8
"""Of numbers whose variance is 1 the variance about what is expected, at least: less is rounding."""

SLOW = 0.1
"""Where a step is expected to bring more than this share of what the step before was,
second derivatives are taken anew."""


@dataclass(frozen=True)
class Logistic:
    """The loss of a score s and a label y, 0 or 1: log(1 + exp(s)) - y s.

    spread_is_known: whether the curvature tells the variance of each row's label.
    """

    spread_is_known: ClassVar[bool] = True

    def total(self, scores: np.ndarray, y: np.ndarray, mass: np.ndarray) -> float:
        """The sum of the rows' losses, times their mass."""
        return float(mass @ (softplus(torch.from_numpy(scores)).numpy() - y * scores))

    def expected(self, scores: np.ndarray) -> np.ndarray:
        """(n,) probabilities of label 1."""
        return torch.sigmoid(torch.from_numpy(scores)).numpy()

    def curvature(self, expected: np.ndarray) -> np.ndarray:
        """(n,) second derivatives by the score."""
        return expected * (1 - expected)

    def dispersion(self, left: np.ndarray, weights: int) -> float:
        """How many times the curvature the variance of a label is. left: (n,) labels less what a regression of so many
        weights expects."""
        return 1.0


@dataclass(frozen=True)
class Squared:
    """The loss of a score s and a number y: s^2 / 2 - y s, which is (s - y)^2 / 2 but for a constant. Members as of
    `Logistic`."""

    spread_is_known: ClassVar[bool] = False

    def total(self, scores: np.ndarray, y: np.ndarray, mass: np.ndarray) -> float:
        return float(mass @ (scores * (scores / 2 - y)))

    def expected(self, scores: np.ndarray) -> np.ndarray:
        return scores

    def curvature(self, expected: np.ndarray) -> np.ndarray:
        return np.ones(len(expected))

    def dispersion(self, left: np.ndarray, weights: int) -> float:
        return max(float(left @ left) / max(len(left) - weights, 1), NOTHING)


TWO_CLASSES, NUMBERS = Logistic(), Squared()


class Curved(NamedTuple):
    """Second derivatives A' Q A (p, p), Q = diag(weight), and the weight (n,) of each row in them."""

    Q: np.ndarray
    weight: np.ndarray

    @classmethod
    def of(cls, A: np.ndarray, weight: np.ndarray) -> Curved:
        """Those of a table A (n, p)."""
        return cls(second(A, weight), weight)

    def widened(self, A: np.ndarray) -> Curved:
        """Those of a table A (n, p + k) of float32 whose first p columns they are of."""
        known = len(self.Q)
        new = A[:, known:]
        cross = (A.T @ (new * self.weight.astype(A.dtype)[:, None])).astype(float)
        cross[known:][np.diag_indices(new.shape[1])] *= 1 + ROUNDED
        return Curved(np.block([[self.Q, cross[:known]], [cross[:known].T, cross[known:]]]), self.weight)


class Fit(NamedTuple):
    """The weights x (p,) of a regression, the scores A x (n,) and second derivatives nearby."""

    x: np.ndarray
    scores: np.ndarray
    near: Curved


def fitted(
    A: np.ndarray,
    y: np.ndarray,
    mass: np.ndarray,
    penalty: np.ndarray,
    x: np.ndarray,
    near: Curved | None = None,
    settled: float = SETTLED,
    loss: Any = TWO_CLASSES,
) -> Fit:
    """The lowest sum of the losses of rows A (n, p) with labels y (n,), times their mass (n,), and of
    penalty (p,) / 2 x^2, by damped Newton steps from x. near: second derivatives nearby,
    which serve while steps shorten fast. settled: as SETTLED. loss: of TWO_CLASSES or of NUMBERS."""
    scores, before = times(A, x), np.inf
    now = loss.total(scores, y, mass) + penalty @ x**2 / 2
    for _ in range(ITERATIONS):
        expected = loss.expected(scores)
        slope = times(A.T, mass * (expected - y)) + penalty * x
        if near is not None:
            step = np.linalg.solve(ridged(penalty, near.Q), slope)
        if near is None or slope @ step / 2 > SLOW * before:
            near = Curved.of(A, mass * loss.curvature(expected))
            step = np.linalg.solve(ridged(penalty, near.Q), slope)
        share, along, gain = 1.0, times(A, step), slope @ step / 2
        while True:
            moved, there = x - share * step, scores - share * along
            after = loss.total(there, y, mass) + penalty @ moved**2 / 2
            if after <= now or share < 1e-6:
                break
            share /= 2
        x, scores, now, before = moved, there, after, gain
        if gain < settled * len(y):
            break
    return Fit(x, scores, near or Curved.of(A, mass * loss.curvature(loss.expected(scores))))


def times(A: np.ndarray, x: np.ndarray) -> np.ndarray:
    """A x as float64, multiplied in the precision of A."""
    return (A @ x.astype(A.dtype, copy=False)).astype(float, copy=False)


def second(A: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """(p, p) A' Q A, Q = diag(weight) of numbers >= 0 (n,). Of float64 no copy of A is made."""
    root = np.sqrt(weight).astype(A.dtype, copy=False)[:, None]
    if A.dtype == np.float32:
        weighed = A * root
        Q = (weighed.T @ weighed).astype(float)
        Q[np.diag_indices_from(Q)] *= 1 + ROUNDED
        return Q
    Q = np.zeros((A.shape[1], A.shape[1]))
    for part in slices(len(A)):
        weighed = A[part] * root[part]
        Q += weighed.T @ weighed
    return Q


def ridged(penalty: np.ndarray, Q: np.ndarray) -> np.ndarray:
    """Q and the penalty on its diagonal, with a little that keeps an inverse."""
    return Q + np.diag(penalty + 1e-9 * Q.trace())
