"""Two models on the same rows: differences of accuracy, of each group's rates and of each bound's value, with paired
intervals.

What both decide alike cancels. A rate's difference is that of two paired shares, with the score interval of Tango
(1998), Statistics in Medicine 17, 891-908, equations 4 to 6: solved here by bisection, and with one row more that
changed towards the limit, which makes it right for few rows too (docs/intervals.md). Rows with weights count in a rate
as so many rows as give the difference the variance that it has here as a ratio of weighted sums, at most
sum(w)^2 / sum(w^2) (Kish 1965).

Of the values of bounds, which are largest contrasts of groups, see `nearly_largest`. The recall or error of a class is a
rate of its rows.

Departs: Tango's interval has no such row. The draws of what compares no shares or means of rows (areas, distributions of
scores) are those of a bootstrap, of all comparisons. Each interval holds for itself alone.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats

from fairbound.audits.decisions import check_decisions_alone
from fairbound.audits.drawn_again import DrawnAgain
from fairbound.audits.nearly_largest import Draws, difference_of_largest
from fairbound.base.checks import check_confidence
from fairbound.base.errors import DataError, OptionError
from fairbound.base.names import shortlist
from fairbound.base.records import versions
from fairbound.base.verdicts import left_out
from fairbound.confidence.bisection import bisected
from fairbound.confidence.single import effective_size
from fairbound.fairness.bound import check_groups, remarks_on
from fairbound.fairness.compiled.statistics import RATES
from fairbound.fairness.notions import Bound, constraints
from fairbound.fairness.predictions import read_decisions
from fairbound.fairness.scored import Scored
from fairbound.fairness.verdicts.judging import compares_means
from fairbound.fairness.verdicts.leaving_out import enough, left_out_facts
from fairbound.rows.doubtful import doubtful_groups, unknown_groups
from fairbound.rows.groups import Groups, label_text
from fairbound.rows.labels import as_decisions, class_tuple, two_valued
from fairbound.rows.reading import column_array, read_weights, warn_of_order
from fairbound.rows.scores import decided_scores
from fairbound.rows.weighted import scaled_weights, without_weight_0

COMPARED = ("selection_rate", "true_positive_rate", "false_positive_rate")
BISECTIONS = 60
FEW_ROWS = 100
"""Rows behind a value of a group below which an interval that is no one of shares may be too narrow
(docs/intervals.md)."""


def compare(
    first: Any,
    second: Any,
    y: Any,
    sensitive_features: Any = None,
    constraint: str | Bound | Sequence[str | Bound] | None = None,
    *,
    classes: Sequence[Any] | None = None,
    positive: Any = None,
    threshold: float | None = None,
    confidence: float = 0.95,
    sample_weight: Any = None,
    names: tuple[str, str] = ("first", "second"),
    draws: int = 500,
    seed: int = 0,
) -> dict[str, Any]:
    """What the second model has more or less than the first on the same rows, with paired intervals (docs/evidence.md).

    first, second: (n,) scores or decisions; y: (n,) labels of two values; all are read as in `fairbound.audit`. y may be
        None: whom the two select is compared then, and both may be words.
    constraint: bounds whose values are compared.
    classes: the two labels, the negative one first, or what 0 and 1 of y mean. positive: the positive one alone.
    confidence: in (0.5, 1), of each interval by itself.
    sample_weight: (n,) >= 0.
    draws, seed: of the values of bounds. Their time grows with draws times rows where a bound on losses, areas or
        distributions of scores is stated. Every comparison that may be the largest is allowed for.
    Returns: plain data (schema "fairbound.compare/1"). "differences" has for each `name` the values of the `first` and
        the `second`, the `difference`, its `lower` and `upper` (None where nothing varies) and the `rows`; all but the rows may be
        None where a value is undefined, which "warnings" says of a bound.
    Raises: DataError for unusable input, OptionError for options out of range.
    """
    check_confidence(confidence)
    if draws < 100:
        raise OptionError(f"draws must be at least 100, got {draws}.")
    bounds = constraints(constraint)
    warn_of_order(first=first, second=second, y=y, sensitive_features=sensitive_features, sample_weight=sample_weight)
    sample_weight, first, second, y, sensitive_features = without_weight_0(
        sample_weight, first, second, y, sensitive_features
    )
    known = None if classes is None else class_tuple(classes)
    if known is not None and len(known) > 2:
        raise OptionError(f"compare takes labels of two classes, got classes of {len(known)}.")
    target, meant, scores = _read(first, second, y, bounds, known, positive, threshold)
    sizes = [len(s) for s, _ in scores]
    if set(sizes) != {len(target)}:
        raise DataError(
            f"compare needs as many scores of both as labels, {len(target)}; got {sizes[0]} and {sizes[1]}."
        )
    w = scaled_weights(read_weights(sample_weight, len(target)))
    groups = Groups.of_rows(sensitive_features, len(target))
    check_groups(bounds, groups.attributes or None)
    labels = tuple(str(label_text(v)) for v in known or meant or (0, 1))
    both = [Scored(target, decided, labels, s, groups, w) for s, decided in scores]
    bounds = tuple(b.of_classes(labels).settled_on(both[0].occurring) for b in bounds)  # the same groups in every draw
    changed = int((both[0].predicted != both[1].predicted).sum())
    differences = [*_of_rates(both, confidence, y is not None), *_of_bounds(both, bounds, confidence, draws, seed)]
    return {
        "schema": "fairbound.compare/1",
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "library": versions(),
        "names": list(names),
        "rows": len(target),
        "changed": changed,
        "weighted": w is not None,
        "confidence": confidence,
        "seed": seed,
        "differences": differences,
        "warnings": [
            *_undefined(differences[-len(bounds) :] if bounds else [], names),
            *(text for b in bounds for text in _too_narrow(b, both[0])),
            *unknown_groups(groups.unknown(), len(groups)),
            *doubtful_groups(groups.names),
            *remarks_on(bounds, groups.attributes),
            *(f"{b.text}:{text}" for b in bounds if (text := left_out([left_out_facts(b, both[0].occurring)]))),
        ],
    }


def _read(
    first: Any, second: Any, y: Any, bounds: Sequence[Bound], known: Any, positive: Any, threshold: float | None
) -> tuple[np.ndarray, tuple[Any, ...] | None, list[tuple[np.ndarray, np.ndarray]]]:
    """(n,) labels as 0 and 1, what these mean, and the logits (n,) and decisions (n,) of both; where there are no labels, the decisions of
    the first in their place."""
    if y is None:
        check_decisions_alone(bounds)
        (numbers, target, meant), (others, _, _) = (
            read_decisions(given, threshold, known, positive) for given in (first, second)
        )
        return (
            target,
            None if meant is None else tuple(meant),
            [decided_scores(s, threshold)[:2] for s in (numbers, others)],
        )
    target, meant = two_valued(y, len(column_array("y", y)), known, positive)
    return target, meant, [decided_scores(as_decisions(given, meant), threshold)[:2] for given in (first, second)]


def _of_rates(both: list[Scored], confidence: float, outcomes: bool) -> list[dict[str, Any]]:
    """outcomes: whether there are labels; else selection rates alone are compared."""
    target, weight = both[0].target, both[0].mass[1]
    everyone = np.ones(len(target), dtype=bool)
    if outcomes:
        name, hit = "accuracy", [~rows.wrong for rows in both]
    else:
        name, hit = "selection_rate", [rows.predicted == 1 for rows in both]
    found = [_paired(name, everyone, weight, *hit, confidence=confidence)]
    for name, labels, code in both[0].groups.by_attribute:
        for g, group in enumerate(labels):
            mine = code == g
            for rate in COMPARED if outcomes else COMPARED[:1]:
                label = RATES[rate].condition
                among = mine if label is None else mine & (target == label)
                hits = (rows.predicted == 1 for rows in both)
                found.append(_paired(f"{rate}, {name} = {group}", among, weight, *hits, confidence=confidence))
    return found


def _paired(
    name: str, among: np.ndarray, weight: np.ndarray, first: np.ndarray, second: np.ndarray, *, confidence: float
) -> dict[str, Any]:
    """All (n,): the rows that are meant, the weights, and the hits of both models."""
    w, first, second = weight[among], first[among], second[among]
    total = float(w.sum())
    if not total:
        return {"name": name, **dict.fromkeys(("first", "second", "difference", "lower", "upper")), "rows": len(w)}
    gained, lost = (float(w[hit].sum()) / total for hit in (second & ~first, first & ~second))
    difference = gained - lost
    spread = (w**2 * (second.astype(float) - first - difference) ** 2).sum()
    rows = float(effective_size(total, (w**2).sum(), gained + lost - difference**2, spread))
    lower, upper = paired_interval(gained * rows, lost * rows, rows, 1 - confidence)
    return {
        "name": name,
        "first": float(w[first].sum()) / total,
        "second": float(w[second].sum()) / total,
        "difference": difference,
        "lower": lower,
        "upper": upper,
        "rows": len(w),
    }


def paired_interval(gained: float, lost: float, n: float, alpha: float) -> tuple[float, float]:
    """Score limits of the difference of two paired shares: `gained` of n (effective) rows are hits of the second alone,
    `lost` of the first alone."""
    z = stats.norm.ppf(1 - alpha / 2)

    def upper(b: float, c: float) -> float:
        return float(bisected(lambda delta: -_score(b, c, n, float(delta)) <= z, (b - c) / n, 1.0, BISECTIONS)[1])

    return -upper(lost, gained), upper(gained, lost)


def _score(b: float, c: float, n: float, delta: float) -> float:
    """Tango's statistic that the share of b less that of c is delta, with one row more for b than was seen."""
    B = -b - c + (2 * n - b + c) * delta
    q = (np.sqrt(max(B * B + 8 * n * c * delta * (1 - delta), 0.0)) - B) / (4 * n)
    variance = n * (2 * q + delta * (1 - delta))
    apart = b + 1 - c - n * delta
    return float(apart / np.sqrt(variance)) if variance > 0 else float(np.sign(apart) * np.inf) if apart else 0.0


def _of_bounds(
    both: list[Scored], bounds: Sequence[Bound], confidence: float, draws: int, seed: int
) -> list[dict[str, Any]]:
    out, n, drawn = [], len(both[0]), DrawnAgain(both, draws, seed)
    for bound in bounds:
        if shares := [share for rows in both if (share := bound.one_share(rows))]:
            (among, first), (_, second) = shares
            out.append(_paired(bound.text, among, both[0].mass[1], first, second, confidence=confidence))
            continue
        values = [float(bound.measure(rows)) for rows in both]
        change = values[1] - values[0]
        found = {"name": bound.text, "first": values[0], "second": values[1], "difference": change}
        found |= {"lower": None, "upper": None, "rows": n}
        own = drawn.measured(bound)
        if own.size:
            compares, reach = getattr(bound, "compares", "values"), getattr(bound, "largest_bound", np.inf)
            limits = difference_of_largest(own, _in_draws(drawn, bound, own), compares, n, confidence, reach)
            found |= {"lower": min(limits["lower"], change), "upper": max(limits["upper"], change)} if limits else {}
        out.append({k: None if isinstance(v, float) and not np.isfinite(v) else v for k, v in found.items()})
    return out


def _in_draws(drawn: DrawnAgain, bound: Bound, own: np.ndarray) -> Draws:
    """What the contrasts of a bound are in draws, of which `own` (2, m) are those of the rows."""
    if compares_means(bound):
        return drawn.extremes(bound).of
    same = drawn.percentiles(bound, own.shape)
    return lambda k, some: np.stack([same[k][:, some]] * 2)


def _undefined(of_bounds: list[dict[str, Any]], names: Sequence[str]) -> list[str]:
    """What is said of values of bounds that are not defined."""
    return [
        f"{d['name']}: undefined for {' and '.join(lacking)}, as rows of a group are divided by 0 rows, so whether one is "
        "worse is not known."
        for d in of_bounds
        if (lacking := [name for name, end in zip(names, ("first", "second"), strict=True) if d[end] is None])
    ]


def _too_narrow(bound: Bound, rows: Scored) -> list[str]:
    """What is said of a bound that compares no shares where groups have few rows."""
    counted = getattr(bound, "counted", None)
    if bound.judged_from == "counts" or counted is None:
        return []
    few = {
        found.name(int(g)): int(behind[:, g].min())
        for found, behind in counted(rows.occurring)
        for g in np.flatnonzero(enough(bound, found, behind) & (behind.min(0) < FEW_ROWS))
    }
    if not few:
        return []
    named = shortlist([f"{name} ({n})" for name, n in few.items()])
    return [f"{bound.text}: its interval may be too narrow, as fewer than {FEW_ROWS} rows measure {named}."]
