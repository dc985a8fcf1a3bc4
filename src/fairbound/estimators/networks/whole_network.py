"""A whole network trained on random batches, and further on all rows at once, for as many steps and rounds as rows kept
apart show to be of use.

Random batches leave a network above the loss that it could reach, and rounds of the augmented Lagrangian on all rows come
nearer, without bounds too. They also overfit where rows are few. So they are first made on a part of the rows, and as many
of them are then made on all rows as gave the lowest objective, with what bounds are exceeded by times their
multipliers, on the others: none where that only rose. The network has met these others on its batches, so that they
speak for fewer rounds rather than for more.

The batches themselves also overfit where they meet few rows again and again, and the usual number of steps is too small
where rows are many. So as many steps are made as were best on rows that a run has not met (early stopping: Prechelt
1998).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairbound.base.errors import EmptyGroupError
from fairbound.base.seeds import seed_for
from fairbound.estimators.gains import SURE, gained, loss_gained
from fairbound.estimators.problems import MANY_ROWS, problem_like
from fairbound.estimators.runs import WithoutSearch, joined
from fairbound.estimators.trained import hardly_better_than_constant, largest_share, measured_accuracy
from fairbound.estimators.validation import VALIDATION
from fairbound.fairness.problem import FairProblem
from fairbound.methods import FullBatchALM, Method
from fairbound.models.mlp import is_built_in
from fairbound.rows.split import stratified_split
from fairbound.solver.budget import Budget
from fairbound.solver.solve import Solution, solve

ROUNDS = 4
"""Most rounds that are made."""

MOST_ROWS = MANY_ROWS
"""With more rows no round is made: each takes about ten passes."""

FEW_PASSES = 20.0
"""Batches that meet each row no more often than this need not end early."""

MOST_STEPS, MOST_PASSES = 8000, 100
"""Steps that are tried, and how often they meet each row, where the loss on rows not met still falls."""

STEP_SIZE = 0.4
"""The step size where more steps than usual may be of use: four times that of `ALM`, which leaves more unlearnt. Where
rows are few it would gain nothing."""

TRIES = 0.4
"""Share of the time left that finding out how many steps or rounds are of use may take, where there is a deadline."""

LITTLE = 1.0
"""Standard errors by which rounds under bounds must gain accuracy where the last layer alone leaves hardly more than one
answer for all rows; SURE of them elsewhere."""

LATE = 2 / 3
"""Share of the steps from which on the loss still falls, if it is lowest there."""

Last = Callable[[FairProblem, Solution], Solution]

LAST = WithoutSearch(sharpness=FullBatchALM().sharpness[-1:])
"""Rounds of the last sharpness alone. The last layer is still to be solved."""


def trained_further(
    problem: FairProblem, solution: Solution, seed: int, progress: bool, limit: Budget
) -> tuple[Solution, int]:
    """`solution`, its last iterate some rounds further on the rows of `problem`, and how many: as many as, begun there
    on a part of the rows, make f + sum_i y_i [g_i]_+ lowest on the others, with the multipliers y of the last round.

    limit: whose deadline ends them. 0 with more than MOST_ROWS, of a module, whose graph of all rows may take much memory, in several
    processes, where a group has too few rows to divide, or where the objective is the area under the ROC curve, for
    which the last layer is solved exactly.
    """
    if not _of_use(problem) or solution.interrupted or limit.over:
        return solution, 0
    until = Budget(steps=ROUNDS).until(limit)
    try:
        part, others = _parts(problem, seed)
    except EmptyGroupError:  # a group of so few rows that the others have none
        return solution, 0
    tried = _rounds(part, solution.last, until.part(TRIES), progress, others)
    rounds = cheapest(tried.records, tried.state.multipliers)
    if tried.interrupted or not rounds:
        return replace(solution, stopped="interrupted") if tried.interrupted else solution, 0
    made = _rounds(problem, solution.last, replace(until, steps=rounds).part(TRIES), progress)
    return joined(solution, made, stay=True), rounds


def _of_use(problem: FairProblem) -> bool:
    """Whether rounds are made of a problem."""
    small = problem.total_rows <= MOST_ROWS and problem.shards.alone
    return small and is_built_in(problem.model) and not problem.plan.ranks


def useful_steps(
    run: Callable[..., Solution],
    problem: FairProblem,
    method: Method[Any],
    held: FairProblem | None,
    seed: int,
    limits: Sequence[Budget],
) -> tuple[int, Solution | None]:
    """How many steps of the method, at least 1, make the cost of `cheapest` lowest on rows that they do not meet; and
    the run that the user stopped, judged on the rows of `problem`, or None.

    run: `solve` without problem and method. held: rows held back from `problem`; None: a part of its rows is. limits:
    budgets of a run, each tried where the cost still fell at the end of the one before. 0 without limits, in several
    processes, for ranks, and where a group has too few rows to divide.
    """
    if not limits or not problem.shards.alone or problem.plan.ranks:
        return 0, None
    part, others = problem, held
    if held is None:
        try:
            part, others = _parts(problem, seed)
        except EmptyGroupError:  # a group of so few rows that the others have none
            return 0, None
    steps = 0
    for limit in limits:
        tried = run(part, method, validation=others, patience=1.0, budget=limit.part(TRIES))
        if tried.interrupted:
            return 0, judged(problem, tried)
        steps = max(cheapest(tried.records, tried.state.multipliers), 1)
        if steps < LATE * tried.steps:
            break
    return steps, None


def limits_of(limit: Budget, stated: bool, rows: int, batch_size: int) -> list[Budget]:
    """The budgets of `useful_steps` after one that the user has `stated`, or the usual one, on so many rows: itself where
    it meets each row often, and a longer one where none was stated."""
    limits = [limit] if limit.steps * batch_size > FEW_PASSES * rows else []
    most = min(MOST_STEPS, MOST_PASSES * rows // batch_size)
    if not stated and most > limit.steps:
        limits.append(Budget(steps=most))
    return limits


def cheapest(records: list[dict[str, Any]], y: Tensor) -> int:
    """The step of the record with the lowest f + sum_i y_i [g_i]_+ of the validation rows, y (m,).
    A g_i that they cannot tell counts 0."""

    def cost(row: dict[str, Any]) -> float:
        seen = row["validation"]
        return float(seen["f"]) + float(y @ torch.as_tensor(seen["g"]).to(y).nan_to_num().clamp_min(0))

    return int(min(records, key=cost)["step"])


def _parts(problem: FairProblem, seed: int) -> tuple[FairProblem, FairProblem]:
    """The problems of a random part of the rows and of the others,
    with equal shares of every group and of both classes."""
    labels, strata = np.unique(problem.targets.cpu().numpy(), return_inverse=True)
    classes = max(2, problem.model.outputs)
    strata = (strata if len(labels) == classes else np.zeros_like(strata))[:, None]  # numbers to predict are no strata
    strata = np.column_stack([strata, problem.groups.codes[problem.strata.order]])
    kept, apart = stratified_split(strata, [VALIDATION], seed_for("rounds", root=seed))
    part, others = (problem_like(problem, problem.model, None, problem.plan, rows=rows) for rows in (kept, apart))
    return part, others


def rounds_under_bounds(
    problem: FairProblem, starts: Sequence[Solution], seed: int, progress: bool, last: Last, by_accuracy: bool
) -> Solution | None:
    """The solution of a network trained without bounds, ROUNDS rounds under the bounds further, where that pays; else None.

    It pays where, begun there and followed by the last layer, they decide more of the rows apart rightly than the last
    layer alone does (not `by_accuracy`: have a lower mean loss there), by more than SURE or LITTLE standard errors: layers
    trained without bounds may know the groups too well for a last layer to undo, and few rows would be learnt by heart. A run
    that the user stopped is returned as interrupted. Of the networks that `trained_further` takes.

    starts: solutions with the same layers before the last one; the start that gains most is taken. last: the last layer
    solved on a problem's rows, from a solution.
    """
    if not _of_use(problem):
        return None
    try:
        part, others = _parts(problem, seed)
    except EmptyGroupError:  # a group of so few rows that the others have none
        return None
    rounds = Budget(steps=ROUNDS)
    without = last(part, judged(part, starts[0]))
    reached = measured_accuracy(part.evaluate(without.x)) if by_accuracy else None
    little = reached is not None and hardly_better_than_constant(reached, largest_share(part))
    sure = LITTLE if little else SURE
    best, most = None, 0.0
    for start in starts:
        made = last(part, joined(start, _rounds(part, start.last, rounds, progress)))
        if without.interrupted or made.interrupted:
            return replace(start, stopped="interrupted")
        gain = (gained if by_accuracy else loss_gained)(others, without.x, made.x)
        if made.feasible and gain.accuracy > max(sure * gain.error, most):
            best, most = start, gain.accuracy
    return None if best is None else joined(best, _rounds(problem, best.last, rounds, progress))


def judged(problem: FairProblem, solution: Solution) -> Solution:
    """A solution of other rows or bounds as one of this problem."""
    violation = problem.evaluate(solution.x).violation
    return replace(solution, feasible=violation <= 0, violation=violation)


def _rounds(
    problem: FairProblem, x: Tensor, limit: Budget, progress: bool, held: FairProblem | None = None
) -> Solution:
    return solve(problem, LAST, budget=limit, sampling="full", x0=x, validation=held, progress=progress)
