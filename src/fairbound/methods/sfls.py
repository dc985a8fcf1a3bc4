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
    Without an r_0 the first call has level +inf: it minimises max_i g_i alone until all are negative with confidence,
    as section 5.2 suggests. Its point is outer iterate 0, and r_0 the upper confidence bound of f there.
    The presets (section 6) take gamma as it is: section 6.1 names omega_x and omega_y without the factors 1 / (2 D^2),
    and with them its step sizes give on a9a no outer iterate in 50 data passes (docs/level_sets.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from fairbound.base.checks import check_choice, nonnegative, number, positive
from fairbound.base.errors import OptionError
from fairbound.methods import ovsmd
from fairbound.methods.failing import check_failure, share_of_failure
from fairbound.methods.method import Method, State
from fairbound.methods.ovsmd import Call, LightTails
from fairbound.problems.problem import Draws, Problem

CENTRE = 0.01
"""With restart="last", a call begins at the last y mixed with this share of the centre, so that a 0 can rise."""


@dataclass(frozen=True, kw_only=True)
class SFLSState(State):
    """x: (..., n) the iterate of the call under way, `call` (see `ovsmd.Call`, whose x is this x).

    multipliers: (..., m) y_i / y_0 of the call, by which y_0 (f - r) + sum y_i g_i is a Lagrangian; 0 where y_0 is 0.
    output: (..., n) the last outer iterate, the start until there is one; outer: (...,) int64 their number.
    level: (...,) r, +inf while a feasible point is sought. upper, lower: (...,) the online bounds (12), now, and (13),
    at the end of the last call; infinite before. halted: (...,) whether the run has ended; it then stays as it is.
    """

    call: Call
    output: Tensor
    outer: Tensor
    level: Tensor
    upper: Tensor
    lower: Tensor
    halted: Tensor

    @property
    def point(self) -> Tensor:
        """(..., n) the last outer iterate; the running average of the call until there is one."""
        return torch.where((self.outer > 0).unsqueeze(-1), self.output, self.call.average)

    @property
    def shown(self) -> dict[str, Tensor]:
        """The level, and the online bounds of H."""
        return {"level": self.level, "upper": self.upper, "lower": self.lower}


@dataclass(frozen=True, kw_only=True)
class SFLS(Method[SFLSState]):
    """For convex problems whose models on the way are used too: each of them meets every bound with high probability.

    Take it to compare with its paper; `certified_level_set` promises more and ended nearer to the optimum
    (docs/level_sets.md).
    Formulas and source: help(fairbound.methods.sfls).

    oracle: "ovsmd" bounds by its own iterates; "smd" evaluates all rows at the end of each call.
    stopping: "practical" (section 5.2), or "theory": the fixed number of iterations T (ovsmd) or W (smd) for
        oracle_error and light_tails, which needs a bounded domain or a `diameter`, and a `level`. It is astronomically
        large on real problems, and proved for step_size=None and scaling="diameters".
    theta: > 1; the level moves by U / (2 theta).
    level: r_0 > f*; None finds a strictly feasible point and r_0 first.
    step_size: > 0, c of gamma_t = c / sqrt(t + 1); None for 1 / M with stopping="theory".
    scaling: "diameters" multiplies gamma by 2 D_x^2 and 2 D_y^2 as Algorithm 3 does; "dual" the steps of y alone;
        "none" takes it as it is.
    diameter: > 0, D_x in place of the domain's own; without one an unbounded domain has 2 D_x^2 = 1.
    restart: where a call begins: "centre", argmin omega_z as in the source; "last", where the one before ended, in x
        and in y.
    delta: probability that some outer iterate is infeasible, in (0, 1), as far as averages of batches are normal: a few
        batches without one of the rare rows that break a constraint look surely feasible; larger batches and
        `min_steps` make that less likely.
    optimality_tolerance: >= 0, eps_opt; 0 never halts. It bounds the gap (Theorem 1) under "theory" alone: a practical
        call ends as soon as U is surely negative, however far below 0 H(r) is, so that U >= -eps_opt says nothing about
        the gap.
    min_steps: iterations of a call before its bound is judged.
    margin: what "practical" adds to the online bound before it is judged: "student" margins (see Departs), or "none",
        the paper's own rule as far as it is stated: a call ends as soon as the bound itself is negative. delta is then
        unused, and no probability of feasible outer iterates is claimed.
    oracle_error: > 0, eps_A, for stopping="theory" alone; see `fairbound.methods.estimate_level`.
    light_tails: LightTails(M_x=, M_y=, Q=), for stopping="theory" alone.
    """

    oracle: Literal["ovsmd", "smd"] = "ovsmd"
    stopping: Literal["practical", "theory"] = "practical"
    theta: float = 2.0
    level: float | None = None
    step_size: float | None = 0.05
    scaling: Literal["diameters", "dual", "none"] = "diameters"
    diameter: float | None = None
    restart: Literal["centre", "last"] = "centre"
    delta: float = 0.05
    optimality_tolerance: float = 0.0
    min_steps: int = 10
    margin: Literal["student", "none"] = "student"
    oracle_error: float | None = None
    light_tails: LightTails | None = None

    name: ClassVar[str] = "sfls"
    takes_inner_maxima: ClassVar[bool] = True
    presets: ClassVar[dict[str, dict]] = {
        "inventory": {"level": 5.0, "theta": 2.0, "step_size": 2.0, "scaling": "none"},
        "neyman-pearson": {"level": 3.0, "theta": 2.0, "step_size": 0.05, "scaling": "none"},
        "fair": {"level": 1.0, "theta": 2.0, "step_size": 0.05, "scaling": "none"},
    }

    def __post_init__(self) -> None:
        choices = {
            "oracle": ("ovsmd", "smd"),
            "stopping": ("practical", "theory"),
            "restart": ("centre", "last"),
            "margin": ("student", "none"),
        }
        for option, allowed in choices.items():
            check_choice(option, getattr(self, option), allowed)
        ovsmd.check_scaling(self.scaling)
        number(self, "theta", "delta", "level")
        positive(self, "min_steps", "step_size", "diameter", "oracle_error")
        nonnegative(self, "optimality_tolerance")
        check_failure(self.theta, self.delta)
        theory = self.stopping == "theory"
        if theory and (self.oracle_error is None or self.light_tails is None or self.level is None):
            raise OptionError(
                "stopping='theory' needs oracle_error, light_tails=LightTails(M_x=, M_y=, Q=) and a level; "
                "fairbound.methods.estimate_level gives oracle_error and optimality_tolerance."
            )
        if theory and not self.optimality_tolerance > 0:
            raise OptionError("stopping='theory' needs a positive optimality_tolerance: it is where the method halts.")
        if not isinstance(self.light_tails, ovsmd.LightTails | None):
            raise OptionError(f"light_tails must be LightTails(M_x=, M_y=, Q=), got {self.light_tails!r}.")
        if not theory and (self.oracle_error is not None or self.light_tails is not None):
            raise OptionError("oracle_error and light_tails are read by stopping='theory' alone; leave them out.")
        if not theory and self.step_size is None:
            raise OptionError("step_size=None means 1 / M, which stopping='practical' does not know; give a number.")

    def init(self, problem: Problem, x: Tensor, draws: Draws) -> SFLSState:
        """A first call about to begin, at the domain's centre or at x (..., n); x is moved in place."""
        start, lead = x.clone(), x.shape[:-1]
        if self.restart == "centre":
            x.copy_(problem.domain.prox_centre(x))
        level = x.new_full(lead, float("inf") if self.level is None else self.level)
        call = replace(ovsmd.fresh(problem, x, torch.isinf(level)), average=start.clone())
        return SFLSState(
            x=x,
            k=0,
            multipliers=ovsmd.multipliers(call),
            call=call,
            output=start,
            outer=torch.zeros(lead, dtype=torch.int64, device=x.device),
            level=level,
            upper=x.new_full(lead, torch.inf),
            lower=x.new_full(lead, -torch.inf),
            halted=torch.zeros(lead, dtype=torch.bool, device=x.device),
        )

    def step(self, state: SFLSState, problem: Problem, draws: Draws) -> SFLSState:
        """One iteration of the oracle, and the end of the call where it is due."""
        if bool(state.halted.all()):
            return state.next()
        x = state.x
        rate = ovsmd.rates(problem, self.scaling, self.diameter)
        call = ovsmd.iterate(state.call, problem, draws("xi", state.k), state.level, self.step_scale(problem), rate)
        upper = ovsmd.upper_bound(call.mean, state.level, problem.dual_set)
        new = state.next(call=call, upper=upper)
        ended = self._ended(new, problem) & ~state.halted
        if bool(ended.any()):
            new = self._outer(new, problem, draws, ended)
        if bool(state.halted.any()):
            new = ovsmd.choose(state.halted, state, new)
        x.copy_(new.call.x)
        call = replace(new.call, x=x)
        return replace(new, x=x, call=call, multipliers=ovsmd.multipliers(call))

    def step_scale(self, problem: Problem) -> float:
        """c of gamma_t = c / sqrt(t + 1). Raises: OptionError where it is 1 / M and the domain is unbounded."""
        if self.step_size is not None:
            return self.step_size
        assert self.light_tails is not None
        return 1 / self.light_tails.M(problem, self.diameter)

    def _ended(self, state: SFLSState, problem: Problem) -> Tensor:
        """(...,) whether the call has ended, for "smd" before its exact bound is known."""
        delta, call = share_of_failure(self.delta, state.outer), state.call
        if self.light_tails is not None and self.oracle_error is not None:
            M = self.light_tails.M(problem, self.diameter)
            if self.oracle == "smd":
                limit = ovsmd.smd_limit(delta, self.oracle_error, M)
            else:
                limit = ovsmd.ovsmd_limit(delta, self.oracle_error, M, self.light_tails.Q)
            return call.t > limit.to(call.t.device)
        ready = (call.t >= self.min_steps) & (state.upper < 0)
        if self.margin == "none" or not bool(ready.any()):
            return ready
        surely = problem.dual_set.highest(call.mean, ovsmd.margin(call, delta))
        bounded = ovsmd.upper_bound(surely, state.level, problem.dual_set) < 0
        return ready & torch.isfinite(surely[..., 0]) & bounded

    def _outer(self, state: SFLSState, problem: Problem, draws: Draws, ended: Tensor) -> SFLSState:
        """Lines 4 to 9 of Algorithm 1 for the runs whose call has `ended` (...,)."""
        first, call = torch.isinf(state.level), state.call
        U = state.upper
        if self.oracle == "smd":
            e = problem.values(call.average, draws("full", state.k, sampling="full"))
            exact = torch.cat([(e.f - state.level.masked_fill(first, 0.0)).unsqueeze(-1), e.g], dim=-1)
            f0 = ovsmd.objective_alone(exact, problem)
            U = ovsmd.upper_bound(exact, state.level, problem.dual_set)
            if self.stopping == "practical":
                ended = ended & (U < 0)
        else:
            f0 = call.mean[..., 0]
            if bool((first & ended).any()):
                margin = ovsmd.margin(call, share_of_failure(self.delta, state.outer))
                f0 = ovsmd.objective_alone(problem.dual_set.highest(call.mean, margin), problem)
        halt = ended & ~first & (-self.optimality_tolerance <= U) if self.optimality_tolerance > 0 else ended & False
        moved = torch.where(first, f0, state.level + U / (2 * self.theta))
        again = ended & ~halt
        return replace(
            state,
            output=torch.where(ended.unsqueeze(-1), call.average, state.output),
            outer=state.outer + ended,
            level=torch.where(again, moved, state.level),
            upper=torch.where(ended, U, state.upper),
            lower=torch.where(ended, ovsmd.lower_bound(call, problem.domain), state.lower),
            halted=state.halted | halt,
            call=self._restarted(call, problem, again),
        )

    def _restarted(self, call: Call, problem: Problem, ended: Tensor) -> Call:
        """Line 2 of Algorithm 3 for the runs whose call has ended;
        the average stays to be looked at until its first iterate."""
        if self.restart == "centre":
            begun = ovsmd.fresh(problem, problem.domain.prox_centre(call.x))
        else:
            begun = ovsmd.fresh(problem, call.x)
            shut = call.y[..., :1] <= 0  # after the call that looked at the constraints alone
            begun = replace(begun, y=torch.where(shut, begun.y, (1 - CENTRE) * call.y + CENTRE * begun.y))
        return ovsmd.choose(ended, replace(begun, average=call.average), call)
