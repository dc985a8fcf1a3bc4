"""The part of an audit that speaks of rankings: gain and precision with intervals over queries, groups, and verdicts on
bounds.

Queries are taken as drawn independently, their documents not. Intervals of means over queries hold for any distribution
(`fairbound.confidence.betting`); those of shares of pairs, which are ratios of sums, are asymptotic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fairbound.audits.records import compared_model, no_value, share_record
from fairbound.confidence.betting import mean_limits
from fairbound.confidence.contrasts import Contrasts
from fairbound.confidence.ratios_of_sums import ratio_of_sums_bounds
from fairbound.fairness.bound import Bound, check_groups
from fairbound.fairness.ranking_problem import ranking_bounds
from fairbound.fairness.rankings.statistics import Exposures, PairShares
from fairbound.fairness.scored import Scored
from fairbound.ranking import by_query
from fairbound.ranking.documents import Documents
from fairbound.rows.groups import Groups
from fairbound.rows.reading import column_array

PLACES = 10
"""The first places of a ranking, whose gain is shown besides that of all."""


def ranking_facts(
    scores: Any,
    relevance: Any,
    qid: Any,
    sensitive_features: Any,
    others: Mapping[str, Any],
    stated: Sequence[Bound],
    alpha: float,
    confidence: float,
) -> dict[str, Any]:
    """The part of an audit that scored documents decide; arguments as of `audit`, y being the relevance,
    a number >= 0."""
    bounds = ranking_bounds(stated)
    check_groups(bounds, sensitive_features)
    n = len(column_array("scores", scores))
    groups = Groups.of_rows(sensitive_features, n)
    documents = Documents.of(qid, column_array("y", relevance, n), groups)
    rows = Scored.of_documents(scores, documents, confidence)
    intervals = metric_intervals(rows, documents, confidence)
    compared = []
    for name, other in others.items():
        these = Scored.of_documents(other, documents, confidence, f"the compared scores {name!r}")
        measured = {key: made["value"] for key, made in metric_intervals(these, documents, confidence).items()}
        compared.append(compared_model(name, measured, [b.judge(these, alpha) for b in bounds]))
    flat = np.unique(rows.scores).size == 1  # type: ignore[arg-type]
    return {
        "metrics": {name: made["value"] for name, made in intervals.items()},
        "metric_intervals": intervals,
        "groups": group_rows(rows, documents, confidence),
        "constraints": [b.judge(rows, alpha) for b in bounds],
        "comparison": compared,
        "distributions": [],
        "warnings": ["Every document has the same score, so any bound is met trivially."] if flat else [],
    }


def metric_intervals(rows: Scored, documents: Documents, confidence: float) -> dict[str, dict[str, Any]]:
    """Metric -> value, lower and upper limit, and the count of queries that it is a mean over. A document counts as
    relevant for the mean average precision where its relevance is above 0."""
    s, y, starts = rows.scores, documents.relevance, documents.starts
    assert s is not None
    won = by_query.sums(documents.won(s), starts)
    each = {
        f"ndcg_at_{PLACES}": by_query.ndcg(s, y, starts, PLACES),
        "ndcg": by_query.ndcg(s, y, starts),
        "mean_average_precision": by_query.average_precision(s, y > 0, starts),
        "pairwise_accuracy": np.where(documents.pairs > 0, won / np.maximum(documents.pairs, 1), np.nan),
    }
    return {name: _mean(values, confidence) for name, values in each.items()}


def _mean(values: np.ndarray, confidence: float) -> dict[str, Any]:
    """The mean of the values (Q,) in [0, 1] that are no NaN, with its two-sided interval."""
    known = np.clip(values[~np.isnan(values)], 0, 1)
    if not len(known):
        return no_value("no query measures it")
    cells = np.zeros(len(known), dtype=np.int64)
    lower, upper = mean_limits(known, cells, 1, (1 - confidence) / 2, 0.0, 1.0)
    return share_record(float(known.mean()), float(lower[0]), float(upper[0]), len(known))


def group_rows(rows: Scored, documents: Documents, confidence: float) -> list[dict[str, Any]]:
    """The audit's "groups": of each, the share of attention and how often its better
    documents are ranked above worse ones."""
    out: list[dict[str, Any]] = []
    alpha = (1 - confidence) / 2
    assert rows.scores is not None
    for attribute, labels, code in documents.groups.by_attribute:
        k = len(labels)
        over = Exposures.of(documents, code, k, 1.0, merit=False)
        share, counts = over.counted(rows.scores) + over.due, over.counts > 0
        pairs = PairShares.of(documents, code, k, 1.0)
        cells = np.arange(k) * (k + 1) + k
        won, all_pairs = pairs.counted(rows.scores)[:, cells], pairs.denominators()[:, cells]
        for i, label in enumerate(labels):
            one = Contrasts(np.array([[i]]), np.array([[1.0]]))
            n = int(all_pairs[:, i].sum())
            made = ratio_of_sums_bounds(won, all_pairs, one, alpha, low=0.0, high=1.0) if n else None
            accuracy = (
                no_value("no pair has a better document of it")
                if made is None
                else share_record(made.value, made.lower, made.upper, n)
            )
            rates = {
                "share_of_attention": _mean(share[counts[:, i], i], confidence),
                "share_of_documents": _mean(over.due[counts[:, i], i], confidence),
                "pairwise_accuracy": accuracy,
            }
            own = code == i
            facts = {"attribute": attribute, "group": label, "n": int(own.sum()), "rates": rates, "mean_loss": None}
            out.append(facts | {"positives": int((own & (documents.relevance > 0)).sum())})
    return out
