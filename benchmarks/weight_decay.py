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
import json
import time
import warnings
from pathlib import Path
from typing import Any

import frontier_vs_fairlearn as frontier
import knots
import numpy as np
import pandas as pd
from sklearn.metrics import log_loss, roc_auc_score

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
        X, y, group = (getattr(data, f"{of}_{part}") for of in ("X", "y", "group"))
        found = frontier.measures(ours.predict(X), y, group, frontier.NOTIONS[notion][1])
        row |= {f"{of}_{part}": value for of, value in found.items()}
        row[f"auc_{part}"] = float(roc_auc_score(y, ours.decision_function(X)))
        row[f"loss_{part}"] = float(log_loss(y, ours.predict_proba(X)[:, 1]))
    return row


def fits(asked: list[tuple[str, str]], results: Path | None) -> pd.DataFrame:
    """A row for each fit of (table, method)."""
    rows = [json.loads(line) for line in results.read_text().splitlines()] if results and results.exists() else []
    known = {(r["data"], r["seed"], r["notion"], r["method"], r["value"]): r for r in rows}
    out = []
    for name, method in asked:
        for seed in knots.SEEDS:
            for notion in frontier.NOTIONS:
                for value in knots.SWEEP if method == frontier.PEER else knots.BOUNDS:
                    key = (name, seed, notion, method, value)
                    if key not in known:
                        known[key] = fit(*key)
                        if results:
                            with results.open("a") as file:
                                file.write(json.dumps(known[key]) + "\n")
                    out.append(known[key])
    return pd.DataFrame(out)


def added(made: pd.DataFrame) -> None:
    keys = ["data", "seed", "notion", "value"]
    plain, decayed = (made[made.method == method].set_index(keys) for method in (WITHOUT, WITH))
    within = plain.groupby(["data", "seed", "notion"])
    dx, dy = (plain[f"{of}_test"] - within[f"{of}_test"].transform("mean") for of in ("difference", "accuracy"))
    slope = (dx * dy).sum() / (dx**2).sum()
    names = ("accuracy_test", "difference_test", "accuracy_train", "loss_test", "auc_test")
    more = pd.DataFrame({name: decayed[name] - plain[name] for name in names})
    more["accuracy_at_equal_difference"] = more.accuracy_test - slope * more.difference_test
    tables = more.groupby("data").mean()
    for label, of in (("without", plain), ("with", decayed)):
        met = of.difference_train <= of.index.get_level_values("value") + 1e-12
        print(f"{label}: bounds met on the training rows in {met.sum()} of {len(met)} fits, held-out accuracy {of.accuracy_test.mean():.4f}, "
              f"difference {of.difference_test.mean():.4f}, loss {of.loss_test.mean():.4f}")  # fmt: skip
    chosen = decayed.groupby(["data", "seed"]).decay.first().round(2).value_counts().sort_index()
    print(f"{len(tables)} tables, slope {slope:.3f}, processor time {(decayed.seconds / plain.seconds).median():.2f} times in the median; decay times "
          f"rows, and how often: {chosen.to_dict()}")  # fmt: skip
    for name, of in tables.items():
        print(f"  {name}: {of.mean():+.4f} (standard error {of.std() / len(of) ** 0.5:.4f}), {(of > 1e-9).sum()} tables above 0, "
              f"{(of < -1e-9).sum()} below")  # fmt: skip


def beside(made: pd.DataFrame) -> None:
    for part in ("train", "test"):
        for method in DECAYS:
            ahead: dict[str, list[float]] = {}
            for (name, _), of in made.groupby(["data", "notion"]):
                points = {
                    key: rows.sort_values("seed")[[f"difference_{part}", f"accuracy_{part}"]].to_numpy()
                    for key, rows in of.groupby(["method", "value"])
                }
                sweep = np.stack([points[frontier.PEER, value] for value in knots.SWEEP], axis=1)
                of_bounds = [frontier.ahead(points[method, bound], sweep) for bound in knots.BOUNDS]
                ahead.setdefault(name, []).extend(of_bounds)
            tables = pd.Series({name: np.mean(values) for name, values in ahead.items()})
            print(f"  {part}, {method}: ahead of fairlearn by {tables.mean():+.4f} (standard error {tables.std() / len(tables) ** 0.5:.4f}), "
                  f"{(tables > 0).sum()} tables ahead, {(tables < 0).sum()} behind")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=int, default=len(knots.TABLES), help="the first so many, in order")
    parser.add_argument("--fairlearn", type=int, default=0, help="so many beside fairlearn too, those of knots.py")
    parser.add_argument("--results", type=Path, default=None)
    args = parser.parse_args()
    names = knots.ordered()[: args.tables]
    added(fits([(name, method) for name in names for method in DECAYS], args.results))
    bent = (name for name in names if any(True in knots.split(name, seed) for seed in knots.SEEDS))
    if names := list(itertools.islice(bent, args.fairlearn)):
        print(f"beside fairlearn, on {len(names)} tables:")
        beside(fits([(name, method) for name in names for method in (*DECAYS, frontier.PEER)], args.results))


if __name__ == "__main__":
    main()
