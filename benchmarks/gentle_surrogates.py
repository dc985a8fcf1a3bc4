"""By how much a bound met on few training rows is exceeded on new ones, with gentle surrogates of rates and with steep ones.

`FairClassifier` with its defaults, under demographic parity, equal opportunity and equalised odds of 0.01, 0.05 and 0.15, is
fitted on random parts of `--rows` rows of larger tables of two groups; all other rows, at most 40,000, are held out. "gentle" is
`full_batch_alm:rates`, as "auto" takes it; "steep" has surrogates that sharpen to 8 times, as with objective="accuracy".

Printed: means over tables, each the mean over `--draws` parts, with a standard error over tables; and how much more accurate
the gentle one is held out at equal difference, along lines through its means and those of the steep one.
"""

from __future__ import annotations

import argparse
import warnings
from itertools import product
from typing import Any

import harness

harness.single_thread()

import defaults  # noqa: E402
import frontier_vs_fairlearn as frontier  # noqa: E402
import numpy as np  # noqa: E402
from sklearn.metrics import roc_auc_score  # noqa: E402

import fairbound as fb  # noqa: E402

TABLES = (
    "adult",
    "acs-income-co",
    "bank",
    "law-school",
    "bank-full",
    "census 1994",
    "mothers in 1980",
    "acs-income-ne",
)
BOUNDS, HELD = (0.01, 0.05, 0.15), 40_000
ARMS = {"steep": fb.FullBatchALM(dual_values="shifted"), "gentle": fb.FullBatchALM(**fb.FullBatchALM.presets["rates"])}
MEASURED = ("difference_train", "difference_test", "accuracy_train", "accuracy_test", "auc_test")


def whole(table: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, labels and groups of all rows."""
    data = frontier.library_split(table, 0) if table in frontier.TABLES else defaults.split(table, 0)["straight"]
    X, y, group = (
        np.concatenate([getattr(data, f"{of}_{p}") for p in ("train", "test")]) for of in ("X", "y", "group")
    )
    return X, y, group


def measured(model: Any, notion: str, rows: tuple[np.ndarray, ...]) -> dict[str, float]:
    X, y, group = rows
    found = frontier.measures(model.predict(X), y, group, frontier.NOTIONS[notion][1])
    return found | {"auc": float(roc_auc_score(y, model.decision_function(X)))}


def of_table(table: str, n: int, draws: int) -> np.ndarray:
    """(arms, notions, bounds, MEASURED) means over draws."""
    rows = whole(table)
    out = np.zeros((len(ARMS), len(frontier.NOTIONS), len(BOUNDS), len(MEASURED)))
    for seed in range(draws):
        order = np.random.default_rng(seed).permutation(len(rows[1]))
        train, test = (tuple(part[at] for part in rows) for at in (order[:n], order[n : n + HELD]))
        for (a, algorithm), (i, notion), (j, bound) in product(
            enumerate(ARMS.values()), enumerate(frontier.NOTIONS), enumerate(BOUNDS)
        ):
            X, y, group = train
            fit = fb.FairClassifier(f"{notion} <= {bound}", algorithm=algorithm).fit(X, y, sensitive_features=group)
            found = {f"{k}_{part}": v for part, of in (("train", train), ("test", test))
                     for k, v in measured(fit, notion, of).items()}  # fmt: skip
            out[a, i, j] += [found[name] / draws for name in MEASURED]
    return out


def ahead(steep: np.ndarray, gentle: np.ndarray) -> float:
    """Held-out accuracy of `gentle` less that of `steep` (bounds, MEASURED) over the differences that both reach."""
    lines = [one[np.argsort(one[:, 1])][:, [1, 3]].T for one in (steep, gentle)]
    low, high = max(line[0, 0] for line in lines), min(line[0, -1] for line in lines)
    if high <= low:
        return float("nan")
    at = np.linspace(low, high, 50)
    return float(np.mean(np.interp(at, *lines[1]) - np.interp(at, *lines[0])))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--draws", type=int, default=6)
    parser.add_argument("--data", default=",".join(TABLES))
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    all_of = np.array([of_table(table, args.rows, args.draws) for table in args.data.split(",")])
    root = len(all_of) ** 0.5
    for (i, notion), (j, bound) in product(enumerate(frontier.NOTIONS), enumerate(BOUNDS)):
        print(f"{notion} <= {bound}, {args.rows} rows, {len(all_of)} tables")
        change = all_of[:, 1, i, j] - all_of[:, 0, i, j]
        for k, name in enumerate(MEASURED):
            steep, gentle = all_of[:, :, i, j, k].mean(0)
            error = change[:, k].std(ddof=1) / root
            print(f"  {name}: steep {steep:.4f}, gentle {gentle:.4f}, change {change[:, k].mean():+.4f} ± {error:.4f}")
    for i, notion in enumerate(frontier.NOTIONS):
        more = np.array([ahead(one[0, i], one[1, i]) for one in all_of])
        more = more[~np.isnan(more)]
        error = more.std(ddof=1) / len(more) ** 0.5
        print(
            f"{notion}: accuracy at equal difference, gentle less steep: {more.mean():+.4f} ± {error:.4f} ({len(more)} tables)"
        )


if __name__ == "__main__":
    main()
