"""The measures of `auc-fairness`: linear scores and networks under bounds on areas under ROC curves, on training and
held-out rows.

Source: Yao, Lin, Yang (2023), section 6 and Appendix E.
Departs: an iterate must meet the bound on the training rows and on the validation rows, where the source names the
latter alone. Scaling and shifting moves the smaller group, on bank not the source's (see `ScaleAndShift`).
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from time import process_time
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairbound.base.errors import DataError, OptionError
from fairbound.estimators.linear.group_starts import area_start
from fairbound.estimators.runs import solution_of
from fairbound.fairness.area_problems.linear_auc import LinearAUC
from fairbound.fairness.area_problems.saddle_problem import PairSaddleProblem
from fairbound.fairness.measuring import measure
from fairbound.fairness.problem import FairProblem
from fairbound.methods.full_batch_alm import FullBatchALM
from fairbound.models.mlp import MLP
from fairbound.models.model import Model
from fairbound.postprocessing.scale_and_shift import ScaleAndShift
from fairbound.problems.problem import Measured
from fairbound.ranking.wins import auc
from fairbound.solver.solve import solve
from fairbound.studies import compare
from fairbound.studies.checked import known
from fairbound.studies.rows import StudyRows, check_shares, missing, shared_out
from fairbound.studies.shrunk_network import group_scaled, network, shrunk
from fairbound.studies.spec import Cell
from fairbound.studies.table import Block
from fairbound.studies.task import Before, Run, Task

PARTS = ("train", "test")
MEASURES = ("AUC", "difference")
KINDS = ("group", "inter", "intra")
STARTS = ("own", "exact", "trained")
MODELS = ("linear", "network")
SUBJECT, KNOWING = "ours", "known"
FAMILIES = {
    "exact": "the exact solution", "levels": "level sets", "proxy": "proxy-Lagrangian",
    "correlation": "the correlation penalty", "moved": "scaling and shifting",
}  # fmt: skip
MOVED_ROWS = 10_000  # on which scales and shifts are tried
C1 = 0.5  # of the quadratic loss: the loss of a constant score


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of the task.

    dataset, options: of `fairbound.data.load`. group: the sensitive attribute, of two groups. kind: of `auc_parity`.
    model: "linear", or "network" with one hidden layer of sigmoids. bound: on the true difference of areas, 0 for none.
    kappa: of the quadratic loss in min-max form, which is then the problem; 0 for the true bound. reach: of its inner
    variables. start: "exact" begins at the exact solution under the quadratic loss whose kappa the true areas choose,
    "trained" at the model that FairClassifier trains under the bound, or at the network of `shrunk`, which takes no
    bound too. moved: scores are trained without a bound, in the same way, then scaled and shifted to meet it on the
    training rows. group_terms: whether the model has weights of each group, or a network a scale and a shift, which
    must then be known of the rows scored, as for scaling and shifting.
    shares, stated_test, rows: of `shared_out`. No validation rows where their share is 0.
    """

    dataset: str
    group: str
    kind: str
    model: str = "linear"
    bound: float = 0.0
    kappa: float = 0.0
    reach: float = 1.5
    start: str = "own"
    moved: bool = False
    group_terms: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    shares: tuple[float, float, float] = (0.6, 0.2, 0.2)
    stated_test: bool = False
    rows: int = 0

    def __post_init__(self) -> None:
        known("the task", "kind", self.kind, KINDS)
        known("the task", "start", self.start, STARTS)
        known("the task", "model", self.model, MODELS)
        check_shares(self.shares)
        if not 0 <= self.bound <= 1:
            raise OptionError(f"bound must be in [0, 1], got {self.bound}.")
        if self.kappa and (self.kappa < 0 or self.bound or self.start != "own" or self.moved):
            raise OptionError("kappa is positive and stands alone: leave bound, start and moved out.")
        if self.start == "exact" and self.model != "linear":
            raise OptionError("start='exact' is for a linear model.")
        if self.shrinks and self.shares[1] == 0:
            raise OptionError(
                "the decay of a network is chosen by validation rows; leave a share of the rows for them."
            )
        needs = self.moved or (self.start != "own" and self.model == "linear")
        if needs and self.bound == 0:
            raise OptionError("exact and trained starts and moved scores need a bound above 0.")
        if self.moved and self.start != "own":
            raise OptionError("moved scores are trained without a bound; leave start out.")

    @property
    def metric(self) -> str:
        return f"auc_parity[{self.kind}]"

    @property
    def shrinks(self) -> bool:
        """Whether it takes a network of `shrunk`."""
        return self.model == "network" and (self.moved or self.start == "trained")


absent = missing


def task(cell: Cell, data_dir: str | None) -> Task:
    """The training rows of the cell's seed as a problem of largest area, chosen by the validation rows,
    measured on all parts."""
    asked = Options(**cell.task)
    parts, model = _parts(asked, cell.seed, data_dir)
    problem = _problem(asked, model, parts["train"])
    options: dict[str, Any] = {"nonfinite": "skip" if asked.kappa else "raise"}
    if "validation" in parts:
        options["validation"] = _problem(asked, model, parts["validation"])
    run: dict[str, Any] = {
        "budget": cell.budget, "sampling": "full", "seed": cell.seed, "validation": options.get("validation"),
    }  # fmt: skip
    before, began = None, process_time()
    if asked.shrinks:
        options["x0"], before = _shrunk_start(asked, cell, problem, run["validation"], data_dir)
        began = process_time() - before.seconds
    elif asked.start != "own":
        options["x0"], before = _exact_start(asked, problem, run)

    def scores(x: Tensor) -> dict[str, np.ndarray]:
        theta = x[..., : model.n]
        return {n: model.scores(theta, torch.from_numpy(p.x)).detach().double().numpy() for n, p in parts.items()}

    move: ScaleAndShift | None = None
    if asked.moved:
        if before is None:
            before = Before("the model without a bound, scaled and shifted")
            options["x0"] = before.add(solve(problem, FullBatchALM(), **run)).x
        move = ScaleAndShift(f"{asked.metric} <= {asked.bound}", rows=MOVED_ROWS)
        move.fit(scores(options["x0"])["train"], parts["train"].y, parts["train"].group)
    if before is not None:
        before.seconds = process_time() - began

    def of(x: Tensor) -> dict[str, float]:
        out: dict[str, float] = {}
        for name, s in scores(x).items():
            part = parts[name]
            out |= _measured(name, asked.metric, part, s if move is None else move.transform(s, part.group))
        return out

    optimum = _optimum(asked, parts["train"])

    def watch(x: Tensor, measured: Measured) -> dict[str, float]:
        seen = {"objective": float(measured.f), "violation": float(measured.violation)}
        if asked.kappa:
            seen["excess"] = float(measured.g.max())
        if optimum is not None:
            seen["gap"] = max((seen["objective"] - optimum) / (C1 - optimum), 0.0)
        return seen

    about = ", ".join(f"{len(part.y):,} {name}" for name, part in parts.items()) + " rows"
    facts, checksum = {"rows": problem.rows}, parts["train"].checksum
    return Task(problem, watch, of, options=options, about=about, checksum=checksum, facts=facts, before=before)


def _shrunk_start(
    asked: Options, cell: Cell, problem: Any, validation: Any, data_dir: str | None
) -> tuple[Tensor, Before]:
    """The point (n,) of a network of `shrunk`, and what it cost, with what was trained for several bounds at once."""
    x0, before = problem.start((cell.seed,)), Before("the trained network")
    if asked.moved or asked.group_terms or not asked.bound:
        unbound = {"kind": "group", "moved": False, "bound": 0.0, "start": "trained", "group_terms": False}
        x0, free = _without_bound(json.dumps({**cell.task, **unbound}), cell.seed, cell.budget, data_dir)
        before = replace(free)
    began = process_time()
    if asked.bound and not asked.moved:
        x0 = group_scaled(problem, validation, x0, before) if asked.group_terms else x0
        x0 = shrunk(problem, validation, x0, cell.seed, cell.budget, before).x
    before.seconds += process_time() - began
    return x0, before


def _exact_start(asked: Options, problem: Any, run: dict[str, Any]) -> tuple[Tensor, Before]:
    """The exact optimum (n,) of the quadratic loss, or what is trained from there, and its steps and rows.
    run: as `solve` takes it. Raises: DataError."""
    start = area_start(problem, run["validation"], 1 + asked.group_terms)
    if start is None:
        raise DataError(f"{asked.dataset!r} has no exact start: it has too many features, or groups without rows.")
    if asked.start != "trained":
        return start.x, Before("the exact solution", steps=start.steps, samples=start.samples)
    rounds = {"budget": f"{FullBatchALM().rounds} steps", "x0": start.x}
    before = Before("the trained model", steps=start.steps, samples=start.samples)
    return before.add(solution_of(problem, FullBatchALM(), **run | rounds)).x, before


def _parts(asked: Options, seed: int, data_dir: str | None) -> tuple[dict[str, StudyRows], Model]:
    """The parts that have rows, and the model for them."""
    parts = shared_out(
        asked.dataset, asked.options, asked.group, asked.shares, seed, data_dir, purpose="auc fairness",
        stated_test=asked.stated_test, most=asked.rows, group_terms=asked.group_terms,
    )  # fmt: skip
    return {name: part for name, part in parts.items() if len(part.y)}, _model(asked, parts["train"].x.shape[1], seed)


@functools.lru_cache(maxsize=1)
def _without_bound(given: str, seed: int, budget: str, data_dir: str | None) -> tuple[Tensor, Before]:
    """The network (n,) of `shrunk` without a bound, and what it cost, trained once for all bounds that it is then moved
    under. given: the task's options as JSON."""
    asked = Options(**json.loads(given))
    parts, model = _parts(asked, seed, data_dir)
    problem, held = (_problem(asked, model, parts[name]) for name in ("train", "validation"))
    before, began = Before("the trained network"), process_time()
    x = shrunk(problem, held, problem.start((seed,)), seed, budget, before).x
    before.seconds = process_time() - began
    return x, before


def _model(asked: Options, features: int, seed: int) -> Model:
    return MLP(features, bias=False) if asked.model == "linear" else network(features, seed, asked.group_terms)


def _problem(asked: Options, model: Model, part: StudyRows) -> Any:
    """The largest area on the part's rows under the true bound, or under the quadratic loss's kappa in min-max form."""
    if asked.kappa:
        stated = [f"{asked.metric[:-1]},surrogate=quadratic,c1={C1}] <= {asked.kappa}"]
        made = FairProblem(model, part.x, part.y, part.group, stated, objective=f"auc[surrogate=quadratic,c1={C1}]")
        return PairSaddleProblem(made, asked.reach)
    stated = [f"{asked.metric} <= {asked.bound}"] if asked.bound and not asked.moved else []
    return FairProblem(model, part.x, part.y, part.group, stated, objective="auc")


def _optimum(asked: Options, train: StudyRows) -> float | None:
    """The least quadratic loss under kappa, of a linear score; None for other problems."""
    if not asked.kappa or asked.model != "linear":
        return None
    bound = f"{asked.metric[:-1]},surrogate=quadratic,c1={C1}]"
    return LinearAUC.of(bound, train.x.astype(np.float64), train.y, train.group).solve(asked.kappa).loss


def _measured(name: str, metric: str, part: StudyRows, scores: np.ndarray) -> dict[str, float]:
    """MEASURES of the part's scores (n,)."""
    found = auc(scores, part.y == 1, part.y == 0), measure(metric, scores, part.y, part.group, threshold=0.0)
    return {f"{name} {word}": float(value) for word, value in zip(MEASURES, found, strict=True)}


def numbers(run: Run, chosen: None) -> dict[str, float | None]:
    """The measures of the reported model, whether it meets its bound on training and on test rows,
    and what the run cost."""
    model, asked = run.models[run.output], run.result["task"]
    found: dict[str, float | None] = {f"{part} {name}": model[f"{part} {name}"] for part in PARTS for name in MEASURES}
    for part in PARTS:
        found[f"{part} met"] = float(model[f"{part} difference"] <= asked["bound"]) if asked["bound"] else None
    before = run.result["before"] or {"seconds": 0.0, "steps": 0, "samples": 0}
    found |= {k: run.result[k] + before[k] for k in ("seconds", "steps")}
    last = run.records[-1]
    found["passes"] = (last["samples"] + before["samples"]) / run.result["rows"]
    if asked["kappa"]:
        found |= {"last excess": run.records[-1]["excess"], "last gap": run.records[-1].get("gap")}
    return found


def findings(block: Block) -> list[dict[str, Any]]:
    """For every other method, at how many of its points our frontier on test rows has no smaller area.

    The frontier goes straight between our points, of which training without a bound is the last: of two models, one
    drawn at random has the mean area, and at most the mean difference. Constant scores (area 1/2) belong to every
    frontier. Scaling and shifting, which must know the groups of the rows scored, is compared with our models that know
    them too. Means are over the splits that all methods have finished. Of a block without any of ours, where its runs
    ended.
    """
    if all(method.partition("-")[0] != SUBJECT for method in block.numbers):
        return _converged(block)
    columns = [f"test {name}" for name in MEASURES]
    seeds = set.intersection(*(set(found[columns[0]]) for found in block.numbers.values()))
    points: dict[str, list[np.ndarray]] = {}
    for method, found in block.numbers.items():
        pairs = np.array([[found[column][seed] for column in columns] for seed in sorted(seeds)], dtype=float)
        points.setdefault(method.partition("-")[0], []).append(pairs)
    mine, knowing = points.pop(SUBJECT, []), points.pop(KNOWING, [])
    mine += points.pop("none", []) if mine else []
    equal = {"moved": mine + knowing}
    return [_compared(block, family, its, equal.get(family, mine)) for family, its in points.items() if mine and seeds]


def _converged(block: Block) -> list[dict[str, Any]]:
    """Where the runs under a quadratic loss ended, of methods that are compared with none of ours."""
    said = []
    for method, found in block.numbers.items():
        gap, excess, passes = (compare.mean(found, column) for column in ("last gap", "last excess", "passes"))
        if excess is None or passes is None:
            continue
        text = f"{block.titles[method]}: excess over kappa {excess:.4f} after {passes:.0f} data passes"
        said.append(text if gap is None else f"{text}, relative gap to the exact optimum {gap:.4f}")
    where = f"{block.study.data[block.data].title}, last outer iterate on the training rows"
    text = f"{where} (means; below 0 the bound is met): {'; '.join(said)}."
    return [{"text": text, "item": block.item.key}] if said else []


def _compared(block: Block, family: str, its: list[np.ndarray], mine: list[np.ndarray]) -> dict[str, Any]:
    behind, fairer = [], 0
    for point in its:
        short = _behind(point, mine)
        if short is None:
            fairer += int(point[:, 0].mean() > 0.5)
        elif short.mean() > 0:
            behind.append(short)
    held = len(its) - fairer - len(behind)
    text = f"On test rows (means) our frontier has as large an area at {held} of {len(its)} points of {FAMILIES.get(family, family)}"
    if behind:
        most = max(behind, key=lambda short: float(short.mean()))
        text += f"; points at which its area is smaller: {len(behind)}, by at most {most.mean():.4f}"
        if len(most) > 1:
            beyond = sum(short.mean() > 2 * short.std(ddof=1) / len(short) ** 0.5 for short in behind)
            text += f", by more than two standard errors over {len(most)} splits: {beyond}"
    text += f"; points of a smaller difference than all of ours: {fairer}" if fairer else ""
    return {"text": f"{text}.", "family": family, "held": held, "points": len(its), "item": block.item.key}


def _behind(point: np.ndarray, mine: list[np.ndarray]) -> np.ndarray | None:
    """(splits,) by how much the area of `point` is larger than that of the mix of two of our points whose mean area is
    the largest at its mean difference; None where all of ours have a larger difference. Points: (splits,
    2) area and difference."""
    difference = point[:, 1].mean()
    best: tuple[float, np.ndarray] | None = None
    for low in mine:
        if low[:, 1].mean() > difference:
            continue
        for high in mine:
            ahead, behind = high[:, 1].mean() - difference, difference - low[:, 1].mean()
            share = behind / (ahead + behind) if ahead > 0 else 0.0
            mixed = low[:, 0] + share * (high[:, 0] - low[:, 0])
            if best is None or mixed.mean() > best[0]:
                best = float(mixed.mean()), mixed
    return None if best is None else point[:, 0] - best[1]
