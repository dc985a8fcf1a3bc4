"""UCI Adult from the original files, and a9a, LIBSVM's binary encoding of the same rows in the same order."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from scipy import sparse

from fairbound.base.errors import DataError, OptionError
from fairbound.data.catalog import TABLE
from fairbound.data.dataset import Dataset
from fairbound.data.encode import build, labels
from fairbound.data.files import expect, read_content, require_pandas

TRAIN, TEST = 32561, 16281
EMBEDDED = Path(__file__).parent
SPLITS = {"train": np.arange(TRAIN), "test": np.arange(TRAIN, TRAIN + TEST)}
COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship", "race",
    "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income",
)  # fmt: skip
FEATURES = tuple(column for column in COLUMNS if column not in ("fnlwgt", "income"))
RACE_FEATURES = {67: "White", 68: "Asian-Pac-Islander", 69: "Amer-Indian-Eskimo", 70: "Other", 71: "Black"}
SEX_FEATURES = {72: "Female", 73: "Male"}


def aged_25_to(last: int, age: np.ndarray) -> np.ndarray:
    """(n,) object array: "25-60" (both ends included) or "other",
    where last is 60: the age groups of YLY23 and HHYL26."""
    return np.where((age >= 25) & (age <= last), f"25-{last}", "other").astype(object)


def load_adult(*, encoding: str = "one-hot") -> Dataset:
    """Adult: adult.data (split "train") followed by adult.test ("test"), both part of the package as UCI has them.

    Features: the 14 UCI columns without fnlwgt, a survey weight.
    encoding: see `fairbound.data.encode.encode`; "one-hot" makes one column for each category, "?" (missing at UCI)
        among them.
    """
    info = TABLE["adult"]
    pandas = require_pandas()
    parts = []
    for file, skip, rows in zip(info.files, (0, 1), (TRAIN, TEST), strict=True):
        content = io.BytesIO(read_content(EMBEDDED, file, info.name))
        part = pandas.read_csv(content, names=list(COLUMNS), skiprows=skip, skipinitialspace=True, na_filter=False)
        expect(info.name, f"rows in {file.path}", len(part), rows)
        parts.append(part)
    frame = pandas.concat(parts, ignore_index=True)
    y = frame["income"].str.startswith(">50K").to_numpy(dtype=np.int64)
    race = labels(frame["race"])
    return build(
        info.name,
        frame,
        label="income",
        y=y,
        positive=">50K",
        features=FEATURES,
        sensitive={
            "sex": (labels(frame["sex"]), ("sex",)),
            "race": (race, ("race",)),
            "race_binary": (np.where(race == "White", "White", "Non-White").astype(object), ("race",)),
            "age_25_60": (aged_25_to(60, frame["age"].to_numpy()), ("age",)),
        },
        encoding=encoding,
        description=info.title,
        splits=SPLITS,
    )


def load_a9a(folder: Path, *, group: str = "sex") -> Dataset:
    """a9a (split "train") followed by a9a.t ("test"): CSR, 123 binary features, -1/+1 read as 0/1.

    Sensitive attributes: sex (features 72 female, 73 male) and race (67 to 71), counted from 1 as in the file.
    group: "sex", or "paper-column-71" to put first the attribute that LNSY20 used in place of sex, with labels
        "column 71 = 0" (called male there) and "column 71 = 1" (called female).
    """
    if group not in ("sex", "paper-column-71"):
        raise OptionError(f"group must be 'sex' or 'paper-column-71', got {group!r}.")
    from sklearn.datasets import load_svmlight_file

    info = TABLE["a9a"]
    matrices, targets = [], []
    for file, rows in zip(info.files, (TRAIN, TEST), strict=True):
        content = io.BytesIO(read_content(folder, file, info.name))
        X, y = load_svmlight_file(content, n_features=123, zero_based=False)
        expect(info.name, f"rows in {file.path}", X.shape[0], rows)
        matrices.append(X)
        targets.append(y)
    X = sparse.vstack(matrices, format="csr")
    sensitive = {"sex": _one_of(X, SEX_FEATURES), "race": _one_of(X, RACE_FEATURES)}
    if group != "sex":
        black = sensitive["race"] == "Black"
        sensitive = {group: np.where(black, "column 71 = 1", "column 71 = 0").astype(object), **sensitive}
    known = {j: ("race", text) for j, text in RACE_FEATURES.items()} | {
        j: ("sex", text) for j, text in SEX_FEATURES.items()
    }
    return Dataset(
        name=info.name,
        X=X,
        y=(np.concatenate(targets) > 0).astype(np.int64),
        sensitive=sensitive,
        feature_names=tuple("=".join(known[j]) if j in known else f"f{j}" for j in range(1, 124)),
        feature_sources=tuple(known[j][0] if j in known else f"f{j}" for j in range(1, 124)),
        sensitive_sources={name: ("sex",) if name == "sex" else ("race",) for name in sensitive},
        splits=SPLITS,
        description=info.title,
        label="income",
        positive=">50K",
    )


def _one_of(X: sparse.csr_matrix, columns: dict[int, str]) -> np.ndarray:
    """(n,) object array: which of these 0/1 columns is 1 in each row."""
    block = X[:, [j - 1 for j in columns]].toarray()
    if not (block.sum(axis=1) == 1).all():
        raise DataError(f"data set 'a9a': some row has not exactly one of the features {', '.join(map(str, columns))}.")
    return np.array(list(columns.values()), dtype=object)[block.argmax(axis=1)]
