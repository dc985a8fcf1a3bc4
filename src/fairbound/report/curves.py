"""The charts of the page: score distributions per group, and loss, constraints and multipliers over training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fairbound.report import plots, words
from fairbound.report.figures import SERIES
from fairbound.report.render import drawing


def distributions(audit: dict[str, Any], uids: Iterator[str]) -> list[dict[str, Any]]:
    """A chart of each attribute's groups: ``attribute``, ``svg``, ``series`` (name and note of each that is drawn),
    ``line`` (what the dashed line means) and ``left``, the number of groups not drawn."""
    charts = []
    for d in audit["distributions"]:
        filled = sorted(((k, v) for k, v in d["groups"].items() if sum(v)), key=lambda kv: -sum(kv[1]))
        if not filled:
            continue
        shown = filled[:SERIES]
        alt = f"Score distributions by {d['attribute']}. " + "; ".join(
            f"{k}: median about {_median(d['edges'], v):.2g}" for k, v in shown
        )
        threshold = d.get("threshold")
        svg = plots.histogram(d["edges"], [v for _, v in shown], threshold, next(uids), alt)
        within = threshold is not None and d["edges"][0] < threshold < d["edges"][-1]
        chart = {
            "attribute": d["attribute"],
            "svg": drawing(svg),
            "series": [(k, f" ({sum(v):,} rows)") for k, v in shown],
            "line": f"threshold {words.bound(threshold)}: predicted positive above it" if within else None,
            "left": len(filled) - len(shown),
        }
        charts.append(chart)
    return charts


def _median(edges: Sequence[float], counts: Sequence[int]) -> float:
    """The middle of the bin that holds the median row."""
    seen, half = 0, sum(counts) / 2
    for i, n in enumerate(counts):
        seen += n
        if seen >= half:
            return (edges[i] + edges[i + 1]) / 2
    raise AssertionError("counts has a positive sum")


def trajectory(audit: dict[str, Any], uids: Iterator[str]) -> list[dict[str, Any]]:
    """Charts over the steps of training, in the form of :func:`distributions`, with a ``title`` each."""
    t = audit["trajectory"]
    if t is None or not t["steps"]:
        return []
    by_bound: dict[float | None, dict[str, Sequence[float | None]]] = {}
    for key, series in t["constraints"].items():
        by_bound.setdefault(t["bounds"].get(key), {})[key] = series
    charts = [_over_steps(t, "Loss", {"loss": t["loss"]}, None, uids)]
    for limit, group in list(by_bound.items())[:SERIES]:
        charts.append(_over_steps(t, "Constraint" if len(group) == 1 else "Constraints", group, limit, uids))
    if t["multipliers"]:
        charts.append(_over_steps(t, "Multipliers", t["multipliers"], None, uids))
    return charts


def over_time(audit: dict[str, Any], uids: Iterator[str]) -> list[dict[str, Any]]:
    """A chart of each bound over the looks of a monitor, in the form of :func:`distributions`, with its ``text`` and
    the rows at its ``alarm``, None without one; none where the audit is of no monitor."""
    found = audit.get("monitoring")
    if not found or not found["looks"]:
        return []
    charts = []
    names = {"value": "measured", "lower": "at least", "upper": "at most"}
    for c in audit["constraints"]:
        series = found["bounds"][c["text"]]
        last = {said: series[key][-1] for key, said in names.items()}
        ends = ", ".join(f"{said} {v:.4g}" for said, v in last.items() if v is not None)
        alarm = found["alarms"].get(c["text"])
        alt = f"{c['text']} over {found['looks'][-1]:,} decisions. At the last look {ends or 'nothing was known'}"
        svg = plots.lines(
            found["looks"],
            [None] * len(found["looks"]),
            [series[k] for k in names],
            c["bound"],
            next(uids),
            alt,
            "decisions",
        )
        line = f"bound {words.bound(c['bound'])}"
        charts.append(
            {
                "text": c["text"],
                "svg": drawing(svg),
                "series": [(said, "") for said in names.values()],
                "line": line,
                "alarm": alarm,
            }
        )
    return charts


def _over_steps(
    t: dict[str, Any],
    title: str,
    series: Mapping[str, Sequence[float | None]],
    limit: float | None,
    uids: Iterator[str],
) -> dict[str, Any]:
    def last(key: str) -> float:
        return next((v for v in reversed(series[key]) if v is not None), float("-inf"))

    highest = sorted(series, key=lambda k: -last(k))[:SERIES]
    shown = [k for k in series if k in highest]
    ends = "; ".join(f"{k} ends at {last(k):.4g}" for k in shown if last(k) > float("-inf"))
    line = None if limit is None else f"bound {words.bound(limit)}"
    alt = f"{title} over training steps. {ends}" + ("" if line is None else f"; {line}")
    svg = plots.lines(t["steps"], t["seconds"], [series[k] for k in shown], limit, next(uids), alt)
    named = [] if title == "Loss" else [(k, "") for k in shown]
    return {"title": title, "svg": drawing(svg), "series": named, "line": line, "left": len(series) - len(shown)}
