"""Metrics over all rows and in every group, with intervals; a group without a row to measure is said,
and keeps its place."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from fairbound.base.checks import check_choice, check_confidence
from fairbound.base.errors import DataError, OptionError
from fairbound.base.names import did_you_mean, unspelled
from fairbound.base.seeds import seed_for
from fairbound.confidence.single import clopper_pearson
from fairbound.fairness.compiled.statistics import RATES
from fairbound.fairness.predictions import read_predictions
from fairbound.fairness.scored import Scored
from fairbound.fairness.verdicts.values import rate_values
from fairbound.rows.doubtful import warn_of_groups
from fairbound.rows.groups import Groups, texts_of
from fairbound.rows.labels import as_decisions, labels_of, two_valued
from fairbound.rows.reading import column_array, read_weights
from fairbound.rows.scores import decided_scores

OTHER_NAMES = {
    "tpr": "true_positive_rate", "recall": "true_positive_rate", "sensitivity": "true_positive_rate",
    "fpr": "false_positive_rate", "fnr": "false_negative_rate", "ppv": "positive_predictive_value",
    "precision": "positive_predictive_value", "for": "false_omission_rate", "f1score": "f1", "acc": "accuracy",
    "positiverate": "selection_rate", "prevalence": "base_rate",
}  # fmt: skip
"""What else rates are called, without capitals and underscores."""

OF_CLASSES = ("accuracy", "error_rate")
"""The rates that make sense for several classes."""

Values = dict[str, dict[str, dict[str, float]]]
Estimate = tuple[float, tuple[float, float] | None]
"""A value, NaN where it is undefined, and its interval where it has one."""


@dataclass(frozen=True)
class MetricTable:
    """Metrics of all rows and of every group.

    overall: metric -> value. by_group: attribute -> group -> metric -> value, NaN where the group has no row that the
    metric needs; groups stand in their declared order, whether rows of them came or not. intervals:
    attribute -> group -> metric -> (lower, upper), where there is one, each at `confidence` by itself. counts:
    attribute -> group -> rows. missing: what could not be measured, in words.
    """

    overall: dict[str, float]
    by_group: Values
    intervals: dict[str, dict[str, dict[str, tuple[float, float]]]] = field(default_factory=dict)
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    confidence: float = 0.95
    missing: tuple[str, ...] = ()

    def difference(
        self, against: Literal["pairwise", "overall"] = "pairwise", missing: Literal["nan", "drop"] = "nan"
    ) -> dict[str, dict[str, float]]:
        """attribute -> metric -> the largest difference of two groups, or of a group and all rows.

        missing: a group without a value makes it NaN, or is left out ("drop").
        """
        return self._joined(against, missing, lambda low, high: high - low)

    def ratio(
        self, against: Literal["pairwise", "overall"] = "pairwise", missing: Literal["nan", "drop"] = "nan"
    ) -> dict[str, dict[str, float]]:
        """attribute -> metric -> the smallest ratio (at most 1) of two groups, or of a group and all rows; options as
        in `difference`. Equal values of 0 have the ratio 1."""
        return self._joined(
            against, missing, lambda low, high: low / high if high != 0 else 1.0 if low == 0 else math.nan, min
        )

    def _joined(
        self, against: str, missing: str, of: Callable[[float, float], float], worst: Callable[..., float] = max
    ) -> dict[str, dict[str, float]]:
        check_choice("against", against, ("pairwise", "overall"))
        check_choice("missing", missing, ("nan", "drop"))
        out: dict[str, dict[str, float]] = {}
        for attribute, groups in self.by_group.items():
            out[attribute] = {}
            for metric, everyone in self.overall.items():
                values = [row[metric] for row in groups.values() if missing == "nan" or not math.isnan(row[metric])]
                if not values or any(map(math.isnan, values)):
                    out[attribute][metric] = math.nan
                elif against == "pairwise":
                    out[attribute][metric] = of(min(values), max(values))
                else:
                    out[attribute][metric] = worst(of(min(v, everyone), max(v, everyone)) for v in values)
        return out

    def group_min(self) -> dict[str, dict[str, float]]:
        """attribute -> metric -> the lowest value of a group, NaN left out."""
        return self._extreme(min)

    def group_max(self) -> dict[str, dict[str, float]]:
        """attribute -> metric -> the highest value of a group, NaN left out."""
        return self._extreme(max)

    def _extreme(self, which: Callable[..., float]) -> dict[str, dict[str, float]]:
        return {
            attribute: {
                metric: which((r[metric] for r in groups.values() if not math.isnan(r[metric])), default=math.nan)
                for metric in self.overall
            }
            for attribute, groups in self.by_group.items()
        }

    def to_pandas(self) -> Any:
        """A DataFrame with a row for each attribute and group, "rows", and for each metric its value,
        lower and upper limit."""
        import pandas

        rows = []
        for attribute, groups in self.by_group.items():
            for group, values in groups.items():
                row: dict[str, Any] = {"attribute": attribute, "group": group}
                row["rows"] = self.counts.get(attribute, {}).get(group)
                for metric, value in values.items():
                    row[metric] = value
                    limits = self.intervals.get(attribute, {}).get(group, {}).get(metric)
                    if limits is not None:
                        row[f"{metric}_lower"], row[f"{metric}_upper"] = limits
                rows.append(row)
        return pandas.DataFrame(rows).set_index(["attribute", "group"])


def table(
    metrics: str
    | Callable[..., float]
    | Sequence[str | Callable[..., float]]
    | Mapping[str, str | Callable[..., float]],
    scores: Any,
    y: Any,
    sensitive_features: Any,
    *,
    attributes: Literal["each", "crossed", "both"] = "each",
    sample_weight: Any = None,
    threshold: float | None = None,
    positive: Any = None,
    confidence: float = 0.95,
    bootstrap: int = 0,
    seed: int = 0,
) -> MetricTable:
    """Metrics of all rows and of every group, as a `MetricTable`.

    metrics: one, several, or name -> metric. A metric is the name of a rate ("selection_rate", "true_positive_rate",
        "f1", ...) or a function of (y, scores), or of (y, scores, sample_weight=...) where it takes weights.
    scores: (n,) as in `fairbound.audit`; functions get them as they are.
    y: (n,); for rates of two values, of which `positive` (None for the greater one) is the one that scores speak of.
        The accuracy and the error rate take several classes, of which scores are the predicted labels.
    sensitive_features: as in `audit`; groups of a `Groups` that have no row are listed too.
    attributes: "each" by itself, their combinations ("crossed"), or "both".
    threshold: where a positive decision begins, as in `audit`.
    confidence: of every interval by itself: Clopper-Pearson's for rates, and for functions the bootstrap's.
    bootstrap, seed: number of draws for functions, within each group (0: no interval; reliable for many rows only).
    Raises: DataError, OptionError for what cannot be used.
    """
    named = named_metrics(metrics)
    check_confidence(confidence)
    if y is None:
        raise DataError(
            "metrics need the labels y. Where nobody knows them, fb.audit(decisions, None, groups) has the shares selected."
        )
    truth, given = column_array("y", y), column_array("scores", scores)
    n = len(truth)
    if not n:
        raise DataError("there are no rows.")
    if len(given) != n:
        raise DataError(f"there are {len(given)} scores and {n} labels.")
    groups = Groups.of_rows(sensitive_features, n)
    warn_of_groups(groups)
    weight = None if sample_weight is None else read_weights(sample_weight, n)
    rates = [name for name, metric in named.items() if isinstance(metric, str)]
    rows: Scored | None
    if rates and positive is None and len(set(texts_of(truth)) - {None}) > 2:
        rows = _right_or_wrong([named[name] for name in rates], given, truth, groups, weight)
    else:
        rows = _scored(given, truth, positive, groups, weight, threshold) if rates else None
    made = _Cells(named, rows, truth, given, weight, confidence, bootstrap, seed)
    return made.table(groups, attributes)


def of_counts(
    metrics: Sequence[str], rows: Scored, attributes: Literal["each", "crossed", "both"], confidence: float
) -> MetricTable:
    """The table of rates of counted rows."""
    made = _Cells(named_metrics(metrics), rows, rows.target, rows.predicted, None, confidence, 0, 0)
    return made.table(rows.groups, attributes)


def named_metrics(metrics: Any) -> dict[str, Any]:
    """name -> the name of a rate, or a function. Raises: OptionError for what is neither."""
    several = [metrics] if isinstance(metrics, str) or not isinstance(metrics, Iterable) else metrics
    named = dict(several) if isinstance(several, Mapping) else {getattr(m, "__name__", str(m)): m for m in several}
    if not named:
        raise OptionError("name at least one metric.")
    for name, metric in named.items():
        if isinstance(metric, str) and metric not in RATES:
            meant = OTHER_NAMES.get(unspelled(metric).replace("_", ""))
            hint = (
                f"; write {meant!r}. Known:"
                if meant
                else did_you_mean(metric, RATES, before="; ", otherwise=";") + " known:"
            )
            raise OptionError(f"unknown metric {metric!r}{hint} {', '.join(RATES)}, or give a function of (y, scores).")
        if not isinstance(metric, str) and not callable(metric):
            raise OptionError(f"the metric {name!r} must be the name of a rate or a function, got {metric!r}.")
    return named


def _scored(
    given: np.ndarray,
    truth: np.ndarray,
    positive: Any,
    groups: Groups,
    weight: np.ndarray | None,
    threshold: float | None,
) -> Scored:
    target, meant = two_valued(truth, len(truth)) if positive is None else labels_of(truth, positive)
    logits, decided, _ = decided_scores(as_decisions(given, meant), threshold)
    return Scored(target, decided, ("0", "1"), logits, groups, weight)


def _right_or_wrong(
    rates: Sequence[str], given: np.ndarray, truth: np.ndarray, groups: Groups, weight: np.ndarray | None
) -> Scored:
    """Rows of several classes, all of them positive, of which those predicted right are positive decisions.
    Raises: DataError for rates that need more than that, and for predictions that are no labels."""
    if other := [name for name in rates if name not in OF_CLASSES]:
        raise DataError(
            f"the labels have {len(set(texts_of(truth)))} values, and {other[0]} is a rate of two; of several classes there are "
            f"{' and '.join(OF_CLASSES)}, and functions of (y, scores). Or pass y == POSITIVE, and decisions for it."
        )
    right = ~read_predictions(given, truth).wrong
    return Scored(np.ones(len(right), dtype=np.int64), right.astype(np.int64), ("0", "1"), groups=groups, weight=weight)


def attribute_groups(groups: Groups, attributes: str) -> list[tuple[str, tuple[str, ...], np.ndarray]]:
    """`Groups.by_attribute` of each attribute, of all crossed, or of both; a crossed group is one that occurs."""
    check_choice("attributes", attributes, ("each", "crossed", "both"))
    each = groups.by_attribute
    if attributes == "each" or len(each) < 2:
        return each
    crossed = groups.crossed().by_attribute
    return crossed if attributes == "crossed" else each + crossed


@dataclass(frozen=True)
class _Cells:
    """What is measured in a set of rows. rows: for rates; None where there is none."""

    named: dict[str, Any]
    rows: Scored | None
    truth: np.ndarray
    given: np.ndarray
    weight: np.ndarray | None
    confidence: float
    bootstrap: int
    seed: int

    def table(self, groups: Groups, attributes: str) -> MetricTable:
        everyone = np.zeros(len(self.truth), dtype=np.int64)
        overall, _, _ = self._of(everyone, ("all rows",))
        by_group, intervals, counts, missing = {}, {}, {}, []
        for attribute, labels, code in attribute_groups(groups, attributes):
            values, limits, rows = self._of(code, labels)
            by_group[attribute], intervals[attribute] = values, limits
            counts[attribute] = rows
            for group in labels:
                gone = [metric for metric, value in values[group].items() if math.isnan(value)]
                if not rows[group]:
                    missing.append(f"{attribute}: the group {group!r} has no row.")
                elif gone:
                    missing.append(f"{attribute}: {', '.join(gone)} of the group {group!r} is undefined on its rows.")
            if unknown := int(self._each()[code < 0].sum()):
                missing.append(f"{attribute} is not known in {unknown:,} rows, which are in no group.")
        return MetricTable(overall["all rows"], by_group, intervals, counts, self.confidence, tuple(missing))

    def _each(self) -> np.ndarray:
        return np.ones(len(self.truth)) if self.rows is None else self.rows.mass[0]

    def _of(self, code: np.ndarray, labels: Sequence[str]) -> tuple[dict, dict, dict]:
        """Values, limits and rows of the groups with codes 0, 1, ..."""
        k = len(labels)
        values: dict[str, dict[str, float]] = {g: {} for g in labels}
        limits: dict[str, dict[str, tuple[float, float]]] = {g: {} for g in labels}
        counted = np.bincount(code[code >= 0], weights=self._each()[code >= 0], minlength=k)
        for name, metric in self.named.items():
            if isinstance(metric, str):
                found = self._rates(metric, code, k)
            else:
                found = self._called(metric, code, labels, name)
            for group, (value, ends) in zip(labels, found, strict=True):
                values[group][name] = value
                if ends is not None:
                    limits[group][name] = ends
        return values, limits, {g: int(c) for g, c in zip(labels, counted, strict=True)}

    def _rates(self, metric: str, code: np.ndarray, k: int) -> Iterator[Estimate]:
        """A rate of each of the k groups."""
        assert self.rows is not None
        rate = RATES[metric]
        successes, trials, *_ = rate_values(rate, self.rows, code, k)
        for won, of in zip(successes, trials, strict=True):
            if of <= 0:
                yield math.nan, None
                continue
            low, high = clopper_pearson(won, of, 1 - self.confidence)
            at, below, above = (float(rate.of_share(s)) for s in (won / of, min(low, won / of), max(high, won / of)))
            yield at, (below, above)

    def _called(
        self, metric: Callable[..., float], code: np.ndarray, labels: Sequence[str], name: str
    ) -> Iterator[Estimate]:
        """A function of the rows of each group."""
        for g, group in enumerate(labels):
            at = np.flatnonzero(code == g)
            drawn = self._drawn(metric, at, name, group) if self.bootstrap and len(at) else None
            yield self._call(metric, at) if len(at) else math.nan, drawn

    def _call(self, metric: Callable[..., float], at: np.ndarray) -> float:
        try:
            takes = "sample_weight" in inspect.signature(metric).parameters
        except (TypeError, ValueError):  # of a function that says nothing of its arguments
            takes = False
        if self.weight is not None and not takes:
            raise OptionError(f"{getattr(metric, '__name__', metric)!r} takes no sample_weight; leave the weights out.")
        more = {} if self.weight is None else {"sample_weight": self.weight[at]}
        value = metric(self.truth[at], self.given[at], **more)
        return float(value)

    def _drawn(self, metric: Callable[..., float], at: np.ndarray, name: str, group: str) -> tuple[float, float]:
        rng = np.random.default_rng(seed_for("bootstrap", name, group, root=self.seed))
        found = [self._call(metric, rng.choice(at, len(at))) for _ in range(self.bootstrap)]
        tail = (1 - self.confidence) / 2
        low, high = np.quantile(found, [tail, 1 - tail])
        return float(low), float(high)
