"""Drawings by matplotlib: as files of their own, and as SVG within a page, in CSS variables of the page, so that one
drawing serves light and dark.

A drawing is a `paint(figure, look)` on an empty figure. Its markup needs no other file: no script, no link, no
namespace address, and its ids start with the ``uid`` given, so that many drawings can share one page. A look names
colours: real ones for files, placeholders for the page, which become its variables.
"""

from __future__ import annotations

import html
import io
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

from fairbound.base.extras import extra
from fairbound.report.words import clean

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Look = Mapping[str, str]
"""Names of the page's palette -> colours that matplotlib can draw."""
Paint = Callable[["Figure", Look], None]
SERIES = 6
DASHES = ("", "6 2.5", "2 2", "8 2.5 2 2.5", "4 1.5", "1 2.5")
# A colour that matplotlib draws with -> the CSS variable that takes its place in the page.
_VARIABLES = {f"#0a0b{i:02x}": f"var(--s{i})" for i in range(1, SERIES + 1)}
_VARIABLES |= {
    "#0a0c01": "var(--muted)",
    "#0a0c02": "var(--line)",
    "#0a0c03": "var(--ink)",
    "#0a0c04": "var(--beyond)",
    "#0a0c05": "var(--bound)",
}
INKS = {value[6:-1]: key for key, value in _VARIABLES.items()}
_TAG = re.compile(r"<svg [^>]*>")


@dataclass(frozen=True)
class Drawing:
    """name: of the files, without ending. title, caption: plain text. size: inches. paint: draws it."""

    name: str
    title: str
    caption: str
    size: tuple[float, float]
    paint: Paint


def settings(look: Look, fonttype: str) -> Any:
    """What every drawing is drawn under: no frame, grey ticks, transparent. look: names of the page's
    palette -> colours; fonttype: "none" for letters that stay text, "path" for drawn ones."""
    with extra("report", "charts need matplotlib"):
        import matplotlib
    muted = look["muted"]
    return matplotlib.rc_context({
        "svg.fonttype": fonttype, "svg.hashsalt": "fairbound", "font.family": "DejaVu Sans", "font.size": 9,
        "text.parse_math": False, "axes.unicode_minus": True, "path.simplify": True,
        "text.color": look["ink"], "axes.labelcolor": muted,
        "xtick.color": muted, "ytick.color": muted, "axes.edgecolor": muted, "grid.color": look["line"],
        "grid.linewidth": 0.6, "axes.spines.top": False, "axes.spines.right": False, "axes.spines.left": False,
        "axes.axisbelow": True, "axes.facecolor": "none", "xtick.major.size": 0, "ytick.major.size": 0,
        "xtick.minor.size": 0, "ytick.minor.size": 0, "axes.titlesize": 9.5, "axes.titleweight": "bold",
        "axes.titlecolor": look["ink"], "axes.labelsize": 9, "xtick.labelsize": 8, "ytick.labelsize": 8,
    })  # fmt: skip


def as_markup(figure: Figure, uid: str, alt: str) -> str:
    """The figure as an SVG element in the page's colours. uid: how its ids begin; alt: what it shows, in words."""
    buffer = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(buffer, format="svg", metadata=nothing)
    text = buffer.getvalue()
    text = text[text.index("<svg ") :]
    box = re.search(r'viewBox="([^"]*)"', text)
    if box is None:
        raise RuntimeError("matplotlib wrote an SVG without a viewBox; report this with the matplotlib version")
    opening = f'<svg class="chart" viewBox="{box[1]}" role="img" aria-label="{html.escape(clean(alt))}">'
    text = _TAG.sub(lambda _: opening, text, count=1)
    text = re.sub(r"<style[^>]*>.*?</style>", "", text, flags=re.S)
    text = re.sub(r"font-family: [^;\"]*", "font-family: inherit", text)
    text = re.sub(r'\bid="', f'id="{uid}-', text)
    text = re.sub(r'xlink:href="#', f'href="#{uid}-', text)
    text = re.sub(r"url\(#", f"url(#{uid}-", text)
    text = re.sub(r"#0a0[bc][0-9a-f]{2}\b", lambda m: _VARIABLES[m[0]], text)
    text = re.sub(r'<defs>\s*</defs>|<g id="[^"]*"\s*/>', "", text)
    return re.sub(r"\s*\n\s*", " ", text).strip()


def dash_of(i: int) -> Any:
    """matplotlib's line style of series i; after SERIES they come again."""
    dashes = DASHES[i % SERIES]
    return (0, tuple(float(x) for x in dashes.split())) if dashes else "-"


def series_style(look: Look, i: int) -> dict[str, Any]:
    """Colour and line style of series i, as matplotlib takes them; after SERIES they come again."""
    return {"color": look[f"s{i % SERIES + 1}"], "linestyle": dash_of(i)}


def files(drawing: Drawing) -> dict[str, bytes]:
    """NAME.png and NAME.svg, equal for equal drawings and one matplotlib."""
    css = resources.files(__package__).joinpath("page.css").read_text(encoding="utf-8")
    light = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", css[css.index(":root {") : css.index("}")]))
    out = {}
    with settings(light, "path"):
        figure = _figure(drawing, light)
        options: dict[str, Any] = {"png": {"dpi": 170, "metadata": {"Software": None}}}
        options["svg"] = {"metadata": {"Date": None}}
        for kind, more in options.items():
            buffer = io.BytesIO()
            figure.savefig(buffer, format=kind, facecolor="white", **more)
            out[f"{drawing.name}.{kind}"] = buffer.getvalue()
    return out


def inline(drawing: Drawing, uid: str) -> str:
    """The drawing as SVG markup in the page's colours."""
    with settings(INKS, "none"):
        return as_markup(_figure(drawing, INKS), uid, f"{drawing.title}. {drawing.caption}")


def _figure(drawing: Drawing, look: Look) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=drawing.size, layout="constrained")
    figure.patch.set_visible(False)
    engine: Any = figure.get_layout_engine()
    engine.set(w_pad=0.05, h_pad=0.05, wspace=0.04, hspace=0.06)
    drawing.paint(figure, look)
    engine.execute(figure)
    figure.set_layout_engine("none")  # found once: it is most of the work of drawing
    figure.patch.set_visible(True)
    figure.patch.set_alpha(0.0)
    return figure
