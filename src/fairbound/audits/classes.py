"""The part of an audit that speaks of classes: recall and error of each, with exact binomial bounds, from predicted labels.

Source: Clopper and Pearson (1934), as set out in `fairbound.confidence.single`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fairbound.base.errors import DataError, OptionError
from fairbound.confidence.single import clopper_pearson
from fairbound.fairness.scored import Scored
from fairbound.fairness.values import share_of
from fairbound.rows.groups import natural_order, texts_of


def read_predictions(predictions: Any, y: Any, classes: Sequence[Any] | None = None) -> Scored:
    """Predicted labels (n,) or scores (n, k), and true labels (n,), as class numbers.

    classes: the k labels in the order of the scores' columns; needed for scores. A label of y that is not among them is
    a class of its own, which no score can name. Without it the classes are the labels that occur.
    Raises: DataError for rows without a label, lengths that differ, scores that are not finite, or numbers that are no
        labels; OptionError where scores and classes do not fit each other.
    """
    truth = texts_of(y)
    gone = sum(v is None for v in truth)
    if gone:
        raise DataError(f"the label is missing in {gone} of {len(truth)} rows; drop these rows.")
    if not len(truth):
        raise DataError("there are no rows.")
    given = predictions.detach().cpu().numpy() if hasattr(predictions, "detach") else np.asarray(predictions)
    if len(given) != len(truth):
        raise DataError(f"there are {len(given)} rows of predictions and {len(truth)} labels.")
    known = [] if classes is None else [str(v) for v in texts_of(np.asarray(classes, dtype=object))]
    if given.ndim == 2:
        if given.shape[1] != len(known):
            raise OptionError(
                f"the scores have {given.shape[1]} columns; name the class of each with classes= (a classifier's "
                f"classes_), got {len(known)}. Or pass the predicted labels."
            )
        scores = given.astype(np.float64)
        if not np.isfinite(scores).all():
            raise DataError(f"the scores are missing or infinite in {int((~np.isfinite(scores)).any(1).sum())} rows.")
        guess = np.array(known, dtype=object)[scores.argmax(axis=1)]
    else:
        if (
            given.dtype.kind == "f"
            and not np.equal(np.mod(given, 1), 0).all()
            and not set(texts_of(given)) <= set(truth)
        ):
            raise DataError("the predictions are fractions, which are no labels of y; pass the predicted labels.")
        guess = texts_of(given)
        if any(v is None for v in guess):
            raise DataError(f"the prediction is missing in {sum(v is None for v in guess)} of {len(guess)} rows.")
    known += sorted({*truth, *guess} - set(known), key=natural_order)
    place = {label: i for i, label in enumerate(known)}
    number = lambda labels: np.array([place[v] for v in labels], dtype=np.int64)  # noqa: E731
    return Scored(number(truth), number(guess), tuple(known))


def class_metrics(rows: Scored) -> dict[str, float | None]:
    """Accuracy, the mean recall of the classes that occur, and the lowest of them."""
    weight = np.ones(len(rows)) if rows.weight is None else rows.weight
    total = np.bincount(rows.target, weights=weight)
    recalls = np.bincount(rows.target, weights=weight * ~rows.wrong)[total > 0] / total[total > 0]
    return {
        "accuracy": float(np.average(~rows.wrong, weights=weight)),
        "balanced_accuracy": float(recalls.mean()),
        "lowest_recall": float(recalls.min()),
    }


def class_rows(rows: Scored, label: str) -> list[dict[str, Any]]:
    """Recall and precision of every class: the audit's "groups". label: name of the label."""
    out = []
    for i, name in enumerate(rows.classes):
        mine, named = rows.target == i, rows.predicted == i
        recall = rate_record(*share_of(~rows.wrong, mine, rows), "row of the class", rows.confidence)
        precision = rate_record(*share_of(~rows.wrong, named, rows), "row predicted to be it", rows.confidence)
        rates = {"recall": recall, "precision": precision}
        n = int(mine.sum())
        out.append({"attribute": label, "group": name, "n": n, "positives": None, "rates": rates, "mean_loss": None})
    return out


def rate_record(successes: Any, trials: Any, among: str, confidence: float) -> dict[str, Any]:
    """One rate of the audit's "groups" with its two-sided interval; `among`: what there was none of without trials."""
    n = round(float(trials))
    if trials <= 0:
        return {"value": None, "lower": None, "upper": None, "count": n, "why": f"no {among}"}
    lower, upper = clopper_pearson(successes, trials, 1 - confidence)
    value = float(successes / trials)
    return {
        "value": value,
        "lower": min(float(lower), value),
        "upper": max(float(upper), value),
        "count": n,
        "why": None,
    }


def compared_model(
    name: str, accuracy: float | None, auc: float | None, judged: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """One model of the audit's "comparison"."""
    keys = ("text", "sense", "bound", "value", "lower", "upper", "verdict")
    bounds = [{k: c[k] for k in keys if k in c} for c in judged]
    return {"name": name, "accuracy": accuracy, "auc": auc, "constraints": bounds}


def class_facts(
    rows: Scored, others: Mapping[str, Scored], bounds: Sequence[Any], alpha: float, label: str
) -> dict[str, Any]:
    """The part of an audit that the rows decide: metrics, classes, verdicts, and other models on the same rows.

    bounds: on classes. alpha: error probability of each verdict. label: name of the label.
    """
    said = []
    if len(np.unique(rows.predicted)) == 1:
        one = rows.classes[int(rows.predicted[0])]
        said.append(f"Every row is predicted {one!r}, so a bound on that class is met trivially.")
    return {
        "metrics": class_metrics(rows),
        "groups": class_rows(rows, label),
        "constraints": [b.judge(rows, alpha) for b in bounds],
        "comparison": [
            compared_model(name, class_metrics(these)["accuracy"], None, [b.judge(these, alpha) for b in bounds])
            for name, these in others.items()
        ],
        "distributions": [],
        "warnings": said,
    }
