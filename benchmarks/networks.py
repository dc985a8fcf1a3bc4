"""Networks on public tables on which no setting of networks was chosen: ours beside our linear default and fairlearn's.

`FairClassifier(model="mlp:64,32")`, `FairClassifier()` and fairlearn's ExponentiatedGradient around the same network (as `frontier_vs_fairlearn.py
--model mlp:64,32` has it, swept over three values) are fitted on two splits of the tables of `public_tables.py` with 1,000 to 15,000 rows, in the order of
`defaults.py`, under demographic parity 0.02 and 0.05 and equalised odds 0.05. Printed: means over tables, with a standard error, of accuracy at equal
difference. Beside fairlearn that is our accuracy less that of its frontier at our difference. Beside the linear default, differences are made equal along the
mean slope of the networks' fits on a table and split. `--without-jumps`: the same beside networks whose numbers do not jump. `--seeds 5`: how far equal fits with other values of random_state lie apart. Processor time is of the fit.
"""

from __future__ import annotations

import argparse
import functools
import time
import warnings
from pathlib import Path
from typing import Any

import defaults
import frontier_vs_fairlearn as frontier
import numpy as np
import pandas as pd
from public_tables import TABLES
from unseen_tables import read

from fairbound import FairClassifier
from fairbound.tables import TableOptions

NETWORK, LINEAR, WITHOUT = "mlp:64,32", "linear", "mlp:64,32 without jumps"
CASES = (("demographic_parity", 0.02), ("demographic_parity", 0.05), ("equalized_odds", 0.05))
FEWEST, MOST = 1_000, 15_000
JUMPING = [
    "acs-income-ok-partial",
    "acs-income-ne",
    "staff promoted",
    "replies of politicians",
    "medical expenses",
    "earnings of men",
    "mortgages in Boston",
    "voters",
    "use of force",
    "obese children",
    "feelings for parties",
    "earnings of the young",
    "acs-pums-ok-2024",
    "earnings 1978 in the census",
    "tests for a virus",
    "earnings",
    "admissions in Brazil",
    "payments in Taiwan",
    "veterans' homes",
    "bank-full",
]
"""Tables of FRESH, LARGE and NAMED of 1,000 to 40,000 training rows and fewer than 100 features in which a number jumps for a network."""


@functools.cache
def rows_of(which: str, name: str) -> int:
    tables, most = TABLES[which]
    return len(read(tables[name], most, "t").y)


def chosen(which: str, count: int) -> list[str]:
    """The first `count` tables of their order that have FEWEST to MOST rows."""
    out: list[str] = []
    for name in defaults.ordered(which):
        if len(out) < count and FEWEST <= rows_of(which, name) <= MOST:
            out.append(name)
    return out


def fit(name: str, split: int, notion: str, method: str, value: float, seed: int) -> dict[str, Any]:
    data = defaults.split(name, split)["straight"]
    row: dict[str, Any] = {"data": name, "split": split, "notion": notion, "method": method, "value": value}
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if method == frontier.PEER:
            predict, scores = frontier.fitted(method, notion, value, data, NETWORK)
        else:
            options = TableOptions(jumps=0) if method == WITHOUT else None
            ours = FairClassifier(f"{notion} <= {value}", model=method.split()[0], random_state=seed, options=options)
            ours.fit(data.X_train, data.y_train, sensitive_features=data.group_train)
            predict, scores = (lambda X, draw: ours.predict(X)), ours.decision_function
            row["jumping"] = 0 if ours.encoder_ is None else len(ours.encoder_.jumping)
    row |= {"seed": seed, "seconds": time.process_time() - start}
    return row | frontier.of_parts(data, notion, predict, scores, frontier.DRAWS if method == frontier.PEER else 1)


def fits(
    names: list[str], method: str, seeds: int, splits: int, bounds: list[float], results: Path | None
) -> pd.DataFrame:
    """A row for each fit, made unless `results` holds it."""
    keys = ("data", "split", "notion", "method", "value", "seed")
    known = {tuple(row[key] for key in keys): row for row in frontier.stored(results)}
    cases = [(notion, value) for notion, value in CASES if value in bounds]
    if method == frontier.PEER:
        cases = [(notion, value) for notion in dict.fromkeys(n for n, _ in cases) for value in defaults.SWEEP]
    wanted = []
    for name, split in [(name, split) for name in names for split in defaults.SEEDS[:splits]]:
        for notion, value in cases:
            for seed in range(seeds):
                key = (name, split, notion, method, value, seed)
                if key not in known:
                    known[key] = fit(*key)
                    frontier.store(known[key], results)
                wanted.append(known[key])
    return pd.DataFrame(wanted)


def said(what: str, tables: pd.Series) -> None:
    error = tables.std() / len(tables) ** 0.5
    print(f"{what}: {tables.mean():+.4f} (standard error {error:.4f}), {(tables > 1e-9).sum()} of {len(tables)} tables above 0, "
          f"{(tables < -1e-9).sum()} below, least {tables.min():+.4f} ({tables.idxmin()}), most {tables.max():+.4f} ({tables.idxmax()})")  # fmt: skip


def beside_fairlearn(ours: pd.DataFrame, theirs: pd.DataFrame) -> None:
    """Prints our accuracy less that of fairlearn's frontier."""

    def points(made: pd.DataFrame, part: str, **of: Any) -> np.ndarray:
        for name, value in of.items():
            made = made[made[name] == value]
        return made.sort_values("split")[[f"difference_{part}", f"accuracy_{part}"]].to_numpy()

    lines = []
    for name in theirs.data.unique():
        for notion, bound in ours[["notion", "value"]].drop_duplicates().itertuples(index=False):
            for part in ("train", "test"):
                sweep = [points(theirs, part, data=name, notion=notion, value=value) for value in defaults.SWEEP]
                mine = points(ours, part, data=name, notion=notion, value=bound)
                found = frontier.ahead(mine, np.array(sweep).transpose(1, 0, 2))
                lines.append({"data": name, "case": f"{notion} {bound}", "part": part, "ahead": found})
    made = pd.DataFrame(lines)
    for part in ("train", "test"):
        of = made[made.part == part]
        said(f"ahead of fairlearn, {part}", of.groupby("data").ahead.mean())
        print(f"  {of.groupby('case').ahead.mean().round(4).to_dict()}")
        print(f"  {of.groupby('data').ahead.mean().round(4).to_dict()}")
    times = ours[ours.data.isin(theirs.data)].groupby("data").seconds.median() / theirs.groupby("data").seconds.median()
    print(f"  processor time over fairlearn's: {times.min():.2f} to {times.max():.2f}")


def beside(base: pd.DataFrame, networks: pd.DataFrame, what: str) -> None:
    """Prints what networks are more than `base`, which is called `what`. Differences are made equal along the slope of the networks' fits
    under the bounds, or of the notions, of a table and split."""
    keys = ["data", "split", "notion", "value", "seed"]
    a, b = base.set_index(keys), networks.set_index(keys)
    within = b.groupby(["data", "split"])
    dx, dy = (b[f"{of}_test"] - within[f"{of}_test"].transform("mean") for of in ("difference", "accuracy"))
    slope = (dx * dy).sum() / max((dx**2).sum(), 1e-12)  # 0 where all fits decide alike
    measured = ("accuracy_test", "difference_test", "auc_test", "accuracy_train")
    more = pd.DataFrame({of: b[of] - a[of] for of in measured})
    more["accuracy_test at equal difference"] = more.accuracy_test - slope * more.difference_test
    print(f"networks less {what}: slope {slope:.3f}, processor time {(b.seconds / a.seconds).median():.2f} times")
    for of, found in more.groupby("data").mean().items():
        said(f"  {of}", found)


def spread(made: pd.DataFrame) -> None:
    """Prints how far equal fits with other seeds lie apart: the root of the mean variance over seeds."""
    of = made.groupby(["data", "split", "notion", "value"])
    for what in ("accuracy_train", "accuracy_test", "difference_test", "auc_test"):
        print(f"spread over {made.seed.nunique()} seeds, {what}: {of[what].var().mean() ** 0.5:.4f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables-of", choices=TABLES, default="fresh")
    parser.add_argument("--tables", type=int, default=24, help="the first so many of 1,000 to 15,000 rows")
    parser.add_argument("--data", default="", help="names of tables, comma-separated, in place of the first so many")
    parser.add_argument("--fairlearn", type=int, default=0, help="the first so many of them beside fairlearn too")
    parser.add_argument("--seeds", type=int, default=1, help="values of random_state, all of them for our network")
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument(
        "--without-jumps",
        action="store_true",
        help="on the tables JUMPING, unless --data names others, beside networks without jumps too",
    )
    parser.add_argument("--bounds", default="0.02,0.05", help="the cases with these bounds")
    parser.add_argument("--results", type=Path, default=None)
    args = parser.parse_args()
    named = args.data.split(",") if args.data else JUMPING if args.without_jumps else None
    names = chosen(args.tables_of, args.tables) if named is None else named
    common = (args.splits, [float(bound) for bound in args.bounds.split(",")], args.results)
    ours = fits(names, NETWORK, args.seeds, *common)
    met = ours.difference_train <= ours.value + 1e-12
    print(f"{len(names)} tables; bounds met on the training rows in {met.sum()} of {len(ours)} fits of networks")
    if args.seeds > 1:
        spread(ours)
    first = ours[ours.seed == 0]
    if args.without_jumps and len(jumping := first[first.jumping > 0]):
        some = list(jumping.data.unique())
        beside(
            fits(some, WITHOUT, 1, *common), first[first.data.isin(some)], "those without jumps, where any number jumps"
        )
    beside(fits(names, LINEAR, 1, *common), first, "the linear default")
    if peers := names[: args.fairlearn]:
        beside_fairlearn(first, fits(peers, frontier.PEER, 1, *common))


if __name__ == "__main__":
    main()
