"""Augmented Lagrangian on all rows at once: L-BFGS inside, surrogates that sharpen, and multipliers of the true metric.

    round k, with surrogates g^s of sharpness s = s_k and offsets c = g(x) - g^s(x):
        x <- argmin f(x) + sum_i [y_i + rho_i (g^s_i(x) + c_i + a_i)]_+^2 / (2 rho_i)    by L-BFGS, from the x before
        y <- [y + rho (g(x) + a)]_+,   c <- g(x) - g^s(x),   a_i <- 2 a_i where g_i(x) > 0
        rho_i <- 4 rho_i where g_i(x) > 0 is more than three quarters of what it was a round before

g is the stated metric, of decisions. Where x no longer moves, g^s + c = g: the bound is met by the metric itself, with
equality where it costs something, while only g^s is differentiated. A smooth surrogate may bend another way than the
metric, so that the offsets chase it for ever; s rises from 1, where the problem is nearly convex, until both agree.

A penalty rho that is too small for a bound lets its multiplier creep for many rounds; it grows, to 16 times at most, in
rounds of the last sharpness.

"Shifted" multipliers are y <- [y + rho (g^s(x) + c + a)]_+ with the c of the round. The metric then moves y through the
next c alone, so that the error of a surrogate of rates does not count twice, which would send x to and fro. Where the
metric changes more than twice as fast as a gentle surrogate, a c that goes all the way to g(x) - g^s(x) sends x to and
fro as well. So each c_i goes to where the secant through the last two rounds says that it agrees with the metric:

        e_i = g_i(x) - g^s_i(x) - c_i,   t_i <- t_i e_i^before / (e_i^before - e_i) within [LEAST, 1],   c_i <- c_i + t_i e_i

It is for problems whose rows fit in memory and whose models are small: nothing is random, and some 15 rounds of 2 to 10
passes each do, as L-BFGS begins each round of one sharpness with the curvature that it learnt in the one before.

Source: Nocedal and Wright (2006), chapter 17 (augmented Lagrangian, and a penalty that grows) and chapter 7 (L-BFGS);
    Cotter et al. (2019), Two-player games for efficient non-convex constrained optimization, for multipliers driven by
    the true constraints.
Departs: surrogates are shifted by c to the metric's value; they sharpen between rounds; a_i >= 0 keeps x inside a bound
    that rates of few rows jump over; the first y are the least-squares multipliers at the start, so that a run may
    begin at the solution of another bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from scipy.linalg import solve_triangular
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from fairbound.base.checks import check_choice, limit, positive, share
from fairbound.base.errors import OptionError
from fairbound.methods.method import Method, State, no_multipliers
from fairbound.problems.problem import Draws, Evaluation, Problem
from fairbound.subproblems.descent import descended, no_pairs
from fairbound.subproblems.multipliers import least_squares_multipliers, nearly_active

RIDGE = 1e-4
"""Share of the mean diagonal that is added to the curvature, so that constant columns have an inverse."""

SLOW, GROWTH, MOST_GROWTH = 0.75, 4.0, 16.0
"""The penalty of a bound is multiplied by GROWTH, to MOST_GROWTH times the first, where a round leaves more than SLOW of
what exceeded the bound."""

LEAST = 0.1
"""Share of `relaxation` that an offset of shifted multipliers goes of its way at least."""

_FACTORS = WeakTensorKeyDictionary()


@dataclass(frozen=True, kw_only=True)
class FullBatchALMState(State):
    """offset, margin: c and a (..., m). growth: (..., m) rho by the first rho. excess: (..., m) g after the round before,
    of the last sharpness. share: (..., m) of the way that c last went to g(x) - g^s(x). gap: (..., m) g(x) - g^s(x) - c
    before it did, of the last sharpness; 0 before its first round. lowest: (...,) the lowest objective of a round of the
    last sharpness that met every bound. idle: (...,) int64, rounds since it fell that met them, or that changed nothing.
    pairs: (..., 2, PAIRS, n), what L-BFGS knows of the curvature; (..., 2, PAIRS, 0) where rounds do not keep it."""

    offset: Tensor
    margin: Tensor
    growth: Tensor
    excess: Tensor
    share: Tensor
    gap: Tensor
    lowest: Tensor
    idle: Tensor
    pairs: Tensor


@dataclass(frozen=True, kw_only=True)
class FullBatchALM(Method[FullBatchALMState]):
    """For small models on rows that fit in memory: L-BFGS on all rows, with a multiplier of every broken bound.

    Take it first for linear models, as `auto` does; for large networks and modules take `alm`.
    Formulas and source: help(fairbound.methods.full_batch_alm).

    sharpness: factors > 0 on the surrogates' own sharpness, from the first rounds to the last; 1 alone in the preset
        "rankings", as steep surrogates of pairs bend in many places, and in the preset "rates", for bounds on rates of
        decisions: steep surrogates meet these by moving the few rows near the threshold, which says little of new rows.
    rounds_each: rounds at each sharpness but the last, which holds until the run ends.
    iterations: L-BFGS iterations of a round at most; the preset "thresholds", for bounds that train thresholds beside
        the model, has 100: with fewer, rounds end before their minimum, and runs at poor points.
    penalty: > 0, rho at first, times the problem's `dual_scale`.
    multiplier_bound: > 0, may be infinite; y stays in [0, multiplier_bound].
    keep_curvature: whether L-BFGS begins a round with the curvature that it learnt in the one before, of the same
        sharpness; False in the preset "thresholds", as at the kinks of bounds with thresholds it would lead astray.
    relaxation: share of the way, in (0, 1], that c goes to g(x) - g^s(x) in rounds of the last sharpness; with shifted
        multipliers the largest such share. Below 1 where each round would overshoot the one before, as where c is that of
        the worst of many scores; 0.5 in the preset "thresholds".
    margin: a at first, as a share of each bound in [0, 1); it grows where a round of the last sharpness ends outside, up
        to half of the bound, or this share of it where that is more.
    margin_grows: "doubled"; "after_offsets", doubled only where a round is outside by more than twice what c has yet to
        go, as in the preset "rates", where rounds are outside as long as c is far from what it comes to; or "by_excess",
        doubled, or by what the bound was exceeded by where that is more. The last is for so many rows that each round is
        dear: the run ends with the first round that comes inside from outside, and `solve` then goes back to the bound.
    patience: the run ends where the objective hardly fell in so many rounds of the last sharpness that met every bound.
        With shifted multipliers, once a round has met every bound, one counts too in which the augmented Lagrangian
        hardly fell.
    tolerance: > 0; "hardly" is by less than this times the objective's size.
    rounds: the run ends after so many in any case.
    unmet: the run ends after so many rounds where none of the last sharpness met every bound.
    dual_values: "true" for multipliers and offsets of the stated metric; "shifted" for multipliers of the surrogates
        with their offsets, for bounds that are contrasts of means, as in the presets "rankings" and "rates"; "surrogate"
        solves the problem that training differentiates, at the last sharpness, without offsets.
    """

    sharpness: tuple[float, ...] = (1.0, 3.0, 8.0)
    rounds_each: int = 2
    iterations: int = 8
    penalty: float = 10.0
    multiplier_bound: float = 1000.0
    keep_curvature: bool = True
    relaxation: float = 1.0
    margin: float = 0.005
    margin_grows: Literal["doubled", "after_offsets", "by_excess"] = "doubled"
    patience: int = 2
    tolerance: float = 1e-4
    rounds: int = 40
    unmet: int = 40
    dual_values: Literal["true", "shifted", "surrogate"] = "true"

    name: ClassVar[str] = "full_batch_alm"
    presets: ClassVar[dict[str, dict]] = {
        "thresholds": {"iterations": 100, "relaxation": 0.5, "keep_curvature": False},
        "rankings": {"sharpness": (1.0,), "dual_values": "shifted"},
        "rates": {"sharpness": (1.0,), "dual_values": "shifted", "margin_grows": "after_offsets"},
    }
    needs: ClassVar[frozenset[str]] = frozenset({"space"})
    record_every: ClassVar[int] = 1
    partial: ClassVar[bool] = True
    searches_at_end: ClassVar[bool] = True
    margin_is_share: ClassVar[bool] = True
    all_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        positive(self, "rounds_each", "iterations", "penalty", "patience", "tolerance", "rounds", "unmet", "relaxation")
        limit(self, "multiplier_bound")
        share(self, "margin")
        if not self.relaxation <= 1:
            raise OptionError(f"relaxation must lie in (0, 1], got {self.relaxation!r}.")
        check_choice("dual_values", self.dual_values, ("true", "shifted", "surrogate"))
        check_choice("margin_grows", self.margin_grows, ("doubled", "after_offsets", "by_excess"))
        if not self.sharpness or not all(0 < s < math.inf for s in self.sharpness):
            raise OptionError(f"sharpness must be one or more positive numbers, got {self.sharpness!r}.")

    def init(self, problem: Problem, x: Tensor, draws: Draws) -> FullBatchALMState:
        """At x (..., n), with the multipliers that make it most nearly stationary."""
        runs = _runs(problem, x, draws)
        made = [self._first(one, row, own) for one, row, own in runs]
        y, offset = (torch.stack(part).view(*x.shape[:-1], problem.m) for part in zip(*made, strict=True))
        lead = x.shape[:-1]
        return FullBatchALMState(
            x=x,
            k=0,
            multipliers=y,
            halted=torch.zeros(lead, dtype=torch.bool),
            offset=offset,
            margin=self.margin * (no_multipliers(problem, x) + problem.bounds),
            growth=torch.ones_like(y),
            excess=torch.full_like(y, torch.inf),
            share=torch.full_like(y, self.relaxation),
            gap=torch.zeros_like(y),
            lowest=x.new_full(lead, torch.inf),
            idle=torch.zeros(lead, dtype=torch.int64),
            pairs=torch.from_numpy(no_pairs(problem.n if self.keep_curvature else 0)).to(x).repeat(*lead, 1, 1, 1),
        )

    def step(self, state: FullBatchALMState, problem: Problem, draws: Draws) -> FullBatchALMState:
        """One round, of every run that has not ended."""
        single = state.x.dim() == 1
        fields = (
            "multipliers",
            "offset",
            "margin",
            "growth",
            "excess",
            "lowest",
            "idle",
            "halted",
            "pairs",
            "share",
            "gap",
        )
        new = {name: getattr(state, name).clone() for name in fields}
        for r, (one, x, own) in enumerate(_runs(problem, state.x, draws)):
            at = ... if single else r
            if new["halted"][at]:
                continue
            for name, value in self._round(state.k, one, x, own, {name: v[at] for name, v in new.items()}).items():
                new[name][at] = value
        return state.next(**new)

    def _stage(self, k: int) -> int:
        """The place in `sharpness` of round k."""
        return min(k // self.rounds_each, len(self.sharpness) - 1)

    def _first(self, problem: Problem, x: Tensor, draws: Draws) -> tuple[Tensor, Tensor]:
        """The least-squares multipliers (m,) at x, of the bounds that it does not meet with room,
        and the offsets (m,)."""
        everything = draws("full", 0, sampling="full")
        sharp = problem.sharpened(self.sharpness[0])
        e, trained = self._both(problem, sharp, x, everything)
        if trained.subset is not None:
            raise OptionError(
                f"{self.name} takes all rows at once, and this problem's batch of all rows speaks of some constraints only. "
                "Give evaluations of a batch of kind 'full' without a `subset`, or take a method such as alm."
            )
        g, surrogate = e.g, trained.g
        y = least_squares_multipliers(sharp, x, everything, nearly_active(problem, g))[0]
        return y.clamp_max(self.multiplier_bound), g - surrogate

    def _round(self, k: int, problem: Problem, x: Tensor, draws: Draws, state: dict[str, Tensor]) -> dict[str, Any]:
        """One round (see the module's docstring) of one run, whose x (n,) moves in place: its changed fields."""
        everything = draws("full", 0, sampling="full")
        stage = self._stage(k)
        last = stage == len(self.sharpness) - 1
        sharp = problem.sharpened(self.sharpness[stage])
        rho, y, margin = self.penalty * problem.dual_scale * state["growth"], state["multipliers"], state["margin"]
        offset, known = state["offset"], state["pairs"]
        if k and self._stage(k - 1) != stage:
            e, trained = self._both(problem, sharp, x, everything)
            offset = e.g - trained.g
        if self._stage(k - 1) != stage:
            known = torch.zeros_like(known)

        seen: list[float] = []

        def lagrangian(at: Tensor) -> tuple[float, Tensor]:
            w = y

            def weights(e: Evaluation) -> tuple[float, Tensor]:
                nonlocal w
                w = (y + rho * (e.g + offset + margin)).clamp_min(0)
                return 1.0, w

            e, slope = sharp.gradient(at, everything, weights)
            assert e is not None
            seen.append(float(e.f) + float((w.square() / (2 * rho)).sum()))
            return seen[-1], slope

        found, pairs = minimised(lagrangian, x, problem.curvature(), self.iterations, known)
        x.copy_(found)
        e, trained = self._both(problem, sharp, x, everything)
        g = trained.g + offset if self.dual_values == "shifted" else e.g
        y = (y + rho * (g + margin)).clamp(0, self.multiplier_bound)
        gap, share = e.g - trained.g - offset, state["share"]
        if last and self.dual_values == "shifted":
            share = _by_secant(share, state["gap"], gap, self.relaxation)
        offset = offset + (share if last else 1.0) * gap
        out: dict[str, Any] = {"multipliers": y, "offset": offset, "pairs": pairs[..., : known.shape[-1]]}
        if not last:
            return out
        outside = e.g > 0
        slow = (state["excess"] > 0) & (e.g > SLOW * state["excess"])
        out |= {"excess": e.g, "share": share, "gap": gap}
        out["growth"] = torch.where(slow, (GROWTH * state["growth"]).clamp_max(MOST_GROWTH), state["growth"])
        if outside.any():
            larger = torch.maximum(2 * margin, margin + e.g) if self.margin_grows == "by_excess" else 2 * margin
            larger = torch.minimum(larger, torch.maximum(margin, 0.5 * problem.bounds + 0 * margin))
            lacking = outside & (gap < e.g / 2) if self.margin_grows == "after_offsets" else outside
            out["margin"] = torch.where(lacking, larger, margin)
            still = seen[0] - min(seen) < self.tolerance * abs(float(e.f)) and float(state["lowest"]) < np.inf
            out["idle"] = int(state["idle"]) + (still and self.dual_values == "shifted")
        else:
            fell = float(e.f) < float(state["lowest"]) - self.tolerance * abs(float(e.f))
            out["lowest"] = min(float(e.f), float(state["lowest"]))
            out["idle"] = 0 if fell else int(state["idle"]) + 1
        never = k + 1 >= self.unmet and float(out.get("lowest", state["lowest"])) == np.inf
        was_outside = bool(((state["excess"] > 0) & state["excess"].isfinite()).any())
        came_in = self.margin_grows == "by_excess" and was_outside and not outside.any()
        out["halted"] = out.get("idle", 0) >= self.patience or k + 1 >= self.rounds or never or came_in
        return out

    def _both(self, problem: Problem, sharp: Problem, x: Tensor, batch: Any) -> tuple[Evaluation, Evaluation]:
        """At x (n,) what multipliers follow, the metric or its surrogates of now, and these surrogates."""
        trained = sharp.values(x, batch)
        return (trained if self.dual_values == "surrogate" else problem.values(x, batch, true=True)), trained


def _runs(problem: Problem, x: Tensor, draws: Draws) -> list[tuple[Problem, Tensor, Draws]]:
    """Each run of x (..., n) with its problem and its draws."""
    if x.dim() == 1:
        return [(problem, x, draws)]
    return [
        (problem.of_run(r), x[r], Draws(problem.of_run(r), (seed,), draws.batch_size, draws.sampling))
        for r, seed in enumerate(draws.seeds)
    ]


def _by_secant(share: Tensor, before: Tensor, gap: Tensor, most: float) -> Tensor:
    """Shares (m,) of the way to go, where going these `share` brought the gaps (m,) from `before` to `gap`: so far that a
    gap closes which changes at the same pace, within [LEAST most, most]; as far as last time where it grows or there was
    none."""
    ratio = before / (before - gap)
    return torch.where(ratio.isfinite() & (ratio > 0), (share * ratio).clamp(LEAST * most, most), share)


def _factored(curvature: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """(n, n) L and its inverse, where L L' is the curvature and a little of the identity.
    Kept as long as the curvature is."""
    if curvature not in _FACTORS:
        ridge = RIDGE * curvature.diagonal().mean().clamp_min(RIDGE) * torch.eye(len(curvature), dtype=torch.float64)
        factor = np.linalg.cholesky((curvature.double().cpu() + ridge).numpy())
        _FACTORS[curvature] = factor, solve_triangular(factor, np.eye(len(factor)), lower=True)
    return _FACTORS[curvature]


def minimised(
    value_and_slope: Any, x: Tensor, curvature: Tensor | None, iterations: int, pairs: Tensor
) -> tuple[Tensor, Tensor]:
    """A point of lower value than x (n,), by L-BFGS in the coordinates z = L' x, where L L' is the curvature (n, n);
    and the pairs that `descended` hands on to the next round. pairs: those of the round before."""
    factor, back = (None, None) if curvature is None else _factored(curvature)
    start = x.double().cpu().numpy()

    def point(z: np.ndarray) -> Tensor:
        return torch.from_numpy(z if back is None else back.T @ z).to(x)

    def of(z: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = value_and_slope(point(z))
        s = slope.double().cpu().numpy()
        return value, s if back is None else back @ s

    z, learnt = descended(of, start if factor is None else factor.T @ start, pairs.double().cpu().numpy(), iterations)
    return point(z), torch.from_numpy(learnt).to(pairs)
