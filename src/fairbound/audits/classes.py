"""The part of an audit that speaks of classes: recall and error of each, with exact binomial bounds, from predicted labels.

Source: Clopper and Pearson (1934), as set out in `fairbound.confidence.single`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairbound.base.errors import DataError, OptionError
from fairbound.confidence.contrasts import rate_gap_bounds, rows_needed
from fairbound.confidence.single import clopper_pearson
from fairbound.fairness.class_risk import ClassRisk
from fairbound.fairness.plan import class_number
from fairbound.rows.groups import natural_order, texts_of


@dataclass(frozen=True)
class Predictions:
    """target, predicted: (n,) class numbers of the true and of the predicted label; classes: their k labels as text."""

    target: np.ndarray
    predicted: np.ndarray
    classes: tuple[str, ...]

    @property
    def wrong(self) -> np.ndarray:
        """(n,) rows that are given another label than their own."""
        return self.target != self.predicted


def read_predictions(predictions: Any, y: Any, classes: Sequence[Any] | None = None) -> Predictions:
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
    return Predictions(number(truth), number(guess), tuple(known))


def judge_class(
    notion: ClassRisk, rows: Predictions, w: np.ndarray | None, alpha: float, confidence: float
) -> dict[str, Any]:
    """The verdict on one bound: an entry of the audit's "constraints" (docs/audit-schema.md).

    alpha: level of each of the two one-sided bounds.
    """
    mine = rows.target == class_number(notion.class_, rows.target, rows.classes)
    base = {
        "name": notion.name,
        "text": notion.text,
        "sense": notion.sense,
        "bound": float(notion.level),
        "confidence": confidence,
        "groups": {f"class {notion.class_}": int(mine.sum())},
    }
    weight = np.ones(len(mine)) if w is None else w
    errors, trials = effective(rows.wrong, mine, weight)
    if trials <= 0:
        return {
            **base,
            **dict.fromkeys(("value", "lower", "upper", "rows_needed", "worst")),
            "verdict": "insufficient",
            "method": "none",
            "contrasts": [],
            "why": f"No held-out row has the label {notion.class_}.",
        }
    found = rate_gap_bounds([errors], [trials], [[1.0]], alpha, method="exact")
    verdict = found.verdict(notion.bound)
    ends = sorted(float(notion.shown(v)) for v in (found.lower, found.upper))
    value = float(notion.shown(found.value))
    needed = None
    if verdict == "insufficient":
        share = [trials / len(mine)]
        needed = rows_needed([found.value], share, notion.bound, [[1.0]], alpha, method="exact")
    measured = {"value": value, "lower": min(ends[0], value), "upper": max(ends[1], value)}
    return {
        **base,
        **measured,
        "verdict": verdict,
        "rows_needed": needed,
        "worst": None,
        "method": "Clopper-Pearson (exact binomial) on the rows of the class, Bonferroni over stated bounds"
        + ("" if w is None else "; weighted rows by their effective number (Kish)"),
        "contrasts": [{"name": f"class {notion.class_}", **measured}],
        "why": None,
    }


def effective(hit: np.ndarray, among: np.ndarray, w: np.ndarray) -> tuple[float, float]:
    """Hits and trials among the rows `among`: counts, or with weights Kish's effective number of rows."""
    total, square = float(w[among].sum()), float((w[among] ** 2).sum())
    trials = total**2 / square if square > 0 else 0.0
    return (float(w[among & hit].sum()) * trials / total if trials else 0.0), trials


def class_metrics(rows: Predictions, w: np.ndarray | None) -> dict[str, float | None]:
    """Accuracy, the mean recall of the classes that occur, and the lowest of them."""
    weight = np.ones(len(rows.target)) if w is None else w
    total = np.bincount(rows.target, weights=weight)
    recalls = np.bincount(rows.target, weights=weight * ~rows.wrong)[total > 0] / total[total > 0]
    return {
        "accuracy": float(np.average(~rows.wrong, weights=weight)),
        "balanced_accuracy": float(recalls.mean()),
        "lowest_recall": float(recalls.min()),
    }


def class_rows(rows: Predictions, w: np.ndarray | None, confidence: float, label: str) -> list[dict[str, Any]]:
    """Recall and precision of every class: the audit's "groups". label: name of the label."""
    weight = np.ones(len(rows.target)) if w is None else w
    out = []
    for i, name in enumerate(rows.classes):
        mine, named = rows.target == i, rows.predicted == i
        recall = rate_record(*effective(~rows.wrong, mine, weight), "row of the class", confidence)
        precision = rate_record(*effective(~rows.wrong, named, weight), "row predicted to be it", confidence)
        rates = {"recall": recall, "precision": precision}
        n = int(mine.sum())
        out.append({"attribute": label, "group": name, "n": n, "positives": None, "rates": rates, "mean_loss": None})
    return out


def rate_record(successes: float, trials: float, among: str, confidence: float) -> dict[str, Any]:
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
    rows: Predictions,
    others: Mapping[str, Predictions],
    notions: Sequence[Any],
    w: np.ndarray | None,
    alpha: float,
    confidence: float,
    label: str,
) -> dict[str, Any]:
    """The part of an audit that the rows decide: metrics, classes, verdicts, and other models on the same rows.

    notions: bounds on classes. alpha: as in `judge_class`. label: name of the label.
    """

    def judged(these: Predictions) -> list[dict[str, Any]]:
        return [judge_class(n, these, w, alpha, confidence) for n in notions]

    said = []
    if len(np.unique(rows.predicted)) == 1:
        one = rows.classes[int(rows.predicted[0])]
        said.append(f"Every row is predicted {one!r}, so a bound on that class is met trivially.")
    return {
        "metrics": class_metrics(rows, w),
        "groups": class_rows(rows, w, confidence, label),
        "constraints": judged(rows),
        "comparison": [
            compared_model(name, class_metrics(these, w)["accuracy"], None, judged(these))
            for name, these in others.items()
        ],
        "distributions": [],
        "warnings": said,
    }
