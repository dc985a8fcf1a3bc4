"""The figures of a study of models: loss and gap over time, densities, spider, data profiles, trade-off."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .study_drawing import MARKS, ORDER, Drawing, Look, Paint, array, clean, dash, inks, limits, line, wrapped

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METRICS = ("Ind", "Sp", "Ina", "Sf")
AXES = {"seconds": "seconds of training", "samples": "rows used", "calls": "oracle calls"}


def drawings(study: dict[str, Any], block: dict[str, Any], rows: Sequence[dict[str, Any]]) -> Iterator[Drawing]:
    """The figures of one item on one data set, as its item asks.

    block: of summary.json. rows: its rows of results.json.
    """
    columns: dict[str, dict[str, tuple]] = {method: {} for method in block["methods"]}
    for row in rows:
        columns[row["row"]][row["column"]] = (row["ours"], row["std"])
    item = next(i for i in study["items"] if i["key"] == block["item"])
    where = f"{block['item']}-{block['data']}"
    titles = {m: clean(study["methods"][m]["title"]) for m in block["methods"]}
    shown, bound = item["figures"], study["bound"]
    reference, protected = (clean(g) for g in study["data"][block["data"]]["groups"])
    n, colors = len(titles), inks(study, tuple(titles))
    if "curves" in shown:
        for part, words in (("train", "training"), ("test", "test")):
            yield Drawing(
                f"{where}-{part}", f"Loss and gap on {words} rows over time",
                f"Above the loss, below the gap ({protected} minus {reference}); mean (solid), median (dashed) and "
                f"quartiles (band) over runs; dotted: the bound ±{bound:g}. The gap's axis is logarithmic beyond "
                f"±{2 * bound:g}.",
                (max(5.0, 0.8 + 1.62 * n), 4.1), _curves(block, titles, colors, part, bound),
            )  # fmt: skip
    if "densities" in shown:
        yield Drawing(
            f"{where}-densities", "Predictions by group on test rows",
            f"Share of each group's rows per predicted probability (50 bins, mean of runs): {reference}, {protected}.",
            (max(5.0, 0.8 + 1.62 * n), 2.3), _densities(block, titles, (reference, protected)),
        )  # fmt: skip
    if "spider" in shown:
        yield Drawing(
            f"{where}-spider", "Independence, separation, inaccuracy and sufficiency",
            "Means over runs; smaller is better on every axis.", (8.4, 4.7), _spider(columns, titles, colors),
        )  # fmt: skip
    if "profiles" in shown:
        yield Drawing(
            f"{where}-profiles", "Data profiles: who is within the bound, and at what cost",
            f"Share of runs that have had an iterate within ±{bound:g} on training rows; share of runs whose gaps are "
            "within it in the mean of their last 10 evaluations; and the lowest training loss of an iterate within it "
            "so far (median of the runs that have one).",
            (10.4, 7.4), _profiles(block, titles, colors),
        )  # fmt: skip
    if "tradeoff" in shown:
        yield Drawing(
            f"{where}-tradeoff", "What fairness costs on test rows",
            "Means with one standard deviation; lower left is better on both axes.", (9.4, 4.2),
            _tradeoff(columns, titles, colors),
        )  # fmt: skip


def _curves(block: dict, titles: Mapping[str, str], colors: Mapping[str, int], part: str, bound: float) -> Paint:
    told = {m: block["methods"][m]["curves"] for m in titles}

    def paint(figure: Figure, look: Look) -> None:
        axes = figure.subplots(2, len(titles), sharex="col", sharey="row", squeeze=False)
        for j, (method, title) in enumerate(titles.items()):
            curves, color = told[method], look[ORDER[colors[method]]]
            grid = array(curves["grid"])
            for ax, name in ((axes[0, j], "loss"), (axes[1, j], "gap")):
                one = {k: array(v) for k, v in curves[f"{part} {name}"].items()}
                ax.fill_between(grid, one["q25"], one["q75"], color=color, alpha=0.22, linewidth=0)
                ax.plot(grid, one["mean"], color=color, linewidth=1.5)
                ax.plot(grid, one["median"], color=color, linewidth=1.0, linestyle=(0, (3, 1.6)))
                ax.grid(axis="y")
                ax.set_xlim(0, grid[-1] if grid[-1] > 0 else 1)
                ax.locator_params(axis="x", nbins=4)
            axes[0, j].set_title(wrapped(title))
            for edge in (-bound, bound):
                axes[1, j].axhline(edge, color=look["bound"], linewidth=0.9, linestyle=(0, (1, 1.6)))
            axes[1, j].set_xlabel("seconds")
        losses = [array(c[f"{part} loss"][q])[3:] for c in told.values() for q in ("q25", "q75", "mean")]
        limits(axes[0, 0], np.concatenate(losses), cut=98)
        gaps = np.concatenate([np.abs(array(c[f"{part} gap"][q]))[3:] for c in told.values() for q in ("q25", "q75")])
        top = max(4 * bound, 1.15 * float(np.nanmax(gaps, initial=0.0)))
        if bound > 0:
            axes[1, 0].set_yscale("symlog", linthresh=2 * bound, linscale=0.8)
            ticks = [t for t in (bound, 4 * bound, 20 * bound, 100 * bound) if t < top]
            axes[1, 0].set_yticks([-t for t in reversed(ticks)] + [0.0] + ticks)
            axes[1, 0].set_yticks([], minor=True)
            axes[1, 0].yaxis.set_major_formatter(lambda v, _: f"{v:+g}".replace("-", "−") if v else "0")
        axes[1, 0].set_ylim(-top, top)
        axes[0, 0].set_ylabel(f"{part} loss")
        axes[1, 0].set_ylabel(f"{part} gap")

    return paint


def _densities(block: dict, titles: Mapping[str, str], groups: tuple[str, str]) -> Paint:
    def paint(figure: Figure, look: Look) -> None:
        axes = figure.subplots(1, len(titles), sharex=True, sharey=True, squeeze=False)[0]
        edges, tops = np.linspace(0, 1, 51), []
        for ax, (method, title) in zip(axes, titles.items(), strict=True):
            for (_, share), color, style in zip(
                block["methods"][method]["histograms"]["test"].items(), ("s1", "s2"), ("-", (0, (4, 1.4))), strict=True
            ):
                height = 100 * np.asarray(share)
                tops.append(np.sort(height)[-2])
                ax.stairs(height, edges, fill=True, color=look[color], alpha=0.16, linewidth=0)
                ax.stairs(height, edges, color=look[color], linewidth=1.3, linestyle=style)
            ax.set_title(wrapped(title))
            ax.set_xlim(0, 1)
            ax.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
            ax.grid(axis="y")
            ax.set_xlabel("prediction")
        axes[0].set_ylim(0, 1.15 * max(np.median(tops), 0.5 * max(tops)))
        axes[0].yaxis.set_major_formatter(lambda v, _: f"{v:g} %")
        handles = [line(look[c], d) for c, d in (("s1", "-"), ("s2", (0, (4, 1.4))))]
        figure.legend(handles, groups, loc="outside lower center", ncols=2, frameon=False, fontsize=9)

    return paint


def _spider(columns: Mapping[str, Any], titles: Mapping[str, str], colors: Mapping[str, int]) -> Paint:
    def paint(figure: Figure, look: Look) -> None:
        axes = figure.subplots(1, 2, subplot_kw={"projection": "polar"})
        angles = np.linspace(0, 2 * np.pi, len(METRICS), endpoint=False)
        closed = np.concatenate([angles, angles[:1]])
        top = 0.0
        for ax, part in zip(axes, ("train", "test"), strict=True):
            ax.set_theta_offset(np.pi / 2)
            for method in titles:
                means = array([columns[method].get(f"{part} {name}", (None,))[0] for name in METRICS])
                top = max(top, float(np.nanmax(means, initial=0.0)))
                ax.plot(
                    closed, np.append(means, means[0]), color=look[ORDER[colors[method]]], linewidth=1.6,
                    marker=MARKS[colors[method]], markersize=4.5, markeredgewidth=0,
                )  # fmt: skip
            ax.set_xticks(angles, METRICS, fontsize=10, color=look["ink"])
            words = {"train": "Training rows", "test": "Test rows"}[part]
            ax.text(-0.06, 1.02, words, transform=ax.transAxes, fontsize=9.5, fontweight="bold")
            ax.spines["polar"].set_color(look["line"])
            ax.tick_params(axis="x", pad=5)
            ax.tick_params(axis="y", labelsize=8)
        every = next(step for step in (0.02, 0.05, 0.1, 0.2, 0.5, 1.0) if top <= 4 * step)
        rings = every * np.arange(1, max(2, np.ceil(top / every) + 1))
        for ax in axes:
            ax.set_ylim(0, rings[-1])
            ax.set_yticks(rings, [f"{r:g}" for r in rings])
            ax.set_rlabel_position(45)
        handles = [line(look[ORDER[i]], mark=MARKS[i]) for i in colors.values()]
        figure.legend(handles, titles.values(), loc="outside lower center", ncols=min(4, len(titles)), frameon=False)

    return paint


def _profiles(block: dict, titles: Mapping[str, str], colors: Mapping[str, int]) -> Paint:
    kinds = {"reached": "runs once within the bound", "now": "runs within the bound", "loss": "lowest loss within it"}

    def paint(figure: Figure, look: Look) -> None:
        axes = figure.subplots(3, len(AXES), sharex="col", sharey="row")
        losses = []
        for j, axis in enumerate(AXES):
            for i, kind in enumerate(kinds):
                ax = axes[i, j]
                for method in titles:
                    told = block["methods"][method]["profiles"][axis]
                    values = array(told[kind])
                    losses += [values] if kind == "loss" else []
                    ax.step(
                        array(told["grid"]), values, where="post", color=look[ORDER[colors[method]]], linewidth=1.6,
                        linestyle=dash(colors[method]),
                    )  # fmt: skip
                ax.set_xscale("log")
                ax.xaxis.set_major_formatter(lambda v, _: f"{v:,g}" if v < 1e5 else f"{v:.0e}".replace("e+0", "e"))
                ax.xaxis.set_minor_formatter(lambda v, _: "")
                ax.grid(axis="y")
                if kind != "loss":
                    ax.set_ylim(-0.04, 1.04)
                    ax.yaxis.set_major_formatter(lambda v, _: f"{100 * v:.0f} %")
            axes[2, j].set_xlabel(AXES[axis])
        limits(axes[2, 0], np.concatenate(losses), cut=97)
        for i, words in enumerate(kinds.values()):
            axes[i, 0].set_ylabel(words)
        handles = [line(look[ORDER[i]], dash(i)) for i in colors.values()]
        figure.legend(handles, titles.values(), loc="outside lower center", ncols=min(4, len(titles)), frameon=False)

    return paint


def _tradeoff(columns: Mapping[str, Any], titles: Mapping[str, str], colors: Mapping[str, int]) -> Paint:
    def paint(figure: Figure, look: Look) -> None:
        axes = figure.subplots(1, 2, sharey=True)
        names = {"Ind": "independence gap (Ind)", "Sp": "separation gap (Sp)"}
        for ax, (name, words) in zip(axes, names.items(), strict=True):
            for method in titles:
                (x, dx), (y, dy) = (columns[method].get(f"test {c}", (None, None)) for c in (name, "Ina"))
                if x is None or y is None:
                    continue
                ax.errorbar(
                    [x], [y], xerr=[dx or 0], yerr=[dy or 0], color=look[ORDER[colors[method]]], fmt=MARKS[colors[method]],
                    markersize=7.5, markeredgewidth=0, elinewidth=1.0,
                )  # fmt: skip
            ax.set_xlabel(words)
            ax.grid()
            ax.locator_params(nbins=6)
        axes[0].set_ylabel("inaccuracy (Ina)")
        handles = [line(look[ORDER[i]], "", MARKS[i]) for i in colors.values()]
        figure.legend(handles, titles.values(), loc="outside lower center", ncols=min(4, len(titles)), frameon=False)

    return paint
