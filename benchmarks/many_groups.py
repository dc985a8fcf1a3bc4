"""Very many constraints: an audit of 535 groups compared pairwise, compiling half a million contrasts, and a step of ALM.

    python benchmarks/many_groups.py

Prints processor seconds on one thread; the last line is the ratio of an ALM step with 468,540 constraints to one with 536.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import fairbound as fb
from fairbound.fairness.builder import compile_plan
from fairbound.models.mlp import MLP
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


def main() -> None:
    torch.set_num_threads(1)
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


if __name__ == "__main__":
    main()
