"""`measure`, the exact value of a bound on the scores of any model, and `scorer`, the same for scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fairbound.base.errors import DataError, OptionError
from fairbound.fairness.bound import Bound, check_groups
from fairbound.fairness.notions import constraint
from fairbound.fairness.predictions import read_numbers, read_predictions, speak_of_labels
from fairbound.fairness.scored import Scored
from fairbound.ranking.documents import Documents
from fairbound.rows.groups import Groups
from fairbound.rows.labels import as_decisions, class_tuple, labels_of, read_targets
from fairbound.rows.reading import column_array, read_weights, warn_of_order
from fairbound.rows.scores import as_logits, refuse_decisions


def measure(
    stated: str | Bound,
    scores: Any,
    y: Any,
    sensitive_features: Any = None,
    *,
    sample_weight: Any = None,
    threshold: float | None = None,
    classes: Sequence[Any] | int | None = None,
    positive: Any = None,
    qid: Any = None,
) -> float:
    """The value of a bound on these rows, exactly and in its units: of "equalized_odds" the largest difference of
        rates.

        fb.measure("demographic_parity", scores, y, sex, threshold=0)

    stated: a bound, or its text with or without the number.
    scores: (n,) decisions, probabilities or real scores. For rates of every class ("class_recall_parity") or of one
        ("recall of class b"): the predicted labels (n,), or a score (n, k) for each of the `classes`. For predicted
        numbers ("residual_gap"): the numbers.
    y: (n,) in {0, 1}; or two labels, of which `positive` is the one that scores speak of; or the classes, or the true
        numbers.
    sensitive_features, sample_weight, threshold (where a positive decision begins), classes: as in `audit`.
    qid: (n,) the query of each document, for bounds on rankings ("pairwise_parity[inter]"); y is then their relevance, a
        number >= 0, and scores are real. It takes no sample_weight, classes or positive.
    Returns: a float; NaN where the metric is undefined (no row predicted positive in a group, say).
    Raises: DataError (also for decisions where losses are measured), EmptyGroupError for a group without a row that the
        metric needs, OptionError for the text.
    """
    bound = constraint(stated, bound=1.0)
    classes = None if classes is None else class_tuple(classes)
    warn_of_order(scores=scores, y=y, sensitive_features=sensitive_features)
    check_groups([bound], sensitive_features)
    if "queries" in bound.needs or qid is not None:
        _check_ranking(bound, qid, sample_weight=sample_weight, classes=classes, positive=positive)
        groups = Groups.of_rows(sensitive_features, len(column_array("scores", scores)))
        return bound.measure(Scored.of_documents(scores, Documents.of(qid, y, groups)))
    of_one_class = bound.about == "class" and positive is None and y is not None and speak_of_labels(scores, y, classes)
    if of_one_class or bound.needs & {"classes", "predictions"}:
        _refuse_positive(bound, positive)
        rows = read_numbers(scores, y) if "predictions" in bound.needs else read_predictions(scores, y, classes)
        of_rows = Groups.of_rows(sensitive_features, len(rows), "predictions")
        weight = None if sample_weight is None else read_weights(sample_weight, len(rows))
        return bound.measure(replace(rows, groups=of_rows, weight=weight))
    if y is None:
        raise DataError("measure needs the labels y.")
    found = None if positive is None else labels_of(y, positive)
    target = _zero_one(y) if found is None else found[0]
    s, read_as = as_logits(scores if found is None else as_decisions(scores, found[1]), threshold)
    if len(target) != len(s):
        raise DataError(f"{len(s)} scores but {len(target)} labels.")
    groups = Groups.of_rows(sensitive_features, len(s))
    if "scores" in bound.needs:
        refuse_decisions(read_as)
    weight = None if sample_weight is None else read_weights(sample_weight, len(s))
    return bound.measure(Scored(target, (s > 0).astype(np.int64), ("0", "1"), s, groups, weight))


def _zero_one(y: Any) -> np.ndarray:
    """(n,) labels that are 0 and 1. Raises: DataError for others, and says how to pass them."""
    try:
        target = read_targets(y, len(column_array("y", y)))
    except DataError as error:
        raise DataError(f"{error} Or name it: measure(..., positive=POSITIVE).") from None
    assert target is not None
    return target


def _check_ranking(bound: Bound, qid: Any, **others: Any) -> None:
    """Raises: OptionError unless the bound is on a ranking, the queries are given and the others are left out."""
    if "queries" not in bound.needs:
        raise OptionError(f"{bound.statement!r} speaks of no queries; leave qid out.")
    if qid is None:
        raise OptionError(
            f"{bound.statement!r} bounds a ranking; say to which query each row belongs: measure(..., qid=QUERIES)."
        )
    for name, value in others.items():
        if value is not None:
            raise OptionError(f"{bound.statement!r} bounds a ranking, which takes no {name}; leave it out.")


def _refuse_positive(bound: Bound, positive: Any) -> None:
    if positive is not None:
        raise OptionError(f"{bound.statement!r} speaks of no positive label; leave positive out.")


def scorer(stated: str | Bound, *, positive: Any = None) -> Scorer:
    """A scorer for `cross_validate` and `GridSearchCV` that asks for `sensitive_features`: greater is fairer.

    It needs metadata routing (`sklearn.set_config(enable_metadata_routing=True)`). positive: the label that counts as
    positive; None for the last of the estimator's `classes_`, as in its own `score` and decisions. Leave it out for
    rates of every class and for numbers.
    Raises: OptionError for the text, for a positive label that the bound does not speak of, and without metadata
    routing.
    """
    from sklearn import get_config

    bound = constraint(stated, bound=1.0)
    if bound.needs & {"classes", "predictions"}:
        _refuse_positive(bound, positive)
    if "queries" in bound.needs:
        raise OptionError(
            f"{bound.statement!r} bounds a ranking; scorers take no queries. Use measure(..., qid=QUERIES)."
        )
    if not get_config()["enable_metadata_routing"]:
        raise OptionError(
            "the scorer asks for sensitive_features by scikit-learn's metadata routing; call "
            "sklearn.set_config(enable_metadata_routing=True) before it is made."
        )
    return Scorer(bound, positive)


class Scorer:
    """What `scorer` returns: scikit-learn's own scorer of the bound,
    for the labels of the estimator that it is called with."""

    def __init__(self, bound: Bound, positive: Any):
        self.bound, self.positive = bound, positive
        self._requests: dict[str, Any] = {"sensitive_features": True}

    def __call__(self, estimator: Any, X: Any, y: Any, **given: Any) -> float:
        """The value of the bound on these rows, negative where less is fairer.
        given: sensitive_features, sample_weight."""
        return self._made(estimator)(estimator, X, y, **given)

    def __repr__(self) -> str:
        return f"scorer({self.bound.statement!r}, positive={self.positive!r})"

    def set_score_request(self, **requests: bool | str | None) -> Scorer:
        """Which of sensitive_features and sample_weight are asked for, and under which name,
        as of scikit-learn's scorers."""
        self._made(None).set_score_request(**requests)
        self._requests = requests
        return self

    def get_metadata_routing(self) -> Any:
        """What scikit-learn's metadata routing asks."""
        return self._made(None).set_score_request(**self._requests).get_metadata_routing()

    def _made(self, estimator: Any) -> Any:
        from sklearn.metrics import make_scorer

        positive, method, threshold = self.positive, "decision_function", 0.0
        if self.bound.needs & {"classes", "predictions"}:
            method = "predict"
        else:
            if not hasattr(estimator, method) and hasattr(estimator, "predict_proba"):
                method, threshold = "predict_proba", 0.5
            labels: Any = getattr(estimator, "classes_", ())
            if positive is None and len(labels) == 2:
                positive = labels[1]

        def value(
            y: Any, scores: Any, sensitive_features: Any = None, sample_weight: Any = None, pos_label: Any = None
        ) -> float:
            how = {"sample_weight": sample_weight, "threshold": threshold, "positive": pos_label}
            return measure(self.bound, scores, y, sensitive_features, **how)

        # by pos_label scikit-learn turns the sign of the scores
        label = {} if positive is None else {"pos_label": positive}
        return make_scorer(value, greater_is_better=self.bound.sense == "at least", response_method=method, **label)
