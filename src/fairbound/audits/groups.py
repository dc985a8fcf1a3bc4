"""The part of an audit of one score per row: accuracy, the rates of every group, and verdicts on bounds between groups.

Source: Newcombe (1998), Clopper and Pearson (1934), as set out in `fairbound.confidence.contrasts`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fairbound.audits.classes import compared_model, rate_record
from fairbound.audits.impact import impact_tables
from fairbound.audits.percentiles import percentile_profiles
from fairbound.audits.roc import roc_pictures
from fairbound.confidence.means import moments
from fairbound.fairness.metrics import auc
from fairbound.fairness.scored import Scored
from fairbound.fairness.statistics import RATES
from fairbound.fairness.values import rate_values
from fairbound.rows.groups import Groups

BINS = 40


def group_facts(rows: Scored, others: Mapping[str, Scored], bounds: Sequence[Any], alpha: float) -> dict[str, Any]:
    """The part of an audit that the rows decide, of one score per row: 1 where it is above 0.

    others: name -> the same rows with the scores of another model. alpha: error probability of each verdict.
    """
    s = rows.scores
    assert s is not None
    said = (
        []
        if (one := _only_decision(s)) is None
        else [f"Every row is predicted {one}, so any bound on rates is met trivially."]
    )
    comparison = []
    for name, other in others.items():
        metrics = _metrics(other)
        judged = [b.judge(other, alpha) for b in bounds]
        if other.scores is not None and (one := _only_decision(other.scores)) is not None:
            said.append(f"The compared model {name!r} predicts every row {one}: it meets any bound on rates trivially.")
        comparison.append(compared_model(name, metrics["accuracy"], metrics["auc"], judged))
    said += _weightless(rows)
    profiles, roc = percentile_profiles(rows, bounds), roc_pictures(rows, bounds)
    return {
        "metrics": _metrics(rows),
        "groups": group_rows(rows),
        "constraints": [b.judge(rows, alpha) for b in bounds],
        "comparison": comparison,
        "distributions": [_distribution(s, rows.known_groups, j) for j in range(len(rows.known_groups.attributes))],
        "impact": impact_tables(rows),
        **({"percentiles": profiles} if profiles else {}),
        **({"roc": roc} if roc else {}),
        "warnings": said,
    }


def _weightless(rows: Scored) -> list[str]:
    """Of every group that has rows, none of them of positive weight, why nothing can be said of it."""
    if rows.weight is None:
        return []
    out, groups, some = [], rows.known_groups, rows.weight > 0
    for name, labels, code in zip(groups.attributes, groups.labels, groups.codes.T, strict=True):
        for i, label in enumerate(labels):
            mine = code == i
            if mine.any() and not some[mine].any():
                out.append(
                    f"All {int(mine.sum()):,} rows of group {label!r} of {name} have the weight 0, so nothing can be said of it."
                )
    return out


def _metrics(rows: Scored) -> dict[str, float | None]:
    s, y, loss = rows.scores, rows.target, rows.loss
    assert s is not None
    weight = np.ones(len(y)) if rows.weight is None else rows.weight
    one_class = len(np.unique(y[weight > 0])) < 2
    return {
        "accuracy": float(np.average((s > 0) == (y == 1), weights=weight)),
        "auc": None if one_class else float(auc(s, y, weight)),
        "log_loss": float(loss @ (weight / weight.sum())),
        "selection_rate": float(np.average(s > 0, weights=weight)),
        "base_rate": float(np.average(y, weights=weight)),
    }


def _only_decision(s: np.ndarray) -> str | None:
    """The decision that every row is given; None where there are two."""
    positive = s > 0
    return None if positive.any() and not positive.all() else "positive" if positive.all() else "negative"


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


def group_rows(rows: Scored) -> list[dict[str, Any]]:
    out, groups = [], rows.known_groups
    for j, attribute in enumerate(groups.attributes):
        code = groups.codes[:, j]
        if not (code >= 0).any():
            continue
        k = len(groups.labels[j])
        made = {name: rate_values(RATES[name], rows, code, k) for name in _RATES}
        losses = _mean_losses(rows, code, k)
        for i, label in enumerate(groups.labels[j]):
            rates = {
                name: rate_record(made[name][0][i], made[name][1][i], among, rows.confidence)
                for name, among in _RATES.items()
            }
            mine = rows.mass[0] * (code == i)
            out.append(
                {
                    "attribute": attribute,
                    "group": label,
                    "n": int(mine.sum()),
                    "positives": int((mine * (rows.target == 1)).sum()),
                    "rates": rates,
                    "mean_loss": float(losses[i]) if np.isfinite(losses[i]) else None,
                }
            )
    return out


def _distribution(s: np.ndarray, groups: Groups, j: int) -> dict[str, Any]:
    """Histograms of predicted probability by group."""
    edges = np.linspace(0, 1, BINS + 1)
    p = 1 / (1 + np.exp(-np.clip(s, -700, 700)))
    code = groups.codes[:, j]
    return {
        "attribute": groups.attributes[j],
        "edges": edges.tolist(),
        "threshold": 0.5,
        "groups": {g: np.histogram(p[code == i], edges)[0].tolist() for i, g in enumerate(groups.labels[j])},
    }
