"""The measures of `which-method`: methods with their defaults over data sets, bounds and models, and what `auto` makes
of each.

A cell of the comparison is a data set, a bound and a model. Of every run the best iterate by the stated metric counts:
first whether it meets the bound on the training rows, then its mean logistic loss there, then the processor time at
which it was found. The method `auto` is what FairClassifier trains by (`estimators.training`). Where its first run
meets no bound it makes further ones, each as long, which the numbers of the whole run show.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fairbound.base.errors import OptionError
from fairbound.base.seeds import seed_for
from fairbound.data import load
from fairbound.estimators.choosing import chosen
from fairbound.estimators.problems import Problems
from fairbound.estimators.training import TrainingOptions, train
from fairbound.fairness.notions import constraint
from fairbound.fairness.problem import FairProblem
from fairbound.models.model import Model, model_of
from fairbound.problems.problem import Measured
from fairbound.solver.budget import Budget
from fairbound.solver.solve import Solution
from fairbound.studies.rows import SplitRows, StudyRows, checksum, divided, load_rows, missing
from fairbound.studies.spec import TUNED, Cell, StudySpec
from fairbound.studies.table import Block
from fairbound.studies.task import Row, Run, Task

IMAGES, SIDE = "mnist-test", 28
CONVOLUTIONS = "conv"
TEST_SHARE = 0.2
NEAR = (0.01, 0.02, 0.05)
"""How far above the lowest loss a method may be for the profile, as shares of that loss; the first is for `auto`."""

AUTO = "auto"


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of the task.

    model: as in `model_of`, or "conv", two small convolutions. constraint: the bound. dataset, options, group, groups:
    see `load_rows`; without a group the data are MNIST's test images: a digit of 5 or more, strokes thicker or thinner
    than the median image's. door: "" for the cell's own method, "auto" for what FairClassifier takes.
    """

    dataset: str
    constraint: str
    model: str = "linear"
    group: str = ""
    groups: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    door: str = ""

    def __post_init__(self) -> None:
        if (not self.group) != (self.dataset == IMAGES):
            raise OptionError(f"state the group to compare, on every data set but {IMAGES!r}.")
        if self.door not in ("", AUTO):
            raise OptionError(f"door must be '' or {AUTO!r}, got {self.door!r}.")
        constraint(self.constraint)


absent = missing


def task(cell: Cell, data_dir: str | None) -> Task:
    """The training rows of the cell's seed as a problem, watched on them; the models measured on test rows too, those
    of a trial on both together."""
    asked = Options(**cell.task)
    rows = _images(cell.seed, data_dir, cell.held) if not asked.group else load_rows(
        asked.dataset, asked.options, asked.group, asked.groups, cell.seed, data_dir, cell.held
    )  # fmt: skip
    model = _model(asked.model, rows.train.x, cell.seed)
    parts = {"train": rows.train, "test": rows.test, **({"together": rows.together()} if cell.held else {})}
    judged = {part: _problem(asked, model, its) for part, its in parts.items()}
    problem = judged["train"]

    def watch(x: Tensor, measured: Measured) -> dict[str, float]:
        return {"loss": float(measured.f), "excess": float(measured.g.clamp_min(0).max())}

    def measure(x: Tensor) -> dict[str, Any]:
        seen = {part: its.evaluate(x) for part, its in judged.items()}
        moved = float((x - problem.start((cell.seed,))).norm()) > 0
        return {"moved": float(moved)} | {
            f"{part} {k}": v for part, its in seen.items() for k, v in watch(x, its).items()
        }

    return Task(
        problem, watch, measure, checksum=rows.checksum,
        about=f"{len(rows.train):,} training rows, {problem.m} constraints, {problem.n:,} parameters",
        trained=functools.partial(_auto, asked, model, problem) if asked.door else None,
    )  # fmt: skip


def _auto(
    asked: Options, model: Model, problem: FairProblem, *, budget: str, batch_size: int, sampling: str, seed: int
) -> Solution:
    """What FairClassifier does under "auto" with the loss as objective, all rows being training rows. Its seconds are
    those of the processor, of all runs and with their evaluations."""
    began = time.thread_time()
    stated = [constraint(asked.constraint)]
    choice = chosen(AUTO, model, problem.features, loss="logistic", objective="loss", stated=stated)
    limit = Budget.of(budget).from_now()
    trained = train(Problems(problem), choice, TrainingOptions(limit, batch_size, sampling, seed))
    solution = replace(trained.solution, seconds=time.thread_time() - began)
    solution.records[:] = [_kept(row, problem.rows) for row in solution.records]
    return solution


def _kept(row: Row, rows: int) -> Row:
    excess = torch.as_tensor(row["train"]["g"]).clamp_min(0)
    return {
        "step": row["step"], "seconds": row["seconds"], "cpu": row["seconds"], "samples": row["samples"],
        "passes": row["samples"] / rows, "loss": float(row["train"]["f"]), "excess": float(excess.max()),
    }  # fmt: skip


def _problem(asked: Options, model: Model, part: StudyRows) -> FairProblem:
    names = asked.groups or ("thinner", "thicker")
    return FairProblem(model, part.x, part.y, part.coded(asked.group or "stroke", names), asked.constraint)


def _model(text: str, x: np.ndarray, seed: int) -> Model:
    if text != CONVOLUTIONS:
        return model_of(text, x.shape[1])
    with torch.random.fork_rng():
        torch.manual_seed(seed_for("convolutions", root=seed))
        module = nn.Sequential(
            nn.Conv2d(1, 8, 5, stride=2), nn.ReLU(), nn.Conv2d(8, 16, 5, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(256, 1)
        )  # fmt: skip
    return model_of(module, x.shape[1])


@functools.lru_cache(maxsize=1)
def _pixels(data_dir: str | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Images (n, 1, 28, 28), whether the digit is at least 5,
    and whether the image holds more ink than the median one."""
    data = load(IMAGES, data_dir)
    x = np.asarray(data.X, dtype=np.float32).reshape(-1, 1, SIDE, SIDE)
    ink = x.mean(axis=(1, 2, 3))
    return x, (np.asarray(data.y) >= 5).astype(np.int64), (ink > np.median(ink)).astype(np.int64)


def _images(seed: int, data_dir: str | None, held: float) -> SplitRows:
    x, y, group = _pixels(data_dir)
    every = StudyRows(x, y, group, checksum(x, y, group))
    train, test = divided(every, TEST_SHARE, seed, "images")
    if held:
        train, test = divided(train, held, seed, "tuning")
    return SplitRows(train, test)


def numbers(run: Run, compare: None) -> dict[str, float | None]:
    """Numbers of the best iterate: whether it meets the bound and is not the start, its losses, its excess on test
    rows, and when it was found; the processor seconds and steps of the whole run."""
    model, records = run.models["best"], run.records
    met = float(model["train excess"] <= 0 and model["moved"] > 0)
    at = [r["cpu"] for r in records if r["step"] >= model["step"]]
    return {
        "meets the bound": met,
        "train loss": model["train loss"], "test loss": model["test loss"], "test excess": model["test excess"],
        "train loss where met": model["train loss"] if met else None,
        "found at": (at or [records[-1]["cpu"]])[0] if met else None,
        "cpu": run.result["seconds"], "steps": run.result["steps"],
    }  # fmt: skip


def findings(block: Block) -> list[dict[str, Any]]:
    """The order of the methods on one cell: feasible runs first, then the mean loss, then the time."""
    ranked = sorted(block.numbers, key=lambda m: _rank(block.rows, m))
    words = []
    for m in ranked:
        met, loss, _ = _rank(block.rows, m)
        words.append(f"{block.titles[m]} {loss:.4f}" if met == 0 else f"{block.titles[m]} missed")
    text = f"{block.study.data[block.data].title}: {', '.join(words)}."
    return [{"question": "order", "data": block.data, "winner": ranked[0], "text": text}]


def _rank(rows: Sequence[Mapping[str, Any]], method: str) -> tuple[float, float, float]:
    """Share of runs that miss the bound, mean loss and time of the others."""
    found = {r["column"]: r["ours"] for r in rows if r["row"] == method}
    loss, at = found.get("train loss where met"), found.get("found at")
    return 1 - (found["meets the bound"] or 0), np.inf if loss is None else loss, np.inf if at is None else at


def overall(
    study: StudySpec, said: Sequence[Mapping[str, Any]], results: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """For every method, in how many cells all its runs meet the bound, and in how many they come within 1, 2 and 5 % of
    the lowest mean loss of a method that does. With tuned runs, once more for these and for the methods without a grid,
    beside the lowest loss of any method, tuned or not."""
    tuned = [r for r in results if r["item"].endswith(TUNED)]
    own = [r for r in results if not r["item"].endswith(TUNED)]
    out = _profile(study, own, list(dict.fromkeys(r["row"] for r in own)), "profile", "")
    if tuned:
        fixed = [r["row"] for r in own if not study.methods[r["row"]].grid]
        shown = list(dict.fromkeys([*fixed, *(r["row"] for r in tuned)]))
        out += _profile(study, results, shown, "profile, tuned", " of any method, tuned or not")
    return out


def _profile(
    study: StudySpec, rows: Sequence[Mapping[str, Any]], shown: Sequence[str], question: str, words: str
) -> list[dict[str, Any]]:
    """The counts of the methods `shown`, beside the lowest loss in `rows`."""
    by_cell: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_cell.setdefault(row["data"], []).append(row)
    ranks = {d: {m: _rank(its, m) for m in dict.fromkeys(r["row"] for r in its)} for d, its in by_cell.items()}
    lowest = {
        d: min((loss for missed, loss, _ in by.values() if missed == 0), default=np.inf) for d, by in ranks.items()
    }
    out = []
    for m in shown:
        own = {d: by[m] for d, by in ranks.items() if m in by}
        met = [d for d, (missed, _, _) in own.items() if missed == 0]
        near = [sum(own[d][1] <= lowest[d] * (1 + share) for d in met) for share in NEAR]
        title = study.methods[m].title if m in study.methods else m.removesuffix(TUNED)
        counts = ", ".join(f"{n} within {share:.0%}" for n, share in zip(near, NEAR, strict=True))
        out.append({
            "question": question, "method": m, "cells": len(own), "met": len(met), "near": near,
            "missed": [d for d in own if d not in met], "far": [d for d in met if own[d][1] > lowest[d] * (1 + NEAR[0])],
            "text": f"{title}: bound met in every run of {len(met)} of {len(own)} cells; of the lowest loss{words}, {counts}.",
        })  # fmt: skip
    return sorted(out, key=lambda f: (-f["met"], -f["near"][0]))
