"""Where a run begins, and how a point of it is judged: by its objective and by what it misses, the domain included."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from fairbound.base.errors import NonFiniteError, OptionError
from fairbound.problems.problem import Measured, Problem
from fairbound.problems.stated import measured


def outside(problem: Problem, x: Tensor) -> Tensor:
    """(...,) the largest entry of what leads from x (..., n) to the nearest point of the domain; 0 up to rounding."""
    nearest = problem.domain.project(x)
    if nearest is x or not x.shape[-1]:
        return x.new_zeros(x.shape[:-1])
    away, size = (x - nearest).abs().amax(-1), x.abs().amax(-1).clamp_min(1)
    return torch.where(away > torch.finfo(x.dtype).eps ** 0.5 * size, away, 0.0)


def first_point(x0: Any, problem: Problem, seeds: Sequence[int]) -> Tensor:
    """A copy of x0, or of the problem's own start where it is None, for one run (n,) or a stack (R, n): of the dtype and
    on the device of that start. Raises: OptionError where it is no tensor of such a shape of real numbers, or lies outside
    the domain; NonFiniteError."""
    own, runs = problem.start(seeds), len(seeds)
    what, x0 = ("the problem's start", own) if x0 is None else ("x0", x0)
    shape = (problem.n,) if runs == 1 else (runs, problem.n)
    if not isinstance(x0, Tensor) or not x0.is_floating_point():
        kind = f"a tensor of {x0.dtype}" if isinstance(x0, Tensor) else f"a {type(x0).__name__}"
        raise OptionError(f"{what} must be a torch tensor of real numbers of shape {shape}, got {kind}.")
    if x0.shape[-1:] != shape[-1:] or x0.dim() > len(shape) or (x0.dim() == 2 and x0.shape != shape):
        raise OptionError(f"{what} must have shape {shape}, got {tuple(x0.shape)}.")
    if isinstance(own, Tensor) and own.is_floating_point():
        x0 = x0.to(own)
    if not bool(torch.isfinite(x0).all()):
        raise NonFiniteError(f"{what} holds NaN or an infinity.")
    if bool((away := outside(problem, x0)).any()):
        raise OptionError(
            f"{what} lies outside the problem's domain, by {float(away.max()):.3g} in an entry. "
            "The nearest point of it is problem.domain.project(x)."
        )
    return x0.detach().expand(shape).clone()


def judged(problem: Problem, validation: Problem | None, x: Tensor) -> tuple[Tensor, Tensor, Measured, Measured | None]:
    """Objective and violation (...,) by which x (..., n) is chosen, of the training and of the validation rows. A point
    outside the domain misses it by `outside`. Raises: NonFiniteError where a value is NaN."""
    train, away = _known(problem, x), outside(problem, x)
    violation = torch.maximum(train.violation, away.to(train.violation.dtype))
    if validation is None:
        return train.f, violation, train, None
    held = _known(validation, x)
    return held.f, torch.maximum(violation, held.violation), train, held


def objective_and_violation(problem: Problem, validation: Problem | None, x: Tensor) -> tuple[Tensor, Tensor]:
    """The first two of `judged`."""
    return judged(problem, validation, x)[:2]


def _known(problem: Problem, x: Tensor) -> Measured:
    found = measured(problem, x)
    if bool(found.f.isnan().any()):
        raise NonFiniteError("evaluate of the problem gave NaN as the objective of a point of the run.")
    if len(lost := found.g.isnan().nonzero()):
        name = problem.names[int(lost[0, -1])]
        raise NonFiniteError(f"evaluate of the problem gave NaN for the constraint {name!r} at a point of the run.")
    return found
