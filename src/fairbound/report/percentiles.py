"""Pictures over percentiles: each group's scores, how far the groups are apart at each,
and which interval is bounded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fairbound.report import words
from fairbound.report.figures import SERIES, Drawing, Look, files, inline, series_style
from fairbound.report.render import drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CANDIDATES = 40
_ACROSS = "percentile of the group's {} in % (0 is the highest)"


def percentile_charts(audit: Mapping[str, Any], uids: Iterator[str]) -> list[dict[str, Any]]:
    """A chart of each entry of the audit's "percentiles": ``text``, ``attribute``, ``among``, ``largest`` (disparity
    within the intervals), ``svg``, ``series``, ``line`` and ``left`` as in `curves.distributions`."""
    charts = []
    for one in audit.get("percentiles", []):
        shown, at = _largest_groups(one), one["threshold"]
        own = len({str(g["intervals"]) for g in one["groups"].values()}) > 1
        inside = [d for p, d in zip(one["percentiles"], one["disparity"], strict=True) if _within(one, p)]
        largest = max(inside, default=None)
        said = "no percentile" if largest is None else f"largest disparity there {largest:.3g}"
        caption = f"Intervals {_parts(one)}: {said}; over all percentiles {max(one['disparity']):.3g}"
        chart = Drawing("percentiles", f"Scores of {one['attribute']} by percentile", caption, (4.6, 3.6), _paint(one))
        charts.append(
            {
                "text": one["text"],
                "attribute": one["attribute"],
                "among": one["among"],
                "largest": largest,
                "svg": drawing(inline(chart, next(uids))),
                "series": [
                    (name, f" ({g['rows']:,} rows{', ' + _of(g['intervals']) if own else ''})") for name, g in shown
                ],
                "line": None if at is None else f"threshold {words.bound(at)}: predicted positive above it",
                "left": len(one["groups"]) - len(shown),
            }
        )
    return charts


def interval_files(found: Mapping[str, Any]) -> dict[str, bytes]:
    """interval.png and interval.svg of what `fairbound.suggest_interval` found: for each attribute the groups' scores
    and the disparity at every percentile, the interval shaded and the rate of positive decisions marked, and below them
    the intervals that were tried, each at the height of its disparity.

    Raises: ImportError naming the extra where matplotlib is missing.
    """
    profiles = found["profiles"]
    title = f"{found['text']}: {found['value']:.3g}"
    size = (6.4, 2.0 + 3.6 * len(profiles))

    def paint(figure: Figure, look: Look) -> None:
        axes = figure.subplots(2 * len(profiles) + 1, 1, sharex=True)
        for i, one in enumerate(profiles):
            one = {**one, "threshold": found["threshold"]}
            _scores(axes[2 * i], one, look)
            axes[2 * i].legend(
                [words.clean(name) for name, _ in _largest_groups(one)],
                title=words.clean(one["attribute"]), frameon=False, fontsize=8, title_fontsize=8,
            )  # fmt: skip
            _disparity(axes[2 * i + 1], one, look)
        _tried(axes[-1], found["candidates"][:CANDIDATES], look)
        for ax in axes:
            ax.axvline(100 * found["positive_rate"], color=look["ink"], linewidth=1.0, linestyle=(0, (1, 1.6)))
        axes[0].set_title(f"{title}\ndotted: rate of positive decisions, {100 * found['positive_rate']:.3g} %")
        axes[-1].set_xlabel(_ACROSS.format("rows"))

    return files(Drawing("interval", title, "", size, paint))


def _paint(one: Mapping[str, Any]) -> Any:
    def paint(figure: Figure, look: Look) -> None:
        top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
        _scores(top, one, look)
        _disparity(bottom, one, look)
        bottom.set_xlabel(_ACROSS.format(one["among"]))

    return paint


def _scores(ax: Axes, one: Mapping[str, Any], look: Look) -> None:
    across = [100 * p for p in one["percentiles"]]
    for i, (_, group) in enumerate(_largest_groups(one)):
        ax.plot(across, group["scores"], linewidth=1.6, **series_style(look, i))
    if one["threshold"] is not None:
        ax.axhline(one["threshold"], color=look["bound"], linewidth=1.2, linestyle=(0, (4, 2)))
    _shaded(ax, one, look)
    ax.set_ylabel("score")
    ax.set_xlim(0, 100)


def _disparity(ax: Axes, one: Mapping[str, Any], look: Look) -> None:
    ax.fill_between([100 * p for p in one["percentiles"]], one["disparity"], color=look["s2"], alpha=0.35, linewidth=0)
    ax.plot([100 * p for p in one["percentiles"]], one["disparity"], color=look["s2"], linewidth=1.4)
    _shaded(ax, one, look)
    ax.set_ylabel("disparity")
    ax.set_ylim(0, None)


def _tried(ax: Axes, candidates: Sequence[Mapping[str, Any]], look: Look) -> None:
    for i, one in reversed(list(enumerate(candidates))):
        color, width = (look["s2"], 3.2) if i == 0 else (look["muted"], 1.2)
        ax.plot([100 * end for end in one["interval"]], [one["value"]] * 2, color=color, linewidth=width)
    ax.set_ylabel("intervals tried")
    ax.set_ylim(0, 1.1 * max(one["value"] for one in candidates) or 1.0)


def _shaded(ax: Axes, one: Mapping[str, Any], look: Look) -> None:
    for a, b in sorted({tuple(part) for g in one["groups"].values() for part in g["intervals"]}):
        ax.axvspan(100 * a, 100 * b, facecolor=look["line"], alpha=0.6, linewidth=0, zorder=0)


def _largest_groups(one: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    return sorted(one["groups"].items(), key=lambda kv: -kv[1]["rows"])[:SERIES]


def _within(one: Mapping[str, Any], percentile: float) -> bool:
    return any(a <= percentile <= b for g in one["groups"].values() for a, b in g["intervals"])


def _of(intervals: Sequence[Sequence[float]]) -> str:
    return "+".join(f"{a:g}:{b:g}" for a, b in intervals)


def _parts(one: Mapping[str, Any]) -> str:
    return ", ".join(sorted({_of(g["intervals"]) for g in one["groups"].values()}))
