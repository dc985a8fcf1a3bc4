"""The words of an audit, shared by the rooms that write audits and those that show them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

AUDIT_SCHEMA = "fairbound.audit/1"
EXIT_CODES = {"met": 0, "violated": 1, "insufficient": 3}
WORST_FIRST = ("violated", "insufficient", "met")


def about(rows: int) -> str:
    """An estimated number of rows to three significant digits, rounded up: ``3458373`` as ``3,460,000``;
    above 10^9 just that."""
    if rows > 10**9:
        return "a billion or more"
    step = 10 ** max(len(str(rows)) - 3, 0)
    return f"{-(-rows // step) * step:,}"


def direction(findings: Iterable[Mapping[str, Any]]) -> str:
    """A sentence on what rows that would decide would show of the bounds together; "" where a value is not known.

    findings: each with "value" (or None), "bound" and "sense", which is "at least" for a floor.
    """
    known = [(f["value"], f["bound"], f.get("sense") == "at least") for f in findings]
    if any(value is None for value, _, _ in known):
        return ""
    if any(value < bound if floor else value > bound for value, bound, floor in known):
        return " As the value is beyond the bound, they would show it violated."
    return " As the value is within the bound, they would confirm it."


def left_out(findings: Iterable[Mapping[str, Any]]) -> str:
    """A sentence on the groups that bounds with empty=drop leave out for want of rows; "" where there are none."""
    names = dict.fromkeys(name for found in findings for name in found.get("left_out", ()))
    return f" Left out (empty=drop), for want of rows that it needs: {', '.join(names)}." if names else ""


def worst_verdict(verdicts: Iterable[str]) -> str | None:
    """The verdict on all stated bounds together; None where none was stated."""
    return min(verdicts, key=WORST_FIRST.index, default=None)
