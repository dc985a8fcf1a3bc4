"""Exact metrics of whole models, and what the deep benchmark reports: all in float64, O(n log n).

A metric that is undefined (a group without a row, or without a positive one) is NaN, never a silent 0.

Source: Kliachkin et al. (2025), section 2, for independence, separation and sufficiency.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit

from fairbound.base.errors import DataError, EmptyGroupError
from fairbound.fairness.compiled.statistics import RATES
from fairbound.fairness.distances import wasserstein
from fairbound.fairness.notions import DemographicParity, EqualizedOdds
from fairbound.fairness.scored import Scored
from fairbound.fairness.verdicts.values import quotient, rate_values
from fairbound.ranking import wins as ranking
from fairbound.rows.groups import Groups
from fairbound.rows.labels import read_targets
from fairbound.rows.reading import read_weights
from fairbound.rows.scores import read_scores


def auc(scores: Any, y: Any, sample_weight: Any = None) -> float:
    """Area under the ROC curve over all rows, in [0, 1], ties as one half, weights exact; NaN without both labels."""
    s, target, w = _read(scores, y, sample_weight)
    return ranking.auc(s, target == 1, target == 0, None if sample_weight is None else w)


def wasserstein_distance(scores: Any, groups: Any, sample_weight: Any = None) -> float:
    """Largest Wasserstein distance between two groups' distributions of predicted probabilities, in [0, 1]; NaN where a
    group has no weight or there is one group only. scores: (n,) logits."""
    s, decisions = read_scores(scores)
    if decisions:
        raise DataError("wasserstein_distance got decisions, not logits. Pass real scores.")
    w = read_weights(sample_weight, len(s))
    codes, values = Groups.of(groups).codes[:, 0], expit(s)
    rows = [np.flatnonzero(codes == g) for g in range(codes.max(initial=-1) + 1)]
    if len(rows) < 2 or any(w[r].sum() == 0 for r in rows):
        return np.nan
    return max(
        wasserstein(values[rows[i]], values[rows[j]], w[rows[i]], w[rows[j]])
        for i in range(len(rows))
        for j in range(i)
    )


def benchmark_metrics(scores: Any, y: Any, groups: Any, sample_weight: Any = None) -> dict[str, float]:
    """What KLBM25 reports, by its column names, and the AUC; NaN where undefined. scores: (n,) logits.

    Ind: |P(Yhat=1|s) - P(Yhat=1|s')|. Sp: sum over v of |P(Yhat=1|s,Y=v) - P(Yhat=1|s',Y=v)|. Sf: the same of
    P(Y=1|s,Yhat=v). Ina: P(Yhat != Y) over all rows. Wd: Wasserstein distance of order 1. Each the largest over pairs
    of groups. Table 3's own "Wd" is another quantity: ``distances.binned_squared_wasserstein``.
    """
    s, target, w = _read(scores, y, sample_weight)
    rows = Scored(target, (s > 0).astype(np.int64), ("0", "1"), s, Groups.of(groups), w)
    return {
        "Ind": _measured(DemographicParity(bound=1.0), rows),
        "Sp": _measured(EqualizedOdds(bound=2.0, aggregated="sum"), rows),
        "Ina": float(np.average(rows.wrong, weights=w)),
        "Sf": _sufficiency(rows),
        "Wd": wasserstein_distance(scores, groups, sample_weight),
        "AUC": auc(scores, y, sample_weight),
    }


def _read(scores: Any, y: Any, sample_weight: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    s, _ = read_scores(scores)
    target = read_targets(y, len(s))
    if target is None:
        raise DataError("the metric needs the labels y.")
    return s, target, read_weights(sample_weight, len(s))


def _measured(bound: Any, rows: Scored) -> float:
    try:
        return float(bound.measure(rows))
    except EmptyGroupError:
        return np.nan


def _sufficiency(rows: Scored) -> float:
    """The largest sum, over a pair of groups, of their differences of PPV and of false omission rate."""
    groups = rows.groups
    values = []
    for name in ("positive_predictive_value", "false_omission_rate"):
        successes, trials, *_ = rate_values(RATES[name], rows, groups.codes[:, 0], len(groups.labels[0]))
        values.append(quotient(successes, trials, np.nan))
    first, second = values
    if np.isnan(first + second).any() or len(first) < 2:
        return np.nan
    return float(max(np.ptp(first + second), np.ptp(first - second)))  # largest L1 distance in the plane: two ranges
