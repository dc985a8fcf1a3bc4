"""One point of the frontier on the national ACSIncome extract: a linear model with group terms under a bound on an interval.

765,670 rows of the 2018 extract, 60 % of them for training (the source's split), about 800 one-hot columns and as many times the
group, kept sparse; sex; [0.2:0.4] (He, Huang, Yao, Lin 2026, Table 2). Prints one JSON object: seconds of fitting, the peak of
the process's memory, and held-out accuracy and fairness. The aim is 10 minutes and 4 GiB on two cores.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

import harness

harness.single_thread()

import numpy as np  # noqa: E402
from scipy import sparse  # noqa: E402

import fairbound as fb  # noqa: E402
from fairbound.base.seeds import seed_for  # noqa: E402
from fairbound.tables.group_terms import with_terms  # noqa: E402

NAME, INTERVAL = "acs-income-us-46pct", "0.2:0.4"
SECONDS, MEBIBYTES = 600.0, 4096.0


def measured(bound: str, rows: int, seed: int, data_dir: str | None) -> dict[str, Any]:
    """One fit: rows of the table (0 for all) in a random order of `seed`."""
    data = fb.data.load(NAME, data_dir, encoding="one-hot-reference")
    group, y = np.asarray(data.group("sex")), np.asarray(data.y)
    X = with_terms(sparse.csr_array(data.X.astype(np.float32)), (group == "Female").astype(np.int64), 2)
    order = np.random.default_rng(seed_for("national", root=seed)).permutation(len(y))[: rows or None]
    train, test = np.split(order, [round(0.6 * len(order))])
    test = test[len(test) // 2 :]
    began, spent = time.perf_counter(), time.process_time()
    model = fb.FairClassifier(bound, weight_decay=0, random_state=seed).fit(
        X[train], y[train], sensitive_features={"sex": group[train]}
    )
    out: dict[str, Any] = {
        "bound": bound,
        "rows": len(train),
        "features": X.shape[1],
        "seconds": time.perf_counter() - began,
        "processor_seconds": time.process_time() - spent,
        "peak_mib": harness.memory(),
    }
    for part, at in (("train", train), ("test", test)):
        scores = model.decision_function(X[at])
        out[part] = {"accuracy": float(np.mean((scores > 0) == y[at]))}
        for key, interval in (("interval fairness", f"[{INTERVAL}]"), ("full fairness", "")):
            value = fb.measure(f"partial_statistical_parity{interval}", scores, y[at], group[at], threshold=0.0)
            out[part][key] = 1 - value
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kappa", type=float, default=0.1)
    parser.add_argument("--rows", type=int, default=0, help="a random part of so many rows; all by default")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    bound = f"partial_statistical_parity[{INTERVAL}] <= {given.kappa:g}"
    result = {
        "benchmark": "partial_national",
        **measured(bound, given.rows, given.seed, os.environ.get("FAIRBOUND_DATA")),
    }
    result["checks"] = [
        harness.check("seconds of one point", result["seconds"], SECONDS),
        harness.check("peak memory (MiB)", result["peak_mib"], MEBIBYTES),
    ]
    result["environment"] = harness.environment()
    harness.emit(result)


if __name__ == "__main__":
    main()
