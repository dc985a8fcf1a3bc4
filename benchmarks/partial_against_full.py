"""Bounds on an interval of scores against bounds on all scores: how far the groups are apart on the contested interval, at equal accuracy.

Reads results.json of folders that `fairbound reproduce partial-fairness` wrote (means over the splits, held-out rows) and writes
partial-against-full.png and .svg: of every table a line for each model that was trained under a bound on the interval, from the
distance on the interval that a bound on all scores leaves at its accuracy (grey) to its own (blue). Between the models under
bounds on all scores the distance is interpolated; the lower one counts where a more accurate model has it. Left out are constant scores, models
more accurate than any of those, and models more than 0.01 less accurate than all of them.

Prints one JSON object: these lines, of each point that the paper's Tables 3 and 4 print by how much accuracy ours falls short of it (`printed`), and of
each bound on the interval by how much the distance there is beyond it (`distances`). All but constant scores count. `mixed` says by how much
the points between two of our models fall short, which giving each row the score of one of them at random reaches.
"""

from __future__ import annotations

import argparse
import json
import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import harness
import numpy as np

from fairbound.report.figures import Drawing, Look, files

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ITEMS = ("a9a", "bank", "law-school", "acs")
ROOM = 0.01
LESS_ACCURATE, LESS_FAIR, BEYOND = 0.002, 0.005, 0.03
"""What is allowed: of accuracy and of full fairness below a printed point, and of distance beyond a bound."""
Point = tuple[float, float]
Columns = Mapping[str, Mapping[str, Any]]
ACCURACY, DISTANCE, FAIRNESS = "test accuracy", "test interval pSP", "test full fairness"


def measured(folder: Path) -> dict[str, dict[str, Columns]]:
    """Item -> method -> column -> its row of results.json."""
    found: dict[str, dict[str, dict[str, Mapping[str, Any]]]] = {}
    for row in json.loads((folder / "results.json").read_text(encoding="utf-8")):
        if row["ours"] is not None and row["column"] in (ACCURACY, DISTANCE, FAIRNESS):
            found.setdefault(row["item"], {}).setdefault(row["row"], {})[row["column"]] = row
    return {item: {m: v for m, v in methods.items() if len(v) == 3} for item, methods in found.items()}


def points(methods: Mapping[str, Columns], column: str = DISTANCE) -> dict[str, Point]:
    """Method -> (accuracy, the value of `column`), as measured, but for constant scores."""
    return {m: (v[ACCURACY]["ours"], v[column]["ours"]) for m, v in methods.items() if v[FAIRNESS]["ours"] < 1.0}


def of_paper(item: str) -> list[Point]:
    """(accuracy, full fairness) of the models under bounds that the paper's Tables 3 and 4 print of a table."""
    study = tomllib.loads(resources.files("fairbound.studies").joinpath("partial-fairness.toml").read_text("utf-8"))
    tables = [study["paper"].get(name, {}) for name in (item, f"{item}-levels")]
    found = [(v[ACCURACY][0], v[FAIRNESS][0]) for table in tables for m, v in table.items() if m != "none"]
    return list(dict.fromkeys(found))


def printed(methods: Mapping[str, Columns], paper: Sequence[Point]) -> list[dict[str, Any]]:
    """Of each point of the paper: the most accurate of our models at its full fairness, and what that falls short by, and what the
    best mixture of two of ours falls short by ("mixed"); None where none of ours is so fair."""

    def short(accuracy: float, best: float | None) -> float | None:
        return None if best is None else round(max(0.0, accuracy - LESS_ACCURATE - best), 6)

    ours, out = points(methods, FAIRNESS), []
    for accuracy, fairness in paper:
        least = fairness - LESS_FAIR
        best, name = max(((a, m) for m, (a, f) in ours.items() if f >= least), default=(None, None))
        missed = {"short": short(accuracy, best), "mixed": short(accuracy, mixed(list(ours.values()), least))}
        out.append({"printed": (accuracy, fairness), "ours": best, "method": name, **missed})
    return out


def mixed(ours: Sequence[Point], fairness: float) -> float | None:
    """The highest accuracy at a full fairness when each row has the score of one of two models at random; None where none is so fair.

    The shares above a threshold are then means of the two models', so that their difference is at most the mean of both differences.
    """
    found = [a for a, f in ours if f >= fairness]
    for a, f in ours:
        found += [a + (fairness - f) / (g - f) * (b - a) for b, g in ours if f < fairness <= g]
    return max(found, default=None)


def distances(methods: Mapping[str, Columns]) -> list[dict[str, Any]]:
    """Of each model under a bound on the interval: its distance there, and what that is beyond the bound and what is allowed."""
    held = {m: d for m, (_, d) in points(methods).items() if m.startswith("interval-")}
    bounds = {m: float(m.removeprefix("interval-").replace("_", ".")) for m in held}
    return [
        {"bound": bounds[m], "interval": d, "beyond": round(max(0.0, d - bounds[m] - BEYOND), 6)}
        for m, d in held.items()
    ]


def left_by_full(full: Sequence[Point], accuracy: float) -> float | None:
    """The least distance that models at `full` (accuracy, distance) leave at an accuracy or above; None above all of them."""
    ordered = sorted(full)
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
    items: dict[str, dict[str, Columns]] = {}
    for folder in given.folder:
        items |= measured(folder)
    tables = {item: compared(points(items[item])) for item in ITEMS if item in items}
    given.out.mkdir(parents=True, exist_ok=True)
    for name, content in files(picture({k: v for k, v in tables.items() if v})).items():
        (given.out / name).write_bytes(content)
    found = {
        "printed": {item: printed(items[item], of_paper(item)) for item in tables},
        "distances": {item: distances(items[item]) for item in tables},
    }
    harness.emit({"benchmark": "partial_against_full", "results": tables, **found})


if __name__ == "__main__":
    main()
