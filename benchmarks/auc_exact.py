"""The exact linear score under the quadratic surrogate of `auc_parity`, along kappa: true differences and areas.

For a9a (its own split, groups by sex), bank (age 25 to 60 or not) and COMPAS (all people, race in two groups; both 80 % for
training), and each of the notions group, inter and intra as the bound: per kappa the area under the ROC curve of the scores,
and the true differences of all three notions, on training and test rows; and processor seconds, of the pass over the rows and
of a solution. None is the largest area without a bound.

Prints one JSON object; a table goes to standard error. Data: the folder that FAIRBOUND_DATA names.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

import numpy as np

import fairbound as fb
from fairbound.fairness.linear_auc import LinearAUC
from fairbound.ranking.wins import auc
from fairbound.subproblems import SubproblemError

DATA = {"a9a": "sex", "bank": "age_25_60", "compas": "race_binary"}
KINDS = ("group", "inter", "intra")
KAPPAS = (None, 0.8, 0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01)
MOST_SECONDS = 1.0


def measured(w: np.ndarray, X: Any, y: np.ndarray, group: np.ndarray) -> dict[str, float]:
    scores = X @ w
    found = {kind: fb.measure(f"auc_parity[{kind}]", scores, y, group, threshold=0) for kind in KINDS}
    return {"auc": round(auc(scores, y == 1, y == 0), 4), **{kind: round(value, 4) for kind, value in found.items()}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="*", default=list(DATA), choices=list(DATA))
    parser.add_argument("--c1", type=float, default=0.5)
    options = parser.parse_args()
    rows, slowest = [], {}
    for name in options.data:
        data = fb.data.load(name)
        parts = data.splits or data.split(0)
        train, test = parts["train"], parts["test"]
        group = data.group(DATA[name])
        for kind in KINDS:
            began = time.process_time()
            bound = f"auc_parity[{kind},surrogate=quadratic,c1={options.c1}]"
            program = LinearAUC.of(bound, data.X[train], data.y[train], group[train])
            passed = time.process_time() - began
            for kappa in KAPPAS:
                began = time.process_time()
                try:
                    found = program.solve(1e9 if kappa is None else kappa)
                except SubproblemError as error:
                    print(f"{name} {kind} {kappa}: {error}", file=sys.stderr)
                    continue
                seconds = time.process_time() - began
                slowest[name] = max(slowest.get(name, 0.0), seconds)
                row = {
                    "data": name,
                    "bound": kind,
                    "kappa": kappa,
                    "pass": round(passed, 3),
                    "solve": round(seconds, 4),
                }
                row |= {"loss": found.loss, "gap": found.gap}
                row["train"] = measured(found.weights, data.X[train], data.y[train], group[train])
                row["test"] = measured(found.weights, data.X[test], data.y[test], group[test])
                rows.append(row)
                print(
                    name, kind, kappa, "train", row["train"], "test", row["test"], f"{seconds:.3f} s", file=sys.stderr
                )
    checks = {n: {"seconds": round(s, 4), "target": MOST_SECONDS, "met": s <= MOST_SECONDS} for n, s in slowest.items()}
    print(json.dumps({"c1": options.c1, "rows": rows, "checks": checks}, indent=1))


if __name__ == "__main__":
    main()
