"""A bundle method for convex problems: quadratic programs of gathered cuts, in the metric of the problem's curvature.

Around a centre c with g(c) <= 0, with slopes of g gathered at earlier points v_j as cuts:

    d <- argmin  s_f . d + tau/2 d'H d    subject to    g_i(v_j) + s_ij . (c + d - v_j) <= 0
    c <- c + d         where g(c + d) <= 0 and f falls by a share of what the program promised (tau is then lessened)
    else new cuts at c + d, and where f did not fall enough, or c + d left the domain, a larger tau

The program is solved by `subproblems.qp`. A cut of a convex function holds everywhere, so that c itself meets all of them. From a
centre that is not feasible each program asks for half of its largest excess.

Source: Kiwiel (1990), Proximity control in bundle methods for convex nondifferentiable minimization; Lemarechal, Nemirovskii,
    Nesterov (1995), New variants of bundle methods, for constraints.
Departs: f is smooth here, so its model is quadratic, in the problem's `curvature` where it has one, and only constraints are cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from fairbound.methods.method import Method, State, no_multipliers
from fairbound.methods.primal import positive
from fairbound.problems.problem import Draws, Problem
from fairbound.subproblems.qp import SubproblemError, direction_qp

RIDGE = 1e-4
"""Share of the mean diagonal that is added to the curvature."""

PROMISED = 0.1
"""The share of the promised decrease that a step must keep."""


@dataclass(frozen=True, kw_only=True)
class BundleState(State):
    """x: (..., n) the centre. f, g, slopes: (...,), (..., m) and (..., 1 + m, n) there. cuts, levels: (..., c, n) and (..., c),
    cut . v <= level, infinite where there is none yet. tau: (...,). gain: (...,) the last promised decrease."""

    f: Tensor
    g: Tensor
    slopes: Tensor
    cuts: Tensor
    levels: Tensor
    tau: Tensor
    gain: Tensor

    @property
    def shown(self) -> dict[str, Tensor]:
        """The decrease that the last program promised."""
        return {"gain": self.gain}


@dataclass(frozen=True, kw_only=True)
class Bundle(Method[BundleState]):
    """Options of the bundle method.

    tau: of the first program. memory: points whose cuts are kept. tolerance: the run halts where less decrease is promised.
    """

    tau: float = 0.15
    memory: int = 4
    tolerance: float = 1e-6

    name: ClassVar[str] = "bundle"
    presets: ClassVar[dict[str, dict]] = {}
    needs: ClassVar[frozenset[str]] = frozenset({"convex", "space"})
    record_every: ClassVar[int] = 1

    def __post_init__(self) -> None:
        positive(tau=self.tau, memory=self.memory, tolerance=self.tolerance)

    def init(self, problem: Problem, x: Tensor, draws: Draws) -> BundleState:
        """At x (..., n)."""
        e, slopes = problem.jacobian(x, draws("all", 0, sampling="full"))
        lead, m = x.shape[:-1], problem.m
        return BundleState(
            x=x,
            k=0,
            multipliers=no_multipliers(problem, x),
            halted=torch.zeros(lead, dtype=torch.bool),
            f=e.f,
            g=e.g,
            slopes=slopes,
            cuts=x.new_zeros(*lead, self.memory * m, problem.n),
            levels=x.new_full((*lead, self.memory * m), torch.inf),
            tau=x.new_full(lead, self.tau),
            gain=x.new_full(lead, torch.inf),
        )

    def step(self, state: BundleState, problem: Problem, draws: Draws) -> BundleState:
        """One program, and one look at the point that it gives, for every run that has not ended."""
        everything = draws("all", 0, sampling="full")
        metric = metric_of(problem)
        runs = [...] if state.x.dim() == 1 else list(range(len(state.x)))
        halted, tau, gain = state.halted.clone(), state.tau.clone(), state.gain.clone()  # type: ignore[union-attr]
        multipliers, moves = state.multipliers.clone(), torch.zeros_like(state.x)
        for r in runs:
            if not halted[r]:
                made = self._program(state, r, metric)
                halted[r] = made is None or made[2] <= self.tolerance
                if made is not None:
                    moves[r], multipliers[r], gain[r] = made
        if bool(halted.all()):
            return state.next(halted=halted, gain=gain, multipliers=multipliers)
        v = state.x + moves
        e, slopes = problem.jacobian(v, everything)
        x, f, g, new = state.x, state.f.clone(), state.g.clone(), state.slopes.clone()
        cuts, levels, m = state.cuts, state.levels, problem.m
        for r in runs:
            if halted[r]:
                continue
            worst, before = _worst(e.g[r]), _worst(state.g[r])
            falls = float(e.f[r]) <= float(state.f[r]) - PROMISED * float(gain[r])
            if (worst <= 0 and (falls or before > 0)) or (worst > 0 and worst <= 0.75 * before):
                x[r], f[r], g[r], new[r] = v[r], e.f[r], e.g[r], slopes[r]
                tau[r] = max(0.7 * float(tau[r]), 0.05 * self.tau)
            elif worst <= 0:
                tau[r] = 2 * float(tau[r])
            if m:
                first = (state.k % self.memory) * m
                cuts[r][first : first + m] = slopes[r][1:]
                levels[r][first : first + m] = (slopes[r][1:] * v[r]).sum(-1) - e.g[r]
        return state.next(halted=halted, tau=tau, gain=gain, multipliers=multipliers, f=f, g=g, slopes=new)

    def _program(self, state: BundleState, r: Any, metric: np.ndarray | None) -> tuple[Tensor, Tensor, float] | None:
        """The step (n,), the multipliers (m,) and the promised decrease of run r; None where no step is left."""
        x, tau, m = state.x[r], float(state.tau[r]), state.g.shape[-1]
        own = state.slopes[r].double().cpu().numpy()
        some = torch.isfinite(state.levels[r])
        cuts, levels = state.cuts[r][some], state.levels[r][some]
        rows = np.concatenate([own[1:], cuts.double().cpu().numpy()])
        excess = np.concatenate(
            [state.g[r].double().cpu().numpy(), ((cuts * x).sum(-1) - levels).double().cpu().numpy()]
        )
        slope = own[0]
        if metric is not None:  # z = L'd, with L L' = H
            slope, rows = metric @ slope, rows @ metric.T
        allowed = max(0.0, 0.5 * _worst(state.g[r]))
        try:
            found = direction_qp(slope, excess, rows, allowed, tau, np.inf, tolerance=1e-7)
        except SubproblemError:
            return None
        d = found.d if metric is None else metric.T @ found.d
        gain = -float(slope @ found.d) - tau / 2 * float(found.d @ found.d)
        prices = np.zeros(m)
        for at in range(0, len(found.multipliers), m or 1):
            part = found.multipliers[at : at + m]
            prices[: len(part)] += part
        return torch.from_numpy(d).to(x), torch.from_numpy(prices).to(x), gain if allowed == 0 else np.inf


def _worst(g: Tensor) -> float:
    return float(g.max()) if g.numel() else -np.inf


def metric_of(problem: Problem) -> np.ndarray | None:
    """L^-1 (n, n) of the curvature H = L L' of the problem, with a ridge; None where it is not known."""
    curvature = problem.curvature()
    if curvature is None:
        return None
    ridge = RIDGE * curvature.diagonal().mean().clamp_min(RIDGE) * torch.eye(len(curvature), dtype=torch.float64)
    return np.linalg.inv(np.linalg.cholesky((curvature.double().cpu() + ridge).numpy()))
