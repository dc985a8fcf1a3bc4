"""A difference of convex functions whose values and minima are known."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fairbound.problems.differences import Difference
from fairbound.testing.known import KnownProblem, Optimum

REMOVED = (1.0, 0.0)
RADIUS = 0.6


def double_well(**options: Any) -> Difference:
    """f = (x_1^4 / 4 + x_2^2 / 2) - x_1^2 / 2 outside a ball around its minimum (1, 0): g = 0.36 - |x - (1, 0)|^2.

    f is least at (1, 0) and (-1, 0), where it is -1/4; only the second is feasible. Without the constraint the tangent of the
    minus part at c makes x = (cbrt(c_1), 0) the least point of the model. options: dtype, device.
    """
    middle = torch.tensor(REMOVED, dtype=options.get("dtype", torch.float64), device=options.get("device", "cpu"))

    def half(x: Tensor) -> Tensor:
        return torch.stack([x[..., 0], torch.zeros_like(x[..., 0])], -1)

    best = torch.tensor([-1.0, 0.0], dtype=torch.float64)
    optimum = Optimum(
        best,
        -0.25,
        torch.zeros(1, dtype=torch.float64),
        best,
        -0.25,
        2.0,
        "x_1^3 = x_1 and x_2 = 0 at a stationary point",
    )
    plus = KnownProblem(
        "double_well",
        lambda x: [x[..., 0] ** 4 / 4 + x[..., 1].square() / 2, torch.full_like(x[..., 0], RADIUS**2)],
        lambda x: [torch.stack([x[..., 0] ** 3, x[..., 1]], -1), torch.zeros_like(x)],
        [-0.5, 0.5],
        optimum,
        1,
        **options,
    )
    minus = KnownProblem(
        "double_well",
        lambda x: [x[..., 0].square() / 2, (x - middle).square().sum(-1)],
        lambda x: [half(x), 2 * (x - middle)],
        [-0.5, 0.5],
        optimum,
        1,
        **options,
    )
    return Difference(plus, minus)
