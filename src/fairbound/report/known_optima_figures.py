"""The figures of a study of optima: instances side by side, gap above and worst constraint below, as LNSY20's 1 to 3."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .study_drawing import MARKS, ORDER, Drawing, Look, Paint, array, clean, dash, line, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

UNITS = {"passes": "equivalent data passes", "steps": "iterations"}
MOST_MARKS = 30
ROOM = 1.25  # the gap's axis ends at this many times the gap of the start
FLOOR = 1e-4  # smaller relative gaps are drawn here


def drawings(study: dict[str, Any], block: dict[str, Any], rows: Sequence[dict[str, Any]]) -> Iterator[Drawing]:
    """Two figures of an item: the methods' paths, and the lowest gap among feasible iterates so far."""
    there = {m for its in block["instances"].values() for m in its["methods"]}
    places = {m: i for i, m in enumerate(dict.fromkeys([study["subject"], *study["methods"]]))}
    titles = {m: clean(study["methods"][m]["title"]) for m in places if m in there}
    names = {key: clean(study["data"][key]["title"]) for key in block["instances"]}
    n = len(names)
    yield Drawing(
        f"{block['item']}-paths", "Gap and worst constraint along the way",
        "Above f(x) - f*, on the right relative to the start; below the largest g_i(x), feasible at or below the dotted "
        f"line. The method's current point, median and quartiles over runs. Marks: outer iterates of the first run (at most "
        f"{MOST_MARKS} shown).",
        (max(5.6, 0.9 + 2.75 * n), 5.0), _paths(block, titles, names, places),
    )  # fmt: skip
    yield Drawing(
        f"{block['item']}-feasible", "Lowest gap of a feasible iterate so far",
        "Relative to the gap of the start; median and quartiles over runs, no line while half of the runs have none. Of "
        f"methods with outer iterates only these count. Below {FLOOR:g} it is drawn at {FLOOR:g}.",
        (max(5.6, 0.9 + 2.75 * n), 3.2), _feasible(block, titles, names, places),
    )  # fmt: skip


def _paths(block: dict, titles: Mapping[str, str], names: Mapping[str, str], places: Mapping[str, int]) -> Paint:
    def paint(figure: Figure, look: Look) -> None:
        axes = figure.subplots(2, len(names), sharex="col", squeeze=False)
        for j, (key, name) in enumerate(names.items()):
            its = block["instances"][key]
            for method in (m for m in titles if m in its["methods"]):
                told, color = its["methods"][method], look[_color(places[method])]
                every = max(1, -(-len(told["outer"]["at"]) // MOST_MARKS))
                for ax, kind in ((axes[0, j], "gap"), (axes[1, j], "worst")):
                    _band(ax, told["grid"], told[kind], color, dash(places[method]))
                    ax.plot(
                        told["outer"]["at"][::every], told["outer"][kind][::every], MARKS[places[method]], color=color,
                        markersize=4, markeredgewidth=0, linestyle="",
                    )  # fmt: skip
            top, scale = axes[0, j], its["scale"]
            top.set_title(wrapped(name, 22))
            low = min([0.0, *(_lowest(t["gap"]["q25"]) for t in its["methods"].values())])
            top.set_ylim(max(low - 0.05 * scale, -ROOM * scale), ROOM * scale)
            beside = top.secondary_yaxis("right", functions=(lambda v, s=scale: v / s, lambda v, s=scale: v * s))
            beside.spines["right"].set_visible(False)
            beside.tick_params(labelsize=8, length=0)
            _around_zero(axes[1, j], [t["worst"] for t in its["methods"].values()])
            for ax in (top, axes[1, j]):
                ax.axhline(0.0, color=look["bound"], linewidth=0.9, linestyle=(0, (1, 1.6)))
                ax.grid(axis="y")
                ax.set_xlim(0, its["end"] or 1)
                ax.locator_params(axis="x", nbins=5)
            axes[1, j].set_xlabel(UNITS[block["axis"]])
        axes[0, 0].set_ylabel("f(x) - f*")
        axes[1, 0].set_ylabel("largest g(x)")
        _legend(figure, look, titles, places, MARKS)

    return paint


def _feasible(block: dict, titles: Mapping[str, str], names: Mapping[str, str], places: Mapping[str, int]) -> Paint:
    def paint(figure: Figure, look: Look) -> None:
        axes = figure.subplots(1, len(names), squeeze=False)[0]
        for ax, (key, name) in zip(axes, names.items(), strict=True):
            its = block["instances"][key]
            drawn = [0.1]
            for method in (m for m in titles if m in its["methods"]):
                told = its["methods"][method]
                best = {k: [None if v is None else max(v, FLOOR) for v in values] for k, values in told["best"].items()}
                drawn += [v for v in best["q25"] if v]
                _band(ax, told["grid"], best, look[_color(places[method])], dash(places[method]))
            ax.set_yscale("log")
            ax.set_ylim(0.7 * min(drawn), ROOM)
            ax.yaxis.set_major_formatter(lambda v, _: f"{v:g}")
            ax.yaxis.set_minor_formatter(lambda v, _: "")
            ax.set_title(wrapped(name, 22))
            ax.grid(axis="y")
            ax.set_xlim(0, its["end"] or 1)
            ax.locator_params(axis="x", nbins=5)
            ax.set_xlabel(UNITS[block["axis"]])
        axes[0].set_ylabel("relative gap")
        _legend(figure, look, titles, places, ())

    return paint


def _band(ax: Axes, grid: list[float], values: dict[str, list[float | None]], color: str, style: Any) -> None:
    low, middle, high = (array(values[k]) for k in ("q25", "median", "q75"))
    known = np.isfinite(low)
    high = np.where(known & ~np.isfinite(high), 1e6, high)  # half of the runs may have none yet: beyond the axis
    ax.fill_between(grid, low, high, where=known, color=color, alpha=0.18, linewidth=0, step="post")
    ax.plot(grid, middle, color=color, linewidth=1.5, linestyle=style, drawstyle="steps-post")


def _color(place: int) -> str:
    """Name of the colour of a method: ink for the study's subject, which has place 0."""
    return ORDER[7 - place % 8]


def _lowest(values: list[float | None]) -> float:
    return min((v for v in values if v is not None), default=0.0)


def _around_zero(ax: Axes, bands: list[dict[str, list[float | None]]]) -> None:
    """Limits that hold every quartile, on an axis that is logarithmic away from zero where they differ much in size."""
    ends = np.concatenate([array(b[q]) for b in bands for q in ("q25", "q75")])
    sizes = np.abs(ends[np.isfinite(ends) & (ends != 0)])
    if len(sizes) and sizes.max() > 30 * np.median(sizes):
        ax.set_yscale("symlog", linthresh=float(np.median(sizes)))


def _legend(
    figure: Figure, look: Look, titles: Mapping[str, str], places: Mapping[str, int], marks: Sequence[str]
) -> None:
    handles = [line(look[_color(i)], dash(i), marks[i] if marks else "") for i in (places[m] for m in titles)]
    figure.legend(handles, titles.values(), loc="outside lower center", ncols=min(4, len(titles)), frameon=False)
