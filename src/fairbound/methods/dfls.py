"""Deterministic feasible level sets (DFLS): subgradient descent on the worst of objective and constraints, level by
level.

With P(r, x) = max {f(x) - r, g_1(x), ..., g_m(x)} and H(r) = min_x P(r, x), a point with P(r, x) < 0 is feasible and
has f(x) < r. Every outer iteration k descends on P(r_k, .) with full gradients and lowers the level by what it reached:

    x <- Proj(x - gamma_t s),  s in the subdifferential of P(r_k, .) at x,  gamma_t = step_size / sqrt(t + 1)
    r_{k+1} = r_k + P(r_k, x_k) / 2                 x_k: the point of the call with the least P, the k-th outer iterate

H is convex and non-increasing with slope at least -1 and H(f*) = 0 (Lemma 1), so r_{k+1} stays above f*.

Source: Lin, Nadarajah, Soheili, Yang (2020), section 6.1, after Lin, Nadarajah and Soheili, "A level-set method for
    convex optimization with a feasible solution path" (SIAM Journal on Optimization, 2018).
Departs: the source does not say when a call ends. The subgradient method is at most
    (|x_0 - x*|^2 + sum gamma_t^2 |s_t|^2) / (2 sum gamma_t) above H(r), and that bound with the diameter of the domain
    for |x_0 - x*| stays useless for thousands of passes. Here the distance |x_0 - x_t| covered so far takes its place,
    and a call ends once this error is at most `relative_error` times |P(r, x_k)|, where P is negative. The level is
    lowered by |H| / 2 up to a factor as the theory asks, calls grow longer near f* by themselves, and x_k is feasible
    and r_{k+1} above f* whatever the error. The next call starts from x_k, with t = 0.
    Without `level` (the source's r_0) r is infinite at first, so that the method descends on the worst constraint
    alone, and the first strictly feasible point found, the start where it is one, gives r_0 = f(x).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from fairbound.base.checks import number, positive
from fairbound.methods.method import Method, State, no_multipliers
from fairbound.problems.problem import Draws, Evaluation, Problem, largest


@dataclass(frozen=True, kw_only=True)
class DFLSState(State):
    """x: (..., n) latest iterate of the call, t: (...,) its number there; origin: (..., n) where the call began;
    weight, spread: (...,) sums of gamma_t and of gamma_t^2 |s_t|^2. best: (..., n) the call's point with the least P;
    upper:
    (...,) that P, an upper bound of H(level), infinite before the first. output: (..., n) the last outer iterate, the
    start until there is one; outer: (...,) how many there are; level: (...,) r. multipliers: (..., m) one for the
    constraint whose subgradient the last step took, else zero: all zero where it was the objective's."""

    t: Tensor
    origin: Tensor
    weight: Tensor
    spread: Tensor
    best: Tensor
    upper: Tensor
    output: Tensor
    outer: Tensor
    level: Tensor

    @property
    def point(self) -> Tensor:
        """(..., n) the last outer iterate; until there is one, the point with the least P."""
        return torch.where((self.outer > 0).unsqueeze(-1), self.output, self.best)

    @property
    def shown(self) -> dict[str, Tensor]:
        """The level, and the upper bound of H there."""
        return {"level": self.level, "upper": self.upper}


@dataclass(frozen=True, kw_only=True)
class DFLS(Method[DFLSState]):
    """For convex problems on all rows: descends on the worst of loss and bounds, and lowers what it asks of the loss.

    Take it to compare with `sfls` and the methods of its paper: no outer iterate breaks a bound, but each step is a
    full pass.
    Formulas and source: help(fairbound.methods.dfls).

    step_size: > 0, c of gamma_t = c / sqrt(t + 1).
    relative_error: > 0; a call ends once its estimated error is at most this multiple of |P|; smaller means longer
        calls.
    level: r_0, above f* (no point with P < 0 exists otherwise); None for f at the first strictly feasible point.
    """

    step_size: float = 0.05
    relative_error: float = 10.0
    level: float | None = None

    name: ClassVar[str] = "dfls"
    all_rows: ClassVar[bool] = True
    presets: ClassVar[dict[str, dict]] = {
        "paper-neyman-pearson": {"step_size": 0.05, "level": 3.0},
        "paper-fair": {"step_size": 0.05, "level": 1.0},
    }

    def __post_init__(self) -> None:
        positive(self, "step_size", "relative_error")
        number(self, "level")

    def init(self, problem: Problem, x: Tensor, draws: Draws) -> DFLSState:
        """A call about to begin at x (..., n)."""
        lead = x.shape[:-1]
        none = torch.zeros(lead, dtype=torch.int64, device=x.device)
        return DFLSState(
            x=x,
            k=0,
            multipliers=no_multipliers(problem, x),
            t=none,
            origin=x.clone(),
            weight=x.new_zeros(lead),
            spread=x.new_zeros(lead),
            best=x.clone(),
            upper=x.new_full(lead, torch.inf),
            output=x.clone(),
            outer=none,
            level=x.new_full(lead, torch.inf if self.level is None else self.level),
        )

    def step(self, state: DFLSState, problem: Problem, draws: Draws) -> DFLSState:
        """One subgradient step on P(r, .), before which the call may end."""
        x, everything = state.x, draws("all", 0, sampling="full")
        e, s = problem.gradient(x, everything, lambda e: _worst(self._judged(state, e)[0], e))
        assert e is not None
        state, back = self._judged(state, e)
        size = self.step_size / (state.t + 1).to(x.dtype).sqrt()
        moved = problem.domain.project(x - size.unsqueeze(-1) * s)
        x.copy_(torch.where(back.unsqueeze(-1), state.origin, moved))
        return state.next(
            multipliers=_worst(state, e)[1],
            t=torch.where(back, 0, state.t + 1),
            weight=torch.where(back, 0.0, state.weight + size),
            spread=torch.where(back, 0.0, state.spread + size.square() * s.square().sum(-1)),
        )

    def _judged(self, state: DFLSState, e: Evaluation) -> tuple[DFLSState, Tensor]:
        """The state after a look at x, where the call may end, and (...,) True where x is to go back to the point of
        the call that ended."""
        x, worst, free = state.x, largest(e.g), state.level == torch.inf
        here = torch.maximum(e.f - state.level, worst) < state.upper
        best = torch.where(here.unsqueeze(-1), x, state.best)
        upper = torch.where(here, torch.maximum(e.f - state.level, worst), state.upper)
        error = ((x - state.origin).square().sum(-1) + state.spread) / (2 * state.weight)  # NaN, so not met, at t = 0
        ended = (upper < 0) & (free | (error <= -self.relative_error * upper))
        back, end = ended & ~here, ended.unsqueeze(-1)
        level = torch.where(ended, torch.where(free, e.f, state.level + upper / 2), state.level)
        begun = torch.where(
            back, torch.inf, torch.maximum(e.f - level, worst)
        )  # the new call's P at x, where it begins at x
        new = replace(
            state,
            t=torch.where(ended, 0, state.t),
            origin=torch.where(end, best, state.origin),
            weight=torch.where(ended, 0.0, state.weight),
            spread=torch.where(ended, 0.0, state.spread),
            best=best,
            upper=torch.where(ended, begun, upper),
            output=torch.where(end, best, state.output),
            outer=state.outer + ended,
            level=level,
        )
        return new, back


def _worst(state: DFLSState, e: Evaluation) -> tuple[Tensor, Tensor]:
    """(..., 1) and (..., m): one at the term that is largest at x, the first of equals."""
    terms = torch.cat([(e.f - state.level).unsqueeze(-1), e.g], dim=-1)
    one = torch.zeros_like(terms).scatter_(-1, terms.argmax(-1, keepdim=True), 1.0)
    return one[..., :1], one[..., 1:]
