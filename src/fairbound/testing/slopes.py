"""Checks of a problem: its slopes against differences of its values, and the four verbs against each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from fairbound.base.errors import OptionError
from fairbound.base.seeds import seed_for
from fairbound.problems.problem import Evaluation, Problem
from fairbound.problems.wrappers import Counted
from fairbound.testing.running import Make, close, make_problem

DIRECTIONS = 3
H = torch.finfo(torch.float64).eps ** (1 / 3)


def check_gradient(
    problem: Make,
    *,
    seeds: Sequence[int] | None = None,
    points: int = 2,
    batch_size: int = 8,
    kinds: Sequence[str] = ("balanced", "uniform", "full"),
    tolerance: float = 1e-6,
) -> None:
    """jacobian against central differences of values along random directions, gradient and jvp against the jacobian, at
    random points. A wrong entry of the jacobian shows along almost every direction; the error says which entry it is.

    seeds: of one run, or of a stack, whose runs must also have the values that each has alone; None for one run and
    then a stack of two.
    With the step H = 6e-6, the cube root of the precision, the difference errs by about 1e-10 times the third
    derivative and the size of the function; `tolerance` leaves room for both. Where a kink may lie within H of the
    point, a step of H / 100 decides.
    """
    if seeds is None:
        for each in ((0,), (0, 1)):
            check_gradient(problem, seeds=each, points=points, batch_size=batch_size, kinds=kinds, tolerance=tolerance)
        return
    made = Counted(make_problem(problem))  # which checks what the verbs give for its kind and shape
    generator = torch.Generator().manual_seed(seed_for("check gradient", *seeds))
    x0 = made.start(tuple(seeds))
    if x0.dtype != torch.float64:
        raise ValueError(f"check_gradient needs a problem in float64, this one starts in {x0.dtype}.")

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(x0.device)

    with _faults():
        for kind in kinds:
            for k in range(points):
                x = x0 + 0.3 * normal(*x0.shape)
                batch = made.sample(tuple(seeds), "check", k, batch_size, kind)
                evaluation, jacobian = made.jacobian(x, batch)
                where = f"{kind} batch {k}"
                again = made.values(x, made.sample(tuple(seeds), "check", k, batch_size, kind))
                close(again.f, evaluation.f, 1e-12, f"values and jacobian give different f on the same {where}")
                close(again.g, evaluation.g, 1e-12, f"values and jacobian give different g on the same {where}")
                for r, seed in enumerate(seeds if len(seeds) > 1 else ()):
                    alone = made.of_run(r)
                    _check_alone(
                        again, r, alone.values(x[r], alone.sample((seed,), "check", k, batch_size, kind)), where
                    )
                seen = (
                    torch.ones_like(evaluation.g)
                    if evaluation.seen is None
                    else evaluation.seen.expand_as(evaluation.g)
                )
                if bool((evaluation.g[seen == 0] != 0).any()):
                    raise AssertionError(f"g is not 0 where a constraint's group is absent from {where}.")
                _check_differences(
                    made, x, batch, jacobian, [normal(*x.shape) for _ in range(DIRECTIONS)], tolerance, where
                )
                _check_verbs(made, x, batch, evaluation, jacobian, normal, where)


@contextmanager
def _faults() -> Iterator[None]:
    """What a verb gives of another kind or shape than it must, as the fault that a check finds."""
    try:
        yield
    except OptionError as error:
        raise AssertionError(str(error)) from error


def _check_verbs(
    problem: Any, x: Tensor, batch: Any, evaluation: Evaluation, jacobian: Tensor, normal: Any, where: str
) -> None:
    """jvp, and gradient under every kind of weights, against the evaluation and jacobian (..., 1 + m, n) at x (..., n).
    normal: shape -> random numbers."""
    dx = normal(*x.shape)
    along = (jacobian * dx.unsqueeze(-2)).sum(-1)
    close(problem.jvp(x, batch, dx), along, 1e-10, f"jvp against jacobian @ dx on {where}")
    w = normal(*evaluation.g.shape)
    w0 = normal(*x.shape[:-1], 1) if x.dim() > 1 else normal(1)[0]
    masked = (w if evaluation.seen is None else w * evaluation.seen).unsqueeze(-1)
    of_f, of_g = jacobian[..., 0, :], jacobian[..., 1:, :]
    constrained = (masked * of_g).sum(-2)
    scaled = (masked * evaluation.g.unsqueeze(-1) * of_g).sum(-2)
    cases: list[tuple[Any, Tensor, str]] = [
        ((1.0, w), of_f + constrained, "weights (1, w)"),
        ((0.0, w), constrained, "weights (0, w)"),
        ((w0, w), w0 * of_f + constrained, f"weights (w0, w), w0 of shape {tuple(w0.shape)}"),
        ((1.0, None), of_f, "weights (1, None)"),
        (lambda e: (1.0, w * e.g), of_f + scaled, "weights that depend on g"),
    ]
    for weights, expected, name in cases:
        handed, gradient = problem.gradient(x, batch, weights)
        close(gradient, expected, 1e-10, f"gradient with {name} against the jacobian on {where}")
        if callable(weights):
            close(handed.g, evaluation.g, 1e-12, f"the evaluation handed to the weights on {where}")


def _check_differences(
    problem: Problem, x: Tensor, batch: Any, jacobian: Tensor, ways: list[Tensor], tolerance: float, where: str
) -> None:
    """jacobian @ d (..., 1 + m) for the directions d of `ways`, each like x, against central differences along them."""

    def check(d: Tensor, step: float, name: str) -> None:
        up, down = problem.values(x + step * d, batch), problem.values(x - step * d, batch)
        slope = torch.cat([(up.f - down.f).unsqueeze(-1), up.g - down.g], -1) / (2 * step)
        along = (jacobian * d.unsqueeze(-2)).sum(-1)
        close(along, slope, tolerance, f"{name} against central differences on {where}")

    try:
        for way in ways:
            check(way / way.norm(dim=-1, keepdim=True), H, "jacobian @ direction")
    except AssertionError:
        for j, axis in enumerate(torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)):
            check(axis.expand_as(x), H / 100, f"jacobian[..., {j}]")


def _check_alone(stack: Evaluation, r: int, alone: Evaluation, where: str) -> None:
    close(stack.f[r], alone.f, 1e-10, f"f of run {r} of a stack against the run alone on {where}")
    close(stack.g[r], alone.g, 1e-10, f"g of run {r} of a stack against the run alone on {where}")


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
