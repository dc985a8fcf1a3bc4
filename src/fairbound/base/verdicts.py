"""The words of an audit, shared by the rooms that write audits and those that show them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from fairbound.base.names import count_of, shortlist

AUDIT_SCHEMA = "fairbound.audit/1"
EXIT_CODES = {"met": 0, "violated": 1, "insufficient": 3}
FEW_ROWS = 10
"""Rows of a group below which it is named: what they say of it decides nothing."""
WORST_FIRST = ("violated", "insufficient", "met")


def about(rows: int) -> str:
    """An estimated number of rows to three significant digits, rounded up: ``3458373`` as ``3,460,000``;
    above 10^9 just that."""
    if rows > 10**9:
        return "a billion or more"
    step = 10 ** max(len(str(rows)) - 3, 0)
    return f"{-(-rows // step) * step:,}"


def odds(found: Mapping[str, Any] | None = None) -> str:
    """At what odds the rows said to be needed decide; found: a bound's entry, which states its `power` where it is not
    one half."""
    power = 0.5 if found is None else found.get("power", 0.5)
    return "at about even odds" if power == 0.5 else f"in {100 * power:.4g} % of audits"


def scarce(found: Mapping[str, Any], unit: str = "held-out rows") -> str:
    """A sentence on the group of so few rows that no number of rows can be planned from them; "" where there is none.
    found: a bound's entry. unit: of what there are some."""
    clusters = found.get("group_clusters", {})
    some = {name: min(n, clusters.get(name, n)) for name, n in found["groups"].items() if n > 0}
    name = min(some, key=lambda one: some[one], default="")
    if not some or some[name] >= FEW_ROWS:
        return ""
    unit, n = unit.replace("rows", found.get("unit", "rows")), found["groups"][name]
    has = f"{n} {unit[:-1] if n == 1 and unit.endswith('s') else unit}{in_clusters(clusters.get(name))}"
    return f" {name} has {has}, too few to say how many would decide it: gather more of this group first."


def in_clusters(count: int | None) -> str:
    """What is added to a number of rows that come in so many clusters; "" where they are independent."""
    return "" if count is None else f" in {count_of(count, 'cluster')}"


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


LEFT_OUT = ("left_out", "left_out_groups", "left_out_rows", "fewest")
"""What the entry of a bound holds of the groups that it leaves out (docs/audit-schema.md)."""


def of_left_out(found: Mapping[str, Any]) -> dict[str, Any]:
    """That part of a bound's entry; empty where no group is left out."""
    return {name: found[name] for name in LEFT_OUT if name in found}


def left_out(findings: Iterable[Mapping[str, Any]]) -> str:
    """Sentences on the groups that bounds leave out for want of rows, or of others beside them; "" where there are none."""
    findings = list(findings)
    names = dict.fromkeys(name for found in findings if "fewest" not in found for name in found.get("left_out", ()))
    said = [f" Left out (empty=drop), for want of rows that it needs: {', '.join(names)}."] if names else []
    said += [_of_few_rows(found) for found in findings if "fewest" in found]
    return "".join(dict.fromkeys(said))


def _of_few_rows(found: Mapping[str, Any]) -> str:
    """The sentence on the groups that `fewest` leaves out, those of the most rows first."""
    groups = sorted(found["left_out_groups"], key=lambda one: -one["rows"])
    each = [f"{one['group']} ({_rows_and_few(one)}{_why_alone(one)})" for one in groups]
    return f" Left out (fewest={found['fewest']}): {unspoken(found)}, of which it says nothing: {shortlist(each, 10)}."


def _why_alone(group: Mapping[str, Any]) -> str:
    return ", and no other group is left to compare it with" if group.get("alone") else ""


def _rows_and_few(group: Mapping[str, Any]) -> str:
    """The rows of a group that is left out, and how many there are of the kind of which it has too few."""
    few, kind = group["fewest"], group.get("kind")
    of_kind = "" if kind is None else f", {few:,} {kind.replace('rows', 'row', 1) if few == 1 else kind}"
    return count_of(group["rows"], "row") + of_kind


def unspoken(found: Mapping[str, Any]) -> str:
    """How many groups a bound leaves out by `fewest`, and their rows."""
    k, n = len(found["left_out_groups"]), found["left_out_rows"]
    return f"{count_of(k, 'group')} with {count_of(n, 'row')}"


def of_each(method: str) -> str:
    """How limits were computed, where each stated bound has the whole error probability."""
    return re.sub(r"( and stated bounds|[,;] Bonferroni over stated bounds)$", "", method)


def worst_verdict(verdicts: Iterable[str]) -> str | None:
    """The verdict on all stated bounds together; None where none was stated."""
    return min(verdicts, key=WORST_FIRST.index, default=None)
