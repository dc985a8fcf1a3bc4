"""Records of a run as the curves of a report: loss, every stated bound's true value, and the largest multipliers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from fairbound.base.series import floats
from fairbound.methods.method import State
from fairbound.solver.solve import Solution

MOST_POINTS = 400
MOST_MULTIPLIERS = 12

MOST_KEPT = 1000
"""With more constraints, a fitted model keeps no number of each: of pairs of groups these grow as groups squared, and are
hundreds of megabytes of a few hundred groups."""


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
    stated = np.array([floats(r["train"].get("stated", ())) for r in records]).reshape(len(records), len(plan.notions))
    values = {bound.text: _plain(stated[:, i]) for i, bound in enumerate(plan.notions)}
    largest = np.zeros(plan.m if all(len(r["multipliers"]) == plan.m for r in records) else 0)
    for r in records if len(largest) else ():
        largest = np.maximum(largest, np.nan_to_num(np.abs(floats(r["multipliers"]))))
    top = sorted(np.argsort(-largest, kind="stable")[:MOST_MULTIPLIERS])
    return {
        "steps": [int(r["step"]) for r in records],
        "seconds": _plain([r["seconds"] for r in records]),
        "loss": _plain([r["train"].get("loss", r["train"]["f"]) for r in records]),
        "constraints": values,
        "bounds": {bound.text: float(bound.stated) for bound in plan.notions},
        "multipliers": {plan.names[j]: _plain([r["multipliers"][j] for r in records]) for j in top},
        "split": "train",
    }


def lasting(solution: Solution) -> Solution:
    """What a fitted model keeps of a run's solution: under more than MOST_KEPT constraints, as between all pairs of many
    groups, neither the value nor the multiplier of each in records and state. Records have each bound's value still."""
    records = solution.records
    if not records or len(records[-1]["train"]["g"]) <= MOST_KEPT:
        return solution
    short = [
        {
            name: {k: v for k, v in part.items() if k != "g"} if name in ("train", "validation") else part
            for name, part in row.items()
            if name != "multipliers"
        }
        for row in records
    ]
    at = solution.state
    ended = State(x=at.x, k=at.k, multipliers=at.multipliers[..., :0].clone(), outer=at.outer, halted=at.halted)
    return replace(solution, records=short, state=ended)


def _plain(values: Any) -> list[float | None]:
    return [None if v is None or not np.isfinite(v) else float(v) for v in values]
