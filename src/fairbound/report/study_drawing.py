"""What the figures of all studies share: PNG and SVG files in light colours, markup for the page, colours by method.

Every figure is a `paint(figure, look)` on an empty matplotlib figure. A look names colours: real ones for files, and
stand-ins that `plots` turns into CSS variables for the page, so that one drawing serves light and dark.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np

from . import plots
from .markup import _UNSAFE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ORDER = ("muted", "s5", "s4", "s6", "s3", "s2", "s1", "ink", "s5", "s4", "s1", "s6")  # a colour twice has another dash
MARKS = "osD^vPX*<>hp"


@dataclass(frozen=True)
class Look:
    """colors: names of the page's palette -> colours matplotlib can draw."""

    colors: Mapping[str, str]

    def __getitem__(self, name: str) -> str:
        return self.colors[name]


Paint = Callable[["Figure", Look], None]


@dataclass(frozen=True)
class Drawing:
    """name: of the files, without ending. title, caption: plain text. size: inches. paint: draws it."""

    name: str
    title: str
    caption: str
    size: tuple[float, float]
    paint: Paint


def light() -> Look:
    """The page's light colours."""
    css = resources.files(__package__).joinpath("page.css").read_text(encoding="utf-8")
    root = css[css.index(":root {") : css.index("}")]
    return Look(dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", root)))


def files(drawing: Drawing) -> dict[str, bytes]:
    """NAME.png and NAME.svg, equal for equal drawings and one matplotlib."""
    look, out = light(), {}
    with _settings(look, "path"):
        figure = _figure(drawing, look)
        options: dict[str, Any] = {"png": {"dpi": 170, "metadata": {"Software": None}}}
        options["svg"] = {"metadata": {"Date": None}}
        for kind, more in options.items():
            buffer = io.BytesIO()
            figure.savefig(buffer, format=kind, facecolor="white", **more)
            out[f"{drawing.name}.{kind}"] = buffer.getvalue()
    return out


def inline(drawing: Drawing, uid: str) -> str:
    """The drawing as SVG markup in the page's colours."""
    look = Look(plots._BY_NAME)
    with _settings(look, "none"):
        return plots._svg(_figure(drawing, look), uid, f"{drawing.title}. {drawing.caption}")


def _settings(look: Look, fonttype: str) -> Any:
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError("a study's figures need matplotlib: pip install 'fairbound[report]'") from error
    muted = look["muted"]
    return matplotlib.rc_context({
        **plots._SETTINGS, "svg.fonttype": fonttype, "text.color": look["ink"], "axes.labelcolor": muted,
        "xtick.color": muted, "ytick.color": muted, "axes.edgecolor": muted, "grid.color": look["line"],
        "grid.linewidth": 0.6, "axes.spines.top": False, "axes.spines.right": False, "axes.spines.left": False,
        "axes.axisbelow": True, "axes.facecolor": "none", "xtick.major.size": 0, "ytick.major.size": 0,
        "xtick.minor.size": 0, "ytick.minor.size": 0, "axes.titlesize": 9.5, "axes.titleweight": "bold",
        "axes.titlecolor": look["ink"], "axes.labelsize": 9, "xtick.labelsize": 8, "ytick.labelsize": 8,
    })  # fmt: skip


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


def inks(study: dict[str, Any], methods: Sequence[str]) -> dict[str, int]:
    """Place in ORDER of every method: that of the study's first item where it is there (or the method it was tuned
    from), else one that no other method of this figure has."""
    first = study["items"][0]["methods"]
    known = {m: first.index(base) for m in methods if (base := m.removesuffix("-tuned")) in first}
    free = iter([i for i in range(len(ORDER) - 1, -1, -1) if i not in known.values()] + list(range(len(methods))))
    return {m: (known[m] if m in known else next(free)) % len(ORDER) for m in methods}


def clean(name: str) -> str:
    return _UNSAFE.sub("\ufffd", name)


def array(values: list[float | None]) -> np.ndarray:
    return np.array([np.nan if v is None else v for v in values], dtype=float)


def limits(ax: Axes, values: np.ndarray, cut: float) -> None:
    known = values[np.isfinite(values)]
    if len(known):
        low, high = float(known.min()), float(np.percentile(known, cut))
        room = (high - low) or 0.01
        ax.set_ylim(low - 0.08 * room, high + 0.12 * room)


def wrapped(title: str, most: int = 15) -> str:
    """The title on two lines where it is long."""
    if len(title) <= most or " " not in title:
        return title
    cut = min((i for i, c in enumerate(title) if c == " "), key=lambda i: abs(i - len(title) / 2))
    return f"{title[:cut]}\n{title[cut + 1 :]}"


def dash(i: int) -> Any:
    return plots._dash(i % plots.SERIES)


def line(color: str, dash: Any = "-", mark: str = "") -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], color=color, linestyle=dash, linewidth=1.8, marker=mark, markersize=5, markeredgewidth=0)
