"""The measures of `plada`: loss, violation and near-stationarity of a constrained problem along the way, and many
groups.

Bounds are measured as they are trained, by their surrogates (15) and (17), so that all methods solve the same smooth
problem. The *reference* of a data set is the objective that the augmented Lagrangian on all rows with L-BFGS inside
comes to, run to convergence on the same problem. A run has *arrived* where its largest violation is at most VIOLATION
and its objective within NEAR of the reference.

Source: "A modified proximal-perturbed Lagrangian for non-convex non-smooth representatives of fairness constraints",
    section 5 and appendix D.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairbound.base import series
from fairbound.base.errors import OptionError
from fairbound.base.seeds import seed_for
from fairbound.data import load, threshold_groups
from fairbound.data.communities import THRESHOLDS
from fairbound.fairness.notions import constraint
from fairbound.fairness.problem import FairProblem
from fairbound.fairness.ranking_problem import RankingProblem
from fairbound.methods import FullBatchALM
from fairbound.models.model import model_of
from fairbound.problems.problem import Measured, Problem
from fairbound.problems.wrappers import Surrogates
from fairbound.rows.groups import Groups
from fairbound.rows.queries import split_by_query
from fairbound.rows.split import stratified_split
from fairbound.solver.solve import solve
from fairbound.studies import compare
from fairbound.studies.mean_bound import MeanBound
from fairbound.studies.rows import checksum, load_rows, missing, standardised
from fairbound.studies.spec import TUNED, Cell, StudySpec
from fairbound.studies.table import Block
from fairbound.studies.task import Row, Run, Task
from fairbound.subproblems.multipliers import kkt

VIOLATION, NEAR = 1e-3, 0.01
ARRIVED = ("cpu", "passes", "calls")
STATISTICS = {"* to arrive": "reached"}
CRIME = "communities-crime"
SUBJECT = "plada"


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of the task.

    model: as in `model_of`. constraint: the bound. loss: of rows. dataset, options, group, groups: see `load_rows`;
    without a group the data are Communities and Crime, its 535 groups of three census shares, and rows held apart for
    validation. ranked: the rows are documents of queries, a fifth of which is held apart. mean: the mean of the 535
    groups' constraints is the only one.
    """

    dataset: str
    constraint: str
    model: str = "linear"
    loss: str = "logistic"
    group: str = ""
    groups: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    ranked: bool = False
    mean: bool = False

    def __post_init__(self) -> None:
        if not self.group and self.dataset != CRIME:
            raise OptionError(
                f"the task needs a group to compare, but on {CRIME!r}, whose groups are made by thresholds."
            )
        if self.mean and (self.group or self.ranked):
            raise OptionError(f"mean is of the groups of {CRIME!r}; leave it out with group and with ranked rows.")
        constraint(self.constraint)


absent = missing


def task(cell: Cell, data_dir: str | None) -> Task:
    """The problem of the cell's data, judged by its surrogates; of many groups with validation rows beside."""
    asked = Options(**cell.task)
    if asked.ranked:
        return _of_queries(asked, cell, data_dir)
    return _of_groups(asked, cell, data_dir) if not asked.group else _of_rates(asked, cell, data_dir)


def _of_rates(asked: Options, cell: Cell, data_dir: str | None) -> Task:
    rows = load_rows(asked.dataset, asked.options, asked.group, asked.groups, cell.seed, data_dir)
    part = rows.train
    model, groups = model_of(asked.model, part.x.shape[1]), part.coded(asked.group, asked.groups)
    problem = Surrogates(FairProblem(model, part.x, part.y, groups, asked.constraint, loss=asked.loss))
    best = _reference(json.dumps(dict(cell.task), sort_keys=True), cell.seed, problem)

    def watch(x: Tensor, measured: Measured) -> dict[str, float]:
        return {
            "loss": float(measured.f),
            "violation": _worst(measured),
            "stationarity": kkt(problem, x).stationarity,
        }

    return Task(
        problem, watch, lambda x: {**watch(x, problem.evaluate(x)), "seed": cell.seed},
        lambda records: derive(records, best), checksum=rows.checksum,
        about=f"{len(part):,} training rows, {problem.m} constraints, {problem.n} parameters; reference objective {best:.6f}",
        facts={"reference": best},
    )  # fmt: skip


_found: dict[tuple[str, int], float] = {}


def _reference(task: str, seed: int, problem: Problem) -> float:
    """The objective that the augmented Lagrangian on all rows converges to; found once a process."""
    if (task, seed) not in _found:
        method = FullBatchALM(sharpness=(1.0,), margin=0.0, iterations=60, tolerance=1e-7, patience=4, rounds=60)
        solution = solve(problem, method, budget="60 steps", sampling="full")
        _found[task, seed] = float(problem.evaluate(solution.x if solution.found else solution.last).f)
    return _found[task, seed]


@functools.lru_cache(maxsize=2)
def _communities(data_dir: str | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features (n, 99), labels (n,) with the 70 % quantile as threshold, and memberships (535, n)."""
    data = load(CRIME, data_dir, threshold=0.28)
    members, _ = threshold_groups(data, thresholds=THRESHOLDS)
    return np.asarray(data.X, dtype=np.float64), data.y, members


def _of_groups(asked: Options, cell: Cell, data_dir: str | None) -> Task:
    X, y, members = _communities(data_dir)
    known_by = checksum(X, y, members.sum(0))
    held, train = stratified_split(y.reshape(-1, 1), [0.8], cell.seed)
    train, held = (train, held) if len(train) > len(held) else (held, train)
    X = standardised(X, train).astype(np.float32)
    labels = tuple(("out", f"subgroup {i}") for i in range(len(members)))
    names = tuple(f"g{i}" for i in range(len(members)))
    model = model_of(asked.model, X.shape[1])
    parts = {
        part: Surrogates(FairProblem(
            model, X[rows], y[rows], Groups(members.T[rows].astype(np.int64), names, labels), asked.constraint, loss=asked.loss
        ))
        for part, rows in (("train", train), ("validation", held))
    }  # fmt: skip

    def seen(its: Any, x: Tensor, found: Measured) -> dict[str, float]:
        error = ((its.all_scores(x) > 0) != (its.targets > 0.5)).double().mean()
        return _part_seen(found.f, found.g.clamp_min(0), error) | {
            "violation of the mean": max(float(found.g.mean()), 0.0)
        }

    train_m, held_m = (its.m for its in parts.values())
    rows = f"{len(train):,} training and {len(held):,} validation rows"
    bounded = "in one mean that is bounded" if asked.mean else "bounded"
    return _watched(
        parts, seen, f"{rows}; {train_m} subgroups with training rows {bounded}, {held_m} with validation rows",
        known_by, MeanBound(parts["train"]) if asked.mean else None,
    )  # fmt: skip


def _watched(
    parts: dict[str, Any],
    seen: Callable[..., dict[str, float]],
    about: str,
    checksum: str,
    trained: Problem | None = None,
) -> Task:
    """Training on the first of the parts, with records of all of them. seen: of a problem, x and its measurement there,
    name -> value. about: what is said of the parts. checksum: of the data. trained: another problem on the rows of the
    first."""
    problem = trained or next(iter(parts.values()))

    def watch(x: Tensor, measured: Measured) -> dict[str, float]:
        found = {part: measured if its is problem else its.evaluate(x) for part, its in parts.items()}
        return {f"{part} {k}": v for part, its in parts.items() for k, v in seen(its, x, found[part]).items()}

    return Task(
        problem, watch, lambda x: watch(x, problem.evaluate(x)), about=f"{about}; {problem.n:,} parameters",
        checksum=checksum,
    )  # fmt: skip


def _part_seen(loss: Tensor, excess: Tensor, error: Tensor) -> dict[str, float]:
    """What is recorded of a part; excess: (m,) over each bound, 0 where it is met."""
    violations = {"mean violation": float(excess.mean()), "worst violation": float(excess.max())}
    return {"loss": float(loss), **violations, "error": float(error)}


def _of_queries(asked: Options, cell: Cell, data_dir: str | None) -> Task:
    """A bound on every query, of which a batch sees a few: violations of the surrogate that is trained, and the share
    of constraints that the stated metric breaks."""
    data = load(asked.dataset, data_dir, **asked.options)
    numbers = split_by_query(data.qid, [0.2], seed_for("validation", root=cell.seed))
    X, group = np.asarray(data.X, dtype=np.float64), data.group(asked.group)
    known_by = checksum(X, data.y, group)
    X = standardised(X, numbers[0]).astype(np.float32)
    model = model_of(asked.model, X.shape[1])
    parts = {
        part: RankingProblem(
            model, torch.as_tensor(X[rows]), np.asarray(data.y)[rows], np.asarray(data.qid)[rows],
            {asked.group: group[rows]}, asked.constraint, loss=asked.loss,
        )
        for part, rows in zip(("train", "validation"), numbers, strict=True)
    }  # fmt: skip

    def seen(its: Any, x: Tensor, found: Measured) -> dict[str, float]:
        excess = its.values(x, its.sample((cell.seed,), "watch", 0, its.rows, "full")).g.clamp_min(0)
        of_part = _part_seen(found.f, excess, found.extra["pair_error"])
        return of_part | {"broken": float((found.g > 0).double().mean())}

    train, held = parts.values()
    queries = f"{train.rows:,} training and {held.rows:,} validation queries"
    return _watched(parts, seen, f"{queries}; {train.m:,} and {held.m:,} constraints", known_by)


def _worst(measured: Measured) -> float:
    return float(measured.g.clamp_min(0).max())


def derive(records: list[Row], best: float) -> None:
    """Adds to each record its gap to the reference, over it, and whether it has arrived."""
    for r in records:
        r["gap"] = r["loss"] / best - 1
        r["arrived"] = float(r["violation"] <= VIOLATION and r["gap"] <= NEAR)


def numbers(run: Run, compare: None) -> dict[str, float | None]:
    """The measures of the last iterate, where the run arrived, and what it cost."""
    model = run.models[run.output]
    out: dict[str, float | None] = {k: float(v) for k, v in model.items() if isinstance(v, float)}
    if "reference" in run.result:
        there = np.array([r["arrived"] > 0 for r in run.records])
        out["gap"] = model["loss"] / run.result["reference"] - 1
        for axis in ARRIVED:
            out[f"{axis} to arrive"] = series.first_reached([r[axis] for r in run.records], there)
        out["evaluations that have arrived, second half"] = float(np.mean(there[len(there) // 2 :]))
    steps, cpu = run.result["steps"], run.records[-1]["cpu"]
    return out | {"cpu": cpu, "steps": steps, "milliseconds a step": 1e3 * cpu / max(steps, 1)}


def findings(block: Block) -> list[dict[str, Any]]:
    """Who arrives first on each data set; of many groups, whether the violations are small and who is below whom."""
    numbers, titles = block.numbers, block.titles
    if any("validation loss" in by for by in numbers.values()):
        columns = ("train mean violation", "train worst violation", "validation mean violation", "validation worst violation",
                   "validation error")  # fmt: skip
        return [f for c in columns if (f := compare.lowest(numbers, titles, c, f"lowest {c}")) is not None]
    arrived = {m: compare.values(by, "cpu to arrive") for m, by in numbers.items()}
    medians = {m: float(np.median(list(v.values()))) for m, v in arrived.items() if v}
    order = sorted(medians, key=medians.__getitem__)
    late = [titles[m] for m in numbers if m not in medians]
    words = ", ".join(f"{titles[m]} {medians[m]:.2f} s" for m in order) or "none"
    text = f"{block.study.data[block.data].title}: first with violation at most {VIOLATION:g} and within {NEAR:.0%} of the reference: {words}."
    text += f" Not in time: {', '.join(late)}." if late else ""
    return [{"question": "arrives", "data": block.data, "winner": order[0] if order else None, "text": text}]


def overall(
    study: StudySpec, said: Sequence[Mapping[str, Any]], results: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """In how many panels PLADA, untuned, arrives before every other method, tuned where tuned runs are there; nothing
    of a study whose panels lack PLADA or any other method."""
    run = {method for item in study.items if item.key == "panels" for method in item.methods}
    if SUBJECT not in run or all(method.startswith(SUBJECT) for method in run):
        return []
    panels: dict[str, dict[str, float]] = {}
    for row in results:
        if row["column"] == "cpu to arrive" and row["item"] in ("panels", "panels" + TUNED):
            panels.setdefault(row["data"], {})[row["row"]] = np.inf if row["ours"] is None else row["ours"]
    if not panels:
        return []
    won, lost = [], []
    for data, times in panels.items():
        own = times.get(SUBJECT, np.inf)
        others = [t for m, t in times.items() if not m.removesuffix(TUNED).startswith(SUBJECT)]
        if own < min(others, default=np.inf):
            won.append(data)
        else:
            lost.append(study.data[data].title)
    tuned = any(m.endswith(TUNED) for times in panels.values() for m in times)
    text = (
        f"PLADA with one parameter set arrives before every baseline ({'as tuned and as set' if tuned else 'as set, not tuned'}) in "
        f"{len(won)} of {len(panels)} panels."
    )
    return [
        {
            "question": "panels",
            "won": won,
            "of": len(panels),
            "text": text + (f" Not in: {', '.join(lost)}." if lost else ""),
        }
    ]
