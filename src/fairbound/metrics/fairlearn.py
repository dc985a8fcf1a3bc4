"""From a MetricTable to fairlearn's MetricFrame, and back. fairlearn is imported only here,
and only to make a MetricFrame."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fairbound.base.errors import OptionError
from fairbound.metrics.table import MetricTable
from fairbound.rows.groups import AND


def to_fairlearn(found: MetricTable, attribute: str | None = None) -> Any:
    """A fairlearn MetricFrame with the values of one attribute's groups; the rows are not in it, only what was
    measured.

    attribute: None where the table has one. Raises: OptionError where it has others, or no fairlearn is installed.
    """
    try:
        from fairlearn.metrics import MetricFrame
    except ImportError:
        raise OptionError("to_fairlearn needs fairlearn: pip install fairlearn.") from None
    if attribute is None and len(found.by_group) == 1:
        (attribute,) = found.by_group
    if attribute not in found.by_group:
        raise OptionError(f"attribute must be one of {', '.join(map(repr, found.by_group))}, got {attribute!r}.")
    groups = found.by_group[attribute]
    names = list(groups)

    def looked_up(metric: str) -> Any:
        def value(places: Any, whole: Any) -> float:
            if len(places) == len(names):  # one row stands for each group
                return found.overall[metric]
            return groups[names[int(np.asarray(places)[0])]][metric]

        return value

    if len(names) < 2:
        raise OptionError(
            f"{attribute!r} has one group alone, {names[0]!r}; a MetricFrame of it would say nothing more."
        )
    places = np.arange(len(names))
    return MetricFrame(
        metrics={metric: looked_up(metric) for metric in found.overall},
        y_true=places,
        y_pred=places,
        sensitive_features={attribute: names},
    )


def from_fairlearn(frame: Any) -> MetricTable:
    """A MetricTable of what a fairlearn MetricFrame measured: without intervals and counts, which it does not keep.

    Raises: OptionError for a frame with control features.
    """
    if frame.control_levels:
        raise OptionError(
            "a MetricFrame with control features has a table for each of their values; convert each by itself."
        )
    by_group, overall = frame.by_group, frame.overall
    if not hasattr(by_group, "columns"):  # of one metric
        name = str(by_group.name or "metric")
        by_group, overall = by_group.to_frame(name), {name: overall}
    attribute = "*".join(map(str, frame.sensitive_levels))
    groups = {
        AND.join(map(str, key)) if isinstance(key, tuple) else str(key): {
            str(metric): float(row[metric]) for metric in by_group.columns
        }
        for key, row in by_group.iterrows()
    }
    missing = [
        f"{attribute}: {metric} of the group {group!r} is undefined."
        for group, values in groups.items()
        for metric, value in values.items()
        if math.isnan(value)
    ]
    everyone = {str(metric): float(overall[metric]) for metric in by_group.columns}
    return MetricTable(everyone, {attribute: groups}, missing=tuple(missing))
