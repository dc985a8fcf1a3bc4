"""ROC curves of bounds on areas: within groups, across groups, and of the groups that are compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from fairbound.report import words
from fairbound.report.figures import Drawing, Look, inline, series_style
from fairbound.report.render import drawing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MET = "The surrogate that "
"""How the note of training begins that says which surrogate met the bound."""


def roc_charts(audit: Mapping[str, Any], uids: Iterator[str]) -> list[dict[str, Any]]:
    """A chart of each picture of the audit's "roc": ``text``, ``attribute``, ``kind``, ``svg``, ``series``, ``line``
    and ``left`` as in `curves.distributions`."""
    charts = []
    for one in audit.get("roc", []):
        for picture in one["pictures"]:
            curves = picture["curves"]
            series = [
                (
                    f"{c['above']} above {c['below']}",
                    f": area {words.number(c['area'], 3)} ({c['rows'][0]:,} and {c['rows'][1]:,} rows)",
                )
                for c in curves
            ]
            caption = "; ".join(f"{name}{note}" for name, note in series)
            chart = Drawing(
                "roc", f"ROC curves {picture['kind']}, {one['attribute']}", caption, (4.0, 3.6), _paint(picture)
            )
            charts.append(
                {
                    "text": one["text"],
                    "attribute": one["attribute"],
                    "kind": picture["kind"],
                    "svg": drawing(inline(chart, next(uids))),
                    "series": series,
                    "line": "no order: area 0.5",
                    "left": one["groups_left_out"],
                }
            )
    return charts


def surrogate_said(audit: Mapping[str, Any]) -> str:
    """What training said of the surrogate that met the bound; "" where it said nothing."""
    return next((note for note in audit["notes"] if note.startswith(MET)), "")


def _paint(picture: Mapping[str, Any]) -> Any:
    def paint(figure: Figure, look: Look) -> None:
        ax = figure.subplots()
        ax.plot([0, 1], [0, 1], color=look["bound"], linewidth=1.2, linestyle=(0, (4, 2)))
        for i, curve in enumerate(picture["curves"]):
            ax.plot(curve["x"], curve["y"], linewidth=1.6, **series_style(look, i))
        ax.set_xlim(0, 1)
        ax.set_ylim(0, 1)
        ax.set_xlabel("share above the threshold, of the second set")
        ax.set_ylabel("share above it, of the first")

    return paint
