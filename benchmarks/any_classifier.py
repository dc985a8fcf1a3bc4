"""Any classifier under a bound: `fb.Reduction` beside fairlearn's ExponentiatedGradient, both around the same one.

Tables among FRESH of `public_tables.py`, in the order of `defaults.py`; splits 0 and 1, parity and equalised odds. With `--classifier trees`
HistGradientBoostingClassifier of 50 trees on the first six tables of 1,000 to 4,000 rows, with `--classifier logistic` LogisticRegression on the first 14 of 1,000 to
10,000 rows; `CASES` has the bounds. Printed: how often the bound is met on the training rows, mean differences and accuracies, accuracy
less that of fairlearn's frontier at the same difference (as in `frontier_vs_fairlearn.py`), over tables with a standard error, and
processor time. fairlearn's decisions are random, and measured over ten draws. `--results` keeps every fit as a line of JSON and takes up
where it stopped.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import frontier_vs_fairlearn as frontier
import numpy as np
import pandas as pd
from defaults import SEEDS, ordered, split
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

import fairbound as fb
from fairbound.data import Prepared
from fairbound.postprocessing.folds import scores_own_rows_better
from fairbound.postprocessing.scoring import CODES

NOTIONS = ("demographic_parity", "equalized_odds")
FREE = "without bounds"
Fitted = tuple[Callable, Callable, dict[str, Any]]
"""Decisions (X, draw) -> (n,), scores X -> (n,), and what else is kept of the fit."""


@dataclass(frozen=True)
class Case:
    """bounds: of ours. sweep: of fairlearn's. folds: of ours, each a method. most: rows of a table. left_out: a table."""

    classifier: Any
    tables: int
    most: int
    bounds: tuple[float, ...]
    sweep: tuple[float, ...]
    folds: tuple[int | str, ...]
    left_out: str = ""

    @property
    def ours(self) -> list[str]:
        return [f"folds={folds}" for folds in self.folds]

    @property
    def methods(self) -> dict[str, tuple[Callable, tuple[float, ...]]]:
        ours = {f"folds={k}": (functools.partial(reduction, folds=k), self.bounds) for k in self.folds}
        return {**ours, "fairlearn": (fairlearn, self.sweep), FREE: (free, (1.0,))}


CASES = {
    "trees": Case(
        HistGradientBoostingClassifier(max_iter=50, random_state=0), 6, 4_000, (0.02, 0.05), (0.005, 0.02, 0.05), (0, 5, "auto"),
        left_out="staff who left",  # one fit of fairlearn's under equalised odds was stopped after six minutes
    ),
    "logistic": Case(LogisticRegression(max_iter=1000), 14, 10_000, (0.01, 0.05), (0.003, 0.01, 0.02, 0.05, 0.1), (0, 5)),
}  # fmt: skip
LEAST_ROWS = 1_000


def free(classifier: Any, notion: str, value: float, data: Prepared) -> Fitted:
    model = clone(classifier).fit(data.X_train, data.y_train)
    return lambda X, draw: model.predict(X), model.decision_function, {}


def reduction(classifier: Any, notion: str, value: float, data: Prepared, folds: Any = 0) -> Fitted:
    ours = fb.Reduction(classifier, f"{notion} <= {value}", folds=folds)
    ours.fit(data.X_train, data.y_train, sensitive_features=data.group_train)
    facts = ours.fit_report_
    kept = {
        "mean_of": len(getattr(ours.estimator_, "models", [ours.estimator_])),
        "behind_lottery": facts["lottery_accuracy"] - facts["accuracy"],
        "said": facts["shortfall"] is not None,
    }
    return lambda X, draw: ours.predict(X), ours.decision_function, kept


def fairlearn(classifier: Any, notion: str, value: float, data: Prepared) -> Fitted:
    import fairlearn.reductions as reductions

    moment = getattr(reductions, frontier.NOTIONS[notion][0])(difference_bound=value)
    peer = reductions.ExponentiatedGradient(clone(classifier), moment, eps=value)
    peer.fit(data.X_train, data.y_train, sensitive_features=data.group_train)
    return lambda X, draw: peer.predict(X, random_state=draw), lambda X: peer._pmf_predict(X)[:, 1], {}


def chosen(case: Case, count: int) -> list[str]:
    """The first so many tables of the sizes asked for."""
    out: list[str] = []
    for name in (name for name in ordered("fresh") if name != case.left_out):
        data = split(name, 0)["straight"]
        if LEAST_ROWS <= len(data.y_train) + len(data.y_test) <= case.most:
            out.append(name)
        if len(out) == count:
            break
    return out


def fits(case: Case, names: Sequence[str], results: Path | None) -> pd.DataFrame:
    known = {(r["data"], r["seed"], r["notion"], r["method"], r["value"]): r for r in frontier.stored(results)}
    out = []
    for name in names:
        for seed in SEEDS:
            for notion in NOTIONS:
                for method, (fit, values) in case.methods.items():
                    for value in values:
                        key = (name, seed, notion, method, value)
                        if key not in known:
                            known[key] = measured(key, functools.partial(fit, case.classifier))
                            frontier.store(known[key], results)
                        out.append(known[key])
    return pd.DataFrame(out)


def measured(key: tuple[str, int, str, str, float], fit: Callable) -> dict[str, Any]:
    name, seed, notion, method, value = key
    data = split(name, seed)["straight"]
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        predict, scores, kept = fit(notion, value, data)
        row = {"data": name, "seed": seed, "notion": notion, "method": method, "value": value}
        row["seconds"] = time.process_time() - start
        return (
            row
            | kept
            | frontier.of_parts(data, notion, predict, scores, frontier.DRAWS if method == "fairlearn" else 1)
        )


def takes_folds(classifier: Any, data: Prepared) -> bool:
    return bool(scores_own_rows_better(classifier, "auto", data.X_train, data.y_train.astype(int), CODES, None))


def points(of: pd.DataFrame, method: str, value: float, part: str) -> list[list[float]]:
    rows = of[(of.method == method) & (of.value == value)].sort_values("seed")
    return rows[[f"difference_{part}", f"accuracy_{part}"]].to_numpy().tolist()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--classifier", choices=CASES, default="trees")
    parser.add_argument("--tables", type=int, default=None)
    parser.add_argument("--results", type=Path, default=None)
    args = parser.parse_args()
    case = CASES[args.classifier]
    names = chosen(case, args.tables or case.tables)
    made = fits(case, names, args.results)
    known = [takes_folds(case.classifier, split(name, seed)["straight"]) for name in names for seed in SEEDS]
    print(f'{len(names)} tables: {", ".join(names)}; folds="auto" takes 5 in {sum(known)} of {len(known)} splits')
    columns = [f"{what}_{part}" for part in ("train", "test") for what in ("difference", "accuracy")]
    print(made.groupby(["notion", "method", "value"])[[*columns, "seconds"]].mean().round(4).to_string())
    for method, notion, bound in itertools.product(case.ours, NOTIONS, case.bounds):
        ours = made[(made.method == method) & (made.notion == notion) & (made.value == bound)]
        ahead = []
        for name in names:
            of = made[(made.data == name) & (made.notion == notion)]
            sweep = np.array([points(of, "fairlearn", value, "test") for value in case.sweep]).transpose(1, 0, 2)
            ahead.append(frontier.ahead(np.array(points(of, method, bound, "test")), sweep))
        found = np.array(ahead)
        print(f"{method}, {notion} <= {bound}: met on the training rows in {(ours.difference_train <= bound + 1e-9).sum()} of {len(ours)} fits; "
              f"held out {found.mean():+.4f} ahead of fairlearn (standard error {found.std(ddof=1) / len(found) ** 0.5:.4f}), "
              f"{(found > 0).sum()} tables ahead, {(found < 0).sum()} behind, {found.min():+.4f} at the least; behind the lottery of its own fits on the training "
              f"rows by {ours.behind_lottery.mean():+.4f}, {ours.behind_lottery.max():+.4f} at the most, said in {int(ours.said.sum())} fits; "
              f"a mean of fits in {int((ours.mean_of > 1).sum())}")  # fmt: skip


if __name__ == "__main__":
    main()
