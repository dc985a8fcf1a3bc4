"""What a reader must know of the rows of a file before a verdict is trusted: persons with several rows, copies, codes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from shlex import quote
from typing import Any

import numpy as np

from fairbound.base.names import shortlist
from fairbound.rows.labels import stray_codes
from fairbound.tables import Kinds
from fairbound.tables.far_values import far_of
from fairbound.tables.identifiers import FEWEST, names_identifier
from fairbound.tables.notation import MAY_BE_WORDS
from fairbound.tables.reading.files import INDEX, Reading, csv_parts
from fairbound.tables.reading.parquet import is_parquet

MOST_ROWS = 50
"""An identifier of persons has at most so many rows for each on average; others name places or kinds."""

COPIES = 0.1
"""Share of the rows from which on copies are spoken of ..."""
FEWER = 10
"""... where chance would make so many times fewer."""

OFTEN = 0.05
"""Share of the rows from which on one word for a missing value is spoken of."""
ROWS = 1 << 16
"""Rows of a file that are read at once."""

KEEP_ONE = "Keep one row of each person."
TOGETHER = "--clusters {} takes the rows of each together."
SPLIT = (
    "{} of one stand on both sides of the split, the model looks better on the rows held out than on new people, and "
)


def repeated_row_warnings(
    frame: Any, label: str | None, clusters: str | None = None, remedy: str = TOGETHER
) -> tuple[str, ...]:
    """`identifier_warnings` and `copy_warnings` of a file whose rows are all judged; nothing where --clusters names a
    column. label: the column that is judged, None where the file has none."""
    if clusters is not None:
        return ()
    return (
        *identifier_warnings(frame.drop(columns=[] if label is None else [label]), remedy, held_out=False),
        *copy_warnings(frame, held_out=False),
    )


def identifier_warnings(frame: Any, remedy: str = KEEP_ONE, held_out: bool = True) -> tuple[str, ...]:
    """What a reader must know where the rows of a file are not all of different persons, by the names of the columns.

    remedy: what to do, with {} for the column. held_out: whether a part of the rows is held out.
    """
    out = []
    for name in filter(lambda name: names_identifier(str(name)), frame.columns):
        rows, different = int(frame[name].notna().sum()), frame[name].nunique()
        if FEWEST <= different < rows <= MOST_ROWS * different:
            out.append(
                f"Column {name} has {different:,} values on {rows:,} rows. If each is one person, "
                + (SPLIT.format("rows") if held_out else "")
                + "limits that take rows for independent are too narrow. "
                + remedy.format(quote(str(name)))
            )
    return tuple(out)


def copy_warnings(frame: Any, held_out: bool = True) -> tuple[str, ...]:
    """What a reader must know where many rows of a file repeat others in every column, far oftener than by chance.

    Chance is that of two rows alike in all columns but the one with most values: they agree in that one as often as any
    two different rows do. held_out: as of `identifier_warnings`.
    """
    from pandas.util import hash_pandas_object

    try:
        rows = hash_pandas_object(frame, index=False)
        again = rows.duplicated()
        if again.mean() < COPIES:
            return ()
        different = frame[~again]
        most = different[different.nunique().idxmax()]
        others = hash_pandas_object(frame.drop(columns=[most.name]), index=False)
    except TypeError:  # cells of a Parquet file that are no values, such as lists
        return ()
    chance = float((most.value_counts(normalize=True, dropna=False) ** 2).sum())
    if _pairs(rows) < FEWER * chance * _pairs(others):
        return ()
    return (
        f"{int(again.sum()):,} of {len(frame):,} rows repeat an earlier one in every column. If they are copies, "
        + (SPLIT.format("copies") if held_out else "")
        + "limits that take rows for independent are too narrow. Keep one of each.",
    )


def _pairs(values: Any) -> float:
    """How many pairs of rows have the same value."""
    counts = values.value_counts().to_numpy(dtype=np.float64)
    return float((counts * (counts - 1)).sum() / 2)


def code_warnings(frame: Any) -> tuple[str, ...]:
    """What a reader must know of numbers among the features that seem to be codes for a missing value."""
    out = []
    for name in frame.columns:
        if frame[name].dtype.kind not in "if":
            continue
        numbers = frame[name].to_numpy(dtype=np.float64)
        if (codes := stray_codes(numbers)) and not far_of(name, numbers):  # of far ones the encoder speaks
            rows = int(frame[name].isin(codes).sum())
            named = shortlist([f"{code:g}" for code in codes])
            out.append(
                f"Column {name}: {rows:,} of {len(frame):,} rows hold {named}, far from all other values. Is that a code for a missing value? "
                "Then empty these cells, or it is learnt from as an amount."
            )
    return tuple(out)


def missing_word_notes(
    frame: Any, path: str, file_format: Mapping[str, Any], groups: Collection[str] = ()
) -> tuple[str, ...]:
    """What a reader must know of columns of text in which many cells are one word, such as None, that is taken for a
    missing value: it may be a category, or a group. The columns in question are read once more.

    frame: the features and groups in the CSV file `path`. file_format: as of `read_table`. groups: the columns of these.
    """
    few = max(FEWEST, OFTEN * len(frame))
    out = []
    for name, (word, rows, total) in word_in_place_of(frame, path, file_format, few).items():
        begins = f"Cells {word!r} of column {name} count as missing: {rows:,} of {total:,} rows"
        out.append(
            f"{begins}, which are in no group. If {word!r} is a group, write it otherwise, or save the table as Parquet, where "
            "it is text."
            if name in groups
            else f"{begins}. If they are a category, write them otherwise, such as 'no', or save the table as Parquet, where "
            "they are text."
        )
    return tuple(out)


def word_in_place_of(
    frame: Any, path: str, file_format: Mapping[str, Any], few: float = 1
) -> dict[str, tuple[str, int, int]]:
    """By column of text of a frame the word that most of its missing cells hold and that may mean something else, in how
    many rows it stands, and how many rows there are; of columns where it stands in at least `few`. The columns of the CSV
    file `path` are read once more; a Parquet file says itself which cells are missing."""
    if is_parquet(path):
        return {}
    texts = [name for name in frame.columns if frame[name].dtype.kind not in "biufM" and frame[name].nunique() > 0]
    texts = [name for name in texts if frame[name].isna().sum() >= few]
    if not texts:
        return {}
    found, total = {name: Counter[str]() for name in texts}, 0
    how = {**file_format, "kinds": Kinds(verbatim=True)}
    for part in csv_parts(path, ROWS, texts, reading=Reading(told={INDEX}, even=True), **how):
        total += len(part)
        for name, counts in found.items():
            counts.update(part[name][part[name].isin(MAY_BE_WORDS)].value_counts().to_dict())
    most = {name: counts.most_common(1)[0] for name, counts in found.items() if counts}
    return {name: (word, rows, total) for name, (word, rows) in most.items() if rows >= few}
