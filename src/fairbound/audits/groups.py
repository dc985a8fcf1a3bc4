"""The part of an audit of one score per row: accuracy, the rates of every group, and verdicts on bounds between groups.

Source: Newcombe (1998), Clopper and Pearson (1934), as set out in `fairbound.confidence.contrasts`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import expit

from fairbound.audits.impact import impact_tables
from fairbound.audits.percentiles import percentile_profiles
from fairbound.audits.records import compared_model, listed_attributes, rate_record
from fairbound.audits.roc import roc_pictures
from fairbound.base.records import plain
from fairbound.confidence.means import moments
from fairbound.fairness.bound import Bound
from fairbound.fairness.compiled.statistics import RATES
from fairbound.fairness.metrics import auc
from fairbound.fairness.scored import Scored
from fairbound.fairness.verdicts.values import rate_values

BINS = 40
EDGES = np.linspace(0, 1, BINS + 1)


def group_facts(
    rows: Scored, others: Mapping[str, Scored], bounds: Sequence[Bound], alpha: float, outcomes: bool
) -> dict[str, Any]:
    """The part of an audit that the rows decide, of one score per row.

    others: name -> the same rows with the scores of another model. alpha: error probability of each verdict. outcomes:
    whether the targets are known labels; else they are the decisions, and only shares selected are said.
    """
    s = rows.scores
    assert s is not None
    said = one_decision(rows.predicted)
    comparison = []
    for name, other in others.items():
        said += one_decision(other.predicted, f"By the compared model {name!r} every row")
        comparison.append(compared_model(name, _metrics(other, outcomes), [b.judge(other, alpha) for b in bounds]))
    said += filter(None, (b.met_trivially(rows) for b in bounds))
    profiles, roc = percentile_profiles(rows, bounds), roc_pictures(rows, bounds)
    return {
        "metrics": _metrics(rows, outcomes),
        "groups": group_rows(rows, bounds, outcomes),
        "constraints": [b.judge(rows, alpha) for b in bounds],
        "comparison": comparison,
        "distributions": [
            distribution(attribute, labels, histograms(expit(s), code, len(labels)))
            for attribute, labels, code in rows.groups.by_attribute
        ],
        "impact": impact_tables(rows),
        **({"percentiles": profiles} if profiles else {}),
        **({"roc": roc} if roc else {}),
        "warnings": said,
    }


def claim_no_probability(found: dict[str, Any]) -> None:
    """Take what needs probabilities out of the facts of other scores: losses, and histograms of the scores."""
    found["metrics"] |= {"log_loss": None} if "log_loss" in found["metrics"] else {}
    found["distributions"] = []
    for group in found["groups"]:
        group["mean_loss"] = None


def claim_no_ranking(found: dict[str, Any]) -> None:
    """Take the area under the ROC curve out of the facts of decisions, which rank nobody; the note that they are
    decisions says why."""
    found["metrics"] |= {"auc": None} if "auc" in found["metrics"] else {}


def _metrics(rows: Scored, outcomes: bool = True) -> dict[str, float | None]:
    s, y, loss = rows.scores, rows.target, rows.loss
    assert s is not None
    weight = np.ones(len(y)) if rows.weight is None else rows.weight
    selected = float(np.average(rows.predicted, weights=weight))
    if not outcomes:
        return {"selection_rate": selected}
    one_class = len(np.unique(y)) < 2
    return {
        "accuracy": float(np.average(rows.predicted == y, weights=weight)),
        "auc": None if one_class else float(auc(s, y, weight)),
        "log_loss": float(loss @ (weight / weight.sum())),
        "selection_rate": selected,
        "base_rate": float(np.average(y, weights=weight)),
    }


def one_decision(positive: np.ndarray, every: str = "Every row") -> list[str]:
    """A warning where all rows (n,) are given one decision."""
    if len(np.unique(positive)) > 1:
        return []
    return [
        f"{every} is predicted {'positive' if positive[0] else 'negative'}, so any bound on rates is met trivially."
    ]


_RATES = {
    "selection_rate": "rows",
    "true_positive_rate": "positives",
    "false_positive_rate": "negatives",
    "positive_predictive_value": "predicted positives",
    "error_rate": "rows",
    "base_rate": "rows",
}


def _mean_losses(rows: Scored, code: np.ndarray, k: int) -> np.ndarray:
    """(k,) mean loss of every group; of rows that were counted, `losses` are the mean of each entry's."""
    if rows.each is None:
        return moments(rows.loss, code, k, rows.weight)[0]
    known = code >= 0
    loss = np.bincount(code[known], weights=(rows.loss * rows.each)[known], minlength=k)
    count = np.bincount(code[known], weights=rows.each[known], minlength=k)
    return np.divide(loss, count, out=np.full(k, np.nan), where=count > 0)


def group_rows(rows: Scored, bounds: Sequence[Bound], outcomes: bool = True) -> list[dict[str, Any]]:
    """The audit's "groups" of two classes: rows, rates and mean loss of every group, as of `listed_attributes`.
    outcomes: as of `group_facts`."""
    out, listed = [], _RATES if outcomes else {"selection_rate": "rows"}
    for attribute, labels, code in listed_attributes(rows.groups, bounds):
        k = len(labels)
        made = {name: rate_values(RATES[name], rows, code, k) for name in listed}
        losses = _mean_losses(rows, code, k)
        for i, label in enumerate(labels):
            rates = {
                name: rate_record(made[name][0][i], made[name][1][i], among, rows.confidence)
                for name, among in listed.items()
            }
            mine = rows.mass[0] * (code == i)
            out.append(
                {
                    "attribute": attribute,
                    "group": label,
                    "n": int(mine.sum()),
                    "positives": int((mine * (rows.target == 1)).sum()) if outcomes else None,
                    "rates": rates,
                    "mean_loss": plain(losses[i]) if outcomes else None,
                }
            )
    return out


def histograms(p: np.ndarray, code: np.ndarray, k: int) -> np.ndarray:
    """(k, BINS) rows of every group by predicted probability p (n,); code: (n,) groups, -1 for none."""
    bin_of = np.minimum(np.searchsorted(EDGES, p, side="right") - 1, BINS - 1)
    return np.bincount((code * BINS + bin_of)[code >= 0], minlength=k * BINS).reshape(k, BINS)


def distribution(attribute: str, labels: Sequence[str], rows: np.ndarray) -> dict[str, Any]:
    """What the audit shows of the `histograms` of an attribute's groups."""
    groups = {name: row.tolist() for name, row in zip(labels, rows, strict=True)}
    return {"attribute": attribute, "edges": EDGES.tolist(), "threshold": 0.5, "groups": groups}
