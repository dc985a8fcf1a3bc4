"""The measures of `deep-benchmark`: models trained under a fairness bound, measured on training and test rows.

Source: Kliachkin, Lepšová, Bareilles, Mareček (2025), section 4 and Table 3.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from scipy.special import expit
from torch import Tensor

from fairbound.base import series
from fairbound.base.errors import FairboundError, OptionError
from fairbound.fairness.distances import binned_squared_wasserstein
from fairbound.fairness.metrics import benchmark_metrics
from fairbound.fairness.notions import constraint
from fairbound.fairness.problem import FairProblem
from fairbound.models.model import model_of
from fairbound.problems.problem import Measured
from fairbound.studies import compare
from fairbound.studies.rows import (
    StudyRows,
    census_files_there,
    check_names,
    check_values,
    divided,
    load_rows,
    missing,
)
from fairbound.studies.spec import Cell
from fairbound.studies.table import Block
from fairbound.studies.task import Row, Run, Task

EDGES = np.linspace(0.0, 1.0, 51)
MEASURES = ("Ind", "Sp", "Ina", "Sf", "Wd", "W1", "AUC", "loss", "SE", "gap", "|gap|")
PARTS = ("train", "test")
AXES = ("seconds", "samples", "calls")
WITHIN = "train within the bound"
RULES = {"best": "best verified", "last": "last"}
STATISTICS = {"* to the bound": "reached"}
MEASURED = {
    "Splits": "80/20, stratified by group, another one for every seed and the same for every method",
    "Best verified": "the iterate (or, where the method averages, the average) with the lowest training loss among those evaluated that "
    "meet the bound that the method trains under; where none does, the one that exceeds it least, which may be the start",
    "Only the start": "runs that report their starting point; they do not count as within the bound, and no finding of a lowest value has them",
}
"""What the page says of the measurement."""
QUESTIONS = {
    "test loss": "lowest test loss", "test Ina": "lowest inaccuracy on test", "test |gap|": "smallest gap on test",
    "train |gap|": "smallest gap on train", "test Ind": "lowest independence gap on test",
    "test Sp": "lowest separation gap on test", "test Sf": "lowest sufficiency gap on test",
    "test W1": "smallest Wasserstein distance between the groups' predictions on test",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of the task.

    model: as in `model_of`. constraint: the bound that decides feasibility everywhere, which compares the two groups;
    trained: the bound that a method trains under, where it is another. validation: share of the training rows kept
    apart to choose the best iterate on. dataset, options, group, groups: see `load_rows`; groups are (reference,
    protected), and a signed gap is protected minus reference.
    """

    model: str
    constraint: str
    dataset: str
    group: str
    groups: tuple[str, str]
    options: Mapping[str, Any] = field(default_factory=dict)
    trained: str = ""
    validation: float = 0.0

    def __post_init__(self) -> None:
        if len(self.groups) != 2 or self.groups[0] == self.groups[1]:
            raise OptionError(f"groups must be [reference, protected], got {list(self.groups)}.")
        if not 0 <= self.validation < 1:
            raise OptionError(f"validation is a share in [0, 1), got {self.validation}.")
        for text in (self.constraint, self.trained or self.constraint):
            constraint(text)
        check_names(self.dataset, self.group)


def absent(given: Mapping[str, Any], data_dir: str | None) -> str:
    """Why a data set cannot be had; "" where it can."""
    if given["dataset"] != "acs-income":
        return missing(given, data_dir)
    return "" if census_files_there(given.get("options", {}), data_dir) else "its files are not in the data folder."


def check(given: Mapping[str, Any], data_dir: str | None) -> None:
    """Raises: OptionError where no row of the data is of one of the groups. Raw Census files take too long to read
    for that; their runs say it."""
    if given["dataset"] != "acs-income":
        check_values(given["dataset"], given.get("options", {}), given["group"], given["groups"], data_dir)


def task(cell: Cell, data_dir: str | None) -> Task:
    """The rows of the cell's seed as a problem, watched on training and test rows; a trial's models are measured on
    both together too."""
    asked = Options(**cell.task)
    rows = load_rows(asked.dataset, asked.options, asked.group, asked.groups, cell.seed, data_dir, cell.held)
    parts, fit, chosen_on = {"train": rows.train, "test": rows.test}, rows.train, None
    if asked.validation:
        fit, chosen_on = divided(rows.train, asked.validation, cell.seed, "validation")
    trained, bound = asked.trained or asked.constraint, constraint(asked.constraint).bound
    problem = _problem(asked, fit, trained)
    same = fit is rows.train and trained == asked.constraint
    judged = {part: _problem(asked, its, asked.constraint) for part, its in parts.items() if part == "test" or not same}
    judged |= {"train": problem} if same else {}
    directed = _directed(asked, judged["test"])
    both = _problem(asked, rows.together(), asked.constraint) if cell.held else None

    def watch(x: Tensor, measured: Measured) -> dict[str, float]:
        seen = {part: measured if its is problem else its.evaluate(x) for part, its in judged.items()}
        return {f"{part} {k}": v for part, m in seen.items() for k, v in _stated(m, bound, directed).items()}

    def measure(x: Tensor) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for part, its in parts.items():
            scores = judged[part].all_scores(x, torch.from_numpy(its.x)).double().numpy()
            found = {**_stated(judged[part].evaluate(x), bound, directed), **measures(scores, its, asked.groups)}
            out |= {f"{part} {name}": value for name, value in found.items()}
        if both is not None:
            out |= {f"together {k}": v for k, v in _stated(both.evaluate(x), bound, directed).items()}
        return out

    options: dict[str, Any] = {} if chosen_on is None else {"validation": _problem(asked, chosen_on, trained)}
    return Task(
        problem, watch, measure, lambda records: derive(records, bound), options=options, checksum=rows.checksum,
        about=f"{_size(rows.train, asked, 'training')}; {_size(rows.test, asked, 'test')}",
    )  # fmt: skip


def _problem(asked: Options, part: StudyRows, stated: str) -> FairProblem:
    model = model_of(asked.model, part.x.shape[1])
    return FairProblem(model, part.x, part.y, part.coded(asked.group, asked.groups), stated)


def _size(part: StudyRows, asked: Options, words: str) -> str:
    return f"{len(part):,} {words} rows, {int((part.group == 1).sum()):,} of them {asked.groups[1]}"


def _directed(asked: Options, problem: FairProblem) -> list[int]:
    """The constraints that are the protected group's value minus the reference's.
    Raises: OptionError where there is none."""
    found = problem.plan.differences(1, 0)  # the codes of asked.groups
    if not len(found):
        reference, protected = asked.groups
        raise OptionError(
            f"the bound {asked.constraint!r} does not compare {protected!r} with {reference!r} directly; state it pairwise."
        )
    return [int(i) for i in found]


def _stated(measured: Measured, bound: float, directed: Sequence[int]) -> dict[str, float]:
    """Loss, signed gap (protected minus reference) and value of the stated bound, which is the largest gap's size.
    What rounding leaves of a gap of 0, as g has it less the bound in its own precision, is 0."""
    rounding = torch.finfo(measured.g.dtype).eps * bound
    values = [value if abs(value := g + bound) > rounding else 0.0 for g in measured.g.tolist()]
    return {"loss": float(measured.f), "gap": max((values[i] for i in directed), key=abs), "|gap|": max(values)}


def measures(scores: np.ndarray, part: StudyRows, names: Sequence[str]) -> dict[str, Any]:
    """KLBM25's measures of one model on one part, and 50-bin histograms of its predicted probabilities.

    Ind, Sp, Ina, Sf: as in Table 3. Wd: its "Wd", the squared order-2 distance of 50-bin histograms. W1: the
    Wasserstein distance of order 1. SE: standard error of the difference between the groups' mean logistic losses, for
    rows drawn independently. Ina is over all rows, the others over rows of either group; NaN where undefined.
    """
    y, group = part.y, part.group
    known = group >= 0
    found: dict[str, Any] = dict(benchmark_metrics(scores[known], y[known], group[known]))
    found["W1"] = found.pop("Wd")
    losses = np.logaddexp(0.0, scores) - (y > 0) * scores
    parts = [losses[group == code] for code in (0, 1)]
    found["SE"] = math.sqrt(sum(p.var(ddof=1) / len(p) if len(p) > 1 else math.nan for p in parts))
    found["Ina"] = np.mean((scores > 0) != (y > 0))
    predicted = [expit(scores[group == code]) for code in (0, 1)]
    try:
        found["Wd"] = binned_squared_wasserstein(*predicted)
    except FairboundError:
        found["Wd"] = math.nan
    shown = {f"histogram {n}": np.histogram(p, bins=EDGES)[0].tolist() for n, p in zip(names, predicted, strict=True)}
    return {name: float(value) for name, value in found.items()} | shown


def derive(records: list[Row], bound: float) -> None:
    """Adds to each record whether the training gap is within the bound in the mean of 10 evaluations, whether any
    record so far was within it, and the lowest training loss of one so far (None before)."""
    gaps, losses = (series.floats([r[f"train {name}"] for r in records]) for name in ("|gap|", "loss"))
    inside = np.abs(gaps) <= bound
    best = np.minimum.accumulate(np.where(inside, losses, np.inf))
    columns = zip(series.feasible(gaps, bound), np.maximum.accumulate(inside), best, strict=True)
    for record, (now, once, loss) in zip(records, columns, strict=True):
        record[WITHIN], record["train once within the bound"] = float(now), float(once)
        record["lowest train loss within the bound"] = float(loss)


def numbers(run: Run, compare: None) -> dict[str, float | None]:
    """The measures of the reported model, of the best verified one and of the last, and what the run cost. A model that
    is the starting point is not within the bound: training found none that is."""
    bound = constraint(run.result["task"]["constraint"]).bound
    out = _of(run.models[run.output], bound)
    for output, words in RULES.items():
        out |= {f"{column} ({words})": value for column, value in _of(run.models[output], bound).items()}
    late = [r["train |gap|"] <= bound for r in run.records if r["step"] >= 2 / 3 * run.result["steps"]]
    out["late evaluations within the bound"] = float(np.mean(late)) if late else None
    within = np.array([r[WITHIN] > 0 for r in run.records])
    for axis in AXES:
        at = [r[axis] for r in run.records]
        out[f"{axis} to the bound"], out[axis] = series.first_reached(at, within), at[-1]
    return out | {"steps": run.result["steps"]}


def _of(model: Row, bound: float) -> dict[str, float | None]:
    found = {f"{part} {name}": model[f"{part} {name}"] for part in PARTS for name in MEASURES}
    return found | {WITHIN: float(model["train |gap|"] <= bound and model["step"] > 0)}


def findings(block: Block) -> list[dict[str, Any]]:
    """Which method wins where: {"question", "winner", "value", "tied": methods not told apart,
    "text"} for each question."""
    titles, numbers, trained = block.titles, block.numbers, block.trained
    stated = constraint(block.study.task["constraint"])
    bound = stated.bound
    columns = (WITHIN, *(f"{WITHIN} ({words})" for words in RULES.values()))
    share = {m: [int(sum(compare.values(by, c).values())) for c in columns] for m, by in numbers.items()}
    of = {m: len(by[WITHIN]) for m, by in numbers.items()}
    always = [m for m in numbers if share[m][0] == of[m]]
    out: list[dict[str, Any] | None] = []
    outputs = {"": "model reported", **{output: f"{words} iterate" for output, words in RULES.items()}}
    for place, (output, words) in enumerate(outputs.items()):
        starts = {m: sum(run.only_start(output) for run in block.runs.get(m, ())) for m in numbers}
        said = {m: f" ({n} only the start)" if n else "" for m, n in starts.items()}
        counts = ", ".join(f"{titles[m]} {share[m][place]} of {of[m]}{said[m]}" for m in numbers)
        out.append({
            "question": f"within {bound:g} on train, {words}", "winner": None, "value": None,
            "tied": [m for m in numbers if share[m][place] == of[m]],
            "text": f"Runs within {bound:g} on the training rows, {words} of every method: {counts}.",
        })  # fmt: skip
    out += [compare.lowest(trained, titles, column, question) for column, question in QUESTIONS.items()]
    if always:
        for column in ("test loss", "test Ina"):
            asked = f"{QUESTIONS[column]} among the methods within the bound in every run, as reported"
            out.append(compare.lowest({m: trained[m] for m in always}, titles, column, asked))
    out += [_noise(trained, titles)] if stated.statement == "loss_gap" else []  # the noise is that of a gap of losses
    out += [_fastest(block, bound)]
    out += [compare.dominance(trained, titles, pair) for pair in (("test Ind", "test Ina"), ("test Sp", "test Ina"))]
    return [f for f in out if f is not None]


def _noise(numbers: Mapping[str, Any], titles: Mapping[str, str]) -> dict[str, Any] | None:
    """What of the test gaps is noise: a normal variable of mean 0 has mean size sqrt(2 / pi) standard deviations."""
    losses = {m: loss for m, by in numbers.items() if (loss := compare.mean(by, "test loss")) is not None}
    least = min(losses, key=losses.__getitem__, default=None)
    error = None if least is None else compare.mean(numbers[least], "test SE")
    if least is None or error is None:
        return None
    floor = float(np.sqrt(2 / np.pi) * error)
    return {
        "question": "the part of the test gap that is sampling noise", "winner": None, "value": floor, "tied": [],
        "text": f"A model with equal expected losses in both groups, as sure of itself as {titles[least]}, which has the "
                f"lowest test loss, would still show a mean gap of {floor:.4f} on as many test rows (standard error "
                f"{error:.4f}).",
    }  # fmt: skip


def _fastest(block: Block, bound: float) -> dict[str, Any]:
    numbers, titles, window = block.numbers, block.titles, series.SMOOTHED
    reached = {m: compare.values(by, "seconds to the bound") for m, by in numbers.items()}
    every = {m: float(np.median(list(by.values()))) for m, by in reached.items() if len(by) == len(numbers[m][WITHIN])}
    order = sorted(every, key=every.__getitem__)
    evaluated = [len(run.records) for runs in block.runs.values() for run in runs]
    text = f"No method came within {bound:g} on train, by the mean over {window} evaluations, in every run."
    if evaluated and max(evaluated) < window:
        text = (
            f"How soon methods come within {bound:g} on train is the mean over {window} evaluations, of which no run has "
            f"more than {max(evaluated)}: give a larger budget or a smaller record_every."
        )
    elif order:
        text = (
            f"Soonest within {bound:g} on train by the mean over {window} evaluations, median of runs, among methods that "
            f"get there in every run: {', '.join(f'{titles[m]} {every[m]:.2f} s' for m in order)}."
        )
    return {
        "question": f"soonest within {bound:g} on train, by the mean over 10 evaluations", "text": text, "tied": [],
        "winner": order[0] if order else None, "value": every[order[0]] if order else None,
    }  # fmt: skip
