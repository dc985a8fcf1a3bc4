"""What stands under the verdict of an audit: how many bounds hold, and on which rows."""

from __future__ import annotations

from typing import Any

from fairbound.base.verdicts import in_clusters, unspoken
from fairbound.report import words


def said(audit: dict[str, Any]) -> str:
    """What stands under the verdict: how many constraints hold, what the verdict means,
    and whether the model is constant."""
    constant = audit["metrics"].get("selection_rate") in (0.0, 1.0)
    return (
        _what_holds(audit)
        + (" The model gives all of these rows the same decision." if constant else "")
        + _silent(audit)
    )


def _silent(audit: dict[str, Any]) -> str:
    """Of how many groups and rows the verdict does not speak, as they are too few (`fewest`); "" where of all."""
    left = [c for c in audit["constraints"] if "fewest" in c]
    if not left:
        return ""
    most = max(left, key=lambda c: c["left_out_rows"])
    verdict = "The verdict does" if len(audit["constraints"]) == 1 else f"The verdict on {most['text']} does"
    return f" {verdict} not speak of {unspoken(most)}, which fewest={most['fewest']} leaves out."


def _what_holds(audit: dict[str, Any]) -> str:
    constraints = audit["constraints"]
    if not constraints:
        return "No constraint was given, so nothing is judged; what was measured follows."
    m = len(constraints)
    rows = f"{judged_rows(audit)}{_known(audit['data'])}"
    if audit["verdict"] == "met":
        what = "The constraint holds" if m == 1 else "Both constraints hold" if m == 2 else f"All {m} constraints hold"
        return f"{what} on {rows}, even at the {_end(constraints, 'upper')} end of the confidence bounds."
    bad = [c for c in constraints if c["verdict"] == audit["verdict"]]
    which = "The constraint" if m == 1 else f"{len(bad)} of {m} constraints"
    if audit["verdict"] == "violated":
        be = "is" if len(bad) == 1 else "are"
        return f"{which} {be} broken on {rows}, even at the {_end(bad, 'lower')} end of the confidence bounds."
    return f"{which} can be neither confirmed nor refuted with {rows}."


def judged_rows(audit: dict[str, Any]) -> str:
    """How many rows were judged: held-out rows, those of the training file,
    or the decisions that a monitor has seen."""
    rows = f"{audit['data']['rows']:,} "
    if audit["data"].get("trained_on"):
        return rows + "rows of the file that the model was trained on"
    return rows + words.unit(audit) + in_clusters(audit["data"].get("clusters", {}).get("count"))


def _known(data: dict[str, Any]) -> str:
    """How many rows have a known group, of the attributes that are not known in some."""
    parts = [f"{data['rows'] - n:,} with a known {a}" for a, n in data["missing_group_rows"].items() if n]
    return f" ({', '.join(parts)})" if parts else ""


def _end(constraints: list[dict[str, Any]], end: str) -> str:
    """The end of the interval that decides, `end` where bounds are the most that is accepted."""
    senses = {words.at_least(c) for c in constraints}
    other = {"upper": "lower", "lower": "upper"}[end]
    return end if senses == {False} else other if senses == {True} else "deciding"
