"""A linear model of the lowest squared error under bounds on mean residuals and mean squared errors of groups, exactly.

With the means m_c and second moments M_c of the rows of a cell c, of features, intercept and label together, and v = (x,
-1),

    min v'Mv   subject to   sum_t coef_t m_c(t)'v <= b for differences of mean residuals,
                            v'M_c v <= b for mean squared errors

is a convex quadratic program in the weights x. `QuadraticProgram` solves it under a few of the bounds: those that hold the
point, and in each round the one that it breaks most, until it breaks none. As the error rises in each round, no choice of
bounds comes again, and bounds that depend on each other, as differences of many groups do, are never all taken. Bounds
that cost much, or lie close together, do not keep it from the optimum, where rounds of multipliers may end before they
are at rest.

Source: Agarwal, Dudik, Wu (2019), Fair regression: quantitative definitions and reduction-based algorithms, for bounded
    group loss; Calders, Karim, Kamiran, Ali, Zhang (2013), Controlling attribute effect in linear regression, for least
    squares under equal mean residuals.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self
from weakref import WeakKeyDictionary

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from fairbound.base.errors import DataError
from fairbound.fairness.compiled.statistics import LOSS
from fairbound.fairness.notions.regression import RESIDUAL
from fairbound.fairness.pointwise import SQUARED
from fairbound.models.mlp import is_linear
from fairbound.rows.moments import SLICE_ROWS, Moments
from fairbound.subproblems.qp import SubproblemError
from fairbound.subproblems.quadratics import QuadraticProgram

MOST_MOMENTS, MOST_WORK = 20_000_000, 200_000_000_000
"""Numbers of second moments at most, of all strata of rows and of the bounds in one program; and multiplications that
they take at most."""

ROUNDS = 300
"""How often a bound that is broken is added at most."""

BROKEN = 1e-10
"""What exceeds a bound by less, with labels of variance 1 or of the squared error where that is more, is rounding of the
program."""

INSIDE = 0.25
"""Share of what may exceed a bound of 0 on mean residuals at which it is held: no arithmetic meets 0 itself."""


TRIES = 4
"""How often a point that all rows put outside a bound is taken back at most."""


def lowest_within(problem: Any, room: Tensor | None = None, late: Callable[[], bool] = lambda: False) -> Tensor | None:
    """The parameters (n,) of the lowest squared error of a FairProblem on labels of variance 1, whose true bounds have
    this `room` (m,) left, by default none; bounds of 0 are met to `Bound.rounding`.

    None where the bounds are on other than mean residuals and squared errors, the model is not linear, or no such point
    was found; also where it is `late` before.
    """
    made = _made(problem, late)
    if made is None:
        return None
    left = np.zeros(problem.m) if room is None else room.double().cpu().numpy()
    for _ in range(TRIES):
        found = made.lowest(left, late)
        if found is None:
            return None
        x = torch.from_numpy(found).to(problem.features)
        over = problem.evaluate(x).g.double().cpu().numpy() - made.allowed
        if room is not None:
            over += room.double().cpu().numpy()
        if (over <= 0).all():
            return x
        left = left + 2 * over.max() + BROKEN  # of all, so that differences of groups that add up still do
    return None


@dataclass(frozen=True)
class BoundedSquares:
    """The objective and the m bounds of a FairProblem on labels of variance 1 as quadratics of the d - 1 weights.

    means: (S, d) and moments: (S, d, d) of the strata of rows, of the features, a 1 and the label. share: (S,) of each
    stratum in the objective. shares: (cells, S) of each stratum in each cell. linear, squared: (m, cells) by how much the
    mean residual, and the mean squared error, of each cell raises each bound's value; sparse, as bounds may be many more
    than groups. bounds: (m,). allowed: (m,) what may exceed them, as `Bound.rounding` says.
    """

    means: np.ndarray
    moments: np.ndarray
    share: np.ndarray
    shares: Any
    linear: Any
    squared: Any
    bounds: np.ndarray
    allowed: np.ndarray

    @classmethod
    def of(cls, problem: Any, late: Callable[[], bool]) -> Self | None:
        """None for problems that are no such program, whose moments are too many, or where it is `late`."""
        plan, features, strata = problem.plan, problem.features, problem.strata
        plain = problem.loss is SQUARED and is_linear(problem.model, 1) and isinstance(features, Tensor)
        if not plain or not problem.m or not problem.model.bias or not problem.shards.alone:
            return None
        if plan.objective is not None or plan.beyond_means or problem.joint is not None:
            return None
        if not problem.contrasts.linear or not set(plan.functions) <= {RESIDUAL, LOSS}:
            return None
        size = (features.shape[1] + 2) ** 2
        if len(strata.sizes) * size > MOST_MOMENTS or problem.rows * size > MOST_WORK:
            return None
        taken = _moments(problem, late)
        if taken is None:
            return None
        weight, means, moments = taken
        shares = _shares(problem.cells[strata.starts].cpu().numpy(), weight, plan.n_cells)
        of_loss = np.zeros(plan.n_cells + 1, dtype=bool)
        for column in plan.columns:
            of_loss[column.offset : column.offset + column.cells] = column.function == LOSS
        squared = _by_cell(plan, of_loss)
        if squared.nnz and squared.data.min() < 0:
            return None  # not convex
        allowed = np.array([bound.rounding(1.0) for bound in plan.notions])[plan.notion_of]
        linear = _by_cell(plan, ~of_loss)
        return cls(means, moments, weight / weight.sum(), shares, linear, squared, plan.bounds, allowed)

    def lowest(self, room: np.ndarray, late: Callable[[], bool]) -> np.ndarray | None:
        """(d - 1,) the weights of the lowest squared error whose bounds have this room (m,) left; None where none are
        found before it is `late`."""
        limits = np.where(self.allowed > 0, self.bounds + INSIDE * self.allowed, self.bounds) - room
        whole = np.tensordot(self.share, self.moments, 1)
        held, multipliers = np.zeros(0, dtype=np.int64), np.zeros(0)
        for _ in range(ROUNDS):
            if late():
                return None
            try:
                found = self._under(whole, held, limits).solve(start=multipliers)
            except (SubproblemError, DataError, np.linalg.LinAlgError):
                return None
            over = self.values(found.x) - limits
            worst = int(over.argmax())
            if over[worst] <= BROKEN * max(1.0, found.f):
                return found.x
            holds = found.multipliers > 0
            if worst in held[holds] or (holds.sum() + 1) * whole.size > MOST_MOMENTS:
                return None
            held, multipliers = np.append(held[holds], worst), np.append(found.multipliers[holds], 0.0)
        return None

    def values(self, x: np.ndarray) -> np.ndarray:
        """(m,) of the bounds at the weights x (d - 1,)."""
        v = np.append(x, -1.0)
        return self.linear @ (self.shares @ (self.means @ v)) + self.squared @ (self.shares @ (self.moments @ v @ v))

    def _under(self, whole: np.ndarray, held: np.ndarray, limits: np.ndarray) -> QuadraticProgram:
        """The program of the squared error, of moments `whole` (d, d), under the bounds numbered `held` (k,) alone."""
        curved = np.tensordot((self.squared[held] @ self.shares).toarray(), self.moments, 1)
        sloped = (self.linear[held] @ self.shares) @ self.means
        A = np.concatenate([whole[None], curved])
        b = -2 * A[:, :-1, -1]
        b[1:] += sloped[:, :-1]
        c = A[:, -1, -1].copy()
        c[1:] -= sloped[:, -1] + limits[held]
        return QuadraticProgram(A[:, :-1, :-1], b, c)


_MADE: WeakKeyDictionary[Any, BoundedSquares | None] = WeakKeyDictionary()


def _made(problem: Any, late: Callable[[], bool]) -> BoundedSquares | None:
    """`BoundedSquares.of`, taken once of each problem: its moments may take longer than all that is done with them."""
    if problem not in _MADE:
        made = BoundedSquares.of(problem, late)
        if made is None and late():
            return None
        _MADE[problem] = made
    return _MADE[problem]


def _by_cell(plan: Any, kind: np.ndarray) -> Any:
    """Sparse (m, cells) the coefficients of the bounds of a plan on the means of the cells of this `kind` (cells,)."""
    taken = (plan.coefficient != 0) & kind[plan.index]
    places = np.nonzero(taken)[0], plan.index[taken]
    return sparse.csr_matrix((plan.coefficient[taken], places), shape=(len(plan.index), len(kind)))


def _shares(cells: np.ndarray, weight: np.ndarray, k: int) -> Any:
    """Sparse (k + 1, S) the shares of S strata of this `weight` (S,) in each cell; cells: (S, C) of them, k for none,
    whose row is empty."""
    strata = np.broadcast_to(np.arange(len(cells))[:, None], cells.shape)
    held = (cells < k) & (weight > 0)[:, None]
    inside = cells[held].astype(np.int64)
    of_cell = np.bincount(inside, weight[strata[held]], k + 1)
    return sparse.csr_matrix(
        (weight[strata[held]] / of_cell[inside], (inside, strata[held])), shape=(k + 1, len(cells))
    )


def _moments(problem: Any, late: Callable[[], bool]) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Of the S strata of a problem's rows the weight (S,), the means (S, d) and the second moments (S, d, d) of
    features, a 1 and the label; None where it is `late`."""
    features, y = problem.features, problem.targets.double().cpu().numpy()
    weight, strata = problem.weight_of_rows().double().cpu().numpy(), problem.strata
    codes, size = np.repeat(np.arange(len(strata.sizes)), strata.sizes), len(strata.sizes)
    found = Moments.none(size, features.shape[1] + 2)
    for at in range(0, len(y), SLICE_ROWS):
        if late():
            return None
        part = slice(at, at + SLICE_ROWS)
        rows = features[part].double().cpu().numpy()
        rows = np.column_stack([rows, np.ones(len(rows)), y[part]])
        found = found.merge(Moments.of(rows, codes[part], size, weight[part]))
    return found.weight, found.mean, found.covariance + found.mean[:, :, None] * found.mean[:, None, :]
