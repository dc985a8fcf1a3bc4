"""What knots, weight decay, jumps and pairs of columns, each chosen from the training rows, add as defaults: FairClassifier with some of them, all and none.

On the 60 tables FRESH of `public_tables.py`, on which no setting was chosen, or with `--tables-of older` on the 68 OLDER, `--tables-of large` on LARGE and the data sets NAMED, or `--tables-of many-groups`: splits 0 and 1,
three notions, bounds 0.01 and 0.05, linear models, other settings at their defaults. The rule by which either was to become a default was
written down before the first fit on the fresh tables (docs/training_measured.md). Where no number bends (or jumps, or no pair is found) in a split, the model without stands for that with.

Printed for each of `--arms` less the first, and for the last less the one before it: held-out accuracy, held-out difference, accuracy at equal difference (less the added difference times the pooled slope
of accuracy over difference of the fits that it is compared with), training accuracy, mean logistic loss and area under the ROC curve of held-out rows, with standard errors over
tables; how often bounds are met; processor time. With `--fairlearn N`, on the first N tables in order, also accuracy less that of fairlearn's frontier
at the same difference, fairlearn without and with the same knots, jumps and pairs (of fewer tables with `--bent N`). Where ours is smaller than all of fairlearn's, the frontier has the accuracy
of its smallest; printed too is ours beside a frontier that goes on to one answer for all rows, whose difference is 0, as draws between the two would. `--arms none,loss,accuracy` compares objectives, with neither.
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
from public_tables import NAMED, TABLES
from sklearn.metrics import log_loss
from unseen_tables import read, shaped

from fairbound import FairClassifier
from fairbound.data import Prepared, load, prepare
from fairbound.tables import TableOptions

SEEDS = (0, 1)
BOUNDS, SWEEP = (0.01, 0.05), (0.003, 0.02, 0.08)
SHAPES = {
    "straight": TableOptions(knots=0),
    "bent": TableOptions(knots="auto", jumps=0),
    "jumping": TableOptions(knots="auto", jumps="auto", pairs=0),
    "pairing": TableOptions(knots="auto", jumps="auto", pairs="auto"),
}
ARMS: dict[str, tuple[str, str, Any]] = {
    "none": ("auto", "straight", 0.0),
    "knots": ("auto", "bent", 0.0),
    "decay": ("auto", "straight", "auto"),
    "both": ("auto", "bent", "auto"),
    "jumps": ("auto", "jumping", "auto"),
    "default": ("auto", "pairing", "auto"),
    "loss": ("loss", "straight", 0.0),
    "accuracy": ("accuracy", "straight", 0.0),
    "as it comes": ("auto", "straight", "auto"),
}
"""Objective, shape and weight decay; of "as it comes" the shape is left to FairClassifier, which also bends where bounds ask for it."""
PEERS = ("fairlearn", "fairlearn with our features")
PEER_SHAPES = {PEERS[0]: "straight", "fairlearn with our bends": "bent", PEERS[1]: "pairing"}
LAST = "hospital stays"
STRAIGHTER = {"knots": "none", "both": "decay", "jumps": "both", "default": "jumps"}
STRAIGHTER |= dict(zip([*PEER_SHAPES][1:], PEER_SHAPES, strict=False))
"""What stands for a method where its shape changes nothing."""
MEASURED = ("accuracy_test", "difference_test", "accuracy_train", "loss_test", "auc_test")


@functools.lru_cache(maxsize=4)
def split(name: str, seed: int) -> dict[str, Prepared]:
    """The rows as they are, and in each shape that the labels ask for."""
    if name in NAMED:
        out = {"straight": prepare(load(name), seed, group=NAMED[name])}
    else:
        table, rows = next((tables[name], rows) for tables, rows in TABLES.values() if name in tables)
        out = {"straight": prepare(read(table, rows, "t"), seed, group=table.group)}
    for shape in ("bent", "jumping", "pairing"):
        features = shaped(out["straight"], SHAPES[shape])
        if features.X_train.shape[1] > max(data.X_train.shape[1] for data in out.values()):
            out[shape] = features
    return out


def shape_of(method: str) -> str:
    """Of a method's features."""
    return ARMS[method][1] if method in ARMS else PEER_SHAPES[method]


def stands_for(method: str, name: str, seed: int) -> str:
    """The method that a method is where the labels do not ask for its shape."""
    while shape_of(method) not in split(name, seed):
        method = STRAIGHTER[method]
    return method


def ordered(which: str) -> list[str]:
    """A random order, but for the table on which fairlearn takes longest."""
    names = sorted({**TABLES[which][0], **(NAMED if which == "large" else {})})
    random.Random(0).shuffle(names)
    return [name for name in names if name != LAST] + [name for name in names if name == LAST]


def fit(name: str, seed: int, notion: str, method: str, value: float) -> dict[str, Any]:
    data = split(name, seed)[shape_of(method) if method in PEER_SHAPES else "straight"]
    row: dict[str, Any] = {"data": name, "seed": seed, "notion": notion, "method": method, "value": value}
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if method in PEER_SHAPES:
            predict, scores = frontier.fitted(frontier.PEER, notion, value, data)
            row["seconds"] = time.process_time() - start
            return row | frontier.of_parts(data, notion, predict, scores, frontier.DRAWS)
        objective, shape, decay = ARMS[method]
        options = None if method == "as it comes" else SHAPES[shape]
        ours = FairClassifier(f"{notion} <= {value}", objective=objective, weight_decay=decay, options=options)
        ours.fit(data.X_train, data.y_train, sensitive_features=data.group_train)
    row["seconds"] = time.process_time() - start
    row["loss_test"] = float(log_loss(data.y_test, ours.predict_proba(data.X_test)[:, 1]))
    return row | frontier.of_parts(data, notion, lambda X, draw: ours.predict(X), ours.decision_function, 1)


def fits(names: Sequence[str], methods: Sequence[str], results: Path | None) -> pd.DataFrame:
    """A row for each fit; same: another stands for it."""
    known = {(r["data"], r["seed"], r["notion"], r["method"], r["value"]): r for r in frontier.stored(results)}
    out = []
    for name, method, seed in [(n, m, s) for n in names for m in methods for s in SEEDS]:
        stands = stands_for(method, name, seed)
        for notion in frontier.NOTIONS:
            for value in SWEEP if method in PEERS else BOUNDS:
                key = (name, seed, notion, stands, value)
                if key not in known:
                    known[key] = fit(*key)
                    frontier.store(known[key], results)
                out.append(known[key] | {"method": method, "same": stands != method})
    return pd.DataFrame(out)


def added(made: pd.DataFrame, method: str, base: str) -> None:
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


def one_answer(name: str, part: str) -> np.ndarray:
    """(splits, 1, 2) difference 0 and the accuracy of giving all rows the commoner label of the training rows."""
    splits = [split(name, seed)["straight"] for seed in SEEDS]
    answers = [float(data.y_train.mean() >= 0.5) for data in splits]
    labels = [data.y_train if part == "train" else data.y_test for data in splits]
    return np.array([[[0.0, np.mean(y == answer)]] for y, answer in zip(labels, answers, strict=True)])


def beside(made: pd.DataFrame, pairs: Sequence[tuple[str, str]]) -> None:
    """Prints how far our fits are ahead of fairlearn's frontier, without and with the model that gives all rows one answer among its
    points. pairs: our method and the peer."""
    lines = []
    for (name, notion), of in made.groupby(["data", "notion"]):

        def points(method: str, value: float, part: str, of: pd.DataFrame = of) -> list[list[float]]:
            rows = of[(of.method == method) & (of.value == value)].sort_values("seed")
            return rows[[f"difference_{part}", f"accuracy_{part}"]].to_numpy().tolist()

        for part in ("train", "test"):
            for ours, peer in pairs:
                sweep = np.array([points(peer, value, part) for value in SWEEP]).transpose(1, 0, 2)
                wider = np.concatenate([one_answer(name, part), sweep], 1)
                for bound in BOUNDS:
                    own = np.array(points(ours, bound, part))
                    line = {"data": name, "notion": notion, "part": part, "of": f"{ours}, {peer}"}
                    line["below"] = own.mean(0)[0] < sweep.mean(0)[:, 0].min()
                    for of_frontier, found in (("", sweep), (" with one answer for all rows", wider)):
                        what = line["of"] + of_frontier
                        lines.append(line | {"of": what, "ahead": frontier.ahead(own, found)})
    for (part, label), of in pd.DataFrame(lines).groupby(["part", "of"], sort=False):
        tables, notions = of.groupby("data").ahead.mean(), of.groupby("notion").ahead.mean().round(4)
        print(f"  {part}, {label}: ahead of fairlearn by {tables.mean():+.4f} (standard error {tables.std() / len(tables) ** 0.5:.4f}), "
              f"{(tables > 0).sum()} tables ahead, {(tables < 0).sum()} behind; by notion {notions.to_dict()}; "
              f"{of.below.sum()} of {len(of)} of our points below fairlearn's smallest difference")  # fmt: skip
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
        help="the first so many beside fairlearn with our features; as --fairlearn unless given",
    )
    parser.add_argument("--arms", default="none,knots,decay,both,default", help=f"of {', '.join(ARMS)}")
    parser.add_argument("--results", type=Path, default=None)
    args = parser.parse_args()
    names = ordered(args.tables_of)[: args.tables]
    arms = args.arms.split(",")
    made = fits(names, arms, args.results)
    for method, base in dict.fromkeys([*((arm, arms[0]) for arm in arms[1:]), tuple(arms[:-3:-1])]):
        added(made, method, base)
    for peer, count in zip(PEERS, (args.fairlearn, args.fairlearn if args.bent is None else args.bent), strict=True):
        if some := names[:count]:
            print(f"beside {peer}, on {len(some)} tables:")
            beside(fits(some, (*arms, peer), args.results), [(ours, peer) for ours in arms])


if __name__ == "__main__":
    main()
