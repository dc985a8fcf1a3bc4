"""Peak memory of training linear models on sparse tables, over an interpreter that has imported torch and fairbound.

Each case runs in a fresh process, which reads or makes its data, trains, validates and predicts: a9a (48,842 x 123, from
FAIRBOUND_DATA) and data of news20's size (15,935 x 62,061, 0.1 % of the entries not zero, 20 classes). "classifier" is
FairClassifier with a bound on selection rates; "terms" are the problems of Lin et al. (2020), fair classification on a9a
and Neyman-Pearson classification of 20 classes, under YNW. A dense copy would take 46 MiB and 7.4 GiB.
Prints a table on standard error and one JSON object. Reads /proc, so Linux only.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from typing import Any

import harness

harness.single_thread()

ROWS, FEATURES, DENSITY, CLASSES = 15_935, 62_061, 0.001, 20
LIMITS = {"classifier a9a": 200, "terms a9a": 200, "classifier news20": 1024, "terms news20": 1024}
STEPS = 300


def news20_sized(seed: int = 0) -> tuple[Any, Any, Any]:
    """A CSR matrix of text-like rows, one of 20 classes each, and one of two groups."""
    import numpy as np
    from scipy import sparse

    rng = np.random.default_rng(seed)
    y, group = rng.integers(0, CLASSES, ROWS), rng.integers(0, 2, ROWS)
    each = round(DENSITY * FEATURES)
    columns = rng.integers(0, FEATURES, (ROWS, each), dtype=np.int32)
    columns[:, 0] = y  # a word that tells the class
    columns[:, 1] = CLASSES + group
    values = rng.uniform(0.1, 1.0, ROWS * each)
    X = sparse.csr_matrix((values, columns.ravel(), np.arange(0, ROWS * each + 1, each)), shape=(ROWS, FEATURES))
    X.sum_duplicates()
    return X, y, group


def classifier(name: str) -> dict[str, Any]:
    import fairbound as fb

    if name == "a9a":
        data = fb.data.load("a9a")
        X, y, group = data.X, data.y, data.group("sex")
    else:
        X, y, group = news20_sized()
        y = (y < CLASSES // 2).astype(int)
    fitted = fb.FairClassifier("demographic_parity <= 0.05", validation=0.2).fit(X, y, sensitive_features=group)
    decisions = fitted.predict(X)
    report = fitted.fit_report_
    return {
        "steps": report["steps"],
        "validation_rows": report["validation_rows"],
        "feasible": report["feasible"],
        "accuracy": float((decisions == y).mean()),
    }


def terms(name: str) -> dict[str, Any]:
    from fairbound import solve
    from fairbound.instances import instance, neyman_pearson
    from fairbound.methods import YNW

    if name == "a9a":
        problem = instance("fair-a9a")
    else:
        X, y, _ = news20_sized()
        problem = neyman_pearson(X, y)
    solution = solve(problem, YNW(), budget=f"{STEPS} steps", batch_size=1000)
    measured = problem.evaluate(solution.last)
    return {"steps": solution.steps, "f": float(measured.f), "violation": float(measured.violation)}


def run(case: str) -> dict[str, Any]:
    """One case in this process."""
    import torch

    torch.set_num_threads(1)
    import fairbound

    assert callable(fairbound.FairClassifier) and callable(fairbound.SFLS)  # names are imported when they are asked for

    base = harness.memory("VmRSS")
    kind, _, name = case.partition(" ")
    start = time.perf_counter()
    facts = classifier(name) if kind == "classifier" else terms(name)
    return {
        "interpreter_mib": round(base, 1),
        "over_mib": round(harness.memory() - base, 1),
        "seconds": round(time.perf_counter() - start, 1),
        **facts,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", default=";".join(LIMITS), help="separated by semicolons")
    parser.add_argument("--in-this-process", action="store_true", help="run one case and print its figures")
    args = parser.parse_args()
    if args.in_this_process:
        harness.emit(run(args.cases))
        return
    results, checks = {}, []
    harness.note(f"{'':<20}{'MiB over':>10}{'target':>8}{'seconds':>9}")
    for case in args.cases.split(";"):
        command = [sys.executable, __file__, "--in-this-process", "--cases", case]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        results[case] = one = json.loads(done.stdout)
        checks.append(harness.check(f"{case}: MiB over the interpreter", one["over_mib"], LIMITS[case]))
        harness.note(f"{case:<20}{one['over_mib']:>10.1f}{LIMITS[case]:>8}{one['seconds']:>9.1f}")
    harness.emit(
        {
            "benchmark": "sparse_memory",
            "unit": "MiB of resident memory at most, over an interpreter with torch and fairbound imported",
            "cases": results,
            "checks": checks,
            "environment": harness.environment("fairbound", "scipy", "scikit-learn"),
        }
    )


if __name__ == "__main__":
    main()
