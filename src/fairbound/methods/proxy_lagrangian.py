"""Proxy-Lagrangian: the model descends a Lagrangian of surrogates, the multipliers ascend one of the constraints
themselves.

    M_1 has all entries 1 / (1 + m)
    for t = 1, 2, ...:
        lambda_t = the stationary distribution of M_t (M lambda = lambda)
        x_{t+1} = Proj_X(x_t - eta_x grad [lambda_0 f + sum_i lambda_i g~_i](x_t))         surrogates g~, on one batch
        M~ = M_t * exp(eta_lambda D lambda'),   D = (0, g_1, ..., g_m)(x_t)                the metric itself, on the same batch
        M_{t+1} = M~ with every column scaled to sum 1

The matrix makes the multiplier player's regret a swap regret, without which the two players, who play different games,
need not end near a feasible point.

Source: Cotter et al. (2019), Optimization with non-differentiable constraints, JMLR 20 (172), Algorithm 2; Yao, Lin,
    Yang (2023), E.2, for AUC.
Departs: `solve` returns the best iterate that meets the true bounds, where the source has a stochastic mixture of
    iterates. Entries of M stay above 1e-30, so that single precision does not lose them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fairbound.base.checks import positive
from fairbound.base.errors import OptionError
from fairbound.methods.method import Method, State
from fairbound.problems.problem import Draws, Evaluation, Problem, Weights

MOST = 300
LEAST = 1e-30
"""Least entry of M: one that fell to 0 could not rise again."""


@dataclass(frozen=True, kw_only=True)
class ProxyLagrangianState(State):
    """matrix: (..., 1 + m, 1 + m) M, whose columns sum to 1."""

    matrix: Tensor


@dataclass(frozen=True, kw_only=True)
class ProxyLagrangian(Method[ProxyLagrangianState]):
    """For bounds on rates: the model descends smooth stand-ins of them, while multipliers follow the rates themselves.

    Take it to compare with Cotter et al. (2019); on our 28 problems `alm` mostly had the lower loss
    (docs/which_method.md).
    Formulas and source: help(fairbound.methods.proxy_lagrangian).

    step_size: > 0, eta_x.
    dual_step_size: > 0, eta_lambda, times the problem's `dual_scale`.
    """

    step_size: float = 0.1
    dual_step_size: float = 0.1

    name: ClassVar[str] = "proxy_lagrangian"

    def __post_init__(self) -> None:
        positive(self, "step_size", "dual_step_size")

    def init(self, problem: Problem, x: Tensor, draws: Draws) -> ProxyLagrangianState:
        """At x (..., n), all multipliers alike. Raises: OptionError for more than MOST
        constraints: M has (1 + m)^2 entries."""
        if problem.m > MOST:
            raise OptionError(
                f"proxy_lagrangian keeps a square matrix and takes up to {MOST} constraints, got {problem.m}."
            )
        size = problem.m + 1
        matrix = x.new_full((*x.shape[:-1], size, size), 1 / size)
        return ProxyLagrangianState(x=x, k=0, multipliers=x.new_ones(*x.shape[:-1], problem.m), matrix=matrix)

    def step(self, state: ProxyLagrangianState, problem: Problem, draws: Draws) -> ProxyLagrangianState:
        """One iteration, from one batch."""
        x, share = state.x, stationary(state.matrix)
        batch = draws("proxy", state.k)
        seen: Tensor | None = None

        def weights(e: Evaluation) -> Weights:
            nonlocal seen
            seen = e.seen
            return (float(share[0]) if x.dim() == 1 else share[..., :1]), share[..., 1:] if problem.m else None

        _, slope = problem.gradient(x, batch, weights)
        g = problem.values(x, batch, true=True).g * problem.dual_scale
        if seen is not None:
            g = g * seen
        gain = torch.cat([g.new_zeros(*g.shape[:-1], 1), g], dim=-1)
        raised = state.matrix * (self.dual_step_size * gain.unsqueeze(-1) * share.unsqueeze(-2)).exp()
        x.copy_(problem.domain.project(x - self.step_size * slope))
        matrix = (raised / raised.sum(-2, keepdim=True)).clamp_min(LEAST)
        return state.next(matrix=matrix, multipliers=share[..., 1:] / share[..., :1].clamp_min(1e-12))


def stationary(matrix: Tensor) -> Tensor:
    """(..., k) the shares lambda with M lambda = lambda and sum 1, of a positive M (..., k,
    k) whose columns sum to 1."""
    size = matrix.shape[-1]
    system = matrix.double() - torch.eye(size, dtype=torch.float64, device=matrix.device)
    system[..., -1, :] = 1.0  # one of the equations follows from the others
    right = torch.zeros(size, dtype=torch.float64, device=matrix.device)
    right[-1] = 1.0
    return torch.linalg.solve(system, right.expand(matrix.shape[:-1])).clamp_min(0).to(matrix.dtype)
