"""How small a linear step can make the worst constraint, in m variables instead of n.

    V = min_{|d|_inf <= rho}  max_i (c_i + J_i d)_+   =   max_{y >= 0, sum y <= 1}  c.y - rho |J'y|_1

The dual function is concave, piecewise linear and positively homogeneous. Three ways, in this order: if the shortest d
with c + J d <= 0 fits in the box then V = 0; with one or two rows the maximum over the unit segment is found by sorting
its breakpoints; otherwise by cutting planes (Kelley's method, each master problem a linear program in m + 1 variables
for HiGHS), which also give d as a convex combination of corners of the box. Where these do not close the gap the
program in d itself goes to HiGHS. A result carries its duality gap.

Source: Kliachkin et al. (2025), section 3.2, the second term of kappa_k; Kelley (1960).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from fairbound.subproblems.qp import SubproblemError, least_distance, row_factor

CUTTING_ROUNDS = 25
TOLERANCE = 1e-9  # largest duality gap, relative to the largest |c|
COARSE = 1e-4  # the same where the rows are nearly dependent


@dataclass(frozen=True)
class LPSolution:
    """value: max_i (c_i + J_i d)_+ >= V; d: (n,) in the box; multipliers: (m,) >= 0 with sum <= 1; gap: value minus the
    dual value of the multipliers, so that V lies in [value - gap, value]."""

    value: float
    d: np.ndarray
    multipliers: np.ndarray
    gap: float


def least_violation(
    c: np.ndarray,
    jacobian: np.ndarray,
    radius: float,
    *,
    factor: np.ndarray | None = None,
) -> LPSolution:
    """Solve the program above.

    c: (m,) float64; jacobian: (m, n); radius: rho >= 0. factor: `row_factor(jacobian)` where the caller has it.
    Raises: SubproblemError where the duality gap stays larger than TOLERANCE, or COARSE of rows that are dependent up
    to rounding.
    """
    m, n = jacobian.shape
    allowed = TOLERANCE * float(np.abs(c).max(initial=0.0))
    if c.max(initial=0.0) <= 0:
        return LPSolution(0.0, np.zeros(n), np.zeros(m), 0.0)
    shortest = least_distance(row_factor(jacobian) if factor is None else factor, -c)
    if shortest is not None:
        d = shortest @ jacobian
        np.negative(d, out=d)
        if max(d.max(), -d.min()) <= radius:
            left = max(0.0, float((c + jacobian @ d).max()))
            if left <= allowed:
                return LPSolution(0.0, d, np.zeros(m), left)
    if m == 1:
        y, d = np.ones(1), -radius * np.sign(jacobian[0])
    elif m == 2:
        y, d = _segment(c, jacobian, radius)
    else:
        try:
            y, d = _cutting_planes(c, jacobian, radius, allowed)
        except SubproblemError:
            y, d = _primal(c, jacobian, radius)
    found = _certified(c, jacobian, radius, y, d)
    if found.gap > allowed:
        found = _certified(c, jacobian, radius, *_primal(c, jacobian, radius))
    if not found.gap <= max(allowed, COARSE * float(np.abs(c).max())):
        raise SubproblemError(
            f"the least linearised violation was found only to {found.gap:.3g} (asked: {allowed:.3g}) with {m} constraints; "
            "scale the constraints to a common size."
        )
    return found


def _certified(c: np.ndarray, jacobian: np.ndarray, radius: float, y: np.ndarray, d: np.ndarray) -> LPSolution:
    """The value that d attains, and how far above the dual value of y it lies."""
    least = float(c @ y - radius * np.abs(y @ jacobian).sum())
    if least <= 0:
        least, y = 0.0, np.zeros(len(c))
    reached = max(0.0, float((c + jacobian @ d).max()))
    return LPSolution(reached, d, y, max(0.0, reached - least))


def _primal(c: np.ndarray, jacobian: np.ndarray, radius: float) -> tuple[np.ndarray, np.ndarray]:
    """y and d from the program in n + 1 variables, for rows so nearly dependent that the cuts cannot close the gap."""
    m, n = jacobian.shape
    scale = float(np.abs(c).max())
    solved = linprog(
        np.append(np.zeros(n), 1.0),
        A_ub=np.hstack([jacobian / scale, -np.ones((m, 1))]),
        b_ub=-c / scale,
        bounds=[(-radius, radius)] * n + [(0, None)],
        method="highs",
    )
    if solved.x is None:
        return np.zeros(m), np.zeros(n)
    y = np.maximum(-solved.ineqlin.marginals, 0.0)
    return y / max(1.0, float(y.sum())), np.clip(solved.x[:n], -radius, radius)


def _segment(c: np.ndarray, jacobian: np.ndarray, radius: float) -> tuple[np.ndarray, np.ndarray]:
    """The maximiser y = (t, 1 - t) of the dual over the segment, and the d of the box that certifies it."""
    ahead, base = jacobian[0] - jacobian[1], jacobian[1]
    sign = np.where(base == 0, np.sign(ahead), np.sign(base))  # of base + t ahead just after t = 0
    d = -radius * sign
    slope = float(c[0] - c[1] + ahead @ d)
    if slope <= 0:
        return np.array([0.0, 1.0]), d
    turning = np.flatnonzero(ahead * base < 0)
    t = base[turning] / -ahead[turning]
    turning, t = turning[t < 1], t[t < 1]
    order = t.argsort(kind="stable")
    turning = turning[order]
    drops = 2 * radius * np.abs(ahead[turning])
    after = slope - drops.cumsum()
    k = int(np.count_nonzero(after > 0))
    d[turning[:k]] *= -1
    if k == len(turning):
        return np.array([1.0, 0.0]), d
    before = slope if k == 0 else float(after[k - 1])
    d[turning[k]] *= 1 - 2 * min(1.0, before / float(drops[k]))
    at = float(t[order[k]])
    return np.array([at, 1 - at]), d


def _cutting_planes(
    c: np.ndarray, jacobian: np.ndarray, radius: float, allowed: float
) -> tuple[np.ndarray, np.ndarray]:
    """y and d with a closed gap. A cut is a corner d_k of the box: the dual is at most (c + J d_k).y."""
    m = len(c)
    corners_of: list[np.ndarray] = []  # the y whose corner -rho sign(J'y) made each cut
    cuts: list[np.ndarray] = []
    best_y, best = np.zeros(m), 0.0
    points = [*np.eye(m), np.full(m, 1 / m)]
    for _ in range(CUTTING_ROUNDS):
        for y in points:
            v = y @ jacobian
            cut = c - radius * (jacobian @ np.sign(v))
            corners_of.append(y)
            cuts.append(cut)
            if float(cut @ y) > best:
                best_y, best = y, float(cut @ y)
        rows = np.hstack([-np.array(cuts), np.ones((len(cuts), 1))])
        whole = np.append(np.ones(m), 0.0)
        master = linprog(
            np.append(np.zeros(m), -1.0),
            A_ub=np.vstack([rows, whole]),
            b_ub=np.append(np.zeros(len(cuts)), 1.0),
            bounds=(0, None),
            method="highs",
            options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
        )
        if master.status != 0:
            break
        y = master.x[:m]
        if -master.fun - best <= allowed / 2:
            weights = -master.ineqlin.marginals[:-1]
            weights = weights / max(float(weights.sum()), 1.0)
            d = np.zeros(jacobian.shape[1])
            for w, source in zip(weights, corners_of, strict=True):
                if w > 0:
                    d -= (radius * w) * np.sign(source @ jacobian)
            return best_y, d
        points = [y] if not best_y.any() else [y, 0.5 * (y + best_y), 0.2 * y + 0.8 * best_y]
    raise SubproblemError(
        f"the least linearised violation was not found by {CUTTING_ROUNDS} rounds of cutting planes with {m} "
        "constraints; scale the constraints to a common size, or state fewer."
    )
