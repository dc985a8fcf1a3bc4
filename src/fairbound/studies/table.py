"""From finished runs to rows of results.json, and to the findings of each block of the page.

A row is {"item", "row": method, "column", "data", "paper", "paper_std", "ours", "std", "lower", "upper", "n", "runs",
"output", "only_start", "missed", "statistic"}; n: runs that have a value, of `runs`; only_start: runs that report their
starting point; missed: runs whose best iterate, the model reported, misses a bound it was trained under. The
statistic over runs is one of

    mean       with the standard deviation (n - 1) as std
    reached    median of the runs that have a value
    quartiles  median, with the quartiles as lower and upper; an infinite value is null
    known      the same of the runs that have a value
    share      of runs whose value is 1, with its Clopper-Pearson interval (95 %) as lower and upper
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Any

import numpy as np

from fairbound.base.records import plain
from fairbound.base.series import quartiles
from fairbound.confidence.single import clopper_pearson
from fairbound.studies.checked import imported
from fairbound.studies.spec import ItemSpec, StudySpec
from fairbound.studies.task import Run

WORDS = {
    "mean": "mean", "reached": "median of the runs that reach it",
    "quartiles": "median and quartiles over runs; a run without a value is infinite (null)",
    "known": "median and quartiles over the runs that have a value",
    "share": "share of runs, with its Clopper-Pearson interval (95 %)",
}  # fmt: skip
Numbers = Mapping[str, Mapping[int, float | None]]
"""Column -> seed -> value of the runs of one method on one data set."""


@dataclass(frozen=True)
class Block:
    """What findings are made from: an item on one data set. compare: the item's options of the comparison. runs,
    numbers: by method, numbers[method][column][seed]. rows: of results.json."""

    study: StudySpec
    item: ItemSpec
    data: str
    compare: Any
    runs: dict[str, list[Run]]
    numbers: dict[str, Numbers]
    rows: list[dict[str, Any]]

    @property
    def trained(self) -> dict[str, Numbers]:
        """`numbers` without the runs that report their starting point: such a model is no doing of a method."""
        starts = {m: {run.result["seed"] for run in its if run.only_start()} for m, its in self.runs.items()}
        return {
            m: {c: {s: v for s, v in by.items() if s not in starts.get(m, ())} for c, by in columns.items()}
            for m, columns in self.numbers.items()
        }

    @property
    def titles(self) -> dict[str, str]:
        return {m: self.study.methods[m].title for m in self.item.methods}


def summarise(study: StudySpec, runs: dict[tuple[str, str], list[Run]]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """results.json and summary.json from the finished runs of (data, method).

    summary["blocks"]: {"key", "title", "item", "data", "about", "findings": [{"text", ...}, ...]} for every item and
    data set, or for the item with all its data; summary["findings"]: over all of them.
    """
    measures = imported(study.measures)
    results: list[dict[str, Any]] = []
    blocks: list[dict[str, Any]] = []
    for item in study.items:
        compare, there = study.compared(item), []
        for data in item.data:
            found = {m: runs[data, m] for m in item.methods if runs.get((data, m))}
            if not found:
                continue
            numbers = {m: _numbers(measures, its, compare) for m, its in found.items()}
            rows = [row for m in found for row in _rows(study, measures, item, data, m, found[m], numbers[m])]
            results += rows
            findings = []
            if hasattr(measures, "findings"):
                findings = measures.findings(Block(study, item, data, compare, found, numbers, rows))
            title, about = study.data[data].title, next(iter(found.values()))[0].result["about"]
            there.append({
                "key": f"{item.key}/{data}", "title": f"{item.title}: {title}", "item": item.key, "data": [data],
                "about": [about], "findings": findings,
            })  # fmt: skip
        if there and item.together:
            joined = {k: [entry for block in there for entry in block[k]] for k in ("data", "about", "findings")}
            there = [{"key": item.key, "title": item.title, "item": item.key, **joined}]
        blocks += there
    said = _once([f for block in blocks for f in block["findings"]])
    overall = measures.overall(study, said, results) if hasattr(measures, "overall") else []
    return results, {"schema": "fairbound.study-summary/2", "findings": overall, "blocks": blocks}


def _once(findings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The findings, of which the first of those that have a text "again" keeps its own, and the others take that."""
    texts = [finding.pop("again", None) for finding in findings]
    for finding, again in [pair for pair in zip(findings, texts, strict=True) if pair[1]][1:]:
        finding["text"] = again
    return findings


def _numbers(measures: Any, runs: list[Run], compare: Any) -> Numbers:
    """The numbers of the runs of one method, of columns that all of its runs have."""
    out: dict[str, dict[int, float | None]] = defaultdict(dict)
    for run in runs:
        for column, value in measures.numbers(run, compare).items():
            out[column][run.result["seed"]] = value
    return {column: by_seed for column, by_seed in out.items() if len(by_seed) == len(runs)}


def _rows(
    study: StudySpec, measures: Any, item: ItemSpec, data: str, method: str, runs: Sequence[Run], numbers: Numbers
) -> list[dict[str, Any]]:
    printed = study.paper.get(item.paper, {}).get(method, {})
    same = {
        "item": item.key,
        "row": method,
        "data": data,
        "output": runs[0].output,
        "only_start": sum(r.only_start() for r in runs),
        "missed": sum(r.missed for r in runs),
    }
    return rows_of(numbers, getattr(measures, "STATISTICS", {}), printed, same)


def rows_of(
    numbers: Numbers, statistics: Mapping[str, str], printed: Mapping[str, Sequence[float]], same: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """A row for each column. statistics: pattern of columns -> statistic, the first that fits, else "mean". printed:
    the paper's (mean, std) by column. same: what all rows say (item, row, data, output, only_start, missed)."""
    rows = []
    for column, by_seed in numbers.items():
        kind = next((k for pattern, k in statistics.items() if fnmatch(column, pattern)), "mean")
        paper = printed.get(column, (None, None))
        found = _STATISTICS[kind](list(by_seed.values()))
        rows.append({
            **same, "column": column, "paper": paper[0], "paper_std": paper[1], "std": None, "lower": None,
            "upper": None, **found, "runs": len(by_seed), "statistic": WORDS[kind],
        })  # fmt: skip
    return rows


def _known(values: Sequence[float | None]) -> np.ndarray:
    return np.array([v for v in values if v is not None], dtype=float)


def _mean(values: Sequence[float | None]) -> dict[str, Any]:
    known = _known(values)
    std = float(known.std(ddof=1)) if len(known) > 1 else None
    return {"ours": float(known.mean()) if len(known) else None, "std": std, "n": len(known)}


def _reached(values: Sequence[float | None]) -> dict[str, Any]:
    known = _known(values)
    return {"ours": float(np.median(known)) if len(known) else None, "n": len(known)}


def _quartiles(values: Sequence[float | None]) -> dict[str, Any]:
    every = np.array([np.inf if v is None else v for v in values], dtype=float)
    ends = {k: plain(v[0]) for k, v in quartiles(every[:, None]).items()}
    n = int(np.isfinite(every).sum())
    return {"ours": ends["median"], "lower": ends["q25"], "upper": ends["q75"], "n": n}


def _known_quartiles(values: Sequence[float | None]) -> dict[str, Any]:
    known = [v for v in values if v is not None]
    return _quartiles(known) if known else {"ours": None, "n": 0}


def _share(values: Sequence[float | None]) -> dict[str, Any]:
    known = _known(values)
    if not len(known):
        return {"ours": None, "n": 0}
    good = int(known.sum())
    lower, upper = clopper_pearson(good, len(known))
    return {"ours": good / len(known), "lower": float(lower), "upper": float(upper), "n": len(known)}


_STATISTICS = {"mean": _mean, "reached": _reached, "quartiles": _quartiles, "known": _known_quartiles, "share": _share}
