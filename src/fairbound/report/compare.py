"""Two models beside each other as one page: what `fairbound.compare` found, each difference with its interval."""

from __future__ import annotations

from typing import Any

from fairbound.base.names import shortlist
from fairbound.report import words
from fairbound.report.plots import glyph
from fairbound.report.render import drawing, render

COMPARE_SCHEMA = "fairbound.compare/1"


def compare_page(found: dict[str, Any]) -> str:
    """The page of a comparison (schema "fairbound.compare/1"), without script or request.
    Raises: ImportError without jinja2."""
    lines = found["differences"]
    known = [abs(d[end]) for d in lines for end in ("difference", "lower", "upper") if d[end] is not None]
    most = max(known, default=0.0) or 1.0
    return render(
        "compare.html.j2",
        found=found,
        first=found["names"][0],
        second=found["names"][1],
        said=said(found),
        lines=[
            d
            | {"tells": tells(d), "glyph": drawing(glyph(d["difference"], d["lower"], d["upper"], (-most, most), 0.0))}
            for d in lines
        ],
    )


def tells(line: dict[str, Any]) -> str:
    """Whether a difference is clear: its interval lies on one side of 0."""
    if line["lower"] is None or line["upper"] is None:
        return "not known"
    if line["lower"] > 0:
        return "higher"
    return "lower" if line["upper"] < 0 else "no clear difference"


MOST_LINES = 30
"""Differences that a printed table shows."""


def most_telling(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The differences that a printed table shows, in their order: all that are of no single group, and of the others
    those that are clear, the largest first, then those that are not."""
    if len(lines) <= MOST_LINES:
        return lines
    of_groups = [i for i, d in enumerate(lines) if ", " in d["name"] and " = " in d["name"]]
    clear = ("higher", "lower")
    of_groups.sort(key=lambda i: (tells(lines[i]) not in clear, -abs(lines[i]["difference"] or 0)))
    others = len(lines) - len(of_groups)
    left = set(of_groups[max(MOST_LINES - others, 0) :])
    return [d for i, d in enumerate(lines) if i not in left]


def said(found: dict[str, Any]) -> str:
    """The comparison in a sentence or two."""
    clear = [f"{d['name']} ({tells(d)})" for d in found["differences"] if tells(d) in ("higher", "lower")]
    part = (
        f"{found['changed']:,} of {found['rows']:,} decisions differ." if found["changed"] else "No decision differs."
    )
    column = f", column {found['weights']}" if "weights" in found else ""
    part += f" Every row counts with its weight{column}." if found.get("weighted") else ""
    level = words.percent(found["confidence"])
    if not clear:
        return f"{part} No difference is clear at {level} confidence."
    return f"{part} Clear at {level} confidence, each for itself: {shortlist(clear)}."
