"""Descent of error + penalty . excess where decisions are smoothed, so that many weights move at once.

A decision is 1 / (1 + exp(-(score - threshold) / width)), and the largest excess over a bound a soft maximum. The width
falls in steps, each of which begins where the one before ended.

Source: Nguyen, Sanner (2013), Algorithms for direct 0-1 loss optimization (a smoothed error, sharper by steps).
Departs: under bounds, by an exact penalty.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from fairbound.postprocessing.sweep import Sweep

STEPS = 200
"""Of descent at each width."""
SOFT = 0.003
"""Within which excesses count alike in the soft maximum."""
ROWS = 20_000
"""At most about so many rows are looked at, spread evenly over groups and labels."""


class Smoothed:
    """The smoothed problem of weights of k scores, each of mean 0 and spread 1.

    scores: (k, n). penalty: of the largest excess over a bound.
    """

    def __init__(self, sweep: Sweep, scores: np.ndarray, penalty: float):
        program = sweep.program
        rows = np.argsort(sweep.atom, kind="stable")[:: max(1, len(sweep.atom) // ROWS)]
        self.scores, self.atom, self.penalty = scores[:, rows], sweep.atom[rows], penalty
        self.width = len(sweep.cost)
        whole, part = (
            np.bincount(a, w, self.width) for a, w in ((sweep.atom, sweep.weight), (self.atom, sweep.weight[rows]))
        )
        self.weight = sweep.weight[rows] * np.divide(whole, part, out=np.zeros(self.width), where=part > 0)[self.atom]
        self.cost = sweep.cost
        self.matrix, self.fixed = program.matrix.tocsr(), program.fixed
        self.turned = self.matrix.T  # scipy makes a new array of it each time

    def descent(self, weights: np.ndarray, threshold: float, widths: tuple[float, ...]) -> Iterator[np.ndarray]:
        """Weights (k,) of length 1 after the descent at each width, until all scores count nothing."""
        for width in widths:
            found = minimize(
                self._value, np.append(weights, threshold), (width,), "L-BFGS-B", jac=True, options={"maxiter": STEPS}
            ).x
            length = float(np.linalg.norm(found[:-1]))
            if length < 1e-9:
                return
            weights, threshold = found[:-1] / length, float(found[-1]) / length
            yield weights

    def _value(self, point: np.ndarray, width: float) -> tuple[float, np.ndarray]:
        """The penalised error but for a constant, and its slope; point: the weights and the threshold."""
        chance = expit((point[:-1] @ self.scores - point[-1]) / width)
        selected = np.bincount(self.atom, self.weight * chance, self.width)
        excess = np.append(self.fixed + self.matrix @ selected, 0.0) / SOFT
        share = np.exp(excess - excess.max())
        worst = SOFT * (excess.max() + np.log(share.sum()))
        worth = self.cost + self.penalty * (self.turned @ (share[:-1] / share.sum()))
        slope = worth[self.atom] * self.weight * chance * (1 - chance) / width
        return float(self.cost @ selected + self.penalty * worst), np.append(self.scores @ slope, -slope.sum())
