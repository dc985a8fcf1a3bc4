"""A model trained on random batches and chosen on rows held back, in up to three runs, each of the same budget:

1. on the training rows, choosing the iterate that meets every bound on the rows held back too;
2. where there is none, classes are bounded and the method is the augmented Lagrangian: again, with multipliers of the
   rows held back (Cotter et al. 2019);
3. where there is still none: on all rows, choosing on them.

Runs 1 and 3 under bounds on groups are made again with more of each bound kept as margin, where no iterate but the
start met them: the largest of several noisy differences lies above the bound that each of them is held at.

A run ends the sequence where it finds a model, is interrupted, or meets its bounds only by overfitting its rows, and so
does the deadline of the budget. A run that others may follow takes at most ROOM of the time that is left.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from fairbound.estimators.problems import Problems
from fairbound.estimators.trained import Trained
from fairbound.estimators.validation import missed_beyond_chance
from fairbound.methods import Method
from fairbound.problems.problem import Problem
from fairbound.problems.wrappers import DualRows
from fairbound.solver.budget import Budget
from fairbound.solver.solve import Solution

LEAST_STEPS, EPOCHS = 1500, 10
PATIENCE = 4.0
ROOM = 2 / 3


def usual_budget(rows: int, batch_size: int) -> Budget:
    """The budget of a run on so many rows, where none was stated."""
    return Budget(steps=max(LEAST_STEPS, math.ceil(EPOCHS * rows / batch_size)))


def on_batches(
    made: Problems,
    run: Callable[..., Solution],
    method: Method[Any],
    margins: Sequence[float],
    limit: Budget,
) -> Trained:
    """The runs that the module's docstring numbers; run: `solve`, limit: the budget. Without `made.all_rows` the third is
    left out."""
    problem, held = made.problem, made.held
    cautions: list[str] = []
    bounds_classes = any(bound.about == "class" for bound in problem.plan.notions)
    margins = () if bounds_classes else margins

    solution, notes = with_room(run, problem, held, method, margins, limit, last=held is None)
    followed = False  # whether the multipliers of the solution are of the validation rows
    if held is not None and bounds_classes and method.name == "alm" and _unfinished(solution, limit):
        again = run(DualRows(problem, held), method, validation=held, budget=limit.part(ROOM))
        if again.found or again.violation < solution.violation:
            solution, followed = again, True
        elif again.interrupted:
            solution = replace(solution, stopped="interrupted")
    missed = [] if held is None or solution.found else missed_beyond_chance(problem, held, solution.x)
    if missed:
        cautions.append(
            f"On the rows held back for validation {missed[0]!r} is missed by more than chance explains: the model fits its "
            "own rows better than new ones. Take a smaller model or more rows, or loosen the bound."
        )
    elif held is not None and made.all_rows is not None and _unfinished(solution, limit):
        cautions.append(
            f"No model met every bound on the training rows and on the {held.rows:,} rows held back for validation "
            "too, so it was trained and verified on all rows; on new rows the bound may be missed."
        )
        problem, held, followed = made.all_rows(), None, False
        solution, more = with_room(run, problem, held, method, margins, limit)
        notes += more
    if followed:
        notes.append(
            "With multipliers of the training rows no model met every bound on the validation rows too, so the "
            "multipliers follow the validation rows: what is met on them is no evidence for new rows."
        )
    return Trained(problem, held, solution, method, limit, notes, cautions)


def with_room(
    run: Callable[..., Solution],
    problem: Problem,
    held: Problem | None,
    method: Method[Any],
    margins: Sequence[float],
    limit: Budget,
    *,
    last: bool = True,
) -> tuple[Solution, list[str]]:
    """The solution of `run` by `method`, or of the first with one of `margins` that met every bound where it did not;
    and a note that says so. limit: the budget. last: whether no other runs may follow these."""
    share, notes = 1.0 if last and not margins else ROOM, []
    solution = run(problem, method, validation=held, budget=limit.part(share))
    for margin in margins:
        if not _unfinished(solution, limit):
            break
        with_margin: Any = replace(method, margin=margin)  # type: ignore[type-var]
        again = run(problem, with_margin, validation=held, budget=limit.part(share))
        if again.found:
            notes = [f"Trained again with {margin:.0%} of each bound kept as margin: with less none was met."]
        solution = again if again.found or again.interrupted else solution
    return solution, notes


def _unfinished(solution: Solution, limit: Budget) -> bool:
    """Whether no model other than the start met every bound, nobody stopped the run, and there is time for another."""
    return not solution.found and not solution.interrupted and not limit.over
