"""Law school: the LSAC bar passage study as cleaned by Le Quy et al. (2022)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fairbound.data.catalog import TABLE
from fairbound.data.dataset import Dataset
from fairbound.data.encode import build, labels
from fairbound.data.files import read_rows


def load_law_school(folder: Path, *, encoding: str = "one-hot") -> Dataset:
    """20,798 students, 11 features; race is White / Non-White in the file, fam_inc a family income fifth "1".."5"."""
    info = TABLE["law-school"]
    frame = read_rows(folder, info)
    return build(
        info.name,
        frame,
        label="pass_bar",
        y=frame["pass_bar"].to_numpy(dtype=np.int64),
        positive="1",
        features=[column for column in frame.columns if column != "pass_bar"],
        sensitive={
            "race": (labels(frame["race"]), ("race",)),
            "sex": (labels(frame["male"], {0.0: "Female", 1.0: "Male"}), ("male",)),
            "fam_inc": (labels(frame["fam_inc"]), ("fam_inc",)),
        },
        encoding=encoding,
        description=info.title,
    )
