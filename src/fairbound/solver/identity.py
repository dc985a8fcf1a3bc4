"""What must agree between a checkpoint and the run that takes it up: the method, its options, the batches, and what is
to be solved: bounds, start and data.

Data are told apart by the true objective and constraints at one point beside the start, on all rows: at the start itself
a model of weights 0 says nothing of its features.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fairbound.base.errors import NonFiniteError
from fairbound.methods.method import described
from fairbound.problems.problem import Problem
from fairbound.problems.stated import measured
from fairbound.solver import checkpoint as store
from fairbound.solver.settings import Settings

ASIDE = 0.1
"""How far the point lies from the start, over the size of its entries, or 1 where they are all 0."""


def identity_of(problem: Problem, settings: Settings, x: Tensor) -> dict[str, Any]:
    """By name, as plain values and tensors of float64. x: (..., n) where the run begins."""
    held = settings.validation
    aside = problem.domain.project(_aside(x))
    return {
        "method": settings.method.name,
        "options": described(settings.method),
        "dtype": str(x.dtype),
        "seeds": list(settings.seeds),
        "batch_size": settings.batch_size,
        "sampling": settings.sampling,
        "parameters": problem.n,
        "constraints": store.of_names(problem.names),
        "rows": problem.rows,
        "average": settings.average,
        "bounds": _plain(torch.as_tensor(problem.bounds)),
        "start": torch.stack([_plain(x.norm(dim=-1)), _plain((x * _wave(x)).sum(-1))], -1),
        "training": _values(problem, aside),
        "validation": None if held is None else _values(held, aside),
    }


def _aside(x: Tensor) -> Tensor:
    """(..., n) a point beside each x (..., n)."""
    size = x.norm(dim=-1, keepdim=True) / max(x.shape[-1], 1) ** 0.5
    return x + ASIDE * torch.where(size > 0, size, 1.0) * _wave(x)


def _wave(x: Tensor) -> Tensor:
    """(n,) numbers between -1 and 1 of no pattern that data have."""
    return torch.arange(1, x.shape[-1] + 1, dtype=torch.float64).cos().to(x)


def _values(problem: Problem, x: Tensor) -> Tensor:
    """(..., 1 + m) the true objective and constraints at x (..., n); none where the problem refuses the point."""
    try:
        found = measured(problem, x)
    except NonFiniteError:
        return torch.zeros(0, dtype=torch.float64)
    return _plain(torch.cat([found.f.unsqueeze(-1), found.g], -1))


def _plain(values: Tensor) -> Tensor:
    return values.detach().double().cpu().nan_to_num(0.0, store.HUGE, -store.HUGE)
