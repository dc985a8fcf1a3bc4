"""The multipliers that make a point most nearly stationary, and how near they make it.

Duality gap. Where f and every g_i are convex, L(x) = f(x) + y . g(x) with y >= 0 lies above its tangents. At every z
that meets the bounds and has |z - x|_H <= R

    f(z) >= L(z) >= L(x) + grad L(x) . (z - x) >= L(x) - R |grad L(x)|_(1/H),

so that f(x) - f(z) <= R |grad L(x)|_(1/H) - y . g(x). H is the problem's curvature, R = 2 |x|_H: all z no longer than x
are among them.

Source: Nocedal and Wright (2006), section 18.3 (least-squares multipliers), with y >= 0 by Lawson and Hanson's method;
    Boyd and Vandenberghe (2004), section 5.5.1 (the gap as a certificate).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.optimize import nnls
from torch import Tensor

from fairbound.base.errors import OptionError
from fairbound.problems.problem import Problem

MOST_ACTIVE = 64
"""Most constraints whose gradients are asked for, the largest first."""

ROUNDING = 1e-9
"""By how much a constraint without a stated bound may lie below 0 and still be active."""


def least_squares_multipliers(problem: Problem, x: Tensor, batch: Any, active: Sequence[int]) -> tuple[Tensor, float]:
    """y (m,) >= 0 of the smallest |grad f + sum_i y_i grad g_i| at x (n,), 0 but for the constraints `active`; and that
    residual."""
    jacobian = problem.jacobian(x, batch, which=[0, *(1 + i for i in active)])[1].double().cpu().numpy()
    y, residual = nnls(jacobian[1:].T, -jacobian[0]) if active else (np.zeros(0), np.linalg.norm(jacobian[0]))
    multipliers = x.new_zeros(problem.m)
    multipliers[list(active)] = torch.as_tensor(y).to(x)
    return multipliers, float(residual)


def nearly_active(problem: Problem, g: Tensor) -> list[int]:
    """The constraints with g_i (m,) above minus a tenth of their bound, at most MOST_ACTIVE, the largest first."""
    least = -0.1 * (problem.bounds + torch.zeros_like(g)) - ROUNDING
    return [i for i in g.argsort(descending=True)[:MOST_ACTIVE].tolist() if g[i] > least[i]]


class KKT(NamedTuple):
    """How nearly a point x meets the conditions of optimality of a problem.

    stationarity: |grad f + sum_i y_i grad g_i|, of the functions that training differentiates. violation: the largest
        g_i > 0 of the metric, else 0. complementarity: the largest y_i |g_i|.
    multipliers: (m,) y >= 0, the price of each bound: how much f falls for each unit that it is loosened.
    duality_gap: the most by which f(x) can exceed the objective of a point no longer than x that meets the bounds;
        None where the problem does not promise to be convex, so that no such proof is known.
    """

    stationarity: float
    violation: float
    complementarity: float
    multipliers: Tensor
    duality_gap: float | None = None


def kkt(problem: Problem, x: Tensor) -> KKT:
    """How nearly x (n,) meets the conditions of an optimum over all rows (docs/training.md).

    The multipliers are those that make the gradient of the Lagrangian smallest. Constraints within a tenth of their
    bound count as active, at most 64 of them. Surrogates are those of `problem`: take `problem.sharpened(k)` for those
    of a method that ended with steeper ones.

    Raises: OptionError unless x is a tensor of one run's n numbers.
    """
    if not isinstance(x, Tensor) or x.shape != (problem.n,):
        shape = getattr(x, "shape", None)
        raise OptionError(
            f"x must be a tensor of shape ({problem.n},), one point of the problem, got {type(x).__name__}"
            f"{'' if shape is None else f' of shape {tuple(shape)}'}."
        )
    everything = problem.sample((0,), "full", 0, 1, "full")
    g = problem.values(x, everything, true=True).g
    y, residual = least_squares_multipliers(problem, x, everything, nearly_active(problem, g))
    violation, price = (float(v.max()) if problem.m else 0.0 for v in (g.clamp_min(0), y * g.abs()))
    return KKT(residual, violation, price, y, _duality_gap(problem, x, everything, y) if problem.convex else None)


def _duality_gap(problem: Problem, x: Tensor, batch: Any, y: Tensor) -> float:
    """R |grad L(x)|_(1/H) - y . g(x), as in the module's docstring; H is the identity without a curvature."""
    slope = problem.gradient(x, batch, (1.0, y if problem.m else None))[1]
    curvature = problem.curvature()
    point, slope = x.double().cpu(), slope.double().cpu()
    if curvature is None:
        length, steepness = point.norm(), slope.norm()
    else:
        H = curvature.double().cpu() + 1e-9 * curvature.diagonal().mean() * torch.eye(len(point), dtype=torch.float64)
        length, steepness = (point @ H @ point).sqrt(), (slope @ torch.linalg.solve(H, slope)).sqrt()
    excess = float(y @ problem.values(x, batch).g) if problem.m else 0.0
    return float(2 * length * steepness) - excess
