"""The tables of the page: constraints with their intervals, groups with their rates, models side by side."""

from __future__ import annotations

from collections.abc import Iterator

from . import markup as m
from . import plots, words

MOST_CONTRASTS = 40


def constraints(audit: dict, uids: Iterator[str]) -> str:
    if not audit["constraints"]:
        return ""
    rows, cards = [], []
    for c in audit["constraints"]:
        needed = words.count(c["rows_needed"]) if c["verdict"] == "insufficient" else "–"
        value = m.undefined(None) if c["value"] is None else words.number(c["value"], beside=c["bound"])
        worst = f"<span class=sub>worst: {m.name(c['worst'])}</span>" if c["worst"] else ""
        ends = ["–" if c[k] is None else words.number(c[k], beside=c["bound"]) for k in ("lower", "upper")]
        rows.append(
            [
                m.name(c["text"]) + worst,
                *map(m.number_cell, (words.bound(c["bound"]), value, *ends)),
                m.chip(c["verdict"]),
            ]
            + [m.number_cell(needed)]
        )
        cards.append(_constraint_card(c, audit["data"]["rows"], next(uids), len(audit["constraints"]) <= 2))
    levels = " and ".join(sorted({words.percent(c["confidence"]) for c in audit["constraints"]}))
    heads = [
        "Constraint",
        "Stated<br>bound",
        "Measured<br>value",
        "At least<br>(lower)",
        "At most<br>(upper)",
        "Verdict",
        "Held-out rows<br>to decide",
    ]
    lead = (
        "Values are the true metric on held-out rows, never the surrogate used in training. “At least” and “at most” "
        f"are one-sided confidence bounds at {levels}, each valid for all compared groups at once. {_rule(audit)}; otherwise the evidence does not suffice."
    )
    caption = f"<b>Constraints</b> on {audit['data']['rows']:,} held-out rows"
    body = m.table(caption, heads, rows, "Constraints", "wide") + f"<div class=cards>{''.join(cards)}</div>"
    return m.section("Constraints", lead, body, "constraints")


def _rule(audit: dict) -> str:
    """When a bound is met and violated, for the kinds of bounds that are stated."""
    floors = {words.at_least(c) for c in audit["constraints"]}
    rules = []
    if False in floors:
        what = "An upper bound (<=)" if len(floors) > 1 else "A bound"
        rules.append(f"{what} is met when “at most” lies within it, violated when “at least” lies above it")
    if True in floors:
        what = "a lower bound (>=)" if rules else "A bound"
        rules.append(f"{what} is met when “at least” lies within it, violated when “at most” lies below it")
    return "; ".join(m.text(rule) for rule in rules)


def _constraint_card(c: dict, rows: int, uid: str, unfold: bool) -> str:
    alt = f"{c['text']}: {words.explain(c, rows)}"
    sizes = c["groups"]
    if len(sizes) > 12:
        behind = f"{len(sizes)} groups, {min(sizes.values()):,} to {max(sizes.values()):,} rows each"
    else:
        behind = ", ".join(f"{m.name(k)} ({v:,})" for k, v in sizes.items()) or "not recorded"
    if c["value"] is None:
        figure = f"<p>{m.text(words.explain(c, rows))}</p>"
    else:
        figure = (
            f"<figure>{plots.interval(c, uid, alt)}<figcaption>Dot: measured value. Bar: from “at least” to "
            "“at most”. Dashed line: stated bound, with the region beyond it shaded.</figcaption></figure>"
        )
    return (
        f"<article class=card><div class=head><h3>{m.name(c['text'])}</h3>{m.chip(c['verdict'])}</div>{figure}"
        f'<p class="small meta" style="margin-top:10px">Rows behind it: {behind}.</p>{_contrasts(c, unfold)}</article>'
    )


def _one_way(contrasts: list[dict]) -> list[dict]:
    """Without the negative differences whose mirror image (b - a for a - b) is in the list too."""

    def key(k: dict, sign: float) -> tuple:
        ends = (k["lower"], k["value"], k["upper"])[:: int(sign)]
        return tuple(None if v is None else round(sign * v, 9) for v in ends)

    there = {key(k, 1) for k in contrasts if (k["value"] or 0) > 0}
    return [k for k in contrasts if not ((k["value"] or 0) < 0 and key(k, -1) in there)]


def _contrasts(c: dict, unfold: bool) -> str:
    contrasts = sorted(_one_way(c["contrasts"]), key=lambda k: (k["value"] is None, -(k["value"] or 0.0)))
    if len(contrasts) < 2:
        return ""
    known = [v for k in contrasts for v in (k["lower"], k["value"], k["upper"]) if v is not None]
    scale = (min([0.0, *known]), max([c["bound"], *known]))
    rows = []
    for k in contrasts[:MOST_CONTRASTS]:
        value = m.undefined(None) if k["value"] is None else words.number(k["value"], beside=c["bound"])
        glyph = plots.glyph(k["value"], k["lower"], k["upper"], scale, c["bound"])
        rows.append([m.row_name(k["name"], fit=16), m.number_cell(value), glyph + _ends(k["lower"], k["upper"])])
    left = len(contrasts) - len(rows)
    caption = f"<b>{len(contrasts)} comparisons</b>, largest first"
    caption += f"; {left} smaller ones are in audit.json" if left else ""
    table = m.table(caption, ["Comparison", "Value", "Interval"], rows, f"Comparisons of {c['text']}", "tight")
    state = " open" if unfold and len(contrasts) <= 6 else ""
    return f"<details{state}><summary>The comparisons behind this value</summary>{table}</details>"


def _ends(lower: float | None, upper: float | None, digits: int = 4) -> str:
    if lower is None or upper is None:
        return ""
    return f"<span class=sub>{words.number(lower, digits)} to {words.number(upper, digits)}</span>"


def _rate_cell(rate: dict | None, n: int) -> str:
    if rate is None:
        return '<span class="undefined">not measured</span>'
    if rate["value"] is None:
        return m.undefined(rate["why"])
    lower, upper = rate["lower"], rate["upper"]
    glyph = plots.glyph(rate["value"], lower, upper, (0.0, 1.0))
    value = f"<b>{words.number(rate['value'], 3)}</b>"
    value += "" if rate["count"] == n else f" <span class=of>of {rate['count']:,}</span>"
    return value + glyph + _ends(lower, upper, 3)


def groups(audit: dict) -> str:
    groups = audit["groups"]
    if not groups:
        return ""
    found = {rate for g in groups for rate in g["rates"]}
    rates = [r for r in words.RATES if r in found] + sorted(found - set(words.RATES))
    of_classes = words.members(audit) == "classes"
    counts = ("n",) if of_classes else ("n", "positives")
    with_loss = any(g["mean_loss"] is not None for g in groups)
    body = []
    for attribute in dict.fromkeys(g["attribute"] for g in groups):
        mine = [g for g in groups if g["attribute"] == attribute]
        rows = []
        for g in mine:
            row = [m.row_name(g["group"], None), *(m.number_cell(words.count(g[k])) for k in counts)]
            row += [_rate_cell(g["rates"].get(rate), g["n"]) for rate in rates]
            if with_loss:
                row.append(m.undefined(None) if g["mean_loss"] is None else m.number_cell(words.number(g["mean_loss"])))
            rows.append(row)
        missing = audit["data"]["missing_group_rows"].get(attribute, 0)
        noun = words.members(audit) if len(mine) != 1 else "class" if of_classes else "group"
        caption = f"<b>{m.name(attribute)}</b>: {len(mine)} {noun}"
        caption += f"; {missing:,} held-out rows have no known value and belong to none" if missing else ""
        heads = ["Class", "Rows"] if of_classes else ["Group", "Rows", "Positives"]
        heads += [m.name(words.label(r)) for r in rates]
        heads += ["Mean loss"] if with_loss else []
        body.append(m.table(caption, heads, rows, f"{words.members(audit).title()} of {attribute}", "tight"))
    meaning = "; ".join(f"{words.RATES[r][0].lower()}: {words.RATES[r][1]}" for r in rates if r in words.RATES)
    lead = (
        "Each rate with its interval, on a scale from 0 to 1; “of 41” means a share of 41 rows, not of the whole group."
    )
    lead += f" {m.text(meaning[:1].upper() + meaning[1:])}." if meaning else ""
    return m.section(words.members(audit).title(), lead, "".join(body), "groups")


def comparison(audit: dict) -> str:
    models = audit["comparison"]
    if not models:
        return ""
    texts = list(dict.fromkeys(c["text"] for model in models for c in model["constraints"]))
    rows = []
    for model in models:
        row = [m.name(model["name"])]
        for value in (model["accuracy"], model["auc"]):
            row.append(m.undefined(None) if value is None else m.number_cell(words.number(value)))
        of = {c["text"]: c for c in model["constraints"]}
        row += [_compared_cell(of.get(t)) for t in texts]
        rows.append(row)
    heads = ["Model", "Accuracy", "AUC", *(m.name(t) for t in texts)]
    table = m.table("<b>Models</b> on the same held-out rows", heads, rows, "Models compared")
    lead = "Every model is measured on the same held-out rows, in the same way."
    return m.section("Model comparison", lead, table, "comparison")


def _compared_cell(c: dict | None) -> str:
    if c is None:
        return "–"
    value = m.undefined(None) if c["value"] is None else f"<b>{words.number(c['value'], beside=c['bound'])}</b>"
    return value + _ends(c["lower"], c["upper"]) + m.chip(c["verdict"])
