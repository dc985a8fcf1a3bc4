"""A LinearTerms problem with piecewise linear losses as a cone program, and lower bounds on its optimum from any duals.

Every F_i is a sum of hinges, F_i(x) = sum_r p_r (o_r + s_r . x)_+ - r_i, over the product of balls |w_c|_2 <= radius.
Because y p u_+ >= v u for every v in [0, y p],

    F_0 + sum_i y_i F_i  >=  sum_r v_r (o_r + s_r . x) - y . r       for y >= 0, 0 <= v_r <= y_{i(r)} p_r  (y_0 = 1),

a linear function of x, whose least value over the balls is sum_r v_r o_r - y . r - radius sum_c |sum_r v_r s_r|_c. So
any y and v, clipped to these ranges, give a lower bound on the optimum: no solver need be trusted, only this sum (up to
the rounding of double precision, about 1e-15 of its terms).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy import sparse

from fairbound.base.errors import OptionError
from fairbound.base.extras import extra
from fairbound.instances.linear_terms import LinearTerms

OFFSETS = {"hinge": 1.0, "ramp": 0.5, "ramp_down": 0.5, "margin_hinge": 1.0}


@dataclass(frozen=True, eq=False)
class Hinges:
    """weight * sum over rows (offset + score)_+, a part of F_function.

    rows: (B, d) array or CSR matrix. sign: (B,) with score = sign * w . row; or own: (B,) class of the row, with a
    hinge of score (w_l - w_own) . row for each of the other classes l.
    """

    function: int
    weight: float
    offset: float
    rows: Any
    sign: np.ndarray | None = None
    own: np.ndarray | None = None


@dataclass(frozen=True)
class Duals:
    """y: (m,) of the constraints; v: for each part of the program (B, C), of the hinge of a row against class l in
    column l, and 0 in its own; (B, 1) where a row has one hinge."""

    y: np.ndarray
    v: Sequence[np.ndarray]


class Piece(NamedTuple):
    """scores: CSR (., n), the s_r of the hinges of `rows` of a part, whose duals stand in this column."""

    scores: Any
    part: int
    rows: np.ndarray
    column: int


class HingeProgram:
    """The hinges of `problem`. Raises: OptionError for a smooth loss, or a problem without a radius."""

    def __init__(self, problem: LinearTerms):
        if problem.radius is None:
            raise OptionError("the lower bound needs a bounded domain: give the problem a radius.")
        self.m, self.n, self.classes, self.features = problem.m, problem.n, problem.classes, problem.d
        self.radius, self.bounds = float(problem.radius), problem.bounds.numpy().astype(float)
        matrix = problem.matrix
        matrix = matrix.numpy() if isinstance(matrix, torch.Tensor) else matrix
        labels = problem.targets.numpy()
        self.parts: list[Hinges] = []
        for loss, coefficients in problem.losses:
            if loss.name not in OFFSETS:
                raise OptionError(
                    f"loss {loss.name!r} is not piecewise linear; exact optima exist for {', '.join(OFFSETS)}."
                )
            for function, block in coefficients.nonzero().tolist():
                first, size = int(problem.strata.starts[block]), int(problem.strata.sizes[block])
                span = slice(first, first + size)
                here = labels[span].astype(np.int64)
                signs = {"hinge": 1 - 2 * here, "ramp": np.ones(size), "ramp_down": -np.ones(size)}.get(loss.name)
                self.parts.append(
                    Hinges(
                        function,
                        float(coefficients[function, block]) / size,
                        OFFSETS[loss.name],
                        matrix[span],
                        None if signs is None else signs.astype(float),
                        here if signs is None else None,
                    )
                )

    def lower_bound(self, duals: Duals) -> float:
        """A lower bound on the optimum; y and v are clipped to where the bound holds. -inf where they are NaN."""
        y = np.maximum(duals.y, 0.0)
        total, weights = -float(y @ self.bounds), np.r_[1.0, y]
        gradient = np.zeros((self.classes, self.features))
        for part, v in zip(self.parts, duals.v, strict=True):
            v = np.clip(v, 0.0, weights[part.function] * part.weight)
            if part.sign is not None:
                slopes = v * part.sign[:, None]
            else:
                index = np.arange(len(v))
                v[index, part.own] = 0.0
                slopes = v.copy()
                slopes[index, part.own] = -v.sum(1)
            total += part.offset * float(v.sum())
            gradient += np.asarray((part.rows.T @ slopes).T)
        bound = total - self.radius * float(np.linalg.norm(gradient, axis=1).sum())
        return bound if np.isfinite(bound) else -np.inf

    def solve(self, margin: float, tolerance: float) -> tuple[np.ndarray, Duals, str]:
        """x (n,), duals, and the solver's words, of the program with constraints F_i <= -margin.

        One variable t_r for each hinge, t_r >= 0 and t_r >= o_r + s_r . x, and a second-order cone for each ball.
        Raises: ImportError without Clarabel.
        """
        clarabel = require_clarabel()
        pieces = self._pieces()
        parts, sizes = [self.parts[piece.part] for piece in pieces], [len(piece.rows) for piece in pieces]
        weight = np.repeat([part.weight for part in parts], sizes)
        offset = np.repeat([part.offset for part in parts], sizes)
        function = np.repeat([part.function for part in parts], sizes)
        count = len(weight)
        scores = sparse.vstack([piece.scores for piece in pieces], format="csr")
        identity = sparse.identity(count, format="csr")
        sums = sparse.csr_matrix((weight, (function, np.arange(count))), shape=(1 + self.m, count))
        ball = sparse.kron(
            sparse.identity(self.classes),
            sparse.vstack([sparse.csr_matrix((1, self.features)), -sparse.identity(self.features)]),
        )
        A = sparse.bmat([[scores, -identity], [None, -identity], [None, sums[1:]], [ball, None]], format="csc")
        radii = np.tile(np.r_[self.radius, np.zeros(self.features)], self.classes)
        b = np.concatenate([-offset, np.zeros(count), self.bounds - margin, radii])
        cones = [clarabel.NonnegativeConeT(2 * count + self.m)]
        cones += [clarabel.SecondOrderConeT(1 + self.features)] * self.classes
        settings = clarabel.DefaultSettings()
        settings.verbose, settings.max_threads, settings.direct_solve_method = False, 1, "qdldl"
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
        cost = np.r_[np.zeros(self.n), np.where(function == 0, weight, 0.0)]
        zero = sparse.csc_matrix((self.n + count, self.n + count))
        found = clarabel.DefaultSolver(zero, cost, A, b, cones, settings).solve()
        z = np.asarray(found.z)
        v = [np.zeros((part.rows.shape[0], self.classes)) for part in self.parts]
        for piece, values in zip(pieces, np.split(z[:count], np.cumsum(sizes)[:-1]), strict=True):
            v[piece.part][piece.rows, piece.column] = values
        duals = Duals(z[2 * count : 2 * count + self.m], v)
        return np.asarray(found.x)[: self.n], duals, f"Clarabel {clarabel.__version__}: {found.status}"

    def _pieces(self) -> list[Piece]:
        pieces = []
        for at, part in enumerate(self.parts):
            rows = sparse.csr_matrix(part.rows)
            if part.sign is not None:
                pieces.append(Piece(sparse.diags(part.sign) @ rows, at, np.arange(rows.shape[0]), 0))
                continue
            for own in np.unique(np.asarray(part.own)):
                index = np.flatnonzero(part.own == own)
                for other in set(range(self.classes)) - {int(own)}:
                    pattern = np.zeros((1, self.classes))
                    pattern[0, other], pattern[0, own] = 1.0, -1.0
                    pieces.append(Piece(sparse.kron(pattern, rows[index], format="csr"), at, index, other))
        return pieces


def require_clarabel() -> Any:
    """The module. Raises: ImportError naming the extra."""
    with extra("exact", "exact optima of hinge problems need the cone solver Clarabel"):
        import clarabel
    return clarabel
