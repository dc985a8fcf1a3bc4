"""`measure`, the exact value of a bound on the scores of any model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fairbound.base.errors import DataError, OptionError
from fairbound.fairness.bound import Bound, check_groups
from fairbound.fairness.notions import constraint
from fairbound.fairness.predictions import read_decisions, read_numbers, read_predictions, speak_of_labels
from fairbound.fairness.scored import Scored
from fairbound.ranking.documents import Documents
from fairbound.rows.groups import Groups
from fairbound.rows.labels import as_decisions, class_tuple, labels_of, two_valued
from fairbound.rows.reading import column_array, read_weights, warn_of_order
from fairbound.rows.scores import decided_scores, refuse_decisions
from fairbound.rows.weighted import unequal_weights


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
        rates. What is judged comes first, the true labels second, other than in scikit-learn.

        fb.measure("demographic_parity", scores, y, sex, threshold=0)

    stated: a bound, or its text with or without the number.
    scores: (n,) decisions, probabilities or real scores. For rates of every class ("class_recall_parity") or of one
        ("recall of class b"): the predicted labels (n,), or a score (n, k) for each of the `classes`. For predicted
        numbers ("residual_gap"): the numbers.
    y: (n,) in {0, 1}; or two labels, of which `positive` is the one that scores speak of, without it the greater; or the classes, or the true
        numbers. None where the bound looks at decisions alone, as demographic_parity does; scores may then be two words.
    sensitive_features, sample_weight, threshold (where a positive decision begins), classes: as in `audit`.
    qid: (n,) the query of each document, for bounds on rankings ("pairwise_parity[inter]"); y is then their relevance, a
        number >= 0, and scores are real. It takes no sample_weight, classes or positive.
    Returns: a float; NaN where the metric is undefined (no row predicted positive in a group, say).
    Raises: DataError (also for decisions where losses are measured), EmptyGroupError for a group without a row that the
        metric needs, OptionError for the text.
    """
    bound = constraint(stated, bound=1.0)
    classes = None if classes is None else class_tuple(classes)
    warn_of_order(scores=scores, y=y, sensitive_features=sensitive_features, sample_weight=sample_weight, qid=qid)
    check_groups([bound], sensitive_features)
    if "queries" in bound.needs or qid is not None:
        _check_ranking(bound, qid, sample_weight=sample_weight, classes=classes, positive=positive)
        groups = Groups.of_rows(sensitive_features, len(column_array("scores", scores)))
        return bound.measure(Scored.of_documents(scores, Documents.of(qid, y, groups)))
    of_one_class = bound.about == "class" and positive is None and y is not None and speak_of_labels(scores, y, classes)
    if of_one_class or bound.needs & {"classes", "predictions"}:
        refuse_positive(bound, positive)
        rows = read_numbers(scores, y) if "predictions" in bound.needs else read_predictions(scores, y, classes)
        of_rows = Groups.of_rows(sensitive_features, len(rows), "predictions")
        weight = unequal_weights(read_weights(sample_weight, len(rows)))
        return bound.measure(replace(rows, groups=of_rows, weight=weight))
    if y is None:
        if bound.reads_labels:
            raise DataError(f"{bound.statement!r} needs the labels y.")
        scores, y, _ = read_decisions(scores, threshold, classes, positive)
        positive = None
    column = column_array("y", y)
    target, meant = labels_of(y, positive) if positive is not None else two_valued(y, len(column))
    s, decided, read_as = decided_scores(as_decisions(scores, meant), threshold)
    if len(target) != len(s):
        raise DataError(f"{len(s)} scores but {len(target)} labels.")
    groups = Groups.of_rows(sensitive_features, len(s))
    if "scores" in bound.needs:
        refuse_decisions(read_as, on_losses=bound.judged_from == "losses")
    weight = unequal_weights(read_weights(sample_weight, len(s)))
    return bound.measure(Scored(target, decided, ("0", "1"), s, groups, weight))


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


def refuse_positive(bound: Bound, positive: Any) -> None:
    """Raises: OptionError where a positive label is named for a bound that speaks of none."""
    if positive is not None:
        raise OptionError(f"{bound.statement!r} speaks of no positive label; leave positive out.")
