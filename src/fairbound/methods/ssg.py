"""SSG: switching subgradient steps of Polyak's length, on all rows; the best nearly feasible iterate is returned.

    v <- Proj(v - (eps / |s_f|^2) s_f)               where max_i g_i(v) <= eps
    v <- Proj(v - (max_i g_i(v) / |s_g|^2) s_g)      else, s_g a subgradient of the largest g_i

Source: He, Huang, Yao, Lin (2026), Algorithm 2, on convex problems, and Algorithm 3, directly on others, where nothing
    is known of the result; Nesterov (2018), (3.2.24). Departs: none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fairbound.base.checks import nonnegative, positive
from fairbound.methods.method import Method, State, no_multipliers
from fairbound.problems.problem import Draws, Evaluation, Problem, Weights, largest


@dataclass(frozen=True, kw_only=True)
class SSGState(State):
    """x: (..., n) the iterate. output: (..., n) the one of lowest f among those with g <= eps, the start until there is
    one;
    lowest: (...,) that f. multipliers: (..., m) one at the constraint that the last step was taken on, else zero."""

    output: Tensor
    lowest: Tensor

    @property
    def point(self) -> Tensor:
        """(..., n) the best nearly feasible iterate."""
        return self.output


@dataclass(frozen=True, kw_only=True)
class SSG(Method[SSGState]):
    """For bounds on all rows: one step lowers the loss while all bounds nearly hold, else the most broken bound.

    Take it where few options and proven steps on convex problems count; `full_batch_alm` needs far fewer passes.
    Formulas and source: help(fairbound.methods.ssg).

    tolerance: > 0, eps, how far g may lie above 0.
    fading: >= 0; with c > 0, eps is c / (k + 1) instead.
    """

    tolerance: float = 1e-3
    fading: float = 0.0

    name: ClassVar[str] = "ssg"
    all_rows: ClassVar[bool] = True
    presets: ClassVar[dict[str, dict]] = {"fading": {"fading": 0.5}}

    def __post_init__(self) -> None:
        positive(self, "tolerance")
        nonnegative(self, "fading")

    def init(self, problem: Problem, x: Tensor, draws: Draws) -> SSGState:
        """At x (..., n)."""
        return SSGState(
            x=x,
            k=0,
            multipliers=no_multipliers(problem, x),
            output=x.clone(),
            lowest=x.new_full(x.shape[:-1], torch.inf),
        )

    def step(self, state: SSGState, problem: Problem, draws: Draws) -> SSGState:
        """One step, every run of a stack on its own side of the switch."""
        eps = self.fading / (state.k + 1) if self.fading else self.tolerance
        x, taken = state.x, state.multipliers

        def side(e: Evaluation) -> Weights:
            nonlocal taken
            near = largest(e.g) <= eps
            taken = torch.zeros_like(e.g)
            if problem.m:
                taken.scatter_(-1, e.g.argmax(-1, keepdim=True), 1.0)
                taken = torch.where(near.unsqueeze(-1), 0.0, taken)
            return near.unsqueeze(-1).to(e.f.dtype), taken

        e, s = problem.gradient(x, draws("all", 0, sampling="full"), side)
        assert e is not None
        worst = largest(e.g)
        near = worst <= eps
        better = near & (e.f < state.lowest)
        output = torch.where(better.unsqueeze(-1), x, state.output)
        lowest = torch.where(better, e.f, state.lowest)
        length = torch.where(near, torch.full_like(worst, eps), worst)
        square = s.square().sum(-1)
        size = torch.where(square > 0, length / square.clamp_min(torch.finfo(x.dtype).tiny), 0.0)
        x.copy_(problem.domain.project(x - size.unsqueeze(-1) * s))
        return state.next(multipliers=taken, output=output, lowest=lowest)
