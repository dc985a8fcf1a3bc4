"""Problems whose optimum is known, for testing methods: closed form, or certified by an independent solver.

`PROBLEMS` names one maker per kind of problem: `PROBLEMS["two_sided"](dtype=torch.float64, device="cpu", noise=0.0)`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from fairbound.problems.domain import Ball, Box, Domain, Simplex
from fairbound.testing.known import Functions, KnownProblem, Optimum

Options = Any


def _nearest(
    name: str,
    a: Sequence[float],
    g: Functions,
    dg: Functions,
    m: int,
    x: Sequence[float],
    multipliers: Sequence[float] | None,
    free: Sequence[float] | None,
    certificate: str,
    *,
    slope: float,
    start: Sequence[float] | None = None,
    domain: Domain | None = None,
    convex: bool = True,
    violation: float = 0.0,
    **options: Options,
) -> KnownProblem:
    """f = |x - a|^2 / 2, the distance to a, under the constraints g."""
    dtype, device = options.get("dtype", torch.float64), options.get("device", "cpu")
    target = torch.tensor(a, dtype=dtype, device=device)

    def half_square(p: Sequence[float]) -> float:
        return 0.5 * sum((u - v) ** 2 for u, v in zip(p, a, strict=True))

    free = list(a if free is None else free)
    optimum = Optimum(
        torch.tensor(x, dtype=torch.float64),
        half_square(x),
        None if multipliers is None else torch.tensor(multipliers, dtype=torch.float64),
        torch.tensor(free, dtype=torch.float64),
        half_square(free),
        slope,
        certificate,
        violation,
    )
    return KnownProblem(
        name,
        lambda x: [0.5 * (x - target).square().sum(-1), *g(x)],
        lambda x: [x - target, *dg(x)],
        [0.0] * len(a) if start is None else start,
        optimum,
        m,
        domain=domain,
        convex=convex,
        **options,
    )


def _unit(x: Tensor, i: int, value: float | Tensor = 1.0) -> Tensor:
    out = torch.zeros_like(x)
    out[..., i] = value
    return out


def active(**options: Options) -> KnownProblem:
    """Convex quadratic, one active linear constraint."""
    return _nearest(
        "active",
        (1.0, 0.5, -0.5),
        lambda x: [0.6 * x[..., 0] + 0.4 * x[..., 1] - 0.28],
        lambda x: [_unit(x, 0, 0.6) + _unit(x, 1, 0.4)],
        1,
        (1 - 0.6, 0.5 - 0.4, -0.5),
        (1.0,),
        None,
        "projection of a on the half-space b.x <= c: x = a - b (b.a - c) / |b|^2, multiplier (0.8 - 0.28) / 0.52 = 1",
        slope=1.5,
        **options,
    )


def inactive(**options: Options) -> KnownProblem:
    """Convex quadratic whose two linear constraints hold strictly at its minimum: multipliers are zero."""
    return _nearest(
        "inactive",
        (0.5, -0.5),
        lambda x: [x[..., 0] - 1, -x[..., 1] - 1],
        lambda x: [_unit(x, 0), _unit(x, 1, -1.0)],
        2,
        (0.5, -0.5),
        (0.0, 0.0),
        None,
        "the unconstrained minimiser a has g(a) = (-1/2, -1/2) < 0",
        slope=1.5,
        **options,
    )


def two_sided(**options: Options) -> KnownProblem:
    """|b.x - c| <= t as two rows, the upper one active."""

    def b(x: Tensor) -> Tensor:
        return 0.5 * (x[..., 0] + x[..., 1])

    return _nearest(
        "two_sided",
        (1.0, 0.6),
        lambda x: [b(x) - 0.1 - 0.2, 0.1 - b(x) - 0.2],
        lambda x: [torch.full_like(x, 0.5), torch.full_like(x, -0.5)],
        2,
        (0.5, 0.1),
        (1.0, 0.0),
        None,
        "projection of a on b.x <= 0.3 with b = (1/2, 1/2): x = a - b (0.8 - 0.3) / 0.5",
        slope=1.5,
        **options,
    )


def box(**options: Options) -> KnownProblem:
    """Domain [0, 1]^3 and sum x <= 1.2."""
    return _nearest(
        "box",
        (2.0, 0.5, -0.3),
        lambda x: [0.5 * (x.sum(-1) - 1.2)],
        lambda x: [torch.full_like(x, 0.5)],
        1,
        (1.0, 0.2, 0.0),
        (0.6,),
        (1.0, 0.5, 0.0),
        "x = clip(a - 0.5 y, 0, 1) with y = 0.6 gives (1, 0.2, 0), whose sum is 1.2: the KKT conditions hold",
        slope=2.5,
        start=(0.5, 0.5, 0.5),
        domain=Box(0.0, 1.0),
        **options,
    )


def ball(**options: Options) -> KnownProblem:
    """Domain |x| <= 1 and x_1 <= 0.6."""
    return _nearest(
        "ball",
        (2.0, 2.0),
        lambda x: [x[..., 0] - 0.6],
        lambda x: [_unit(x, 0)],
        1,
        (0.6, 0.8),
        (0.5,),
        (math.sqrt(0.5), math.sqrt(0.5)),
        "x - a + 0.5 (1, 0) + 1.5 x = 0 with |x| = 1 and x_1 = 0.6",
        slope=3.0,
        domain=Ball(1.0),
        **options,
    )


def simplex(**options: Options) -> KnownProblem:
    """Domain {x >= 0, sum x = 1} and x_1 <= 0.3."""
    return _nearest(
        "simplex",
        (1.0, 0.5, 0.1),
        lambda x: [x[..., 0] - 0.3],
        lambda x: [_unit(x, 0)],
        1,
        (0.3, 0.55, 0.15),
        (0.75,),
        (0.75, 0.25, 0.0),
        "x - a + 0.75 (1, 0, 0) - 0.05 (1, 1, 1) = 0 with x > 0, sum x = 1 and x_1 = 0.3; without the "
        "constraint x = [a - 0.25]_+",
        slope=2.0,
        start=(1 / 3, 1 / 3, 1 / 3),
        domain=Simplex(1.0),
        **options,
    )


def largest(**options: Options) -> KnownProblem:
    """A nonsmooth convex constraint, max(x_1, x_2) <= 0.5, at whose kink the optimum lies."""

    def slope(x: Tensor) -> Tensor:
        return torch.zeros_like(x).scatter_(-1, x[..., :2].argmax(-1, keepdim=True), 1.0)

    return _nearest(
        "largest",
        (1.0, 0.8, 0.0),
        lambda x: [x[..., :2].amax(-1) - 0.5],
        lambda x: [slope(x)],
        1,
        (0.5, 0.5, 0.0),
        (0.8,),
        None,
        "x = a - 0.8 s with s = (5/8, 3/8, 0), a subgradient of the maximum at (1/2, 1/2, 0)",
        slope=1.5,
        **options,
    )


def absolute(**options: Options) -> KnownProblem:
    """A nonsmooth convex objective, |x_1 - 1| + 2 |x_2 + 1/2|, with x_1 + x_2 <= 0.2."""
    x = torch.tensor([0.7, -0.5], dtype=torch.float64)
    optimum = Optimum(
        x,
        0.3,
        torch.tensor([2.0], dtype=torch.float64),
        torch.tensor([1.0, -0.5], dtype=torch.float64),
        0.0,
        math.sqrt(5),
        "-1 + 2 / 2 = 0 in x_1, and -2 / 2 lies in 2 [-1, 1] at the kink x_2 = -1/2",
    )
    return KnownProblem(
        "absolute",
        lambda x: [(x[..., 0] - 1).abs() + 2 * (x[..., 1] + 0.5).abs(), 0.5 * (x.sum(-1) - 0.2)],
        lambda x: [torch.stack([(x[..., 0] - 1).sign(), 2 * (x[..., 1] + 0.5).sign()], -1), torch.full_like(x, 0.5)],
        [0.0, 0.0],
        optimum,
        1,
        **options,
    )


def weakly_convex(**options: Options) -> KnownProblem:
    """A weakly convex objective, |x_1^2 - 1| + x_2^2 / 2, with x_1 >= 1.2; the start is on the optimum's side."""
    x = torch.tensor([1.2, 0.0], dtype=torch.float64)
    optimum = Optimum(
        x,
        0.44,
        torch.tensor([2.4], dtype=torch.float64),
        torch.tensor([1.0, 0.0], dtype=torch.float64),
        0.0,
        3.5,
        "x_1^2 - 1 increases on x_1 >= 1.2; its slope there is 2.4",
    )
    return KnownProblem(
        "weakly_convex",
        lambda x: [(x[..., 0].square() - 1).abs() + 0.5 * x[..., 1].square(), 1.2 - x[..., 0]],
        lambda x: [torch.stack([(x[..., 0].square() - 1).sign() * 2 * x[..., 0], x[..., 1]], -1), _unit(x, 0, -1.0)],
        [1.5, 0.5],
        optimum,
        1,
        convex=False,
        **options,
    )


def weakly_convex_constraint(**options: Options) -> KnownProblem:
    """A weakly convex constraint, |x_1^2 - 1| <= 0.21, active at x_1 = 1.1."""
    return _nearest(
        "weakly_convex_constraint",
        (1.4, 0.5),
        lambda x: [(x[..., 0].square() - 1).abs() - 0.21],
        lambda x: [_unit(x, 0, (x[..., 0].square() - 1).sign() * 2 * x[..., 0])],
        1,
        (1.1, 0.5),
        (0.3 / 2.2,),
        None,
        "the feasible points on the side of the start are x_1 in [sqrt(0.79), 1.1]; the nearest to a is x_1 = 1.1, "
        "where 0.3 = y 2.2",
        slope=3.0,
        start=(1.0, 0.0),
        convex=False,
        **options,
    )


def infeasible(**options: Options) -> KnownProblem:
    """x_1 <= -1 and x_1 >= 1 cannot both hold: the least possible largest violation is 1, at x_1 = 0."""
    return _nearest(
        "infeasible",
        (0.2, 0.5),
        lambda x: [x[..., 0] + 1, 1 - x[..., 0]],
        lambda x: [_unit(x, 0), _unit(x, 0, -1.0)],
        2,
        (0.0, 0.5),
        None,
        None,
        "max(x_1 + 1, 1 - x_1) = 1 + |x_1|",
        slope=1.5,
        violation=1.0,
        **options,
    )


PROBLEMS: dict[str, Callable[..., KnownProblem]] = {
    make.__name__: make
    for make in (
        active,
        inactive,
        two_sided,
        box,
        ball,
        simplex,
        largest,
        absolute,
        weakly_convex,
        weakly_convex_constraint,
        infeasible,
    )
}
