"""A linear model moved inside its bounds along lines, where training under them learnt hardly anything.

Rates of many groups move in steps of a row each. Multipliers of decisions then chase bounds that they never meet all at
once, and what is left is a model near a constant, which meets them all.

    for each margin of MARGINS, until x meets every bound
        x <- the lowest loss where smooth stand-ins of the rates keep that share of each bound free
        x <- x moved along lines on which rows are counted, to where it misses bounds less (see `fewer_wrong`)
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from fairbound.estimators.gains import area, gained
from fairbound.estimators.linear.scale_of_scores import scaled
from fairbound.estimators.linear.weight_decay import Decayed
from fairbound.estimators.optimality import optimality
from fairbound.estimators.runs import joined
from fairbound.estimators.trained import (
    MOST,
    Trained,
    constant_on,
    hardly_better_than_constant,
    largest_share,
    meeting,
)
from fairbound.fairness.evaluation.one_pass import MOST_ROWS
from fairbound.fairness.lines.counted_rows import divides_by_decisions
from fairbound.fairness.lines.fewer_wrong import fewer_wrong
from fairbound.fairness.objectives import Accuracy
from fairbound.methods import FullBatchALM
from fairbound.solver.solve import solve

MARGINS = (0.0, 0.5)
"""Shares of the bounds; the larger costs more accuracy, and leaves more room."""

NOTE = (
    "Trained again under smooth stand-ins of the bounds and then moved inside the bounds, row by row, as the bounds of many groups "
    "left hardly more than a constant."
)


def moved_inside(trained: Trained, **options: Any) -> Trained:
    """`trained`, or where that is hardly better than a constant the model found as above, if it surely decides more
    rows right than chance gives its free numbers; or than a constant, where its scores surely rank.

    trained: of a problem of accuracy, on all rows at once. options: budget, seed and progress of `solve`.
    """
    problem = trained.problem
    if not _asked_for(trained):
        return trained
    decay = trained.optimality["weight_decay"]
    stated = problem.with_objective(Accuracy(0.0))
    aim: Any = Decayed(stated, decay) if decay else stated
    for margin in MARGINS:
        smooth = solve(aim, FullBatchALM(dual_values="surrogate", margin=margin), **options)
        if smooth.interrupted:
            break
        x = fewer_wrong(problem, smooth.last)
        if float(problem.evaluate(x).violation) <= 0:
            if not _surely_better(trained, x):
                break
            both = trained._replace(solution=joined(trained.solution, smooth), notes=[*trained.notes, NOTE])
            found = meeting(both, scaled([problem], x, decay), NOTE)
            near = optimality(aim, trained.method, x, problem.total_rows)
            return both._replace(solution=found, optimality={**trained.optimality, **near, "error_share": 0.0})
    return trained


def _asked_for(trained: Trained) -> bool:
    """Whether a model under bounds is hardly better than a constant that is not hard to beat, and lines can move it."""
    problem = trained.problem
    accuracy = trained.accuracy() if problem.m and problem.refined and trained.held is None else None
    if accuracy is None or not problem.shards.alone or problem.rows > MOST_ROWS:
        return False
    if problem.plan.beyond_means and not divides_by_decisions(problem.plan):
        return False
    largest = largest_share(problem)
    interrupted = trained.solution.interrupted
    return not interrupted and largest < MOST and hardly_better_than_constant(accuracy, largest)


def _surely_better(trained: Trained, x: Tensor) -> bool:
    """Whether x (n,) surely decides more rows right than `trained`."""
    problem = trained.problem
    gain, accuracy = gained(problem, trained.solution.x, x), trained.accuracy()
    constant = accuracy is not None and constant_on(problem, accuracy)
    return gain.beyond_chance(problem) or (constant and gain.over_constant(problem, area(problem, x)))
