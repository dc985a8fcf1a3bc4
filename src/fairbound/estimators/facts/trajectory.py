"""Records of a run as the curves of a report: loss, every stated bound's true value, and the largest multipliers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

MOST_POINTS = 400
MOST_MULTIPLIERS = 12


class Stated(Protocol):
    """m constraints called `names`, of the bounds `notions`: a Plan, or a RankingProblem."""

    @property
    def m(self) -> int: ...
    @property
    def names(self) -> Sequence[str]: ...
    @property
    def notions(self) -> Sequence[Any]: ...


def trajectory(records: Sequence[dict[str, Any]], plan: Stated) -> dict[str, Any]:
    """The trajectory of one run in the audit's schema (docs/audit-schema.md), measured on the training rows.

    records: `Solution.records` of one run (not a stack). plan: the compiled bounds that it was trained under.
    Of the multipliers the 12 that were largest at any time are kept,
    and of more than 400 records 400 evenly spaced ones.
    """
    if len(records) > MOST_POINTS:
        records = [records[i] for i in np.linspace(0, len(records) - 1, MOST_POINTS).round().astype(int)]
    g = np.array([_numbers(r["train"]["g"]) for r in records]).reshape(len(records), plan.m)
    weights = np.array([_numbers(r["multipliers"]) for r in records])
    weights = weights if weights.shape == g.shape else np.zeros((len(records), 0))
    stated = np.array([_numbers(r["train"].get("stated", ())) for r in records]).reshape(
        len(records), len(plan.notions)
    )
    values = {bound.text: _plain(stated[:, i]) for i, bound in enumerate(plan.notions)}
    top = np.argsort(-np.nan_to_num(np.abs(weights)).max(axis=0, initial=0.0), kind="stable")[:MOST_MULTIPLIERS]
    return {
        "steps": [int(r["step"]) for r in records],
        "seconds": _plain([r["seconds"] for r in records]),
        "loss": _plain([r["train"].get("loss", r["train"]["f"]) for r in records]),
        "constraints": values,
        "bounds": {bound.text: float(bound.stated) for bound in plan.notions},
        "multipliers": {plan.names[j]: _plain(weights[:, j]) for j in sorted(top)},
        "split": "train",
    }


def _numbers(values: Any) -> list[float]:
    return [np.nan if v is None else float(v) for v in values]


def _plain(values: Any) -> list[float | None]:
    return [None if v is None or not np.isfinite(v) else float(v) for v in values]
