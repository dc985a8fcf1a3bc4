"""A linear model trained on all rows at once: the lowest loss first, from there towards accuracy, both under the
bounds.

The share of the error rate in the objective rises in steps, each begun at the point before, as long as accuracy on the
training rows does not fall; then the model is moved along lines on which wrong decisions are counted (`fewer_wrong`).
With objective "auto" it rises only where the area under the ROC curve stays near that of the lowest loss seen, so that
scores keep their order, or where more is gained of accuracy, surely more than chance gives, than is lost of the area
beyond that; a model no better than a constant gives way to any that is more accurate and whose scores rank surely
better than chance. On many rows it then goes part of the way to a model that was refused (`part_way`). With few rows
for each weight it stays at the lowest loss.

A model of numbers under bounds on shares above thresholds is moved at the end along lines on which these are counted
(`lower_error`).

Where weight decay is asked for, all runs have it in their objective (see `weight_decay`). Without it, where the model
decides every training row right, larger weights always lower the logistic loss, so that it has no lowest point and the
run ends at weights that say little of new rows. It is made again then, from zeros, with a decay of 1 / n for n rows, as
by scikit-learn's LogisticRegression with C = 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fairbound.base.records import Counts
from fairbound.base.seeds import seed_for
from fairbound.estimators.choosing import Refined
from fairbound.estimators.trained import constant_on
from fairbound.estimators.weight_decay import USUAL, Decayed
from fairbound.fairness.fewer_wrong import fewer_wrong, scaled
from fairbound.fairness.lower_error import lower_error
from fairbound.fairness.objectives import Accuracy
from fairbound.fairness.part_way import part_way
from fairbound.fairness.pointwise import LOGISTIC
from fairbound.fairness.problem import FairProblem
from fairbound.fairness.reduction import SLICE
from fairbound.methods import FullBatchALM, Method
from fairbound.problems.both_rows import BothRows
from fairbound.ranking.wins import auc
from fairbound.rows.split import stratified_split
from fairbound.solver.solve import Solution, solve
from fairbound.subproblems.multipliers import kkt

STEEP = 10.0
"""By how much larger the penalty is under the bounds of validation rows too."""

STEERED = "The bounds of the validation rows were constraints of training, so that what is met on them is no evidence for new rows."

LESS, MIDDLE, MORE = 0.3, 0.65, 0.9
"""Shares of the error rate in the objective: the middle one is tried first, then the one beside it."""

AUC_LOSS = 0.002
"""By how much "auto" lets the area under the ROC curve fall, beside what it gains of accuracy beyond chance."""

SURE = 2.0
"""Standard errors taken off a gain of accuracy beside those that as many free numbers gain by chance."""

MANY_ROWS = 10_000
"""From so many rows on "auto" goes part of the way to a model that the area refuses (`part_way`). On fewer, what that
gains is mostly of the training rows alone."""

ROWS_EACH = 10
"""Rows for each number of a model below which "auto" stays at the lowest loss. With fewer, what a smoothed error rate
gains is of the training rows alone, and costs accuracy on new ones."""

NEAR_ROWS = 20_000
"""Up to so many rows it is said of a model trained on random batches how nearly
it meets the conditions of optimality."""

UNMET = 20
"""Rounds after which a run under bounds on distributions ends that met them in none, where another run goes on from the
point that the problem itself then finds (`Problem.nearer`)."""

PART_ROWS = 100_000
"""With more than twice as many rows, all but the last rounds are of a random part with so many."""


def part_of(n: int, strata: np.ndarray, seed: int) -> np.ndarray | None:
    """Numbers of about PART_ROWS of n rows, at least one of every stratum; None where all rows are to be taken.

    strata: (n, C) integers, equal rows being one stratum.
    """
    if n <= 2 * PART_ROWS:
        return None
    return stratified_split(strata, [1 - PART_ROWS / n], seed_for("part", root=seed))[0]


@dataclass(frozen=True, kw_only=True)
class WithoutSearch(FullBatchALM):
    """Without a random search at the end, for runs that begin at a model already."""

    searches: ClassVar[bool] = False


def solved(problem: Any, method: FullBatchALM, **options: Any) -> Solution:
    """`solve`, where ranks are the objective and the last point misses a bound on the validation rows again from there,
    with their bounds as further constraints; the better of both by the rule of `solve`. Bounds that both parts hold
    nearly against each other have large multipliers, so these rise faster (STEEP). The objective stays the training
    rows'. Records have the sum of both parts' multipliers of each bound."""
    return also_on_validation(problem, method, solve(problem, method, **options), **options)


def also_on_validation(problem: Any, method: FullBatchALM, solution: Solution, **options: Any) -> Solution:
    """What `solved` makes of a first `solution`."""
    held = options.get("validation")
    if held is None or not problem.plan.ranks or solution.stopped == "interrupted":
        return solution
    if float(held.evaluate(solution.last).violation) <= 0:
        return solution
    direct = WithoutSearch(**{field.name: getattr(method, field.name) for field in fields(method)})
    steep = replace(direct, penalty=STEEP * method.penalty)
    again = solve(BothRows(problem, held), steep, **{**options, "x0": solution.last})
    records = [{**row, "multipliers": _of_both(row["multipliers"])} for row in again.records]

    def rank(found: Solution) -> tuple[bool, float, float]:
        feasible = bool(found.feasible)
        return not feasible, 0.0 if feasible else float(found.violation), float(held.evaluate(found.x).f)

    again = replace(again, records=records, message=f"{again.message} {STEERED}")
    return joined(solution, again, stay=rank(solution) <= rank(again))


def _of_both(multipliers: Any) -> list[Any]:
    """(..., m) the sums of the first and the second m of (..., 2 m) multipliers."""
    y = np.asarray(multipliers)
    return y.reshape(*y.shape[:-1], 2, -1).sum(-2).tolist()


def train_full_batch(
    problem: FairProblem,
    part: Callable[[], FairProblem] | None,
    method: FullBatchALM,
    *,
    refined: Refined,
    weight_decay: float = 0.0,
    **options: Any,
) -> tuple[Solution, dict[str, Any]]:
    """The solution of `problem`, whose steps, records and counts are those of all runs together, and as plain data how
    nearly it meets the conditions of optimality (`fb.kkt`), with the share of the error rate in the objective
    ("error_share"), the "weight_decay" in it, and whether the lowest loss decides every row right ("separated").

    part: builds the problem of some of its rows to begin on, which is dropped after that; or None. refined: whether the
    objective, an `Accuracy` then, is to go from the loss towards the error rate: "auto" as far as the order of the
    scores allows. weight_decay: >= 0. options: those of `solve`, x0 for the first run.
    """
    first = problem if part is None else part()
    unmet = min(UNMET, method.unmet) if any(bound.free_thresholds for bound in problem.plan.notions) else method.unmet
    quick = replace(
        method,
        sharpness=method.sharpness[-1:],
        patience=1,
        tolerance=10 * method.tolerance,
        unmet=unmet,
    )

    def run(before: Solution | None, on: Any, by: FullBatchALM) -> Solution:
        after = solved(on, by, **(options if before is None else {**options, "x0": before.x}))
        return after if before is None else joined(before, after)

    decay = weight_decay

    def under(on: FairProblem, share: float) -> Any:
        stated = on if refined == "no" else on.with_objective(Accuracy(share))
        return Decayed(stated, decay) if decay else stated

    begin = method if refined == "no" else replace(quick, sharpness=method.sharpness)
    solution, share = run(None, under(first, 0.0), begin), 0.0
    separated = solution.stopped != "interrupted" and _separates(first, solution.x)
    if separated and not decay:
        decay = USUAL / first.total_rows
        solution = run(replace(solution, x=torch.zeros_like(solution.x)), under(first, 0.0), begin)
    tried = None if refined == "no" or not solution.feasible or separated else MIDDLE
    seen = [] if tried is None else [_quality(first, solution.x)]
    few = refined == "auto" and first.total_rows < ROWS_EACH * first.n
    tried = None if few and seen and not constant_on(first, seen[0].accuracy) else tried
    refused: list[tuple[Solution, float, _Quality]] = []
    while tried is not None and solution.stopped != "interrupted":
        after = run(solution, under(first, tried), quick)
        now, before = _quality(first, after.x), seen[0]
        least = min(now, *seen).area - AUC_LOSS if refined == "auto" else 0.0
        better = bool(after.feasible) and now.accuracy >= before.accuracy
        kept = better and not now.area < least
        refused += [(after, tried, now)] if better and not kept else []
        seen = [now, *seen] if kept else [*seen, now]
        solution, share = (after, tried) if kept else (replace(solution, stopped=after.stopped), share)
        tried = (MORE if kept else LESS) if tried == MIDDLE else None
    held = options.get("validation")
    if refused:
        alone = part is None and held is None
        solution, share = _despite_the_area(first, (solution, share), refused, seen[0], min(seen).area, alone)
    first = problem
    if part is not None and solution.stopped != "interrupted":
        solution = run(solution, under(problem, share), quick)
    if refined == "yes" and solution.feasible and held is None and not separated and solution.stopped != "interrupted":
        moved = fewer_wrong(problem, solution.x)
        if moved is not solution.x:
            solution = replace(solution, x=scaled(under(problem, share), moved))
    if refined == "no" and solution.feasible and held is None and not decay and solution.stopped != "interrupted":
        solution = replace(solution, x=lower_error(problem, solution.x))
    near = BothRows(problem, held) if held is not None and problem.plan.ranks else under(problem, share)
    return solution, {
        **optimality(near, method, solution.x, problem.total_rows),
        "error_share": share,
        "weight_decay": decay,
        "separated": separated,
    }


def _despite_the_area(
    problem: FairProblem,
    kept: tuple[Solution, float],
    refused: list[tuple[Solution, float, _Quality]],
    quality: _Quality,
    area_of_loss: float,
    alone: bool,
) -> tuple[Solution, float]:
    """The solution `kept` and its share of the error rate, or what is made of more accurate ones that were refused for
    their area: the most accurate whose gain pays for it; else, of many rows, where the share is below
    MIDDLE, a point part of the way to the last of them, at most AUC_LOSS below the area of the lowest loss.

    quality: of `kept`. alone: whether the rows of `problem` are all that the bounds are to be met on.
    """
    solution, share = kept
    constant = constant_on(problem, quality.accuracy)
    bought = []
    for after, tried, now in refused:
        gain, error = gained(problem, solution.x, after.x)
        pays = gain > beyond_chance(problem) * error and area_of_loss - now.area <= AUC_LOSS + gain
        if pays or (constant and gain > SURE * error and ranks_surely(problem, now.area)):
            bought.append(((now.accuracy, now.area), after, tried))
    if bought:
        _, after, share = max(bought, key=lambda one: one[0])
        return replace(after, stopped=solution.stopped), share
    if not alone or problem.total_rows < MANY_ROWS or share >= MIDDLE or solution.stopped == "interrupted":
        return kept
    after, tried, _ = refused[-1]
    x, t = part_way(problem, solution.x, after.x, lambda at: area_of_loss - area(problem, at) <= AUC_LOSS)
    return replace(solution, x=x), share + t * (tried - share)


def optimality(problem: Any, method: Method[Any], x: Tensor, rows: int) -> dict[str, Any]:
    """How nearly x (n,) is an optimum under the last surrogates of the method, with the multipliers that are not 0 by
    name. Of a method that goes by random batches nothing is said where the `rows`, or the parameters,
    are more than NEAR_ROWS."""
    if isinstance(method, FullBatchALM):
        problem = problem.sharpened(method.sharpness[-1])
    elif max(rows, problem.n) > NEAR_ROWS:
        return {}
    near = kkt(problem, x)
    prices = {problem.names[i]: float(near.multipliers[i]) for i in near.multipliers.nonzero().flatten().tolist()}
    return {**near._asdict(), "multipliers": prices}


class _Quality(NamedTuple):
    """The mean loss, the accuracy (0 where the loss leaves it open) and the area under the ROC curve;
    the lowest loss sorts first."""

    loss: float
    accuracy: float
    area: float


def _quality(problem: FairProblem, x: Tensor) -> _Quality:
    """At x (n,) of a problem whose objective is an `Accuracy`."""
    found = problem.evaluate(x).extra
    return _Quality(float(found["loss"]), float(found.get("accuracy", 0.0)), area(problem, x))


def gained(problem: FairProblem, x: Tensor, other: Tensor) -> tuple[float, float]:
    """By how much `other` (n,) is more accurate than x on the problem's rows, and the standard error of that
    (McNemar's, of the rows decided otherwise)."""
    weight = problem.weight_of_rows()
    before, after = (problem.all_scores(at) > 0 for at in (x, other))
    sums = torch.zeros(3, dtype=torch.float64, device=weight.device)
    for w, y, old, new in zip(*(each.split(SLICE) for each in (weight, problem.targets, before, after)), strict=True):
        more = (w * (old != new) * torch.where(new == (y > 0.5), 1.0, -1.0)).double()
        sums += torch.stack([w.double().sum(), more.sum(), more.square().sum()])
    total, gain, square = problem.shards.sum(sums).tolist()
    return gain / total, square**0.5 / total


def beyond_chance(problem: FairProblem) -> float:
    """How many standard errors of a gain are more than chance gives the best of n free numbers: sqrt(n) of them in the
    mean, and SURE more."""
    return problem.n**0.5 + SURE


def ranks_surely(problem: FairProblem, area: float) -> bool:
    """Whether an area under the ROC curve of the problem's rows is surely above that of scores that know nothing of the
    label (1/2, with the standard error of Mann and Whitney)."""
    mass = problem.weight_of_classes(2)
    share, rows = float(mass[1] / mass.sum()), problem.total_rows
    return area - 0.5 > beyond_chance(problem) * ((rows + 1) / (12 * share * (1 - share))) ** 0.5 / rows


def _separates(problem: FairProblem, x: Tensor) -> bool:
    """Whether x (n,) decides every row right by a logistic score, so that larger weights always lower the loss."""
    if problem.loss is not LOGISTIC or problem.model.outputs > 1 or problem.plan.ranks:
        return False
    wrong = ((problem.all_scores(x) > 0) != (problem.targets > 0.5)).sum()
    return float(problem.shards.sum(wrong)) == 0


def area(problem: FairProblem, x: Tensor) -> float:
    """The area under the ROC curve of the problem's rows at x (n,), ties counted half;
    NaN where they have one class."""
    weight = None if problem.row_weight is None else problem.row_weight.cpu().numpy()
    parts = problem.shards.gather((problem.all_scores(x).cpu().numpy(), problem.targets.cpu().numpy(), weight))
    scores, y = (np.concatenate([part[i] for part in parts]) for i in range(2))
    return auc(scores, y == 1, y == 0, None if weight is None else np.concatenate([part[2] for part in parts]))


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
