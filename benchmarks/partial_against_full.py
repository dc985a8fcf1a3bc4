"""Bounds on an interval of scores against bounds on all scores: how far the groups are apart on the contested interval, at equal accuracy.

Reads results.json of folders that `fairbound reproduce partial-fairness` wrote (means over the splits, held-out rows) and writes
partial-against-full.png and .svg: of every table a line for each model that was trained under a bound on the interval, from the
distance on the interval that a bound on all scores leaves at its accuracy (grey) to its own (blue). Between the models under
bounds on all scores the distance is interpolated; the lower one counts where a more accurate model has it. Left out are constant scores, models
more accurate than any of those, and models more than 0.01 less accurate than all of them. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import harness
import numpy as np

from fairbound.report.study_figures import files
from fairbound.report.study_scene import Drawing, Look

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ITEMS = ("a9a", "bank", "law-school", "acs")
ROOM = 0.01
Point = tuple[float, float]


def measured(folder: Path) -> dict[str, dict[str, Point]]:
    """Table -> method -> (accuracy, distance on the interval) of the tables in a study's folder, but for constant scores."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for row in json.loads((folder / "results.json").read_text(encoding="utf-8")):
        if row["item"] in ITEMS and row["ours"] is not None:
            found.setdefault(row["item"], {}).setdefault(row["row"], {})[row["column"]] = row["ours"]
    return {
        item: {
            m: (v["test accuracy"], v["test interval pSP"]) for m, v in methods.items() if v["test full fairness"] < 1.0
        }
        for item, methods in found.items()
    }


def left_by_full(points: Sequence[Point], accuracy: float) -> float | None:
    """The least distance that models at `points` (accuracy, distance) leave at an accuracy or above; None above all of them."""
    ordered = sorted(points)
    if accuracy > ordered[-1][0]:
        return None
    lowest = np.minimum.accumulate([d for _, d in ordered][::-1])[::-1]
    return float(np.interp(accuracy, [a for a, _ in ordered], lowest))


def compared(models: Mapping[str, Point]) -> list[dict[str, Any]]:
    """Of each model under a bound on the interval: its accuracy, its distance, that under bounds on all scores, and the gain."""
    full = [p for m, p in models.items() if m == "none" or m.startswith("full-")]
    out = []
    for method, (accuracy, distance) in models.items():
        if not method.startswith("interval-") or accuracy < min(a for a, _ in full) - ROOM:
            continue
        other = left_by_full(full, accuracy)
        if other is not None:
            out.append(
                {
                    "method": method,
                    "accuracy": accuracy,
                    "interval": distance,
                    "all scores": other,
                    "gain": other - distance,
                }
            )
    return sorted(out, key=lambda one: -one["accuracy"])


def picture(tables: Mapping[str, Sequence[Mapping[str, Any]]]) -> Drawing:
    """A line for each model, grouped by table."""
    rows = sum(len(of) + 1 for of in tables.values())

    def paint(figure: Figure, look: Look) -> None:
        ax = figure.subplots()
        at, places, labels = 0.0, [], []
        for name, of in tables.items():
            ax.text(0, at + 0.15, name, fontweight="bold", color=look["ink"])
            for one in of:
                at -= 1
                color = look["s1"] if one["gain"] >= 0 else look["bound"]
                ax.plot([one["all scores"], one["interval"]], [at, at], color=color, linewidth=2.4, zorder=1)
                ax.plot([one["all scores"]], [at], "o", color=look["muted"], markersize=8)
                ax.plot([one["interval"]], [at], "o", color=look["s1"], markersize=8)
                right = max(one["all scores"], one["interval"])
                ax.text(
                    right + 0.015,
                    at,
                    f"{-one['gain']:+.2f}".replace("-", "−"),
                    va="center",
                    color=look["ink"],
                    fontsize=8,
                )
                places.append(at)
                labels.append(f"{100 * one['accuracy']:.1f} % right")
            at -= 1
        ax.set_yticks(places, labels)
        ax.set_ylim(at + 0.4, 1.0)
        ax.set_xlim(0, None)
        ax.grid(axis="x")
        ax.set_xlabel("distance of the groups' scores on the contested interval (0 is equal treatment), held-out rows")
        handles = [ax.plot([], [], "o", color=look[c], markersize=8)[0] for c in ("muted", "s1")]
        names = ["bound on all scores, at equal accuracy", "bound on the contested interval"]
        figure.legend(handles, names, loc="outside upper center", ncols=2, frameon=False)

    return Drawing("partial-against-full", "Partial against full bounds", "", (7.0, 1.2 + 0.27 * rows), paint)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="+", help="of `fairbound reproduce partial-fairness --out`")
    parser.add_argument("--out", type=Path, default=Path("."))
    given = parser.parse_args()
    models: dict[str, dict[str, Point]] = {}
    for folder in given.folder:
        models |= measured(folder)
    tables = {item: compared(models[item]) for item in ITEMS if item in models}
    given.out.mkdir(parents=True, exist_ok=True)
    for name, content in files(picture({k: v for k, v in tables.items() if v})).items():
        (given.out / name).write_bytes(content)
    harness.emit({"benchmark": "partial_against_full", "results": tables})


if __name__ == "__main__":
    main()
