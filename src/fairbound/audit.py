"""Held-out verdict on stated bounds: measured values, simultaneous one-sided confidence bounds, and plain data.

For every stated bound the true metric is measured on rows the model has not seen. The bound is *met* where even the
upper confidence bound of the metric is within it, *violated* where even the lower one is above it, and else there is
*not enough evidence*; then the number of rows that would decide is given. With s stated bounds each is judged at level
(1 - confidence) / s, and all contrasts of a bound at once, so that the chance of any wrong verdict is at most
1 - confidence.

Source: Newcombe (1998), Clopper and Pearson (1934), as set out in `fairbound.intervals`.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fairbound.class_audit import (
    Predictions,
    class_facts,
    compared_model,
    judge_class,
    rate_record,
    read_predictions,
)
from fairbound.errors import DataError, EmptyGroupError, OptionError
from fairbound.fairness.class_risk import ClassRisk
from fairbound.fairness.counts import by_group, read_targets, read_weights
from fairbound.fairness.metrics import auc
from fairbound.fairness.notions import GroupGap, Notion, constraints
from fairbound.fairness.plan import Plan, compile_plan
from fairbound.groups import Groups, label_text, no_groups
from fairbound.intervals import (
    GapBounds,
    mean_gap_bounds,
    rate_gap_bounds,
    rows_needed,
    rows_needed_for_means,
)
from fairbound.records import versions

SCHEMA = "fairbound.audit/1"
EXIT_CODES = {"met": 0, "violated": 1, "insufficient": 3}
MOST_CONTRASTS = 400
BINS = 40
DECISIONS = "The scores are decisions, 1 or not."


def audit(
    scores: Any,
    y: Any,
    sensitive_features: Any = None,
    constraint: str | Notion | Sequence[str | Notion] | None = None,
    *,
    classes: Sequence[Any] | None = None,
    threshold: float | None = None,
    confidence: float = 0.95,
    sample_weight: Any = None,
    title: str | None = None,
    data: Mapping[str, Any] | None = None,
    model: Mapping[str, Any] | None = None,
    compare: Mapping[str, Any] | None = None,
    trajectory: Mapping[str, Any] | None = None,
    warnings: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> dict[str, Any]:
    """The audit of `scores` on held-out rows as plain data (schema "fairbound.audit/1", docs/audit-schema.md).

    scores: (n,) decisions, probabilities or real scores, read by `as_logits`; threshold: where a positive decision begins,
        in the units of the scores (0 for logits). y: (n,) in {0, 1}. With more than two classes, or other labels: scores
        are the predicted labels (n,) or scores (n, k), y the labels (n,), and only bounds on classes can be judged.
    classes: the k labels, in the order of the scores' columns; for y in {0, 1} the labels that 0 and 1 stand for.
    sensitive_features: None without bounds on groups; else anything `Groups.of` takes; pass the training Groups' `encode` of the held-out rows to have a
        group without any held-out row reported. constraint: stated bounds; None measures groups only.
    confidence: in (0.5, 1), for all stated bounds together. sample_weight: (n,) >= 0; bounds then use effective counts.
    data, model: facts for the report (docs/audit-schema.md). compare: name -> (n,) scores of other models.
    Returns: a dict with "verdict" and "exit_code" (0 met or none stated, 1 violated, 3 insufficient).
    Raises: DataError for unusable input, OptionError for options out of range.
    """
    if not 0.5 < confidence < 1:
        raise OptionError(f"confidence must lie in (0.5, 1), got {confidence}.")
    notions = constraints(constraint)
    alpha = (1 - confidence) / max(len(notions), 1)
    if _of_classes(scores, y, classes, sensitive_features, notions):
        rows = read_predictions(scores, y, classes)
        w = None if sample_weight is None else read_weights(sample_weight, len(rows.target))
        others = {name: read_predictions(other, y, classes) for name, other in (compare or {}).items()}
        about = _data(None, len(rows.target), {"positive": None, **(data or {}), "classes": list(rows.classes)})
        label = about["label"] if about["label"] != "y" else "class"
        facts = {"data": about, **class_facts(rows, others, notions, w, alpha, confidence, label)}
    else:
        s, words = as_logits(scores, threshold)
        target = read_targets(y, len(s))
        if target is None:
            raise DataError("an audit needs the labels y.")
        w = None if sample_weight is None else read_weights(sample_weight, len(s))
        compared = [n.text for n in notions if isinstance(n, GroupGap)]
        if compared and sensitive_features is None:
            raise DataError(f"the bound {compared[0]!r} compares groups; pass sensitive_features.")
        groups = no_groups(len(s)) if sensitive_features is None else Groups.of(sensitive_features)
        if len(groups) != len(s):
            raise DataError(f"{len(s)} scores but {len(groups)} rows of sensitive features.")
        if words == DECISIONS and any(n.statistic == "loss" for n in notions):
            raise DataError(
                "a bound on losses needs scores or probabilities, and these are decisions, which have no loss."
            )
        given = {name: _read_compared(name, other, threshold, len(s)) for name, other in (compare or {}).items()}
        labels = ("0", "1") if classes is None else tuple(str(label_text(v)) for v in classes)
        facts = {
            "data": _data(groups, len(s), data or {}),
            **_group_facts(s, given, target, labels, groups, notions, w, alpha, confidence),
        }
    found = {c["verdict"] for c in facts["constraints"]}
    verdict = next((v for v in ("violated", "insufficient", "met") if v in found), None)
    if title is None:
        title = "Fairness audit" if facts["data"]["sensitive"] else "Audit of a classifier"
    return {
        "schema": SCHEMA,
        "title": title,
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "verdict": verdict,
        "exit_code": EXIT_CODES.get(verdict or "met", 0),
        "library": versions(),
        "model": None if model is None else _model(model),
        "trajectory": None if trajectory is None else dict(trajectory),
        **facts,
        "warnings": [*warnings, *facts["warnings"]],
        "notes": list(notes),
    }


def _of_classes(
    scores: Any, y: Any, classes: Sequence[Any] | None, sensitive_features: Any, notions: Sequence[Notion]
) -> bool:
    """Whether this is an audit of labels or of a score per class, rather than of one score that says 1 or 0."""
    if any(isinstance(n, GroupGap) for n in notions):
        return False
    if (classes is not None and len(classes) > 2) or (np.ndim(scores) == 2 and np.shape(scores)[1] > 2):
        return True
    if sensitive_features is not None and not notions:
        return False
    values = np.asarray(y.detach().cpu() if hasattr(y, "detach") else y)
    return values.dtype.kind not in "biufO" or not np.isin(values, (0, 1)).all()


def _group_facts(
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
    """The part of an audit that the rows decide, of one score per row: 1 where it is above 0. labels: of 0 and 1."""

    def judged(s: np.ndarray) -> list[dict[str, Any]]:
        rows = Predictions(y, (s > 0).astype(np.int64), labels)
        return [
            judge_class(n, rows, w, alpha, confidence)
            if isinstance(n, ClassRisk)
            else _judge(n, s, y, groups, w, alpha, confidence)
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


def as_logits(scores: Any, threshold: float | None = None) -> tuple[np.ndarray, str]:
    """Scores of any kind as logits whose sign is the decision, and a sentence that says what was done.

    Without a threshold: values all in {0, 1} or {-1, 1} are decisions; all in [0, 1], probabilities, decided at 0.5; else
    real scores, decided at 0. A threshold moves the point of decision, in the units given; 0 takes the scores as logits
    whatever their range.
    Raises: DataError where scores are missing, or where no threshold is given and none can be guessed: all above 0 and
        beyond 1.
    """
    values = np.asarray(scores.detach().cpu() if hasattr(scores, "detach") else scores)
    if values.ndim == 2 and values.shape[1] == 2:
        raise DataError(
            "the scores have two columns, like predict_proba's; pass the one of the positive class, [:, 1]."
        )
    try:
        s = values.astype(np.float64)
    except (TypeError, ValueError):
        raise DataError(
            f"the scores are not numbers ({values.ravel()[0]!r}); pass 1 for positive and 0 for negative."
        ) from None
    s = s[:, 0] if s.ndim == 2 and s.shape[1] == 1 else s
    if not np.isfinite(s).all():
        raise DataError(
            f"the score is missing or infinite in {int((~np.isfinite(s)).sum())} of {len(s)} rows; drop these rows or fill them."
        )
    if threshold is None and (np.isin(s, (0, 1)).all() or np.isin(s, (-1, 1)).all()):
        return np.where(s > 0, 1.0, -1.0), DECISIONS
    inside = len(s) > 0 and s.min() >= 0 and s.max() <= 1
    if inside and threshold != 0:
        at = 0.5 if threshold is None else threshold
        if not 0 < at < 1:
            raise OptionError(
                f"the scores are probabilities, so the threshold must lie in (0, 1), got {at}; 0 means logits."
            )
        p = np.clip(s, 1e-12, 1 - 1e-12)
        return np.log(p / (1 - p)) - np.log(
            at / (1 - at)
        ), f"The scores are probabilities; positive where above {at:g}."
    if threshold is None and len(s) and s.min() > 0:
        raise DataError(
            f"all {len(s):,} scores are above 0 (from {s.min():g} to {s.max():g}), so every row would count as positive. Say "
            "where positive begins with threshold= (--threshold); 0 if they are logits."
        )
    at = 0.0 if threshold is None else threshold
    return s - at, f"The scores are real numbers; positive where above {at:g}."


def _judge(
    notion: GroupGap,
    s: np.ndarray,
    y: np.ndarray,
    groups: Groups,
    w: np.ndarray | None,
    alpha: float,
    confidence: float,
) -> dict[str, Any]:
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


def _read_compared(name: str, scores: Any, threshold: float | None, rows: int) -> np.ndarray:
    s, _ = as_logits(scores, threshold)
    if len(s) != rows:
        raise DataError(f"the compared scores {name!r} have {len(s)} rows, the audit {rows}.")
    return s


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


def _data(groups: Groups | None, rows: int, facts: Mapping[str, Any]) -> dict[str, Any]:
    base = {
        "name": "rows given",
        "train_rows": None,
        "checksum": None,
        "label": "y",
        "positive": "1",
        "split": "the rows given, taken as held out",
    }
    return {
        **base,
        **facts,
        "rows": rows,
        "sensitive": [] if groups is None else list(groups.attributes),
        "missing_group_rows": {}
        if groups is None
        else {a: int((c < 0).sum()) for a, c in zip(groups.attributes, groups.codes.T, strict=True)},
    }


def _model(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "kind": "scores",
        "description": "",
        "algorithm": None,
        "seed": None,
        "budget": None,
        "seconds": None,
        "steps": None,
        **facts,
    }
