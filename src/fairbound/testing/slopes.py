"""Checks of a problem: its slopes against differences of its values, and the four verbs against each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from fairbound.base.seeds import seed_for
from fairbound.testing.running import Make, close, make_problem


def check_gradient(
    problem: Make,
    *,
    seeds: Sequence[int] = (0,),
    points: int = 3,
    batch_size: int = 8,
    kinds: Sequence[str] = ("balanced", "uniform", "full"),
    tolerance: float = 1e-6,
) -> None:
    """jacobian against central differences of values, gradient and jvp against the jacobian, at random points.

    With h = 6e-6, the cube root of the precision, the difference errs by about 1e-10 times the third derivative
    and the size of the function; `tolerance` leaves room for both. A kink comes within h of a random point with
    probability of the order of h.
    """
    made = make_problem(problem)
    generator = torch.Generator().manual_seed(seed_for("check gradient", *seeds))
    x0 = made.start(tuple(seeds))
    if x0.dtype != torch.float64:
        raise ValueError(f"check_gradient needs a problem in float64, this one starts in {x0.dtype}.")
    h = torch.finfo(torch.float64).eps ** (1 / 3)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(x0.device)

    for kind in kinds:
        for k in range(points):
            x = x0 + 0.3 * normal(*x0.shape)
            batch = made.sample(tuple(seeds), "check", k, batch_size, kind)
            evaluation, jacobian = made.jacobian(x, batch)
            where = f"{kind} batch {k}"
            again = made.values(x, made.sample(tuple(seeds), "check", k, batch_size, kind))
            close(again.f, evaluation.f, 1e-12, f"values and jacobian give different f on the same {where}")
            close(again.g, evaluation.g, 1e-12, f"values and jacobian give different g on the same {where}")
            seen = torch.ones_like(evaluation.g) if evaluation.seen is None else evaluation.seen.expand_as(evaluation.g)
            if bool((evaluation.g[seen == 0] != 0).any()):
                raise AssertionError(f"g is not 0 where a constraint's group is absent from {where}.")
            for j in range(made.n):
                step = torch.zeros_like(x)
                step[..., j] = h
                up, down = made.values(x + step, batch), made.values(x - step, batch)
                slope = torch.cat([(up.f - down.f).unsqueeze(-1), up.g - down.g], -1) / (2 * h)
                close(jacobian[..., j], slope, tolerance, f"jacobian[..., {j}] against central differences on {where}")
            dx = normal(*x.shape)
            close(
                made.jvp(x, batch, dx),
                (jacobian * dx.unsqueeze(-2)).sum(-1),
                1e-10,
                f"jvp against jacobian @ dx on {where}",
            )
            w = normal(*evaluation.g.shape)
            w0 = normal(*x.shape[:-1], 1) if x.dim() > 1 else normal(1)[0]
            masked = (w * seen).unsqueeze(-1)
            constrained = (masked * jacobian[..., 1:, :]).sum(-2)
            cases: list[tuple[Any, Tensor, str]] = [
                ((1.0, w), jacobian[..., 0, :] + constrained, "weights (1, w)"),
                ((0.0, w), constrained, "weights (0, w)"),
                ((w0, w), w0 * jacobian[..., 0, :] + constrained, "weights (w0, w)"),
                ((1.0, None), jacobian[..., 0, :], "weights (1, None)"),
                (
                    lambda e, w=w: (1.0, w * e.g),
                    jacobian[..., 0, :] + (masked * evaluation.g.unsqueeze(-1) * jacobian[..., 1:, :]).sum(-2),
                    "weights that depend on g",
                ),
            ]
            for weights, expected, name in cases:
                seen_evaluation, gradient = made.gradient(x, batch, weights)
                close(gradient, expected, 1e-10, f"gradient with {name} against the jacobian on {where}")
                if callable(weights):
                    close(seen_evaluation.g, evaluation.g, 1e-12, f"the evaluation handed to the weights on {where}")


def check_subgradient(problem: Make, *, seeds: Sequence[int] = (0,), points: int = 20) -> None:
    """s . (y - x) <= F_i(y) - F_i(x) for f and every g_i of a convex problem, on all rows, at random x and y."""
    made = make_problem(problem)
    generator = torch.Generator().manual_seed(seed_for("check subgradient", *seeds))
    x0 = made.start(tuple(seeds)[:1])
    full = made.sample(tuple(seeds)[:1], "check", 0, 1, "full")
    for _ in range(points):
        x, y = (x0 + 2 * torch.randn(x0.shape, generator=generator, dtype=torch.float64).to(x0) for _ in range(2))
        at_x, jacobian = made.jacobian(x, full)
        at_y = made.values(y, full)
        rise = torch.cat([(at_y.f - at_x.f).unsqueeze(-1), at_y.g - at_x.g], -1)
        excess = float((jacobian @ (y - x) - rise).max())
        if excess > 1e-10:
            raise AssertionError(f"a slope exceeds the rise of its convex function by {excess:.3g}.")
