"""The last step of `FairClassifier(use_groups_at_prediction=True)`: thresholds of groups on the scores of the trained model.

The model is trained without the bounds. The best decisions under bounds on rates, group by group, are those by thresholds on
the best estimate of the label, and bounds in training would only blur it (Hardt, Price, Srebro 2016, section 5).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fairbound.base.errors import OptionError
from fairbound.estimators.trained import no_better_than_constant
from fairbound.estimators.training_rows import seen_by_model
from fairbound.fairness.notions import Bound
from fairbound.models.scoring import predicted_scores
from fairbound.postprocessing import GroupRule, fit_rule
from fairbound.rows.groups import Groups
from fairbound.rows.reading import read_weights


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
    classifier: Any,
    features: Any,
    codes: np.ndarray,
    groups: Groups,
    stated: tuple[Bound, ...],
    sample_weight: Any,
) -> tuple[GroupRule, dict[str, Any]]:
    """The rule, and the report of the fit with what the rule does to its rows.

    classifier: with its model trained, and the report of it. features (n, d), codes (n,) in {0, 1}: of the same rows as groups.
    """
    facts, classes = classifier.fit_report_, classifier.classes_.tolist()
    scores = predicted_scores(classifier.model_, classifier.x_, seen_by_model(features)).numpy()
    weight = None if sample_weight is None else read_weights(sample_weight, len(codes))
    rule, found = fit_rule(scores, codes, groups, stated, classes=classes, weight=weight)
    share = float(np.average(codes, weights=weight))
    return rule, {
        **facts,
        "constraints": found.pop("constraints"),
        "feasible": True,
        "no_better_than_constant": no_better_than_constant(found["accuracy"], max(share, 1 - share), len(codes)),
        "dropped_groups": found.pop("dropped_groups"),
        "warnings": [*facts["warnings"], *found.pop("warnings")],
        "notes": [
            *facts["notes"],
            "Trained without the bounds; every group has a threshold of its own that meets them.",
        ],
        "group_thresholds": found,
    }
