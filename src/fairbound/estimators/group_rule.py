"""The last step of `FairClassifier(use_groups_at_prediction=True)`: thresholds of groups on the scores of the trained model.

The model is trained without the bounds. The best decisions under bounds on rates, group by group, are those by thresholds on
the best estimate of the label, mixed at random where that is needed (Hardt, Price, Srebro 2016, section 5). Where single thresholds
cost more than mixtures, as often under tight equalised odds, they are also fitted to the scores of a model trained under the bounds,
and the more accurate of the two is taken: another score can do better than any thresholds on the best estimate (Woodworth,
Gunasekar, Ohannessian, Srebro 2017, Learning non-discriminatory predictors).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fairbound.base.errors import OptionError
from fairbound.estimators.options import classifier_bounds
from fairbound.estimators.trained import no_better_than_constant
from fairbound.estimators.training_rows import seen_by_model
from fairbound.fairness.notions import Bound
from fairbound.models.scoring import predicted_scores
from fairbound.postprocessing import GroupRule, fit_rule
from fairbound.postprocessing.fitting import SHORT
from fairbound.rows.groups import Groups
from fairbound.rows.reading import read_weights

WORTH = 0.002
"""By so much more accurate mixtures of thresholds are worth a second training, under the bounds."""
SHORTFALL = (
    "One threshold for each group costs accuracy under these bounds: {:.3f} on the training rows, where mixtures of thresholds, which "
    "decide some rows by a draw, have {:.3f}. Loosen the bound{}, or put fb.PostProcessor(..., randomised=True) on a model without "
    "bounds."
)


def without_rule(stated: tuple[Bound, ...], classes: tuple[Any, ...]) -> tuple[Bound, ...]:
    """The bounds that the model itself is trained under: none.

    Raises: OptionError where there is nothing to fit thresholds to, or no positive class.
    """
    if not stated:
        raise OptionError("use_groups_at_prediction=True needs a bound, as in 'demographic_parity <= 0.02'.")
    if len(classes) > 2:
        raise OptionError(f"use_groups_at_prediction=True needs two classes, y has {len(classes)}.")
    return ()


def fit_group_rule(
    classifier: Any, features: Any, codes: np.ndarray, groups: Groups, sample_weight: Any, *, free: bool
) -> tuple[GroupRule, dict[str, Any]]:
    """The rule, and the report of the fit with what the rule does to its rows.

    classifier: with its model trained, and the report of it. features (n, d), codes (n,) in {0, 1}: of the same rows as groups.
    free: whether the model was trained without the bounds.
    """
    stated = classifier_bounds(classifier)
    facts, classes = classifier.fit_report_, classifier.classes_.tolist()
    scores = predicted_scores(classifier.model_, classifier.x_, seen_by_model(features)).numpy()
    weight = None if sample_weight is None else read_weights(sample_weight, len(codes))
    rule, found = fit_rule(scores, codes, groups, stated, classes=classes, weight=weight)
    share = float(np.average(codes, weights=weight))
    return rule, {
        **facts,
        "constraints": found.pop("constraints"),
        "accuracy": found["accuracy"],
        "feasible": True,
        "message": "every bound is met on the training rows, by thresholds of the groups.",
        "no_better_than_constant": no_better_than_constant(found["accuracy"], max(share, 1 - share), len(codes)),
        "dropped_groups": found.pop("dropped_groups"),
        "warnings": [*facts["warnings"], *found.pop("warnings")],
        "notes": [
            *facts["notes"],
            f"Trained {'without' if free else 'under'} the bounds; every group has a threshold of its own that meets them.",
        ],
        "group_thresholds": found,
    }


def falls_short(facts: Mapping[str, Any]) -> bool:
    """Whether mixtures of thresholds would be more accurate than the rule of a fit. facts: its report."""
    return "group_thresholds" in facts and facts["group_thresholds"]["gap"] > WORTH


def take_better(first: Any, second: Any) -> None:
    """Make `first` the more accurate of two fitted classifiers with thresholds; second: trained under the bounds.

    Where the better one, too, falls far short of mixtures of thresholds on the scores of `first`, the report says so.
    """
    mixed = first.fit_report_["group_thresholds"]["accuracy_bound"]
    if second.fit_report_["group_thresholds"]["accuracy"] > first.fit_report_["group_thresholds"]["accuracy"]:
        vars(first).update(vars(second))
    found = first.fit_report_["group_thresholds"]
    terms = "" if first.group_terms else ", take group_terms=True"
    if mixed - found["accuracy"] > SHORT:
        first.fit_report_["remarks"] += [said := SHORTFALL.format(found["accuracy"], mixed, terms)]
        first.fit_report_["warnings"] += [said]
