"""A linear model of numbers moved along lines on which shares above thresholds are counted: the part of the squared
error that smooth training leaves.

On a line x + t v the prediction of each row crosses each threshold at most once, and the squared error is a parabola in
t. So the lowest point of the line that meets the bounds is found exactly:

    for directions v of random coordinates, in which features have equal spread and no correlation, some with a part of
    steepest descent, and a random reach:
        of all stretches between two crossings with |t| <= reach on which the bounds are met, go to the one on which the
        parabola is lowest

Source: as of `fewer_wrong`, whose lines they are. Departs: the squared error in place of wrong decisions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from fairbound.base.seeds import seed_for
from fairbound.fairness.compiled.statistics import Above
from fairbound.fairness.evaluation.row_sums import StratifiedSums
from fairbound.fairness.lines.fewer_wrong import even_axes, stretches_of
from fairbound.fairness.pointwise import SQUARED
from fairbound.models.mlp import is_linear

ROUNDS, LINES = 8, 50
"""How often all rows verify where lines led, and lines between. Where these led outside the bounds they are
forgotten."""

COORDINATES, REACHES = (1, 2, 4, 10**6), (0.003, 0.02, 0.1, 0.5)
"""Of how many coordinates a direction is made, and how far a line goes to either side, in standard deviations of the
labels."""

DOWN, BESIDE = 0.3, (0.1, 0.3, 1.0)
"""The share of directions with a part of steepest descent, and how large the random part is beside it."""

MOST = 200_000_000
"""Numbers of `turns` times lines, at most, but for the first round; and so many over LINES in memory."""

CLEAR = 4e-6
"""How far rows are kept from the thresholds that they reach, in standard deviations of the labels: features of single
precision, in which training has them, must not decide on which side a row is."""

GAIN, TINY = 1e-10, 1e-300
"""A smaller fall of the squared error, over the labels' variance, is rounding; and what no length is below."""


def lower_error(problem: Any, x: Tensor) -> Tensor:
    """x (n,), which meets the bounds of a FairProblem, or a point that meets them too at a lower squared error.

    x is returned where the bounds are on other than differences of shares above thresholds, the rows too
    many, or the labels all equal.
    """
    counted, curvature = CountedShares.of(problem), problem.curvature()
    if counted is None or curvature is None or not counted.spread:
        return x
    axes = even_axes(curvature) * counted.spread
    columns = axes @ counted.features.T
    rng, f = np.random.default_rng(seed_for("lower error", root=0)), float(problem.evaluate(x).f)
    for _ in range(max(1, min(ROUNDS, MOST // (LINES * counted.turns.size)))):
        scores = counted.features @ x.double().cpu().numpy()
        tried = x + torch.from_numpy(counted.walk(scores, columns, rng) @ axes).to(x)
        found = problem.evaluate(tried)
        if float(found.violation) <= 0 and float(found.f) < f:
            x, f = tried, float(found.f)
    return x


@dataclass(frozen=True)
class CountedShares:
    """features: (n, d) of all rows, with a column of ones where the model has an intercept; targets, share: (n,) labels
    and weights in the objective; thresholds: (T,); turns: (m, T, n) by how much a constraint rises where a row is
    predicted above a threshold; bounds: (m,)."""

    features: np.ndarray
    targets: np.ndarray
    share: np.ndarray
    thresholds: np.ndarray
    turns: np.ndarray
    bounds: np.ndarray

    @classmethod
    def of(cls, problem: Any) -> Self | None:
        """None for problems that `lower_error` does not cover."""
        plan, functions = problem.plan, problem.plan.functions
        plain = problem.loss is SQUARED and is_linear(problem.model, 1) and isinstance(problem.features, Tensor)
        if not plain or not problem.m or not all(isinstance(function, Above) for function in functions):
            return None
        if plan.beyond_means or problem.joint is not None or not problem.contrasts.linear or not problem.shards.alone:
            return None
        batch = problem.full()
        row_sums = batch.row_sums
        if plan.m * len(functions) * batch.size * LINES > MOST or not isinstance(row_sums, StratifiedSums):
            return None
        turns = torch.zeros(plan.m, len(functions), batch.size, dtype=torch.float64)
        each = row_sums.spread(torch.eye(plan.n_cells, dtype=problem.dtype))
        matrix = problem.contrasts.matrix.double()
        for rows, weights in row_sums.weights_of_rows(each):
            for i, weight in enumerate(weights):
                turns[:, i, rows] = matrix @ weight.double()
        features = batch.features.double()
        if problem.model.bias:
            features = torch.cat([features, features.new_ones(len(features), 1)], dim=1)
        thresholds = torch.tensor([function.at for function in functions], dtype=torch.float64)
        parts = features, batch.targets, batch.objective, thresholds, turns, problem.contrasts.bounds
        return cls(*(part.double().cpu().numpy() for part in parts))

    @cached_property
    def spread(self) -> float:
        """The standard deviation of the labels."""
        mean = np.average(self.targets, weights=self.share)
        return float(np.average((self.targets - mean) ** 2, weights=self.share)) ** 0.5

    def walk(self, scores: np.ndarray, columns: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """How far LINES lines move each of r coordinates. scores: (n,) predictions; columns: (r, n) by how much a
        coordinate moves them."""
        moved = np.zeros(len(columns))
        for _ in range(LINES):
            part = rng.normal(size=len(columns))
            part[rng.permutation(len(columns))[rng.choice(COORDINATES) :]] = 0
            part /= np.linalg.norm(part)
            if rng.random() < DOWN:
                down = columns @ (self.share * (self.targets - scores))
                part = rng.choice(BESIDE) * part + down / max(float(np.linalg.norm(down)), TINY)
                if not (length := float(np.linalg.norm(part))):
                    continue  # the two are opposite
                part /= length
            along = part @ columns
            t = self.lowest(scores, along, rng.choice(REACHES))
            scores = scores + t * along
            moved += t * part
        return moved

    def lowest(self, scores: np.ndarray, along: np.ndarray, reach: float) -> float:
        """Where the squared error is lowest on the line `scores` + t `along` (n,) among the stretches with |t| <= reach
        that meet the bounds; 0 where that gains nothing."""
        ahead = self.thresholds[:, None] - scores
        which, rows = np.nonzero(np.abs(ahead) < reach * np.abs(along))
        t = ahead[which, rows] / along[rows]
        order = t.argsort()
        which, rows = which[order], rows[order]
        state = self.turns.reshape(len(self.bounds), -1) @ (ahead < 0).ravel() - self.bounds
        ends, states, _ = stretches_of(t[order], self.turns[:, which, rows] * np.sign(along[rows]), reach, state)
        clear = CLEAR * self.spread / np.abs(along[rows])
        first, last = ends[:-1] + np.append(0.0, clear), ends[1:] - np.append(clear, 0.0)
        met = (states <= 0).all(0) & (first < last)
        if not met.any():
            return 0.0
        slope, bend = self.share @ (along * (scores - self.targets)), self.share @ along**2
        t = np.clip(-slope / bend, first[met], last[met])
        rise = 2 * slope * t + bend * t**2
        best = rise.argmin()
        return float(t[best]) if rise[best] < -GAIN * self.spread**2 else 0.0
