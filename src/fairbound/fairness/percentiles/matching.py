"""A linear model moved until the scores of all groups are distributed alike on their percentile intervals.

Training just misses a small bound on distributions: a few single rows decide such a bound, and smoothed steps do not
see them. Here the curves T_k of the true metric are moved themselves. With r(t) the difference of the highest and the
lowest curve at a threshold t, a step solves

    min_s  sum over thresholds of c(t) (r(t) + r'(t) s)^2 + lambda |s|^2,    c = (r / max r)^2 + 0.05

and is taken where max r falls, lambda being raised tenfold until it does. The slope of a share above t is the density
of the scores there times the mean features of the rows that have them, both taken of the rows next to t.

Source: Nocedal, Wright (2006), chapter 10 (Levenberg-Marquardt); Hong (2009), Estimating quantile sensitivities, for
    the slope; Lawson (1961), Contributions to the theory of linear least maximum approximation, for weights that grow
    with the differences.
Departs: one scale and one shift of all scores, which change no rank, are fitted to the objective afterwards; fewer rows
next to a threshold are taken where no step helps, until they are too few for a mean.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy import sparse
from scipy.optimize import minimize
from torch import Tensor

from fairbound.fairness.percentiles.intervals import Percentiles
from fairbound.ranking.exceedance import exceedance
from fairbound.rows.reading import plain_array
from fairbound.rows.sparse import SparseRows

ROUNDS, THRESHOLDS, TRIES = 60, 400, 6

ROUNDING = 1e-4
"""The largest difference is to stay below the bound by this share of it."""

NEXT_TO, LEAST_ROWS = 0.03, 20
"""Share of a group's rows in its interval that are taken as next to a threshold, and how many they are at least."""

SHARPNESS = (1.0, 8.0)
"""Factors on the sharpness of the objective's surrogate, where it has one, for each of which scores are rescaled."""

FEWER, FEWEST = 0.7, 0.2
"""Factor on the number of rows next to a threshold where no step helps, and the least share of it."""


@dataclass(frozen=True, eq=False)
class Matched:
    """features: (n, d) array or SciPy CSR matrix; member: (n,) in 0 .. k - 1, -1 for rows of no group; weight:
    (n,) >= 0;
    intervals: of each group; scores: (n,) of weights (n_w,), which are d and perhaps an intercept after them."""

    features: Any
    member: np.ndarray
    weight: np.ndarray
    intervals: Sequence[Percentiles]
    scores: Callable[[np.ndarray], np.ndarray]

    def alike_as_one(self) -> Matched:
        """The same curves, of one row in place of all rows of a group whose features are the same: however it is moved,
        their scores are equal. Slopes are of rows next to a threshold, and have no size where these are of one score."""
        if sparse.issparse(self.features):
            return self
        table = np.column_stack([self.features, self.member.astype(self.features.dtype)])
        table = np.ascontiguousarray(table)
        kinds = table.view(f"V{table.strides[0]}").ravel()
        _, first, number = np.unique(kinds, return_index=True, return_inverse=True)
        if len(first) == len(kinds):
            return self
        weight = np.bincount(number, weights=self.weight)
        of_all = self.scores
        return Matched(self.features[first], self.member[first], weight, self.intervals, lambda w: of_all(w)[first])

    def moved(self, w: np.ndarray, bound: float) -> np.ndarray:
        """Weights (n_w,) near `w` whose largest difference of curves is at most `bound`, else the smallest found."""
        now, near, damping = self._point(w), 1.0, 1e-2
        for _ in range(ROUNDS):
            if now.worst <= bound or near < FEWEST:
                break
            step = self._steps(now, near)
            sizes = damping * 10.0 ** np.arange(-1, TRIES - 1)
            tried = ((size, self._point(now.w - share * step(size))) for size in sizes for share in (1.0, 0.5))
            better = next(((size, point) for size, point in tried if point.worst < now.worst), None)
            if better is None:
                near, damping = FEWER * near, 1e-2
            else:
                damping, now = better
        return now.w

    def worst(self, w: np.ndarray) -> float:
        """The largest difference of two curves."""
        return self._point(w).worst

    def _point(self, w: np.ndarray) -> _Point:
        s = self.scores(w)
        at, above = exceedance(s, self.member, len(self.intervals), self.weight)
        curves = np.stack([i.through(p) for i, p in zip(self.intervals, above, strict=True)])
        return _Point(w, s, at, above, curves, curves.max(0) - curves.min(0))

    def _steps(self, now: _Point, near: float) -> Callable[[float], np.ndarray]:
        """From lambda, in units of the mean squared singular value of r', the step (n_w,) to subtract."""
        n, middle = len(now.w), (now.curves.max(0) + now.curves.min(0)) / 2
        even = np.searchsorted(middle, (np.arange(THRESHOLDS) + 0.5) / THRESHOLDS)
        chosen = np.unique(np.append(np.minimum(even, len(middle) - 1), now.apart.argmax()))
        r, R = now.apart[chosen], self._row_slopes(now, chosen, near)
        slopes = R @ self.features
        slopes = slopes.toarray() if sparse.issparse(slopes) else slopes
        if n > slopes.shape[1]:
            slopes = np.hstack([slopes, np.asarray(R.sum(1)).reshape(-1, 1)])
        c = np.sqrt((r / r.max()) ** 2 + 0.05)
        left, size, right = np.linalg.svd(c[:, None] * slopes, full_matrices=False)
        own = left.T @ (c * r)
        unit = max(float(size @ size) / n, 1e-30)
        return lambda damping: right.T @ (size * own / (size**2 + damping * unit))

    def _row_slopes(self, now: _Point, chosen: np.ndarray, near: float) -> Any:
        """(t, n) CSR: the slope of r at each of the thresholds `chosen` (t,) in the score of each row."""
        highest, lowest = now.curves[:, chosen].argmax(0), now.curves[:, chosen].argmin(0)
        made = []
        for k, interval in enumerate(self.intervals):
            rows = np.flatnonzero((self.member == k) & (self.weight > 0))
            rows = rows[np.argsort(now.s[rows], kind="stable")]
            own, n = now.s[rows], len(rows)
            some = min(n, max(round(near * max(NEXT_TO * interval.length * n, LEAST_ROWS)), 1))
            first = np.clip(np.searchsorted(own, now.at[chosen], side="right") - some // 2, 0, n - some)
            width = own[np.minimum(first + some, n - 1)] - own[np.maximum(first - 1, 0)]
            sign = (highest == k).astype(float) - (lowest == k)
            p = now.above[k, chosen]
            counted = np.any([(p > a) & (p < b) for a, b in interval.parts], 0) & (width > 0) & (sign != 0)
            columns = rows[first[counted, None] + np.arange(some)]
            scale = sign[counted] / width[counted] / interval.length / self.weight[rows].sum()
            places = np.repeat(np.flatnonzero(counted), some)
            made.append((places, columns.ravel(), (scale[:, None] * self.weight[columns]).ravel()))
        row, column, value = (np.concatenate(part) for part in zip(*made, strict=True))
        return sparse.csr_array((value, (row, column)), shape=(len(chosen), len(now.s)))


class _Point(NamedTuple):
    """w: (n_w,) weights; s: (n,) scores; at: (t,) the distinct ones, descending; above, curves: (k, t) shares above
    them, and T of these; apart: (t,) the difference of the highest and the lowest curve."""

    w: np.ndarray
    s: np.ndarray
    at: np.ndarray
    above: np.ndarray
    curves: np.ndarray
    apart: np.ndarray

    @property
    def worst(self) -> float:
        return float(self.apart.max())


def nearer(problem: Any, bounded: Any, x: Tensor) -> Tensor:
    """x (n,) as `matched` moves it, or that `rescaled`: the one that misses the bounds by less, or else has the lower
    objective. bounded: the problem's only statistic, a GridParity."""
    moved = matched(problem, bounded, x)
    points = moved, *(rescaled(problem.sharpened(factor), moved) for factor in SHARPNESS)
    found = [problem.evaluate(point) for point in points]
    return points[min(range(len(points)), key=lambda i: (float(found[i].violation), float(found[i].f)))]


def matched(problem: Any, bounded: Any, x: Tensor) -> Tensor:
    """x (n,) of a linear model moved until `bounded` is met, or as near as was found; auxiliary variables stay."""
    rows, n, batch = problem.features, problem.model.n, problem.full()

    def scores(w: np.ndarray) -> np.ndarray:
        return problem.all_scores(torch.cat([torch.as_tensor(w).to(x), x[n:]])).double().cpu().numpy()

    every = Matched(
        rows.matrices[0] if isinstance(rows, SparseRows) else plain_array(rows),
        bounded.numbers(batch),
        np.broadcast_to(plain_array(batch.objective).astype(np.float64), rows.shape[:1]),
        bounded.intervals,
        scores,
    )
    begin, most = x[:n].double().cpu().numpy(), bounded.kappa * (1 - ROUNDING)
    w = every.moved(begin, most)
    if every.worst(w) > most and (kinds := every.alike_as_one()) is not every:
        w = min(w, kinds.moved(begin, most), key=every.worst)
    return torch.cat([torch.as_tensor(w).to(x), x[n:]])


def rescaled(problem: Any, x: Tensor) -> Tensor:
    """x (n,) of a linear model with the one scale above 0 and the shift of all scores that have the lowest objective:
    both leave the order of the scores, and so every bound on distributions, as it is."""
    n, batch, shift = problem.model.n, problem.full(), torch.zeros_like(x)
    shift[n - 1] = float(problem.model.bias)

    def point(z: np.ndarray) -> Tensor:
        return torch.cat([math.exp(z[0]) * x[:n], x[n:]]) + float(z[1]) * shift

    def of(z: np.ndarray) -> tuple[float, np.ndarray]:
        at = point(z)
        e, slope = problem.gradient(at, batch, lambda e: (1.0, None))
        along = slope[:n] @ (at - float(z[1]) * shift)[:n], slope @ shift
        return float(e.f), np.array([float(part) for part in along])

    return point(minimize(of, np.zeros(2), jac=True, method="L-BFGS-B", bounds=[(-20, 20), (None, None)]).x)
