"""The exact linear score under the quadratic surrogate of `auc_parity`, along kappa: true differences and areas.

For a9a (its own split, groups by sex), bank (age 25 to 60 or not) and COMPAS (all people, race in two groups; both 80 % for
training), and each of the notions group, inter and intra as the bound: per kappa the area under the ROC curve of the scores,
and the true differences of all three notions, on training and test rows; and processor seconds, of the pass over the rows and
of a solution. None is the largest area without a bound. Beside them FairClassifier's linear model (objective "auto", and "auc" for the largest area) under
the true bound, on all rows at once.

With --acs instead: the 765,670 rows of ACSIncome, one-hot (813 columns, sparse), men and women: ten values of kappa from the moments of
one pass in slices, with area and true difference of each on all rows, in at most 60 seconds of processor time.

Prints one JSON object; a table goes to standard error. Data: the folder that FAIRBOUND_DATA names.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from itertools import product
from typing import Any

import numpy as np

import fairbound as fb
from fairbound.fairness.area_problems.linear_auc import LinearAUC
from fairbound.ranking.wins import auc
from fairbound.subproblems import SubproblemError

DATA = {"a9a": "sex", "bank": "age_25_60", "compas": "race_binary"}
KINDS = ("group", "inter", "intra")
KAPPAS = (None, 0.8, 0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01)
BOUNDS = (0.02, 0.01, 0.005)
OBJECTIVES = ("auto", "auc")
MOST_SECONDS = 1.0
FRONTIER, MOST_FRONTIER_SECONDS = tuple(np.geomspace(0.8, 0.01, 10).round(4).tolist()), 60.0


Part = tuple[Any, np.ndarray, np.ndarray]  # features, labels, groups


def measured(scores: np.ndarray, part: Part) -> dict[str, float]:
    _, y, group = part
    found = {kind: fb.measure(f"auc_parity[{kind}]", scores, y, group, threshold=0) for kind in KINDS}
    return {"auc": round(auc(scores, y == 1, y == 0), 4), **{kind: round(value, 4) for kind, value in found.items()}}


def exact(kind: str, c1: float, train: Part, test: Part) -> list[dict[str, Any]]:
    """A row for each kappa."""
    rows, began = [], time.process_time()
    program = LinearAUC.of(f"auc_parity[{kind},surrogate=quadratic,c1={c1}]", *train)
    passed = time.process_time() - began
    for kappa in KAPPAS:
        began = time.process_time()
        try:
            found = program.solve(1e9 if kappa is None else kappa)
        except SubproblemError as error:
            print(f"{kind} {kappa}: {error}", file=sys.stderr)
            continue
        seconds = time.process_time() - began
        row: dict[str, Any] = {"kappa": kappa, "pass": round(passed, 3), "seconds": round(seconds, 4), "gap": found.gap}
        rows.append(row | {n: measured(p[0] @ found.weights, p) for n, p in (("train", train), ("test", test))})
    return rows


def trained(kind: str, train: Part, test: Part) -> list[dict[str, Any]]:
    """A row for each of BOUNDS on the true difference, and of OBJECTIVES."""
    rows = []
    for objective, bound in product(OBJECTIVES, BOUNDS):
        began = time.process_time()
        plain: dict[str, Any] = {"options": fb.TableOptions(knots=0), "weight_decay": 0}
        model = fb.FairClassifier(f"auc_parity[{kind}] <= {bound}", objective=objective, **plain)
        model.fit(train[0], train[1], sensitive_features=train[2])
        row: dict[str, Any] = {
            "objective": objective,
            "true bound": bound,
            "seconds": round(time.process_time() - began, 1),
        }
        rows.append(
            row | {n: measured(model.decision_function(p[0]), p) for n, p in (("train", train), ("test", test))}
        )
    return rows


def national() -> dict[str, Any]:
    """The frontier on the national extract, one-hot, and processor seconds of its parts."""
    data = fb.data.load("acs-income-us-46pct", encoding="one-hot-reference")
    X, y, group = data.X.tocsr(), data.y, np.asarray(data.group("sex"))
    began = time.process_time()
    program = LinearAUC.of("auc_parity[group,surrogate=quadratic]", X, y, group)
    passed, rows, start = time.process_time() - began, [], None
    for kappa in FRONTIER:
        at = time.process_time()
        start = program.solve(kappa, start)
        solved = time.process_time() - at
        scores = X @ start.weights
        value = fb.measure("auc_parity[group]", scores, y, group, threshold=0)
        row = {
            "kappa": kappa,
            "auc": round(auc(scores, y == 1, y == 0), 4),
            "difference": round(value, 4),
            "gap": start.gap,
        }
        rows.append(row | {"solved": round(solved, 3), "seconds": round(time.process_time() - at, 3)})
        print(*(f"{key} {value}" for key, value in rows[-1].items()), file=sys.stderr, flush=True)
    seconds = time.process_time() - began
    return {
        "rows": len(y), "columns": X.shape[1], "pass": round(passed, 2), "seconds": round(seconds, 2), "target": MOST_FRONTIER_SECONDS,
        "met": seconds <= MOST_FRONTIER_SECONDS, "frontier": rows,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="*", default=list(DATA), choices=list(DATA))
    parser.add_argument("--c1", type=float, default=0.5)
    parser.add_argument("--acs", action="store_true")
    options = parser.parse_args()
    if options.acs:
        print(json.dumps(national(), indent=1))
        return
    rows: list[dict[str, Any]] = []
    slowest: dict[str, float] = {}
    for name in options.data:
        data = fb.data.load(name)
        parts, group = data.splits or data.split(0), data.group(DATA[name])
        train, test = ((data.X[parts[n]], data.y[parts[n]], group[parts[n]]) for n in ("train", "test"))
        for kind in KINDS:
            solved = exact(kind, options.c1, train, test)
            slowest[name] = max(slowest.get(name, 0.0), *(row["seconds"] for row in solved))
            for row in (*solved, *trained(kind, train, test)):
                rows.append({"data": name, "bound": kind, **row})
                print(*(f"{key} {value}" for key, value in rows[-1].items()), file=sys.stderr, flush=True)
    checks = {n: {"seconds": s, "target": MOST_SECONDS, "met": s <= MOST_SECONDS} for n, s in slowest.items()}
    print(json.dumps({"c1": options.c1, "rows": rows, "checks": checks}, indent=1))


if __name__ == "__main__":
    main()
