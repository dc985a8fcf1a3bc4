"""Where along a curve of models a tighter bound begins to cost more accuracy for each step, if that is beyond chance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

SURE = 3.0
"""Standard errors by which a difference of accuracies is beyond chance; the largest of several is looked at."""


class SureKnee(NamedTuple):
    """The number of the knee's entry, None where there is none beyond chance; and whether all accuracies along the
    curve are alike but for chance."""

    at: int | None
    flat: bool


def sure_knee(
    curve: Sequence[dict[str, Any]], under: str, sense: str, wrong: np.ndarray, weight: Any = None
) -> SureKnee:
    """The knee of a curve whose errors on the same rows are known.

    curve: k entries with "value", "cost" and, by the name `under`, the bound trained under, None for none. sense: of
    the bounds. wrong: (k, n) whether each model decides each row wrong. weight: (n,) of the rows, or None.
    """
    mass = np.ones(wrong.shape[1]) if weight is None else np.asarray(weight, dtype=float)

    def sure(each: np.ndarray) -> bool:
        """Whether the mean of numbers (n,) of the rows is above 0 beyond chance."""
        mean = float(np.average(each, weights=mass))
        return mean > SURE * math.sqrt(float(np.square(mass * (each - mean)).sum())) / float(mass.sum())

    misses = np.asarray(wrong, dtype=float)
    errors = np.average(misses, axis=1, weights=mass)
    flat = len(curve) > 1 and not sure(misses[errors.argmax()] - misses[errors.argmin()])
    found, ends = knee(curve), _ends(curve)
    if found is None or ends is None:
        return SureKnee(None, flat)
    first, last = ends
    way = (curve[found]["value"] - curve[first]["value"]) / (curve[last]["value"] - curve[first]["value"])
    stated = [one[under] for one in curve if one[under] is not None]
    tightest = (max if sense == "at least" else min)(stated, default=None)
    depth = (1 - way) * misses[first] + way * misses[last] - misses[found]
    return SureKnee(found if curve[found][under] != tightest and sure(depth) else None, flat)


def knee(curve: Sequence[dict[str, Any]]) -> int | None:
    """The number of the entry, of those with a "value", farthest below the line of their "cost" between the smallest
    and the largest value; None below three."""
    if (ends := _ends(curve)) is None:
        return None
    (x0, y0), (x1, y1) = ((curve[i]["value"], curve[i]["cost"]) for i in ends)
    return max(_known(curve), key=lambda i: y0 + (y1 - y0) * (curve[i]["value"] - x0) / (x1 - x0) - curve[i]["cost"])


def said_of(bound: float | None, flat: bool) -> str:
    """A sentence about the bound of the knee, None for none; "" where there is nothing to say."""
    if bound is not None:
        return f"Bounds tighter than about {bound:g} cost more accuracy for each step."
    return "Accuracy hardly changes along these bounds: its differences may be chance." if flat else ""


def _known(curve: Sequence[dict[str, Any]]) -> list[int]:
    return [i for i, one in enumerate(curve) if one["value"] is not None and math.isfinite(one["value"])]


def _ends(curve: Sequence[dict[str, Any]]) -> tuple[int, int] | None:
    """The entries of the smallest and the largest value; None below three entries, or where these are one value."""
    known = _known(curve)
    if len(known) < 3:
        return None
    first, last = (pick(known, key=lambda i: curve[i]["value"]) for pick in (min, max))
    return None if curve[first]["value"] == curve[last]["value"] else (first, last)
