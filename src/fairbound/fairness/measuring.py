"""The exact value of a bound, for anyone's scores, and as a scorer of scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fairbound.base.errors import DataError
from fairbound.fairness.bound import Bound
from fairbound.fairness.notions import constraint
from fairbound.fairness.predictions import read_numbers, read_predictions
from fairbound.fairness.scored import Scored
from fairbound.rows.groups import Groups
from fairbound.rows.labels import read_targets
from fairbound.rows.reading import read_weights
from fairbound.rows.scores import as_logits, refuse_decisions


def measure(
    stated: str | Bound,
    scores: Any,
    y: Any,
    sensitive_features: Any = None,
    *,
    sample_weight: Any = None,
    threshold: float | None = None,
    classes: Sequence[Any] | None = None,
) -> float:
    """The exact metric of a bound, in its units: "equalized_odds" is the largest difference of rates between groups.

    stated: a bound, or its text with or without the number. scores: (n,) decisions, probabilities or real scores;
    threshold: where a positive decision begins; both as in `audit`. y: (n,) in {0, 1}. sensitive_features: as in `audit`.
    Of the rates of every class ("class_recall_parity"): scores are the predicted labels (n,), or a score (n, k) for each of
    the `classes`, and y the labels. Of predicted numbers ("residual_gap"): scores are the numbers, y the true ones.
    Returns: NaN where the metric is undefined (no row predicted positive in a group, say).
    Raises: DataError (also for decisions where losses are measured), EmptyGroupError for a group without a row that the metric needs, OptionError for the text.
    """
    bound = constraint(stated, bound=1.0)
    if "groups" in bound.needs and sensitive_features is None:
        raise DataError(f"{bound.statement!r} compares groups; pass sensitive_features.")
    if bound.needs & {"classes", "predictions"}:
        rows = read_numbers(scores, y) if "predictions" in bound.needs else read_predictions(scores, y, classes)
        of_rows = Groups.of(sensitive_features)
        if len(of_rows) != len(rows):
            raise DataError(f"{len(rows)} predictions but {len(of_rows)} rows of sensitive features.")
        weight = None if sample_weight is None else read_weights(sample_weight, len(rows))
        return bound.measure(replace(rows, groups=of_rows, weight=weight))
    s, read_as = as_logits(scores, threshold)
    target = read_targets(y, len(s))
    if target is None:
        raise DataError("measure needs the labels y.")
    groups = None if sensitive_features is None else Groups.of(sensitive_features)
    if groups is not None and len(groups) != len(s):
        raise DataError(f"{len(s)} scores but {len(groups)} rows of sensitive features.")
    if "scores" in bound.needs:
        refuse_decisions(read_as)
    weight = None if sample_weight is None else read_weights(sample_weight, len(s))
    return bound.measure(Scored(target, (s > 0).astype(np.int64), ("0", "1"), s, groups, weight))


def scorer(stated: str | Bound) -> Any:
    """A scorer for `cross_validate` and `GridSearchCV` that asks for `sensitive_features`: greater is fairer.

    With metadata routing (`sklearn.set_config(enable_metadata_routing=True)`). Labels must be 0 and 1, but for the rates of
    every class and for predicted numbers.
    """
    from sklearn.metrics import make_scorer

    bound = constraint(stated, bound=1.0)

    def value(y: Any, scores: Any, sensitive_features: Any = None, sample_weight: Any = None) -> float:
        return measure(bound, scores, y, sensitive_features, sample_weight=sample_weight, threshold=0.0)

    method = "predict" if bound.needs & {"classes", "predictions"} else "decision_function"
    made = make_scorer(value, greater_is_better=bound.sense == "at least", response_method=method)
    return made.set_score_request(sensitive_features=True)
