"""Searches along lines for a better linear model of few distinct rows, measuring every way to divide these rows.

The rates of few distinct rows jump, smooth training passes over the jumps, and the best ways to divide the rows lie far
apart. On a line x + t v the score of each row crosses 0 once, so that k distinct rows are divided in at most k + 1
ways, all of which are measured:

    for directions v, the axes first, then random ones, half of which leave the scores of a few rows as they are:
        of all t between two crossings take the one of the lowest objective: the mean loss is convex in t, the error rate constant
        go to the division that misses the bounds by less, or meets them at a lower objective

Source: Nguyen and Sanner (2013), Algorithms for direct 0-1 loss optimization (combinatorial search by
    hyperplanes through some of the points); McNemar (1947), Note on the sampling error of the difference between
    correlated proportions. Departs: divisions are compared by the bounds first; lines are random.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy.special import expit
from torch import Tensor

from fairbound.base.seeds import seed_for
from fairbound.fairness.compiled.statistics import RowFunction
from fairbound.fairness.pointwise import LOGISTIC
from fairbound.models.mlp import is_linear
from fairbound.rows.reading import plain_array
from fairbound.rows.sparse import SparseRows

DISTINCT, ROWS = 200, 100_000
"""Most distinct rows, and most rows, for which lines are searched."""

LINES, NEWTON, STEP = 300, 8, 4.0
"""Lines, half of them from each of two points; Newton steps to the lowest loss on a line; the largest change of a score
in one step."""

SHARE = 0.97
"""The error rate's share of the objective, where it has one: with a small share no line leads from one division of the
rows to a better one."""

LEAST = 0.01
"""The least factor by which all scores are scaled in the end, to lower the loss."""

CLEARLY = 3.0
"""A point replaces one that meets the bounds only if it is more accurate by so many standard errors."""

INSIDE, TOLD_APART = 0.1, 1e-4
"""How far a point keeps from the crossings beside it, as a share of their distance; and the distance of two crossings,
in scores over the largest score, above which they count as two."""


@dataclass(frozen=True, eq=False)
class FewRows:
    """rows: (k, n) the distinct ones, with a 1 for the intercept; positive, negative: (k,) the weight of the rows of
    each label in the mean loss; none, each: (Q,), (k, Q) cell means where no row is decided positive, and what each
    distinct row adds; n: how many rows there are."""

    rows: np.ndarray
    positive: np.ndarray
    negative: np.ndarray
    none: np.ndarray
    each: np.ndarray
    n: int

    @classmethod
    def of(cls, problem: Any) -> FewRows | None:
        """The distinct rows of a FairProblem; None for other models, too many rows, or bounds that need more."""
        plan, model, rows = problem.plan, problem.model, problem.features
        if not is_linear(model, 1) or isinstance(rows, SparseRows):
            return None
        if plan.beyond_means or not problem.shards.alone or not problem.m or len(rows) > ROWS:
            return None
        if problem.loss is not LOGISTIC or (plan.objective is not None and not problem.refined):
            return None
        used = set(plan.used_cells().tolist())
        functions = [c.function for c in plan.columns if used & set(range(c.offset, c.offset + c.cells))]
        if not all(isinstance(f, RowFunction) and f.table is not None for f in functions):
            return None
        array = plain_array(rows)
        if len({row.tobytes() for row in array[: 5 * DISTINCT] + 0.0}) > DISTINCT:  # 0.0: -0 is no other number
            return None
        distinct, number = np.unique(array, axis=0, return_inverse=True)
        if len(distinct) > DISTINCT:
            return None
        batch, number = problem.full(), number.ravel()

        def means(chosen: np.ndarray) -> np.ndarray:
            scores = torch.as_tensor(np.where(chosen, 1.0, -1.0)).to(rows)
            return problem.true_means(scores, batch).double().cpu().numpy()

        none = means(np.zeros(len(array), dtype=bool))
        each = np.stack([means(number == j) - none for j in range(len(distinct))])
        weight = np.broadcast_to(batch.objective.double().cpu().numpy(), number.shape)
        labelled = plain_array(problem.targets) > 0.5
        positive, negative = (
            np.bincount(number, weights=weight * is_, minlength=len(distinct)) for is_ in (labelled, ~labelled)
        )
        one = np.ones((len(distinct), int(model.bias)))
        return cls(np.hstack([distinct.astype(np.float64), one]), positive, negative, none, each, len(array))

    @cached_property
    def both(self) -> np.ndarray:
        """(k,) the weight of the rows in the mean loss."""
        return self.positive + self.negative

    @cached_property
    def axes(self) -> np.ndarray:
        """(rank, n) directions along which scores vary alike, and are not correlated."""
        _, size, axes = np.linalg.svd(self.rows, full_matrices=False)
        kept = size > 1e-6 * size[0]
        return axes[kept] / size[kept, None] * len(self.rows) ** 0.5

    def free(self) -> np.ndarray:
        """(n,) the point of the lowest loss without bounds, or near it."""
        z, columns = np.zeros(len(self.axes)), self.rows @ self.axes.T
        for _ in range(NEWTON):
            p = expit(columns @ z)
            curvature = (columns.T * (self.both * p * (1 - p))) @ columns + 1e-6 * np.eye(len(z))
            z -= np.linalg.solve(curvature, columns.T @ (self.both * p - self.positive))
        return z @ self.axes

    def moved(
        self, x: np.ndarray, share: float, excess: Any, rng: np.random.Generator, lines: int = LINES
    ) -> np.ndarray:
        """x (n,), or a point that misses the bounds by less, or meets them at a lower objective.

        share: of the error rate in the objective. excess: cell means (t, Q) -> (t,) by how much the bounds are missed.
        """
        axes = self.axes
        scores, rank = self.rows @ x, len(axes)
        now = self._best(scores, np.zeros_like(scores), np.zeros(1), share, excess)[:2]
        for line in range(lines):
            v = np.eye(rank)[line] if line < rank else self._direction(axes, rng)
            v = v @ axes
            along = self.rows @ v
            t = self._between(scores, along)
            if not len(t):
                continue
            violation, f, best = self._best(scores, along, t, share, excess)
            if (violation, f) < now:
                now, x, scores = (violation, f), x + best * v, scores + best * along
        size = np.abs(scores).max()
        return x * (1 + max(self._lowest(scores, scores, size), LEAST - 1)) if size else x

    def gained(self, x: np.ndarray, other: np.ndarray) -> float:
        """How much more accurate another point is, in standard errors of the
        rows that it decides otherwise (McNemar)."""
        otherwise = (self.rows @ other > 0).astype(float) - (self.rows @ x > 0)
        changed = np.abs(otherwise) @ self.both
        return float(otherwise @ (self.positive - self.negative)) * (self.n / max(changed, 1e-12)) ** 0.5

    def _direction(self, axes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """(rank,) a random direction that leaves the scores of up to rank - 2 rows as they are,
        of none half of the times."""
        v = rng.normal(size=len(axes))
        most = len(axes) - 2
        fixed = int(rng.integers(-most - 1, most, endpoint=True)) if most > 0 else 0
        if fixed > 0:
            held = self.rows[rng.integers(len(self.rows), size=fixed)] @ axes.T
            v = v - np.linalg.lstsq(held, held @ v, rcond=None)[0]
        return v

    def _between(self, scores: np.ndarray, along: np.ndarray) -> np.ndarray:
        """(t,) a point of each stretch of the line on which no score crosses 0: that of the lowest loss,
        or what lies next to it there."""
        size = np.abs(along).max()
        moves = np.abs(along) > 1e-9 * size
        if not moves.any():
            return np.zeros(0)
        ends = np.unique(-scores[moves] / along[moves])
        beyond = max(ends[-1] - ends[0], np.abs(scores).max() / size) or 1 / size
        ends = np.r_[ends[0] - beyond, ends, ends[-1] + beyond]
        gap = np.diff(ends)
        apart = gap * size > TOLD_APART * np.abs(scores).max()
        low, high = ends[:-1] + INSIDE * gap, ends[1:] - INSIDE * gap
        return np.clip(self._lowest(scores, along, size), low[apart], high[apart])

    def _lowest(self, scores: np.ndarray, along: np.ndarray, size: float) -> float:
        """Where on the line the mean loss is lowest."""
        t = 0.0
        for _ in range(NEWTON):
            p = expit(scores + t * along)
            slope = along @ (self.both * p - self.positive)
            curvature = along**2 @ (self.both * p * (1 - p))
            t -= float(np.clip(slope / max(curvature, 1e-12), -STEP / size, STEP / size))
        return t

    def _best(
        self, scores: np.ndarray, along: np.ndarray, t: np.ndarray, share: float, excess: Any
    ) -> tuple[float, float, float]:
        """The least violation over the points t of a line, the lowest objective with it, and its point."""
        at = scores + t[:, None] * along
        chosen = at > 0
        violation = excess(self.none + chosen @ self.each)
        least = violation.min()
        where = np.flatnonzero(violation == least)
        wrong = self.positive.sum() + chosen[where] @ (self.negative - self.positive)

        def objective(of: np.ndarray) -> np.ndarray:
            z = at[where[of]]
            loss = np.logaddexp(0, -z) @ self.positive + np.logaddexp(0, z) @ self.negative
            return (1 - share) * loss + share * wrong[of]  # type: ignore[no-any-return]

        known = objective(wrong.argmin(keepdims=True))
        of = np.flatnonzero(share * wrong <= known)  # no loss is below 0, so that none of the others is lower
        f = objective(of)
        return float(least), float(f.min()), float(t[where[of[f.argmin()]]])


def swept(problem: Any, few: FewRows, x: Tensor) -> Tensor | None:
    """x (n,) moved as by `FewRows.moved`. Where x meets the bounds, from there or from the model without bounds, and
    None where neither end is clearly more accurate: the best of many ways to divide the rows
    owes a part of its accuracy to chance."""
    share = SHARE if problem.refined else 0.0

    def excess(means: np.ndarray) -> np.ndarray:
        g = problem.contrasts.values(torch.as_tensor(means).to(x))[0]
        return g.clamp_min(0).amax(-1).double().cpu().numpy()

    def met(point: np.ndarray) -> bool:
        return bool(excess((few.none + (few.rows @ point > 0) @ few.each)[None])[0] <= 0)

    start = x.double().cpu().numpy()
    rng = np.random.default_rng(seed_for("lines", int((few.rows @ start > 0).sum())))
    if not met(start):
        return torch.as_tensor(few.moved(start, share, excess, rng)).to(x)
    ends = [few.moved(point, share, excess, rng, LINES // 2) for point in (start, few.free())]
    gain, end = max(((few.gained(start, end), i) for i, end in enumerate(ends) if met(end)))
    return torch.as_tensor(ends[end]).to(x) if gain >= CLEARLY else None
