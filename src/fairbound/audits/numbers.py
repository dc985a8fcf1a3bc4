"""The part of an audit that speaks of predicted numbers: errors over all rows, of every group, and verdicts on the bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fairbound.audits.classes import compared_model
from fairbound.confidence.means import moments
from fairbound.fairness.scored import Scored


def number_facts(rows: Scored, others: Mapping[str, Scored], bounds: Sequence[Any], alpha: float) -> dict[str, Any]:
    """The part of an audit that the rows decide. others: the same rows with the numbers of another model.

    bounds: on predicted numbers. alpha: error probability of each verdict.
    """
    return {
        "metrics": number_metrics(rows),
        "groups": _group_errors(rows),
        "constraints": [b.judge(rows, alpha) for b in bounds],
        "comparison": [
            compared_model(name, None, None, [b.judge(other, alpha) for b in bounds])
            | {"metrics": number_metrics(other)}
            for name, other in others.items()
        ],
        "distributions": [],
        "warnings": [],
    }


def number_metrics(rows: Scored) -> dict[str, float | None]:
    """Root mean squared error, mean residual (predicted minus true), and the share of the variance explained."""
    assert rows.residuals is not None and rows.scores is not None
    residuals, truth = rows.residuals, rows.scores - rows.residuals
    error = float(np.average(residuals**2, weights=rows.weight))
    variance = float(np.average((truth - np.average(truth, weights=rows.weight)) ** 2, weights=rows.weight))
    return {
        "root_mean_squared_error": error**0.5,
        "mean_residual": float(np.average(residuals, weights=rows.weight)),
        "r2": 1 - error / variance if variance > 0 else None,
    }


def _group_errors(rows: Scored) -> list[dict[str, Any]]:
    """The mean squared error of every group of every attribute, as its "mean_loss"."""
    out, groups = [], rows.known_groups
    for attribute, code, names in zip(groups.attributes, groups.codes.T, groups.labels, strict=True):
        means = moments(rows.loss, code, len(names), rows.weight)[0]
        counts = np.bincount(code[code >= 0], minlength=len(names))
        for name, mean, n in zip(names, means, counts, strict=True):
            loss = float(mean) if np.isfinite(mean) else None
            facts: dict[str, Any] = {"n": int(n), "positives": None, "rates": {}, "mean_loss": loss}
            out.append({"attribute": attribute, "group": name, **facts})
    return out
