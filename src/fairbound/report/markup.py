"""Pieces of the study pages as text; those that are more than a tag come from the macros of ``pieces.html.j2``.

Arguments called markup stand on the page as they are; all others are escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from fairbound.report import words
from fairbound.report.render import drawing, environment, render


class Head:
    """The beginning of a page, up to its body."""

    def format(self, *, title: str, css: str) -> str:
        whole = render("page.html.j2", css=drawing(css))
        return whole[: whole.index("<header>")].replace("<title></title>", f"<title>{title}</title>")


def _piece(macro: str, *given: object) -> str:
    return str(getattr(environment().get_template("pieces.html.j2").module, macro)(*given))


def text(value: object) -> str:
    """``value`` safe between tags and inside quoted attributes."""
    return escape(words.clean(str(value)), quote=True)


def name(value: object, most: int | None = 90) -> str:
    """A name given by people, cut in its middle where it is longer than ``most`` characters."""
    return _piece("name", value, most)


def row_name(value: object, most: int | None = 90, fit: int = 28) -> str:
    """A name at the head of a table row, kept wide enough for ``fit`` characters."""
    return _piece("row_name", value, most, fit)


def code(value: object) -> str:
    return _piece("code", value)


def number_cell(markup: str) -> str:
    return f'<td class="num">{markup}</td>'


def table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]], label: str, kind: str = "") -> str:
    """A captioned table: caption, heads and cells are markup, label is text. A cell that starts with ``<td`` is whole."""
    cells = [[drawing(cell) for cell in row] for row in rows]
    return _piece("table_of", drawing(caption), [drawing(head) for head in heads], cells, label, kind)


def items(values: Iterable[str], kind: str) -> str:
    """A list of sentences, escaped."""
    return _piece("items", values, kind)


def facts(pairs: Iterable[tuple[str, str | None]]) -> str:
    """Term and description (markup) side by side; pairs without a description are left out."""
    return _piece("facts", [(term, None if told is None else drawing(told)) for term, told in pairs])


def section(title: str, lead: str, body: str, anchor: str) -> str:
    """One part of the page under its heading; title, lead and body are markup."""
    return _piece("section_of", drawing(title), drawing(lead), drawing(body), anchor)
