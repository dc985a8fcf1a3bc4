"""From finished cells to numbers: the tables with the paper's values beside ours, the curves, and which method wins."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from fairbound.studies import aggregate
from fairbound.studies.fair_models.findings import findings
from fairbound.studies.spec import Run

MEASURES = ("Ind", "Sp", "Ina", "Sf", "Wd", "W1", "AUC", "loss", "SE")
PARTS = ("train", "test")


def summarise(study: dict[str, Any], runs: list[Run]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """results: a list of {"item", "row", "column", "paper", "ours", "std", "n", "data", "output"}; summary: see below.

    study: as in study.json. runs: (result, evaluations) of every finished cell.
    summary["blocks"]: for each item and data set {"key", "title", "item", "data", "methods": {method: curves, profiles, histograms,
    rows}, "findings": sentences with their numbers}. "item" and "row" are keys of the study's items and methods.
    """
    by_place: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for run in runs:
        by_place[run[0]["data"], run[0]["method"]].append(run)
    results, blocks = [], []
    for item in study["items"]:
        for data in item["data"]:
            found = {m: by_place[data, m] for m in item["methods"] if by_place[data, m]}
            if not found:
                continue
            numbers = {m: _numbers(study, m, cells) for m, cells in found.items()}
            results += _rows(study, item, data, numbers)
            blocks.append({
                "key": f"{item['key']}/{data}", "title": f"{item['title']}: {study['data'][data]['title']}",
                "item": item["key"], "data": data,
                "methods": {m: _drawn(study, m, cells) for m, cells in found.items()},
                "findings": findings(study, numbers),
                "rows": next(iter(found.values()))[0][0]["rows"],
                "checksum": next(iter(found.values()))[0][0]["checksum"],
            })  # fmt: skip
    return results, {"schema": "fairbound.study-summary/1", "findings": [], "blocks": blocks}


def _numbers(study: dict[str, Any], method: str, cells: list[Run]) -> dict[str, Any]:
    """Per-run numbers of one method on one data set: column -> {seed: value}; and which model they are of."""
    output, bound = study["methods"][method]["output"], study["bound"]
    out: dict[str, dict[int, float | None]] = defaultdict(dict)
    for result, records in cells:
        seed, chosen = result["seed"], result["outputs"][output]
        for part in PARTS:
            for name in MEASURES:
                out[f"{part} {name}"][seed] = chosen[part][name]
            out[f"{part} gap"][seed] = chosen[part]["gap"]
            out[f"{part} |gap|"][seed] = chosen[part]["value"]
        out["train within the bound"][seed] = float(chosen["train"]["value"] <= bound)
        seconds, values = [r["seconds"] for r in records], [r["train"]["value"] for r in records]
        late = [v <= bound for s, v in zip(seconds, values, strict=True) if s >= 2 / 3 * result["seconds"]]
        out["late evaluations within the bound"][seed] = float(np.mean(late)) if late else None
        within = aggregate.feasible(values, bound)
        for axis, at in (
            ("seconds", seconds),
            ("samples", [r["counts"]["samples"] for r in records]),
            ("calls", [r["calls"] for r in records]),
        ):
            out[f"{axis} to the bound"][seed] = aggregate.first_reached(at, within)
            out[axis][seed] = at[-1]
        out["steps"][seed] = result["steps"]
    return {"output": output, "columns": dict(out), "n": len(cells)}


MEDIANS = ("seconds to the bound", "samples to the bound", "calls to the bound")


def _rows(study: dict[str, Any], item: dict[str, Any], data: str, numbers: dict[str, Any]) -> list[dict[str, Any]]:
    printed = study["paper"].get(item["paper"], {})
    out = []
    for method, told in numbers.items():
        for column, by_seed in told["columns"].items():
            mean, std, n = aggregate.spread(list(by_seed.values()))
            if column in MEDIANS:
                known = [v for v in by_seed.values() if v is not None]
                mean, std = (float(np.median(known)) if known else None), None
            paper = printed.get(method, {}).get(column)
            row = {"item": item["key"], "row": method, "column": column, "paper": paper[0] if paper else None}
            row |= {"paper_std": paper[1] if paper else None, "ours": mean, "std": std, "n": n}
            out.append(row | {"data": data, "output": told["output"], "statistic": _statistic(column)})
    return out


def _statistic(column: str) -> str:
    return "median of the runs that reach it" if column in MEDIANS else "mean"


def _drawn(study: dict[str, Any], method: str, cells: list[Run]) -> dict[str, Any]:
    """What the figures of one method need."""
    runs = []
    for _, records in cells:
        run = {axis: [r[axis] for r in records] for axis in ("seconds", "calls")}
        run["samples"] = [r["counts"]["samples"] for r in records]
        for part in PARTS:
            for name in ("loss", "gap"):
                run[f"{part} {name}"] = [_number(r[part][name]) for r in records]
        runs.append(run)
    end = float(np.median([run["seconds"][-1] for run in runs]))
    profiled = [
        {
            **{axis: np.array(run[axis], dtype=float) for axis in aggregate.AXES},
            "gap": np.array([_number(r["train"]["value"]) for r in records]),
            "loss": np.array(run["train loss"]),
        }
        for run, (_, records) in zip(runs, cells, strict=True)
    ]
    output = study["methods"][method]["output"]
    models = [result["outputs"][output] for result, _ in cells]
    return {
        "curves": aggregate.curves(runs, end),
        "profiles": {axis: aggregate.profile(profiled, axis, study["bound"]) for axis in aggregate.AXES},
        "histograms": {part: _histograms([model[part]["histogram"] for model in models]) for part in PARTS},
    }


def _number(value: float | None) -> float:
    return np.nan if value is None else float(value)


def _histograms(several: list[dict[str, list[int]]]) -> dict[str, list[float]]:
    """The mean over runs of each group's share of rows per bin."""
    shares = defaultdict(list)
    for one in several:
        for group, counts in one.items():
            shares[group].append(np.array(counts) / sum(counts))
    return {group: np.mean(rows, axis=0).tolist() for group, rows in shares.items()}
