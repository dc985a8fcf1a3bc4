"""The audit as one HTML page that needs nothing else: no script, no font, no image, no request."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import count
from typing import Any

from fairbound.base.verdicts import WORST_FIRST
from fairbound.report import curves, tables, words
from fairbound.report.render import render
from fairbound.report.schema import validate


def audit_page(audit: dict[str, Any]) -> str:
    """The page for ``audit`` (schema ``fairbound.audit/1``) as text: equal for equal audits and one matplotlib.

    Raises: SchemaError if the audit breaks the schema; ImportError if matplotlib, jinja2 or jsonschema is missing.
    """
    validate(audit)
    uids = (f"c{i}" for i in count(1))
    constraints = tables.constraints(audit, uids)
    return render(
        "audit.html.j2",
        audit=audit,
        members=words.members(audit),
        created=_date(audit["created"]),
        constraints=constraints,
        worst_first=sorted(constraints, key=lambda c: WORST_FIRST.index(c["verdict"])),
        alike=len({c["verdict"] for c in constraints}) == 1,
        levels=sorted({words.percent(c["confidence"]) for c in constraints}),
        rule=words.rule(constraints),
        **tables.groups(audit),
        compared=tables.compared(audit),
        distributions=curves.distributions(audit, uids),
        trajectory=curves.trajectory(audit, uids),
        over_time=curves.over_time(audit, uids),
        spent=_spent(audit["model"]),
        methods=_by_method(constraints),
    )


def _date(iso: str) -> str:
    when = datetime.fromisoformat(iso)
    zone = "" if when.tzinfo is None else " UTC" if not when.utcoffset() else when.strftime(" UTC%z")
    return f"{when.day} {when:%B %Y, %H:%M}{zone}"


def _spent(model: dict[str, Any] | None) -> str:
    steps, seconds = (None, None) if model is None else (model["steps"], model["seconds"])
    parts = [None if steps is None else f"{steps:,} steps", None if seconds is None else f"{seconds:.3g} s"]
    return " in ".join(part for part in parts if part)


def _by_method(constraints: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The constraints whose bounds were computed in the same way, by that way."""
    return {c["method"]: [d for d in constraints if d["method"] == c["method"]] for c in constraints}
