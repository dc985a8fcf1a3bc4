"""An upper bound on H(r_0) within a factor theta, from calls of OVSMD with a tolerance that halves.

    for h = 0, 1, ...:   u = OVSMD(r_0, delta / 2^(h+1), alpha_h),   alpha_h = alpha_0 / 2^h
    until u + alpha_h < 0 and (u - alpha_h) / (u + alpha_h) <= theta;   return U = u + alpha_h

With probability 1 - delta, H(r_0) <= U < 0 and |H(r_0)| / |U| <= theta.

For reference and for tests: SFLS does not call it. It gives the tolerances that stopping="theory" asks for.

Source: Lin, Nadarajah, Soheili, Yang (2020), Algorithm 4 and Lemma EC.7.
Departs: a bound on the number of calls, since the loop has no end where r_0 <= f*.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from fairbound.base.errors import FairboundError, OptionError
from fairbound.methods import ovsmd
from fairbound.methods.sfls import SFLS
from fairbound.problems.problem import Draws, Problem


class LevelEstimate(NamedTuple):
    """bound: (...,) U < 0; error: (...,) alpha_h at the end, so that H(r_0) >= bound - 2 error; calls: (...,) int64."""

    bound: Tensor
    error: Tensor
    calls: Tensor


def estimate_level(
    problem: Problem,
    draws: Draws,
    config: SFLS,
    *,
    accuracy: float = 1.0,
    iterations: Callable[[float, float], int] | None = None,
    most_calls: int = 30,
) -> LevelEstimate:
    """Algorithm 4 at r_0 = config.level, with config's theta, delta, step sizes and scaling.

    accuracy: alpha_0, in the units of f and g. iterations: (delta_h, alpha_h) -> iterations of a call; None for T of
    Theorem 2, which needs config.light_tails. Batches are the stream "level".
    Raises: OptionError without a level or without both iterations and light_tails; FairboundError after `most_calls` calls.
    """
    if config.level is None:
        raise OptionError("the level function is estimated at config.level; give one above f*.")
    if iterations is None:
        tails = config.light_tails
        if tails is None:
            raise OptionError("give iterations, or a config with stopping='theory' and its light_tails.")
        M = tails.M(problem, config.diameter)

        def iterations(delta: float, error: float) -> int:
            return int(ovsmd.ovsmd_limit(delta, error, M, tails.Q)) + 1

    rate = ovsmd.rates(problem, config.scaling, config.diameter)
    start = problem.start(draws.seeds)
    level, used = start.new_full(start.shape[:-1], config.level), 0

    def oracle(delta: float, error: float) -> Tensor:
        nonlocal used
        call, count = ovsmd.fresh(problem, problem.domain.prox_centre(start)), iterations(delta, error)
        for k in range(used, used + count):
            call = ovsmd.iterate(call, problem, draws("level", k), level, config.step_scale(problem), rate)
        used += count
        return ovsmd.upper_bound(call.mean, level, problem.dual_set)

    return halve(oracle, accuracy, config.delta, config.theta, most_calls)


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
        u = oracle(delta / 2 ** (h + 1), alpha)
        if h == 0:
            bound, error = torch.full_like(u, math.nan), torch.full_like(u, math.nan)
            calls, done = torch.zeros_like(u, dtype=torch.int64), torch.zeros_like(u, dtype=torch.bool)
        calls = calls + ~done
        enough = ~done & (u + alpha < 0) & (u - alpha >= theta * (u + alpha))
        bound, error = torch.where(enough, u + alpha, bound), torch.where(enough, alpha, error)
        done = done | enough
        if bool(done.all()):
            return LevelEstimate(bound, error, calls)
    raise FairboundError(
        f"after {most_calls} calls H(r_0) is not known to be negative within a factor {theta}: the last online bound is "
        f"{u.tolist()} with tolerance {alpha:.3g}. r_0 may not lie above f*; give a larger level."
    )
