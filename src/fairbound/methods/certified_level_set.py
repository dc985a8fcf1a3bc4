"""Certified level sets: a feasible level-set method whose outer iterates are certified, not hoped, to be feasible.

    call k = 0, 1, ...:
        oracle       steps on  min_x max_{y in simplex}  y_0 (f(x) - r) + sum_i y_i (g_i(x) + tau),   warm x and y,
                     the level r moved along with f(x);  candidate c: the weighted mean of the steps so far
        certificate  U_i with g_i(c) <= U_i for all i, and U_f = f(c)  (`certificates`, level delta / 2^(k+1);
                     U_f is an estimate where rows are sampled)
        accept       c where all U_i < 0; else the mixture with a certified point a that convexity makes feasible
        level        x_out <- the accepted point, r <- its U_f, if that is less than r

Guarantee. P(every outer iterate is feasible) >= 1 - delta, whatever the oracle, its steps, its noise and its constants:
an outer iterate is certified, or a mixture of two points whose bounds were, and all certificates of a run hold together
with that probability. With certificate="exact" they cannot fail, and the probability is 1 (up to rounding). Feasibility
never rests on U_f; what is said of the level and the gap below is said of exact certificates.

Level. P(r, x) = max(f(x) - r, max_i g_i(x)), H(r) = min_x P(r, x). A certified U >= P(r, x) with U < 0 gives a feasible
x with f(x) <= r + U, so f* <= r + U: the level may move by all of U, where SFLS moves it by U / (2 theta), and stays
above f*. The same in terms of H, which is convex, non-increasing and has slope at least -1: -(r - f*) <= H(r) <= U. We
move it further still, to U_f <= r + U; r - f* is then an upper bound on the gap of the outer iterate.

Gap. With exact certificates and convex functions, a candidate c with f(c) <= f* + e and g_i(c) <= e, and a certified
point a with all g_i(a) <= -s, give a mixture with share l <= e / (e + s) of a, and so r - f* <= e + (e / s)
(f(a) - f*): the outer iterates converge with any oracle that does, in the usual sense of nearly optimal and nearly
feasible.

Oracle. Where r follows f(x), a fixed point has f(x) = r, g_i(x) <= -tau with equality where y_i > 0, and minimises y_0
f + sum_i y_i g_i: it solves the level-set problem at the level where H = -tau, without knowing that level. tau is some
standard errors of the mean of g_i at the time of the next certificate, so that it goes to 0 with the noise.
x moves by the distance reached from the start over the root of the summed squared gradients, y multiplicatively by
`dual_step` over the root of the summed squared spreads of its payoffs: no step depends on the scale of f, g or x.

Source: Lin, Nadarajah, Soheili, Yang (2020), Algorithms 1 and 3, and section 5.2, for the scheme; Ivgi, Hinder, Carmon
    (2023), "DoG is SGD's best friend", for the step of x; Shamir, Zhang (2013) for the weights of the mean.
Departs: all of the above; in particular calls are warm-started and end at set times, a call may end without an outer
    iterate, and the bounds (12) decide nothing. No rate is claimed: that of the source belongs to its steps and
    constants, and the steps here are known to converge for minimisation, not for saddle points.
    Convexity is used for mixing alone, and only on a problem that says `convex = True`; elsewhere a rejected candidate
    is dropped, and the guarantee is the same. Constraints that no batch can show (`Evaluation.seen`) are never
    certified.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from fairbound.base.checks import check_choice, nonnegative, positive
from fairbound.base.errors import OptionError
from fairbound.methods import certificates
from fairbound.methods.certificates import Bounds
from fairbound.methods.failing import share_of_failure
from fairbound.methods.method import Method, State
from fairbound.problems.problem import Draws, Evaluation, Problem

LEAST_ORACLE_ROWS, MOST_ORACLE_ROWS = 8, 32
LEAST_SAMPLED_ROWS = 1 << 15
LEAST_WEIGHT = 1e-3
"""Least weight in y of the objective, and of all constraints together, so that none is lost for good."""


@dataclass(frozen=True, kw_only=True)
class CertifiedState(State):
    """x: (..., n) the oracle's iterate; y: (..., 1 + m), objective first; multipliers: (..., m) y_i / y_0; average:
    (..., n) the next candidate; output: (..., n) the last outer iterate, before there is one the start; outer: (...,)
    how many there were; level: (...,) r, the bound U_f of the outer iterate, inf before there is one; upper: (...,) the
    last estimate of P(r, average).

    calls: how many have ended; due: the step at which the next ends. origin: (..., n) the start; reach: (...,) largest
    distance from it; square, dual_square: (...,) sums of the steps' denominators; caution: (...,) tau in standard
    errors;
    mean, variance: (..., 1 + m) of f and g over the steps.
    output_bounds, anchor_bounds: (..., 1 + m) bounds on f and g at the output and at the anchor (..., n), a certified
    point with room to spare; inf where there is none.
    """

    y: Tensor
    average: Tensor
    output: Tensor
    outer: Tensor
    level: Tensor
    upper: Tensor
    calls: int
    due: int
    origin: Tensor
    reach: Tensor
    square: Tensor
    dual_square: Tensor
    caution: Tensor
    mean: Tensor
    variance: Tensor
    output_bounds: Tensor
    anchor: Tensor
    anchor_bounds: Tensor

    @property
    def point(self) -> Tensor:
        """(..., n) the last outer iterate; before there is one the next candidate, which nothing is known of."""
        return torch.where((self.outer > 0).unsqueeze(-1), self.output, self.average)

    @property
    def shown(self) -> dict[str, Tensor]:
        """The level, and the last estimate of P there."""
        return {"level": self.level, "upper": self.upper}


@dataclass(frozen=True, kw_only=True)
class CertifiedLevelSet(Method[CertifiedState]):
    """For convex problems whose models on the way are used too: each one it returns is certified to meet every bound.

    Take it where a broken bound costs more than a slow descent; the guarantee needs no trust in its steps or batches.
    Formulas and source: help(fairbound.methods.certified_level_set).

    delta: the probability, in (0, 1), with which an outer iterate may be infeasible.
    certificate: "exact", a full pass; "sampled", only rows drawn (a problem with `ranges`; what they do not decide is
        not accepted); "both", first rows, up to half a pass, then the pass.
    certify: what is certified where training uses a surrogate: the "metric" itself, or the "surrogate", which is what
        the oracle can lower and what is convex. Both are the same g in a convex problem stated as such.
    oracle_rows: rows of an oracle step; the run's batch size is not used. None for a thousandth of the data, at least 8
        and at most 32: many small steps, as the noise is averaged out anyway.
    first_call: > 0, epochs of oracle steps before the first certificate.
    growth: >= 0; the next certificate comes after `first_call` epochs again, or after `growth` times the steps so far
        if more (sooner where a pass costs fewer rows than a step, as with a closed expectation).
    margin: >= 0, least tau in standard errors. tau is 1 of them until a point is certified; it is halved after a call
        with a new outer iterate, and doubled (to 1/2 at least) after one without.
    most_margin: >= margin, the largest tau.
    first_move: > 0, length of the first step of x, as a share of the domain's radius; in an unbounded domain as it is.
    dual_step: > 0, of y, relative.
    start_weight: y_0 at the start, in (0, 1).
    averaging: p >= 0; step t of the run weighs about t^p in the mean.
    """

    delta: float = 0.05
    certificate: Literal["exact", "sampled", "both"] = "exact"
    certify: Literal["metric", "surrogate"] = "metric"
    oracle_rows: int | None = None
    first_call: float = 0.75
    growth: float = 0.25
    margin: float = 0.1
    most_margin: float = 4.0
    first_move: float = 0.05
    dual_step: float = 0.2
    start_weight: float = 1 / 3
    averaging: float = 2.0

    name: ClassVar[str] = "certified_level_set"

    def __post_init__(self) -> None:
        positive(self, "delta", "first_call", "first_move", "dual_step", "start_weight", "oracle_rows")
        nonnegative(self, "growth", "margin", "most_margin", "averaging")
        if not (self.delta < 1 and self.start_weight < 1):
            raise OptionError(f"delta and start_weight must be below 1, got {self.delta} and {self.start_weight}.")
        if self.most_margin < self.margin:
            raise OptionError(f"most_margin must be at least margin, got {self.most_margin} < {self.margin}.")
        check_choice("certify", self.certify, ("metric", "surrogate"))
        check_choice("certificate", self.certificate, ("exact", "sampled", "both"))

    @property
    def needs(self) -> frozenset[str]:  # type: ignore[override]
        """Unbiased batches, where certificates rest on rows drawn."""
        return frozenset() if self.certificate == "exact" else frozenset({"unbiased"})

    def init(self, problem: Problem, x: Tensor, draws: Draws) -> CertifiedState:
        """Nothing certified yet but, where that is free, the start x (..., n).

        Raises: OptionError for sampled certificates of a problem without `ranges`.
        """
        lead, m = x.shape[:-1], problem.m
        if self.certificate != "exact":
            certificates.check_ranges(problem, x)
        y = x.new_full((*lead, 1 + m), (1 - self.start_weight) / max(m, 1))
        y[..., 0] = self.start_weight if m else 1.0
        nothing = x.new_full((*lead, 1 + m), torch.inf)
        anchor_bounds, size = nothing, self._oracle_rows(problem)
        start = certificates.free(problem, x, draws, size, self.certify == "metric")
        if start is not None:
            known = torch.cat([start.f.unsqueeze(-1), start.upper], -1)
            good = _below(start.upper, 2 * certificates.rounding(problem, start.upper))
            anchor_bounds = torch.where(good, known, nothing)
        return CertifiedState(
            x=x,
            k=0,
            multipliers=y[..., 1:] / y[..., :1],
            y=y,
            average=x.clone(),
            output=x.clone(),
            outer=torch.zeros(lead, dtype=torch.int64, device=x.device),
            level=x.new_full(lead, torch.inf),
            upper=x.new_full(lead, torch.inf),
            calls=0,
            due=self._call_length(problem, size, 0),
            origin=x.clone(),
            reach=x.new_full(lead, self._first_reach(problem)),
            square=x.new_zeros(lead),
            dual_square=x.new_zeros(lead),
            caution=x.new_full(lead, self.margin).masked_fill(
                torch.isinf(anchor_bounds[..., 0]), max(self.margin, min(1.0, self.most_margin))
            ),
            mean=x.new_zeros(*lead, 1 + m),
            variance=x.new_zeros(*lead, 1 + m),
            output_bounds=nothing,
            anchor=x.clone(),
            anchor_bounds=anchor_bounds,
        )

    def step(self, state: CertifiedState, problem: Problem, draws: Draws) -> CertifiedState:
        """A step of the oracle, and the certificate of its candidate where it is due."""
        size, y = self._oracle_rows(problem), state.y
        e, s = problem.gradient(state.x, draws("oracle", state.k, size), lambda e: (y[..., :1], y[..., 1:]))
        assert e is not None
        state = self._averaged(state, e)
        state = self._dual(state, problem, e)
        x, square = state.x, state.square + s.square().sum(-1)
        size_of = torch.where(square > 0, state.reach / square.sqrt().clamp_min(torch.finfo(x.dtype).tiny), 0.0)
        x.copy_(problem.domain.project(x - size_of.unsqueeze(-1) * s))
        reach = torch.maximum(state.reach, (x - state.origin).norm(dim=-1))
        state = state.next(square=square, reach=reach)
        return self._call_ended(state, problem, draws) if state.k >= state.due else state

    def _averaged(self, state: CertifiedState, e: Evaluation) -> CertifiedState:
        """The step taken into the means, before x moves: the weight of step t is proportional to about t^p."""
        new = (self.averaging + 1) / (state.k + 1 + self.averaging)
        F = torch.cat([e.f.unsqueeze(-1), e.g if e.seen is None else torch.where(e.seen, e.g, state.mean[..., 1:])], -1)
        off = F - state.mean
        mean = state.mean + new * off
        return replace(
            state,
            average=state.average + new * (state.x - state.average),
            mean=mean,
            variance=state.variance + new * (off * (F - mean) - state.variance),
        )

    def _dual(self, state: CertifiedState, problem: Problem, e: Evaluation) -> CertifiedState:
        """y after a multiplicative step along (f - r, g + tau) with r = f: the objective's payoff is 0."""
        y = state.y
        if not problem.m:
            return state
        p = self.averaging
        errors = (state.variance[..., 1:].clamp_min(0) * ((p + 1) ** 2 / ((2 * p + 1) * state.due))).sqrt()
        payoff = e.g + state.caution.unsqueeze(-1) * errors
        if e.seen is not None:
            payoff = torch.where(e.seen, payoff, 0.0)
        payoff = torch.cat([torch.zeros_like(payoff[..., :1]), payoff], -1)
        spread = (payoff - (y * payoff).sum(-1, keepdim=True)).abs().amax(-1)
        dual_square = state.dual_square + spread.square()
        rate = torch.where(
            dual_square > 0, self.dual_step / dual_square.sqrt().clamp_min(torch.finfo(y.dtype).tiny), 0.0
        )
        y = torch.softmax(y.log() + rate.unsqueeze(-1) * payoff, dim=-1)
        least = torch.full_like(y, LEAST_WEIGHT / problem.m)
        least[..., 0] = LEAST_WEIGHT
        y = torch.maximum(y, least)
        y = y / y.sum(-1, keepdim=True)
        return replace(state, y=y, multipliers=y[..., 1:] / y[..., :1], dual_square=dual_square)

    def _call_ended(self, state: CertifiedState, problem: Problem, draws: Draws) -> CertifiedState:
        """The candidate certified, and what follows from it for the outer iterate and the level."""
        size = self._oracle_rows(problem)
        output, best, outer = state.output, state.output_bounds, state.outer
        anchor, anchor_bounds = state.anchor, state.anchor_bounds
        partners = ((state.anchor, state.anchor_bounds), (state.output, state.output_bounds))
        cheap = problem.rows <= size  # than a step: then the last iterate is a candidate as well
        for turn, candidate in enumerate((state.average, state.x.clone()) if cheap else (state.average,)):
            bounds = self._certified(problem, draws, candidate, 2 * state.calls + turn if cheap else state.calls)
            own = torch.cat([bounds.f.unsqueeze(-1), bounds.upper], -1)
            slack = certificates.rounding(problem, bounds.upper)
            options = [(candidate, own)]
            if problem.convex:
                options += [_mixture(candidate, bounds, point, known, slack) for point, known in partners]
            for point, known in options:
                better = _below(known[..., 1:], slack) & (known[..., :1] < best[..., :1])
                output, best = torch.where(better, point, output), torch.where(better, known, best)
            first = _below(bounds.upper, 2 * slack) & torch.isinf(anchor_bounds[..., :1])
            anchor, anchor_bounds = torch.where(first, candidate, anchor), torch.where(first, own, anchor_bounds)
        gained = best[..., 0] < state.output_bounds[..., 0]
        caution = torch.where(gained, state.caution / 2, (2 * state.caution).clamp_min(0.5))
        caution = caution.clamp(self.margin, self.most_margin)
        worst = state.mean[..., 1:].amax(-1) if problem.m else torch.full_like(state.level, -torch.inf)
        due = state.k + self._call_length(problem, size, state.k)
        return replace(
            state,
            output=output,
            output_bounds=best,
            outer=outer + gained,
            level=torch.where(gained, best[..., 0], state.level),
            upper=torch.maximum(state.mean[..., 0] - state.level, worst),
            calls=state.calls + 1,
            due=due,
            caution=caution,
            anchor=anchor,
            anchor_bounds=anchor_bounds,
        )

    def _certified(self, problem: Problem, draws: Draws, x: Tensor, call: int) -> Bounds:
        """Bounds at x by the configured certificate; `call` numbers the run's certificates."""
        true = self.certify == "metric"
        if self.certificate == "exact":
            return certificates.exact(problem, x, draws, call, true)
        delta = share_of_failure(self.delta, call)
        limit = problem.rows // 2 if self.certificate == "both" else max(problem.rows, LEAST_SAMPLED_ROWS)
        found = certificates.sampled(problem, x, draws, call, self._oracle_rows(problem), delta, limit, true)
        if self.certificate == "sampled" or bool(found.decided.all()):
            return found
        whole = certificates.exact(problem, x, draws, call, true)
        keep = found.decided
        return Bounds(
            torch.where(keep, found.f, whole.f),
            torch.where(keep.unsqueeze(-1), found.upper, whole.upper),
            torch.ones_like(keep),
        )

    def _oracle_rows(self, problem: Problem) -> int:
        return self.oracle_rows or min(MOST_ORACLE_ROWS, max(LEAST_ORACLE_ROWS, problem.rows // 1000))

    def _first_reach(self, problem: Problem) -> float:
        radius = math.sqrt(2 * problem.domain.squared_diameter(problem.n))
        return self.first_move * (radius if math.isfinite(radius) else 1.0)

    def _call_length(self, problem: Problem, size: int, k: int) -> int:
        """Oracle steps from step k to the next certificate."""
        growth = self.growth * min(1.0, problem.rows / size)
        return max(1, math.ceil(self.first_call * problem.rows / size), math.ceil(growth * k))


def _mixture(candidate: Tensor, bounds: Bounds, point: Tensor, known: Tensor, slack: Tensor) -> tuple[Tensor, Tensor]:
    """The feasible mixture of a candidate with a certified point, and its bounds (..., 1 + m)."""
    mix = certificates.mixed(bounds.f, bounds.upper, known[..., 0], known[..., 1:], 2 * slack)
    share = mix.share.unsqueeze(-1)
    return share * point + (1 - share) * candidate, torch.cat([mix.f.unsqueeze(-1), mix.upper], -1)


def _below(upper: Tensor, slack: Tensor) -> Tensor:
    """(..., 1) whether all bounds (..., m) are at most -slack (...,)."""
    return (upper <= -slack.unsqueeze(-1)).all(-1, keepdim=True)
