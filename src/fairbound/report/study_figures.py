"""The figures of a study, drawn from its saved records and results as its figures are declared
(`studies.spec.FigureSpec`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Any

import numpy as np

from fairbound.base import series
from fairbound.report import study_scores
from fairbound.report.figures import Drawing, Look, Paint, dash_of
from fairbound.report.study_scene import (
    DOTS,
    MARKS,
    ORDER,
    Runs,
    Scene,
    legend,
    legend_size,
    places,
    plain_numbers,
    printed,
    values_of,
    wrapped,
)  # fmt: skip
from fairbound.report.words import clean

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

POINTS = 201
MOST_MARKS = 30


def drawings(study: dict[str, Any], block: dict[str, Any], rows: Sequence[dict], runs: Runs) -> Iterator[Drawing]:
    """The figures of a block of summary.json. rows: of results.json, the block's own; runs: of the whole study."""
    item = next(i for i in study["items"] if i["key"] == block["item"])
    data = {d: clean(study["data"][d]["title"]) for d in block["data"]}
    there = [m for m in item["methods"] if any((d, m) in runs for d in data)]
    methods = {m: clean(study["methods"][m]["title"]) for m in there}
    place = places(study, there)
    ink = {m: study["methods"][m]["color"] or ORDER[place[m]] for m in there}
    outputs = {m: study["methods"][m]["output"] for m in there}
    where = "-".join(clean(part) for part in block["key"].split("/"))
    intervals = {d: study["data"][d]["task"].get("interval", "") for d in data}
    kinds = {
        "curve": _panels, "profile": _panels, "density": _density, "frontier": _frontier, "radar": _radar,
        "scores": study_scores.scores, "shares": study_scores.shares, "bars": study_scores.bars,
    }  # fmt: skip
    for spec in study["figures"]:
        if item["figures"] is not None and spec["key"] not in item["figures"]:
            continue
        spec = spec | {"x": [item["compare"][x.removeprefix("compare.")] if "." in x else x for x in spec["x"]]}
        shown = {m: t for m, t in methods.items() if any(fnmatch(m, p) for p in spec.get("methods") or ("*",))}
        size, paint = kinds[spec["kind"]](Scene(spec, data, shown, runs, rows, outputs, ink, place, intervals))
        yield Drawing(f"{where}-{spec['key']}", spec["title"], spec["caption"], size, paint)


# -- curves and profiles: rows of panels over records ----------------------------------------------------------------


def _panels(scene: Scene) -> tuple[tuple[float, float], Paint]:
    """A panel for each y (downwards) and each of the methods, data sets or x (across); in it a line for each method."""
    scene.check()
    spec, profile = scene.spec, scene.spec["kind"] == "profile"
    first = next(iter(scene.data))
    if profile:
        across = [(x, first, list(scene.methods), "") for x in spec["x"]]
    elif spec["panels"] == "methods":
        across = [(spec["x"][0], first, [m], title) for m, title in scene.methods.items()]
    else:
        across = [(spec["x"][0], d, list(scene.methods), title) for d, title in scene.data.items()]
    keyed = profile or spec["panels"] == "data"
    wide = 3.4 if profile else 2.75 if spec["panels"] == "data" else 1.62
    width = max(5.6, 0.9 + wide * len(across))
    columns, below = legend_size(scene, width)

    def paint(figure: Figure, look: Look) -> None:
        shared: Any = "row" if profile or spec["panels"] == "methods" else False
        axes = figure.subplots(len(spec["y"]), len(across), sharex="col", sharey=shared, squeeze=False)
        for j, (x, data, methods, title) in enumerate(across):
            for i, y in enumerate(spec["y"]):
                for method in methods:
                    _line(axes[i, j], scene, look, (x, y, i), data, method)
                axes[i, j].grid(axis="y")
                _levels(axes[i, j], scene, look, i)
                if j == 0:
                    axes[i, j].set_ylabel(y)
            if profile:
                axes[0, j].set_xscale("log")
                plain_numbers(axes[0, j].xaxis)
            else:
                axes[0, j].locator_params(axis="x", nbins=5)
            axes[0, j].set_title(wrapped(title, 22))
            axes[-1, j].set_xlabel(x)
        if keyed:
            legend(figure, scene, look, list(scene.methods), bool(spec["marks"]), columns=columns)

    return (width, (0.4 + below if keyed else 0.3) + 2.0 * len(spec["y"])), paint


def _line(ax: Axes, scene: Scene, look: Look, of: tuple[str, str, int], data: str, method: str) -> None:
    """One method in one panel: median and quartiles over its runs, or their statistic."""
    (x, y, i), spec, color = of, scene.spec, look[scene.ink[method]]
    runs = scene.of(data, method)
    if not runs:
        return
    at = [series.floats([r[x] for r in run]) for run in runs]
    values = [series.floats([r[y] for r in run]) for run in runs]
    if spec["missing"] == "infinite":
        values = [np.where(np.isnan(v), np.inf, v) for v in values]
    style = dash_of(scene.place[method])
    if spec["kind"] == "profile":
        end = max(a[-1] for a in at)
        start = min((a[1] for a in at if len(a) > 1), default=end / 100)
        grid = np.geomspace(max(start, end / 1e4, 1e-9), max(end, 1e-9), POINTS)
        held = np.array([series.held(a, v, grid) for a, v in zip(at, values, strict=True)])
        over = scene.option("statistic", i, "mean")
        shown = np.nan_to_num(held).mean(0) if over == "mean" else series.band(held)["median"]
        ax.step(grid, shown, where="post", color=color, linewidth=1.6, linestyle=style)
        return
    grid = np.linspace(0.0, float(np.median([a[-1] for a in at])), POINTS)
    held = np.array([series.held(a, v, grid) for a, v in zip(at, values, strict=True)])
    low, high = scene.option("ranges", i, []) or (-np.inf, np.inf)
    band = series.quartiles(held) if spec["missing"] == "infinite" else series.band(held)
    band = {k: np.where(np.isinf(v), np.nan, np.maximum(v, low)) for k, v in band.items()}
    top = np.where(np.isnan(band["q75"]) & ~np.isnan(band["q25"]), min(high, 1e6), band["q75"])
    ax.fill_between(grid, band["q25"], top, color=color, alpha=0.2, linewidth=0, step="post")
    ax.plot(grid, band["median"], color=color, linewidth=1.5, linestyle=style, drawstyle="steps-post")
    if spec["mean"]:
        ax.plot(grid, band["mean"], color=color, linewidth=1.0, linestyle=DOTS)
    if spec["marks"]:
        counts = series.floats([r[spec["marks"]] for r in runs[0]])
        new = np.flatnonzero(np.diff(np.nan_to_num(counts), prepend=0) > 0)
        new = new[:: max(1, -(-len(new) // MOST_MARKS))]
        mark = MARKS[scene.place[method]]
        ax.plot(at[0][new], values[0][new], mark, color=color, markersize=4, markeredgewidth=0, linestyle="")


def _levels(ax: Axes, scene: Scene, look: Look, i: int) -> None:
    """The scale, the range and the levels of row i of a figure."""
    lines, scale = scene.option("lines", i, ()), scene.option("scales", i, "linear")
    drawn = np.concatenate([np.asarray(line.get_ydata(), dtype=float) for line in ax.get_lines()] or [np.empty(0)])
    drawn = drawn[np.isfinite(drawn)]
    for level in lines:
        ax.axhline(level, color=look["bound"], linewidth=0.9, linestyle=DOTS)
    if scale == "log":
        ax.set_yscale("log")
        plain_numbers(ax.yaxis)
    elif scale == "symlog":
        sizes = np.abs(drawn[drawn != 0])
        near = 2 * max((abs(v) for v in lines), default=0.0)
        if not near and len(sizes) and sizes.max() > 30 * np.median(sizes):
            near = float(np.median(sizes))
        if near:
            ax.set_yscale("symlog", linthresh=near, linscale=0.8)
            plain_numbers(ax.yaxis)
    if limits := scene.option("ranges", i, []):
        low, high = limits
        room = 0.05 * (high - low) if scale == "linear" else 0.0
        ax.set_ylim(max(low, min([*lines, *drawn], default=low) - room), high)


# -- what is drawn from the returned models and from results.json ------------------------------------------------------


def _density(scene: Scene) -> tuple[tuple[float, float], Paint]:
    """Histograms of the reported models, mean share of runs, a panel for each method and an outline for each column."""
    pattern, data = scene.spec["y"][0], next(iter(scene.data))
    start = pattern.partition("*")[0]

    def paint(figure: Figure, look: Look) -> None:
        axes = figure.subplots(1, len(scene.methods), sharex=True, sharey=True, squeeze=False)[0]
        styles, names, tops = (("s1", "-"), ("s2", (0, (4, 1.4))), ("s3", DOTS)), [], []
        for ax, (method, title) in zip(axes, scene.methods.items(), strict=True):
            rows = [r for run in scene.runs[data, method].values() for r in run if r["output"] == scene.outputs[method]]
            names = [c for c in rows[0] if fnmatch(c, pattern)]
            for name, (color, style) in zip(names, styles, strict=False):
                share = np.mean([np.array(r[name]) / sum(r[name]) for r in rows], axis=0)
                edges = np.linspace(0, 1, len(share) + 1)
                tops.append(float(np.sort(share)[-2]))
                ax.stairs(100 * share, edges, fill=True, color=look[color], alpha=0.16, linewidth=0)
                ax.stairs(100 * share, edges, color=look[color], linewidth=1.3, linestyle=style)
            ax.set_title(wrapped(title))
            ax.set_xlim(0, 1)
            ax.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
            ax.grid(axis="y")
        axes[0].set_ylim(0, 115 * max(np.median(tops), 0.5 * max(tops)))
        axes[0].yaxis.set_major_formatter(lambda v, _: f"{v:g} %")
        handles = [ax.stairs([0], [0, 1], color=look[c], linestyle=s) for c, s in styles[: len(names)]]
        words = [clean(name.removeprefix(start)) for name in names]
        figure.legend(handles, words, loc="outside lower center", ncols=len(words), frameon=False, fontsize=9)

    return (max(5.0, 0.8 + 1.62 * len(scene.methods)), 2.3), paint


def _frontier(scene: Scene) -> tuple[tuple[float, float], Paint]:
    """Means with their bars: y over each x; hollow, what the paper prints, where it prints both."""
    width = max(5.0, 4.7 * len(scene.spec["x"]))
    columns, below = legend_size(scene, width)

    def paint(figure: Figure, look: Look) -> None:
        axes = figure.subplots(1, len(scene.spec["x"]), sharey=True, squeeze=False)[0]
        ys = values_of(scene, scene.spec["y"][0])
        for ax, name in zip(axes, scene.spec["x"], strict=True):
            xs = values_of(scene, name)
            for m in (m for m in scene.methods if m in xs and m in ys):
                (x, dx), (y, dy) = xs[m], ys[m]
                ax.errorbar(
                    [x], [y], xerr=[dx], yerr=[dy], color=look[scene.ink[m]], fmt=MARKS[scene.place[m]],
                    markersize=7.5, markeredgewidth=0, elinewidth=1.0,
                )  # fmt: skip
            there, beside = printed(scene, name), printed(scene, scene.spec["y"][0])
            for m in (m for m in scene.methods if m in there and m in beside):
                mark, color = MARKS[scene.place[m]], look[scene.ink[m]]
                ax.plot([there[m]], [beside[m]], mark, markersize=7.5, markerfacecolor="none", markeredgecolor=color)
            ax.set_xlabel(name)
            ax.grid()
            ax.locator_params(nbins=6)
        axes[0].set_ylabel(scene.spec["y"][0])
        legend(figure, scene, look, list(scene.methods), True, dashed=False, columns=columns)

    return (width, 3.8 + below), paint


def _radar(scene: Scene) -> tuple[tuple[float, float], Paint]:
    """Means of the columns "x y" on axes y, a panel for each x."""
    xs, ys = scene.spec["x"], scene.spec["y"]

    def paint(figure: Figure, look: Look) -> None:
        axes = figure.subplots(1, len(xs), subplot_kw={"projection": "polar"}, squeeze=False)[0]
        angles = np.linspace(0, 2 * np.pi, len(ys), endpoint=False)
        top = 0.0
        for ax, x in zip(axes, xs, strict=True):
            ax.set_theta_offset(np.pi / 2)
            for m in scene.methods:
                means = np.array([values_of(scene, f"{x} {y}").get(m, (np.nan, 0.0))[0] for y in ys])
                top = max(top, float(np.nanmax(means, initial=0.0)))
                ax.plot(
                    np.append(angles, angles[0]), np.append(means, means[0]), color=look[scene.ink[m]], linewidth=1.6,
                    marker=MARKS[scene.place[m]], markersize=4.5, markeredgewidth=0,
                )  # fmt: skip
            ax.set_xticks(angles, ys, fontsize=10, color=look["ink"])
            ax.text(-0.06, 1.02, f"{x} rows", transform=ax.transAxes, fontsize=9.5, fontweight="bold")
            ax.spines["polar"].set_color(look["line"])
        every = next((step for step in (0.02, 0.05, 0.1, 0.2, 0.5, 1.0) if top <= 4 * step), top / 4)
        rings = every * np.arange(1, max(2, np.ceil(top / every) + 1))
        for ax in axes:
            ax.set_ylim(0, rings[-1])
            ax.set_yticks(rings, [f"{r:g}" for r in rings])
            ax.set_rlabel_position(45)
        legend(figure, scene, look, list(scene.methods), True)

    return (4.2 * len(xs), 4.7), paint
