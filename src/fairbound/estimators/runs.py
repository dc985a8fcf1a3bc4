"""Several runs of a solver as one: a run joined to the one before it, and one that goes on under the bounds of the
validation rows."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np
import torch

from fairbound.base.records import Counts
from fairbound.methods import FullBatchALM
from fairbound.problems.both_rows import BothRows
from fairbound.solver.solve import Solution, solve

STEEP = 10.0
"""By how much larger the penalty is under the bounds of validation rows too."""

STEERED = "The bounds of the validation rows were constraints of training, so that what is met on them is no evidence for new rows."


@dataclass(frozen=True, kw_only=True)
class WithoutSearch(FullBatchALM):
    """Without a random search at the end, for runs that begin at a model already."""

    searches_at_end: ClassVar[bool] = False


def solution_of(problem: Any, method: FullBatchALM, **options: Any) -> Solution:
    """`solve`, where ranks are the objective and the last point misses a bound on the validation rows again from there,
    with their bounds as further constraints; the better of both by the rule of `solve`. Bounds that both parts hold
    nearly against each other have large multipliers, so these rise faster (STEEP). The objective stays the training
    rows'. Records have the sum of both parts' multipliers of each bound."""
    return also_on_validation(problem, method, solve(problem, method, **options), **options)


def also_on_validation(problem: Any, method: FullBatchALM, solution: Solution, **options: Any) -> Solution:
    """What `solution_of` makes of a first `solution`."""
    held = options.get("validation")
    if held is None or not problem.plan.ranks or solution.interrupted:
        return solution
    if float(held.evaluate(solution.last).violation) <= 0:
        return solution
    method_options = {field.name: getattr(method, field.name) for field in fields(method)}
    steep = WithoutSearch(**{**method_options, "penalty": STEEP * method.penalty})
    again = solve(BothRows(problem, held), steep, **{**options, "x0": solution.last})
    records = [{**row, "multipliers": _of_both(row["multipliers"])} for row in again.records]

    again = replace(again, records=records, message=f"{again.message} {STEERED}")
    return joined(solution, again, stay=rank(solution, held) <= rank(again, held))


def rank(solution: Solution, held: Any) -> tuple[bool, float, float]:
    """The rule of `solve` as an order, the best solution first: one that meets the bounds before one that does not, then
    the smaller violation of those that do not, then the lower objective on the rows of the problem `held`."""
    feasible = bool(solution.feasible)
    return not feasible, 0.0 if feasible else float(solution.violation), float(held.evaluate(solution.x).f)


def _of_both(multipliers: Any) -> list[Any]:
    """(..., m) the sums of the first and the second m of (..., 2 m) multipliers."""
    y = np.asarray(multipliers)
    return y.reshape(*y.shape[:-1], 2, -1).sum(-2).tolist()


def joined(before: Solution, after: Solution, stay: bool = False) -> Solution:
    """`after`, a run begun where `before` ended, with the steps, seconds and records of both;
    with `stay` the point that `before` found."""
    steps, seconds = before.steps, before.seconds
    shifted = [{**row, "step": row["step"] + steps, "seconds": row["seconds"] + seconds} for row in after.records[1:]]
    kept: tuple[str, ...] = ("x", "feasible", "violation", "message") if stay else ()
    if not stay and before.found and after.feasible and not after.found:
        kept = ("message",)  # the start that alone meets the bounds is what `before` found
    return replace(
        after,
        **{name: getattr(before, name) for name in kept},
        records=[*before.records, *shifted],
        steps=steps + after.steps,
        seconds=seconds + after.seconds,
        best_step=torch.where((after.best_step > 0) & (not stay), steps + after.best_step, before.best_step),
        counts=Counts(**{name: n + getattr(before.counts, name) for name, n in after.counts.as_dict().items()}),
    )
