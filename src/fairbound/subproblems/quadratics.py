"""min of a convex quadratic under convex quadratic bounds, exactly, through its dual: a few multipliers, whatever d.

    min  x'A_0 x + b_0'x + c_0    subject to    x'A_i x + b_i'x + c_i <= 0,  i = 1..m,      A_0, ..., A_m positive semidefinite

In coordinates in which A_0 is the identity, the Lagrangian of y >= 0 has the one minimiser x(y) = -(I + sum y_i A_i)^-1
(b_0 + sum y_i b_i) / 2, so the dual function is smooth, its gradient is g(x(y)), and Newton's method on y >= 0 ends in
a few steps of one Cholesky factorisation each. The dual value is a lower bound of the optimum, which the point nearly
attains: see `gap`. Where A_1, ..., A_m are multiples of one matrix, as for one difference bounded in both directions, its
eigenvectors are the coordinates, and a step is a division.

Source: Boyd, Vandenberghe (2004), Convex Optimization, sections 4.4 and 5.2; Bertsekas (1982), SIAM J. Control Optim.
20, 221-246, for Newton's method under bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from fairbound.base.errors import DataError
from fairbound.subproblems.qp import SubproblemError

FLAT = 1e-11  # of A_0 with unit diagonal, an eigenvalue below this share of the largest is 0
STEPS = 200
TOLERANCE = 1e-11
RIDGE = 1e-14
MANY = 1000
"""Constraints up to which their matrix is taken whole."""
Inverse = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class QuadraticSolution:
    """x: (d,). f: x's objective. g: (m,) x's constraints. multipliers: (m,) >= 0. gap: f less the dual value, a bound
    on how far f is above the least objective of points with g <= 0. steps: of Newton's method."""

    x: np.ndarray
    f: float
    g: np.ndarray
    multipliers: np.ndarray
    gap: float
    steps: int


class QuadraticProgram:
    """A: (1 + m, d, d), b: (1 + m, d), c: (1 + m,), row 0 the objective. Directions along which the objective is
    constant must be directions of all constraints too; they are left out of x.

    Raises: DataError where they are not, or the numbers are not finite.
    """

    def __init__(self, A: np.ndarray, b: np.ndarray, c: np.ndarray):
        if not (np.isfinite(A).all() and np.isfinite(b).all() and np.isfinite(c).all()):
            raise DataError("the quadratics have numbers that are not finite.")
        scale = np.sqrt(np.maximum(np.diagonal(A[0]), 0.0))
        used = scale > 1e-150
        unit = np.where(used, 1 / np.where(used, scale, 1.0), 0.0)
        values, vectors = np.linalg.eigh(A[0] * unit[:, None] * unit)
        kept = values > FLAT * max(values[-1], 1e-300)
        flat = vectors[:, ~kept] * np.where(used, unit, 1.0)[:, None]
        rest = (
            np.abs(np.einsum("dk,mde,ek->mk", flat, A, flat)).max(initial=0.0) + np.abs(b @ flat).max(initial=0.0) ** 2
        )
        if rest > 1e-6 * max(float(np.abs(c).max()), 1.0):
            raise DataError("a constraint moves along a direction in which the objective is constant.")
        self._basis = vectors[:, kept] * unit[:, None] / np.sqrt(values[kept])
        multiples = _multiples(A[1:])
        self._curved: _Matrices | _OneMatrix
        if multiples is None:
            self._curved = _Matrices(self._basis.T @ A[1:] @ self._basis)
        else:
            eigenvalues, turned = np.linalg.eigh(self._basis.T @ A[1] @ self._basis)
            self._basis = self._basis @ turned
            self._curved = _OneMatrix(multiples[:, None] * np.maximum(eigenvalues, 0.0))
        self._b, self._c = b @ self._basis, np.asarray(c, dtype=np.float64)

    def solve(
        self, c: np.ndarray | None = None, start: np.ndarray | None = None, slope: np.ndarray | None = None
    ) -> QuadraticSolution:
        """The optimum, with other constants c (1 + m,) or another b_0, slope (d,), where given, from multipliers
        `start` (m,).

        Raises: SubproblemError where no point meets all constraints, or Newton's method does not end.
        """
        if slope is not None:
            other = copy(self)
            other._b = np.concatenate([(slope @ self._basis)[None], self._b[1:]])
            return other.solve(c, start)
        c = self._c if c is None else np.asarray(c, dtype=np.float64)
        y = np.zeros(len(self._b) - 1) if start is None else np.maximum(start, 0.0)
        at = self._at(y, c)
        for steps in range(STEPS):
            free = (y > 0) | (at.g > 0)
            ends = np.where(y > 0, np.abs(at.g), np.maximum(at.g, 0.0)).max(initial=0.0)
            if ends <= TOLERANCE * max(1.0, abs(at.f)):
                return QuadraticSolution(self._basis @ at.z, at.f, at.g, y, at.f - at.dual, steps)
            self._check_feasible(y, c)
            y, at = self._step(y, at, free, c)
        raise SubproblemError(
            f"the program was not solved to {TOLERANCE:g} in {STEPS} steps: constraints up to {at.g.max():.3g}, multipliers "
            f"up to {y.max():.3g}. It may have no point with all constraints below 0; raise the bounds a little."
        )

    def _at(self, y: np.ndarray, c: np.ndarray) -> _Point:
        inverse = self._curved.inverse(y, 1.0)
        z = inverse(self._b[0] + y @ self._b[1:]) / -2
        curved = self._curved.times(z)
        g = curved @ z + self._b[1:] @ z + c[1:]
        f = float(z @ z + self._b[0] @ z + c[0])
        return _Point(z, f, g, f + float(y @ g), inverse, 2 * curved + self._b[1:])

    def _step(self, y: np.ndarray, at: _Point, free: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, _Point]:
        """A projected Newton step up the dual."""
        direction = np.zeros_like(y)
        direction[free] = newton_direction(at.slopes[free], at.inverse, at.g[free])
        rounding = 1e-15 * (abs(at.dual) + abs(float(c[0])) + float(at.z @ at.z))
        for halving in range(60):
            moved = np.maximum(y + direction / 2**halving, 0.0)
            new = self._at(moved, c)
            if new.dual >= at.dual + 1e-4 * float(at.g @ (moved - y)) - rounding:
                return moved, new
        return moved, new

    def _check_feasible(self, y: np.ndarray, c: np.ndarray) -> None:
        """Raises: SubproblemError where the weighted sum y . g is above 0 at every point,
        so that no point has g <= 0."""
        if y.sum() < 1e3:
            return
        w = y / y.sum()
        b = w @ self._b[1:]
        try:
            inverse = self._curved.inverse(w, 1e-13 * self._curved.trace(w))
            least = float(c[1:] @ w) - float(b @ inverse(b)) / 4
        except LinAlgError:
            return
        if least > 1e-9:
            raise SubproblemError(
                f"no point meets all constraints: a weighted mean of them is at least {least:.3g} everywhere. Raise the bounds."
            )


def newton_direction(J: np.ndarray, inverse: Inverse, g: np.ndarray) -> np.ndarray:
    """(m,) The shortest y of least |K y - g|, with K = J inverse(J') / 2 and RIDGE of its trace on the diagonal; singular
    values below m times the rounding of the largest count as 0.

    J: (m, d). g: (m,). Of MANY rows, K is taken by its factor of d columns, in time m d^2 in place of m^3.
    """
    m, d = J.shape
    if m <= max(MANY, d):
        curvature = J @ inverse(J.T) / 2
        curvature[np.diag_indices_from(curvature)] += RIDGE * max(float(np.trace(curvature)), 1e-300)
        return np.linalg.lstsq(curvature, g, rcond=None)[0]
    values, vectors = np.linalg.eigh(inverse(np.eye(d)) / 2)
    left, scales, _ = np.linalg.svd(J @ (vectors * np.sqrt(np.maximum(values, 0.0))), full_matrices=False)
    ridge, along = RIDGE * max(float(scales @ scales), 1e-300), left.T @ g
    found = scales**2 + ridge
    least = m * np.finfo(float).eps * found[0]
    direction = left @ np.where(found > least, along / found, 0.0)
    return direction + (g - left @ along) / ridge if ridge > least else direction


def _multiples(A: np.ndarray) -> np.ndarray | None:
    """(m,) r >= 0 with A_i = r_i A_0 to rounding, of matrices (m, d, d); None where there is no such r."""
    least = float(np.square(A[0]).sum()) if len(A) else 0.0
    if not least:
        return None
    r = np.einsum("mde,de->m", A, A[0]) / least
    apart, sizes = (np.abs(of).max(axis=(1, 2)) for of in (A - r[:, None, None] * A[0], A))
    return r if (r >= 0).all() and (apart <= 1e-12 * sizes).all() else None


@dataclass(frozen=True)
class _Matrices:
    """A: (m, d, d), any positive semidefinite matrices."""

    A: np.ndarray

    def times(self, z: np.ndarray) -> np.ndarray:
        """(m, d) every A_i z."""
        return self.A @ z

    def trace(self, y: np.ndarray) -> float:
        """Of sum y_i A_i."""
        return float(y @ np.trace(self.A, axis1=1, axis2=2))

    def inverse(self, y: np.ndarray, shift: float) -> Inverse:
        """v (d,) or (d, k) -> (shift I + sum y_i A_i)^-1 v. Raises: LinAlgError where it has none."""
        factor = cho_factor(shift * np.eye(self.A.shape[1]) + np.tensordot(y, self.A, 1))
        return lambda v: cho_solve(factor, v)


@dataclass(frozen=True)
class _OneMatrix:
    """eigenvalues: (m, d) of multiples of one matrix, in the coordinates of its eigenvectors; else as `_Matrices`."""

    eigenvalues: np.ndarray

    def times(self, z: np.ndarray) -> np.ndarray:
        return self.eigenvalues * z

    def trace(self, y: np.ndarray) -> float:
        return float(y @ self.eigenvalues.sum(axis=1))

    def inverse(self, y: np.ndarray, shift: float) -> Inverse:
        diagonal = shift + y @ self.eigenvalues
        if not (diagonal > 0).all():
            raise LinAlgError("the weighted sum of the matrices has no inverse")
        return lambda v: (v.T / diagonal).T


@dataclass(frozen=True)
class _Point:
    """z: the minimiser of the Lagrangian; f, g there; dual: the Lagrangian; inverse: of its Hessian / 2; slopes:
    (m, d) of g."""

    z: np.ndarray
    f: float
    g: np.ndarray
    dual: float
    inverse: Inverse
    slopes: np.ndarray
