"""The measures of `level-set`: methods on instances with a known optimum, objective and worst constraint along the way.

A method's *feasible iterates* are the points that it was measured at after its first step and that meet every
constraint on all the data; of a method with outer iterates only these count, as the points before the first are not its
answer. The gap at a place of the axis is the lowest among the feasible iterates so far, over the gap of the start; a
run without one counts as infinite. Baselines without outer iterates are favoured by this: nothing tells their user
which iterate it is.

Source: Lin, Nadarajah, Soheili, Yang (2020), section 6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from fairbound.base import series
from fairbound.base.errors import OptionError
from fairbound.base.names import count_of
from fairbound.confidence.single import clopper_pearson
from fairbound.instances import INSTANCES, exact, instance
from fairbound.instances.data_instances import DATA
from fairbound.problems.problem import Measured
from fairbound.studies.checked import known
from fairbound.studies.rows import missing
from fairbound.studies.spec import Cell, StudySpec
from fairbound.studies.table import Block
from fairbound.studies.task import Row, Run, Task

AXES = ("passes", "steps", "iterations")
EVERY, OUTER = "runs with every outer iterate feasible", "outer iterates"
FEASIBLE = "evaluations that are feasible"
STATISTICS = {EVERY: "share", OUTER: "known", FEASIBLE: "known", "*": "quartiles"}
LEVEL = 1e-9  # relative gaps below this, or below what the optimum's certificate leaves open, are not told apart


@dataclass(frozen=True, kw_only=True)
class Options:
    """instance: of `fairbound.instances`. batch: what the study's batches count,
    rows "of every block" or rows "in all"."""

    instance: str
    batch: str = "of every block"

    def __post_init__(self) -> None:
        known("fairbound.instances", "instance", self.instance, INSTANCES)
        known("the task's option batch", "value", self.batch, ("of every block", "in all"))


@dataclass(frozen=True, kw_only=True)
class Compare:
    """subject: the method that findings are about; against: those it is compared with. axis: along which runs are
    compared, "passes" over the data, "steps", or "iterations": steps and each look at a point that is no step, such as
    an exact evaluation. at: places whose numbers go into the table. since, every: the places at which the subject must
    be below another method to be called so are since, since + every, ..."""

    subject: str
    against: tuple[str, ...]
    at: tuple[float, ...]
    since: float
    every: float
    axis: str = "passes"

    def __post_init__(self) -> None:
        known("the comparison", "axis", self.axis, AXES)
        if not (self.since > 0 and self.every > 0 and self.at and min(self.at) > 0):
            raise OptionError("the comparison: since, every and all of `at` must be positive.")


def absent(given: Mapping[str, Any], data_dir: str | None) -> str:
    """Why an instance cannot be had, as where its data are missing or its optimum is not stored; "" where it can."""
    try:
        exact.optimum(given["instance"])
    except OptionError as error:
        return str(error)
    source = DATA.get(given["instance"])
    return "" if source is None else missing({"dataset": source}, data_dir)


def task(cell: Cell, data_dir: str | None) -> Task:
    """The instance as `fairbound.instances` makes it. Raises: DataError where the stored optimum is of other data."""
    asked = Options(**cell.task)
    problem, best = instance(asked.instance, data_dir), exact.optimum(asked.instance)
    exact.check(problem, best)
    scale = best.x0_f - best.f

    def watch(x: Tensor, measured: Measured) -> dict[str, Any]:
        f, g = float(measured.f), measured.g
        return {
            "f": f, "gap": f - best.f, "relative gap": (f - best.f) / scale, "worst": float(g.amax(-1)),
            "worst_at": int(g.argmax(-1)),
        }  # fmt: skip

    blocks = max(1, len(getattr(problem, "blocks", None) or ())) if asked.batch == "of every block" else 1
    size = f"{problem.rows:,} rows, " if problem.rows > 1 else ""
    return Task(
        problem, watch, derive=derive, options={"batch_size": cell.batch_size * blocks}, checksum=best.checksum,
        about=f"{size}{count_of(problem.m, 'constraint')}; f* = {best.f:.9g}, {best.x0_f:.6g} at the start, "
              f"found independently of these methods: {best.certificate}",
        facts={"rows": problem.rows, "m": problem.m, "unsure": (best.upper - best.lower) / scale},
    )  # fmt: skip


def derive(records: list[Row]) -> None:
    """Adds to each record its iterations, whether the point is an answer of the method and a feasible one, and the
    lowest relative gap of a feasible one so far, infinite before the first."""
    lowest = np.inf
    for r in records:
        r["steps"], r["iterations"] = r["step"], r["step"] + r["counts"]["values"]
        r["answer"] = r["step"] > 0 if r["outer"] is None else r["outer"] > 0
        r["feasible"] = bool(r["answer"] and r["worst"] <= 0)
        lowest = min(lowest, r["relative gap"]) if r["feasible"] else lowest
        r["lowest relative gap"] = lowest


class Path:
    """A run along its axis. at, best: (r,) places and lowest relative gaps so far;
    updates: records at new outer iterates."""

    def __init__(self, run: Run, axis: str):
        self.records = run.records
        self.at = np.array([r[axis] for r in run.records], dtype=float)
        lowest = [r["lowest relative gap"] for r in run.records]  # null, as JSON has it, where infinite
        self.best = np.array([np.inf if v is None else v for v in lowest])
        self.has_outer = run.records[0]["outer"] is not None
        outer = [r["outer"] or 0 for r in run.records]
        self.updates = np.flatnonzero(np.diff(outer, prepend=0) > 0)


def numbers(run: Run, compare: Compare) -> dict[str, float | None]:
    """Gaps at the places of the table, feasibility and cost of a run; infinite or None where it has none."""
    path, unit = Path(run, compare.axis), compare.axis
    places = [place for place in compare.at if place <= path.at[-1] * (1 + 1e-9)]
    gaps = series.held(path.at, path.best, np.array(places))
    out: dict[str, float | None] = {
        f"relative gap at {p:g} {unit}": float(v) for p, v in zip(places, gaps, strict=True)
    }
    feasible = [i for i, r in enumerate(path.records) if r["feasible"]]
    out[f"{unit} to the first feasible iterate"] = float(path.at[feasible[0]]) if feasible else np.inf
    out[OUTER] = len(path.updates) if path.has_outer else None
    answers = [r["feasible"] for r in path.records if r["answer"]]
    out[FEASIBLE] = float(np.mean(answers)) if answers else None
    good = all(path.records[i]["worst"] <= 0 for i in path.updates)
    out[EVERY] = float(good) if len(path.updates) else None
    out[unit], out["steps"], out["seconds"] = float(path.at[-1]), run.result["steps"], run.result["seconds"]
    return out


def findings(block: Block) -> list[dict[str, Any]]:
    """One entry: {"data", "subject", "against", "below": True, False or None where not judged, "text"}; places where
    two methods both have the optimum count for neither. A median is infinite where half
    of the runs have no feasible iterate."""
    compare, titles = block.compare, block.titles
    rivals = [m for m in compare.against if m in block.item.methods]
    lead = f"{block.study.data[block.data].title}: "
    same = {"data": block.data, "subject": compare.subject, "against": list(compare.against)}
    paths = {m: [Path(run, compare.axis) for run in its] for m, its in block.runs.items()}
    end = min(p.at[-1] for its in paths.values() for p in its) * (1 + 1e-9)
    at = np.arange(compare.since, end, compare.every)
    missing = [titles.get(m, m) for m in (compare.subject, *rivals) if m not in paths]
    if missing or not rivals or not len(at):
        why = "no run went far enough" if rivals else "it runs alone here"
        why = f"{' and '.join(missing)} did not finish" if missing else why
        return [{**same, "below": None, "text": f"{lead}not judged, as {why}. {_feasibility(block)}".strip()}]
    medians = {
        m: series.quartiles(np.array([series.held(p.at, p.best, at) for p in its]))["median"]
        for m, its in paths.items()
    }
    tolerance = max(LEVEL, next(iter(block.runs.values()))[0].result["unsure"])
    judged = [_against(titles[m], medians[compare.subject], medians[m], at, compare.axis, tolerance) for m in rivals]
    text = f"{lead}{titles[compare.subject]} is {'; '.join(part for _, part in judged)}. {_feasibility(block)}"
    return [{**same, "below": all(below for below, _ in judged), "text": text.strip()}]


def _against(
    rival: str, ours: np.ndarray, theirs: np.ndarray, at: np.ndarray, unit: str, tolerance: float
) -> tuple[bool, str]:
    """Whether our medians are below theirs wherever not both have the optimum, and that in words."""
    level = (np.abs(ours) <= tolerance) & (np.abs(theirs) <= tolerance)
    below = (ours < theirs) & ~level
    last = f"{_gap(ours[-1])} against {_gap(theirs[-1])} at {at[-1]:g}"
    if below.all():
        return True, f"below {rival} at all {len(at)} {unit} compared, {at[0]:g} to {at[-1]:g} ({last})"
    if (below | level).all() and below.any():
        return True, (
            f"below {rival} at {int(below.sum())} of {len(at)} {unit} compared and level at the others, where both have "
            "the optimum"
        )
    worst = int(np.flatnonzero(~below & ~level)[0]) if (~below & ~level).any() else 0
    first = f"first at {at[worst]:g}: {_gap(ours[worst])} against {_gap(theirs[worst])}"
    return False, f"NOT below {rival} at {int((~below).sum())} of {len(at)} {unit} compared ({first}; {last})"


def _gap(value: float) -> str:
    return f"{value:.3g}" if np.isfinite(value) else "no feasible iterate"


def _feasibility(block: Block) -> str:
    """In how many runs of each method every outer iterate is feasible."""
    parts = []
    for method in block.numbers:
        by = {r["column"]: r for r in block.rows if r["row"] == method}
        row, title = by[EVERY], block.titles[method]
        if row["n"]:
            parts.append(f"{title} {round(row['ours'] * row['n'])} of {row['n']}")
        if row["n"] < by[OUTER]["n"]:
            parts.append(f"{title} without any in {row['runs'] - row['n']} of {row['runs']}")
    return f"Runs whose every outer iterate is feasible: {', '.join(parts)}." if parts else ""


def overall(
    study: StudySpec, said: Sequence[Mapping[str, Any]], results: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The findings over all instances: on which share the subject is below all it is compared with, and where not."""
    titles = {m: study.methods[m].title for m in dict.fromkeys(m for item in study.items for m in item.methods)}
    names = {key: data.title for key, data in study.data.items()}
    out: list[dict[str, Any]] = []
    for subject in dict.fromkeys(f["subject"] for f in said):
        judged = [f for f in said if f["below"] is not None and f["subject"] == subject]
        if not judged:
            continue
        rivals = " and ".join(titles[m] for m in dict.fromkeys(m for f in judged for m in f["against"]) if m in titles)
        no = [names[f["data"]] for f in judged if not f["below"]]
        yes, of = len(judged) - len(no), len(judged)
        text = (
            f"{titles[subject]} has a lower gap among feasible iterates than {rivals}, where an item has them, at every "
            f"place compared (but for those where both have the optimum) on {yes} of {of} instances ({yes / of:.0%})."
        )
        text += f" Not on: {', '.join(no)}." if no else ""
        out.append({"question": "below", "yes": yes, "of": of, "not_on": no, "text": text})
    if left := [names[f["data"]] for f in said if f["below"] is None]:
        out.append({"question": "not judged", "text": f"Not judged: {', '.join(left)}."})
    return out + [f for method in titles if (f := _every_feasible(method, titles[method], names, results)) is not None]


def _every_feasible(
    method: str, title: str, names: Mapping[str, str], results: Sequence[Mapping[str, Any]]
) -> dict[str, Any] | None:
    """In how many runs of a method every outer iterate is feasible, and how many runs made none; None for a method
    that has no outer iterates."""
    rows = [r for r in results if r["row"] == method and r["column"] == EVERY]
    n = sum(r["n"] for r in rows)
    counted = sum(r["n"] for r in results if r["row"] == method and r["column"] == OUTER)
    if not counted:
        return None
    good, none = sum(round(r["ours"] * r["n"]) for r in rows if r["n"]), counted - n
    found = {"question": EVERY, "method": method, "good": good, "n": n, "none": none}
    if not n:
        return {**found, "text": f"{title}: no outer iterate in any of {none} runs."}
    low, high = (float(v) for v in clopper_pearson(good, n))
    text = f"{title}: every outer iterate feasible in {good} of {n} runs"
    text += " that made any" if none else ""
    text += f" (95 % interval {low:.3f} to {high:.3f})"
    text += f"; {count_of(none, 'other run')} made none." if none else "."
    short = [f"{names[r['data']]} ({round(r['ours'] * r['n'])} of {r['n']})" for r in rows if r["n"] and r["ours"] < 1]
    text += f" Not in all on: {', '.join(short)}." if short else ""
    return {**found, "text": text}
