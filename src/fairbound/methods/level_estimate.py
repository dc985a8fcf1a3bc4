"""An upper bound on H(r_0) within a factor theta, from calls of OVSMD with a tolerance that halves.

    for h = 0, 1, ...:   u = OVSMD(r_0, delta / 2^(h+1), alpha_h),   alpha_h = alpha_0 / 2^h
    until u + alpha_h < 0 and (u - alpha_h) / (u + alpha_h) <= theta;   return U = u + alpha_h

With probability 1 - delta, H(r_0) <= U < 0 and |H(r_0)| / |U| <= theta.

SFLS does not call it: it gives the tolerances that stopping="theory" asks for.

Source: Lin, Nadarajah, Soheili, Yang (2020), Algorithm 4, Theorem 3 and Lemma EC.7.
Departs: a bound on the number of calls, since the loop has no end where r_0 <= f*.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from fairbound.base.checks import check_kinds, number, positive
from fairbound.base.errors import FairboundError, OptionError
from fairbound.base.names import plain_repr
from fairbound.base.seeds import seeds_of
from fairbound.methods import ovsmd
from fairbound.methods.failing import check_failure, share_of_failure
from fairbound.methods.ovsmd import LightTails
from fairbound.problems.problem import Draws, Problem


@dataclass(frozen=True)
class LevelEstimate:
    """What is known of H(r_0) in each run, with probability 1 - delta.

    bound: (...,) U, with H(r_0) <= U < 0 and |H(r_0)| <= theta |U|. error: (...,) alpha_h of the last call, so that
    H(r_0) >= U - 2 error. calls: (...,) int64. theta: as it was asked for.
    """

    bound: Tensor
    error: Tensor
    calls: Tensor
    theta: float

    def tolerances(self, gap: float) -> dict[str, float]:
        """The optimality_tolerance and oracle_error with which SFLS(stopping="theory") and the same theta ends within
        a relative gap, (f(x) - f*) / (r_0 - f*) <= gap (Theorem 3); of several runs by the U nearest to 0.

        gap: in (0, 1]. Raises: OptionError where it is not.
        """
        if not 0 < gap <= 1:
            raise OptionError(f"gap is relative to r_0 - f*, in (0, 1], got {gap!r}.")
        least = -float(self.bound.max()) * gap
        share = (self.theta - 1) / (2 * self.theta**2 * (self.theta + 1))
        return {"optimality_tolerance": least / self.theta, "oracle_error": share * least}


def estimate_level(
    problem: Problem,
    level: float,
    *,
    light_tails: LightTails | None = None,
    iterations: Callable[[float, float], int] | None = None,
    theta: float = 2.0,
    delta: float = 0.05,
    accuracy: float = 1.0,
    step_size: float | None = None,
    scaling: str = "diameters",
    diameter: float | None = None,
    batch_size: int = 64,
    sampling: str = "balanced",
    seeds: Sequence[int] = (0,),
    most_calls: int = 30,
) -> LevelEstimate:
    """Bound H(level) = min_x max(f(x) - level, g_1(x), ..., g_m(x)) from above, within a factor theta: what
    SFLS(stopping="theory") needs to know of a problem.

    level: r_0 > f*, finite. light_tails: constants of the noise; None with `iterations` and `step_size`.
    iterations: (delta_h, alpha_h) -> steps, > 0 and rounded up, of a call that ends within alpha_h of H with probability
        1 - delta_h; None for T of Theorem 2, which is astronomically large on real problems.
    theta: > 1. delta: probability that the bound does not hold, in (0, 1). accuracy: > 0, alpha_0, in the units of f and g.
    step_size, scaling, diameter: as of `SFLS`; without a step size it is that of Theorem 2, 1 / M.
    batch_size, sampling, seeds: rows of a step, how they are drawn, and one seed for each run.
    most_calls: after so many calls it gives up.
    Raises: OptionError for such options; FairboundError after `most_calls` calls, as where level <= f*; NonFiniteError.
    """
    ovsmd.check_scaling(scaling)
    _Options(level, theta, delta, accuracy, step_size, diameter, batch_size, most_calls)
    if not isinstance(light_tails, LightTails | None):
        raise OptionError(f"light_tails must be LightTails(M_x=, M_y=, Q=), got {plain_repr(light_tails)}.")
    if not (iterations is None or callable(iterations)):
        raise OptionError(
            f"iterations must be a function of delta_h and alpha_h that gives a number of steps, got {plain_repr(iterations)}; "
            "for as many in each call write lambda delta, error: 1000."
        )
    if light_tails is None and (iterations is None or step_size is None):
        raise OptionError("give light_tails=LightTails(M_x=, M_y=, Q=), or both iterations and step_size.")
    if light_tails is not None:
        M, Q = light_tails.M(problem, diameter), light_tails.Q
        step_size = 1 / M if step_size is None else step_size
        iterations = iterations or (lambda delta, error: int(ovsmd.ovsmd_limit(delta, error, M, Q)) + 1)
    draws = Draws(problem, seeds_of(seeds), batch_size, sampling)
    rate, start = ovsmd.rates(problem, scaling, diameter), problem.start(draws.seeds)
    levels, used = start.new_full(start.shape[:-1], level), 0

    def oracle(delta: float, error: float) -> Tensor:
        nonlocal used
        assert iterations is not None and step_size is not None
        call, count = ovsmd.fresh(problem, problem.domain.prox_centre(start)), _steps(iterations(delta, error))
        for k in range(used, used + count):
            call = ovsmd.iterate(call, problem, draws("level", k), levels, step_size, rate)
        used += count
        return ovsmd.upper_bound(call.mean, levels, problem.dual_set)

    return halve(oracle, accuracy, delta, theta, most_calls)


@dataclass(frozen=True)
class _Options:
    """Numbers that `estimate_level` is given, checked."""

    level: float
    theta: float
    delta: float
    accuracy: float
    step_size: float | None
    diameter: float | None
    batch_size: int
    most_calls: int

    def __post_init__(self) -> None:
        check_kinds(self)
        number(self, "level", "theta")
        positive(self, "accuracy", "step_size", "diameter", "batch_size", "most_calls")
        check_failure(self.theta, self.delta)


def _steps(asked: Any) -> int:
    """A number of iterations rounded up. Raises: OptionError where it is no finite number above 0."""
    if isinstance(asked, bool) or not isinstance(asked, Real) or not 0 < float(asked) < math.inf:
        raise OptionError(f"iterations must give a finite number above 0, and gave {plain_repr(asked)}.")
    return math.ceil(float(asked))


def halve(
    oracle: Callable[[float, float], Tensor], accuracy: float, delta: float, theta: float, most_calls: int = 30
) -> LevelEstimate:
    """The loop of Algorithm 4 around any oracle (delta_h, alpha_h) -> u (...,) with |u - H| <= alpha_h, w.p. 1 - delta_h."""
    if not (min(accuracy, delta, most_calls) > 0 and theta > 1):
        raise OptionError(
            f"accuracy, delta and most_calls must be positive and theta above 1, got {accuracy}, {delta}, {most_calls}, {theta}."
        )
    bound = error = calls = torch.zeros(())
    done = torch.zeros((), dtype=torch.bool)
    for h in range(most_calls):
        alpha = accuracy / 2**h
        u = oracle(share_of_failure(delta, h), alpha)
        if h == 0:
            bound, error = torch.full_like(u, math.nan), torch.full_like(u, math.nan)
            calls, done = torch.zeros_like(u, dtype=torch.int64), torch.zeros_like(u, dtype=torch.bool)
        calls = calls + ~done
        enough = ~done & (u + alpha < 0) & (u - alpha >= theta * (u + alpha))
        bound, error = torch.where(enough, u + alpha, bound), torch.where(enough, alpha, error)
        done = done | enough
        if bool(done.all()):
            return LevelEstimate(bound, error, calls, theta)
    raise FairboundError(
        f"after {most_calls} calls H(r_0) is not known to be negative within a factor {theta}: the last online bound is "
        f"{u.tolist()} with tolerance {alpha:.3g}. r_0 may not lie above f*; give a larger level."
    )
