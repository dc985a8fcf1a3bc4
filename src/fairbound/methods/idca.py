"""IDCA: the inexact algorithm for differences of convex functions, in objective and constraints.

Every function is F = F+ - F-, both convex. From w_k, which meets the bounds,

    v  <-  nearly argmin F_0+(v) - F_0-(w_k) - <s_0, v - w_k>
           subject to    F_i+(v) - F_i-(w_k) - <s_i, v - w_k> <= 0,        s a subgradient of F- at w_k
    w_k+1 <- a point of the segment from w_k to v, far along it, that meets the bounds and lowers F_0

with bounds that are tighter by `room` in the model, so that its nearly feasible solution is feasible.

The model lies above F and touches it at w_k, so that its feasible points are feasible and its decrease is one of F.
Another method, `inner`, solves it; by default an augmented Lagrangian with L-BFGS inside, in the metric of the
curvature, which takes far fewer passes than subgradient steps.

`residual` says how nearly w_k is a KKT point: the largest of |v - w_k|, of the norm of F_0+'(v) - s_0 + sum_i y_i
(F_i+'(v) - s_i) with the best y >= 0, of the excess of F_i(w_k) and of y_i |F_i(w_k)|.

Source: He, Huang, Yao, Lin (2026), Algorithm 1, (31) to (33), Definition 6.2; G.9 for networks, whose model is solved
    by the stochastic method of Yu, Neely, Wei (2017).
Departs: iterates are moved back until they meet the bounds and the objective does not rise, where the source lets them
    lie eps_k outside. The default inner method is not the source's. The preset "paper" has neither: it takes what 200
    steps of its `ssg` end at. Its eps is the source's 1e-3, which bounds of (15) in the units of the metric make
    2 / |I| times as large, for intervals of 0.25 to 0.3. But that eps is the length of the objective's steps too, which
    are so about 7 times the source's; and bounds of (21), 1 / |I| times as large, have the same eps, about twice the
    source's. With `proximal` > 0 the objective has proximal/2 |v - w_k|^2 added, and so have the constraints where the
    parts are not convex: this is what becomes of the quadratic term that the source adds to both parts of every
    function. The preset "stochastic" is for networks and G.9: of many short models; the source does not say how long
    its are. Its steps are short because slopes of constraints on an interval are 2 / |I| times those of shares, and are
    divided by one more than the multipliers' sum (`normalised` of `ynw`), without which those of 200 constraints at
    once were too long.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from fairbound.base.checks import nonnegative, positive
from fairbound.base.errors import OptionError
from fairbound.methods.full_batch_alm import FullBatchALM
from fairbound.methods.method import Method, State, check_inner, check_needs, no_multipliers
from fairbound.methods.ssg import SSG
from fairbound.methods.ynw import YNW
from fairbound.problems.differences import Linearised
from fairbound.problems.penalised import Proximal
from fairbound.problems.problem import Draws, Problem, largest
from fairbound.problems.wrappers import Rebounded, counted_with
from fairbound.subproblems.multipliers import least_squares_multipliers

HALVINGS = 10
MOST_PRICED = 64
"""The residual looks for multipliers of so many constraints at most, the largest first."""

IDLE = 3
"""A run ends after so many models in a row that did not move its iterate."""


@dataclass(frozen=True, kw_only=True)
class IDCAState(State):
    """x: (..., n) w_k. residual: (...,) of Definition 6.2, infinite at first, NaN where it is not asked for. moved:
    (...,) share of the way to v that the last iterate went. idle: (...,) int64, models since it last moved at all."""

    residual: Tensor
    moved: Tensor
    idle: Tensor

    @property
    def shown(self) -> dict[str, Tensor]:
        """The residual of optimality, and how far the last step went."""
        return {"residual": self.residual, "moved": self.moved}


@dataclass(frozen=True, kw_only=True)
class IDCA(Method[IDCAState]):
    """For losses and bounds that are differences of convex functions: solves one convex model of them a step.

    Take it for `partial_*` bounds from a start that meets them; with `descent`, every later iterate meets them too.
    Formulas and source: help(fairbound.methods.idca).

    inner: the method that solves the models, by default one that takes far fewer passes than subgradient steps.
    inner_steps: its steps on each model.
    most_steps: its steps where the bounds are not met after `inner_steps`.
    room: >= 0, in the units of g, by which bounds are tighter in the model. The run ends near the optimum of these, so
        take less where 0.002 is much in the units of your g.
    proximal: >= 0, weight of the proximal term; needed (> 0) where the parts are not convex, as of networks.
    residuals: whether the residual is computed, at one call of the Jacobian a step.
    descent: whether iterates are moved back until they meet the bounds and the objective does not rise; a run then ends
        when its iterate no longer moves. Without it, as for an inner method of random batches, a model gets
        `inner_steps` steps and the next iterate is where they end. The next model begins at their multipliers, which
        few steps could not find anew.
    """

    inner: Any = field(
        default_factory=lambda: FullBatchALM(dual_values="surrogate", sharpness=(1.0,), iterations=30, penalty=3.0)
    )
    inner_steps: int = 1
    most_steps: int = 12
    room: float = 2e-3
    proximal: float = 0.0
    residuals: bool = True
    descent: bool = True

    name: ClassVar[str] = "idca"
    presets: ClassVar[dict[str, dict]] = {
        "paper": {"inner": SSG(tolerance=7e-3), "inner_steps": 200, "room": 0.0, "descent": False},
        "stochastic": {
            "inner": YNW(objective_weight=5e3, proximal=5e4, normalised=True),
            "inner_steps": 10,
            "room": 0.0,
            "proximal": 1.0,
            "residuals": False,
            "descent": False,
        },
    }
    record_every: ClassVar[int] = 1

    def __post_init__(self) -> None:
        positive(self, "inner_steps", "most_steps")
        nonnegative(self, "proximal", "room")
        check_inner(self)

    @property
    def _longest(self) -> int:
        return max(self.inner_steps, self.most_steps) if self.descent else self.inner_steps

    @property
    def needs(self) -> frozenset[str]:  # type: ignore[override]
        """A split into differences, and what the inner method needs but convexity, which the model has."""
        return frozenset({"differences"}) | (frozenset(self.inner.needs) - {"convex"})

    def init(self, problem: Problem, x: Tensor, draws: Draws) -> IDCAState:
        """At x (..., n). Raises: OptionError for parts that are not convex, without a proximal term."""
        if problem.plus is not None and not problem.plus.convex and not self.proximal:
            raise OptionError(
                "the parts of this problem are convex but for a quadratic term, as those of networks are: give idca proximal > 0."
            )
        return IDCAState(
            x=x,
            k=0,
            multipliers=no_multipliers(problem, x),
            residual=x.new_full(x.shape[:-1], torch.inf),
            moved=x.new_zeros(x.shape[:-1]),
            idle=torch.zeros(x.shape[:-1], dtype=torch.int64, device=x.device),
        )

    def step(self, state: IDCAState, problem: Problem, draws: Draws) -> IDCAState:
        """One model solved, and the way towards its solution as far as the bounds allow."""
        w = state.x
        model = counted_with(problem, lambda inside: self._model(inside, w))
        own = Draws(model, draws.seeds, draws.batch_size, draws.sampling, draws.first + state.k * self._longest)
        check_needs(self.inner, model)
        inside = self.inner.init(model, w.clone(), own)
        if state.k and not self.descent:
            inside = replace(inside, multipliers=state.multipliers.clone())
        everything = draws("all", 0, sampling="full")
        for done in range(1, self._longest + 1):
            inside = self.inner.step(inside, model, own)
            if inside.halted is not False and bool(torch.as_tensor(inside.halted).all()):
                break
            if (
                self.descent
                and done >= self.inner_steps
                and bool((largest(problem.values(inside.point, everything).g) <= 0).all())
            ):
                break
        v = inside.point.clone()
        residual = state.residual
        if self.residuals:
            residual = self._residual(problem, model, w, v, everything)
        moved = self._feasible_share(problem, w, v, everything) if self.descent else w.new_ones(w.shape[:-1])
        there = w + moved.unsqueeze(-1) * (v - w)
        idle = torch.where((there == w).all(-1), state.idle + 1, 0)
        w.copy_(there)
        ended = self.descent & (idle >= IDLE)
        return state.next(
            multipliers=inside.multipliers.clone(), residual=residual, moved=moved, idle=idle, halted=ended
        )

    def _model(self, problem: Problem, centre: Tensor) -> Problem:
        tighter = problem.bounds + centre.new_zeros(problem.m) - self.room
        model: Problem = Linearised(Rebounded(problem, tighter) if problem.m and self.room else problem, centre)
        if not self.proximal:
            return model
        return Proximal(model, centre.clone(), self.proximal, on_constraints=not model.convex)

    def _feasible_share(self, problem: Problem, w: Tensor, v: Tensor, batch: Any) -> Tensor:
        """(...,) how far towards v (..., n) the bounds are met and f is no higher than at w: 1, or what bisection
        finds; where w itself misses a bound, 1 if v misses it by less."""
        here, there = problem.values(w, batch), problem.values(v, batch)
        before, after = largest(here.g), largest(there.g)
        outside = before > 0
        good = torch.where(outside, after < before, (after <= 0) & (there.f <= here.f))
        low, high = good.to(w.dtype), torch.ones_like(before)
        for _ in range(HALVINGS):
            if bool((outside | good).all()):
                break
            middle = (low + high) / 2
            e = problem.values(w + middle.unsqueeze(-1) * (v - w), batch)
            met = (largest(e.g) <= 0) & (e.f <= here.f)
            low, high = torch.where(met, middle, low), torch.where(met, high, middle)
            low = torch.where(good, 1.0, torch.where(outside, 0.0, low))
        return low

    def _residual(self, problem: Problem, model: Problem, w: Tensor, v: Tensor, batch: Any) -> Tensor:
        """(...,) the residual at w (..., n) with v beside it."""
        g = problem.values(w, batch).g
        single = w.dim() == 1
        out = []
        for r in range(1 if single else len(w)):
            at, near, own, one = (w, v, g, model) if single else (w[r], v[r], g[r], model.of_run(r))
            active = [i for i in own.argsort(descending=True)[:MOST_PRICED].tolist() if own[i] > -0.1]
            y, stationarity = least_squares_multipliers(one, near, batch, active)
            excess = float(own.max().clamp_min(0)) if len(own) else 0.0
            slack = float((y * own.abs()).max()) if len(own) else 0.0
            out.append(max(float((near - at).norm()), stationarity, excess, slack))
        return w.new_tensor(out).reshape(w.shape[:-1])
