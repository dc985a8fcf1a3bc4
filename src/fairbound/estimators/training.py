"""A model trained under stated bounds and chosen on rows held back, in up to three runs of the same budget:

1. on the training rows, choosing the iterate that meets every bound on the rows held back too;
2. where there is none, classes are bounded and the method is the augmented Lagrangian: again, with multipliers of the rows
   held back (Cotter et al. 2019);
3. where there is still none: on all rows, choosing on them.

A run ends the sequence where it finds a model, is interrupted, or shows that its bounds are met by memory alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from fairbound.estimators.validation import missed_beyond_chance
from fairbound.fairness.problem import FairProblem
from fairbound.methods import algorithm as algorithm_named
from fairbound.solver.budget import Budget
from fairbound.solver.solve import Solution, solve

LEAST_STEPS = 1500
EPOCHS = 10
PATIENCE = 4.0


class Trained(NamedTuple):
    """The solution of `problem`, chosen on the rows `held` (None: on none), and the algorithm's configuration and budget of
    the run that gave it; notes and warnings say what happened on the way."""

    problem: FairProblem
    held: FairProblem | None
    solution: Solution
    config: Any
    budget: Budget
    notes: list[str]
    warnings: list[str]


def train(
    problem: FairProblem,
    held: FairProblem | None,
    all_rows: Callable[[], FairProblem] | None,
    *,
    algorithm: Any,
    budget: str | float | Budget | None,
    batch_size: int,
    sampling: str,
    seed: int,
    progress: bool,
) -> Trained:
    """The runs that the head of this module lists.

    held: rows held back, or None. all_rows: makes the problem of the third run; None leaves it out.
    algorithm, budget: as in FairClassifier. The other arguments are those of `solve`.
    """
    config = algorithm_named("alm" if algorithm == "auto" else algorithm) if isinstance(algorithm, str) else algorithm
    steps = max(LEAST_STEPS, math.ceil(EPOCHS * problem.rows / batch_size))
    limit = Budget.of(budget) if budget is not None else Budget(steps=steps)
    run = partial(
        solve,
        algorithm=config,
        budget=limit,
        batch_size=batch_size,
        sampling=sampling,
        seed=seed,
        patience=PATIENCE if budget is None else 1.0,
        progress=progress,
    )
    notes: list[str] = []
    cautions: list[str] = []
    solution = run(problem, validation=held)
    followed = False  # whether the multipliers of the solution are of the validation rows
    bounds_classes = any(bound.about == "class" for bound in problem.plan.notions)
    if held is not None and bounds_classes and config.name == "alm" and _unfinished(solution):
        again = run(problem.with_dual_rows(held), validation=held)
        if _found(again) or again.violation < solution.violation:
            solution, followed = again, True
        elif again.stopped == "interrupted":
            solution = replace(solution, stopped="interrupted")
    missed = [] if held is None or _found(solution) else missed_beyond_chance(problem, held, solution.x)
    if missed:
        cautions.append(
            f"On the rows held back for validation {missed[0]!r} is missed by more than chance explains: the model fits its "
            "own rows better than new ones. Take a smaller model or more rows, or loosen the bound."
        )
    elif held is not None and all_rows is not None and _unfinished(solution):
        cautions.append(
            f"No model met every bound on the training rows and on the {held.rows:,} rows held back for validation "
            "too, so it was trained and verified on all rows; on new rows the bound may be missed."
        )
        problem, held, followed = all_rows(), None, False
        solution = run(problem)
    if followed:
        notes.append(
            "With multipliers of the training rows no model met every bound on the validation rows too, so the "
            "multipliers follow the validation rows: what is met on them is no evidence for new rows."
        )
    return Trained(problem, held, solution, config, limit, notes, cautions)


def _found(solution: Solution) -> bool:
    """Whether a model other than the start met every bound."""
    return bool(solution.feasible) and int(solution.best_step) > 0


def _unfinished(solution: Solution) -> bool:
    """Whether no model other than the start met every bound, and nobody stopped the run."""
    return not _found(solution) and solution.stopped != "interrupted"
