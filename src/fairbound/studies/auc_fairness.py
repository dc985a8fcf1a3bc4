"""The measures of `auc-fairness`: linear scores under bounds on areas under ROC curves, on training and held-out rows.

Source: Yao, Lin, Yang (2023), section 6 and Appendix E, convex case.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from fairbound.base.errors import DataError, OptionError
from fairbound.estimators.auc_training import auc_start
from fairbound.fairness.measuring import measure
from fairbound.fairness.problem import FairProblem
from fairbound.methods.full_batch_alm import FullBatchALM
from fairbound.methods.method import Method, State, no_multipliers
from fairbound.models.mlp import MLP
from fairbound.postprocessing.scale_and_shift import ScaleAndShift
from fairbound.problems.problem import Draws, Measured, Problem
from fairbound.ranking.wins import auc
from fairbound.solver.solve import solve
from fairbound.studies.checked import known
from fairbound.studies.rows import NamedRows, check_shares, missing, shared_out
from fairbound.studies.spec import Cell
from fairbound.studies.table import Block
from fairbound.studies.task import Run, Task

PARTS = ("train", "test")
MEASURES = ("AUC", "difference")
KINDS = ("group", "inter", "intra")
STARTS = ("own", "exact")
SUBJECT = "ours"
FAMILIES = {
    "none": "training without a bound", "exact": "the exact solution", "proxy": "proxy-Lagrangian",
    "correlation": "the correlation penalty", "moved": "scaling and shifting",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of the task.

    dataset, options: of `fairbound.data.load`. group: the sensitive attribute, of two groups. kind: of `auc_parity`. bound: on the
    true difference of areas, 0 for none. start: "exact" begins at the exact solution under the quadratic loss whose kappa the
    true areas choose, as FairClassifier does. moved: scores are trained without a bound, on all rows at once, then scaled and
    shifted to meet it on the training rows.
    shares, stated_test, rows: of `shared_out`.
    """

    dataset: str
    group: str
    kind: str
    bound: float = 0.0
    start: str = "own"
    moved: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    shares: tuple[float, float, float] = (0.6, 0.2, 0.2)
    stated_test: bool = False
    rows: int = 0

    def __post_init__(self) -> None:
        known("the task", "kind", self.kind, KINDS)
        known("the task", "start", self.start, STARTS)
        check_shares(self.shares)
        if not 0 <= self.bound <= 1:
            raise OptionError(f"bound must be in [0, 1], got {self.bound}.")
        if (self.moved or self.start == "exact") and self.bound == 0:
            raise OptionError("an exact start and moved scores need a bound above 0.")
        if self.moved and self.start == "exact":
            raise OptionError("moved scores are trained without a bound, and so have no exact start; leave start out.")

    @property
    def metric(self) -> str:
        return f"auc_parity[{self.kind}]"


@dataclass(frozen=True, kw_only=True)
class Unmoved(Method[State]):
    """Takes the point where it begins, for starts that are solutions already. It counts outer iterates, of which there are none,
    so that `solve` looks for no other point near it."""

    name: ClassVar[str] = "unmoved"

    def init(self, problem: Problem, x: Tensor, draws: Draws) -> State:
        """At x (..., n), and the run is over."""
        none = torch.zeros(x.shape[:-1], dtype=torch.int64, device=x.device)
        return State(x=x, k=0, multipliers=no_multipliers(problem, x), outer=none, halted=True)

    def step(self, state: State, problem: Problem, draws: Draws) -> State:
        """The same state."""
        return state.next()


def absent(given: Mapping[str, Any], data_dir: str | None) -> str:
    """Why a data set cannot be had; "" where it can."""
    return missing(given, data_dir)


def task(cell: Cell, data_dir: str | None) -> Task:
    """The training rows of the cell's seed as a problem of largest area, measured on training and test rows."""
    asked = Options(**cell.task)
    parts = shared_out(
        asked.dataset, asked.options, asked.group, asked.shares, cell.seed, data_dir, purpose="auc fairness",
        stated_test=asked.stated_test, most=asked.rows,
    )  # fmt: skip
    train = parts["train"]
    stated = [f"{asked.metric} <= {asked.bound}"] if asked.bound and not asked.moved else []
    model = MLP(train.x.shape[1], bias=False)
    problem = FairProblem(model, train.x, train.y, train.group, stated, objective="auc")
    options: dict[str, Any] = {}
    if asked.start == "exact":
        start = auc_start(problem)
        if start is None:
            raise DataError(f"{asked.dataset!r} has no exact start: it has too many features, or groups without rows.")
        options["x0"] = start.x

    def scores(x: Tensor) -> dict[str, np.ndarray]:
        theta = problem.split(x)[0]
        return {n: model.scores(theta, torch.from_numpy(p.x)).double().numpy() for n, p in parts.items()}

    move: ScaleAndShift | None = None
    if asked.moved:
        options["x0"] = solve(problem, FullBatchALM(), budget=cell.budget, sampling="full", seed=cell.seed).x
        move = ScaleAndShift(f"{asked.metric} <= {asked.bound}", rows=None)
        move.fit(scores(options["x0"])["train"], train.y, train.group)

    def of(x: Tensor) -> dict[str, float]:
        out: dict[str, float] = {}
        for name, s in scores(x).items():
            out |= _measured(
                name, asked.metric, parts[name], s if move is None else move.transform(s, parts[name].group)
            )
        return out

    def watch(x: Tensor, measured: Measured) -> dict[str, float]:
        return {"objective": float(measured.f), "violation": float(measured.violation)}

    about = f"{len(train.y):,} training and {len(parts['test'].y):,} test rows"
    return Task(problem, watch, of, options=options, about=about)


def _measured(name: str, metric: str, part: NamedRows, scores: np.ndarray) -> dict[str, float]:
    """MEASURES of the part's scores (n,)."""
    found = auc(scores, part.y == 1, part.y == 0), measure(metric, scores, part.y, part.group, threshold=0.0)
    return {f"{name} {word}": float(value) for word, value in zip(MEASURES, found, strict=True)}


def numbers(run: Run, compare: None) -> dict[str, float | None]:
    """The measures of the reported model, whether it meets its bound on training and on test rows, and what the run cost."""
    model, bound = run.models[run.output], run.result["task"]["bound"]
    found: dict[str, float | None] = {f"{part} {name}": model[f"{part} {name}"] for part in PARTS for name in MEASURES}
    for part in PARTS:
        found[f"{part} met"] = float(model[f"{part} difference"] <= bound) if bound else None
    return found | {"seconds": run.result["seconds"], "steps": run.result["steps"]}


def findings(block: Block) -> list[dict[str, Any]]:
    """Of every other method: at how many of its points ours has a point of no larger difference and no smaller area."""
    points: dict[str, list[tuple[float, float]]] = {}
    for method, found in block.numbers.items():
        difference, area = (float(np.mean(list(found[f"test {name}"].values()))) for name in reversed(MEASURES))
        points.setdefault(method.partition("-")[0], []).append((difference, area))
    mine = points.pop(SUBJECT, [])
    return [_compared(block, family, its, mine) for family, its in points.items() if mine]


def _compared(
    block: Block, family: str, its: list[tuple[float, float]], mine: list[tuple[float, float]]
) -> dict[str, Any]:
    behind = [area - max((a for d, a in mine if d <= difference), default=-np.inf) for difference, area in its]
    held, fairer = sum(short <= 0 for short in behind), sum(short == np.inf for short in behind)
    some = [short for short in behind if 0 < short < np.inf]
    text = (
        f"On test rows (means) ours has as large an area at as small a difference at {held} of {len(its)} points of "
        f"{FAMILIES.get(family, family)}"
    )
    text += f"; points at which its area is smaller: {len(some)}, by at most {max(some):.4f}" if some else ""
    text += f"; points of a smaller difference than all of ours: {fairer}" if fairer else ""
    return {"text": f"{text}.", "family": family, "held": held, "points": len(its), "item": block.item.key}
