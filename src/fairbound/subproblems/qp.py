"""The quadratic program of a linearised step, in m variables instead of n.

    min_d  g.d + tau/2 |d|^2   subject to   c + J d <= kappa,   |d|_inf <= beta

For multipliers y >= 0 the minimiser over the box is d(y) = clip(-(g + J'y) / tau, -beta, beta), and the dual
q(y) = g.d(y) + tau/2 |d(y)|^2 + y.(c + J d(y) - kappa) is concave with gradient c + J d(y) - kappa.

While the box is inactive the problem is to find the nearest point of a polyhedron, which Lawson and Hanson's reduction
turns into a non-negative least-squares problem of size m, solved by `scipy.optimize.nnls`. Where the box cuts that
point, or rounding spoils it, a regularised semismooth Newton method with an exact line search maximises q; its model
problems are again non-negative least squares. A result is returned only with a certificate: the constraints hold and
the duality gap is closed, both to TOLERANCE.

Source: Kliachkin et al. (2025), equations (7) and (8); Lawson and Hanson (1974), chapter 23 (least distance
programming); Qi and Sun (1993) for semismooth Newton.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq, nnls

from fairbound.base.errors import FairboundError

TOLERANCE = 1e-10
"""Largest violation, relative to the largest of |c|, kappa and |J g| / tau, and largest gap, relative to |g|^2 / tau +
tau |d|^2."""
NEWTON_STEPS = 200
RELAXED = 1e-14  # of the rows' scale, added to the bounds of the first guess: rounding must not make them contradict


class SubproblemError(FairboundError, ArithmeticError):
    """A subproblem inside a step is infeasible, or was not solved to its tolerance."""


@dataclass(frozen=True)
class QPSolution:
    """d: (n,) minimiser; multipliers: (m,) >= 0 of c + J d <= kappa; gap: primal minus dual value, negative at most by
    the tolerance; violation: largest excess of c + J d over kappa; newton_steps: 0 where the first guess was right."""

    d: np.ndarray
    multipliers: np.ndarray
    gap: float
    violation: float
    newton_steps: int


def row_factor(jacobian: np.ndarray) -> np.ndarray:
    """R (min(m, n), m) with R'R = J J', from a QR factorisation of J', so that its small singular values are kept."""
    return np.asarray(np.linalg.qr(jacobian.T, mode="r"))


def direction_qp(
    gradient: np.ndarray,
    c: np.ndarray,
    jacobian: np.ndarray,
    kappa: float,
    tau: float,
    beta: float,
    *,
    factor: np.ndarray | None = None,
) -> QPSolution:
    """Solve the program above.

    gradient: (n,) float64; c: (m,); jacobian: (m, n); kappa: right-hand side of every row; tau > 0; beta > 0, may be
    infinite. factor: `row_factor(jacobian)` where the caller has it.
    Raises: SubproblemError where the rows and the box contradict each other, or TOLERANCE is not reached.
    """
    problem = _Problem(gradient, c, jacobian, kappa, tau, beta)
    y = np.zeros(len(c))
    solution = problem.certified(y, 0)
    if solution is not None:
        return solution
    room = kappa - c - problem.change + RELAXED * problem.scale
    guess = least_distance(row_factor(jacobian) if factor is None else factor, room)
    if guess is not None:
        y = tau * guess
        solution = problem.certified(y, 0)
        if solution is not None:
            return solution
    return _newton(problem, y)


def least_distance(factor: np.ndarray, room: np.ndarray) -> np.ndarray | None:
    """Multipliers y >= 0 of the point z = -J'y of least norm with J z <= room; None where no such z was found.

    factor: R with R'R = J J'. room: (m,).
    """
    norms = np.sqrt(np.einsum("ij,ij->j", factor, factor))
    zero = norms <= 1e-150
    if zero.any():
        if (room[zero] < 0).any():
            return None
        y = np.zeros(len(room))
        if not zero.all():
            rest = least_distance(factor[:, ~zero], room[~zero])
            if rest is None:
                return None
            y[~zero] = rest
        return y
    distance = room / norms
    far = -distance.min()
    if far <= 0:
        return np.zeros(len(room))
    system = np.vstack([factor / norms, distance / far])
    target = np.zeros(len(system))
    target[-1] = -1.0
    try:
        u, _ = nnls(system, target)
    except RuntimeError:
        return None
    remaining = 1 + system[-1] @ u  # 1 / (1 + |z|^2 / far^2); zero where the rows contradict each other
    if remaining <= 1e-13:
        return None
    return u * (far / remaining) / norms


class _Problem:
    """The data, with rows of J at unit length for Newton's method."""

    def __init__(
        self,
        gradient: np.ndarray,
        c: np.ndarray,
        jacobian: np.ndarray,
        kappa: float,
        tau: float,
        beta: float,
    ):
        self.g, self.c, self.jacobian, self.kappa = gradient, c, jacobian, kappa
        self.tau, self.beta = tau, beta
        self.change = jacobian @ gradient / -tau  # of c along the step -g / tau
        self.scale = max(float(np.abs(c).max(initial=0.0)), abs(kappa), float(np.abs(self.change).max(initial=0.0)))
        self.worth = float(gradient @ gradient) / tau

    def at(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """g + J'y, d(y) and the excess c + J d(y) - kappa."""
        u = self.g + y @ self.jacobian
        d = np.clip(u / -self.tau, -self.beta, self.beta)
        return u, d, self.c - self.kappa + self.jacobian @ d

    def certified(self, y: np.ndarray, steps: int) -> QPSolution | None:
        _, d, excess = self.at(y)
        violation = max(0.0, float(excess.max(initial=0.0)))
        gap = -float(y @ excess)
        close = abs(gap) <= TOLERANCE * (self.worth + self.tau * float(d @ d))
        return QPSolution(d, y, gap, violation, steps) if close and violation <= TOLERANCE * self.scale else None


def _newton(problem: _Problem, y: np.ndarray) -> QPSolution:
    """Maximise the dual over y >= 0 from y, in multipliers of unit rows."""
    norms = np.sqrt(np.einsum("ij,ij->i", problem.jacobian, problem.jacobian))
    norms[norms <= 1e-150] = 1.0
    rows, room = problem.jacobian / norms[:, None], (problem.kappa - problem.c) / norms
    tau, beta, size = problem.tau, problem.beta, max(problem.scale, 1e-300) / norms.max()
    y, best, least = y * norms, None, np.inf
    for steps in range(NEWTON_STEPS + 1):
        u = problem.g + y @ rows
        r = room - rows @ np.clip(u / -tau, -beta, beta)
        residual = float(np.abs(y - np.maximum(y - r, 0)).max()) / size
        solution = problem.certified(y / norms, steps)
        if best is not None and not residual < 0.1 * least:
            return best
        if solution is not None:
            best, least = solution, residual
        inside = rows[:, np.abs(u) < tau * beta]
        curvature = inside @ inside.T / tau
        curvature[np.diag_indices_from(curvature)] += min(max(residual, 1e-11), 1e-2) / tau
        lower = np.linalg.cholesky(curvature)
        try:
            target, _ = nnls(lower.T, lower.T @ y - np.linalg.solve(lower, r))
        except RuntimeError:
            break
        p = target - y
        v, fixed = p @ rows, float(p @ room)

        def slope(t: float, u: np.ndarray = u, v: np.ndarray = v, fixed: float = fixed) -> float:
            return fixed - float(v @ np.clip((u + t * v) / -tau, -beta, beta))

        if not slope(0.0) < 0:
            break
        t, falling = 1.0, p < 0
        end = min(float((y[falling] / -p[falling]).min(initial=np.inf)), 1e15)
        while slope(t) < 0 and t < end:
            t = min(4 * t, end)
        if slope(t) > 0:
            t = brentq(slope, 0.0, t, xtol=1e-15 * t, maxiter=1000, disp=False)
        y = np.maximum(y + t * p, 0.0)
    if best is not None:
        return best
    raise SubproblemError(_explain(problem, y / norms))


def _explain(problem: _Problem, y: np.ndarray) -> str:
    """Why there is no solution: y proves infeasibility where y.(kappa - c) < min over the box of y.(J d)."""
    reach = float(np.abs(y @ problem.jacobian).sum()) * problem.beta
    _, _, excess = problem.at(y)
    if float(y @ (problem.kappa - problem.c)) < -reach:
        return (
            f"the rows c + J d <= {problem.kappa:.3g} cannot all hold with |d|_inf <= {problem.beta:.3g}: every such d "
            "violates a weighted sum of them. Raise kappa (a smaller weight or radius of its linearised part) or beta."
        )
    return (
        f"the step's quadratic program was not solved to {TOLERANCE:.1g}: the rows are violated by "
        f"{max(0.0, float(excess.max())):.3g} (constraint values up to {problem.scale:.3g}) and the duality gap is "
        f"{-float(y @ excess):.3g}. Raise beta or tau, or scale the constraints to a common size."
    )
