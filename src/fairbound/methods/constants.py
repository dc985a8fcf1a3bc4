"""Lipschitz constants that step sizes are made of, estimated at a point by power iterations on gradients alone."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from fairbound.problems.problem import Evaluation, Problem, Weights

ITERATIONS = 12
"""Steps of the power method: its error is then a tenth of the largest eigenvalue, and less where that is isolated."""

STILL = 0.005
"""The power method ends where its estimate grew by less than this share of it."""

SIGNS = 8
"""Random sign vectors: the mean of so many squares is mostly within half of the sum, however alike the gradients."""

MOVE = 1e-2
"""How far apart the two gradients of a difference quotient are taken."""


def gradient_lipschitz(problem: Problem, x: Tensor, batch: Any) -> Tensor:
    """(..., 1) an estimate of L_F, the largest eigenvalue in size of the Hessian of f, at x (..., n) on the batch.

    Where f has a kink within MOVE of x, the estimate is the change of a subgradient over that distance, which is large.
    """
    _, here = problem.gradient(x, batch, (1.0, None))
    v, size = _first(x), x.new_zeros(*x.shape[:-1], 1)
    for _ in range(ITERATIONS):
        _, there = problem.gradient(x + MOVE * v, batch, (1.0, None))
        change, before = (there - here) / MOVE, size
        size = change.norm(dim=-1, keepdim=True)
        if bool(((size - before).abs() <= STILL * size).all()):
            break
        v = torch.where(size > 0, change / size.clamp_min(torch.finfo(x.dtype).tiny), v)
    return size


def constraint_slope(problem: Problem, x: Tensor, batch: Any, scale: Tensor | float = 1.0) -> Tensor:
    """(..., 1) an estimate of M_G, the largest singular value of the Jacobian (m, n) of g, at x (..., n) on the batch.

    scale: (m,) or a number by the roots of which the rows are multiplied.
    """
    v, size = _first(x), x.new_zeros(*x.shape[:-1], 1)
    if problem.m == 0:
        return size
    for _ in range(ITERATIONS):
        along = problem.jvp(x, batch, v)[..., 1:]
        e, back = problem.gradient(x, batch, partial(_weighted, scale, along))
        assert e is not None
        size = (e.of(scale) * along.square()).sum(-1, keepdim=True).sqrt()
        length = back.norm(dim=-1, keepdim=True)
        v = torch.where(length > 0, back / length.clamp_min(torch.finfo(x.dtype).tiny), v)
    return size


def squared_norm(problem: Problem, x: Tensor, batch: Any, scale: Tensor | float = 1.0) -> Tensor:
    """(..., 1) an estimate of the sum of the squared gradients of all g_i, each times its `scale`: the mean over SIGNS
    vectors of random signs w of |sum_i w_i grad g_i|^2."""
    generator, total = torch.Generator().manual_seed(0), x.new_zeros(*x.shape[:-1], 1)
    for _ in range(SIGNS):
        signs = 2.0 * torch.randint(0, 2, (problem.m,), generator=generator).to(x) - 1
        w = (torch.as_tensor(scale).sqrt().to(x) * signs).expand(*x.shape[:-1], problem.m)
        total += problem.gradient(x, batch, (0.0, w))[1].square().sum(-1, keepdim=True)
    return (total / SIGNS).clamp_min(torch.finfo(x.dtype).tiny)


def _weighted(scale: Tensor | float, along: Tensor, e: Evaluation) -> Weights:
    return 0.0, e.of(scale) * along


def _first(x: Tensor) -> Tensor:
    """A direction (..., n) of norm 1 that no structure of the problem is likely to be orthogonal to,
    the same for all runs."""
    v = torch.randn(x.shape[-1], generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(x)
    return (v / v.norm()).expand_as(x).clone()
