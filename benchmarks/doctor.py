"""Whether the training doctor names a fault that was built into a run, and leaves healthy runs alone.

    python benchmarks/doctor.py             # 100 runs, about 5 minutes on one core

Ten runs for each of eight faults and twenty healthy ones, on drawn rows (seeds from 0 on); thresholds were set on seeds 100 to 104.
A run is healthy where nothing was built into it and it found a model that meets its bounds.
"""

from __future__ import annotations

import argparse
from collections import Counter
from typing import Any

from harness import single_thread

single_thread()

import numpy as np  # noqa: E402

import fairbound as fb  # noqa: E402
from fairbound.models.mlp import MLP  # noqa: E402

PARITY, ROWS = "demographic_parity <= 0.05", 1500
STEEP = "demographic_parity[surrogate=clipped,sharpness=60] <= 0.02"
TOO_MUCH = ["demographic_parity <= 0.01", "recall of class 1 >= 0.97", "recall of class 0 >= 0.9"]
ALM = fb.ALM

FAULTS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "oscillating": (PARITY, ALM(dual_step_size=30.0), {}),
    "diverging": (PARITY, ALM(step_size=20.0, dual_step_size=20.0, penalty=50.0, clip=1e6, decay=0.0), {}),
    "noise": (PARITY, ALM(dual_rows=8, dual_step_size=3.0), {"batch_size": 8}),
    "infeasible": (TOO_MUCH, ALM(), {}),
    "vanished_gradient": (STEEP, ALM(), {}),
    "surrogate_far": ("demographic_parity[sharpness=0.2] <= 0.05", ALM(dual_values="surrogate"), {}),
    "undertrained": (PARITY, ALM(step_size=2e-3), {"budget": "400 steps"}),
    "inactive": ("demographic_parity <= 0.9", ALM(), {}),
}
"""Fault: bounds, method and options of `solve` that bring it about."""

HEALTHY: tuple[tuple[Any, Any, dict[str, Any]], ...] = (
    (PARITY, ALM(), {}),
    ("equalized_odds <= 0.05", ALM(), {}),
    (PARITY, fb.FullBatchALM(), {"budget": "100 steps"}),
    (PARITY, fb.SSLALM(), {}),
)


def problem(stated: Any, seed: int) -> fb.FairProblem:
    """A linear model on drawn rows of two groups that differ in the features that matter."""
    rng = np.random.default_rng(seed)
    apart = 1.0 + 0.1 * (seed % 5)
    group = rng.integers(0, 2, ROWS)
    X = rng.normal(size=(ROWS, 5))
    X[:, 0] += apart * group
    X[:, 1] -= 0.4 * group
    y = (X @ np.array([1.0, 0.7, -0.5, 0.3, 0.0]) + 0.8 * rng.normal(size=ROWS) > 0.5 * apart).astype(int)
    return fb.FairProblem(MLP(5), X.astype(np.float32), y, np.array(["a", "b"])[group], stated)


def named(case: tuple[Any, Any, dict[str, Any]], seed: int) -> tuple[list[str], bool]:
    """What the doctor names, first things first; and whether the run found a model that meets every bound."""
    stated, method, options = case
    made = problem(stated, seed)
    solution = fb.solve(made, method, seed=seed, **{"budget": "2000 steps", **options})
    return [advice.fault for advice in fb.diagnose(solution, made)], solution.found


def measure(seeds: range) -> tuple[dict[str, int], int, int]:
    """For each fault, in how many runs it is named first; and how many of how many healthy runs are left alone."""
    hits = {}
    for fault, case in FAULTS.items():
        found = [named(case, seed)[0] for seed in seeds]
        hits[fault] = sum(f[:1] == [fault] for f in found)
        others = Counter(f[0] if f else "nothing" for f in found if f[:1] != [fault])
        print(f"{fault}: named first in {hits[fault]} of {len(found)}" + (f", else {dict(others)}" if others else ""))
    silent = total = 0
    for case in HEALTHY:
        wanted = total + max(1, len(seeds) // 2)
        for seed in range(4 * len(seeds)):
            advised, met = named(case, seed)
            if not met:
                print(f"not healthy, no model met the bound: {case[0]} {case[1].name} seed {seed}, named {advised}")
                continue
            silent, total = silent + (not advised), total + 1
            if advised:
                print(f"healthy {case[0]} {case[1].name} seed {seed}: {advised}")
            if total == wanted:
                break
    print(f"healthy: left alone in {silent} of {total}")
    return hits, silent, total


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--runs", type=int, default=10)
    measure(range(options.parse_args().runs))
