"""COMPAS (ProPublica 2016): the two-year file after ProPublica's filter, and the file of all people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fairbound.data.catalog import TABLE
from fairbound.data.dataset import Dataset
from fairbound.data.encode import build, labels
from fairbound.data.files import expect, read_rows

FEATURES = (
    "sex", "age", "age_cat", "race", "juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count",
    "c_charge_degree",
)  # fmt: skip
SCORES = ("decile_score", "v_decile_score")


def load_two_years(folder: Path, *, encoding: str = "one-hot", compas_scores: bool = False) -> Dataset:
    """7,214 people, of whom ProPublica's filter leaves 6,172: arrested within 30 days of the screening, outcome known,
    not an ordinary traffic offence, score given. compas_scores: COMPAS's decile scores become features too.
    """
    frame = read_rows(folder, TABLE["compas-two-years"], 7214)
    kept = (
        frame["days_b_screening_arrest"].between(-30, 30)
        & (frame["is_recid"] != -1)
        & (frame["c_charge_degree"] != "O")
        & frame["score_text"].notna()
    )
    return _build("compas-two-years", frame[kept], "two_year_recid", encoding, compas_scores)


def load_all(folder: Path, *, encoding: str = "one-hot", compas_scores: bool = False) -> Dataset:
    """11,757 people without the 719 whose outcome is unknown (is_recid -1) and those without a decile score (-1)."""
    frame = read_rows(folder, TABLE["compas"], 11757)
    kept = (frame["is_recid"] != -1) & (frame["decile_score"] != -1)
    return _build("compas", frame[kept], "is_recid", encoding, compas_scores)


def _build(name: str, frame: Any, label: str, encoding: str, compas_scores: bool) -> Dataset:
    info = TABLE[name]
    expect(name, "rows after the filter", len(frame), info.rows or 0)
    race = labels(frame["race"])
    return build(
        name,
        frame,
        label=label,
        y=frame[label].to_numpy(dtype=np.int64),
        positive="1",
        features=FEATURES + (SCORES if compas_scores else ()),
        sensitive={
            "race": (race, ("race",)),
            "race_binary": (np.where(race == "Caucasian", "Caucasian", "Non-Caucasian").astype(object), ("race",)),
            "sex": (labels(frame["sex"]), ("sex",)),
            "age_cat": (labels(frame["age_cat"]), ("age_cat", "age")),
        },
        encoding=encoding,
        description=info.title,
    )
