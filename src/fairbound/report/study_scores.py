"""Figures of groups' scores: their densities, the shares above every threshold, the disparity at every percentile; and
bars of results over data sets.

Drawn from columns of lists in the rows of the returned models: PREFIX and a group's name -> its scores from the highest
to the lowest, at equally spaced percentiles from 0 to 100 %. The interval is that of the data set's task, as a bound
writes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from fairbound.report.figures import Look, Paint, dash_of, series_style
from fairbound.report.study_scene import Scene, legend, values_of, wrapped

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ACROSS = 4
BINS = 60
ZERO = "decisions are positive above 0"
Curves = Mapping[str, np.ndarray]


def scores(scene: Scene) -> tuple[tuple[float, float], Paint]:
    """A panel for each method: an outline of each group's density of scores, filled where its percentiles lie in the
    interval, and a line at 0, above which decisions are positive."""
    panels = list(_curves(scene))
    down = -(-len(panels) // ACROSS)

    def paint(figure: Figure, look: Look) -> None:
        axes = figure.subplots(down, min(ACROSS, len(panels)), squeeze=False).ravel()
        for ax, (method, curves) in zip(axes, panels, strict=False):
            low, high = (pick(float(c[at]) for c in curves.values()) for pick, at in ((min, -2), (max, 1)))
            edges = np.linspace(low, high, BINS + 1) if high > low else np.linspace(low - 0.5, high + 0.5, BINS + 1)
            for i, curve in enumerate(curves.values()):
                density = density_of(curve, edges)
                middle = (edges[1:] + edges[:-1]) / 2
                style = series_style(look, i)
                ax.plot(middle, density, linewidth=1.4, **style)
                inside = np.zeros(len(middle), dtype=bool)
                rank = np.interp(-middle, -curve, np.linspace(0, 1, len(curve)))
                for a, b in _interval(scene):
                    inside |= (rank >= a) & (rank <= b)
                ax.fill_between(middle, density, where=inside, color=style["color"], alpha=0.35, linewidth=0)
            if low < 0 < high:
                ax.axvline(0, color=look["ink"], linewidth=0.8, linestyle=":")
            ax.set_title(wrapped(scene.methods[method], 22))
            ax.set_yticks([])
        for ax in axes[len(panels) :]:
            ax.set_visible(False)
        names = list(panels[0][1]) if panels else []
        handles = [axes[0].plot([], [], **series_style(look, i))[0] for i in range(len(names))]
        handles += axes[0].plot([], [], color=look["ink"], linewidth=0.8, linestyle=":")
        names.append(ZERO)
        figure.legend(handles, names, loc="outside lower center", ncols=max(1, len(names)), frameon=False)

    return (max(5.0, 0.4 + 2.3 * min(ACROSS, len(panels))), 0.5 + 1.8 * max(down, 1)), paint


def shares(scene: Scene) -> tuple[tuple[float, float], Paint]:
    """Left: the share of the last group above a threshold over that of the first, a line for each method. Right: the
    disparity at every percentile, the largest difference of two groups' shares above
    the score that one of them has there."""

    def paint(figure: Figure, look: Look) -> None:
        left, right = figure.subplots(1, 2)
        for method, curves in _curves(scene):
            dash = dash_of(scene.place[method])
            style: Any = {"color": look[scene.ink[method]], "linewidth": 1.5, "linestyle": dash}
            names = list(curves)
            thresholds = np.sort(np.concatenate(list(curves.values())))
            first, last = (above(curves[name], thresholds) for name in (names[0], names[-1]))
            left.plot(100 * first, 100 * last, **style)
            left.set_xlabel(f"share of {names[0]} above, in %")
            left.set_ylabel(f"share of {names[-1]} above, in %")
            right.plot(np.linspace(0, 100, len(curves[names[0]])), disparity(curves), **style)
        left.plot([0, 100], [0, 100], color=look["line"], linewidth=1.0, zorder=0)
        right.set_xlabel("percentile in the own group, in %")
        right.set_ylabel("disparity")
        right.set_ylim(0, None)
        for a, b in _interval(scene):
            for ax in (left, right):
                ax.axvspan(100 * a, 100 * b, facecolor=look["line"], alpha=0.5, linewidth=0, zorder=0)
            left.axhspan(100 * a, 100 * b, facecolor=look["line"], alpha=0.5, linewidth=0, zorder=0)
        legend(figure, scene, look, list(scene.methods), False, columns=3)

    return (8.4, 4.0 + 0.2 * -(-len(scene.methods) // 3)), paint


def bars(scene: Scene) -> tuple[tuple[float, float], Paint]:
    """Mirrored bars of two results x, a group of bars for each data set and in it one for each method."""
    left, right = scene.spec["x"]
    height = 0.8 / max(1, len(scene.methods))

    def paint(figure: Figure, look: Look) -> None:
        axes = figure.subplots(1, 2, sharey=True)
        for ax, column in zip(axes, (left, right), strict=True):
            for j, data in enumerate(scene.data):
                found = values_of(scene, column, data)
                for i, method in enumerate(m for m in scene.methods if m in found):
                    value, spread = found[method]
                    ax.barh(
                        [-(j + height * i)], [value], height=0.9 * height, color=look[scene.ink[method]], xerr=[spread],
                        ecolor=look["ink"], error_kw={"elinewidth": 0.8},
                    )  # fmt: skip
            ax.set_xlabel(column)
            ax.grid(axis="x")
        axes[0].invert_xaxis()
        axes[0].set_yticks([-(j + 0.4) for j in range(len(scene.data))], list(scene.data.values()))
        legend(figure, scene, look, list(scene.methods), True, dashed=False, columns=2)

    rows = len(scene.data) * len(scene.methods)
    return (8.4, 1.4 + 0.16 * rows + 0.2 * -(-len(scene.methods) // 2)), paint


def density_of(curve: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """(bins,) density between `edges` of the distribution whose percentiles, from the top, are `curve`;
    ties in a curve are steps."""
    share = -np.diff(above(curve, edges))
    kernel = np.array([1.0, 2.0, 3.0, 2.0, 1.0]) / 9
    return np.convolve(share / np.diff(edges), kernel, mode="same")


def above(curve: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """The share above each threshold, between 0 and 1."""
    return np.interp(-thresholds, -curve, np.linspace(0, 1, len(curve)), left=0.0, right=1.0)


def disparity(curves: Curves) -> np.ndarray:
    """At every percentile the largest difference of two groups' shares above the score that one of them has there."""
    made = [[above(other, one) for other in curves.values()] for one in curves.values()]
    return np.ptp(np.array(made), axis=1).max(axis=0)


def _curves(scene: Scene) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """Of each method with runs on the first data set: group -> its scores by percentile,
    of the reported model of the first run."""
    data, prefix = next(iter(scene.data)), scene.spec["y"][0]
    for method in scene.methods:
        runs = scene.runs.get((data, method), {})
        rows = [r for r in runs[min(runs)] if r["output"] == scene.outputs[method]] if runs else []
        found = {c.removeprefix(prefix): np.asarray(v) for r in rows for c, v in r.items() if c.startswith(prefix)}
        if found:
            yield method, found


def _interval(scene: Scene) -> list[tuple[float, float]]:
    """The parts of the interval of the first data set."""
    ends = [part.split(":") for part in scene.intervals[next(iter(scene.data))].split("+") if part]
    return [(float(a), float(b)) for a, b in ends]
