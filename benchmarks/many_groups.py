"""Very many constraints: an audit of 535 groups compared pairwise, compiling half a million contrasts, and a step of ALM.

    python benchmarks/many_groups.py [--subgroups]

Prints processor seconds on one thread: the ratio of an ALM step with 468,540 constraints to one with 536, and, where the data folder
has Communities and Crime, of a PLADA step on all rows with its 535 overlapping subgroups to one with 2 of them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import fairbound as fb
from fairbound.data import load, threshold_groups
from fairbound.data.communities import THRESHOLDS
from fairbound.fairness.compiled.builder import compile_plan
from fairbound.models.mlp import MLP
from fairbound.problems.problem import Draws
from fairbound.rows.groups import Groups

ROWS, STEPS, BATCH, ROUNDS = 100_000, 300, 1_070, 3


def seconds(run: Callable[[], Any]) -> float:
    """The least processor time of a few runs."""
    times = []
    for _ in range(ROUNDS):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def grouped(rng: np.random.Generator, groups: int) -> Groups:
    return Groups(rng.integers(0, groups, (ROWS, 1)), ("group",), (tuple(map(str, range(groups))),))


def subgroups() -> None:
    """A PLADA step of a network with five hidden layers, under the 535 subgroups of Communities and Crime and under 2 of them."""
    data = load("communities-crime", threshold=0.28)
    members, _ = threshold_groups(data, thresholds=THRESHOLDS)
    X = (data.X - data.X.mean(0)) / data.X.std(0)
    method = fb.PLADA(dual_values="surrogate", margin=0.0, step_size=1e-3)
    made = []
    for some in (members, members[:2]):
        labels = tuple(("out", f"in {i}") for i in range(len(some)))
        groups = Groups(some.T.astype(np.int64), tuple(f"g{i}" for i in range(len(some))), labels)
        model = MLP(X.shape[1], (64,) * 5)
        problem = fb.FairProblem(
            model, X.astype(np.float32), data.y, groups, "excess_loss[skip=out] <= 0.02", loss="hinge"
        )
        draws, x = Draws(problem, (0,), 64, "full"), problem.start((0,))
        made.append((problem, draws, method.step(method.init(problem, x, draws), problem, draws)))
    times: list[list[float]] = [[], []]
    for _ in range(STEPS // 5):  # in turn, so that both meet the same load
        for place, (problem, draws, state) in enumerate(made):
            start = time.process_time()
            method.step(state, problem, draws)
            times[place].append(time.process_time() - start)
    many, two = (float(np.median(t)) for t in times)
    print(
        f"PLADA with m = 535: {many * 1e3:.3f} ms a step of {len(X):,} rows; with m = 2: {two * 1e3:.3f} ms; ratio {many / two:.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subgroups", action="store_true", help="the step under overlapping subgroups alone")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.subgroups:
        return subgroups()
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(ROWS, 20)).astype(np.float32), (rng.random(ROWS) < 0.4).astype(int)
    scores, stated = rng.normal(size=ROWS), fb.constraint("demographic_parity <= 0.1")
    of_535 = grouped(rng, 535)
    print(f"audit of 535 groups, 142,845 comparisons: {seconds(lambda: fb.audit(scores, y, of_535, stated)):.2f} s")
    of_686 = grouped(rng, 686)
    print(f"compiling {686 * 685:,} contrasts: {seconds(lambda: compile_plan((stated,), of_686, y)):.2f} s")
    steps = []
    for groups, bound in ((grouped(rng, 268), "demographic_parity[overall] <= 0.1"), (grouped(rng, 685), stated)):
        problem = fb.FairProblem(MLP(20), X, y, groups, bound)

        def train(problem: fb.FairProblem = problem) -> None:
            fb.solve(
                problem, "alm", budget=f"{STEPS} steps", batch_size=BATCH, record_every=10**6,
                keep=lambda row: {"step": row["step"]},
            )  # fmt: skip

        steps.append(seconds(train) / STEPS)
        print(f"ALM with m = {problem.m:,}: {steps[-1] * 1e3:.3f} ms a step of {BATCH:,} rows")
    print(f"ratio: {steps[1] / steps[0]:.2f}")
    try:
        subgroups()
    except fb.FairboundError as error:
        print(f"no subgroups: {error}")


if __name__ == "__main__":
    main()
