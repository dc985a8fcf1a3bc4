"""The measures of `partial-fairness`: a linear model with group terms under a bound on scores, on training and held-out
rows.

Source: He, Huang, Yao, Lin (2026), section 7 and Appendix G.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairbound.base.checks import check_choice
from fairbound.base.errors import OptionError
from fairbound.estimators.linear.weight_decay import Decayed, auto_decay
from fairbound.fairness.area_problems.linear_auc import quadratic_set
from fairbound.fairness.measuring import measure
from fairbound.fairness.objectives import Accuracy
from fairbound.fairness.percentiles.intervals import Percentiles
from fairbound.fairness.problem import FairProblem
from fairbound.models.mlp import MLP
from fairbound.models.model import ModuleModel
from fairbound.problems.problem import Measured
from fairbound.studies.digits import coloured_digits, last_layer_solved, network, trained_layers
from fairbound.studies.rows import StudyRows, check_shares, missing, shared_out
from fairbound.studies.spec import Cell
from fairbound.studies.task import Run, Task

FULL, DECISIONS = "partial_statistical_parity", "partial_demographic_parity"
PARTS = ("train", "test")
PERCENTILES = 100
MEASURES = ("accuracy", "interval pSP", "interval fairness", "full fairness", "decision fairness")


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of the task.

    dataset, options: of `fairbound.data.load`. group: the sensitive attribute. interval: of the rows whose scores are
    compared, as a bound writes it. bound: the text of the bound trained under, with {} for the interval; "" for none.
    shares: of the rows, for training, validation (left out) and testing; rows with a stated test split keep it. rows: a
    random part of so many rows, 0 for all. error_share: of the error rate in the objective, 0 for the mean loss.
    weight_decay: whether a linear model has the decay that `FairClassifier` takes from its training rows.
    areas: "group", "inter" or "intra", areas that the baselines of G.3 bound by the quadratic surrogate, at
    areas_bound, as the set that weights lie in; "" for none. first_steps: where positive, coloured digits and a small
    network (`fairbound.studies.digits`) in place of a table and a linear model; its layers begin as so many steps
    without bounds leave them, the last one at 0. finish: the text of a bound, with {} for the interval, under which the
    last layer is solved on all rows when the network's run has ended; "" for none.
    """

    dataset: str
    group: str
    interval: str
    bound: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    shares: tuple[float, float, float] = (0.6, 0.2, 0.2)
    stated_test: bool = False
    rows: int = 0
    error_share: float = 0.0
    weight_decay: bool = False
    areas: str = ""
    areas_bound: float = 0.0
    first_steps: int = 0
    finish: str = ""

    def __post_init__(self) -> None:
        if Percentiles.read(self.interval) is None:
            raise OptionError(f"interval must be written like 0.05:0.3, got {self.interval!r}.")
        check_shares(self.shares)
        check_choice("areas", self.areas, ("", "group", "inter", "intra"))


absent = missing


def parts_of(asked: Options, seed: int, data_dir: str | None) -> dict[str, StudyRows]:
    """Training and test rows of a seed, with group terms where they are rows of a table."""
    if asked.first_steps:
        parts = coloured_digits(asked.shares, seed, data_dir, asked.rows)
        return {name: parts[name] for name in PARTS}
    parts = shared_out(
        asked.dataset, asked.options, asked.group, asked.shares, seed, data_dir, purpose="partial fairness",
        stated_test=asked.stated_test, most=asked.rows, group_terms=True,
    )  # fmt: skip
    return {name: parts[name] for name in PARTS}


def task(cell: Cell, data_dir: str | None) -> Task:
    """The training rows of the cell's seed as a problem, watched on training and test rows."""
    asked = Options(**cell.task)
    parts = parts_of(asked, cell.seed, data_dir)
    train = parts["train"]
    stated = [asked.bound.format(asked.interval)] if asked.bound else []
    within = None
    if asked.areas:
        text = f"auc_parity[{asked.areas},surrogate=quadratic]"
        within = quadratic_set(text, train.x, train.y, train.group, asked.areas_bound)
    problem = FairProblem(
        network(cell.seed) if asked.first_steps else MLP(train.x.shape[1]), train.x, train.y, train.group, stated,
        domain=within, objective=Accuracy(asked.error_share) if asked.error_share else None,
    )  # fmt: skip
    begun = {}
    if asked.first_steps:
        begun["x0"] = problem.start([cell.seed])
        layers = trained_layers(train, cell.seed, asked.first_steps)
        begun["x0"][: len(layers)] = layers

    def of(x: Tensor) -> dict[str, float]:
        theta = problem.split(x)[0]
        out: dict[str, float] = {}
        for name, part in parts.items():
            scores = problem.model.scores(theta, torch.from_numpy(part.x)).double().numpy()
            inside, everywhere, decided = (
                measure(text, scores, part.y, part.group, threshold=0.0)
                for text in (f"{FULL}[{asked.interval}]", FULL, f"{DECISIONS}[{asked.interval}]")
            )
            values = (float(np.mean((scores > 0) == part.y)), inside, 1 - inside, 1 - everywhere, 1 - decided)
            out |= {f"{name} {measure_}": value for measure_, value in zip(MEASURES, values, strict=True)}
        return out

    def watch(x: Tensor, measured: Measured) -> dict[str, float]:
        found = {"objective": float(measured.f), "violation": float(measured.violation), **of(x)}
        if problem.m:
            found["infeasibility"] = float(problem.values(x, problem.full()).g.max().clamp_min(0))
        return found

    def reported(x: Tensor) -> dict[str, Any]:
        """The measures, and each group's scores on the test rows at every percentile, from the top."""
        part = parts["test"]
        if asked.finish:
            assert isinstance(problem.model, ModuleModel)
            x = last_layer_solved(problem.model, train, x, asked.finish.format(asked.interval))
        theta = problem.split(x)[0]
        scores = problem.model.scores(theta, torch.from_numpy(part.x)).double().numpy()
        ranks = np.linspace(1, 0, PERCENTILES + 1)
        lists = {g: np.quantile(scores[part.group == g], ranks) for g in np.unique(part.group)}
        return of(x) | {f"test scores {g}": [float(f"{v:.5g}") for v in s] for g, s in lists.items()}

    about = f"{len(train.y):,} training and {len(parts['test'].y):,} test rows"
    trained = Decayed(problem, auto_decay(problem)) if asked.weight_decay else problem
    return Task(trained, watch, reported, options=begun, about=about, checksum=train.checksum)


def numbers(run: Run, compare: None) -> dict[str, float | None]:
    """The measures of the best verified model, and what the run cost."""
    model = run.models[run.output]
    return {f"{part} {name}": model[f"{part} {name}"] for part in PARTS for name in MEASURES} | {
        "seconds": run.result["seconds"],
        "steps": run.result["steps"],
        "feasible": float(run.result["feasible"]),
    }
