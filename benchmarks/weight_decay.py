"""What weight decay adds on new rows: FairClassifier without it and with the amount that it chooses, on the tables of `knots.py`.

Of the 68 tables the rows, splits, order, notions and bounds are those of `knots.py`; features are plain, settings the default ones. The rule by
which it was to become the default was written down before the first fit with it on these tables (docs/training.md).

Printed, with less without: held-out accuracy, held-out difference, accuracy at equal difference (as in `knots.py`), training accuracy, mean logistic loss and area
under the ROC curve of held-out rows, with standard errors over tables; how often bounds are met; processor time. With `--fairlearn TABLES` for that many
tables, the same as of `knots.py`, accuracy less that of fairlearn's frontier at the same difference too. `--results` keeps every fit as a line of JSON and takes up where it stopped.
"""

from __future__ import annotations

import argparse
import itertools
import time
import warnings
from pathlib import Path
from typing import Any

import frontier_vs_fairlearn as frontier
import knots
import pandas as pd
from sklearn.metrics import log_loss

from fairbound import FairClassifier

WITHOUT, WITH = "weight_decay=0", "weight_decay=auto"
DECAYS: dict[str, Any] = {WITHOUT: 0.0, WITH: "auto"}


def fit(name: str, seed: int, notion: str, method: str, value: float) -> dict[str, Any]:
    if method == frontier.PEER:
        return knots.fit(name, seed, notion, method, value)
    data, start = knots.split(name, seed)[False], time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours = FairClassifier(f"{notion} <= {value}", weight_decay=DECAYS[method])
        ours.fit(data.X_train, data.y_train, sensitive_features=data.group_train)
    row: dict[str, Any] = {"data": name, "seed": seed, "notion": notion, "method": method, "value": value}
    row["seconds"] = time.process_time() - start
    row["decay"] = len(data.y_train) * ours.fit_report_["optimality"]["weight_decay"]
    for part in ("train", "test"):
        X, y = (getattr(data, f"{of}_{part}") for of in ("X", "y"))
        row[f"loss_{part}"] = float(log_loss(y, ours.predict_proba(X)[:, 1]))
    return row | frontier.of_parts(data, notion, lambda X, draw: ours.predict(X), ours.decision_function, 1)


def added(made: pd.DataFrame) -> None:
    plain, decayed = (knots.of_method(made, method) for method in (WITHOUT, WITH))
    names = ("accuracy_test", "difference_test", "accuracy_train", "loss_test", "auc_test")
    tables, slope = knots.gains(plain, decayed, names)
    for label, of in (("without", plain), ("with", decayed)):
        met = knots.met_on_training_rows(of)
        print(f"{label}: bounds met on the training rows in {met.sum()} of {len(met)} fits, held-out accuracy {of.accuracy_test.mean():.4f}, "
              f"difference {of.difference_test.mean():.4f}, loss {of.loss_test.mean():.4f}")  # fmt: skip
    chosen = decayed.groupby(["data", "seed"]).decay.first().round(2).value_counts().sort_index()
    print(f"{len(tables)} tables, slope {slope:.3f}, processor time {(decayed.seconds / plain.seconds).median():.2f} times in the median; decay times "
          f"rows, and how often: {chosen.to_dict()}")  # fmt: skip
    knots.say(tables, len(tables))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=int, default=len(knots.TABLES), help="the first so many, in order")
    parser.add_argument("--fairlearn", type=int, default=0, help="so many beside fairlearn too, those of knots.py")
    parser.add_argument("--results", type=Path, default=None)
    args = parser.parse_args()
    names = knots.ordered()[: args.tables]
    added(knots.fits([(name, method) for name in names for method in DECAYS], args.results, fit))
    bent = (name for name in names if any(True in knots.split(name, seed) for seed in knots.SEEDS))
    if names := list(itertools.islice(bent, args.fairlearn)):
        print(f"beside fairlearn, on {len(names)} tables:")
        asked = [(name, method) for name in names for method in (*DECAYS, frontier.PEER)]
        knots.beside(knots.fits(asked, args.results, fit), [(method, method, frontier.PEER) for method in DECAYS])


if __name__ == "__main__":
    main()
