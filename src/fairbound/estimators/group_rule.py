"""The last step of `FairClassifier(use_groups_at_prediction=True)`: thresholds of groups on the scores of the trained
model.

The model is trained without the bounds. The best decisions under bounds on rates, group by group, are those by
thresholds on the best estimate of the label, mixed at random where that is needed (Hardt, Price, Srebro 2016, section
5). Where single thresholds cost more than mixtures, as often under tight equalised odds, they are also fitted to the
scores of a model trained under the bounds, and the more accurate of the two is taken: another score can do better than
any thresholds on the best estimate (Woodworth, Gunasekar, Ohannessian, Srebro 2017, Learning non-discriminatory
predictors).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from fairbound.base.errors import OptionError
from fairbound.estimators.judged_rows import LabelledRows
from fairbound.estimators.training_rows import seen_by_model
from fairbound.fairness.notions import Bound
from fairbound.models.model import Model
from fairbound.models.scoring import predicted_scores
from fairbound.postprocessing import GroupRule, fit_rule
from fairbound.postprocessing.fitting import SHORT, RuleOptions
from fairbound.rows.reading import read_weights
from fairbound.solver.solve import Solution

WORTH = 0.002
"""By so much more accurate mixtures of thresholds are worth a second training, under the bounds."""
SHORTFALL = (
    "One threshold for each group costs {} under these bounds: {:.3f} on the training rows, where mixtures of thresholds, which "
    "decide some rows by a draw, have {:.3f}. Loosen the bound{}, or put fb.PostProcessor(..., randomised=True) on a model without "
    "bounds."
)


class Learnt(NamedTuple):
    """What one training of a classifier gave. x: the parameters of the model, without what is trained beside it;
    trajectory and report: as in FairClassifier; rule: its thresholds, where groups may be used at prediction."""

    model: Model
    x: Tensor
    solution: Solution
    trajectory: dict[str, Any]
    report: dict[str, Any]
    rule: GroupRule | None = None


def without_rule(stated: tuple[Bound, ...], classes: tuple[Any, ...]) -> tuple[Bound, ...]:
    """The bounds that the model itself is trained under: none.

    Raises: OptionError where there is nothing to fit thresholds to, or no positive class.
    """
    if not stated:
        raise OptionError("use_groups_at_prediction=True needs a bound, as in 'demographic_parity <= 0.02'.")
    if len(classes) > 2:
        raise OptionError(f"use_groups_at_prediction=True needs two classes, y has {len(classes)}.")
    return ()


def with_rule(
    learnt: Learnt,
    features: Any,
    rows: LabelledRows,
    stated: tuple[Bound, ...],
    costs: tuple[float, float],
    *,
    free: bool,
) -> Learnt:
    """The model with the rule, and in the report what the rule does to its rows.

    features: (n, d), of these rows. stated: the bounds that the rule is to meet. costs: of a false positive and of a false negative. free: whether the model was trained
    without them.
    """
    facts, codes, classes = learnt.report, rows.codes, np.array(rows.classes).tolist()
    scores = predicted_scores(learnt.model, learnt.x, seen_by_model(features)).numpy()
    weight = None if rows.weight is None else read_weights(rows.weight, len(codes))
    rule, found = fit_rule(
        scores, codes, rows.groups, stated, classes=classes, weight=weight, options=RuleOptions(costs=costs)
    )
    of_few_rows = found.pop("warnings")
    report = {
        **facts,
        "constraints": found.pop("constraints"),
        "accuracy": found["accuracy"],
        "feasible": True,
        "message": "every bound is met on the training rows, by thresholds of the groups.",
        "no_better_than_constant": found.pop("no_better_than_constant"),
        "dropped_groups": found.pop("dropped_groups"),
        "dropped_rows": found.pop("dropped_rows"),
        **{name: [*facts[name], *of_few_rows] for name in ("remarks", "warnings")},
        "notes": [
            *facts["notes"],
            f"Trained {'without' if free else 'under'} the bounds; every group has a threshold of its own that meets them.",
        ],
        "group_thresholds": found,
    }
    return learnt._replace(rule=rule, report=report)


def falls_short(facts: Mapping[str, Any]) -> bool:
    """Whether mixtures of thresholds would cost less than the rule of a fit. facts: its report."""
    return "group_thresholds" in facts and facts["group_thresholds"]["gap"] > WORTH


def more_accurate(first: Learnt, second: Learnt, group_terms: bool) -> Learnt:
    """The one of two models with thresholds whose errors cost less; second: trained under the bounds.

    Where it, too, falls far short of mixtures of thresholds on the scores of `first`, its report says so. group_terms:
    whether the models have them.
    """
    thresholds, others = first.report["group_thresholds"], second.report["group_thresholds"]
    taken = second if others["cost"] < thresholds["cost"] else first
    cost, mixed = taken.report["group_thresholds"]["cost"], thresholds["lowest_cost"]
    if cost - mixed <= SHORT:
        return taken
    equal = thresholds["accuracy_bound"] is not None
    what, here, there = ("accuracy", 1 - cost, 1 - mixed) if equal else ("much, as errors are weighted", cost, mixed)
    said = SHORTFALL.format(what, here, there, "" if group_terms else ", take group_terms=True")
    return taken._replace(report=taken.report | {name: [*taken.report[name], said] for name in ("remarks", "warnings")})
