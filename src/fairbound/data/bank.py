"""UCI Bank Marketing: bank-additional-full and the older bank-full."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fairbound.data.adult import aged_25_to
from fairbound.data.catalog import TABLE
from fairbound.data.dataset import Dataset
from fairbound.data.encode import build, labels
from fairbound.data.files import read_rows


def load_bank(folder: Path, *, encoding: str = "one-hot", duration: bool = False) -> Dataset:
    """bank-additional-full: 41,188 calls, 20 columns besides the label. duration: keep the length of the call."""
    return _load("bank", folder, encoding, duration)


def load_bank_full(folder: Path, *, encoding: str = "one-hot", duration: bool = False) -> Dataset:
    """bank-full: 45,211 calls, 16 columns besides the label. duration: keep the length of the call."""
    return _load("bank-full", folder, encoding, duration)


def _load(name: str, folder: Path, encoding: str, duration: bool) -> Dataset:
    info = TABLE[name]
    frame = read_rows(folder, info, sep=";", na_filter=False)
    age = frame["age"].to_numpy()
    return build(
        name,
        frame,
        label="y",
        y=(frame["y"] == "yes").to_numpy(dtype=np.int64),
        positive="yes",
        features=[column for column in frame.columns if column != "y" and (duration or column != "duration")],
        sensitive={
            "age_25_60": (aged_25_to(60, age), ("age",)),
            "age_25_59": (aged_25_to(59, age), ("age",)),
            "marital": (labels(frame["marital"]), ("marital",)),
        },
        encoding=encoding,
        description=info.title,
    )
