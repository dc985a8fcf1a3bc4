"""The multipliers that make a point most nearly stationary, and how near they make it.

Duality gap. Where f and every g_i are convex, L(x) = f(x) + y . g(x) with y >= 0 lies above its tangents. At every z
that meets the bounds and has |z - x|_H <= R

    f(z) >= L(z) >= L(x) + grad L(x) . (z - x) >= L(x) - R |grad L(x)|_(1/H),

so that f(x) - f(z) <= R |grad L(x)|_(1/H) - y . g(x). H is the problem's curvature, R = 2 |x|_H: all z no longer than x
are among them. A side a . z <= b of the domain, |a| = 1, is such a bound too.

Which may have a multiplier above 0. A bound b > 0 where g >= -b / 10. One stated as g <= 0 has no such unit: it may
have one where moving every entry of x by a tenth of their root mean square s would use it up,

    -g <= s |grad g|_1 / 10,    to first order,

which scaling g, or x, leaves as it is.

Source: Nocedal and Wright (2006), section 18.3 (least-squares multipliers), with y >= 0 by Lawson and Hanson's method;
    Boyd and Vandenberghe (2004), section 5.5.1 (the gap as a certificate).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fairbound.base.errors import OptionError
from fairbound.problems.problem import Problem
from fairbound.subproblems.nonnegative import nonnegative_least_squares

MOST_ACTIVE = 64
"""Most constraints whose gradients are asked for, the largest first."""

ROUNDING = 1e-9
"""By how much a constraint without a stated bound may lie below 0 and still be active."""


NEAR = 0.1
"""Share of a bound, or of the size of the entries of x, within which a constraint counts as active."""


def least_squares_multipliers(problem: Problem, x: Tensor, batch: Any, active: Sequence[int]) -> tuple[Tensor, float]:
    """y (m,) >= 0 of the smallest |grad f + sum_i y_i grad g_i| at x (n,), 0 but for the constraints `active`; and that
    residual."""
    jacobian = problem.jacobian(x, batch, which=[0, *(1 + i for i in active)])[1].double().cpu().numpy()
    y, residual = _fitted(jacobian)
    multipliers = x.new_zeros(problem.m)
    multipliers[list(active)] = torch.as_tensor(y).to(x)
    return multipliers, residual


def _fitted(jacobian: np.ndarray) -> tuple[np.ndarray, float]:
    """y (k,) >= 0 of the smallest |a + sum_i y_i b_i|, where a is the first and b_i are the other rows (1 + k, n); and
    that length."""
    if len(jacobian) == 1:
        return np.zeros(0), float(np.linalg.norm(jacobian[0]))
    return nonnegative_least_squares(jacobian[1:].T, -jacobian[0])


def nearly_active(problem: Problem, g: Tensor) -> list[int]:
    """The constraints with g_i (m,) above minus a tenth of their bound, at most MOST_ACTIVE, the largest first."""
    least = -NEAR * (problem.bounds + torch.zeros_like(g)) - ROUNDING
    return [i for i in g.argsort(descending=True)[:MOST_ACTIVE].tolist() if g[i] > least[i]]


class KKT(NamedTuple):
    """How nearly a point x meets the conditions of optimality of a problem.

    stationarity: |grad f + sum_i y_i grad g_i + N|, of the functions that training differentiates; N is of the normals
        of the domain's sides that x is at, 0 in all of R^n. violation: the largest g_i > 0 of the metric, else 0.
        complementarity: the largest y_i |g_i|.
    multipliers: (m,) y >= 0, of each bound: how much f falls for each unit that it is loosened.
    duality_gap: the most by which f(x) can exceed the objective of a point of the domain no longer than x that meets the
        bounds. Of an x that is too short the optimum may be longer, and lower by more. None at x = 0, which no other point
        is as short as, and where the problem does not promise to be convex, so that no such proof is known.
    """

    stationarity: float
    violation: float
    complementarity: float
    multipliers: Tensor
    duality_gap: float | None = None


def kkt(problem: Problem, x: Tensor) -> KKT:
    """How nearly x (n,) meets the conditions of an optimum over all rows (docs/training.md).

    The multipliers are those that make the gradient of the Lagrangian smallest. Constraints within a tenth of their
    bound count as active, at most 64 of them. One without a bound of its own, g <= 0, counts where moving every entry of
    x by a tenth of their root mean square would use it up. Surrogates are those of `problem`: take
    `problem.sharpened(k)` for those of a method that ended with steeper ones.

    Raises: OptionError unless x is a tensor of one run's n numbers, of the dtype of the problem's.
    """
    if not isinstance(x, Tensor) or x.shape != (problem.n,):
        shape = getattr(x, "shape", None)
        raise OptionError(
            f"x must be a tensor of shape ({problem.n},), one point of the problem, got {type(x).__name__}"
            f"{'' if shape is None else f' of shape {tuple(shape)}'}."
        )
    if x.dtype != (wanted := problem.start((0,)).dtype):
        raise OptionError(
            f"x must be a tensor of {wanted}, as the problem's start is, got {x.dtype}; pass x.to({wanted})."
        )
    everything = problem.sample((0,), "full", 0, 1, "full")
    g = problem.values(x, everything, true=True).g
    active, slopes = _maybe_active(problem, x, everything, g)
    normals, distances = (v.double().cpu() for v in problem.domain.sides(x))
    found, residual = _fitted(np.concatenate([slopes, normals.numpy()]))
    y = x.new_zeros(problem.m)
    y[active] = torch.as_tensor(found[: len(active)]).to(x)
    violation, complementarity = (float(v.max()) if problem.m else 0.0 for v in (g.clamp_min(0), y * g.abs()))
    held = torch.as_tensor(found[len(active) :])
    known = problem.convex and bool(x.any())
    gap = _duality_gap(problem, x, everything, y, held @ normals, float(held @ distances)) if known else None
    return KKT(residual, violation, complementarity, y, gap)


def _maybe_active(problem: Problem, x: Tensor, batch: Any, g: Tensor) -> tuple[list[int], np.ndarray]:
    """The constraints whose multiplier may be above 0 at x (n,), and the gradients (1 + k, n) of f and of them."""
    near, stated = set(nearly_active(problem, g)), problem.bounds + torch.zeros_like(g)
    asked = [i for i in g.argsort(descending=True)[:MOST_ACTIVE].tolist() if i in near or stated[i] == 0]
    slopes = problem.jacobian(x, batch, which=[0, *(1 + i for i in asked)])[1].double().cpu().numpy()
    reach = NEAR * float(x.double().norm()) / len(x) ** 0.5 * np.abs(slopes[1:]).sum(1)
    kept = [k for k, i in enumerate(asked) if i in near or -float(g[i]) <= reach[k]]
    return [asked[k] for k in kept], slopes[[0, *(1 + k for k in kept)]]


def _duality_gap(problem: Problem, x: Tensor, batch: Any, y: Tensor, normal: Tensor, room: float) -> float:
    """R |grad L(x)|_(1/H) - y . g(x), as in the module's docstring; H is the identity without a curvature.
    normal, room: of the domain's sides, the sums of their normals (n,) and of the distances to them, each times its
    multiplier."""
    slope = problem.gradient(x, batch, (1.0, y if problem.m else None))[1]
    curvature = problem.curvature()
    point, slope = x.double().cpu(), slope.double().cpu() + normal
    if curvature is None:
        length, steepness = point.norm(), slope.norm()
    else:
        H = curvature.double().cpu() + 1e-9 * curvature.diagonal().mean() * torch.eye(len(point), dtype=torch.float64)
        length, steepness = (point @ H @ point).sqrt(), (slope @ torch.linalg.solve(H, slope)).sqrt()
    excess = float(y @ problem.values(x, batch).g) - room if problem.m else -room
    return float(2 * length * steepness) - excess
