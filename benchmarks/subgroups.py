"""Subgroups by the billion on ACSIncome: one JSON object on standard output.

    python benchmarks/subgroups.py search [--attributes default|all] [--min-count 200] [--seconds 20]
    python benchmarks/subgroups.py rounds [--bound 0.15] [--min-count 200] [--rounds 10]

`search` trains a linear model on the national extract (765,670 rows) and finds, exactly, the subgroup of at least
min-count rows whose selection rate is farthest from everyone's, among at least 1e9 nominal subgroups ("all": 6.9e14).
`rounds` bounds every subgroup of sex, race, age, marital status, birthplace and relationship (4.7 million nominal) on
Colorado: rounds of training on a few of them and exact search for the worst; train and test (80/20). The data are
found through FAIRBOUND_DATA.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import harness

harness.single_thread()

import numpy as np  # noqa: E402
import torch  # noqa: E402

import fairbound as fb  # noqa: E402
from fairbound.models.model import model_of  # noqa: E402
from fairbound.subgroups import (  # noqa: E402
    Found,
    OccurringCells,
    Round,
    Subgroups,
    bound_subgroups,
    most_violated,
    occurring,
)

AGES = tuple(range(20, 96, 5))
HOURS = (20, 35, 40, 41, 50, 60)
DEFAULT = ("SEX", "RAC1P", "AGE", "MAR", "POBP", "COW", "SCHL", "RELP")
ALL = (*DEFAULT, "OCCP", "ST", "HOURS")
COLORADO = ("SEX", "RAC1P", "AGE", "MAR", "POBP", "RELP")
COLORADO_AGES = (25, 35, 45, 55, 65)


def column(dataset: fb.data.Dataset, name: str, ages: tuple[int, ...] = AGES) -> Any:
    if name == "AGE":
        return np.digitize(dataset.frame["AGEP"], ages)
    if name == "HOURS":
        return np.digitize(dataset.frame["WKHP"], HOURS)
    return dataset.group("state") if name == "ST" else dataset.frame[name]


def described(found: Found) -> dict[str, Any]:
    return {
        "index": found.index,
        "name": found.name,
        "rows": found.count,
        "mean": found.mean,
        "overall": found.reference,
        "gap": found.gap,
    }


class Stages:
    """Seconds of each stage of a run."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.since = time.perf_counter()

    def end(self, name: str) -> None:
        now = time.perf_counter()
        self.seconds[name] = round(now - self.since, 3)
        self.since = now
        harness.note(f"{name}: {self.seconds[name]} s")


def search(attributes: tuple[str, ...], min_count: int, seconds: float) -> dict[str, Any]:
    stages = Stages()
    dataset = fb.data.load("acs-income-us-46pct", encoding="numeric")
    stages.end("load")
    groups = fb.Groups.of({name: column(dataset, name) for name in attributes})
    stages.end("encode")
    subgroups = Subgroups.of(groups)
    cells = occurring(subgroups, groups.codes)
    stages.end("count")
    x, y = dataset.X, dataset.y
    features = torch.as_tensor((x - x.mean(0)) / x.std(0), dtype=torch.float32)
    problem = fb.FairProblem(model_of("linear", features.shape[1]), features, y)
    solution = fb.solve(problem, "sgd", budget=f"{seconds} s", batch_size=1024, sampling="uniform", seed=0)
    scores = problem.all_scores(solution.x, features).numpy()
    stages.end("train")
    found = most_violated(cells, scores > 0, min_count=min_count)
    stages.end("search")
    inside = subgroups.members(found.worst.index, groups.codes)
    rates = np.mean(scores[inside] > 0), np.mean(scores > 0)
    assert inside.sum() == found.worst.count and abs(abs(rates[0] - rates[1]) - found.worst.gap) < 1e-12
    frequent = sum(len(index) for index, _ in cells.frequent(min_count)) if len(attributes) < 10 else None
    stages.end("list every subgroup with enough rows")
    return {
        "data": "acs-income-us-46pct",
        "rows": len(y),
        "attributes": dict(zip(groups.attributes, subgroups.sizes, strict=True)),
        "nominal": subgroups.nominal,
        "nominal_all_fixed": subgroups.cells,
        "occurring_cells": len(cells),
        "min_count": min_count,
        "subgroups_with_min_count": None if frequent is None else frequent - 1,
        "model": "linear on the ten standardised features",
        "accuracy": float(np.mean((scores > 0) == y)),
        "worst": described(found.worst),
        "certificate": {
            "exact": found.exact,
            "bound": found.bound,
            "visited": found.visited,
            "families": found.families,
            "pruned": found.pruned,
        },
        "seconds": stages.seconds,
    }


def worst_of(cells: OccurringCells, scores: np.ndarray, min_count: int) -> dict[str, Any]:
    return described(most_violated(cells, scores > 0, min_count=min_count).worst)


def rounds(bound: float, min_count: int, most: int) -> dict[str, Any]:
    stages = Stages()
    dataset = fb.data.load("acs-income-co", encoding="one-hot-reference")
    parts = dataset.split(0, 0.2)
    groups = fb.Groups.of({name: column(dataset, name, COLORADO_AGES) for name in COLORADO})
    subgroups = Subgroups.of(groups)
    x = dataset.X.toarray()
    numbers = [dataset.feature_names.index(name) for name in ("AGEP", "WKHP")]
    x[:, numbers] = (x[:, numbers] - x[parts["train"]][:, numbers].mean(0)) / x[parts["train"]][:, numbers].std(0)
    x = x[:, (x[parts["train"]] != 0).sum(0) >= 20].astype(np.float32)
    features = {part: torch.as_tensor(x[rows]) for part, rows in parts.items()}
    y = {part: dataset.y[rows] for part, rows in parts.items()}
    codes = {part: groups.codes[rows] for part, rows in parts.items()}
    stages.end("load")

    def train(problem: fb.FairProblem, x0: torch.Tensor | None) -> torch.Tensor:
        if not problem.m:
            plain = fb.SGD(step_size=0.05, optimizer="adam")
            return fb.solve(problem, plain, budget="300 steps", sampling="full", x0=x0).x
        method = fb.ALM(step_size=0.01, optimizer="adam", dual_rows=0, dual_every=5, dual_step_size=0.3, penalty=3.0)
        solution = fb.solve(problem, method, budget="600 steps", sampling="full", x0=x0, record_every=50)
        return solution.x if solution.feasible else solution.last

    def report(done: Round) -> None:
        harness.note(f"{done.active} active: worst gap {done.worst.gap:.4f}, {done.worst.name}")

    model = model_of("linear", x.shape[1])
    start = train(fb.FairProblem(model, features["train"], y["train"]), None)
    stages.end("train without bounds")
    fit = bound_subgroups(
        train,
        model,
        features["train"],
        y["train"],
        subgroups,
        codes["train"],
        f"demographic_parity[overall,sharpness=3] <= {bound}",
        min_count=min_count,
        rounds=most,
        add=20,
        margin=0.02,
        report=report,
    )
    stages.end("rounds")
    cells = {part: occurring(subgroups, codes[part]) for part in parts}
    scores = {
        name: {part: model.scores(point, features[part]).numpy() for part in parts}
        for name, point in (("without", start), ("with", fit.x))
    }
    return {
        "data": "acs-income-co",
        "rows": {part: len(rows) for part, rows in parts.items()},
        "features": x.shape[1],
        "attributes": dict(zip(groups.attributes, subgroups.sizes, strict=True)),
        "nominal": subgroups.nominal,
        "min_count": min_count,
        "subgroups_with_min_count": sum(len(index) for index, _ in cells["train"].frequent(min_count)) - 1,
        "bound": bound,
        "met": fit.met,
        "active": len(fit.active),
        "rounds": [
            {"active": r.active, "gap": r.worst.gap, "worst": r.worst.name, "objective": r.objective}
            for r in fit.rounds
        ],
        "results": {
            f"{name} bounds, {part}": {
                "accuracy": float(np.mean((scores[name][part] > 0) == y[part])),
                "worst": worst_of(cells[part], scores[name][part], min_count),
            }
            for name in scores
            for part in parts
        },
        "seconds": stages.seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("search", "rounds"), nargs="?", default="search")
    parser.add_argument("--attributes", choices=("default", "all"), default="default")
    parser.add_argument("--min-count", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=20.0, help="of training, for search")
    parser.add_argument("--bound", type=float, default=0.15)
    parser.add_argument("--rounds", type=int, default=10)
    arguments = parser.parse_args()
    if arguments.what == "search":
        attributes = DEFAULT if arguments.attributes == "default" else ALL
        result = search(attributes, arguments.min_count, arguments.seconds)
    else:
        result = rounds(arguments.bound, arguments.min_count, arguments.rounds)
    peak = harness.memory() / 1024
    harness.emit(
        {
            "benchmark": f"subgroups {arguments.what}",
            **result,
            "peak_gib": round(peak, 3),
            "environment": harness.environment(),
        }
    )


if __name__ == "__main__":
    main()
