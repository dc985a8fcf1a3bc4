"""FairClassifier's default, a linear model, beside other learners of scikit-learn, without a bound and under one.

The first `--tables` of FRESH in `public_tables.py`, in the order of `defaults.py`; splits 0 and 1. Without a bound: the
default under a bound that holds for any model, LogisticRegression, boosted trees at scikit-learn's default and slower ones,
and a random forest. No option of any was tuned. With `--under-bounds N`: on the first N tables of 1,000 to 10,000 rows the default under parity
and equalised odds within 0.02 and 0.05 beside fairlearn's ExponentiatedGradient around the slower trees, swept. Printed: held-out accuracy (under bounds that at the same
difference, as in `frontier_vs_fairlearn.py`) and area under the ROC curve, ours less theirs, means over tables with a standard
error. `--results` keeps every fit as a line of JSON and takes up where it stopped.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import any_classifier
import frontier_vs_fairlearn as frontier
import numpy as np
import pandas as pd
from defaults import SEEDS, ordered, split
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression

OURS, PEER = "fairbound", "fairlearn, slower trees"
SLOWER = HistGradientBoostingClassifier(
    learning_rate=0.05, max_leaf_nodes=8, max_iter=150, l2_regularization=1.0, random_state=0
)
LEARNERS: dict[str, Any] = {
    "logistic regression": LogisticRegression(max_iter=2000),
    "boosted trees": HistGradientBoostingClassifier(random_state=0),
    "slower trees": SLOWER,
    "random forest": RandomForestClassifier(300, min_samples_leaf=3, random_state=0),
}
NOTIONS, BOUNDS, SWEEP = ("demographic_parity", "equalized_odds"), (0.02, 0.05), (0.005, 0.02, 0.05)
NO_BOUND = 1.0


def fit(name: str, seed: int, notion: str, method: str, value: float) -> dict[str, Any]:
    """What one fit reaches on training and test rows."""
    data = split(name, seed)["straight"]
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if method == OURS:
            predict, scores = frontier.fitted(OURS, notion, value, data)
        elif method == PEER:
            predict, scores, _ = any_classifier.fairlearn(SLOWER, notion, value, data)
        else:
            model = LEARNERS[method].fit(data.X_train, data.y_train)
            predict, scores = (lambda X, draw: model.predict(X)), (lambda X: model.predict_proba(X)[:, 1])
        row = {"data": name, "seed": seed, "notion": notion, "method": method, "value": value}
        row["seconds"] = time.process_time() - start
        return row | frontier.of_parts(data, notion, predict, scores, frontier.DRAWS if method == PEER else 1)


def fits(keys: list[tuple[str, int, str, str, float]], results: Path | None) -> pd.DataFrame:
    known = {(r["data"], r["seed"], r["notion"], r["method"], r["value"]): r for r in frontier.stored(results)}
    for key in keys:
        if key not in known:
            known[key] = fit(*key)
            frontier.store(known[key], results)
    return pd.DataFrame([known[key] for key in keys])


def said(what: str, of_tables: np.ndarray) -> str:
    error = of_tables.std(ddof=1) / len(of_tables) ** 0.5
    return (
        f"{what} {of_tables.mean():+.4f} ± {error:.4f} ({(of_tables > 0).sum()} ahead, {(of_tables < 0).sum()} behind)"
    )


def without_bounds(names: list[str], results: Path | None) -> None:
    made = fits([(n, s, NOTIONS[0], m, NO_BOUND) for n in names for m in (OURS, *LEARNERS) for s in SEEDS], results)
    means = made.groupby(["data", "method"])[["accuracy_test", "auc_test", "seconds"]].mean().unstack("method")
    print(f"{len(names)} tables without a bound, ours less that of")
    for learner in LEARNERS:
        found = [said(what, (means[of][OURS] - means[of][learner]).to_numpy()) for what, of in
                 (("accuracy", "accuracy_test"), ("area", "auc_test"))]  # fmt: skip
        times = (means["seconds"][OURS] / means["seconds"][learner]).median()
        print(f"  {learner}: {', '.join(found)}; {times:.2f} of its processor time in the median")
    best = means["accuracy_test"][list(LEARNERS)].max(axis=1) - means["accuracy_test"][OURS]
    print("furthest behind the best of them:", "; ".join(f"{n} {v:.3f}" for n, v in best.nlargest(6).items()))


def of_some_rows(count: int) -> list[str]:
    """The first so many tables of 1,000 to 10,000 rows."""
    names: list[str] = []
    for name in ordered("fresh"):
        data = split(name, 0)["straight"]
        if 1_000 <= len(data.y_train) + len(data.y_test) <= 10_000 and len(names) < count:
            names.append(name)
    return names


def under_bounds(count: int, results: Path | None) -> None:
    names = of_some_rows(count)
    methods = {OURS: BOUNDS, PEER: SWEEP}
    keys = [
        (n, s, notion, m, v) for n in names for s in SEEDS for notion in NOTIONS for m in methods for v in methods[m]
    ]
    made = fits(keys, results)
    print(
        f"{len(names)} tables under bounds, ours less fairlearn's around the slower trees, at the same held-out difference"
    )
    for notion in NOTIONS:
        for bound in BOUNDS:
            ahead = []
            for name in names:
                of = made[(made.data == name) & (made.notion == notion)]
                sweep = np.array([any_classifier.points(of, PEER, v, "test") for v in SWEEP]).transpose(1, 0, 2)
                ahead.append(frontier.ahead(np.array(any_classifier.points(of, OURS, bound, "test")), sweep))
            ours = made[(made.method == OURS) & (made.notion == notion) & (made.value == bound)]
            theirs = made[(made.method == PEER) & (made.notion == notion) & (made.value == bound)]
            met = (ours.difference_train <= bound + 1e-9).sum()
            print(f"  {notion} <= {bound}: {said('accuracy', np.array(ahead))}; met on the training rows in {met} of {len(ours)} fits; held-out "
                  f"difference {ours.difference_test.mean():.3f} and {theirs.difference_test.mean():.3f}, accuracy "
                  f"{ours.accuracy_test.mean():.4f} and {theirs.accuracy_test.mean():.4f}, seconds "
                  f"{ours.seconds.mean():.2f} and {theirs.seconds.mean():.2f}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=int, default=54)
    parser.add_argument("--under-bounds", type=int, default=0)
    parser.add_argument("--results", type=Path, default=None)
    args = parser.parse_args()
    if args.tables:
        without_bounds(ordered("fresh")[: args.tables], args.results)
    if args.under_bounds:
        under_bounds(args.under_bounds, args.results)


if __name__ == "__main__":
    main()
