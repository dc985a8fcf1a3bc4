"""A study as one HTML page that needs nothing else: findings, tables, figures, settings, how it was measured.

What only one kind of study has (its tables, what stands below the title) comes from its view.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import resources
from typing import Any, Protocol

from . import markup as m
from .page import _HEAD
from .study_drawing import Drawing

_STYLE = """
.figure { overflow-x: auto; } .figure .chart { min-width: 680px; }
.ours { font-weight: 600; } .paper { display: block; color: var(--muted); font-size: 12.5px; white-space: nowrap; }
.win { background: var(--met-soft); } .findings li { margin: 0 0 7px; max-width: 96ch; }
nav ul { display: flex; flex-wrap: wrap; gap: 4px 18px; list-style: none; margin: 14px 0 0; padding: 0; }
nav { font-size: 14.5px; }
"""


class View(Protocol):
    """What a kind of study adds to the page, as markup, and its figures. rows: of results.json, the block's own."""

    @property
    def MEASURED(self) -> Iterable[tuple[str, str]]: ...
    def meta(self, study: dict[str, Any]) -> list[str]: ...
    def lead(self, study: dict[str, Any], block: dict[str, Any]) -> str: ...
    def tables(
        self, study: dict[str, Any], item: dict[str, Any], block: dict[str, Any], rows: Sequence[dict[str, Any]]
    ) -> str: ...
    def settings(self, study: dict[str, Any]) -> str: ...
    def drawings(
        self, study: dict[str, Any], block: dict[str, Any], rows: Sequence[dict[str, Any]]
    ) -> Iterator[Drawing]: ...


def rows_of(results: Sequence[dict[str, Any]], block: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of results.json that a block shows."""
    return [r for r in results if r["item"] == block["item"] and block["data"] in (None, r["data"])]


def study_page(
    study: dict[str, Any],
    results: Sequence[dict[str, Any]],
    summary: dict[str, Any],
    drawn: Mapping[str, Sequence[tuple[Drawing, str]]],
    view: View,
) -> str:
    """The page as text. drawn: key of a block -> drawings with their inline SVG."""
    css = resources.files(__package__).joinpath("page.css").read_text(encoding="utf-8") + _STYLE
    title = m.name(study["title"], None)
    meta = " · ".join([m.name(study["source"]), *view.meta(study)])
    body, links = [], []
    if summary["findings"]:
        body.append(m.section("Findings", "", _said(summary["findings"]), "findings"))
        links.append('<li><a href="#findings-h">Findings</a></li>')
    for n, block in enumerate(summary["blocks"], start=1):
        heading = m.name(block["title"], None)
        links.append(f'<li><a href="#b{n}-h">{heading}</a></li>')
        body.append(_block(study, results, block, drawn[block["key"]], view, heading, f"b{n}"))
    ends = (("settings", "Settings"), ("measured", "How it was measured"))
    links += [f'<li><a href="#{anchor}-h">{name}</a></li>' for anchor, name in ends]
    quick = " (quick form)" if study["quick"] else ""
    parts = [
        _HEAD.format(title=title, css=css),
        f"<header><p class=eyebrow>Study{quick}</p><h1>{title}</h1><p class=meta>{meta}</p>"
        f"<nav><ul>{''.join(links)}</ul></nav></header><main>",
        *body,
        m.section("Settings", "", view.settings(study), "settings"),
        _measured(study, view.MEASURED),
        "</main>",
        f"<footer>Written by fairbound {m.name(study['environment']['versions']['fairbound'])}, "
        f"{m.text(study['created'])}. The same facts for machines: <code>results.json</code>, "
        "<code>summary.json</code>, <code>records.jsonl</code>.</footer>",
        "</body>\n</html>\n",
    ]
    return "\n".join(parts)


def _said(findings: Sequence[dict[str, Any]], heading: str = "") -> str:
    said = "".join(f"<li>{m.name(f['text'], None)}</li>" for f in findings)
    title = f"<h3>{heading}</h3>" if heading else ""
    return f"<div class=card>{title}<ul class='said findings'>{said}</ul></div>"


def _block(
    study: dict, results: Sequence[dict], block: dict, drawn: Sequence[tuple[Drawing, str]], view: View, heading: str,
    anchor: str,
) -> str:  # fmt: skip
    item = next(i for i in study["items"] if i["key"] == block["item"])
    notes = [n for n in (item["note"], block["data"] and study["data"][block["data"]]["note"]) if n]
    body = "".join(f"<p class=small>{m.name(n, None)}</p>" for n in notes)
    body += _said(block["findings"], "Which method wins where")
    body += view.tables(study, item, block, rows_of(results, block))
    for drawing, svg in drawn:
        body += (
            f"<figure class=card><div class=figure>{svg}</div><figcaption><b>{m.text(drawing.title)}.</b> "
            f"{m.name(drawing.caption, None)}</figcaption></figure>"
        )
    return m.section(heading, view.lead(study, block), body, anchor)


def settings_table(study: dict[str, Any], note: str, more: Mapping[str, Callable[[dict[str, Any]], object]]) -> str:
    """Algorithm and configuration of every method. more: heads of further columns -> their text."""
    rows = [
        [
            m.row_name(told["title"]), f'<td class=left>{m.code(told["algorithm"])}</td>',
            f'<td class=left>{m.code(told["config"])}</td>', f'<td class=left>{m.text(told["sampling"])}</td>',
            *(f"<td class=left>{m.text(of(told))}</td>" for of in more.values()),
        ]
        for told in study["methods"].values()
    ]  # fmt: skip
    heads = ["Method", "Algorithm", "Settings", "Batches", *more]
    return m.table(f"<b>Settings</b> of every method. {note}", heads, rows, "settings")


def _measured(study: dict, more: Iterable[tuple[str, str]]) -> str:
    env, slow = study["environment"], study["slowdown"]
    hardware = ", ".join(f"{m.name(k)} {m.name(v)}" for k, v in env["hardware"].items())
    told = None
    if slow:
        told = "1 cell at a time"
        if slow["jobs"] > 1:
            told = f"{slow['jobs']} cells at a time ({m.text(slow['backend'])}), {slow['slowdown']:.2f} times as long"
            told += " as alone"
    failures = "; ".join(f"{m.name(k)}: {m.name(v, None)}" for k, v in study["failures"].items())
    pairs: list[tuple[str, str | None]] = [
        ("Cells", f"{study['cells']['finished']} of {study['cells']['asked']} finished"), ("Failed", failures or None),
        ("Parallel runs", told),
        ("Clock", "seconds of training in one thread; evaluation is not counted"),
        *more,
        ("Hardware", f"{hardware}; {env['processors']} processors"),
        ("Versions", ", ".join(f"{m.name(k)} {m.name(v)}" for k, v in env["versions"].items())),
        ("Revision", None if env["commit"] is None else m.code(env["commit"])),
    ]  # fmt: skip
    body = f"<div class=card>{m.facts(pairs)}</div>"
    if study["notes"]:
        body += f'<div class="card"><h3>Notes</h3>{m.items(study["notes"], "said")}</div>'
    return m.section("How it was measured", "", body, "measured")
