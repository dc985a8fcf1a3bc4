"""`fit_report_`: the facts of a finished fit as plain data, with warnings where its rows or features are too few."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairbound.base.records import plain
from fairbound.estimators.facts.fit_warnings import missed_words, missing_group_words
from fairbound.estimators.facts.outside_intervals import outside_intervals
from fairbound.estimators.facts.telling_features import LOOK, SURPRISING, told_by_feature
from fairbound.estimators.linear.shrunk_scores import shrunk_words
from fairbound.estimators.optimality import optimality
from fairbound.estimators.trained import (
    MOST,
    Trained,
    TrainedRanker,
    bounds_cost_nothing,
    decisions,
    hardly_better_than_constant,
    largest_share,
    measured_accuracy,
    no_better_than_constant,
    rows_alike,
    weighted_accuracy,
)
from fairbound.estimators.validation import thin_groups
from fairbound.fairness.bound import remarks_on
from fairbound.fairness.few_rows import BelowAStep, bounds_below_a_step
from fairbound.fairness.notions import Bound
from fairbound.fairness.problem import FairProblem
from fairbound.models.mlp import is_linear
from fairbound.models.model import ModuleModel
from fairbound.problems.problem import Measured
from fairbound.rows.doubtful import doubtful_groups, own_label_words
from fairbound.rows.groups import Groups
from fairbound.rows.shards import Shards
from fairbound.rows.sparse import SparseRows
from fairbound.solver.diagnosis import diagnose
from fairbound.tables import EncodeReport, TableEncoder

WITHOUT_BOUNDS = (
    "these features tell too little of the label. Give the model more of them, {}, or train longer (a larger budget)."
)
BEND = "let it bend more (5 knots, or a model mlp:16)"
BEND_SPARSE = "let it bend more (a model mlp:16)"  # a sparse table takes no knots
UNDER_BOUNDS = "{}rain longer (a larger budget), loosen the bound, or merge small groups; where a model without the bound is no better, the features tell too little of the label."
"""What to do about a model that is no better than a constant: without bounds, with how it may take more shapes, and under
them, with what `_untried` begins."""
FEW_ROWS = "Groups of few rows leave it hardly another choice, whatever the method or the budget: "
UNDER_FEW_ROWS = (
    FEW_ROWS
    + "{}merge them with others, mark their values missing, or loosen the bound; where a model without the bound is no better, the features tell too little of the label."
)
"""The same where the value of a group moves in steps above the bound."""
UNDER_EQUALITY = "A bound of 0 leaves it hardly another choice, whatever the method or the budget: state the difference that you can accept."
WEIGHTED = (
    "Classes count by their weights in what is minimised; counted so, {:.3f} of the training rows are decided rightly."
)
INTERRUPTED = "Training was interrupted: this is the best model that it had found until then."
DECAYED = "Weight decay: {:.3g} / 2 times the squared weights was added to what is minimised, so that weights fit new rows better."

PASSED_OVER = (
    "A model that decides {:.1f} points more of the training rows right was found under the bounds too, and passed over: its "
    "scores order the rows less well (area under the ROC curve {:.3f} less). Where decisions alone matter, say "
    "objective='accuracy' (--objective accuracy)."
)


def fit_report(
    trained: Trained,
    seed: int,
    encoding: EncodeReport | None,
    notes: Sequence[str],
    groups: Groups,
    encoder: TableEncoder | None = None,
    codes: np.ndarray | None = None,
) -> dict[str, Any]:
    """What `FairClassifier.fit_report_` holds: model, algorithm, budget, rows, rows whose group is not known by
    attribute, stated bounds with their values on the training rows and the comparison that gives each ("worst"),
    "accuracy" (of the decisions on these rows, with their weights; not of predicted numbers), notes (those given and
    those of the training), warnings (of dropped columns too), and the advice of `fairbound.solver.diagnosis`. groups:
    of all rows, those kept for validation too. encoder: of the features, where it is known. codes: (n,) class numbers of
    all rows, None where numbers are predicted."""
    problem, held, solution, near = trained.problem, trained.held, trained.solution, trained.optimality
    if not near and problem.shards.count == 1:
        near = optimality(problem, trained.method, solution.x, problem.total_rows)
    measured = problem.reported(solution.x)
    accuracy = measured_accuracy(measured)
    below = bounds_below_a_step(problem.plan, problem.counts_of_cells())
    small = [*(found.said for found in below), *doubtful_groups(groups.names)]
    small += [] if codes is None else own_label_words(groups, codes)
    thin = thin_groups(problem) if bool(solution.feasible) else []
    missing = _missing_groups(groups, problem.shards)
    dropped = [] if encoding is None else encoding.column_lines()
    remarks = remarks_on(problem.plan.notions, groups.attributes)
    remarks += _left_open(problem, accuracy)
    rare = [] if encoding is None else encoding.rare_lines()
    decay, separated = near.get("weight_decay"), near.get("separated", False)
    shrunk = [DECAYED.format(decay)] if decay else []
    if passed := near.get("passed_over"):
        shrunk.append(PASSED_OVER.format(100 * passed["accuracy"], passed["area"]))
    cautions = [*dropped, *trained.warnings, *small, *missing_group_words(missing), *remarks]
    telling = None if accuracy is None else told_by_feature(problem, encoder)
    if telling is None and separated and problem.total_rows >= SURPRISING:
        cautions.append(f"A model decides all {problem.total_rows:,} training rows right. {LOOK}")
    cautions += [telling] if telling else []
    aim = accuracy if _aims_at_accuracy(problem) else None
    common = _share_as_accurate(problem, aim)
    help_ = _what_may_help(trained, below, near)
    weighted = weighted_accuracy(problem, solution.x)
    nothing_learnt, may_help = _nothing_learnt(trained, common, _share_alike(problem, aim, solution.x), weighted, help_)
    shrunk += [] if weighted is None else [WEIGHTED.format(weighted)]
    if nothing_learnt is not None:
        cautions.append(nothing_learnt)
    run = run_facts(trained, seed, encoding, measured, problem.plan.notions)
    for fact, worst in zip(run["constraints"], _worst(problem, measured), strict=True):
        fact["worst"] = worst
    return {
        **run,
        **({} if accuracy is None else {"accuracy": accuracy}),
        "train_rows": problem.total_rows,
        "validation_rows": 0 if held is None else held.total_rows,
        "optimality": near,
        "advice": [advice.to_dict() for advice in diagnose(solution, problem)],
        "no_better_than_constant": common is not None,
        "nothing_learnt": nothing_learnt,
        "what_may_help": may_help,
        "telling_feature": telling,
        "dropped_groups": list(problem.plan.dropped),
        "dropped_rows": dict(zip(problem.plan.dropped, problem.plan.dropped_rows, strict=True)),
        "small_groups": small,
        "remarks": remarks,
        "missing_group_rows": missing,
        "notes": [
            *([INTERRUPTED] if solution.interrupted else []),
            *notes,
            *rare,
            *trained.notes,
            *shrunk,
            *thin,
            *outside_intervals(problem, solution.x),
        ],
        "warnings": cautions,
    }


def _untried(trained: Trained) -> str:
    """The ways to a better model under bounds that this one was not made by."""
    ways = {
        "objective='accuracy'": trained.problem.refined,
        "algorithm='alm'": trained.method.name == "alm",
        "a network (mlp:16)": not is_linear(trained.problem.model),
    }
    left = [way for way, used in ways.items() if not used]
    named = " or ".join(filter(None, [", ".join(left[:-1]), *left[-1:]]))
    return f"Try {named}, t" if left else "T"


def _more_shapes(problem: FairProblem) -> str:
    """How the model of a problem may take more shapes."""
    if isinstance(problem.model, ModuleModel):
        return "make it larger"
    return BEND_SPARSE if isinstance(problem.features, SparseRows) else BEND


def _what_may_help(trained: Trained, below: Sequence[BelowAStep], near: Mapping[str, Any]) -> str:
    """What to do about a model that has learnt nothing. below: the bounds that groups of few rows can hardly meet.
    near: the optimality of its end."""
    problem = trained.problem
    if not problem.plan.notions or (trained.solution.found and bounds_cost_nothing(near)):
        said = WITHOUT_BOUNDS.format(_more_shapes(problem))
        return said[0].upper() + said[1:]
    first = next((found for found in below if found.bound.about == "group"), None)
    if first is None:
        return UNDER_BOUNDS.format(_untried(trained))
    if first.bound.bound == 0:
        return UNDER_EQUALITY
    return UNDER_FEW_ROWS.format("" if first.without is None else f"leave them out ({first.without}), ")


def _nothing_learnt(
    trained: Trained, common: float | None, alike: float | None, weighted: float | None, may_help: str
) -> tuple[str | None, str | None]:
    """What is said of a model that has learnt nothing, and of this the part that says what may help; None of others.
    common: the share of the commonest label where the model is no more accurate than it. alike: as of `_share_alike`.
    weighted: the accuracy in class weights. may_help: as of `_what_may_help`."""
    bounded, solution = trained.problem.plan.notions, trained.solution
    if bounded and bool(solution.feasible) and int(solution.best_step) == 0:
        said = "The start of training is the only model found that meets every bound, and it has learnt nothing."
    elif common is not None:
        said = "On the training rows the model is no more accurate than one that gives every row the same answer."
    elif weighted is not None and _constant_in_weights(trained.problem, weighted):
        said = "With classes counted by their weights, the model is no more accurate on the training rows than one that gives every row the same answer."
    elif alike is not None:
        said = (
            f"The model gives {100 * alike:.1f} % of the training rows the same answer, and is hardly more accurate than one "
            "that gives it to all."
        )
    else:
        return None, None
    if more := shrunk_words(trained):
        may_help += f" {more}"
    said += f" {may_help}"
    if common is not None and common >= MOST:
        said += (
            f" As {100 * common:.1f} % of the rows have one label, giving it to all is hard to beat: "
            "class_weight='balanced' (in Python) lets the labels count alike."
        )
    return said, may_help


def run_facts(
    trained: Trained | TrainedRanker,
    seed: int,
    encoding: EncodeReport | None,
    measured: Measured,
    notions: Sequence[Bound],
) -> dict[str, Any]:
    """What the reports of all fits say of the run; measured: of the problem at its solution;
    notions: its stated bounds."""
    problem, solution, method = trained.problem, trained.solution, trained.method
    values = problem.stated_values(measured)
    missed = "" if bool(solution.feasible) or len(notions) < 2 else missed_words(notions, values)
    return {
        "model": problem.model.spec(),
        "algorithm": method.name,
        "options": repr(method),
        "seed": seed,
        "budget": trained.budget.text,
        "steps": solution.steps,
        "seconds": solution.seconds,
        "best_step": int(solution.best_step),
        "feasible": bool(solution.feasible),
        "message": solution.message + (f" On the training rows {missed}." if missed else ""),
        "train_loss": float(measured.extra.get("loss", measured.f)),
        "constraints": [
            {"text": c.text, "sense": c.sense, "bound": float(c.stated), "train_value": plain(v)}
            for c, v in zip(notions, values, strict=True)
        ],
        "encoding": None if encoding is None else encoding.to_dict(),
    }


def _left_open(problem: FairProblem, accuracy: float | None) -> list[str]:
    """A warning where the objective looks at ranks alone, so that decisions are an afterthought."""
    on_decisions = [b.text for b in problem.plan.notions if b.judged_from == "counts" or b.about == "class"]
    if not on_decisions or not problem.plan.ranks or accuracy is None:
        return []
    return [
        f"objective='auc' looks at the order of the scores alone. Positive decisions begin where they are most often right under "
        f"{' and '.join(on_decisions)}: in {100 * accuracy:.1f} % of the training rows. For decisions take "
        "objective='auto'; for scores bound areas (auc_parity)."
    ]


def _missing_groups(groups: Groups, shards: Shards) -> dict[str, int]:
    """Rows whose group is not known, by attribute."""
    gone = groups.unknown()
    return dict(zip(gone, shards.sum(torch.tensor(list(gone.values()), dtype=torch.int64)).tolist(), strict=True))


def _aims_at_accuracy(problem: FairProblem) -> bool:
    """Whether accuracy tells what was learnt: bounds on a class, and objectives that weigh labels or ranks, may well
    cost more of it than a constant does."""
    other_aim = problem.plan.objective is not None and not problem.refined
    return not other_aim and all(b.about != "class" for b in problem.plan.notions)


def _share_as_accurate(problem: FairProblem, accuracy: float | None) -> float | None:
    """The share of the most frequent label, in the weights of the rows, where the model is no more accurate than to
    give it to all; else None. accuracy: None where it is not the aim."""
    if accuracy is None:
        return None
    largest = largest_share(problem)
    return largest if no_better_than_constant(accuracy, largest, problem.total_rows) else None


def _constant_in_weights(problem: FairProblem, weighted: float) -> bool:
    """Whether a model of this accuracy in class weights is no better than one answer for all rows, if groups alone are
    bounded."""
    assert problem.class_losses is not None
    groups = all(bound.about != "class" for bound in problem.plan.notions)
    return groups and no_better_than_constant(weighted, max(problem.class_losses.coefficients), problem.total_rows)


def _share_alike(problem: FairProblem, accuracy: float | None, x: Tensor) -> float | None:
    """The share of the rows that x (n,) gives one answer, where these are nearly all, far more than have one label, and
    accuracy is hardly above that of a constant; else None. accuracy: None where it is not the aim."""
    if not problem.shards.alone or accuracy is None:
        return None
    largest = largest_share(problem)
    if not hardly_better_than_constant(accuracy, largest):
        return None
    decided = decisions(problem, x).numpy(force=True)
    alike = rows_alike(decided, largest)
    return None if alike is None else alike / len(decided)


def _worst(problem: FairProblem, measured: Measured) -> list[str | None]:
    """For each stated bound the comparison that gives its value, None where there is no other, or all are alike."""
    plan, out = problem.plan, []
    for number, bound in enumerate(plan.notions):
        rows = plan.rows_of(number)
        g = measured.g[rows]
        worst = plan.names[rows[int(g.argmax())]] if len(rows) > 1 and bool(g.max() > g.min()) else None
        out.append(worst and worst.removeprefix(f"{bound.name}: "))
    return out
