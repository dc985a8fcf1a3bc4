"""The audit as one HTML page that needs nothing else: no script, no font, no image, no request."""

from __future__ import annotations

from datetime import datetime
from importlib import resources
from itertools import count as counter
from typing import Any

from . import curves, tables, words
from . import markup as m
from .schema import validate

HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>
{css}</style>
</head>
<body>
"""


def audit_page(audit: dict[str, Any]) -> str:
    """The page for ``audit`` (schema ``fairbound.audit/1``) as text: equal for equal audits and one matplotlib.

    Raises: SchemaError if the audit breaks the schema; ImportError if matplotlib is missing.
    """
    validate(audit)
    uids = (f"c{i}" for i in counter(1))
    css = resources.files(__package__).joinpath("page.css").read_text(encoding="utf-8")
    parts = [
        HEAD.format(title=f"{m.text(audit['title'])}: {words.VERDICTS[_verdict(audit)]}", css=css),
        _header(audit),
        "<main>",
        _banner(audit),
        _tiles(audit),
        tables.constraints(audit, uids),
        tables.groups(audit),
        tables.comparison(audit),
        curves.distributions(audit, uids),
        curves.trajectory(audit, uids),
        _method(audit),
        _said(audit),
        "</main>",
        f"<footer>Written by fairbound {m.name(audit['library'].get('fairbound', ''))} on {_date(audit['created'])}. "
        f"The same facts for machines: <code>audit.json</code>, schema <code>{audit['schema']}</code>.</footer>",
        "</body>\n</html>\n",
    ]
    return "\n".join(part for part in parts if part)


def _verdict(audit: dict) -> str | None:
    return audit["verdict"] if audit["constraints"] else None


def _date(iso: str) -> str:
    when = datetime.fromisoformat(iso)
    zone = "" if when.tzinfo is None else " UTC" if not when.utcoffset() else when.strftime(" UTC%z")
    return f"{when.day} {when:%B %Y, %H:%M}{zone}"


def _header(audit: dict) -> str:
    model = audit["model"]
    described = [m.name(model["description"])] if model and model["description"] else []
    what = " · ".join([m.name(audit["data"]["name"]), *described, _date(audit["created"])])
    title = m.name(audit["title"], None)
    kind = "Audit of a classifier" if words.members(audit) == "classes" else "Fairness audit"
    return f"<header><p class=eyebrow>{kind}</p><h1>{title}</h1><p class=meta>{what}</p></header>"


def _banner(audit: dict) -> str:
    verdict, rows = _verdict(audit), audit["data"]["rows"]
    worst_first = sorted(audit["constraints"], key=lambda c: ("violated", "insufficient", "met").index(c["verdict"]))
    lines = "".join(
        f"<li><strong>{m.name(c['text'])}{_own_verdict(c, audit)}</strong> {m.text(words.explain(c, rows))}</li>"
        for c in worst_first
    )
    alerts = len(audit["warnings"])
    warn = f"{alerts} warning{'s' if alerts > 1 else ''} to read"
    link = f'<p class=alert><a href="#said">{warn}</a></p>' if alerts else ""
    return (
        f'<section class="banner {m.tone(verdict)}" aria-label="Verdict">{m.mark(verdict)}<div>'
        f"<p class=word>{words.VERDICTS[verdict]}</p><p class=sum>{m.text(words.summary(audit))}</p>"
        f"{f'<ul>{lines}</ul>' if lines else ''}{link}</div></section>"
    )


def _values(data: dict) -> str:
    """What the label's values mean."""
    if data["positive"] is not None:
        return f", positive when {m.code(data['positive'])}"
    classes = data.get("classes", [])
    shown = ", ".join(map(m.code, classes[:20])) + (", ..." if len(classes) > 20 else "")
    return f", {len(classes)} classes: {shown}"


def _own_verdict(constraint: dict, audit: dict) -> str:
    alike = all(c["verdict"] == constraint["verdict"] for c in audit["constraints"])
    return "" if alike else f": {words.VERDICTS[constraint['verdict']].lower()}"


def _tiles(audit: dict) -> str:
    tiles = [(words.label(k), m.undefined(None) if v is None else words.number(v)) for k, v in audit["metrics"].items()]
    tiles += [
        ("Held-out rows", words.count(audit["data"]["rows"])),
        (words.members(audit).title(), words.count(len(audit["groups"]))),
    ]
    return f"<dl class=tiles>{''.join(f'<div><dt>{m.name(k)}</dt><dd>{v}</dd></div>' for k, v in tiles)}</dl>"


def _method(audit: dict) -> str:
    data, model = audit["data"], audit["model"]
    missing = "; ".join(f"{m.name(k)}: {v:,}" for k, v in data["missing_group_rows"].items())
    pairs: list[tuple[str, str | None]] = [
        ("Data", m.name(data["name"])),
        ("Checksum", None if data["checksum"] is None else m.code(data["checksum"])),
        (
            "Rows",
            f"{data['rows']:,} held out"
            + ("" if data["train_rows"] is None else f", {data['train_rows']:,} for training"),
        ),
        ("Split", m.name(data["split"], None)),
        ("Label", m.code(data["label"]) + _values(data)),
        ("Sensitive attributes", ", ".join(map(m.code, data["sensitive"])) or "none"),
        ("Held-out rows with unknown group", missing or None),
    ]
    if model:
        steps = None if model["steps"] is None else f"{model['steps']:,} steps"
        seconds = None if model["seconds"] is None else f"{model['seconds']:.3g} s"
        pairs += [
            ("Model", ": ".join(m.name(model[k], None) for k in ("kind", "description") if model[k])),
            ("Algorithm", None if model["algorithm"] is None else m.name(model["algorithm"])),
            ("Seed", None if model["seed"] is None else str(model["seed"])),
            ("Budget", None if model["budget"] is None else m.name(model["budget"])),
            ("Spent", " in ".join(part for part in (steps, seconds) if part) or None),
        ]
    methods: dict[str, list[dict]] = {}
    for c in audit["constraints"]:
        methods.setdefault(c["method"], []).append(c)
    compared = "".join(
        f"<li>{', '.join(m.name(c['text']) for c in group)}: {m.name(method, None)}; "
        f"{sum(len(c['contrasts']) for c in group):,} comparisons at {words.percent(group[0]['confidence'])}</li>"
        for method, group in methods.items()
    )
    versions = ", ".join(f"{m.name(k)} {m.name(v)}" for k, v in audit["library"].items())
    pairs += [
        ("Intervals and correction for comparisons", f"<ul>{compared}</ul>" if compared else None),
        ("Versions", versions or None),
        ("Created", m.text(audit["created"])),
    ]
    return m.section("How it was measured", "", f"<div class=card>{m.facts(pairs)}</div>", "method")


def _said(audit: dict) -> str:
    body = ""
    if audit["warnings"]:
        body += f'<div class="card warned"><h3>Warnings</h3>{m.items(audit["warnings"], "said")}</div>'
    if audit["notes"]:
        body += f'<div class="card"><h3>Notes</h3>{m.items(audit["notes"], "said")}</div>'
    return m.section("Warnings and notes", "" if body else "None.", body, "said")
