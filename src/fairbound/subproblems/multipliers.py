"""The multipliers that make a point most nearly stationary, and how near they make it.

Source: Nocedal and Wright (2006), section 18.3 (least-squares multipliers), with y >= 0 by Lawson and Hanson's method.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.optimize import nnls
from torch import Tensor

from fairbound.problems.problem import Problem

MOST_ACTIVE = 64
"""Constraints of which gradients are asked for, the largest first."""

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


def nearly_active(problem: Problem, g: Tensor, share: float = 0.1) -> list[int]:
    """The constraints with g_i (m,) above minus a share of their bound, at most MOST_ACTIVE, the largest first."""
    least = -share * (problem.bounds + torch.zeros_like(g)) - ROUNDING
    return [i for i in g.argsort(descending=True)[:MOST_ACTIVE].tolist() if g[i] > least[i]]


class KKT(NamedTuple):
    """How nearly a point x meets the conditions of optimality of a problem.

    stationarity: |grad f + sum_i y_i grad g_i|, of the functions that training differentiates. violation: the largest g_i > 0 of the metric, else 0. complementarity: the largest y_i |g_i|.
    multipliers: (m,) y >= 0, the price of each bound: how much f falls for each unit that it is loosened.
    """

    stationarity: float
    violation: float
    complementarity: float
    multipliers: Tensor


def kkt(problem: Problem, x: Tensor) -> KKT:
    """The residuals at x (n,) over all rows, with the multipliers that make the first one smallest.

    Constraints within a tenth of their bound count as active, at most 64 of them. Surrogates are those of `problem`: take
    `problem.sharpened(k)` for those of a method that ended with steeper ones.
    """
    everything = problem.sample((0,), "full", 0, 1, "full")
    g = problem.values(x, everything, true=True).g
    y, residual = least_squares_multipliers(problem, x, everything, nearly_active(problem, g))
    violation, price = (float(v.max()) if problem.m else 0.0 for v in (g.clamp_min(0), y * g.abs()))
    return KKT(residual, violation, price, y)
