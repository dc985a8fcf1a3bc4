"""The step size of a run on random batches, chosen by a short trial.

What step suits a model is not known before: convolutions take four times the step with which some networks diverge. So
a few steps are made with the method's own size, with four times it and, where that is no better, with twice it, from
one start and on the same batches. The run goes on from the last iterate of the size whose loss, with what it exceeds
the bounds by, is lowest there. All sizes make the same number of steps: a budget in steps always gives the same choice.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from fairbound.base.errors import NonFiniteError
from fairbound.methods import ALM
from fairbound.problems.problem import Problem
from fairbound.solver.budget import Budget
from fairbound.solver.solve import Solution

FACTORS = (1.0, 4.0, 2.0)
"""Factors on the method's own step size, in the order in which they are tried until one is better than 1."""

STEPS, SHARE = 100, 0.15
"""Steps with each size, and the largest share of a budget that they may take. Where that is less than half of them,
the method's own is kept."""

MOST_PASSES = 50.0
"""Where the run will see each row more often than this, the method's own step size is kept: longer steps would
overfit."""


class Trial(NamedTuple):
    """The method with the step size chosen; what is left of the budget; where the run goes on (n,), None for its own
    start; the solution of a trial that the user stopped, else None."""

    method: ALM
    left: Budget
    x: Tensor | None = None
    interrupted: Solution | None = None


def step_tried(run: Callable[..., Solution], problem: Problem, method: ALM, limit: Budget) -> Trial:
    """The best of FACTORS for `method` on `problem`. run: `solve` without problem, method and budget;
    limit: of trial and run."""
    own, steps = Trial(method, limit), min(STEPS, limit.steps * SHARE)
    if steps < STEPS / 2:
        return own
    part, used = replace(_scaled(limit, SHARE), steps=int(steps)), 0.0
    best, least = own, math.inf
    for factor in FACTORS:
        now = replace(method, step_size=factor * method.step_size)
        try:
            solution = run(problem, now, budget=part, patience=1.0)
        except NonFiniteError:  # too long a step; where it is the method's own, the run itself says so
            continue
        if solution.interrupted:
            return Trial(method, limit, interrupted=solution)
        share, passes = _used(limit, solution, problem.rows), solution.counts.samples / problem.rows
        if factor == 1 and (solution.steps < STEPS / 2 or passes > share * MOST_PASSES):
            return own
        used, cost, before = used + share, penalised_loss(solution), least
        if cost < least:
            best, least = Trial(now, limit, solution.last), cost
            if before < math.inf:
                break
        part = Budget(steps=solution.steps, processor=limit.processor)
    return best._replace(left=_scaled(limit, max(1 - used, 1 - len(FACTORS) * SHARE)))


def penalised_loss(solution: Solution) -> float:
    """f + sum_i [g_i]_+ of the last iterate on the training rows. A g_i that they cannot tell counts 0."""
    last = solution.records[-1]["train"]
    return float(last["f"]) + float(torch.as_tensor(last["g"]).nan_to_num().clamp_min(0).sum())


def _scaled(limit: Budget, share: float) -> Budget:
    return replace(
        limit, seconds=limit.seconds * share, steps=limit.steps * share, samples=limit.samples * share, epochs=limit.epochs * share
    )  # fmt: skip


def _used(limit: Budget, spent: Solution, rows: int) -> float:
    """The share of `limit` that a run on `rows` rows has spent."""
    samples = spent.counts.samples
    return max(
        spent.seconds / limit.seconds, spent.steps / limit.steps, samples / limit.samples, samples / rows / limit.epochs
    )
