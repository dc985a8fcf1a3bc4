"""The words of an audit, shared by the rooms that write audits and those that show them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

AUDIT_SCHEMA = "fairbound.audit/1"
EXIT_CODES = {"met": 0, "violated": 1, "insufficient": 3}
WORST_FIRST = ("violated", "insufficient", "met")


def about(rows: int) -> str:
    """An estimated number of rows to three significant digits, rounded up: ``3458373`` as ``3,460,000``; above 10^9 just that."""
    if rows > 10**9:
        return "a billion or more"
    step = 10 ** max(len(str(rows)) - 3, 0)
    return f"{-(-rows // step) * step:,}"


def against(findings: Iterable[Mapping[str, Any]]) -> str:
    """A sentence where rows that would decide speak against the model, as a value is beyond its bound; else "".

    findings: each with "value" (or None), "bound" and "sense", which is "at least" for a floor.
    """
    for found in findings:
        value, bound = found["value"], found["bound"]
        if value is not None and (value < bound if found.get("sense") == "at least" else value > bound):
            return " As the value is beyond the bound, they would show it violated."
    return ""


def worst_verdict(verdicts: Iterable[str]) -> str | None:
    """The verdict on all stated bounds together; None where none was stated."""
    return min(verdicts, key=WORST_FIRST.index, default=None)
