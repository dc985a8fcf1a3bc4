"""The part of an audit that speaks of predicted numbers: errors over all rows, of every group,
and verdicts on the bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

from fairbound.audits.records import compared_model, listed_attributes, rate_record
from fairbound.base.records import plain
from fairbound.confidence.betting import mean_limits
from fairbound.confidence.means import ASYMPTOTIC_ROWS, moments
from fairbound.fairness.notions.regression import PredictionBound
from fairbound.fairness.scored import Scored
from fairbound.fairness.verdicts.values import mean_rows, share_values


def number_facts(
    rows: Scored, others: Mapping[str, Scored], bounds: Sequence[PredictionBound], alpha: float
) -> dict[str, Any]:
    """The part of an audit that the rows decide. others: the same rows with the numbers of another model.

    bounds: on predicted numbers. alpha: error probability of each verdict.
    """
    return {
        "metrics": number_metrics(rows),
        "groups": _group_means(rows, bounds),
        "constraints": [b.judge(rows, alpha) for b in bounds],
        "comparison": [
            compared_model(name, number_metrics(other), [b.judge(other, alpha) for b in bounds])
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


def _group_means(rows: Scored, bounds: Sequence[PredictionBound]) -> list[dict[str, Any]]:
    """For every group, as of `listed_attributes`, with intervals: mean residual, mean squared error, and what the bounds
    compare."""
    assert rows.residuals is not None
    measured: dict[str, tuple[np.ndarray, tuple[float, float] | None]] = {
        "mean_residual": (rows.residuals, None),
        "mean_squared_error": (rows.residuals**2, None),
    }
    for bound in bounds:
        measured |= {name: (x, bound.range) for name, x in bound.of_rows(rows).items()}
    out, everyone = [], np.full(len(rows), True)
    for attribute, names, code in listed_attributes(rows.groups, bounds):
        k, counts = len(names), np.bincount(code[code >= 0], minlength=len(names))
        shares = {n: share_values(x, everyone, rows, code, k) for n, (x, _) in measured.items() if x.dtype == bool}
        means = {n: _means(rows, x, code, k, ends) for n, (x, ends) in measured.items() if x.dtype != bool}
        for g, name in enumerate(names):
            rates = {n: rate_record(s[g], trials[g], "row", rows.confidence) for n, (s, trials, *_) in shares.items()}
            of = {n: records[g] for n, records in means.items()}
            loss = of["mean_squared_error"]["value"]
            facts = {"n": int(counts[g]), "positives": None, "rates": rates, "means": of, "mean_loss": loss}
            out.append({"attribute": attribute, "group": name, **facts})
    return out


def _means(
    rows: Scored, values: np.ndarray, code: np.ndarray, k: int, ends: tuple[float, float] | None
) -> list[dict[str, Any]]:
    """The mean of the values (n,) in each of k groups, with its two-sided interval: betting limits of values between
    `ends`, else Student's t where there are at least ASYMPTOTIC_ROWS rows."""
    values, code, weights, _ = mean_rows(values, code, k, rows)
    mean, variance, count = moments(values, code, k, weights)
    alpha = (1 - rows.confidence) / 2
    if ends is None:
        enough = count >= ASYMPTOTIC_ROWS
        width = stats.t.ppf(1 - alpha, np.where(enough, count, 2) - 1) * np.sqrt(variance / np.where(enough, count, 1))
        lower, upper = (np.where(enough, mean + sign * width, np.nan) for sign in (-1, 1))
    else:
        lower, upper = mean_limits(values, code, k, alpha, *ends, weights=weights)
    return [
        {
            "value": plain(mean[g]),
            "lower": plain(lower[g]) if count[g] else None,
            "upper": plain(upper[g]) if count[g] else None,
            "count": round(float(count[g])),
            "why": None if count[g] else "no row",
        }
        for g in range(k)
    ]
