"""Pieces of HTML: escaped text, verdict marks, tables. Nothing here knows what an audit is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

from .words import VERDICTS

_UNSAFE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
_SHAPES = {
    "met": '<path d="M14 33l12 12 24-27" fill="none" stroke="currentColor" stroke-width="7"/>',
    "violated": '<path d="M18 18l28 28M46 18L18 46" fill="none" stroke="currentColor" stroke-width="7"/>',
    "insufficient": '<path d="M22 25c0-14 21-14 21 0 0 8-11 8-11 16v1" fill="none" stroke="currentColor" '
    'stroke-width="6"/><circle cx="32" cy="51" r="4" fill="currentColor"/>',
    None: '<path d="M18 32h28" fill="none" stroke="currentColor" stroke-width="7"/>',
}


def text(value: object) -> str:
    """``value`` safe between tags and inside quoted attributes.

    Control, direction-changing and unpaired characters become U+FFFD.
    """
    return escape(clean(str(value)), quote=True)


def clean(value: str) -> str:
    """``value`` with control, direction-changing and unpaired characters as U+FFFD."""
    return _UNSAFE.sub("\ufffd", value)


def name(value: object, most: int | None = 90) -> str:
    """A name given by people: escaped, kept from turning the direction of the text around it, and cut in its middle
    where it is longer than ``most`` characters (the whole name is then its tooltip)."""
    whole = str(value)
    if most is None or len(whole) <= most:
        return f"<bdi>{text(whole)}</bdi>"
    return f'<bdi title="{text(whole)}">{text(whole[: most * 2 // 3])}…{text(whole[-(most // 3) :])}</bdi>'


def row_name(value: object, most: int | None = 90, fit: int = 28) -> str:
    """A name at the head of a table row, kept wide enough for ``fit`` characters, lest it become a tower."""
    return f'<span class=fit style="min-width:{min(len(str(value)) + 1, fit)}ch">{name(value, most)}</span>'


def code(value: object) -> str:
    return f"<code>{name(value, None)}</code>"


def undefined(why: str | None) -> str:
    return f'<span class="undefined">undefined{f" ({text(why)})" if why else ""}</span>'


def mark(verdict: str | None) -> str:
    """The verdict's sign (tick, cross, question mark), so that it never rests on colour alone."""
    ring = '<circle cx="32" cy="32" r="29" fill="none" stroke="currentColor" stroke-width="4"/>'
    return f'<svg class="mark" viewBox="0 0 64 64" aria-hidden="true">{ring}{_SHAPES[verdict]}</svg>'


def tone(verdict: str | None) -> str:
    return verdict or "none"


def chip(verdict: str) -> str:
    return f'<span class="chip {tone(verdict)}">{mark(verdict)}{VERDICTS[verdict]}</span>'


def table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]], label: str, kind: str = "") -> str:
    """A captioned table in a box that scrolls sideways on narrow screens.

    caption, heads and rows are markup; ``label`` is plain text for the scrolling box. The first cell of a row is its
    head; a cell that starts with ``<td`` stands as it is.
    """
    head = "".join(f'<th scope="col">{h}</th>' for h in heads)
    body = []
    for row in rows:
        cells = "".join(c if c.startswith("<td") else f"<td>{c}</td>" for c in row[1:])
        body.append(f'<tr><th scope="row">{row[0]}</th>{cells}</tr>')
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{text(label)}"><table class="{kind}">'
        f"<caption><span>{caption}</span></caption><thead><tr>{head}</tr></thead><tbody>\n{chr(10).join(body)}\n</tbody></table></div>"
    )


def number_cell(markup: str) -> str:
    return f'<td class="num">{markup}</td>'


def items(values: Iterable[str], kind: str) -> str:
    """A list of sentences, escaped."""
    return f'<ul class="{kind}">{"".join(f"<li>{name(v, None)}</li>" for v in values)}</ul>'


def facts(pairs: Iterable[tuple[str, str | None]]) -> str:
    """Term and description side by side; pairs without a description are left out. Descriptions are markup."""
    return f'<dl class="facts">{"".join(f"<dt>{text(k)}</dt><dd>{v}</dd>" for k, v in pairs if v is not None)}</dl>'


def section(title: str, lead: str, body: str, anchor: str) -> str:
    """One part of the page under its heading; ``lead`` and ``body`` are markup."""
    opening = f'<p class="lead">{lead}</p>' if lead else ""
    head = f'<h2 id="{anchor}-h">{title}</h2>'
    return f'<section id="{anchor}" aria-labelledby="{anchor}-h">{head}{opening}{body}</section>'
