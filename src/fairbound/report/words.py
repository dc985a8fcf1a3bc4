"""Numbers and verdicts in plain words, shared by the page and the terminal table."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from fairbound.base.verdicts import about, direction, in_clusters, left_out, odds, scarce

UNSAFE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
VERDICTS = {
    "met": "Bound met",
    "violated": "Bound violated",
    "insufficient": "Not enough evidence",
    None: "No bound stated",
}
RATES = {
    "selection_rate": ("Selection rate", "share of the group's rows predicted positive"),
    "true_positive_rate": ("True positive rate", "share of the group's positives predicted positive"),
    "false_positive_rate": ("False positive rate", "share of the group's negatives predicted positive"),
    "true_negative_rate": ("True negative rate", "share of the group's negatives predicted negative"),
    "false_negative_rate": ("False negative rate", "share of the group's positives predicted negative"),
    "accuracy": ("Accuracy", "share of the group's rows predicted right"),
    "base_rate": ("Base rate", "share of the group's rows that are positive"),
    "error_rate": ("Error rate", "share of the group's rows predicted wrong"),
    "recall": ("Recall", "share of the class's rows that are predicted to be it"),
    "precision": ("Precision", "share of the rows predicted to be the class that are"),
    "positive_predictive_value": ("Positive predictive value", "share of its predicted positives that are positive"),
}
ONE_SIDED = "“At least” and “at most” are one-sided confidence bounds at "
LARGE = 10_000
FAR = 1000  # times the rows at hand; more is no sensible advice
IMPACT = (
    "An impact ratio is the rate of a category over that of the category with the highest rate. A scoring rate is the share whose score is "
    "above the median of all. Categories of less than 2 % of the rows are left out of the ratios. A ratio below 0.8 is what the four-fifths "
    "rule looks at; it is a screen, and no ratio is proof of anything by itself."
)
SELECTED = (
    "Selected: {}. The rule speaks of a favourable decision; where this one is not, name the other label as positive. "
)
UNWEIGHTED = (
    " People are counted here, whatever their weights, so that these rates differ from the weighted ones of the groups."
)
WEIGHTS = (
    "The model's score is a weighted sum of the features; where it is above 0, positive is predicted. By how much it rises with one unit of a "
    "feature, and with one standard deviation of a number (a category is 0 or 1). Features that go together share their weight, so that "
    'the weight of one by itself says little of it. "age above 47" is by how much age exceeds 47, else 0; '
    '"age>47" is 1 above 47, else 0; "age>47 & job=nurse" is 1 where both are so, else 0.'
)
MEASURES = {"accuracy": "accuracy", "root_mean_squared_error": "root mean squared error", "ndcg": "NDCG"}
"""What the models of a certificate are compared by."""

NOT_REACHED = (
    " These rows confirm it too, but models are tested one after the other, in an order fixed on other rows, the most cautious first, and "
    "none counts after the first that is not confirmed: the best of all would be confirmed by chance too often."
)
"""Why a model without bounds that meets them was not returned."""

TAKEN = "The model taken is this one, trained without bounds."
TAKEN_MET = "The model trained without bounds met them, and was taken: it and the constrained one are the same."
"""What stands in place of a price where the model of a certificate has no bounds."""

PROMISE = (
    "A certificate speaks of the population that the rows were drawn from, not of another year or place. It is of one fit: whoever "
    "certifies on the same rows again, with other seeds, models or bounds, until one is met has no such promise. Where it is met it "
    "says no more than the stated bound: the model was chosen because its confidence bound lies within it, so that this bound is no "
    "sharper claim."
)
"""What a certificate promises and what not (docs/certificates.md)."""

_ACRONYMS = {"auc": "AUC", "roc": "ROC", "f1": "F1", "ndcg": "NDCG"}


def clean(text: str) -> str:
    """``text`` with control, direction-changing and unpaired characters as U+FFFD."""
    return UNSAFE.sub("\ufffd", text)


def label(name: str) -> str:
    """``"balanced_accuracy"`` as people read it: ``"Balanced accuracy"``."""
    if name in RATES:
        return RATES[name][0]
    if name == "mean_average_precision":
        return "Mean average precision (relevant: above 0)"
    if " " in name:  # words already, which may name a class
        return name[:1].upper() + name[1:]
    words = [_ACRONYMS.get(word.lower(), word) for word in name.replace("_", " ").split()]
    text = " ".join(words)
    return text[:1].upper() + text[1:]


def date(iso: str) -> str:
    """``"2026-11-23T02:42:11+00:00"`` as people read it: ``"23 November 2026, 02:42 UTC"``."""
    when = datetime.fromisoformat(iso)
    zone = "" if when.tzinfo is None else " UTC" if not when.utcoffset() else when.strftime(" UTC%z")
    return f"{when.day} {when:%B %Y, %H:%M}{zone}"


def number(value: float | None, digits: int = 4, beside: float | None = None, absent: str = "undefined") -> str:
    """``value`` with ``digits`` decimals, and more where rounding would show it equal to the
    number ``beside`` it; large ones without; ``absent`` for None."""
    if value is None:
        return absent
    if beside is None and abs(value) >= LARGE:
        return f"{value:,.0f}".replace("-", "−")
    if beside is not None and abs(value - beside) > 1e-9:
        while f"{value:.{digits}f}" == f"{beside:.{digits}f}":
            digits += 1
    text = f"{value:.{digits}f}"
    return text.replace("-", "−") if float(text) else text.lstrip("-")


def beside_bound(constraint: dict[str, Any]) -> list[str]:
    """The value of a bound and its lower and upper limit, each told from the number that was stated."""
    limit = constraint["bound"]
    ends = (number(constraint[end], beside=limit, absent="–") for end in ("lower", "upper"))
    return [number(constraint["value"], beside=limit), *ends]


def figures(value: float) -> str:
    """``value`` with three significant figures, as of weights, whose units differ."""
    return f"{value:.3g}".replace("-", "−")


def bound(value: float) -> str:
    """A stated bound as the user wrote it: ``0.03``, not ``0.0300``."""
    return f"{value:.10g}".replace("-", "−")


def effective(audit: dict[str, Any]) -> bool:
    """Whether rates have effective numbers of rows: rows have weights, or come in clusters."""
    return bool(audit["data"].get("weighted") or audit["data"].get("clusters"))


def count(value: int | None) -> str:
    """``11842`` as ``11,842``; an absent count as a dash."""
    return "–" if value is None else f"{value:,}"


def percent(confidence: float) -> str:
    """``0.95`` as ``95 %``."""
    return f"{100 * confidence:.6g} %"


def impact(audit: dict[str, Any]) -> tuple[str, str]:
    """The heading of the table of impact ratios, and what is said under it."""
    weighted, who = audit["data"].get("weighted", False), selected(audit)
    return (
        "Selection rates and impact ratios" + ", unweighted" * weighted,
        (SELECTED.format(who) if who else "") + IMPACT + UNWEIGHTED * weighted,
    )


def selected(audit: dict[str, Any]) -> str:
    """Which rows are called selected, such as ``"predicted repaid = 1"``; "" where nobody is, as of numbers."""
    data = audit["data"]
    if data["positive"] is None or data.get("classes"):
        return ""
    return f"{'' if decisions_alone(audit) else 'predicted '}{data['label']} = {data['positive']}"


def labels_named(audit: dict[str, Any]) -> str:
    """Which label is meant by y=1 in the names of groups, where it is not the number 1; "" where no name has it."""
    data = audit["data"]
    names = (name for c in audit["constraints"] for name in (*c["groups"], c.get("worst") or ""))
    if data["positive"] in (None, "1") or data.get("classes") or not any(re.search(r" \| y=[01]$", n) for n in names):
        return ""
    label = f"{data['label']} = {data['positive']}"
    return f"In the names of groups y=1 stands for the positive label, {label}, and y=0 for every other."


def at_least(constraint: dict[str, Any]) -> bool:
    """Whether the stated bound is the least that is accepted, as of a recall; else it is the most."""
    return constraint.get("sense") == "at least"


def members(audit: dict[str, Any]) -> str:
    """What the entries of ``audit["groups"]`` are: groups of people, or the classes of the label."""
    return "classes" if audit["data"].get("classes") else "groups"


def unit(audit: dict[str, Any]) -> str:
    """What was judged, of which there are some: held-out rows, those of the training file,
    or decisions, of a monitor or without outcomes."""
    decisions = audit.get("monitoring") or decisions_alone(audit)
    return "rows" if audit["data"].get("trained_on") else "decisions" if decisions else "held-out rows"


def task(audit: dict[str, Any]) -> str:
    """What the model judged does, as registries of models call it."""
    if "root_mean_squared_error" in audit["metrics"]:
        return "tabular-regression"
    return "ranking" if "ndcg" in audit["metrics"] else "tabular-classification"


def decisions_alone(audit: dict[str, Any]) -> bool:
    """Whether decisions were judged without outcomes, by the shares selected alone."""
    return list(audit["metrics"]) == ["selection_rate"]


def said_of(constraint: dict[str, Any], audit: dict[str, Any]) -> str:
    """All that is said of a constraint, one entry of ``audit["constraints"]``."""
    clusters = audit["data"].get("clusters", {}).get("count")
    monitor = "this monitor has seen" if offered(audit) is None else "this monitor has counted"
    had = monitor if audit.get("monitoring") else "this audit had"
    said = explain(constraint, audit["data"]["rows"], unit(audit), clusters, had, offered(audit))
    return said + attained(constraint, audit)


def offered(audit: dict[str, Any]) -> int | None:
    """How many rows a monitor was given, of which it counted some, by their weight; None where rows count once each."""
    return audit.get("monitoring", {}).get("offered")


def explain(
    constraint: dict[str, Any],
    rows: int,
    unit: str = "held-out rows",
    clusters: int | None = None,
    had: str = "this audit had",
    offered: int | None = None,
) -> str:
    """Why this constraint has its verdict, in one or two sentences.

    constraint: one entry of ``audit["constraints"]``. rows: how many of the `unit` the audit had. clusters: in how many
    clusters they come, None where they are independent. had: the words before that number. offered: of how many rows these were drawn by their weight, if they were.
    """
    limit, value, level = constraint["bound"], constraint["value"], percent(constraint["confidence"])
    lower, upper, why = constraint["lower"], constraint["upper"], constraint["why"]
    near = {"beside": limit}
    floor = at_least(constraint)
    good, bad = (lower, upper) if floor else (upper, lower)
    inside, outside = ("least", "most") if floor else ("most", "least")
    beyond = "below" if floor else "above"
    if value is None:
        text = f"It could not be measured on these rows: {why.rstrip('.')}."
        why = None
    elif constraint["verdict"] in ("met", "violated"):
        text = f"Measured {number(value, **near)}."
        end, at, where = (good, inside, "within") if constraint["verdict"] == "met" else (bad, outside, beyond)
        if end is not None:
            text += f" With {level} confidence it is at {at} {number(end, **near)}, {where} the bound {bound(limit)}."
    elif good is not None and (good >= limit if floor else good <= limit):
        text = (
            f"Measured {number(value, **near)}, and with {level} confidence at {inside} {number(good, **near)}, within "
        )
        text += f"the bound {bound(limit)}, but not everything that the constraint names could be measured."
    else:
        text = f"Measured {number(value, **near)}, but these rows cannot tell on which side of the bound "
        text += f"{bound(limit)} it lies"
        if lower is not None and upper is not None:
            text += f": with {level} confidence it is at least {number(lower, **near)} "
            text += f"and at most {number(upper, **near)}"
        text += "."
    if constraint["verdict"] == "insufficient":
        needed = constraint["rows_needed"]
        here = f"{had} {rows:,}{in_clusters(clusters)}"
        alike = "" if clusters is None else ", in clusters as large,"
        if offered is not None:
            here += f" of the {offered:,} rows given, by their weight"
            if needed is not None and rows:
                alike = f", out of about {about(math.ceil(needed * offered / rows))} rows to give,"
        if needed is not None and scarce(constraint):
            text += scarce(constraint, unit)
        elif needed is not None and needed > FAR * max(rows, 1):
            text += (
                f" The measured value lies so near the bound that about {about(needed)} {unit}{alike} would be needed to decide "
                f"{odds(constraint)}; {here}. Train under a tighter bound, or gather more rows."
            )
        elif needed is not None:
            text += f" About {about(needed)} {unit} of this kind{alike} would decide it {odds(constraint)}; {here}.{direction([constraint])}"
        elif not constraint["why"]:
            text += " No number of rows was found that would decide it."
    if why:
        text += f" {why[0].upper()}{why[1:].rstrip('.')}."
    return text + left_out([constraint])


def attained(constraint: dict[str, Any], audit: dict[str, Any]) -> str:
    """Which comparison gives the value, and of which attribute where the groups' names tell; empty where there is one
    alone, or all are alike."""
    worst = constraint.get("worst")
    if not worst or len(constraint["groups"]) < 3 or (not constraint["value"] and not at_least(constraint)):
        return ""
    first = worst.removeprefix("overall - ") + " | "
    of = {g["attribute"] for g in audit["groups"] if re.match(rf"{re.escape(g['group'])}(,| [-/|] | above )", first)}
    named = f" ({of.pop()})" if len(of) == 1 and len(audit["data"]["sensitive"]) > 1 else ""
    text = f" The value is that of {worst}{named}."
    if shown := constraint.get("shown_by"):
        text += f" The comparison that lies beyond the bound most surely is {shown['name']}, measured as {number(shown['value'])}."
    return text


def rule(constraints: Sequence[dict[str, Any]]) -> str:
    """When a bound is met and violated, for the senses of the bounds that are stated."""
    floors = {at_least(c) for c in constraints}
    rules = []
    if False in floors:
        what = "An upper bound (<=)" if len(floors) > 1 else "A bound"
        rules.append(f"{what} is met when “at most” lies within it, violated when “at least” lies above it")
    if True in floors:
        what = "a lower bound (>=)" if rules else "A bound"
        rules.append(f"{what} is met when “at least” lies within it, violated when “at most” lies below it")
    return "; ".join(rules)


def certified_price(made: dict[str, Any]) -> str:
    """What the unconstrained model reaches, and what the certified one costs beside it;
    made: the audit's certificate."""
    free = made["unconstrained"]
    if taken_without_bounds(made):
        return TAKEN_MET if made["verdict"] == "met" else TAKEN
    values = ", ".join("undefined" if v is None else number(v) for v in free["values"])
    measure = made.get("measure", "accuracy")
    said, lost = MEASURES[measure], made["price"]
    if measure == "accuracy":
        lost = round(100 * lost, 2)
        price = f"{lost:g} percentage points of accuracy" if lost > 0 else "no accuracy"
    else:
        price = f"{number(lost)} in {said}" if round(lost, 4) > 0 else f"nothing in {said}"
    whole = f"It measures {values} at {_an(said)} of {number(free[measure])}. The bound costs {price}."
    return whole + (
        NOT_REACHED if made.get("verdict") == free["verdict"] == "met" and not price.startswith("no") else ""
    )


def taken_without_bounds(made: dict[str, Any] | None) -> bool:
    """Whether the model that a certificate speaks of is the one trained without bounds; made: the audit's certificate,
    None where it has none. The model taken is the last that was confirmed, else the first tested."""
    tested = [] if made is None else made.get("candidates", [])
    taken = next((one for one in reversed(tested) if one["verdict"] == "met"), tested[0] if tested else None)
    return taken is not None and not taken["trained_under"]


def _an(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiouN' else 'a'} {noun}"


def screened(screen: dict[str, Any]) -> str:
    """The four-fifths screen of one category, in words."""
    p = screen["p_value"]
    if p in (None, 1.0) and not screen["below"]:
        said = ""
    else:
        tested = "" if p is None else f", Fisher's exact p {p:.2g}"
        said = f"{'below' if screen['below'] else 'not below'} four fifths{tested}"
    return ", ".join(part for part in (said, "small sample" if screen["small_sample"] else "") if part)
