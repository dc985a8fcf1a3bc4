"""Thresholds of groups: PostProcessor beside fairlearn's ThresholdOptimizer, on the same scores.

Five random 80/20 splits of Adult (sex), COMPAS (race, two values), the law school (race) and the bank's calls (age). The
score is that of scikit-learn's logistic regression on standardised features, the sensitive one not among them. Both choose
thresholds on the training rows. ThresholdOptimizer equalises rates (bound 0) by mixing thresholds; ours is run so too, and
with one threshold per group and with mixtures under the bounds 0.01, 0.02 and 0.05. Of rules that are random all numbers are
expectations over their draws. Prints one JSON object. Target: over all data and notions, held-out accuracy at bound 0, and at
fairlearn's held-out difference, no lower than fairlearn's by more than a standard error over the splits, or 0.0001.

`--public N` takes instead the first N of the 60 tables FRESH of `public_tables.py` in the order of `defaults.py`, splits 0 and 1, and adds
`FairClassifier(use_groups_at_prediction=True)`, which trains its own scores. It prints, for each notion and rule, means over tables of
accuracies, differences, and accuracy less fairlearn's, with standard errors.

`--unfitted N` takes the same tables, and a random forest, boosted trees and logistic regression that `PostProcessor` itself fits, with folds=0, 5
and "auto", under parity within 0.02 and 0.05. It prints means over tables of held-out accuracy and difference, and of how often folds were taken.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
import warnings
from typing import Any, Literal

import harness

harness.single_thread()

import numpy as np  # noqa: E402
from sklearn.base import clone  # noqa: E402
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402

from fairbound import FairClassifier, PostProcessor  # noqa: E402
from fairbound.data import Prepared, load, prepare  # noqa: E402

DATA = {"adult": "sex", "compas": "race_binary", "law-school": "race", "bank": "age_25_60"}
NOTIONS = {
    "demographic_parity": "demographic_parity",
    "equal_opportunity": "true_positive_rate_parity",
    "equalized_odds": "equalized_odds",
}
BOUNDS = (0.01, 0.02, 0.05)
PUBLIC_BOUNDS = (0.01, 0.05)
MODELS = {
    "forest": RandomForestClassifier(50, random_state=0),
    "boosted trees": HistGradientBoostingClassifier(max_iter=60, random_state=0),
    "logistic regression": LogisticRegression(max_iter=1000),
}
FOLDS: tuple[int | Literal["auto"], ...] = (0, 5, "auto")
LEAST = 1e-4  # of accuracy that is told apart


def measured(notion: str, chance: np.ndarray, y: np.ndarray, group: np.ndarray) -> dict[str, float]:
    """Accuracy and the largest difference of the notion's rates between groups, of chances (n,) of a positive decision."""
    labels = {"demographic_parity": (None,), "equal_opportunity": (1,), "equalized_odds": (1, 0)}[notion]
    differences = []
    for label in labels:
        chosen = np.ones(len(y), dtype=bool) if label is None else y == label
        rates = [chance[chosen & (group == g)].mean() for g in np.unique(group)]
        differences.append(max(rates) - min(rates))
    return {"accuracy": float(np.where(y == 1, chance, 1 - chance).mean()), "difference": float(max(differences))}


def fairlearn(notion: str, model: Any, data: Prepared) -> Any:
    from fairlearn.postprocessing import ThresholdOptimizer

    rule = ThresholdOptimizer(
        estimator=model,
        constraints=NOTIONS[notion],
        objective="accuracy_score",
        prefit=True,
        predict_method="predict_proba",
    ).fit(data.X_train, data.y_train, sensitive_features=data.group_train)
    return lambda x, group: rule._pmf_predict(x, sensitive_features=group)[:, 1]


def ours(notion: str, bound: float, randomised: bool) -> Any:
    def fit(_: str, model: Any, data: Prepared) -> Any:
        rule = PostProcessor(model, f"{notion} <= {bound}", randomised=randomised)
        rule.fit(data.X_train, data.y_train, sensitive_features=data.group_train)
        return rule.selection_probability

    return fit


def classifier(notion: str, bound: float) -> Any:
    def fit(_: str, __: Any, data: Prepared) -> Any:
        rule = FairClassifier(f"{notion} <= {bound}", use_groups_at_prediction=True)
        rule.fit(data.X_train, data.y_train, sensitive_features=data.group_train)
        return lambda x, group: rule.predict(x, group).astype(float)

    return fit


def contenders(notion: str, public: bool) -> dict[str, Any]:
    if public:
        return {
            "fairlearn": fairlearn,
            **{f"mixtures <= {b}": ours(notion, b, True) for b in (0, *PUBLIC_BOUNDS)},
            **{f"single <= {b}": ours(notion, b, False) for b in PUBLIC_BOUNDS},
            **{f"FairClassifier <= {b}": classifier(notion, b) for b in PUBLIC_BOUNDS},
        }
    return {
        "fairlearn": fairlearn,
        "mixtures <= 0": ours(notion, 0, True),
        **{f"mixtures <= {b}": ours(notion, b, True) for b in BOUNDS},
        **{f"single <= {b}": ours(notion, b, False) for b in BOUNDS},
    }


def runs_of(name: str, splits: int) -> dict[str, dict[str, list[dict[str, float]]]]:
    """Notion -> contender -> a row of numbers for each split."""
    dataset = load(name) if name in DATA else None
    out: dict[str, dict[str, list[dict[str, float]]]] = {notion: {} for notion in NOTIONS}
    for seed in range(splits):
        data = public_split(name, seed) if dataset is None else prepare(dataset, seed, group=DATA[name])
        model = LogisticRegression(max_iter=1000).fit(data.X_train, data.y_train)
        for notion in NOTIONS:
            for contender, fit in contenders(notion, dataset is None).items():
                start = time.process_time()
                chance = fit(notion, model, data)
                row = {"seconds": time.process_time() - start}
                for part in ("train", "test"):
                    x, y, group = (getattr(data, f"{what}_{part}") for what in ("X", "y", "group"))
                    found = measured(notion, chance(x, group), y, group)
                    row |= {f"{key}_{part}": value for key, value in found.items()}
                out[notion].setdefault(contender, []).append(row)
        harness.note(f"{name}: split {seed + 1} of {splits}")
    return out


def public_split(name: str, seed: int) -> Prepared:
    import defaults

    return defaults.split(name, seed)["straight"]


def on_public(count: int) -> dict[str, dict[str, dict[str, float]]]:
    """Notion -> contender -> means over the tables, and of accuracy less fairlearn's the standard error too."""
    import defaults

    tables = [runs_of(name, len(defaults.SEEDS)) for name in defaults.ordered("fresh")[:count]]
    out: dict[str, dict[str, dict[str, float]]] = {notion: {} for notion in NOTIONS}
    for notion in NOTIONS:
        for contender in tables[0][notion]:
            means = [
                {k: statistics.mean(r[k] for r in t[notion][contender]) for k in t[notion][contender][0]}
                for t in tables
            ]
            line = {k: statistics.mean(m[k] for m in means) for k in means[0]}
            for part in ("train", "test"):
                peers = [statistics.mean(r[f"accuracy_{part}"] for r in t[notion]["fairlearn"]) for t in tables]
                more = [m[f"accuracy_{part}"] - peer for m, peer in zip(means, peers, strict=True)]
                line |= {
                    f"more_{part}": statistics.mean(more),
                    f"more_{part}_error": statistics.stdev(more) / len(more) ** 0.5,
                }
                line |= {f"ahead_{part}": sum(v > LEAST for v in more), f"behind_{part}": sum(v < -LEAST for v in more)}
            line["worst_train"] = min(m["accuracy_train"] - statistics.mean(
                r["accuracy_train"] for r in t[notion]["fairlearn"]) for m, t in zip(means, tables, strict=True))  # fmt: skip
            out[notion][contender] = {k: round(v, 4) for k, v in line.items()}
    return out


def unfitted(count: int) -> dict[str, dict[str, float]]:
    """Model, bound and folds -> means over the tables, the model alone too."""
    import defaults

    notion, found = "demographic_parity", dict[str, list[dict[str, float]]]()
    for name in defaults.ordered("fresh")[:count]:
        for seed in range(len(defaults.SEEDS)):
            data = public_split(name, seed)
            for kind, model in MODELS.items():
                alone = clone(model).fit(data.X_train, data.y_train).predict(data.X_test)
                row = measured(notion, alone, data.y_test, data.group_test)
                found.setdefault(f"{kind} alone", []).append(row)
                for bound, folds in itertools.product((0.02, 0.05), FOLDS):
                    rule = PostProcessor(model, f"{notion} <= {bound}", folds=folds)
                    rule.fit(data.X_train, data.y_train, sensitive_features=data.group_train)
                    decided = rule.predict(data.X_test, sensitive_features=data.group_test)
                    row = measured(notion, decided, data.y_test, data.group_test)
                    row["folded"] = float(rule.folds_ > 0)
                    found.setdefault(f"{kind} <= {bound}, folds {folds}", []).append(row)
        harness.note(name)
    return {key: {k: round(statistics.mean(r[k] for r in rows), 4) for k in rows[0]} for key, rows in found.items()}


def at_difference(rows: list[dict[str, float]], difference: float) -> float:
    """Held-out accuracy of mixtures at a held-out difference, between the nearest bounds; no further than they reach."""
    points = sorted((r["difference_test"], r["accuracy_test"]) for r in rows)
    differences, accuracies = zip(*points, strict=True)
    return float(np.interp(difference, differences, accuracies))


def compared(runs: dict[str, list[dict[str, float]]]) -> dict[str, float]:
    """Our accuracy minus fairlearn's, means over splits with their standard errors."""
    theirs, zero = runs["fairlearn"], runs["mixtures <= 0"]
    frontier = [name for name in runs if name.startswith("mixtures")]
    pairs = {
        "train_at_0": [a["accuracy_train"] - b["accuracy_train"] for a, b in zip(zero, theirs, strict=True)],
        "test_at_0": [a["accuracy_test"] - b["accuracy_test"] for a, b in zip(zero, theirs, strict=True)],
        "test_at_equal_difference": [
            at_difference([runs[name][i] for name in frontier], row["difference_test"]) - row["accuracy_test"]
            for i, row in enumerate(theirs)
        ],
    }
    out: dict[str, float] = {}
    for key, values in pairs.items():
        spread = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0
        out |= {key: round(statistics.mean(values), 5), f"{key}_error": round(spread, 5)}
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--data", nargs="*", default=list(DATA), choices=list(DATA))
    parser.add_argument("--public", type=int, default=0, help="so many public tables instead")
    parser.add_argument(
        "--unfitted", type=int, default=0, help="models fitted by PostProcessor on so many public tables"
    )
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.unfitted:
        harness.emit({"tables": options.unfitted, "results": unfitted(options.unfitted)})
        return
    if options.public:
        harness.emit({"tables": options.public, "results": on_public(options.public)})
        return
    results, checks = [], []
    for name in options.data:
        for notion, runs in runs_of(name, options.splits).items():
            against = compared(runs)
            means = {c: {k: round(statistics.mean(r[k] for r in rows), 5) for k in rows[0]} for c, rows in runs.items()}
            results.append({"data": name, "notion": notion, "ours_minus_fairlearn": against, "means": means})
            for key in ("test_at_0", "test_at_equal_difference"):
                checks.append(
                    harness.check(f"{name}, {notion}: {key}", -against[key], max(against[f"{key}_error"], LEAST))
                )
            worst = max(r["difference_train"] - b for b in BOUNDS for r in runs[f"single <= {b}"])
            checks.append(harness.check(f"{name}, {notion}: single thresholds over the bound", worst, 1e-12))
    overall = {
        key: round(statistics.mean(r["ours_minus_fairlearn"][key] for r in results), 5)
        for key in ("train_at_0", "test_at_0", "test_at_equal_difference")
    }
    environment = harness.environment("scikit-learn", "fairlearn", "scipy")
    harness.emit({"results": results, "overall": overall, "checks": checks, "environment": environment})


if __name__ == "__main__":
    main()
