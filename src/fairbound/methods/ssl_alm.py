"""Stochastic smoothed and linearised augmented Lagrangian (SSL-ALM), with explicit slacks; mu = 0 is the paper's ALM.

For c(x) <= 0 written as c(x) + s = 0, s >= 0, with xi, zeta1, zeta2 drawn independently:

    y+ = y + eta (c(x, zeta1) + s);   y+ = 0 where |y+| >= M_y
    G  = grad f(x, xi) + grad c(x, zeta1)' (y+ + rho (c(x, zeta2) + s)) + mu (x - z)
    x+ = Proj_X(x - tau G_x),  s+ = [s - tau G_s]_+
    z+ = z + beta (x - z)

Source: Kliachkin et al. (2025), section 3.3, equations (10) and (11), Algorithm 2.
Departs: xi, zeta1 and zeta2 are batches; balanced ones, the default, take equally many rows of every subgroup and
    weight them back, xi's as well, where the paper says so of the constraints alone. A constraint whose groups a sample
    lacks adds nothing from that sample. "c" in the multiplier step is the slack form c(x) + s; y, s and x - z start at
    zero, which the paper leaves open. By default tau, eta and rho are larger, tau and eta
    decay, the constraints' samples are larger than xi, and a share of each bound is kept as margin:
    c(x) + margin * bound + s = 0. The preset "paper" has its numbers, constant steps and no margin.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from fairbound.base.checks import limit, nonnegative, positive, share
from fairbound.methods.method import Method, State, no_multipliers
from fairbound.methods.primal import decayed
from fairbound.problems.problem import Draws, Evaluation, Problem, Weights

PAPER: dict[str, Any] = {
    "penalty": 1.0,
    "step_size": 0.01,
    "dual_step_size": 0.05,
    "margin": 0.0,
    "decay": 0.0,
    "constraint_batch_size": 0,
}


@dataclass(frozen=True, kw_only=True)
class SSLALMState(State):
    """x, z: (..., n) iterate and its smoothing centre; s, zs: (..., m) slacks and theirs; multipliers: y (..., m)."""

    s: Tensor
    z: Tensor
    zs: Tensor


@dataclass(frozen=True, kw_only=True)
class SSLALM(Method[SSLALMState]):
    """For bounds on random batches: descends with multipliers, slacks and a pull to a moving centre.

    Take it to compare with its paper; on our 28 problems `alm` mostly had the lower loss (docs/which_method.md).
    Formulas and source: help(fairbound.methods.ssl_alm).

    smoothing: >= 0, mu; 0 is the paper's ALM.
    penalty: >= 0, rho.
    step_size: > 0, tau, divided by (1 + k / decay_steps)^decay at step k.
    dual_step_size: > 0, eta, divided likewise.
    centre_step: >= 0, beta, by which the smoothing centre follows x.
    multiplier_bound: > 0, may be infinite, M_y; a multiplier that reaches it starts again at 0.
    margin: share of each stated bound to stay below it by, in [0, 1), so that iterates settle inside and not around it.
    decay: >= 0, the power by which steps fade; 0 for constant steps.
    decay_steps: > 0, after how many steps they begin to.
    constraint_batch_size: rows of zeta1 and of zeta2 each; 0 for the run's batch size, None for eight times that, at
        most 1,024.
    """

    smoothing: float = 2.0
    penalty: float = 4.0
    step_size: float = 0.05
    dual_step_size: float = 0.2
    centre_step: float = 0.5
    multiplier_bound: float = 10.0
    margin: float = 0.2
    decay: float = 0.5
    decay_steps: float = 300.0
    constraint_batch_size: int | None = None

    name: ClassVar[str] = "ssl_alm"
    presets: ClassVar[dict[str, dict]] = {"paper": PAPER, "paper-alm": {**PAPER, "smoothing": 0.0}}
    margin_is_share: ClassVar[bool] = True

    def __post_init__(self) -> None:
        positive(self, "step_size", "dual_step_size", "decay_steps")
        limit(self, "multiplier_bound")
        nonnegative(self, "smoothing", "penalty", "centre_step", "decay", "constraint_batch_size")
        share(self, "margin")

    def init(self, problem: Problem, x: Tensor, draws: Draws) -> SSLALMState:
        """At x = z (..., n), with y = s = 0."""
        zero = no_multipliers(problem, x)
        return SSLALMState(x=x, k=0, multipliers=zero, s=zero.clone(), z=x.clone(), zs=zero.clone())

    def step(self, state: SSLALMState, problem: Problem, draws: Draws) -> SSLALMState:
        """Lines 4 to 10 of Algorithm 2."""
        size = self.constraint_batch_size or None
        if self.constraint_batch_size is None:
            size = max(draws.batch_size, min(8 * draws.batch_size, 1024))
        xi, zeta1, zeta2 = draws("xi", state.k), draws("zeta1", state.k, size), draws("zeta2", state.k, size)  # line 4
        g_x, g_s, y = self.estimate(state, problem, xi, zeta1, zeta2)
        z = state.z + self.centre_step * (state.x - state.z)  # line 10
        zs = state.zs + self.centre_step * (state.s - state.zs)
        tau = self.step_size * decayed(state.k, self.decay_steps, self.decay)
        state.x.copy_(problem.domain.project(state.x - tau * g_x))  # line 9
        s = (state.s - tau * g_s).clamp_min(0)
        return state.next(multipliers=y, s=s, z=z, zs=zs)

    def estimate(
        self, state: SSLALMState, problem: Problem, xi: Any, zeta1: Any, zeta2: Any
    ) -> tuple[Tensor, Tensor, Tensor]:
        """G_x (..., n), G_s (..., m) and y+ (..., m) from three batches."""
        _, gradient = problem.gradient(state.x, xi, (1.0, None))
        inner = state.s + self.margin * problem.bounds if self.margin else state.s
        eta = self.dual_step_size * decayed(state.k, self.decay_steps, self.decay)
        c2 = problem.values(state.x, zeta2)
        slack2 = c2.g + inner if c2.seen is None else (c2.g + inner) * c2.seen
        y_next = state.multipliers

        def weights(c1: Evaluation) -> Weights:  # lines 5 to 8
            nonlocal y_next
            slack1 = c1.g + inner if c1.seen is None else (c1.g + inner) * c1.seen
            y = state.multipliers + eta * slack1
            y_next = torch.where(y.norm(dim=-1, keepdim=True) >= self.multiplier_bound, torch.zeros_like(y), y)
            return 0.0, y_next + self.penalty * slack2

        _, constraint_gradient = problem.gradient(state.x, zeta1, weights)
        g_x = gradient + constraint_gradient + self.smoothing * (state.x - state.z)
        g_s = y_next + self.penalty * slack2 + self.smoothing * (state.s - state.zs)
        return g_x, g_s, y_next
