"""The finding on a bound as plain data: its verdict, its limits, and why rows do not decide."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fairbound.base.names import shortlist
from fairbound.base.records import plain
from fairbound.confidence.contrasts import GapBounds, mirrored
from fairbound.fairness.scored import Finding, Scored
from fairbound.fairness.verdicts.leaving_out import left_out_facts

MOST_CONTRASTS = 400
"""How many contrasts a finding lists, the one that matters most first."""


def finding(
    bound: Any,
    rows: Scored,
    found: GapBounds,
    name: Callable[[int], str],
    groups: dict[str, int],
    method: str,
    needed: Callable[[], int | None],
    *,
    missing: Sequence[str] = (),
    unit: str = "row",
    why: str | None = None,
) -> Finding:
    """The verdict that bounds of all contrasts give.

    name: of the i-th contrast. groups: how many rows measure each. needed: how many would decide. missing: what no row
    measures, without which no bound is met that does not leave it out. why: what else may keep the rows from deciding.
    """
    verdict = found.verdict(float(bound.bound))
    missing, more = split_missing(bound, missing, rows)
    if missing:
        verdict = "violated" if verdict == "violated" else "insufficient"
        why = unmeasured(missing, f"held-out {unit}")
    known = bool(np.isfinite(found.value))
    if not missing and not known:
        why = why or _undefined(found, name)
    enough = needed() if verdict == "insufficient" and not missing and known else None
    if enough is not None and enough <= len(rows) and why:
        enough = None  # it is not the number of all rows that keeps these from deciding
    return (
        stated_facts(bound, rows)
        | contrast_facts(found, name)
        | {
            "verdict": verdict,
            "rows_needed": enough,
            "method": method,
            "groups": groups,
            "why": why if missing or not known or verdict == "insufficient" else None,
        }
        | (shown_by(found, name) if verdict == "violated" else {})
        | more
    )


def _undefined(found: GapBounds, name: Callable[[int], str]) -> str:
    """Why nothing is known of the value, though every group has rows."""
    unknown = np.flatnonzero(~np.isfinite(found.estimates))
    again = {} if found.contrasts is None else mirrored(found.contrasts.index, found.contrasts.coefficient)
    names = shortlist([name(int(i)) for i in unknown if i not in again], 3)
    return f"It is undefined on these rows, as rows of a group are divided by 0 rows: {names}."


def stated_facts(bound: Any, rows: Scored) -> Finding:
    return {
        "name": bound.name,
        "text": bound.text,
        "sense": bound.sense,
        "bound": float(bound.stated),
        "confidence": rows.confidence,
        **({"power": rows.power} if rows.power > 0.5 else {}),
    }


def nothing_found(why: str) -> Finding:
    """The finding where nothing can be measured. why: the reason, in a sentence."""
    return {
        **dict.fromkeys(("value", "lower", "upper", "rows_needed", "worst")),
        "verdict": "insufficient",
        "method": "none",
        "groups": {},
        "contrasts": [],
        "why": why,
    }


def contrast_facts(bounds: GapBounds, name: Callable[[int], str]) -> Finding:
    """The numbers of the largest contrast (of ratios, the smallest), and of the contrasts that matter most; "mirrored"
    are those that repeat an earlier one in the other direction."""
    shown, all_of = np.argsort(_order(bounds), kind="stable")[:MOST_CONTRASTS], bounds.contrasts
    again = {} if all_of is None else mirrored(all_of.index[shown], all_of.coefficient[shown])
    return {
        "value": _number(bounds.value),
        "lower": _number(bounds.lower),
        "upper": _number(bounds.upper),
        "worst": name(bounds.worst),
        "contrasts": [
            {
                "name": name(int(i)),
                "value": _number(bounds.estimates[i]),
                "lower": _number(bounds.lowers[i]),
                "upper": _number(bounds.uppers[i]),
            }
            | ({"mirrored": True} if place in again else {})
            for place, i in enumerate(shown)
        ],
    }


def _number(value: Any) -> float | None:
    """As JSON can hold it; of minus zero, zero."""
    known = plain(value)
    return None if known is None else known + 0.0  # type: ignore[no-any-return]


def _order(bounds: GapBounds) -> np.ndarray:
    """(m,) sort keys: smallest for the contrast that matters most, largest where nothing is known."""
    sign = 1.0 if bounds.sense == "at least" else -1.0
    return np.where(np.isnan(bounds.estimates), np.inf, sign * bounds.estimates)


def shown_by(bounds: GapBounds, name: Callable[[int], str]) -> Finding:
    """Of a bound that is violated, the contrast that lies beyond it most surely, where another has the largest value: a
    group of two rows may have that, and shows nothing."""
    ends = -bounds.uppers if bounds.sense == "at least" else bounds.lowers
    ends = np.where(np.isnan(bounds.estimates), -np.inf, ends)
    surest = int(np.argmax(ends))
    if not ends[surest] > ends[bounds.worst]:
        return {}
    return {"shown_by": {"name": name(surest), "value": plain(bounds.estimates[surest])}}


def split_missing(bound: Any, missing: Sequence[str], rows: Scored) -> tuple[list[str], Finding]:
    """Of what is missing, what keeps the bound from being met, and the groups that it leaves out (`empty=drop`,
    `fewest`), for the finding.

    Groups and labels alone decide which are left out, never the model, so the limits of the others hold.
    """
    if not missing or not bound.leaves_out:
        return list(missing), {}
    return [], {"left_out": list(missing)} | left_out_facts(bound, rows.occurring)


def unmeasured(names: Sequence[str], unit: str = "held-out row") -> str:
    """The sentence that says what no row measures."""
    return f"No {unit} measures {shortlist(names)}."
