"""The part of an audit that speaks of classes: recall and error of each, with exact binomial bounds, from predicted
labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fairbound.audits.records import compared_model, listed_attributes, rate_record
from fairbound.fairness.bound import Bound
from fairbound.fairness.scored import Scored
from fairbound.fairness.verdicts.values import share_of, share_values

MOST_RATES = 12
"""Most rates that are listed for a group beside its accuracy; with more, the comparisons alone show them."""


def class_metrics(rows: Scored) -> dict[str, float | None]:
    """Accuracy, the mean recall of the classes that occur, and the lowest of them."""
    weight = rows.mass[1]
    total = np.bincount(rows.target, weights=weight)
    recalls = np.bincount(rows.target, weights=weight * ~rows.wrong)[total > 0] / total[total > 0]
    return {
        "accuracy": float(np.average(~rows.wrong, weights=weight)),
        "balanced_accuracy": float(recalls.mean()),
        "lowest_recall": float(recalls.min()),
    }


def class_rows(rows: Scored, label: str) -> list[dict[str, Any]]:
    """Recall and precision of every class: the audit's "groups". label: name of the label, "y" where it has none."""
    out, attribute = [], "class" if label == "y" else label
    for i, name in enumerate(rows.classes):
        mine, named = rows.target == i, rows.predicted == i
        recall = rate_record(*share_of(~rows.wrong, mine, rows), "row of the class", rows.confidence)
        precision = rate_record(*share_of(~rows.wrong, named, rows), "row predicted to be it", rows.confidence)
        rates = {"recall": recall, "precision": precision}
        n = int(rows.mass[0][mine].sum())
        out.append(
            {"attribute": attribute, "group": name, "n": n, "positives": None, "rates": rates, "mean_loss": None}
        )
    return out


def class_rates_of_groups(rows: Scored, bounds: Sequence[Bound] = ()) -> list[dict[str, Any]]:
    """The accuracy of every group, as of `listed_attributes`, and the rates that the bounds compare, if at most
    MOST_RATES."""
    rates: dict[str, tuple[int | None, int | None]] = {}
    for bound in bounds:
        rates |= bound.class_rates(rows.classes)
    rates.pop("recall", None)  # over all classes: the accuracy
    rates = {"accuracy": (None, None), **(rates if len(rates) <= MOST_RATES else {})}
    out = []
    for attribute, names, code in listed_attributes(rows.groups, bounds):
        found = {}
        for rate, (predicted, label) in rates.items():
            hit = ~rows.wrong if predicted is None else rows.predicted == predicted
            among = (code >= 0) & (True if label is None else rows.target == label)
            found[rate] = share_values(hit, among, rows, code, len(names))
        for g, name in enumerate(names):
            made = {}
            for rate, (successes, trials, *_) in found.items():
                label = rates[rate][1]
                which = "" if label is None else f" with the label {rows.classes[label]}"
                made[rate] = rate_record(successes[g], trials[g], f"row of the group{which}", rows.confidence)
            facts = {"n": int(found["accuracy"][2][g]), "positives": None, "rates": made, "mean_loss": None}
            out.append({"attribute": attribute, "group": name, **facts})
    return out


def _never_predicted(rows: Scored) -> list[str]:
    """A warning of the classes that occur and are never predicted, or of the one that all rows are predicted to be."""
    if len(predicted := np.unique(rows.predicted)) == 1:
        return [f"Every row is predicted {rows.classes[predicted[0]]!r}, so a bound on that class is met trivially."]
    missed = [rows.classes[i] for i in np.setdiff1d(rows.target, predicted)]
    if not missed:
        return []
    return [
        f"No row is predicted {' or '.join(map(repr, missed))}, so {'its recall is' if len(missed) == 1 else 'their recalls are'} 0."
    ]


def class_facts(
    rows: Scored, others: Mapping[str, Scored], bounds: Sequence[Bound], alpha: float, label: str
) -> dict[str, Any]:
    """The part of an audit that the rows decide: metrics, classes, verdicts, and other models on the same rows.

    bounds: on classes. alpha: error probability of each verdict. label: name of the label.
    """
    return {
        "metrics": class_metrics(rows),
        "groups": class_rows(rows, label) + class_rates_of_groups(rows, bounds),
        "constraints": [b.judge(rows, alpha) for b in bounds],
        "comparison": [
            compared_model(name, class_metrics(these), [b.judge(these, alpha) for b in bounds])
            for name, these in others.items()
        ],
        "distributions": [],
        "warnings": _never_predicted(rows),
    }
