"""What audits of every kind are made of: the groups that are listed, a rate with its interval, and a compared model.

Source: Clopper and Pearson (1934), as set out in `fairbound.confidence.single`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fairbound.confidence.single import clopper_pearson
from fairbound.fairness.bound import Bound
from fairbound.rows.groups import Groups


def listed_attributes(groups: Groups, bounds: Sequence[Bound]) -> list[tuple[str, tuple[str, ...], np.ndarray]]:
    """`Groups.by_attribute` of what the audit's "groups" list: every attribute that is known of some row, and their
    combinations where a bound compares these."""
    listed = list(groups.by_attribute)
    if len(listed) > 1 and any(getattr(b, "attributes", "each") in ("crossed", "both") for b in bounds):
        listed += groups.crossed().by_attribute
    return [one for one in listed if (one[2] >= 0).any()]


def rate_record(successes: Any, trials: Any, among: str, confidence: float) -> dict[str, Any]:
    """One rate of the audit's "groups" with its two-sided interval; `among`: the row that is named where none is
    counted."""
    n = round(float(trials))
    if trials <= 0:
        return no_value(f"no {among}", n)
    lower, upper = clopper_pearson(successes, trials, 1 - confidence)
    return share_record(float(successes / trials), float(lower), float(upper), n)


def share_record(value: float, lower: float, upper: float, count: int) -> dict[str, Any]:
    """A share with its interval, which is made to hold it."""
    low, high = max(min(lower, value), 0.0), min(max(upper, value), 1.0)
    return {"value": value, "lower": low, "upper": high, "count": count, "why": None}


def no_value(why: str, count: int = 0) -> dict[str, Any]:
    """A value that could not be measured."""
    return {"value": None, "lower": None, "upper": None, "count": count, "why": why}


def compared_model(
    name: str, metrics: Mapping[str, float | None], judged: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """One model of the audit's "comparison"; metrics that have no accuracy, as of numbers and rankings, are all kept."""
    keys = ("text", "sense", "bound", "value", "lower", "upper", "verdict")
    bounds = [{k: c[k] for k in keys if k in c} for c in judged]
    model = {"name": name, "accuracy": metrics.get("accuracy"), "auc": metrics.get("auc"), "constraints": bounds}
    return model if "accuracy" in metrics else model | {"metrics": dict(metrics)}
