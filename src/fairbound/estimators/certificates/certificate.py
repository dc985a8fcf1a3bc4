"""The certificate as plain data and in words; docs/certificates.md names its fields."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fairbound.base.verdicts import about, direction, left_out, odds, of_each, of_left_out
from fairbound.estimators.certificates.judged_models import Judged, half_width
from fairbound.estimators.facts.fit_report import FEW_ROWS
from fairbound.estimators.judged_rows import JudgedRows
from fairbound.estimators.validation import CONFIRM
from fairbound.fairness.bound import Bound
from fairbound.fairness.scored import Finding


def certificate_of(
    taken: Judged,
    free: Judged,
    tested: Sequence[Judged],
    order: Sequence[Judged],
    stated: Sequence[Bound],
    alpha: float,
    sizes: dict[str, int],
    rows: JudgedRows,
) -> dict[str, Any]:
    """The certificate as plain data; docs/certificates.md names its fields.

    tested: models on the rows to certify, in turn; order: the same on the rows that put them in order, and those not
    tested. rows: any, which say what is measured.
    """
    verdict, confidence, measure = taken.verdict, round(1 - alpha, 12), rows.measure
    lost = free.measured - taken.measured
    facts = [
        {name: found[name] for name in ("text", "sense", "bound", "value", "verdict", "rows_needed", "method", "why")}
        | {"upper": _limit(found), "method": of_each(found["method"])}
        | of_left_out(found)
        for found in taken.findings
    ]
    uppers = [fact["upper"] for fact in facts]
    needed = [fact["rows_needed"] for fact in facts if fact["verdict"] == "insufficient"]
    enough = max(needed) if verdict == "insufficient" and needed and all(needed) else None
    rows_needed = None if enough is None else math.ceil(enough * sum(sizes.values()) / sizes["certify"])
    return {
        "verdict": verdict,
        "text": " and ".join(b.text for b in stated),
        "bound": stated[0].stated if len(stated) == 1 else [b.stated for b in stated],
        "upper": uppers[0] if len(stated) == 1 else uppers,
        "confidence": confidence,
        "rows": sizes,
        "rows_needed": rows_needed,
        "candidates": [_candidate(one, before.cost, measure) for one, before in zip(tested, order, strict=False)],
        "measure": measure,
        "price": lost if rows.gains else -lost,
        measure: taken.measured,
        "unconstrained": {
            measure: free.measured,
            "verdict": free.verdict,
            "values": [found["value"] for found in free.findings],
        },
        "constraints": facts,
        "said": _said(taken, facts, confidence, sizes, enough, rows_needed) + left_out(facts) + _next_move(taken),
    }


def _next_move(taken: Judged) -> str:
    """What to do where the bounds are not confirmed; "" where they are."""
    if taken.verdict == "met":
        return ""
    for found in taken.findings:
        room = 1 - found["bound"] if found["sense"] == "at least" else found["bound"]
        if (width := half_width(found)) > room:
            return (
                f" That confidence bound lies {width:.3f} from the value, further than {found['text']} leaves: so few rows would "
                "hardly confirm it even of a model like this one that shows no difference. Give more rows, or loosen the bound."
            )
    facts = taken.model.fit_report_
    if taken.verdict == "violated" and facts["feasible"] and facts["constraints"]:
        values = " and ".join(f"{fact['train_value']:.4f}" for fact in facts["constraints"])
        return (
            f" On the rows that it was trained on it has {values}: too few rows for so many columns. Give more rows or fewer columns, "
            "or loosen the bound."
        )
    if "violated" in direction(taken.findings):
        return " Loosen the bound, give more rows to train on, or take another model."
    return " Give more rows, loosen the bound, or take another model."


def _limit(found: Finding) -> float | None:
    """The confidence bound that decides "met": the upper one, of "at least" the lower one."""
    return found["lower"] if found["sense"] == "at least" else found["upper"]  # type: ignore[no-any-return]


def _candidate(one: Judged, cost: float, measure: str) -> dict[str, Any]:
    return {
        "trained_under": [c["text"] for c in one.model.fit_report_["constraints"]],
        "smoothed": one.smoothed,
        "cost": cost,
        measure: one.measured,
        "values": [found["value"] for found in one.findings],
        "uppers": [_limit(found) for found in one.findings],
        "verdict": one.verdict,
    }


def _said(
    taken: Judged,
    facts: Sequence[dict[str, Any]],
    confidence: float,
    sizes: dict[str, int],
    enough: int | None,
    rows_needed: int | None,
) -> str:
    """The certificate of the model that is taken, in one or two sentences. enough, rows_needed: rows to certify, and
    rows in all, that would decide."""
    text = " and ".join(fact["text"] for fact in facts)
    rows = f"{sizes['certify']:,} rows that took no part in training"
    limits = " and ".join("unknown" if fact["upper"] is None else f"{fact['upper']:.4f}" for fact in facts)
    limits += ", each by itself" * (len(facts) > 1)
    are, limit, bound = ("is", "bound is", "bound") if len(facts) == 1 else ("are", "bounds are", "bounds")
    if taken.verdict == "met":
        return f"{text} {are} met with {100 * confidence:g} % confidence on {rows}: the confidence {limit} {limits}."
    if taken.verdict == "violated":
        free = "the model without bounds; on the other rows no model trained under them lay further inside"
        by = "the most cautious model found" if taken.model.fit_report_["constraints"] else free
        return f"{text} {are} violated on {rows} by {by}."
    more = ""
    if enough is not None and rows_needed is not None:
        total = sum(sizes.values())
        more = f" About {about(enough)} such rows would decide it {odds()}, {about(rows_needed)} in all; here were {total:,}.{direction(facts)}"
    return f"{text} cannot be certified: {rows} leave the confidence {bound} at {limits}.{more}"


def _of_stated(
    advice: Sequence[dict[str, str]], trained: Sequence[dict[str, Any]], stated: Sequence[Bound]
) -> list[dict[str, str]]:
    """The advice but for what is said of bounds that nobody stated: tighter ones than those stated."""
    tighter = tuple(repr(t["text"]) for t, b in zip(trained, stated, strict=True) if t["text"] not in (None, b.text))
    return [one for one in advice if not (one["fault"] == "inactive" and one["said"].startswith(tighter))]


def _nothing_learnt(
    facts: dict[str, Any], trained: Sequence[dict[str, Any]], stated: Sequence[Bound], met: bool
) -> dict[str, Any]:
    """What the report says of a model that has learnt nothing, where its own advice is of groups that have too few rows for
    tighter bounds than those stated; {} of others."""
    under = [t["text"] for t, b in zip(trained, stated, strict=True) if t["text"] not in (None, b.text)]
    learnt, own = facts.get("nothing_learnt"), facts.get("what_may_help")
    if not under or learnt is None or own is None or not own.startswith(FEW_ROWS):
        return {}
    held = f"trained under {' and '.join(under)}"
    said = (
        f"It was {held}, tighter than stated."
        if met
        else f"It is the most cautious model tried, {held}; none could be confirmed."
    )
    said += " Models held to less had more choice: give more rows, so that such a one may be confirmed, or loosen the bound."
    return {
        "nothing_learnt": learnt.replace(own, said),
        "what_may_help": said,
        "warnings": [line.replace(own, said) for line in facts["warnings"]],
    }


def report_of(facts: dict[str, Any], stated: Sequence[Bound], certificate: dict[str, Any]) -> dict[str, Any]:
    """The report of the model taken, which speaks of the stated bounds and says what it was trained under."""
    under = facts["constraints"]
    trained = [*under, *({"text": None, "train_value": None} for _ in stated[len(under) :])]
    constraints = [
        {
            "text": b.text,
            "sense": b.sense,
            "bound": b.stated,
            "train_value": t["train_value"],
            "trained_under": t["text"],
        }
        for b, t in zip(stated, trained, strict=True)
    ]
    sizes = certificate["rows"]
    note = (
        f"Rows: {sizes['train']:,} to train, {sizes['choose']:,} to choose, {sizes['certify']:,} to certify "
        f"({sizes['certify'] / sum(sizes.values()):.0%}: by the size of the smallest group beside the bound)."
    )
    kept = [said for said in facts["notes"] if CONFIRM not in said]
    tighter = tuple(f"{t['text']}: " for t, b in zip(trained, stated, strict=True) if t["text"] != b.text)
    own: dict[str, Any] = {  # nobody stated the tighter bounds
        name: [said for said in facts[name] if not said.startswith(tighter)]
        for name in ("warnings", "small_groups")
        if name in facts
    }
    own |= _nothing_learnt(facts | own, trained, stated, certificate["verdict"] == "met")
    return {
        "certificate": certificate,
        **facts,
        **own,
        **({"advice": _of_stated(facts["advice"], trained, stated)} if "advice" in facts else {}),
        "constraints": constraints,
        "notes": [*kept, note],
    }
