"""Accuracy at equal difference: FairClassifier under stated bounds beside fairlearn's reduction, swept.

For each data set, split and notion, `FairClassifier` with its defaults, with objective="accuracy" and "loss", and straight in every number and without
weight decay is fitted under every bound, and fairlearn's
ExponentiatedGradient(LogisticRegression) under every value of SWEEP. With `--model mlp:64,32` both train networks: MLPClassifier with early stopping stands inside ExponentiatedGradient, of 20 rounds. All see the same arrays: the
training rows of one random 80/20 split per seed, float64, one-hot encoded and standardised, the sensitive attribute not among
them. Accuracy and difference (the largest over the notion's rates) are of hard decisions; those of fairlearn are drawn at random
by its `predict`, and its numbers are means over DRAWS draws.

Printed: for each (data, notion, bound) and part, our mean accuracy over the splits less that of fairlearn's frontier at the same
mean difference (means over splits joined by lines; below its smallest difference, its accuracy there), with a standard error
by the jackknife over splits; processor time; and the area under the ROC curve of held-out rows, ours and that of fairlearn's
frontier there (of its probabilities of a positive decision). All of our fits of a split come before fairlearn's: in between,
they would wait for memory that fairlearn's have given back in pieces. `--bent` gives fairlearn the bends and jumps that our encoder finds in the training rows. `--results` keeps every fit as a line of JSON and takes up where it stopped.
"""

from __future__ import annotations

import argparse
import functools
import json
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import harness

harness.single_thread()

import numpy as np  # noqa: E402
from sklearn.metrics import roc_auc_score  # noqa: E402

from fairbound.data import Dataset, Prepared, load, prepare  # noqa: E402
from fairbound.tables import TableEncoder, TableOptions  # noqa: E402

TABLES = {
    "adult": "sex",
    "bank": "age_25_60",
    "law-school": "race",
    "compas": "sex",
    "acs-income-co": "sex",
    "acs-income-us-46pct": "sex",
}
BOUNDS = (0.01, 0.02, 0.05)
NOTIONS = {
    "demographic_parity": ("DemographicParity", (None,)),
    "equal_opportunity": ("TruePositiveRateParity", (1,)),
    "equalized_odds": ("EqualizedOdds", (0, 1)),
}
DRAWS = 10
SWEEP = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.04)
OURS: dict[str, dict[str, Any]] = {
    "fairbound": {},
    "fairbound accuracy": {"objective": "accuracy"},
    "fairbound loss": {"objective": "loss"},
    "fairbound straight": {"options": TableOptions(knots=0), "weight_decay": 0.0},
}
"""What is said beside the bound and the model."""
PEER = "fairlearn"


def measures(positive: np.ndarray, y: np.ndarray, group: np.ndarray, labels: tuple) -> dict[str, float]:
    """Accuracy, and the largest difference of the groups' rates; positive: (n,) decisions."""
    gaps = []
    for label in labels:
        rows = np.ones(len(y), dtype=bool) if label is None else y == label
        rates = [positive[rows & (group == g)].mean() for g in np.unique(group)]
        gaps.append(max(rates) - min(rates))
    return {"accuracy": float((positive == y).mean()), "difference": float(max(gaps))}


def fitted(method: str, notion: str, value: float, data: Prepared, model: str = "linear") -> Any:
    """A function (X, draw) -> (n,) decisions, and one X -> (n,) scores."""
    if method in OURS:
        from fairbound import FairClassifier

        ours = FairClassifier(f"{notion} <= {value}", model=model, **OURS[method])
        ours.fit(data.X_train, data.y_train, sensitive_features=data.group_train)
        return lambda X, draw: ours.predict(X), ours.decision_function
    import fairlearn.reductions as reductions
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier

    moment = getattr(reductions, NOTIONS[notion][0])(difference_bound=value)
    hidden = tuple(int(width) for width in model.partition(":")[2].split(",") if width)
    inside = MLPClassifier(hidden, early_stopping=True, random_state=0) if hidden else LogisticRegression(max_iter=1000)
    peer = reductions.ExponentiatedGradient(inside, moment, eps=value, max_iter=20 if hidden else 50)
    peer.fit(data.X_train, data.y_train, sensitive_features=data.group_train)
    return lambda X, draw: peer.predict(X, random_state=draw), lambda X: peer._pmf_predict(X)[:, 1]


def of_parts(data: Prepared, notion: str, predict: Any, scores: Any, draws: int) -> dict[str, float]:
    """What is measured of a fit on training and test rows; predict, scores: as `fitted` gives them."""
    out: dict[str, float] = {}
    for part in ("train", "test"):
        X, y, group = (getattr(data, f"{of}_{part}") for of in ("X", "y", "group"))
        found = [measures(predict(X, draw), y, group, NOTIONS[notion][1]) for draw in range(draws)]
        out |= {f"{of}_{part}": float(np.mean([f[of] for f in found])) for of in found[0]}
        out[f"auc_{part}"] = float(roc_auc_score(y, scores(X)))
    return out


def stored(results: Path | None) -> list[dict[str, Any]]:
    """The fits that the file holds."""
    return [json.loads(line) for line in results.read_text().splitlines()] if results and results.exists() else []


def store(row: dict[str, Any], results: Path | None) -> None:
    if results:
        with results.open("a") as file:
            file.write(json.dumps(row) + "\n")


def library_split(table: str, seed: int) -> Prepared:
    return prepare(_loaded(table), seed, group=TABLES[table])


@functools.lru_cache(maxsize=1)
def _loaded(table: str) -> Dataset:
    return load(table)


def bent(data: Prepared) -> Prepared:
    """The same rows with the bends and jumps for which the training rows' labels ask."""
    encoder = TableEncoder(TableOptions(knots="auto")).fit(data.X_train, data.y_train)
    return replace(data, X_train=encoder.transform(data.X_train), X_test=encoder.transform(data.X_test))


def runs(
    tables: list[str],
    seeds: int,
    notions: list[str],
    methods: list[str],
    results: Path | None,
    model: str = "linear",
    split: Callable[[str, int], Prepared] = library_split,
    peer_bent: bool = False,
) -> list[dict[str, Any]]:
    """Every fit asked for that `results` does not hold yet, and those that it holds, as rows of numbers."""
    rows = [
        r
        for r in stored(results)
        if r.get("model") == model and r.get("bent", False) == (peer_bent and r["method"] == PEER)
    ]
    done = {(r["data"], r["seed"], r["notion"], r["method"], r["value"]) for r in rows}
    for table in tables:
        for seed in range(seeds):
            data = split(table, seed)
            of_peer = bent(data) if peer_bent else data
            asked = [(m, notion, b) for m in OURS for notion in notions for b in BOUNDS]
            asked += [(PEER, notion, b) for notion in notions for b in SWEEP]
            for method, notion, value in asked:
                if method not in methods or (table, seed, notion, method, value) in done:
                    continue
                given = of_peer if method == PEER else data
                start = time.process_time()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    predict, scores = fitted(method, notion, value, given, model)
                row: dict[str, Any] = {
                    "data": table,
                    "seed": seed,
                    "notion": notion,
                    "method": method,
                    "value": value,
                    "model": model,
                }
                if given is not data:
                    row["bent"] = True
                row["seconds"] = time.process_time() - start
                row |= of_parts(given, notion, predict, scores, DRAWS if method == PEER else 1)
                rows.append(row)
                store(row, results)
    return [r for r in rows if r["data"] in tables and r["seed"] < seeds and r["notion"] in notions]


def ahead(ours: np.ndarray, peer: np.ndarray) -> float:
    """Our mean accuracy less the peer's frontier at the same difference. ours: (splits, 2), peer: (splits, sweep, 2), each of
    (difference, accuracy)."""
    difference, accuracy = ours.mean(0)
    points = peer.mean(0)
    points = points[np.argsort(points[:, 0])]
    best = np.maximum.accumulate(points[:, 1])
    return float(accuracy - np.interp(difference, points[:, 0], best))


def jackknife(ours: np.ndarray, peer: np.ndarray) -> float:
    n = len(ours)
    if n < 2:
        return float("nan")
    left_out = np.array([ahead(np.delete(ours, i, 0), np.delete(peer, i, 0)) for i in range(n)])
    return float(np.sqrt((n - 1) / n * ((left_out - left_out.mean()) ** 2).sum()))


def _by_difference(pick: dict[Any, dict[str, Any]], seeds: list[int]) -> np.ndarray:
    """(2, sweep) mean held-out difference of the peer's fits, ascending, and their mean area under the ROC curve."""
    points = [[np.mean([pick[PEER, v, s][f"{of}_test"] for s in seeds]) for of in ("difference", "auc")] for v in SWEEP]
    return np.array(sorted(points)).T


def table_of(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    out = []
    keys = sorted({(r["data"], r["notion"]) for r in rows})
    for data, notion in keys:
        mine = [r for r in rows if (r["data"], r["notion"]) == (data, notion)]
        seeds = sorted({r["seed"] for r in mine})
        pick = {(r["method"], r["value"], r["seed"]): r for r in mine}
        seconds = np.median([r["seconds"] for r in mine if r["method"] == PEER])
        for method in [m for m in OURS if any(r["method"] == m for r in mine)]:
            for bound in BOUNDS:
                line: dict[str, Any] = {"data": data, "notion": notion, "method": method, "bound": bound}
                own = [pick[method, bound, s] for s in seeds]
                for part in ("train", "test"):
                    of = lambda r: [r[f"difference_{part}"], r[f"accuracy_{part}"]]  # noqa: B023, E731
                    ours = np.array([of(r) for r in own])
                    peer = np.array([[of(pick[PEER, v, s]) for v in SWEEP] for s in seeds])
                    line[f"{part}_difference"], line[f"{part}_accuracy"] = (round(float(v), 4) for v in ours.mean(0))
                    line[f"{part}_ahead"] = round(ahead(ours, peer), 4)
                    line[f"{part}_error"] = round(jackknife(ours, peer), 4)
                line["test_auc"] = round(float(np.mean([r["auc_test"] for r in own])), 4)
                line["fairlearn_auc"] = round(
                    float(np.interp(line["test_difference"], *_by_difference(pick, seeds))), 4
                )
                line["met"] = sum(r["difference_train"] <= bound + 1e-12 for r in own)
                line["seconds"] = round(float(np.median([r["seconds"] for r in own])), 2)
                line["times_fairlearn"] = round(line["seconds"] / seconds, 3)
                out.append(line)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument(
        "--data", default=",".join(list(TABLES)[:5]), help="comma-separated subset of " + ", ".join(TABLES)
    )
    parser.add_argument("--notions", default=",".join(NOTIONS))
    parser.add_argument("--methods", default=",".join([*OURS, PEER]), help="the fits to make and to compare")
    parser.add_argument("--model", default="linear", help='of both: "linear", or a network as "mlp:64,32"')
    parser.add_argument("--bent", action="store_true", help="fairlearn's models bend and jump where ours do")
    parser.add_argument("--results", type=Path, default=None)
    args = parser.parse_args()
    notions, methods = args.notions.split(","), args.methods.split(",")
    rows = runs(args.data.split(","), args.seeds, notions, methods, args.results, args.model, peer_bent=args.bent)
    asked = [m for m in OURS if m in args.methods.split(",")]
    if not asked or PEER not in args.methods.split(","):
        print(f"{len(rows)} fits are kept; a table needs {PEER} and at least one of {', '.join(OURS)}.")
        return
    lines = table_of([r for r in rows if r["method"] in (*asked, PEER)])
    width = {name: max(len(name), *(len(str(line[name])) for line in lines)) for name in lines[0]}
    print("  ".join(name.rjust(width[name]) for name in width))
    for line in lines:
        print("  ".join(str(line[name]).rjust(width[name]) for name in width))
    for method in asked:
        of = [line for line in lines if line["method"] == method]
        mean = {part: round(float(np.mean([line[f"{part}_ahead"] for line in of])), 4) for part in ("train", "test")}
        least = min(line["test_ahead"] + line["test_error"] for line in of)
        print(f"{method}: mean ahead {mean}, least test_ahead + test_error {least:.4f}, bounds met on the training rows in "
              f"{sum(line['met'] for line in of)} of {len(of) * args.seeds}, largest share of fairlearn's time "
              f"{max(line['times_fairlearn'] for line in of)}")  # fmt: skip


if __name__ == "__main__":
    main()
