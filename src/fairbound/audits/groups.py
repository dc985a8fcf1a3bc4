"""The part of an audit of one score per row: accuracy, the rates of every group, and verdicts on bounds between groups.

Source: Newcombe (1998), Clopper and Pearson (1934), as set out in `fairbound.confidence.contrasts`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fairbound.audits.classes import Predictions, compared_model, judge_class, rate_record
from fairbound.base.errors import EmptyGroupError
from fairbound.confidence.contrasts import (
    GapBounds,
    mean_gap_bounds,
    rate_gap_bounds,
    rows_needed,
    rows_needed_for_means,
)
from fairbound.fairness.class_risk import ClassRisk
from fairbound.fairness.counts import by_group
from fairbound.fairness.metrics import auc
from fairbound.fairness.notions import GroupGap, Notion
from fairbound.fairness.plan import Plan, compile_plan
from fairbound.rows.groups import Groups

MOST_CONTRASTS = 400
BINS = 40


def group_facts(
    s: np.ndarray,
    compare: Mapping[str, np.ndarray],
    y: np.ndarray,
    labels: tuple[str, ...],
    groups: Groups,
    notions: Sequence[Notion],
    w: np.ndarray | None,
    alpha: float,
    confidence: float,
) -> dict[str, Any]:
    """The part of an audit that the rows decide, of one score per row: 1 where it is above 0.

    s: (n,) logits; compare: name -> (n,) logits of another model; y: (n,) in {0, 1}; labels: of 0 and 1. w: (n,) >= 0, or
    None. alpha: error probability of each verdict. confidence: of the intervals of rates, and what the facts state.
    """

    def judged(s: np.ndarray) -> list[dict[str, Any]]:
        rows = Predictions(y, (s > 0).astype(np.int64), labels)
        return [
            judge_class(n, rows, w, alpha, confidence)
            if isinstance(n, ClassRisk)
            else judge_gap(n, s, y, groups, w, alpha, confidence)
            for n in notions
        ]

    said = []
    if len(s) and ((s > 0).all() or (s <= 0).all()):
        said.append(
            f"Every row is predicted {'positive' if s[0] > 0 else 'negative'}, so any bound on rates is met trivially."
        )
    comparison = []
    for name, other in compare.items():
        metrics = _metrics(other, y, w)
        comparison.append(compared_model(name, metrics["accuracy"], metrics["auc"], judged(other)))
    return {
        "metrics": _metrics(s, y, w),
        "groups": _group_rows(s, y, groups, w, confidence),
        "constraints": judged(s),
        "comparison": comparison,
        "distributions": [_distribution(s, groups, j) for j in range(len(groups.attributes))],
        "warnings": said,
    }


def judge_gap(
    notion: GroupGap,
    s: np.ndarray,
    y: np.ndarray,
    groups: Groups,
    w: np.ndarray | None,
    alpha: float,
    confidence: float,
) -> dict[str, Any]:
    """The verdict on a bound between groups as plain data, at error probability alpha; arguments as in `group_facts`."""
    absent = _absent_groups(notion, groups)
    base = {"name": notion.name, "text": notion.text, "bound": float(notion.bound), "confidence": confidence}
    try:
        plan = compile_plan((replace(notion, empty="drop"),), groups, y)
    except EmptyGroupError as error:
        return {
            **base,
            "value": None,
            "lower": None,
            "upper": None,
            "verdict": "insufficient",
            "rows_needed": None,
            "worst": None,
            "method": "none",
            "groups": {},
            "contrasts": [],
            "why": str(error),
        }
    of_row = plan.cells(groups.codes, y)
    weight = np.ones(len(y)) if w is None else w
    value = (
        np.where(y == 1, np.logaddexp(0, -s), np.logaddexp(0, s))
        if notion.statistic == "loss"
        else (s > 0).astype(float)
    )
    mean, variance, count = _moments(of_row, value, weight, plan.n_cells)
    cells, a, names = group_contrasts(plan, count)
    raw = np.bincount(of_row.ravel(), minlength=plan.n_cells + 1)[cells]
    mean, variance, count = mean[cells], variance[cells], count[cells]
    shares = count / len(y)
    bound = float(notion.bound)
    if notion.statistic == "loss":
        bounds = mean_gap_bounds(mean, variance, count, a, alpha)
        needed = lambda: rows_needed_for_means(mean, variance, shares, bound, a, alpha)  # noqa: E731
        method = "Welch's t for differences of mean losses (asymptotic), Bonferroni over contrasts and stated bounds"
    else:
        bounds = rate_gap_bounds(mean * count, count, a, alpha)
        needed = lambda: rows_needed(mean, shares, bound, a, alpha)  # noqa: E731
        method = (
            "MOVER: Clopper-Pearson limits of the single rates joined for their differences; Bonferroni over contrasts and "
            "stated bounds"
        )
    if w is not None:
        method += "; weighted rows by their effective number (Kish)"
    verdict = bounds.verdict(bound)
    missing = sorted(set(absent) | set(plan.dropped))
    why = None
    if missing:
        verdict = "violated" if verdict == "violated" else "insufficient"
        why = f"No held-out row measures {', '.join(missing[:6])}{' ...' if len(missing) > 6 else ''}."
    return {
        **base,
        **_ends(bounds),
        "verdict": verdict,
        "rows_needed": needed() if verdict == "insufficient" and not missing else None,
        "worst": names[bounds.worst],
        "method": method,
        "groups": {plan.cell_names[c]: int(n) for c, n in zip(cells, raw, strict=True)},
        "contrasts": [
            {
                "name": names[i],
                "value": _number(bounds.estimates[i]),
                "lower": _number(bounds.lowers[i]),
                "upper": _number(bounds.uppers[i]),
            }
            for i in np.argsort(-np.nan_to_num(bounds.estimates, nan=-np.inf), kind="stable")[:MOST_CONTRASTS]
        ],
        "why": why,
    }


def group_contrasts(plan: Plan, count: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """The cells (k,) that a one-notion plan compares, its contrasts (m, k) in their means, and the contrasts' names.

    count: (K,) rows of every cell. An overall mean is written as the mean of its groups weighted by their rows, and a
    comparison with the best-off group as all ordered pairs, whose largest is the same gap.
    """
    if plan.best:
        pairs = [(i, j) for best in plan.best for i in best.cells for j in best.cells if i != j]
        a = np.zeros((len(pairs), plan.n_cells))
        for row, (i, j) in enumerate(pairs):
            a[row, i], a[row, j] = 1.0, -1.0
        names = [f"{plan.cell_names[i]} - {plan.cell_names[j]}" for i, j in pairs]
    else:
        a = np.zeros((plan.m, plan.n_cells))
        np.add.at(a, (np.arange(plan.m)[:, None], plan.index), plan.coefficient)
        names = [name.partition(": ")[2] for name in plan.names]
    used = (a != 0).any(0)
    for overall in (c for c in plan.columns if not c.attributes):
        column = next(c for c in plan.columns if c.attributes == overall.known and c.conditions == overall.conditions)
        for position in range(len(column.conditions)):
            cell = overall.offset + position
            members = np.arange(column.groups) + column.offset + position * column.groups
            a[:, members] += a[:, [cell]] * (count[members] / max(count[members].sum(), 1))
            a[:, cell], used[cell] = 0.0, False
            used[members] |= count[members] > 0
    cells = np.flatnonzero(used)
    return cells, a[:, cells], names


def _absent_groups(notion: GroupGap, groups: Groups) -> list[str]:
    """Declared groups of the attributes that the notion compares one by one, without a row here."""
    if notion.attributes == "crossed" or (not isinstance(notion.attributes, str) and len(notion.attributes) > 1):
        return []
    named = groups.attributes if notion.attributes == "each" else notion.attributes
    return [g for a, counts in groups.counts().items() if a in named for g, n in counts.items() if n == 0]


def _moments(cells: np.ndarray, value: np.ndarray, w: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weighted mean, variance of one row (divisor n - 1) and effective number of rows of every cell."""
    flat, wide = cells.ravel(), np.repeat(np.arange(len(value)), cells.shape[1])
    total = np.bincount(flat, weights=w[wide], minlength=k + 1)[:k]
    square = np.bincount(flat, weights=w[wide] ** 2, minlength=k + 1)[:k]
    safe = np.where(total > 0, total, 1.0)
    mean = np.bincount(flat, weights=(w * value)[wide], minlength=k + 1)[:k] / safe
    second = np.bincount(flat, weights=(w * value**2)[wide], minlength=k + 1)[:k] / safe
    count = np.where(square > 0, total**2 / np.where(square > 0, square, 1.0), 0.0)
    variance = np.maximum(second - mean**2, 0) * count / np.maximum(count - 1, 1e-9)
    return mean, variance, count


def _ends(bounds: GapBounds) -> dict[str, float | None]:
    return {"value": _number(bounds.value), "lower": _number(bounds.lower), "upper": _number(bounds.upper)}


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _metrics(s: np.ndarray, y: np.ndarray, w: np.ndarray | None) -> dict[str, float | None]:
    weight = np.ones(len(y)) if w is None else w
    loss = np.logaddexp(0, np.where(y == 1, -s, s))
    one_class = len(np.unique(y)) < 2
    return {
        "accuracy": float(np.average((s > 0) == (y == 1), weights=weight)),
        "auc": None if one_class else float(auc(s, y, weight)),
        "log_loss": float(np.average(loss, weights=weight)),
        "selection_rate": float(np.average(s > 0, weights=weight)),
        "base_rate": float(np.average(y, weights=weight)),
    }


_RATES = {
    "selection_rate": "rows",
    "true_positive_rate": "positives",
    "false_positive_rate": "negatives",
    "positive_predictive_value": "predicted positives",
    "error_rate": "rows",
    "base_rate": "rows",
}


def _group_rows(
    s: np.ndarray, y: np.ndarray, groups: Groups, w: np.ndarray | None, confidence: float
) -> list[dict[str, Any]]:
    out = []
    for j, attribute in enumerate(groups.attributes):
        code = groups.codes[:, j]
        if not (code >= 0).any():
            continue
        counts = by_group(s, y, code, w, labels=groups.labels[j])
        for i, label in enumerate(groups.labels[j]):
            trials = {name: counts.trials(name) for name in _RATES}
            rates = {
                name: rate_record(trials[name][0][i], trials[name][1][i], among, confidence)
                for name, among in _RATES.items()
            }
            out.append(
                {
                    "attribute": attribute,
                    "group": label,
                    "n": int(counts.n[i]),
                    "positives": None if counts.positives is None else int(counts.positives[i]),
                    "rates": rates,
                    "mean_loss": _number(counts.mean_loss[i]),
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
