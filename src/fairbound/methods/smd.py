"""Stochastic mirror descent at a fixed level r: the oracle of the stochastic feasible level-set method, by itself.

    x_0 = argmin omega_x, y_0 = argmin omega_y
    for t = 0, 1, ...:
        one batch gives g_x = grad_x Phi(x_t, y_t) and g_y = grad_y Phi(x_t, y_t)
        x_{t+1} = prox_x(eta_t g_x),   y_{t+1} = argmin - <g_y, y> + V_y(y, y_t) / tau_t + d(y)
        U = max over Y of the mean of Phi(x_t, y) - d(y) with weights tau_t                  the online upper bound of H(r)
    output: the mean of x_t with the same weights, and U

Y, its divergence V_y, its cost d and the closed forms of step and maximum are the problem's `dual_set`: the simplex, or
`LiftedSimplex` for constraints with inner maximisations.

Source: Yao, Lin, Yang (2023), Algorithm 2 with Lemmas 3 and 4; Lin, Nadarajah, Soheili, Yang (2020), Algorithm 3.
Departs: x_t are averaged with the weights of U, so that U bounds the value of the output by Jensen's inequality, where
    the source takes their plain mean. u and v in Lemma 4 carry the weights tau_t, which its print leaves out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from fairbound.base.checks import number, positive
from fairbound.methods import ovsmd
from fairbound.methods.method import Method, State
from fairbound.methods.ovsmd import Call
from fairbound.problems.problem import Draws, Problem


@dataclass(frozen=True, kw_only=True)
class SMDState(State):
    """call: see `ovsmd.Call`, whose x is this x. multipliers: (..., m) y_i / y_0 of the call. upper: (...,) U."""

    call: Call
    upper: Tensor

    @property
    def point(self) -> Tensor:
        """(..., n) the mean of the iterates."""
        return self.call.average

    @property
    def shown(self) -> dict[str, Tensor]:
        """The online upper bound of H(r)."""
        return {"upper": self.upper}


@dataclass(frozen=True, kw_only=True)
class SMD(Method[SMDState]):
    """For one question on a convex problem: does some point with a loss of at most `level` meet every bound?

    Take it to see how far a single call of `sfls` comes, whose oracle it is; `sfls` also lowers the level.
    Formulas and source: help(fairbound.methods.smd).

    level: r; H(r) <= 0 where a point with f <= r meets every constraint. None leaves f out: H is then the smallest
        possible max_i g_i, as in the first call of `SFLS` without a level.
    step_size: > 0, c of eta_t = tau_t = c / sqrt(t + 1).
    scaling: "diameters" multiplies the steps by 2 D_x^2 and 2 D_y^2, "dual" those of y alone, "none" takes them as they
        are.
    """

    level: float | None = None
    step_size: float = 0.1
    scaling: Literal["diameters", "dual", "none"] = "dual"

    name: ClassVar[str] = "smd"
    takes_inner_maxima: ClassVar[bool] = True
    needs: ClassVar[frozenset[str]] = frozenset({"unbiased"})

    def __post_init__(self) -> None:
        positive(self, "step_size")
        number(self, "level")
        ovsmd.check_scaling(self.scaling)

    def init(self, problem: Problem, x: Tensor, draws: Draws) -> SMDState:
        """At the domain's centre; x (..., n) is moved in place."""
        x.copy_(problem.domain.prox_centre(x))
        call = ovsmd.fresh(problem, x, torch.isinf(self._level(x)))
        return SMDState(
            x=x, k=0, multipliers=ovsmd.multipliers(call), call=call, upper=x.new_full(x.shape[:-1], torch.inf)
        )

    def step(self, state: SMDState, problem: Problem, draws: Draws) -> SMDState:
        """One iteration, from one batch."""
        x, level = state.x, self._level(state.x)
        rate = ovsmd.rates(problem, self.scaling)
        call = ovsmd.iterate(state.call, problem, draws("xi", state.k), level, self.step_size, rate)
        x.copy_(call.x)
        call = replace(call, x=x)
        upper = ovsmd.upper_bound(call.mean, level, problem.dual_set)
        return state.next(call=call, upper=upper, multipliers=ovsmd.multipliers(call))

    def _level(self, x: Tensor) -> Tensor:
        """(...,) r of every run, +inf for None."""
        return x.new_full(x.shape[:-1], float("inf") if self.level is None else self.level)
