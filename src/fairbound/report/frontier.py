"""The frontier of a notion as a table, a chart and one page: what each bound costs in accuracy, on held-out rows."""

from __future__ import annotations

import base64
import hashlib
import json
from importlib import resources
from typing import TYPE_CHECKING, Any

from fairbound.base.names import count_of
from fairbound.report import words
from fairbound.report.figures import Drawing, Look, files, inline
from fairbound.report.render import drawing, render
from fairbound.report.terminal import grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLUMNS = ("bound", "accuracy", "AUC", "measured, mean", "smallest", "largest", "in training", "verdicts")


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    limit = row["bound"]
    verdicts = ", ".join(f"{n} {words.VERDICTS[v].lower()}" for v, n in row["verdicts"].items() if n)
    return (
        "none" if limit is None else words.bound(limit),
        words.number(row["accuracy"]),
        words.number(row["auc"]),
        words.number(row["value"], beside=limit),
        words.number(row["smallest"], beside=limit),
        words.number(row["largest"], beside=limit),
        words.number(row["train_value"], beside=limit, absent="–"),
        verdicts or "–",
    )


def _stated(result: dict[str, Any], limit: float | None) -> str:
    """A bound with its sign, as "≤ 0.05"."""
    return "no bound" if limit is None else f"{'≥' if words.at_least(result) else '≤'} {words.bound(limit)}"


def _title(result: dict[str, Any]) -> str:
    return f"{result['notion']} on {result['data']}"


def frontier_table(result: dict[str, Any]) -> str:
    """A line per bound: means over the seeds, and the smallest and largest measured value."""
    title = f"{_title(result)}: held-out rows, {_seeds(result)}"
    return grid(title, _COLUMNS, [_cells(row) for row in result["summary"]], left=("verdicts",))


def _seeds(result: dict[str, Any]) -> str:
    n = result["summary"][0]["n"]
    return count_of(n, "seed")


def frontier_chart(result: dict[str, Any]) -> dict[str, bytes]:
    """Accuracy over the measured value, one dot per model and a line through the means: frontier.png and frontier.svg.

    Raises: ImportError naming the extra where matplotlib is missing.
    """
    return files(_drawing(result, (7, 4.2), keyed=True))


def _drawing(result: dict[str, Any], size: tuple[float, float], keyed: bool) -> Drawing:
    """The models as dots and the line through the means, with the bounds beside it. keyed: with a legend."""

    def paint(figure: Figure, look: Look) -> None:
        axes = figure.subplots()
        points = [p for p in result["points"] if p["value"] is not None]
        for free, color, label in ((False, "s1", "under a bound"), (True, "s2", "unconstrained")):
            part = [p for p in points if (p["bound"] is None) == free]
            values, accuracies = [p["value"] for p in part], [p["accuracy"] for p in part]
            dot: dict[str, Any] = {"marker": "s" if free else "o", "markersize": 5, "markeredgewidth": 0, "alpha": 0.6}
            axes.plot(values, accuracies, linestyle="", color=look[color], label=label, **dot)
        values, accuracies = [s["value"] for s in means], [s["accuracy"] for s in means]
        axes.plot(values, accuracies, "-", color=look["ink"], linewidth=1.2, label="mean over seeds")
        for s in means:
            at = (s["value"], s["accuracy"])
            axes.annotate(
                _stated(result, s["bound"]),
                at,
                textcoords="offset points",
                xytext=(4, -12),
                fontsize=8.5,
                color=look["ink"],
            )
        axes.margins(0.1, 0.15)  # room for the text beside the last model and below the lowest
        if not words.at_least(result):
            axes.set_xlim(left=0)
        axes.set(xlabel="measured value on held-out rows", ylabel="accuracy on held-out rows")
        axes.locator_params(axis="x", nbins=6)
        axes.grid(axis="y")
        if keyed:
            axes.legend(frameon=False, fontsize=9)

    means = [s for s in result["summary"] if s["value"] is not None]
    alt = "; ".join(f"{_stated(result, s['bound'])}: {s['accuracy']:.4f} at {s['value']:.4f}" for s in means)
    return Drawing("frontier", "Accuracy over the measured value", f"Means over the seeds: {alt}", size, paint)


def frontier_page(result: dict[str, Any]) -> str:
    """One self-contained page: the models to move through, the chart, the means of every bound, and every model."""
    return render(
        "frontier.html.j2",
        result=result,
        title=_title(result),
        seeds=_seeds(result),
        explorer=_explorer(result),
        chart=drawing(inline(_drawing(result, (4.6, 2.9), keyed=False), "f")),
        heads=_COLUMNS,
        means=[_cells(row) for row in result["summary"]],
    )


def _explorer(result: dict[str, Any]) -> dict[str, Any] | None:
    """What the part of the page that is moved needs: the first seed's models, from the tightest bound to none, and
    their script with its hash for the page's policy. None where the models hold nothing to show."""
    first = [p for p in result["points"] if p["seed"] == result["seed"] and "groups" in p]
    if len(first) < 2:
        return None
    said = {c["bound"]: c for c in result["certificates"]}
    free, under = ([p for p in first if (p["bound"] is None) == no_bound] for no_bound in (True, False))
    under.sort(key=lambda p: p["bound"], reverse=words.at_least(result))
    models = [
        {**p, "text": f"{result['notion']} {_stated(result, p['bound'])}", "certificate": said.get(p["bound"])}
        for p in under
    ]
    models += [{**p, "text": _stated(result, None), "certificate": None} for p in free]
    script = resources.files("fairbound.report").joinpath("frontier.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    data = json.dumps(models, ensure_ascii=True, allow_nan=False).replace("<", "\\u003c")
    return {
        "count": len(models),
        "start": len(models) - 1,
        "names": list(first[0]["groups"]),
        "data": drawing(data),
        "script": drawing(script),
        "hash": drawing(f"sha256-{digest}"),
        "said": result["advice"],
    }
