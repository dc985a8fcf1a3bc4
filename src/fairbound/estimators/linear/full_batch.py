"""A linear model trained on all rows at once: the lowest loss first, from there towards accuracy, both under the
bounds.

The share of the error rate in the objective rises in steps, each begun at the point before, as long as accuracy on the
training rows does not fall; then the model is moved along lines on which wrong decisions are counted (`fewer_wrong`).

With objective "auto" the model stays at the lowest loss where surrogates are gentle (`suited`), as under bounds on rates
of groups, or there are few rows for each weight, unless it is no better than a constant. Elsewhere the share rises only
where the area under the ROC curve stays near that of the lowest loss seen, so that scores keep their order, or where
more is gained of accuracy, surely more than chance gives, than is lost of the area beyond that; a model no better than a
constant gives way to any that is more accurate and whose scores rank surely better than chance. On many rows it then
goes part of the way to a model that was refused (`part_way`).

Under bounds on areas and distributions it is moved towards the model without bounds at the end, as far as they allow
(`towards_unbounded`).

A model of numbers under bounds on mean residuals and mean squared errors goes at the end to the exact optimum
(`least_squares`) where the method was left to "auto"; one under bounds on shares above thresholds is moved along lines on
which these are counted (`lower_error`).

Scores of a model that was trained towards accuracy or moved along lines are brought to scale (`scaled`) after how nearly
it meets the conditions of optimality is measured: decisions do not depend on it.

Where weight decay is asked for, all runs have it in their objective (see `weight_decay`). Without it, where the model
decides every training row right, larger weights always lower the logistic loss, so that it has no lowest point and the
run ends at weights that say little of new rows. It is made again then, from zeros, with a decay of 1 / n for n rows, as
by scikit-learn's LogisticRegression with C = 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fairbound.estimators.choosing import Refined
from fairbound.estimators.gains import area, gained
from fairbound.estimators.linear.scale_of_scores import scaled
from fairbound.estimators.linear.towards_unbounded import moved_outward
from fairbound.estimators.linear.weight_decay import USUAL, Decayed
from fairbound.estimators.optimality import optimality
from fairbound.estimators.runs import joined, solution_of
from fairbound.estimators.trained import at_point, constant_on
from fairbound.fairness.least_squares import lowest_within
from fairbound.fairness.lines.fewer_wrong import fewer_wrong
from fairbound.fairness.lines.lower_error import lower_error
from fairbound.fairness.lines.part_way import part_way
from fairbound.fairness.objectives import Accuracy
from fairbound.fairness.pointwise import LOGISTIC
from fairbound.fairness.problem import FairProblem
from fairbound.methods import FullBatchALM
from fairbound.problems.both_rows import BothRows
from fairbound.solver.budget import Budget
from fairbound.solver.solve import Solution

LESS, MIDDLE, MORE = 0.3, 0.65, 0.9
"""Shares of the error rate in the objective: the middle one is tried first, then the one beside it."""

AUC_LOSS = 0.002
"""By how much "auto" lets the area under the ROC curve fall, beside what it gains of accuracy beyond chance."""

MANY_ROWS = 10_000
"""From so many rows on "auto" goes part of the way to a model that the area refuses (`part_way`). On fewer, what that
gains is mostly of the training rows alone."""

ROWS_EACH = 10
"""Rows for each number of a model below which "auto" stays at the lowest loss. With fewer, what a smoothed error rate
gains is of the training rows alone, and costs accuracy on new ones."""

FEW_ITERATIONS = 3
"""Iterations of a round at most, with gentle surrogates on all rows of a table that training began on a part of."""

GENTLE = 1.0
"""The last sharpness up to which "auto" stays at the lowest loss."""

WORTH_SAYING = 0.01
"""Accuracy that is passed over for the area without a word, at most."""

UNMET = 20
"""Rounds after which a run under bounds on distributions ends that met them in none, where another run goes on from the
point that the problem itself then finds (`Problem.nearer`)."""


def train_full_batch(
    problem: FairProblem,
    part: Callable[[], FairProblem] | None,
    method: FullBatchALM,
    *,
    refined: Refined,
    weight_decay: float = 0.0,
    exact_end: bool = False,
    **options: Any,
) -> tuple[Solution, dict[str, Any]]:
    """The solution of `problem`, whose steps, records and counts are those of all runs together, and as plain data how
    nearly it meets the conditions of optimality (`fb.kkt`), with the share of the error rate in the objective
    ("error_share"), the "weight_decay" in it, whether the lowest loss decides every row right ("separated"), and what a
    more accurate model that was refused for its area has more in accuracy and less in area ("passed_over"), else None.

    part: builds the problem of some of its rows to begin on, which is dropped after that; or None. refined: whether the
    objective, an `Accuracy` then, is to go from the loss towards the error rate: "auto" as far as the order of the
    scores allows. weight_decay: >= 0. exact_end: whether to end at the exact optimum of problems of which it
    is known (`least_squares`). options: those of `solve`, x0 for the first run.
    """
    runs = _Runs.of(problem, method, refined, weight_decay, options)
    runs, (solution, share, separated, passed_over) = _begun(
        problem if part is None else part(), runs, whole=part is None
    )
    if part is not None and not solution.interrupted:
        solution = runs.on_all_rows.run(problem, share, solution)
    alone = runs.held is None and not solution.interrupted
    if alone and exact_end:
        solution = _at_optimum(problem, solution, options["budget"])
    if alone and solution.feasible:
        solution = _moved_along_lines(problem, runs, runs.outward(problem, share, solution), separated)
    if runs.held is not None and problem.plan.ranks:
        near: Any = BothRows(problem, runs.held)
    else:
        near = runs.objective(problem, share)
    facts = optimality(near, method, solution.x, problem.total_rows)
    if alone and solution.feasible and (share or (refined == "yes" and not separated)):
        solution = replace(solution, x=scaled([problem], solution.x, runs.decay))
    return solution, {
        **facts,
        "error_share": share,
        "weight_decay": runs.decay,
        "separated": separated,
        "passed_over": passed_over,
    }


def suited(method: FullBatchALM, problem: FairProblem, refined: Refined) -> FullBatchALM:
    """The method that "auto" takes in place of `method` where bounds are contrasts of means: with shifted multipliers, and
    for decisions about groups by objective "auto" with gentle surrogates. Steep ones meet a bound by moving the few rows
    near the threshold, and on new rows it is exceeded by more; they stay where the loss or the accuracy of the training
    rows is all that is asked for, and where there are few distinct rows, which tell all that is to be known."""
    if problem.plan.beyond_means:
        return method
    of_classes = any(bound.about == "class" for bound in problem.plan.notions)
    stands = refined != "auto" or of_classes or problem.few_rows is not None
    return replace(method, **{"dual_values": "shifted"} if stands else FullBatchALM.presets["rates"])


@dataclass(frozen=True)
class _Runs:
    """How the runs of one training go. first: the method of the run that begins; quick: that of those which go on from
    it. refined: as in `train_full_batch`. decay: the weight decay in the objective of all of them. options: of `solve`."""

    first: FullBatchALM
    quick: FullBatchALM
    refined: Refined
    decay: float
    options: dict[str, Any]

    @classmethod
    def of(
        cls, problem: FairProblem, method: FullBatchALM, refined: Refined, decay: float, options: dict[str, Any]
    ) -> _Runs:
        """The runs by a method that is less exact where another run follows."""
        on_distributions = any(bound.free_thresholds for bound in problem.plan.notions)
        quick = replace(
            method,
            sharpness=method.sharpness[-1:],
            patience=1,
            tolerance=10 * method.tolerance,
            unmet=min(UNMET, method.unmet) if on_distributions else method.unmet,
        )
        runs = cls(method, quick, refined, decay, options)
        alone = refined == "no" or runs.stays
        return runs if alone else replace(runs, first=replace(quick, sharpness=method.sharpness))

    @property
    def stays(self) -> bool:
        """Whether "auto" is to stay at the lowest loss, as a smoothed error rate is little else at this sharpness."""
        return self.refined == "auto" and self.quick.sharpness[-1] <= GENTLE

    @property
    def steep(self) -> _Runs:
        """These runs with surrogates that are near the error rate after the first."""
        return replace(self, quick=replace(self.quick, sharpness=FullBatchALM().sharpness[-1:]))

    @property
    def on_all_rows(self) -> _Runs:
        """These runs for all rows of a table that was begun on a part of them, where rounds are dear: with the gentle
        surrogates of the preset "rates" in short rounds that soon end inside the bounds."""
        if self.quick.margin_grows != "after_offsets":
            return self
        iterations = min(self.quick.iterations, FEW_ITERATIONS)
        return replace(self, quick=replace(self.quick, iterations=iterations, margin_grows="by_excess"))

    @property
    def held(self) -> FairProblem | None:
        """The problem of the validation rows, if any."""
        return self.options.get("validation")

    def objective(self, problem: FairProblem, share: float) -> Any:
        """The problem with this share of the error rate and the weight decay in its objective."""
        stated = problem if self.refined == "no" else problem.with_objective(Accuracy(share))
        return Decayed(stated, self.decay) if self.decay else stated

    def run(self, problem: FairProblem, share: float, before: Solution) -> Solution:
        """A quick run from the solution `before`, joined to it."""
        after = solution_of(self.objective(problem, share), self.quick, **{**self.options, "x0": before.x})
        return joined(before, after)

    def outward(self, problem: FairProblem, share: float, solution: Solution) -> Solution:
        """A solution moved towards the model without bounds as far as they allow (`towards_unbounded`), where it meets
        them and no other rows are to meet them too."""
        if self.held is not None or solution.interrupted or not solution.feasible:
            return solution
        late = lambda: self.options["budget"].over  # noqa: E731
        aim, keeps_order = self.objective(problem, share), self.refined == "auto"
        return moved_outward(problem, aim, solution, self.decay, late, keeps_order)

    def lowest_loss(self, problem: FairProblem, before: Solution | None = None) -> Solution:
        """The first run; or after another one, joined to it, from zeros."""
        if before is None:
            return solution_of(self.objective(problem, 0.0), self.first, **self.options)
        zeros = {**self.options, "x0": torch.zeros_like(before.x)}
        return joined(before, solution_of(self.objective(problem, 0.0), self.first, **zeros))


class _Reached(NamedTuple):
    """What was reached towards accuracy. share, separated, passed_over: as of `train_full_batch`."""

    solution: Solution
    share: float
    separated: bool = False
    passed_over: dict[str, float] | None = None


def _begun(problem: FairProblem, runs: _Runs, whole: bool) -> tuple[_Runs, _Reached]:
    """The lowest loss and from there towards accuracy; and the runs, with the decay that a loss without a lowest point
    asks for. whole: whether these are all rows."""
    solution = runs.lowest_loss(problem)
    separated = not solution.interrupted and _separates(problem, solution.x)
    if separated and not runs.decay:
        runs = replace(runs, decay=USUAL / problem.total_rows)
        solution = runs.lowest_loss(problem, solution)
    if whole and not solution.found:
        solution = runs.outward(problem, 0.0, solution)
    if runs.refined == "no" or not solution.feasible or separated:
        return runs, _Reached(solution, 0.0, separated)
    return runs, _towards_accuracy(problem, runs, solution, whole)


def _towards_accuracy(problem: FairProblem, runs: _Runs, solution: Solution, whole: bool) -> _Reached:
    """The solution with as much of the error rate in the objective as pays."""
    auto, share = runs.refined == "auto", 0.0
    seen = [_quality(problem, solution.x, auto)]
    few = auto and problem.total_rows < ROWS_EACH * problem.n
    tried = None if (few or runs.stays) and not constant_on(problem, seen[0].accuracy) else MIDDLE
    runs = runs.steep if runs.stays else runs
    refused: list[tuple[Solution, float, _Quality]] = []
    while tried is not None and not solution.interrupted:
        after = runs.run(problem, tried, solution)
        now, before = _quality(problem, after.x, auto), seen[0]
        least = min(now, *seen).area - AUC_LOSS if auto else 0.0
        better = bool(after.feasible) and now.accuracy >= before.accuracy
        kept = better and not now.area < least
        refused += [(after, tried, now)] if better and not kept else []
        seen = [now, *seen] if kept else [*seen, now]
        solution, share = (after, tried) if kept else (replace(solution, stopped=after.stopped), share)
        tried = (MORE if kept else LESS) if tried == MIDDLE else None
    if not refused:
        return _Reached(solution, share)
    alone = whole and runs.held is None
    reached = _Reached(*_despite_the_area(problem, (solution, share), refused, seen[0], min(seen).area, alone))
    return reached._replace(passed_over=_passed_over(problem, reached.solution, [now for _, _, now in refused]))


def _passed_over(problem: FairProblem, solution: Solution, refused: list[_Quality]) -> dict[str, float] | None:
    """What the most accurate model that was refused has more in accuracy and less in area, if that is worth saying."""
    best, own = max(refused, key=lambda one: one.accuracy), _quality(problem, solution.x, True)
    more = best.accuracy - own.accuracy
    return {"accuracy": more, "area": own.area - best.area} if more >= WORTH_SAYING else None


def _at_optimum(problem: FairProblem, solution: Solution, limit: Budget) -> Solution:
    """The solution at the exact optimum, where that is known before the deadline of `limit` and the solution misses a
    bound, has a higher loss, or is the start, which may be that optimum: no other run need look for a model then."""
    x = lowest_within(problem, late=lambda: limit.over)
    if x is None or (solution.found and float(problem.evaluate(x).f) >= float(problem.evaluate(solution.x).f)):
        return solution
    return at_point(solution, x, "every bound is met on the training rows.")


def _moved_along_lines(problem: FairProblem, runs: _Runs, solution: Solution, separated: bool) -> Solution:
    """A feasible solution moved to where fewer decisions are wrong, or numbers are predicted with a lower error."""
    if runs.refined == "yes" and not separated:
        return replace(solution, x=fewer_wrong(problem, solution.x))
    if runs.refined == "no" and not runs.decay:
        return replace(solution, x=lower_error(problem, solution.x))
    return solution


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
        gain = gained(problem, solution.x, after.x)
        pays = gain.beyond_chance(problem) and area_of_loss - now.area <= AUC_LOSS + gain.accuracy
        if pays or (constant and gain.over_constant(problem, now.area)):
            bought.append(((now.accuracy, now.area), after, tried))
    if bought:
        _, after, share = max(bought, key=lambda one: one[0])
        return replace(after, stopped=solution.stopped), share
    if not alone or problem.total_rows < MANY_ROWS or share >= MIDDLE or solution.interrupted:
        return kept
    after, tried, _ = refused[-1]
    x, t = part_way(problem, solution.x, after.x, lambda at: area_of_loss - area(problem, at) <= AUC_LOSS)
    return replace(solution, x=x), share + t * (tried - share)


class _Quality(NamedTuple):
    """The mean loss, the accuracy (0 where the loss leaves it open) and the area under the ROC curve, 0 where it was not
    asked for; the lowest loss sorts first."""

    loss: float
    accuracy: float
    area: float


def _quality(problem: FairProblem, x: Tensor, ranks: bool) -> _Quality:
    """At x (n,) of a problem whose objective is an `Accuracy`. ranks: whether the area is asked for."""
    found = problem.evaluate(x).extra
    return _Quality(float(found["loss"]), float(found.get("accuracy", 0.0)), area(problem, x) if ranks else 0.0)


def _separates(problem: FairProblem, x: Tensor) -> bool:
    """Whether x (n,) decides every row right by a logistic score, so that larger weights always lower the loss."""
    if problem.loss is not LOGISTIC or problem.model.outputs > 1 or problem.plan.ranks:
        return False
    wrong = ((problem.all_scores(x) > 0) != (problem.targets > 0.5)).sum()
    return float(problem.shards.sum(wrong)) == 0
