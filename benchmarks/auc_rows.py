"""Single rows of a stream: StreamingAUC(solver="rows") against the exact optimum, its cost a row, and a national stream.

For a9a, bank and COMPAS (training rows, groups as in auc_exact.py) under the surrogate's bound kappa: after each pass by single rows the
relative gap (f - f*) / (c1 - f*) to the exact optimum, the largest excess over a bound, and processor microseconds a row, with
those of a step of the tensors (`fb.SMD`, one row a batch) in the same run. With --acs, the 765,670 rows of ACSIncome read in
chunks: the area of the exact streaming solution after one pass against that of all rows at once.

Prints one JSON object; a table goes to standard error. Data: the folder that FAIRBOUND_DATA names.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

import numpy as np
import torch
from auc_exact import DATA

import fairbound as fb
from fairbound.fairness.area_problems.linear_auc import LinearAUC, cells_of, pair_sums
from fairbound.fairness.area_problems.saddle_problem import PairSaddleProblem
from fairbound.fairness.problem import FairProblem
from fairbound.models.mlp import MLP
from fairbound.ranking.wins import auc
from fairbound.rows.groups import Groups
from fairbound.rows.occurring import Occurring
from fairbound.solver.solve import solve

C1, WARM, BLOCK = 0.5, 2000, 200


def scaled(X: Any) -> np.ndarray:
    """Dense, with columns of more than two values standardised."""
    dense = np.nan_to_num(np.asarray(X.todense() if hasattr(X, "todense") else X, dtype=float))
    many = np.array([len(np.unique(column)) > 2 for column in dense.T])
    dense[:, many] = (dense[:, many] - dense[:, many].mean(0)) / dense[:, many].std(0)
    return dense


def tensor_step(X: np.ndarray, y: np.ndarray, group: np.ndarray, kind: str, kappa: float, steps: int = 200) -> float:
    """Processor microseconds of a step of `fb.SMD` on one row."""
    stated = f"auc_parity[{kind},surrogate=quadratic] <= {kappa}"
    made = FairProblem(
        MLP(X.shape[1], bias=False), X, y, group, stated, objective="auc[surrogate=quadratic]", dtype=torch.float64
    )
    problem, method = PairSaddleProblem(made, reach=1.5), fb.SMD(level=C1, step_size=1e-5)
    began = time.process_time()
    solve(problem, method, budget=f"{steps} steps", batch_size=1, sampling="uniform", record_every=10 * steps)
    first = time.process_time() - began
    began = time.process_time()
    solve(problem, method, budget=f"{3 * steps} steps", batch_size=1, sampling="uniform", record_every=10 * steps)
    return (time.process_time() - began - first) / (2 * steps) * 1e6


def passes(name: str, kind: str, kappa: float, most: int) -> list[dict[str, Any]]:
    """A row for each pass."""
    data = fb.data.load(name)
    train = (data.splits or data.split(0))["train"]
    X, y, group = scaled(data.X[train]), data.y[train], np.asarray(data.group(DATA[name]))[train]
    best = LinearAUC.of(f"auc_parity[{kind},surrogate=quadratic]", X, y, group).solve(kappa)
    groups = Groups.of(group)
    asked = pair_sums(f"auc_parity[{kind},surrogate=quadratic]", Occurring.of(groups, y), kappa)
    cells = cells_of(groups, y.astype(int), (0,))

    def measured(w: np.ndarray) -> tuple[float, float]:
        s, total = X @ w, np.array(asked.constants)
        for owner, a, b in asked.pairs:
            one, two = s[asked.sets[a][cells]], s[asked.sets[b][cells]]
            total[owner] += C1 * (one.var() + two.var() + (one.mean() - two.mean() - 1) ** 2)
        return float(total[0]), float(total[1:].max())

    slow = tensor_step(X, y, group, kind, kappa)
    made = fb.StreamingAUC(f"auc_parity[{kind}] <= 0.02", solver="rows", kappa=kappa, warm_up=WARM)
    rng, rows = np.random.default_rng(0), []
    for number in range(1, most + 1):
        order, began = rng.permutation(len(y)), time.process_time()
        for part in np.array_split(order, len(y) // BLOCK):
            made.partial_fit(X[part], y[part], group[part])
        seconds = time.process_time() - began
        f, excess = measured(made.coef_)
        gap = (f - best.loss) / (C1 - best.loss)
        rows.append({"data": name, "bound": kind, "kappa": kappa, "pass": number, "gap": round(gap, 4), "excess": round(excess, 4),
                     "seconds": round(seconds, 2), "us a row": round(seconds / len(y) * 1e6, 1), "us of tensors": round(slow)})  # fmt: skip
        print(*(f"{key} {value}" for key, value in rows[-1].items()), file=sys.stderr, flush=True)
    return rows


def national(bound: str = "auc_parity[group] <= 0.02", chunk: int = 50_000) -> dict[str, Any]:
    """The streaming solution of all rows read in chunks, and the batch one; men and women."""
    data = fb.data.load("acs-income-us-46pct")
    X, y, group = scaled(data.X), data.y, np.asarray(data.group("sex"))
    began = time.process_time()
    stream = fb.StreamingAUC(bound)
    for part in np.array_split(np.arange(len(y)), len(y) // chunk):
        stream.partial_fit(X[part], y[part], group[part])
    scores, seconds = stream.decision_function(X), time.process_time() - began
    whole = LinearAUC.of(bound.split("]")[0] + ",surrogate=quadratic]", X, y, group).solve(stream.kappa_)
    areas = [auc(s, y == 1, y == 0) for s in (scores, X @ whole.weights)]
    return {
        "rows": len(y), "columns": X.shape[1], "seconds": round(seconds, 1), "kappa": stream.kappa_,
        "difference": fb.measure("auc_parity[group]", scores, y, group, threshold=0), "auc": areas[0], "auc of the batch": areas[1],
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="*", default=list(DATA), choices=list(DATA))
    parser.add_argument("--kinds", nargs="*", default=["group"], choices=["group", "inter", "intra"])
    parser.add_argument("--kappa", type=float, default=0.2)
    parser.add_argument("--passes", type=int, default=20)
    parser.add_argument("--acs", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = [
        row
        for name in options.data
        for kind in options.kinds
        for row in passes(name, kind, options.kappa, options.passes)
    ]
    out: dict[str, Any] = {"rows": rows}
    if options.acs:
        out["acs"] = national()
        print(out["acs"], file=sys.stderr)
    print(json.dumps(out, indent=1))


if __name__ == "__main__":
    main()
