"""From finished runs to numbers: gaps among feasible iterates, feasibility of outer iterates, curves, findings.

A method's *feasible iterates* are the points that it was measured at after its first step and that meet every constraint
on all the data; of a method with outer iterates only these count, as the points before the first are not its answer.
The gap at a place of the axis is the lowest among the feasible iterates so far, over the gap of the start; a run without
one counts as infinite. Baselines without outer iterates are favoured by this: nothing tells their user which iterate it is.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from fairbound.confidence.single import clopper_pearson
from fairbound.studies import aggregate
from fairbound.studies.known_optima.findings import findings, overall
from fairbound.studies.spec import Run

POINTS = 201
LEVEL = 1e-9  # relative gaps below this, or below what the optimum's certificate leaves open, are not told apart


def summarise(study: dict[str, Any], runs: list[Run]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """results: a row for each instance, method and column; summary: a block for each item.

    A row has {"item", "row": method, "column", "data": instance, "ours", "lower", "upper", "n", "runs", "statistic",
    "output", "paper", "paper_std", "std"}; lower and upper are quartiles, or the 95 % interval of a share.
    """
    by_place: dict[tuple[str, str], list[Path]] = defaultdict(list)
    axis_of = {data: item["axis"] for item in study["items"] for data in item["data"]}
    for result, records in runs:
        optimum = study["data"][result["data"]]["optimum"]
        by_place[result["data"], result["method"]].append(Path(result, records, axis_of[result["data"]], optimum))
    results: list[dict[str, Any]] = []
    blocks, told = [], []
    for item in study["items"]:
        instances: dict[str, dict[str, Any]] = {}
        said: list[dict[str, Any]] = []
        for data in item["data"]:
            paths = {m: by_place[data, m] for m in item["methods"] if by_place[data, m]}
            if not paths:
                continue
            numbers = {m: _numbers(item, its) for m, its in paths.items()}
            results += [{"item": item["key"], "row": m, "data": data, **row} for m in paths for row in numbers[m]]
            compared = _compared(item, paths)
            said += findings(study, item, data, compared, numbers)
            end = float(np.median([p.at[-1] for its in paths.values() for p in its]))
            instances[data] = {
                "methods": {m: _drawn(its, np.linspace(0.0, end, POINTS)) for m, its in paths.items()}, "end": end,
                "scale": paths[next(iter(paths))][0].scale, "rows": next(iter(paths.values()))[0].result["rows"],
                "m": next(iter(paths.values()))[0].result["m"],
            }  # fmt: skip
        if instances:
            told += said
            blocks.append({
                "key": item["key"], "title": item["title"], "item": item["key"], "data": None, "axis": item["axis"],
                "instances": instances, "findings": said,
            })  # fmt: skip
    summary = {"schema": "fairbound.study-summary/1", "blocks": blocks, "findings": overall(study, told, results)}
    return results, summary


class Path:
    """One run along its axis. at, f, worst: (r,) arrays; outer: (r,) counts or None; scale: the gap of the start;
    unsure: width of the optimum's certificate over it."""

    def __init__(self, result: dict[str, Any], records: list[dict[str, Any]], axis: str, optimum: dict[str, Any]):
        self.result = result
        self.at = np.array([r["passes" if axis == "passes" else "step"] for r in records], dtype=float)
        self.f = np.array([_number(r["f"]) for r in records])
        self.worst = np.array([_number(r["worst"]) for r in records])
        self.outer = None if records[0]["outer"] is None else np.array([r["outer"] for r in records])
        self.scale = optimum["x0_f"] - optimum["f"]
        self.unsure = (optimum["upper"] - optimum["lower"]) / self.scale
        self.gap = self.f - optimum["f"]
        answered = np.array([r["step"] for r in records]) > 0 if self.outer is None else self.outer > 0
        self.feasible = answered & (self.worst <= 0)
        self.answered = answered

    @property
    def best(self) -> np.ndarray:
        """(r,) the lowest relative gap of a feasible iterate so far; infinite before the first."""
        return np.minimum.accumulate(np.where(self.feasible, self.gap / self.scale, np.inf))

    @property
    def updates(self) -> np.ndarray:
        """Places of the records at new outer iterates."""
        if self.outer is None:
            return np.empty(0, dtype=int)
        return np.flatnonzero(np.diff(self.outer, prepend=0) > 0)


def _number(value: float | None) -> float:
    return np.nan if value is None else float(value)


def _reach(paths: list[Path]) -> float:
    return min(float(p.at[-1]) for p in paths) * (1 + 1e-9)


def _compared(item: dict[str, Any], paths: dict[str, list[Path]]) -> dict[str, Any]:
    """The medians of the relative gap at the places where methods are compared, as `findings` takes them."""
    end = min(_reach(its) for its in paths.values())
    places = np.arange(item["since"], end, item["every"])
    medians = {
        m: aggregate.quartiles(np.array([aggregate.held(p.at, p.best, places) for p in its]))["median"]
        for m, its in paths.items()
    }
    some = next(iter(paths.values()))[0]
    return {"at": places, "medians": medians, "tolerance": max(LEVEL, some.unsure)}


def _numbers(item: dict[str, Any], paths: list[Path]) -> list[dict[str, Any]]:
    """The rows of results.json of one method on one instance."""
    unit = item["axis"]
    rows = []
    for place in item["at"]:
        if place > _reach(paths):
            continue
        values = np.array([aggregate.held(p.at, p.best, np.array([place])) for p in paths])
        rows.append(_row(
            f"relative gap at {place:g} {unit}", values[:, 0],
            "median and quartiles over runs of the lowest gap of a feasible iterate so far, over that of the start; "
            "a run without one is infinite (null)",
        ))  # fmt: skip
    first = [p.at[np.flatnonzero(p.feasible)[0]] if p.feasible.any() else np.inf for p in paths]
    rows.append(
        _row(f"{unit} to the first feasible iterate", np.array(first, dtype=float), "median and quartiles over runs")
    )
    updates = [np.inf if p.outer is None else len(p.updates) for p in paths]
    rows.append(_row("outer iterates", np.array(updates, dtype=float), "median and quartiles over runs"))
    answered = [float(p.feasible[p.answered].mean()) if p.answered.any() else np.inf for p in paths]
    rows.append(
        _row("evaluations that are feasible", np.array(answered), "median and quartiles over runs of the share")
    )
    counted = [p for p in paths if len(p.updates)]
    good = sum(bool((p.worst[p.updates] <= 0).all()) for p in counted)
    lower, upper = clopper_pearson(good, len(counted))
    rows.append({
        **_row("runs with every outer iterate feasible", np.empty(0), "share, with its Clopper-Pearson interval (95 %)"),
        "ours": good / len(counted) if counted else None, "lower": float(lower) if counted else None,
        "upper": float(upper) if counted else None, "n": len(counted), "runs": len(paths),
    })  # fmt: skip
    for name, values in (
        (unit, [p.at[-1] for p in paths]), ("seconds", [p.result["seconds"] for p in paths]),
        *(((("steps"), [p.result["steps"] for p in paths]),) if unit != "steps" else ()),
    ):  # fmt: skip
        rows.append(_row(name, np.array(values, dtype=float), "median and quartiles over runs"))
    return rows


def _row(column: str, values: np.ndarray, statistic: str) -> dict[str, Any]:
    """A row from a value for each run; infinite where a run has none."""
    told = aggregate.quartiles(values[:, None]) if len(values) else {}
    ours, lower, upper = (_finite(told[k][0]) if told else None for k in ("median", "q25", "q75"))
    return {
        "column": column, "paper": None, "paper_std": None, "ours": ours, "std": None, "lower": lower, "upper": upper,
        "n": int(np.isfinite(values).sum()), "runs": len(values), "output": "point", "statistic": statistic,
    }  # fmt: skip


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _drawn(paths: list[Path], grid: np.ndarray) -> dict[str, Any]:
    """What the figures of one method on one instance need; the outer iterates are the first run's."""
    first = paths[0]
    marks = first.updates
    best = aggregate.quartiles(np.array([aggregate.held(p.at, p.best, grid) for p in paths]))
    return {
        "grid": grid.tolist(), "gap": aggregate.band(np.array([aggregate.held(p.at, p.gap, grid) for p in paths])),
        "worst": aggregate.band(np.array([aggregate.held(p.at, p.worst, grid) for p in paths])),
        "best": {k: [_finite(v) for v in values] for k, values in best.items()},
        "outer": {"at": first.at[marks].tolist(), "gap": first.gap[marks].tolist(), "worst": first.worst[marks].tolist()},
        "runs": len(paths),
    }  # fmt: skip
