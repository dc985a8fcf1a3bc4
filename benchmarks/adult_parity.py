"""Adult under demographic parity: FairClassifier(demographic_parity <= 0.02), linear without knots and weight decay, beside fairlearn's reduction.

Both get the same arrays, one after the other in one process on one thread: the rows of one random 80/20 split per seed,
float64 features, one-hot encoded and standardised, sex not among them. fairlearn's method is ExponentiatedGradient
with LogisticRegression and DemographicParity(difference_bound=0.01). Prints one JSON object. Targets: test difference
at most 0.03 and accuracy at least 0.830 (means over seeds), in at most a third of fairlearn's time (medians).
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from typing import Any

import harness

harness.single_thread()

import numpy as np  # noqa: E402

from fairbound.data import Prepared, load, prepare  # noqa: E402


def measures(predicted: np.ndarray, y: np.ndarray, group: np.ndarray) -> dict[str, float]:
    """Accuracy and the difference of the two groups' selection rates."""
    rates = [float(predicted[group == label].mean()) for label in ("Female", "Male")]
    return {"accuracy": float((predicted == y).mean()), "difference": abs(rates[0] - rates[1])}


def ours(data: Prepared, seed: int) -> dict[str, float]:
    from fairbound import FairClassifier, TableOptions

    start = time.perf_counter()
    model = FairClassifier(
        "demographic_parity <= 0.02", options=TableOptions(knots=0), weight_decay=0, random_state=seed
    )
    model.fit(data.X_train, data.y_train, sensitive_features=data.group_train)
    seconds = time.perf_counter() - start
    return row(model.predict, data, seconds)


def fairlearn_reduction(data: Prepared, seed: int) -> dict[str, float]:
    from fairlearn.reductions import DemographicParity, ExponentiatedGradient
    from sklearn.linear_model import LogisticRegression

    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = ExponentiatedGradient(
            LogisticRegression(max_iter=1000), DemographicParity(difference_bound=0.01), eps=0.01
        )
        model.fit(data.X_train, data.y_train, sensitive_features=data.group_train)
    seconds = time.perf_counter() - start
    return row(lambda x: model.predict(x, random_state=seed), data, seconds)


def unconstrained(data: Prepared, seed: int) -> dict[str, float]:
    from sklearn.linear_model import LogisticRegression

    start = time.perf_counter()
    model = LogisticRegression(max_iter=1000).fit(data.X_train, data.y_train)
    return row(model.predict, data, time.perf_counter() - start)


def row(predict: Any, data: Prepared, seconds: float) -> dict[str, float]:
    out = {"seconds": seconds}
    for part in ("train", "test"):
        x, y, group = (getattr(data, f"{name}_{part}") for name in ("X", "y", "group"))
        out |= {f"{name}_{part}": value for name, value in measures(np.asarray(predict(x)), y, group).items()}
    return out


METHODS = {"fairbound": ours, "fairlearn": fairlearn_reduction, "unconstrained": unconstrained}


def summary(runs: dict[str, list[dict[str, float]]], of: Any) -> dict[str, dict[str, float]]:
    return {name: {k: round(of([r[k] for r in rows]), 5) for k in rows[0]} for name, rows in runs.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--methods", default=",".join(METHODS), help="comma-separated subset of " + ", ".join(METHODS))
    args = parser.parse_args()
    names = args.methods.split(",")
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    source = load("adult")
    for seed in range(args.seeds):
        data = prepare(source, seed, group="sex")
        for name in names:
            runs[name].append(METHODS[name](data, seed))
            harness.note(f"seed {seed} {name}: " + ", ".join(f"{k} {v:.4f}" for k, v in runs[name][-1].items()))
    medians = summary(runs, statistics.median)
    means = summary(runs, statistics.fmean)
    checks = []
    if "fairbound" in runs:
        reached = means["fairbound"]
        checks = [
            harness.check("test difference, mean over seeds", reached["difference_test"], 0.03),
            harness.check("test error, mean over seeds", 1 - reached["accuracy_test"], 0.17),
        ]
        if "fairlearn" in runs:
            share = medians["fairbound"]["seconds"] / medians["fairlearn"]["seconds"]
            checks.append(harness.check("median seconds, fairbound / fairlearn", share, 1 / 3))
    harness.emit(
        {
            "benchmark": "adult_parity",
            "seeds": args.seeds,
            "means": means,
            "medians": medians,
            "runs": runs,
            "checks": checks,
            "environment": harness.environment("scikit-learn", "fairlearn"),
        }
    )


if __name__ == "__main__":
    main()
