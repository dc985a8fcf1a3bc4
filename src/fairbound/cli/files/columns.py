"""The columns of a file by their names, and errors that name the file, its lines and its columns."""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fairbound.base.errors import DataError, DataWarning, OptionError, silenced
from fairbound.base.names import did_you_mean, shortlist, unspelled
from fairbound.cli.files.outcome import say
from fairbound.cli.files.row_warnings import word_in_place_of
from fairbound.rows.groups import Groups, texts_of
from fairbound.rows.labels import MANY_NUMBERS, as_decisions
from fairbound.rows.scores import strays_of
from fairbound.tables import Chunks, Kinds, read_table
from fairbound.tables.reading.chunks import ROWS
from fairbound.tables.reading.opening import check_file
from fairbound.tables.reading.parquet import is_parquet
from fairbound.tables.reading.records import line_of


def in_lines(error: Exception, source: str, rows: np.ndarray | None) -> str:
    """What an error says, with the lines of a file for row numbers that count from 0.

    source: the file's path, empty for a named data set; where there are no lines (there, and in Parquet), rows are
    counted from 1. rows: (k,) the rows of the file that the error numbers, where it was raised for a part of them.
    """
    text, begins = str(error), 0
    if part := re.search(r" \(In the part that begins with row (\d+)\.\)", text):
        text, begins = text.replace(part[0], ""), int(part[1])

    def place(found: re.Match[str]) -> str:
        row = begins + int(found[1])
        row = row if rows is None else int(rows[row])
        line = None if not source or is_parquet(source) else line_of(source, row)
        return f"row {row + 1} of the file" if line is None else f"line {line} of the file"

    return re.sub(r"row (\d+) \(counting from 0\)", place, text)


@contextlib.contextmanager
def in_file(source: str, rows: np.ndarray | None = None) -> Iterator[None]:
    """Errors of data name the file and its lines where they have row numbers; arguments as of `in_lines`."""
    try:
        yield
    except DataError as error:
        said = in_lines(error, source, rows)
        if said == str(error):
            raise
        raise DataError(f"{Path(source).name}: {said}" if source else said) from None


@contextlib.contextmanager
def in_label(source: str, label: str, rows: np.ndarray | None = None, what: str = "label") -> Iterator[None]:
    """Errors of data name the file and its column of labels, or of `what`, and lines as `in_file` does."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{source}, {what} column {label!r}: {in_lines(error, source, rows)}") from None


def named_columns(text: str | None, columns: Collection[str], what: str, needed: bool = False) -> list[str]:
    """The column names in `text`, separated by commas; each must be one of `columns`. needed: there must be one."""
    names = [text] if text in columns else [name.strip() for name in (text or "").split(",") if name.strip()]
    if needed and not names:
        one_column(None, columns, what)
    names = [one_column(str(name), columns, what) for name in names]
    if len(set(names)) < len(names):
        raise OptionError(f"{what} names a column twice: {', '.join(names)}.")
    return names


def one_column(name: str | None, columns: Collection[str], what: str) -> str:
    """`name`, which must be one of `columns`; None and unknown names are errors that list them."""
    if name is None:
        raise OptionError(f"name the column with {what}; there are: {shortlist(columns, 20)}.")
    if name not in columns:
        near = sorted(columns, key=lambda one: _unlike(one, name))
        hint = did_you_mean(name, columns, before=". ", otherwise=f". There are: {shortlist(near, 20)}.")
        raise OptionError(f"{what}: there is no column {name!r}{hint}")
    return name


def _unlike(column: str, typed: str) -> int:
    """0 for the name of a column that begins with what was typed, 1 for one that contains it, 2 for others."""
    column, typed = unspelled(column), unspelled(typed)
    return 2 if not typed or typed not in column else 0 if column.startswith(typed) else 1


def labelled_rows(frame: Any, label: str, options: Any, what: str = "label") -> tuple[Any, list[str]]:
    """The rows of the file of `options` that have a label, their index the numbers of the file's rows, and notes on those
    left out, which are said. what: the column holds, in words, as "decision" where nobody knows the labels.

    Raises: DataError where labels are missing and the options do not say that their rows are left out, and where no row
    has one.
    """
    missing = frame[label].isna().to_numpy()
    if not missing.any():
        return frame, []
    said = f"{missing.sum():,} of {len(missing):,} {what}s are missing"
    with in_label(options.data, label, what=what):
        if missing.all():
            raise DataError(f"no row has a {what}. Check the column and the filter.")
        meant = _counts_as_missing(frame, label, options, what)
        if not options.drop_missing_labels:
            raise DataError(
                f"{said}, the first in row {missing.argmax()} (counting from 0).{meant} Fill them in, or leave these "
                "rows out with --drop-missing-labels."
            )
    note = f"{said}; these rows are left out (--drop-missing-labels).{meant}"
    say(note)
    return frame[~missing], [note]


def _counts_as_missing(frame: Any, label: str, options: Any, what: str) -> str:
    """What is said of the word that most of the missing cells of a column of labels, or of one that decisions are stated
    of, hold, as it may be a label; "" where they hold none, or the others are amounts."""
    column = column_of(label, file_columns(options), f"--{what}")
    amounts = frame[column].dtype.kind == "f" and frame[column].nunique() > MANY_NUMBERS
    words = {} if amounts else word_in_place_of(frame[[column]].astype(object), options.data, options.file_format)
    if column not in words:
        return ""
    word, rows, _ = words[column]
    cells = f"{rows:,} cells are {word!r}, which counts" if rows > 1 else f"One cell is {word!r}, which counts"
    return (
        f" {cells} as missing in a CSV file: where it is a {what}, write it otherwise, or save the table as Parquet, where it "
        "is text."
    )


class LabelledTable(NamedTuple):
    """The rows of a file that have a label, the column of labels, notes on the rows left out, and these rows."""

    frame: Any
    label: str
    notes: list[str]
    left_out: Any


def labelled_table(options: Any) -> LabelledTable:
    """The file of `options.data`, read once; notes as `labelled_rows` gives them."""
    whole = read_table(options.data, **options.file_format)
    label = one_column(options.label, whole.columns, "--label")
    frame, notes = labelled_rows(whole, label, options)
    return LabelledTable(frame, label, notes, whole[whole[label].isna()])


def speaks_of(text: str, columns: Collection[str]) -> tuple[str, str, str] | None:
    """The column, the sign and the value of a decision that is stated of a column, such as score>600; None for other
    texts, such as the name of a column."""
    for found in () if text in columns else re.finditer(r"<=|>=|<|>|=", text):
        if (column := text[: found.start()].strip()) in columns:
            return column, found[0], text[found.end() :].strip()
    return None


def column_of(text: str | None, columns: Collection[str], what: str) -> str:
    """The column that `text` names, or states a decision of. Raises: as `one_column`."""
    stated = None if text is None else speaks_of(text, columns)
    return one_column(text, columns, what) if stated is None else stated[0]


def file_columns(options: Any) -> list[str]:
    """The names of the columns of the file `options.data`."""
    with silenced(DataWarning):  # said when its rows are read
        how = {"encoding": options.encoding, "decimal": options.decimal, "kinds": Kinds(look=False)}
        first = next(iter(Chunks.read(options.data, rows=100, **how)), None)
    if first is None:
        raise DataError(f"{options.data}: the file has no rows.")
    return [str(name) for name in (first.column_names if hasattr(first, "column_names") else first.columns)]


def narrow_columns(options: Any, columns: Sequence[str], chunk_rows: int | None) -> Any:
    """A pandas frame of a few columns of the file `options.data`, read in parts."""
    import pandas as pd

    parts = Chunks.read(options.data, rows=chunk_rows or ROWS, columns=columns, **options.file_format)
    return pd.concat([pandas_part(part) for part in parts], ignore_index=True)


def pandas_part(part: Any) -> Any:
    """A part of a file as a pandas frame."""
    return part.to_pandas() if hasattr(part, "to_pandas") else part


def file_checksum(path: str) -> str:
    """The sha256 of a file, read a little at a time. Raises: as `check_file`."""
    check_file(Path(path))
    with open(path, "rb") as file:
        return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()


def groups_in(frame: Any, attributes: Sequence[str], whole: bool = True) -> Groups | None:
    """The groups of columns of a table, None where none are named. whole: as of `Groups.of`."""
    return Groups.of(frame[list(attributes)], whole=whole) if attributes else None


def clusters_of(frame: Any, column: str | None) -> Any:
    """(n,) the column of --clusters, None where none is named."""
    return None if column is None else frame[one_column(column, frame.columns, "--clusters")]


def units_of(frame: Any, column: str) -> np.ndarray:
    """(n,) who each row is of, as numbers; a row without a value is by itself."""
    codes = frame[column].factorize()[0]
    return np.where(codes < 0, len(frame) + np.arange(len(frame)), codes)


def weights_of(frame: Any, column: str | None, source: str) -> np.ndarray | None:
    """(n,) the column of --weights, None where none is named. source: the file.
    Raises: DataError for what weighs no rows."""
    if column is None:
        return None
    weight = numbers_in(frame, one_column(column, frame.columns, "--weights"), source, "--weights")
    rows = frame.index.to_numpy()
    wrong = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))
    if len(wrong) or not weight.any():
        what = f"row {wrong[0]} (counting from 0) has {weight[wrong[0]]:g}" if len(wrong) else "all are 0"
        with in_file(source, rows):
            raise DataError(f"the weights in column {column!r} must be finite numbers >= 0, not all 0, and {what}.")
    return weight


def weight_notes(column: str | None) -> list[str]:
    """The note that names the column of --weights; none without one."""
    return [] if column is None else [f"Every row counts with its weight, column {column}."]


def numbers_in(frame: Any, column: str, source: str, option: str = "--score") -> np.ndarray:
    """`numbers_of` a column of a frame whose index are the rows of the file `source`. option: that names the column."""
    with in_file(source, frame.index.to_numpy()):
        try:
            return numbers_of(frame[column], column)
        except DataError as error:
            raise DataError(f"{error} The column of {option} must hold numbers.") from None


def numbers_of(values: Any, column: str) -> np.ndarray:
    """(n,) the values of a column as numbers. Raises: DataError naming the column, and the first row whose value is
    none."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        strays = strays_of(values)
        if strays is None:
            raise
        raise DataError(strays.said(f"the column {column!r}")) from None


def numbers_to_predict(column: Any) -> tuple[np.ndarray, tuple[()]]:
    """(n,) the finite numbers of a column of labels, and no classes."""
    y = numbers_of(column, str(column.name))
    if not np.isfinite(y).all():
        raise DataError(f"row {np.isinf(y).argmax()} (counting from 0) holds an infinite number. Correct it.")
    return y, ()


def with_decisions(frame: Any, *stated: str | None, occurs: bool = True, threshold: float | None = None) -> Any:
    """The frame with a column of 1 and 0 for each of the decisions `stated` of another column, such as decision=approved,
    score>600 or risk<=0.2, under this name; what names a column itself, or none, adds nothing.
    occurs: whether the value named must be in a cell. threshold: that of --threshold, which nothing takes where all are
    decisions that are stated.

    Raises: DataError where no cell has the value named, or a column compared with a number holds none; OptionError for
    a threshold that nothing takes.
    """
    found = {text: speaks_of(text, frame.columns) for text in stated if text is not None}
    if threshold is not None and found and all(found.values()):
        raise OptionError(
            f"{' and '.join(map(repr, found))} says itself what counts as positive, and takes no --threshold {threshold:g}; leave one "
            "of the two out."
        )
    for text, said in found.items():
        if said is not None:
            frame = frame.assign(**{text: _decisions(frame[said[0]], *said, occurs)})
    return frame


def _decisions(cells: Any, column: str, sign: str, value: str, occurs: bool) -> np.ndarray:
    """(n,) 1.0 where a cell is as stated, 0.0 where it is not, NaN where it is missing."""
    if sign == "=":
        texts = texts_of(cells)
        known = {text for text in texts if text is not None}
        if occurs and value not in known:
            raise DataError(
                f"no cell of the column {column!r} is {value!r}; there are {shortlist(sorted(known), quoted=True)}."
            )
        if others := sorted(text for text in known - {value} if unspelled(text) == unspelled(value)):
            cells_of = sum(text in others for text in texts)
            raise DataError(
                f"{cells_of:,} cells of the column {column!r} hold {shortlist(others, quoted=True)}, which differ from "
                f"{value!r} only in capitals or blanks. Write them alike: as they are, they would count as negative."
            )
        return np.array([np.nan if text is None else float(text == value) for text in texts])
    try:
        limit = float(value)
    except ValueError:
        raise OptionError(f"{column}{sign}{value}: a number must follow {sign!r}, as in {column}{sign}0.5.") from None
    with in_file("", cells.index.to_numpy()):
        numbers = numbers_of(cells, column)
    compare = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}[sign]
    return np.where(np.isnan(numbers), np.nan, compare(numbers, limit))


def decided_or_scored(frame: Any, column: str, classes: tuple[Any, Any], stated: bool = False) -> np.ndarray:
    """(n,) the scores of a column: numbers, or predicted labels as 0 and 1. classes: the labels that 0 and 1 mean.
    stated: whether it holds decisions that were stated of another column, as by `with_decisions`."""
    given = as_decisions(frame[column], None if stated else classes)
    if isinstance(given, np.ndarray):
        return given
    try:
        return numbers_of(frame[column], column)
    except DataError as error:
        named = {unspelled(str(label)): label for label in classes}
        if spelled := [v for v in frame[column].unique().tolist() if unspelled(str(v)) in named and v not in classes]:
            raise DataError(
                f"the column {column!r} holds {spelled[0]!r}, and the label {named[unspelled(str(spelled[0]))]!r}: they differ in capitals or blanks. "
                "Write them alike."
            ) from None
        if (strays := strays_of(frame[column])) is not None and strays.few:
            raise DataError(f"{error} Scores are numbers: correct it, or leave the row out.") from None
        raise DataError(
            f"{error} Give scores as numbers, or decisions as the labels {' and '.join(map(repr, classes))}. Other "
            f"words: name the one that is positive, as in '{column}={frame[column].iloc[0]}'."
        ) from None
