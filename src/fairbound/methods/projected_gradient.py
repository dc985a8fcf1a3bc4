"""Projected gradient descent on all rows, over a convex set that the problem's domain projects on.

    x+ <- Proj_X(x - eta_k grad f(x)),   eta_k halved until f(x+) <= f(x) + <grad f(x), x+ - x> + |x+ - x|^2 / (2 eta_k)

Bounds g are not looked at: state them as the domain, such as the quadratic surrogates of `auc_parity` in
`QuadraticSet`.

Source: He, Huang, Yao, Lin (2026), (108) to (110); Beck (2017), First-Order Methods in Optimization, section 10.3, for
the step.
Departs: the source does not state eta_k; here it is found by halving, and tried twice as large at the next step. The
    run ends where f fell by less than `tolerance` in each of ten steps, which the source makes sure of by 500 to 1,000
    steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fairbound.base.checks import nonnegative, positive
from fairbound.methods.method import Method, State, no_multipliers
from fairbound.problems.problem import Draws, Problem

PATIENCE = 10
HALVINGS = 40


@dataclass(frozen=True, kw_only=True)
class ProjectedGradientState(State):
    """x: (..., n) in the domain. length: (...,) eta of the last step;
    idle: (...,) steps in a row of hardly any decrease."""

    length: Tensor
    idle: Tensor


@dataclass(frozen=True, kw_only=True)
class ProjectedGradient(Method[ProjectedGradientState]):
    """For bounds that are a convex set of parameters: gradient descent on all rows, projected on that set.

    Take it where every bound is part of the problem's domain, as a `QuadraticSet`: it looks at no other bound.
    Formulas and source: help(fairbound.methods.projected_gradient).

    step_size: > 0, eta at first; it is found by halving, so that this matters little.
    tolerance: >= 0, the decrease of f below which a step counts as idle; the run ends after ten of these in a row.
    """

    step_size: float = 1.0
    tolerance: float = 1e-7

    name: ClassVar[str] = "projected_gradient"
    all_rows: ClassVar[bool] = True
    takes_bounds: ClassVar[bool] = False

    def __post_init__(self) -> None:
        positive(self, "step_size")
        nonnegative(self, "tolerance")

    def init(self, problem: Problem, x: Tensor, draws: Draws) -> ProjectedGradientState:
        """At the point of the domain nearest to x (..., n)."""
        x.copy_(problem.domain.project(x))
        lead = x.shape[:-1]
        return ProjectedGradientState(
            x=x,
            k=0,
            multipliers=no_multipliers(problem, x),
            halted=torch.zeros(lead, dtype=torch.bool, device=x.device),
            length=x.new_full(lead, self.step_size),
            idle=torch.zeros(lead, dtype=torch.int64, device=x.device),
        )

    def step(self, state: ProjectedGradientState, problem: Problem, draws: Draws) -> ProjectedGradientState:
        """One projected step of every run."""
        x, everything = state.x, draws("all", 0, sampling="full")
        slope = problem.gradient(x, everything, (1.0, None))[1]
        before, length = problem.values(x, everything).f, state.length
        rounding = 4 * torch.finfo(x.dtype).eps * (1 + before.abs())
        for _ in range(HALVINGS):
            moved = problem.domain.project(x - length.unsqueeze(-1) * slope)
            away = moved - x
            after = problem.values(moved, everything).f
            model = before + (slope * away).sum(-1) + away.square().sum(-1) / (2 * length)
            good = after <= model + rounding
            if bool(good.all()):
                break
            length = torch.where(good, length, length / 2)
        else:
            moved, after = torch.where(good.unsqueeze(-1), moved, x), torch.where(good, after, before)
        idle = torch.where(before - after < self.tolerance, state.idle + 1, 0)
        x.copy_(torch.where(torch.as_tensor(state.halted).unsqueeze(-1), x, moved))
        return state.next(length=2 * length, idle=idle, halted=torch.as_tensor(state.halted) | (idle >= PATIENCE))
