"""ACSIncome (Ding et al. 2021): ready extracts, and the raw Census files of any state and year through folktables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fairbound.base.errors import DataError, OptionError
from fairbound.base.extras import extra
from fairbound.data.adult import aged_25_to
from fairbound.data.catalog import TABLE
from fairbound.data.dataset import Dataset
from fairbound.data.encode import build, labels
from fairbound.data.files import expect, read_rows

FEATURES = ("AGEP", "COW", "SCHL", "MAR", "OCCP", "POBP", "RELP", "WKHP", "SEX", "RAC1P")
NUMBERS = ("AGEP", "WKHP")
LABEL = "PINCP_gt_50000"
SEX = {1: "Male", 2: "Female"}
RACE = {
    1: "White",
    2: "Black",
    3: "American Indian",
    4: "Alaska Native",
    5: "American Indian or Alaska Native, unspecified",
    6: "Asian",
    7: "Pacific Islander",
    8: "Other",
    9: "Two or more",
}
MARITAL = {1: "Married", 2: "Widowed", 3: "Divorced", 4: "Separated", 5: "Never married"}
FIPS = {
    "AL": 1, "AK": 2, "AZ": 4, "AR": 5, "CA": 6, "CO": 8, "CT": 9, "DE": 10, "FL": 12, "GA": 13, "HI": 15, "ID": 16,
    "IL": 17, "IN": 18, "IA": 19, "KS": 20, "KY": 21, "LA": 22, "ME": 23, "MD": 24, "MA": 25, "MI": 26, "MN": 27,
    "MS": 28, "MO": 29, "MT": 30, "NE": 31, "NV": 32, "NH": 33, "NJ": 34, "NM": 35, "NY": 36, "NC": 37, "ND": 38,
    "OH": 39, "OK": 40, "OR": 41, "PA": 42, "RI": 44, "SC": 45, "SD": 46, "TN": 47, "TX": 48, "UT": 49, "VT": 50,
    "VA": 51, "WA": 53, "WV": 54, "WI": 55, "WY": 56, "PR": 72,
}  # fmt: skip
PUBLISHED_2018 = {("CO",): (31306, 12972), ("NE",): (10785, 3368), ("OK",): (17917, 5059)}


def load_extract(folder: Path, name: str, *, encoding: str = "numeric") -> Dataset:
    """One ready extract: the ten ACSIncome features with the Census codes, and the 0/1 label.

    encoding: "numeric" keeps the codes (KLBM25); the one-hot encodings give a CSR matrix in which all but age and
        hours are categories ("one-hot-reference" has HHYL26's 813 columns on the US extract).
    """
    info = TABLE[name]
    frame = read_rows(folder, info, dtype="int32")
    extra = {}
    if "ST" in frame:
        extra["state"] = (labels(frame["ST"], {code: state for state, code in FIPS.items()}), ("ST",))
    return _build(name, frame, FEATURES, frame[LABEL].to_numpy(dtype=np.int64), encoding, info.title, extra)


def load_pums_2024(folder: Path, *, encoding: str = "numeric") -> Dataset:
    """Oklahoma's person records of 2024 after the ACSIncome filter: 8 features (no POBP, no RELP)."""
    info = TABLE["acs-pums-ok-2024"]
    frame = read_rows(folder, info, 39219)
    frame = _income_filter(frame)
    extra = {
        "hispanic": (np.where(frame["HISP"] == 1, "Not Hispanic", "Hispanic").astype(object), ("HISP",)),
        "disability": (labels(frame["DIS"], {1: "With", 2: "Without"}), ("DIS",)),
    }
    features = [column for column in FEATURES if column in frame.columns]
    y = (frame["PINCP"] > 50000).to_numpy(dtype=np.int64)
    return _build(info.name, frame, features, y, encoding, info.title, extra)


def load_folktables(
    folder: Path, *, state: str | Sequence[str] = "OK", year: int = 2018, encoding: str = "numeric"
) -> Dataset:
    """ACSIncome built by folktables from the raw 1-year person files in `folder`/YEAR/1-Year.

    state: one code such as "OK", or several. The files must be there: `fetch("acs-income", folder, state="OK")`.
    From 2019 the Census names RELP RELSHIPP and changes its codes: the feature then has that name.
    Raises: DataError where a raw file is missing or lacks a column; ImportError without folktables.
    """
    states = check_states(state, year)
    for one in states:
        path = raw_path(folder, one, year)
        if not path.is_file():
            raise DataError(
                f"data set 'acs-income': the raw file {str(path)!r} is missing. "
                f"`fairbound datasets fetch acs-income` gets it (state {one}, year {year})."
            )
    with extra("data", "acs-income needs folktables"):
        import folktables
    source = folktables.ACSDataSource(survey_year=str(year), horizon="1-Year", survey="person", root_dir=str(folder))
    try:
        frame = source.get_data(states=list(states), download=False)
    except (ValueError, StopIteration) as error:
        raise DataError(
            f"data set 'acs-income': a raw file of {', '.join(states)} {year} cannot be read: {error}"
        ) from error
    features = tuple("RELSHIPP" if c == "RELP" and "RELP" not in frame else c for c in FEATURES)
    absent = [column for column in (*features, "PINCP", "PWGTP") if column not in frame]
    if absent:
        raise DataError(f"data set 'acs-income': the raw files of {', '.join(states)} {year} lack {', '.join(absent)}.")
    frame = _income_filter(frame)
    y = (frame["PINCP"] > 50000).to_numpy(dtype=np.int64)
    if year == 2018 and states in PUBLISHED_2018:
        rows, positives = PUBLISHED_2018[states]
        expect("acs-income", "rows", len(frame), rows)
        expect("acs-income", "positive rows", int(y.sum()), positives)
    title = f"ACSIncome, {', '.join(states)} {year}"
    return _build("acs-income", frame, features, y, encoding, title, {})


def raw_path(folder: Path, state: str, year: int) -> Path:
    """Where folktables keeps the raw person file of a state and year."""
    name = f"psam_p{FIPS[state]:02d}.csv" if year >= 2017 else f"ss{year % 100:02d}p{state.lower()}.csv"
    return folder / str(year) / "1-Year" / name


def check_states(state: str | Sequence[str], year: int) -> tuple[str, ...]:
    """The states as upper-case codes. Raises: OptionError for an unknown state or a year before 2014."""
    states = tuple(s.upper() for s in ([state] if isinstance(state, str) else state))
    unknown = [s for s in states if s not in FIPS]
    if unknown or not states:
        raise OptionError(f"state must be one or several of {', '.join(FIPS)}; got {state!r}.")
    if len(set(states)) < len(states):
        raise OptionError(f"state names a state twice: {', '.join(states)}.")
    if not isinstance(year, int) or year < 2014:
        raise OptionError(f"year must be a whole number from 2014, got {year!r}.")
    return states


def _income_filter(frame: Any) -> Any:
    """ACSIncome's people: older than 16, income above 100, working, with a positive weight."""
    kept = (frame["AGEP"] > 16) & (frame["PINCP"] > 100) & (frame["WKHP"] > 0) & (frame["PWGTP"] >= 1)
    return frame[kept].reset_index(drop=True)


def _build(
    name: str,
    frame: Any,
    features: Sequence[str],
    y: np.ndarray,
    encoding: str,
    title: str,
    extra: Mapping[str, tuple[np.ndarray, tuple[str, ...]]],
) -> Dataset:
    race = labels(frame["RAC1P"], RACE)
    made = build(
        name,
        frame,
        label=LABEL,
        y=y,
        positive="1",
        features=features,
        sensitive={
            "race_binary": (np.where(race == "White", "White", "Non-White").astype(object), ("RAC1P",)),
            "race": (race, ("RAC1P",)),
            "sex": (labels(frame["SEX"], SEX), ("SEX",)),
            "age_25_60": (aged_25_to(60, frame["AGEP"].to_numpy()), ("AGEP",)),
            "marital": (labels(frame["MAR"], MARITAL), ("MAR",)),
            **extra,
        },
        encoding=encoding,
        description=title,
        categorical=[column for column in features if column not in NUMBERS],
        sparse=encoding != "numeric",
    )
    return replace(made, weight=frame["PWGTP"].to_numpy(dtype=np.float64)) if "PWGTP" in frame else made
