"""Any CSV file with a two-valued label (German credit and the like) as a Dataset."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fairbound.base.callers import users_line
from fairbound.base.errors import DataError, DataWarning, OptionError
from fairbound.base.names import did_you_mean, shortlist
from fairbound.data.dataset import Dataset
from fairbound.data.encode import build, labels
from fairbound.data.files import require_pandas
from fairbound.rows.labels import binary_labels

MOSTLY_NUMBERS = 0.95
MANY_VALUES = 1000


def load_csv(
    path: str | os.PathLike[str],
    label: str,
    sensitive: str | Sequence[str],
    positive: Any = None,
    *,
    drop: Sequence[str] = (),
    categorical: Sequence[str] = (),
    encoding: str = "one-hot",
    file_encoding: str | None = None,
    decimal: str | None = None,
) -> Dataset:
    """A CSV file with a header line, read as by `fairbound.tables.read_table`.

    label: the column with exactly two values. positive: the one that becomes 1; the greater one by default.
    sensitive: one or several columns, read as `--group` reads them: blanks at the ends of their cells are not part of
        them, and 1.0 is 1. They stay among the features: `dataset.without("sex")` removes one.
    drop: columns that are not features, e.g. identifiers. categorical: columns of numbers that are categories.
    encoding: see `fairbound.data.encode.encode`. Missing numbers stay NaN in X. file_encoding, decimal: how the file is
        written, as `encoding` and `decimal` of `fairbound.tables.read_table`.
    Raises: DataError for an empty, damaged or ragged file, a column named twice, a label that is missing somewhere or
        has 1 or more than 2 values, infinite numbers, a column without any value, text among numbers, or text with more
        than 1,000 different values; OptionError for a column that is not there or has two roles. Warns: DataWarning of
        features that look like identifiers.
    """
    # with it comes torch, which a list of the data sets does without
    from fairbound.tables import Kinds, identifiers, read_table
    from fairbound.tables.encode_report import identifier_words

    groups = [sensitive] if isinstance(sensitive, str) else list(sensitive)
    try:
        frame = read_table(path, encoding=file_encoding, decimal=decimal, kinds=Kinds(keys=frozenset(groups)))
    except DataError as error:
        raise DataError(str(error).replace(' encoding="', ' file_encoding="')) from None
    where = f"file {str(path)!r}"
    _check_roles(
        {"label": [label], "sensitive": groups, "drop": drop, "categorical": categorical}, frame.columns, where
    )
    try:
        y, classes = binary_labels(frame[label], positive)
    except DataError as error:
        raise DataError(f"{where}, label column {label!r}: {error}") from error
    features = [column for column in frame.columns if column != label and column not in drop]
    for column in features:
        _check_column(frame[column], f"{where}, column {column!r}", column in categorical)
    numbers = [c for c in features if frame[c].dtype.kind in "iuf" and c not in (*groups, *categorical)]
    found = [c for c in numbers if identifiers.is_identifier(c, frame[c].to_numpy())]
    for said in identifier_words(found, "Leave them out with drop="):
        warnings.warn(said, DataWarning, stacklevel=users_line())
    return build(
        Path(path).name,
        frame,
        label=label,
        y=y,
        positive=str(classes[1]),
        features=features,
        sensitive={column: (labels(frame[column]), (column,)) for column in groups},
        encoding=encoding,
        description=where,
        categorical=categorical,
    )


def _check_roles(named: Mapping[str, Sequence[str]], columns: Sequence[str], where: str) -> None:
    """Raises: OptionError where a column named for a role is none of `columns`, or none is for a role that needs one,
    or the label has two roles."""
    if not named["sensitive"]:
        raise OptionError(f"{where}: name at least one sensitive column.")
    for role, names in named.items():
        for name in names:
            if name not in columns:
                has = f". It has: {shortlist(columns, 20)}."
                hint = did_you_mean(name, columns, before=". ", otherwise=has)
                raise OptionError(f"{where} has no column {name!r} ({role}){hint}")
    (label,) = named["label"]
    if label in named["sensitive"] or label in named["drop"]:
        raise OptionError(f"{where}: column {label!r} is the label and cannot be sensitive or dropped too.")


def _check_column(values: Any, where: str, categorical: bool) -> None:
    """Raises: DataError if one column cannot be encoded without a decision by the user."""
    pandas = require_pandas()
    known = values.dropna()
    if known.empty:
        raise DataError(f"{where} has no value in any row. Remove it with drop.")
    if pandas.api.types.is_numeric_dtype(values):
        infinite = np.flatnonzero(np.isinf(values.to_numpy(dtype=np.float64, na_value=np.nan)))
        if len(infinite):
            raise DataError(
                f"{where} is infinite in {len(infinite)} rows, first in data row {infinite[0] + 1}. Correct it."
            )
        return
    texts = known.astype(str)
    unreadable = pandas.to_numeric(texts, errors="coerce").isna()
    if not categorical and not unreadable.all() and unreadable.mean() <= 1 - MOSTLY_NUMBERS:
        row = texts.index[unreadable][0]
        raise DataError(
            f"{where} holds numbers but {texts[row]!r} in data row {row + 1}. Correct it, or list it in categorical."
        )
    if texts.nunique() > MANY_VALUES:
        raise DataError(
            f"{where} has {texts.nunique():,} different texts, too many for categories. Remove it with drop."
        )
