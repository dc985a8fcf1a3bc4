"""The step size of a run on random batches, chosen by a short trial.

What step suits a model is not known before: convolutions take four times the step with which some networks diverge. So a few steps are
made with each size, from one start and on the same batches, and the run goes on from the last iterate of the size whose loss, with
what it exceeds the bounds by, is lowest there. All sizes make the same number of steps: a budget in steps always gives the same choice.
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

FACTORS = (1.0, 2.0, 4.0)
"""Of the method's own step size, which is tried first."""

STEPS, SHARE = 100, 0.15
"""Steps with each size, and the largest share of a budget that they may take. Where that is less than half of them, the method's own is kept."""

MOST_PASSES = 50.0
"""Where the run will see each row more often than this, the method's own step size is kept: longer steps would learn rows by heart."""


class Trial(NamedTuple):
    """The method with the step size chosen; what is left of the budget; where the run goes on (n,), None for its own start; the
    solution of a trial that the user stopped, else None."""

    method: ALM
    left: Budget
    x: Tensor | None = None
    interrupted: Solution | None = None


def step_tried(run: Callable[..., Solution], problem: Problem, method: ALM, limit: Budget) -> Trial:
    """The best of FACTORS for `method` on `problem`. run: `solve` without problem, algorithm and budget; limit: of trial and run."""
    steps = STEPS if limit.steps == math.inf else int(min(STEPS, limit.steps * SHARE))
    if steps < STEPS / 2:
        return Trial(method, limit)
    part = replace(
        limit, steps=steps, seconds=limit.seconds * SHARE, samples=limit.samples * SHARE, epochs=limit.epochs * SHARE
    )
    best, least, left = Trial(method, limit), math.inf, limit
    for factor in FACTORS:
        now = replace(method, step_size=factor * method.step_size)
        try:
            solution = run(problem, algorithm=now, budget=part, patience=1.0)
        except NonFiniteError:  # too long a step; where it is the method's own, the run itself says so
            continue
        if solution.stopped == "interrupted":
            return Trial(method, limit, interrupted=solution)
        if factor == 1 and (solution.steps < STEPS / 2 or _passes(limit, solution, problem.rows) > MOST_PASSES):
            return best
        left = _less(left, solution, problem.rows)
        if (cost := penalised_loss(solution)) < least:
            best, least = Trial(now, left, solution.last), cost
        part = Budget(steps=solution.steps)
    return best._replace(left=left)


def penalised_loss(solution: Solution) -> float:
    """f + sum_i [g_i]_+ of the last iterate on the training rows. A g_i that they cannot tell counts 0."""
    last = solution.records[-1]["train"]
    return float(last["f"]) + float(torch.as_tensor(last["g"]).nan_to_num().clamp_min(0).sum())


def _less(limit: Budget, spent: Solution, rows: int) -> Budget:
    """`limit` without what a trial on `rows` rows has spent of it."""
    samples = spent.counts.samples
    return replace(
        limit, seconds=limit.seconds - spent.seconds, steps=limit.steps - spent.steps, samples=limit.samples - samples,
        epochs=limit.epochs - samples / rows,
    )  # fmt: skip


def _passes(limit: Budget, spent: Solution, rows: int) -> float:
    """How often a run up to `limit` will see each of `rows` rows, as the part of it that is `spent` tells."""
    passes = spent.counts.samples / rows
    used = (
        spent.steps / limit.steps, spent.seconds / limit.seconds, spent.counts.samples / limit.samples, passes / limit.epochs,
    )  # fmt: skip
    return passes / max(used)
