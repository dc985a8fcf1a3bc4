"""What knots and weight decay, each chosen from the training rows, add as defaults: FairClassifier with each, both and neither.

On the 60 tables FRESH of `public_tables.py`, on which no setting was chosen, or with `--tables-of older` on the 68 OLDER: splits 0 and 1,
three notions, bounds 0.01 and 0.05, linear models, other settings at their defaults. The rule by which either was to become a default was
written down before the first fit on the fresh tables (docs/training.md). Where no number bends in a split, the model without knots stands for that with them.

Printed, less neither: held-out accuracy, held-out difference, accuracy at equal difference (less the added difference times the pooled slope
of accuracy over difference of the fits with neither), training accuracy, mean logistic loss and area under the ROC curve of held-out rows, with standard errors over
tables; how often bounds are met; processor time. With `--fairlearn N`, on the first N tables in order, also accuracy less that of fairlearn's frontier
at the same difference, fairlearn without and with the same knots (of fewer tables with `--bent N`). With `--objectives` instead what objective="loss" and "accuracy" are less "auto", all with neither.
`--results` keeps every fit as a line of JSON and takes up where it stopped.
"""

from __future__ import annotations

import argparse
import functools
import random
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import frontier_vs_fairlearn as frontier
import numpy as np
import pandas as pd
from public_tables import TABLES
from sklearn.metrics import log_loss
from unseen_tables import read, with_knots

from fairbound import FairClassifier
from fairbound.data import Prepared, prepare
from fairbound.tables import TableOptions

SEEDS = (0, 1)
BOUNDS, SWEEP = (0.01, 0.05), (0.003, 0.02, 0.08)
ARMS: dict[str, tuple[str, Any, Any]] = {
    "none": ("auto", 0, 0.0),
    "knots": ("auto", "auto", 0.0),
    "decay": ("auto", 0, "auto"),
    "both": ("auto", "auto", "auto"),
    "loss": ("loss", 0, 0.0),
    "accuracy": ("accuracy", 0, 0.0),
}
"""Objective, knots and weight decay."""
PEERS = ("fairlearn", "fairlearn with knots")
LAST = "hospital stays"
WITHOUT_KNOTS = {"knots": "none", "both": "decay", PEERS[1]: PEERS[0]}
MEASURED = ("accuracy_test", "difference_test", "accuracy_train", "loss_test", "auc_test")


@functools.lru_cache(maxsize=4)
def split(name: str, seed: int) -> dict[bool, Prepared]:
    """The rows without and with the knots that were chosen; without alone where none were."""
    table, rows = next((tables[name], rows) for tables, rows in TABLES.values() if name in tables)
    data = prepare(read(table, rows, "t"), seed, group=table.group)
    bent = with_knots(data)
    return {False: data} | ({True: bent} if bent.X_train.shape[1] > data.X_train.shape[1] else {})


def ordered(which: str) -> list[str]:
    """A random order, but for the table on which fairlearn takes longest."""
    names = sorted(TABLES[which][0])
    random.Random(0).shuffle(names)
    return [name for name in names if name != LAST] + [name for name in names if name == LAST]


def fit(name: str, seed: int, notion: str, method: str, value: float) -> dict[str, Any]:
    data = split(name, seed)[method == PEERS[1]]
    row: dict[str, Any] = {"data": name, "seed": seed, "notion": notion, "method": method, "value": value}
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if method in PEERS:
            predict, scores = frontier.fitted(frontier.PEER, notion, value, data)
            row["seconds"] = time.process_time() - start
            return row | frontier.of_parts(data, notion, predict, scores, frontier.DRAWS)
        objective, knots, decay = ARMS[method]
        options = TableOptions(knots=knots)
        ours = FairClassifier(f"{notion} <= {value}", objective=objective, weight_decay=decay, options=options)
        ours.fit(data.X_train, data.y_train, sensitive_features=data.group_train)
    row["seconds"] = time.process_time() - start
    row["loss_test"] = float(log_loss(data.y_test, ours.predict_proba(data.X_test)[:, 1]))
    return row | frontier.of_parts(data, notion, lambda X, draw: ours.predict(X), ours.decision_function, 1)


def fits(names: Sequence[str], methods: Sequence[str], results: Path | None) -> pd.DataFrame:
    """A row for each fit; same: another stands for it, as no number bends."""
    known = {(r["data"], r["seed"], r["notion"], r["method"], r["value"]): r for r in frontier.stored(results)}
    out = []
    for name, method, seed in [(n, m, s) for n in names for m in methods for s in SEEDS]:
        same = method in WITHOUT_KNOTS and True not in split(name, seed)
        for notion in frontier.NOTIONS:
            for value in SWEEP if method in PEERS else BOUNDS:
                key = (name, seed, notion, WITHOUT_KNOTS[method] if same else method, value)
                if key not in known:
                    known[key] = fit(*key)
                    frontier.store(known[key], results)
                out.append(known[key] | {"method": method, "same": same})
    return pd.DataFrame(out)


def added(made: pd.DataFrame, method: str, base: str = "none") -> None:
    """Prints what `method` is less `base`."""
    base_of, of = (made[made.method == m].set_index(["data", "seed", "notion", "value"]) for m in (base, method))
    within = base_of.groupby(["data", "seed", "notion"])
    dx, dy = (base_of[f"{what}_test"] - within[f"{what}_test"].transform("mean") for what in ("difference", "accuracy"))
    slope = (dx * dy).sum() / (dx**2).sum()
    more = pd.DataFrame({name: of[name] - base_of[name] for name in MEASURED})
    more["accuracy_at_equal_difference"] = more.accuracy_test - slope * more.difference_test
    tables = more.groupby("data").mean()
    met = of.difference_train <= of.index.get_level_values("value") + 1e-12
    times = (of.seconds / base_of.seconds)[~of.same]
    before = base_of[["accuracy_test", "difference_test", "loss_test"]].mean()
    print(f"{method} less {base}: {len(tables)} tables, slope {slope:.3f}; bounds met on the training rows in {met.sum()} of {len(met)} fits; "
          f"processor time {times.median():.2f} times in the median; before: {before.round(4).to_dict()}")  # fmt: skip
    for name, found in tables.items():
        print(f"  {name}: {found.mean():+.4f} (standard error {found.std() / len(found) ** 0.5:.4f}), {(found > 1e-9).sum()} tables above 0, "
              f"{(found < -1e-9).sum()} below")  # fmt: skip


def beside(made: pd.DataFrame, pairs: Sequence[tuple[str, str]]) -> None:
    """Prints how far our fits are ahead of fairlearn's frontier. pairs: our method and the peer."""
    lines = []
    for (name, notion), of in made.groupby(["data", "notion"]):

        def points(method: str, value: float, part: str, of: pd.DataFrame = of) -> list[list[float]]:
            rows = of[(of.method == method) & (of.value == value)].sort_values("seed")
            return rows[[f"difference_{part}", f"accuracy_{part}"]].to_numpy().tolist()

        for part in ("train", "test"):
            for ours, peer in pairs:
                sweep = np.array([points(peer, value, part) for value in SWEEP]).transpose(1, 0, 2)
                for bound in BOUNDS:
                    ahead = frontier.ahead(np.array(points(ours, bound, part)), sweep)
                    lines.append(
                        {"data": name, "notion": notion, "part": part, "of": f"{ours}, {peer}", "ahead": ahead}
                    )
    for (part, label), of in pd.DataFrame(lines).groupby(["part", "of"], sort=False):
        tables, notions = of.groupby("data").ahead.mean(), of.groupby("notion").ahead.mean().round(4)
        print(f"  {part}, {label}: ahead of fairlearn by {tables.mean():+.4f} (standard error {tables.std() / len(tables) ** 0.5:.4f}), "
              f"{(tables > 0).sum()} tables ahead, {(tables < 0).sum()} behind; by notion {notions.to_dict()}")  # fmt: skip
    print(f"  area under the ROC curve, held out: {made.groupby('method').auc_test.mean().round(3).to_dict()}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables-of", choices=TABLES, default="fresh")
    parser.add_argument("--tables", type=int, default=None, help="the first so many, in order; all unless given")
    parser.add_argument("--fairlearn", type=int, default=0, help="the first so many beside fairlearn too")
    parser.add_argument(
        "--bent",
        type=int,
        default=None,
        help="the first so many beside fairlearn with knots; as --fairlearn unless given",
    )
    parser.add_argument("--objectives", action="store_true", help="compare objectives, with neither")
    parser.add_argument("--results", type=Path, default=None)
    args = parser.parse_args()
    names = ordered(args.tables_of)[: args.tables]
    arms = ("none", "loss", "accuracy") if args.objectives else ("none", "knots", "decay", "both")
    made = fits(names, arms, args.results)
    for method in arms[1:]:
        added(made, method)
    if not args.objectives:
        added(made, "both", "knots")
    for peer, count in zip(PEERS, (args.fairlearn, args.fairlearn if args.bent is None else args.bent), strict=True):
        if some := names[:count]:
            print(f"beside {peer}, on {len(some)} tables:")
            beside(fits(some, (*arms, peer), args.results), [(ours, peer) for ours in arms])


if __name__ == "__main__":
    main()
