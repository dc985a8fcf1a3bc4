"""The charts of an audit's page as SVG markup (`report.figures`), and its small drawings for cells and legends.

Names given by people never enter a drawing: they stand in the page's legends and tables as escaped text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fairbound.report.figures import DASHES, INKS, as_markup, series_style, settings
from fairbound.report.words import MEASURES, at_least

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(paint: Callable[[Axes], None], uid: str, alt: str, width: float, height: float) -> str:
    """What `paint` puts on the axes as markup of the page, `width` x `height` inches."""
    with settings(INKS, "none"):
        from matplotlib.figure import Figure

        figure = Figure(figsize=(width, height))
        figure.patch.set_visible(False)
        axes = figure.add_axes((0.125, 0.235, 0.855, 0.745))
        axes.patch.set_visible(False)
        axes.tick_params(labelsize=9, pad=4)
        axes.grid(axis="y")
        paint(axes)
        return as_markup(figure, uid, alt)


def swatch(i: int | None) -> str:
    """The legend mark of series ``i`` (0 to 5), or of a bound (None): a short line in its colour and dash."""
    color, dash = ("bound", "4 2") if i is None else (f"s{i + 1}", DASHES[i])
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        '<svg class="swatch" viewBox="0 0 28 10" aria-hidden="true">'
        f'<path d="M1 5H27" fill="none" stroke="var(--{color})" stroke-width="2.4"{dashed}/></svg>'
    )


def price(made: dict[str, Any], uid: str, alt: str) -> str:
    """Accuracy (what the certificate calls `measure`) over the measured value: the models tested, each with its
    interval to the side that decides, the one returned filled, the unconstrained one a square, and the bound.

    made: the certificate of one bound, whose values are known.
    """
    limit, tested, measure = made["bound"], made["candidates"], made.get("measure", "accuracy")
    unit = 100 if measure == "accuracy" else 1
    taken = max((i for i, one in enumerate(tested) if one["verdict"] == "met"), default=0)

    def paint(axes: Axes) -> None:
        axes.axvline(limit, color=INKS["bound"], linewidth=1.5, linestyle=(0, (4, 2)))
        for i, one in enumerate(tested):
            color = INKS["s3" if one["verdict"] == "met" else "s2"]
            axes.plot([one["values"][0], one["uppers"][0]], [unit * one[measure]] * 2, color=color, linewidth=2)
            fill = color if i == taken else "none"
            axes.plot(
                one["values"][0], unit * one[measure], "o", markersize=8, markeredgecolor=color, markerfacecolor=fill
            )
        free = made["unconstrained"]
        axes.plot(free["values"][0], unit * free[measure], "s", markersize=8, color=INKS["s1"])
        axes.set_xlabel("measured value, and the end of its confidence interval")
        axes.set_ylabel("accuracy, %" if unit == 100 else MEASURES[measure])
        axes.margins(y=0.2)
        axes.locator_params(axis="x", nbins=6)

    return draw(paint, uid, alt, 4.6, 2.3)


def interval(constraint: dict[str, Any], uid: str, alt: str) -> str:
    """The measured value, its interval and the bound on one line; the region beyond the bound is shaded.

    constraint: ``bound``, its ``sense`` and the possibly null ``value``, ``lower``, ``upper``, in metric units.
    """
    limit = constraint["bound"]
    known = [x for x in (constraint["lower"], constraint["value"], constraint["upper"]) if x is not None]
    near = min(limit, *known) if at_least(constraint) else 0.0
    low = min(near, limit, *known)
    high = max(near, limit, *known)
    room = (high - low) or 1.0
    low, high = (low - 0.08 * room if low < 0 else low), high + 0.12 * room
    if at_least(constraint):
        low, high = max(0.0, low - 0.25 * room), min(max(1.0, limit, *known), high)
    ink = INKS[{"met": "s3", "violated": "s2", "insufficient": "s5"}[constraint["verdict"]]]

    def paint(axes: Axes) -> None:
        axes.set_position((0.03, 0.30, 0.94, 0.46))
        axes.grid(False)
        axes.set(xlim=(low, high), ylim=(-1, 1), yticks=[])
        axes.locator_params(axis="x", nbins=6)
        axes.tick_params(axis="x", length=3)
        axes.axvspan(*((low, limit) if at_least(constraint) else (limit, high)), facecolor=INKS["beyond"], linewidth=0)
        axes.axvline(limit, color=INKS["bound"], linewidth=1.4, linestyle=(0, (4, 2)))
        side = "right" if limit > low + 0.7 * (high - low) else "left" if limit < low + 0.3 * (high - low) else "center"
        axes.text(limit, 1.25, f"bound {limit:.10g}", ha=side, va="bottom", color=INKS["bound"], fontsize=9)
        if len(known) > 1:
            axes.plot([min(known), max(known)], [0, 0], color=ink, linewidth=3, solid_capstyle="butt")
        for end in (constraint["lower"], constraint["upper"]):
            if end is not None:
                axes.plot([end, end], [-0.32, 0.32], color=ink, linewidth=1.6)
        if constraint["value"] is not None:
            axes.plot([constraint["value"]], [0], "o", color=ink, markersize=7, markeredgewidth=0, clip_on=False)

    return draw(paint, uid, alt, 4.6, 0.95)


def glyph(value: float | None, lower: float | None, upper: float | None, scale: tuple[float, float], limit=None) -> str:
    """A mark for a table cell: a dot on a common ``scale`` (low, high), with its interval and a bound if known."""
    low, high = scale

    def x(v: float) -> str:
        return f"{4 + 112 * (min(max(v, low), high) - low) / ((high - low) or 1.0):.1f}"

    parts = ['<path class="g-axis" d="M4 6H116"/>']
    if limit is not None:
        parts.append(f'<path class="g-bound" d="M{x(limit)} 0V12"/>')
    if lower is not None and upper is not None:
        parts.append(f'<path class="g-range" d="M{x(lower)} 6H{x(upper)}"/>')
    if value is not None:
        parts.append(f'<circle class="g-dot" cx="{x(value)}" cy="6" r="4.2"/>')
    return f'<svg class="glyph" viewBox="0 0 120 12" aria-hidden="true">{"".join(parts)}</svg>'


def histogram(
    edges: Sequence[float], counts: Sequence[Sequence[int]], threshold: float | None, uid: str, alt: str
) -> str:
    """Overlaid step histograms, each a share of its own group.

    edges: (b + 1,) increasing. counts: up to 6 sequences of b counts, each with a positive sum.
    """

    def paint(axes: Axes) -> None:
        for i, row in reversed(list(enumerate(counts))):
            share = 100 * np.asarray(row, dtype=float) / sum(row)
            style = series_style(INKS, i)
            axes.stairs(share, edges, fill=True, color=style["color"], alpha=0.10, linewidth=0)
            axes.stairs(share, edges, linewidth=1.7, **style)
        axes.set_position((0.125, 0.185, 0.855, 0.8))
        axes.set_xlim(edges[0], edges[-1])
        axes.set_ylim(0, None)
        axes.yaxis.set_major_formatter(lambda v, _: f"{v:g} %")
        axes.locator_params(axis="y", nbins=5)
        axes.locator_params(axis="x", nbins=7)
        axes.set_xlabel("score", labelpad=3)
        if threshold is not None and edges[0] < threshold < edges[-1]:
            axes.axvline(threshold, color=INKS["bound"], linewidth=1.2, linestyle=(0, (4, 2)))

    return draw(paint, uid, alt, 4.6, 2.5)


def lines(
    steps: Sequence[int],
    seconds: Sequence[float | None],
    series: Sequence[Sequence[float | None]],
    limit: float | None,
    uid: str,
    alt: str,
    across: str = "steps",
) -> str:
    """Up to 6 series over the steps, a null as a gap, and their common bound, if any, as a dashed line.

    steps: (t,) increasing. seconds: (t,) shown under the step ticks where known. series: each (t,). across: what steps
    are.
    """
    t = np.asarray(steps, dtype=float)
    clock = np.array([np.nan if s is None else s for s in seconds], dtype=float)

    def paint(axes: Axes) -> None:
        marker = "o" if len(t) < 3 else None
        for i, row in enumerate(series):
            y = np.array([np.nan if v is None else v for v in row], dtype=float)
            axes.plot(t, y, linewidth=1.6, marker=marker, markersize=3, **series_style(INKS, i))
        if limit is not None:
            axes.axhline(limit, color=INKS["bound"], linewidth=1.2, linestyle=(0, (4, 2)))
        drawn = [v for row in series for v in row if v is not None] + ([] if limit is None else [limit])
        if drawn and 0 <= min(drawn) <= 0.4 * max(drawn):
            axes.set_ylim(0, 1.06 * max(drawn) or 1.0)
        first, last = (t[0], t[-1]) if len(t) else (0.0, 1.0)
        axes.set_xlim(first, last if last > first else first + 1)
        axes.locator_params(axis="y", nbins=5)
        ticks = _nice_ticks(first, last)
        axes.set_xticks(ticks, [f"{v:,.0f}" for v in ticks])
        known = np.isfinite(clock)
        if not known.any():
            axes.set_xlabel(across, labelpad=3)
            return
        axes.set_xlabel("steps, and seconds of training", labelpad=15)
        for v in ticks:
            label = f"{np.interp(v, t[known], clock[known]):.3g} s"
            at: dict[str, Any] = {"transform": axes.get_xaxis_transform(), "ha": "center", "va": "top"}
            axes.text(v, -0.14, label, fontsize=8, color=INKS["muted"], **at)

    return draw(paint, uid, alt, 4.6, 2.5)


def _nice_ticks(first: float, last: float) -> list[float]:
    from matplotlib.ticker import MaxNLocator

    if not last > first:
        return [first]
    ticks = MaxNLocator(nbins=4, integer=True).tick_values(first, last)
    return [float(v) for v in ticks if first <= v <= last]
