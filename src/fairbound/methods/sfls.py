"""Stochastic feasible level-set method (SFLS): every outer iterate is feasible with high probability.

    for k = 0, 1, ...:                                       one outer iteration = one call of the oracle at level r
        delta_k = delta / 2^(k+1)
        (U, x^k) = oracle(r, delta_k)                        ovsmd.py; one `step` is one iteration of it
        if U >= -optimality_tolerance: halt with x^k
        r <- r + U / (2 theta)

Source: Lin, Nadarajah, Soheili, Yang (2020), Algorithm 1, its oracles SMD and OVSMD (Algorithms 2, 3), section 5.2.
Departs: delta_k is delta / 2^(k+1), since delta / 2^k sums to 2 delta.
    Section 5.2 ends a call once the online upper bound is negative and "stable", to be validated by confidence bounds
    that it does not state: here once every entry of the averaged values plus its Student margin (`ovsmd.margin`, level
    delta_k over all entries and iterations of the call) is negative. The level moves by U = the online bound itself.
    With oracle "smd" the same test proposes the end; U is then exact on all rows, and where it is not negative the call
    goes on.
    Without an r_0 the first call has level +inf: it minimises max_i g_i alone until all are negative with confidence, as
    section 5.2 suggests. Its point is outer iterate 0, and r_0 the upper confidence bound of f there.
    The presets (section 6) take gamma as it is: section 6.1 names omega_x and omega_y without the factors 1 / (2 D^2), and
    with them its step sizes give on a9a no outer iterate in 50 data passes (docs/level_sets.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from fairbound.base.errors import OptionError
from fairbound.methods import ovsmd
from fairbound.methods.ovsmd import Moments
from fairbound.methods.primal import nonnegative, positive
from fairbound.problems.problem import Draws, Problem
from fairbound.subproblems.bregman import centre


@dataclass(frozen=True, kw_only=True)
class SFLS:
    """Options of the stochastic feasible level-set method.

    oracle: "ovsmd" bounds by its own iterates; "smd" evaluates all rows at the end of each call.
    stopping: "practical" (section 5.2), or "theory": the fixed number of iterations T (ovsmd) or W (smd) for oracle_error
        (eps_A) and `moments`, which needs a bounded domain or a `diameter`, and a `level`. It is astronomically large on real
        problems, and proved for step_size=None and scaling="diameters".
    theta: > 1; the level moves by U / (2 theta). level: r_0 > f*; None finds a strictly feasible point and r_0 first.
    step_size: c of gamma_t = c / sqrt(t + 1); None for 1 / M with stopping="theory".
    scaling: "diameters" multiplies gamma by 2 D_x^2 and 2 D_y^2 as Algorithm 3 does; "none" takes it as it is.
    diameter: D_x in place of the domain's own; without one an unbounded domain has 2 D_x^2 = 1.
    restart: where a call begins: "centre", argmin omega_z as in the source; "last", where the one before ended.
    delta: probability that some outer iterate is infeasible, in (0, 1), as far as averages of batches are normal: a few
        batches without one of the rare rows that break a constraint look surely feasible; larger batches and `min_steps`
        make that less likely.
    optimality_tolerance: eps_opt; 0 never halts. It bounds the gap (Theorem 1) under "theory" alone: a practical call ends
        as soon as U is surely negative, however far below 0 H(r) is, so that U >= -eps_opt says nothing about the gap.
    min_steps: iterations of a call before its bound is judged.
    margin: what "practical" adds to the online bound before it is judged: "student" margins (see Departs), or "none", the
        paper's own rule as far as it is stated: a call ends as soon as the bound itself is negative. delta is then unused,
        and no probability of feasible outer iterates is claimed.
    """

    oracle: Literal["ovsmd", "smd"] = "ovsmd"
    stopping: Literal["practical", "theory"] = "practical"
    theta: float = 2.0
    level: float | None = None
    step_size: float | None = 0.05
    scaling: Literal["diameters", "none"] = "diameters"
    diameter: float | None = None
    restart: Literal["centre", "last"] = "centre"
    delta: float = 0.05
    optimality_tolerance: float = 0.0
    min_steps: int = 10
    margin: Literal["student", "none"] = "student"
    oracle_error: float | None = None
    moments: Moments | None = None

    name: ClassVar[str] = "sfls"
    presets: ClassVar[dict[str, dict]] = {
        "inventory": {"level": 5.0, "theta": 2.0, "step_size": 2.0, "scaling": "none"},
        "neyman-pearson": {"level": 3.0, "theta": 2.0, "step_size": 0.05, "scaling": "none"},
        "fair": {"level": 1.0, "theta": 2.0, "step_size": 0.05, "scaling": "none"},
    }

    def __post_init__(self) -> None:
        choices = {
            "oracle": ("ovsmd", "smd"),
            "stopping": ("practical", "theory"),
            "scaling": ("diameters", "none"),
            "restart": ("centre", "last"),
            "margin": ("student", "none"),
        }
        for option, allowed in choices.items():
            if getattr(self, option) not in allowed:
                raise OptionError(f"{option} must be one of {', '.join(allowed)}, got {getattr(self, option)!r}.")
        given = {"step_size": self.step_size, "diameter": self.diameter, "oracle_error": self.oracle_error}
        positive(min_steps=self.min_steps, **{k: v for k, v in given.items() if v is not None})
        nonnegative(optimality_tolerance=self.optimality_tolerance)
        if not self.theta > 1:
            raise OptionError(f"theta must be greater than 1, got {self.theta!r}.")
        if not 0 < self.delta < 1:
            raise OptionError(f"delta is a probability in (0, 1), got {self.delta!r}.")
        if self.level is not None and not abs(self.level) < float("inf"):
            raise OptionError(f"level must be finite, got {self.level!r}; None finds one.")
        theory = self.stopping == "theory"
        if theory and (self.oracle_error is None or self.moments is None or self.level is None):
            raise OptionError("stopping='theory' needs oracle_error, moments=Moments(M_x=, M_y=, Q=) and a level.")
        if theory and not self.optimality_tolerance > 0:
            raise OptionError("stopping='theory' needs a positive optimality_tolerance: it is where the method halts.")
        if not theory and (self.oracle_error is not None or self.moments is not None):
            raise OptionError("oracle_error and moments are read by stopping='theory' alone; leave them out.")
        if not theory and self.step_size is None:
            raise OptionError("step_size=None means 1 / M, which stopping='practical' does not know; give a number.")


@dataclass(frozen=True)
class State(ovsmd.Call):
    """The call under way (see ovsmd.Call: x, k, multipliers, t, average, ...), and:

    output: (..., n) the last outer iterate, the start until there is one; outer: (...,) int64 their number.
    level: (...,) r, +inf while a feasible point is sought. upper, lower: (...,) the online bounds (12), now, and (13), at the
    end of the last call; infinite before. done: (...,) whether the run has halted; it then stays as it is.
    """

    output: Tensor
    outer: Tensor
    level: Tensor
    upper: Tensor
    lower: Tensor
    done: Tensor

    @property
    def point(self) -> Tensor:
        """The last outer iterate; the running average of the call until there is one."""
        return torch.where((self.outer > 0).unsqueeze(-1), self.output, self.average)


def init(config: SFLS, problem: Problem, x: Tensor, draws: Draws) -> State:
    start, lead = x.clone(), x.shape[:-1]
    if config.restart == "centre":
        x.copy_(centre(problem.domain, x))
    level = x.new_full(lead, float("inf") if config.level is None else config.level)
    call = ovsmd.fresh(x, problem.m)
    return State(
        **{**vars(call), "multipliers": ovsmd.dual_centre(torch.isinf(level), call.mean), "average": start.clone()},
        output=start,
        outer=torch.zeros(lead, dtype=torch.int64, device=x.device),
        level=level,
        upper=x.new_full(lead, torch.inf),
        lower=x.new_full(lead, -torch.inf),
        done=torch.zeros(lead, dtype=torch.bool, device=x.device),
    )


def step(config: SFLS, state: State, problem: Problem, draws: Draws) -> State:
    if bool(state.done.all()):
        return replace(state, k=state.k + 1)
    x = state.x
    rate = ovsmd.rates(problem.domain, problem.n, problem.m, config.scaling == "diameters", config.diameter)
    c = step_scale(config, problem)
    new = ovsmd.iterate(state, problem, draws("xi", state.k), state.level, c, rate)
    new = replace(new, upper=ovsmd.upper_bound(new, state.level))
    ended = _ended(config, new, problem) & ~state.done
    if bool(ended.any()):
        new = _outer(config, new, problem, draws, ended)
    if bool(state.done.any()):
        new = ovsmd.choose(state.done, state, new)
    x.copy_(new.x)
    return replace(new, x=x)


def failure(delta: float, outer: Tensor) -> Tensor:
    """delta_k = delta / 2^(k+1) for the int64 k = outer, in float64; sums to delta over k = 0, 1, ..."""
    return delta * torch.exp2(-(outer + 1).double())


def step_scale(config: SFLS, problem: Problem) -> float:
    """c of gamma_t = c / sqrt(t + 1). Raises: OptionError where it is 1 / M and the domain is unbounded."""
    if config.step_size is not None:
        return config.step_size
    assert config.moments is not None
    return 1 / config.moments.M(problem.domain, problem.n, problem.m, config.diameter)


def _ended(config: SFLS, call: State, problem: Problem) -> Tensor:
    """(...,) whether the call has ended, for "smd" before its exact bound is known."""
    delta = failure(config.delta, call.outer)
    if config.moments is not None and config.oracle_error is not None:
        M = config.moments.M(problem.domain, problem.n, problem.m, config.diameter)
        if config.oracle == "smd":
            limit = ovsmd.smd_limit(delta, config.oracle_error, M)
        else:
            limit = ovsmd.ovsmd_limit(delta, config.oracle_error, M, config.moments.Q)
        return call.t > limit.to(call.t.device)
    ready = (call.t >= config.min_steps) & (call.upper < 0)
    if config.margin == "none" or not bool(ready.any()):
        return ready
    surely = replace(call, mean=call.mean + ovsmd.margin(call, delta))
    return ready & torch.isfinite(surely.mean[..., 0]) & (ovsmd.upper_bound(surely, call.level) < 0)


def _outer(config: SFLS, state: State, problem: Problem, draws: Draws, ended: Tensor) -> State:
    """Lines 4 to 9 of Algorithm 1 for the runs whose call has ended."""
    first = torch.isinf(state.level)
    U = state.upper
    if config.oracle == "smd":
        e = problem.values(state.average, draws("full", state.k, sampling="full"))
        f0 = e.f
        exact = torch.cat([(f0 - state.level).unsqueeze(-1), e.g], dim=-1)
        U = exact.amax(-1)
        if config.stopping == "practical":
            ended = ended & (U < 0)
    else:
        f0 = state.mean[..., 0]
        if config.margin == "student" and bool((first & ended).any()):
            f0 = f0 + ovsmd.margin(state, failure(config.delta, state.outer))[..., 0]
    halt = ended & ~first & (-config.optimality_tolerance <= U) if config.optimality_tolerance > 0 else ended & False
    moved = torch.where(first, f0, state.level + U / (2 * config.theta))
    return _restarted(
        config,
        replace(
            state,
            output=torch.where(ended.unsqueeze(-1), state.average, state.output),
            outer=state.outer + ended,
            level=torch.where(ended & ~halt, moved, state.level),
            upper=torch.where(ended, U, state.upper),
            lower=torch.where(ended, ovsmd.lower_bound(state, problem.domain), state.lower),
            done=state.done | halt,
        ),
        problem,
        ended & ~halt,
    )


def _restarted(config: SFLS, state: State, problem: Problem, ended: Tensor) -> State:
    """Line 2 of Algorithm 3 for the runs whose call has ended; the average stays to be looked at until its first iterate."""
    began: Any = ovsmd.fresh(state.x, problem.m)
    kept: dict[str, Any] = {"k": state.k, "average": state.average}
    if config.restart == "centre":
        kept["x"] = centre(problem.domain, state.x)
    return ovsmd.choose(ended, replace(state, **{**vars(began), **kept}), state)
