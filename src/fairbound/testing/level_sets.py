"""Small convex problems with noise on which the feasibility of every outer iterate of a level-set method is counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from fairbound.problems.domain import Box
from fairbound.testing.known import KnownProblem, Optimum
from fairbound.testing.problems import PROBLEMS

LP_OBJECTIVE = (-1.0, -0.5, 0.25)
LP_CONSTRAINTS = ((0.5, 0.5, 0.0), (0.5, 0.0, -0.5), (-0.5, -0.25, 0.0))
LP_BOUNDS = (0.4, 0.45, 0.6)


def linear_program(**options: Any) -> KnownProblem:
    """min c.x subject to A x <= b over [-1, 1]^3, with c, A and b named LP_... above;
    the start is strictly feasible."""
    dtype, device = options.get("dtype", torch.float64), options.get("device", "cpu")
    rows = torch.tensor((LP_OBJECTIVE, *LP_CONSTRAINTS), dtype=dtype, device=device)
    optimum = Optimum(
        torch.tensor([1.0, -0.2, 0.1], dtype=torch.float64),
        -0.875,
        torch.tensor([1.0, 0.5, 0.0], dtype=torch.float64),
        torch.tensor([1.0, 1.0, -1.0], dtype=torch.float64),
        -1.75,
        1.2,
        "c + A'y = (-1/4, 0, 0) with y = (1, 1/2, 0), x_1 = 1 at its bound, x_2 and x_3 inside, rows 1 and 2 active",
    )
    return KnownProblem(
        "linear_program",
        lambda x: [(x * rows[0]).sum(-1), *((x * a).sum(-1) - b for a, b in zip(rows[1:], LP_BOUNDS, strict=True))],
        lambda x: [row.expand_as(x) for row in rows],
        [0.0, 0.0, 0.0],
        optimum,
        len(LP_BOUNDS),
        domain=Box(-1.0, 1.0),
        **options,
    )


LEVEL_SETS: dict[str, Callable[..., KnownProblem]] = {
    "linear_program": linear_program,
    "ball": PROBLEMS["ball"],
    "simplex": PROBLEMS["simplex"],
}
