"""Any two-dimensional table as a list of named columns of two sorts: numbers, and codes into a list of texts.

Frames of any library come through narwhals; arrays, tensors and nested lists are read here. The encoder sees only
:class:`Column`.
"""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from collections.abc import Container, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from numbers import Real
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import scipy.sparse as sp
import torch

from fairbound.base.errors import DataError
from fairbound.base.names import lacking, shortlist
from fairbound.rows.reading import factorised, frame_of, is_missing, library_type, series_of, unmasked
from fairbound.tables.cells import (
    DURATION,
    TO_DATES,
    WHOLE,
    CellTypeError,
    days_of,
    float_of,
    no_cell,
    stamp_of,
    text_of,
    texts_of_days,
)

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_LEADING_ZERO = re.compile(r"[+-]?0\d+")

LONG = 1 << 14
"""Rows from which on a column of texts is given to Arrow."""


CODED = ("category", "text", "loose")
"""Kinds of columns whose values are codes into texts."""


@dataclass(frozen=True)
class Column:
    """One column of n rows.

    ``kind``: "number"; "days" (dates as days since 1970-01-01 UTC, durations as days); "category" (the type says so:
    bool, categorical, enum); "text" (strings or mixed objects); "loose" (strings of a table without types, and numbers kept
    as objects of which a float may not tell all, which may be either).
    ``values``: number: (n,) floats or whole numbers of any type, often a view of the table; days: (n,) float64; NaN is
    missing. The others: (n,) codes into ``categories``, of as few bytes as they need, -1 is missing.
    ``order``: of days that were texts with slashes what came first, or that they are times or durations (`dates.ORDERS`),
    else "".
    """

    name: str
    kind: str
    values: np.ndarray
    categories: tuple[str, ...] = ()
    order: str = ""

    @property
    def coded(self) -> bool:
        """Whether ``values`` are codes into ``categories``."""
        return self.kind in CODED

    @property
    def missing(self) -> np.ndarray:
        """(n,) bool, True where the value is missing."""
        return self.values < 0 if self.coded else np.isnan(self.values)


@dataclass(frozen=True)
class Table:
    """Columns in order; ``named`` is False where the names x0, x1, ... were made up for a table that has none.

    ``names``: all column names of the table, also of those that were not asked for.
    """

    columns: tuple[Column, ...]
    names: tuple[str, ...]
    rows: int
    named: bool


def read_columns(table: Any, wanted: Container[str] | None = None) -> Table:
    """The columns of a DataFrame of any library, a 2-D numpy array or torch tensor, or a list of rows.

    wanted: of a frame, read only these columns (all without it); a table without names is always read whole.

    Raises: DataError for an empty table, duplicate column names, a table that is not 2-D or a type of column that
    has no meaning here; CellTypeError for a cell or a table of an unknown type.
    """
    frame = frame_of(table)
    if frame is None:
        columns = _from_array(table)
        rows = len(columns[0].values) if columns else len(table)
        _check_shape(rows, len(columns))
        return Table(tuple(columns), tuple(column.name for column in columns), rows, named=False)
    rows, names = len(frame), [str(name) for name in frame.columns]
    _check_shape(rows, len(names))
    given = {
        n: frame.get_column(own) for n, own in zip(names, frame.columns, strict=True) if wanted is None or n in wanted
    }
    columns = [_from_series(name, series) for name, series in given.items()]
    return Table(tuple(columns), tuple(names), rows, named=True)


def by_name(read: Table, wanted: Sequence[str]) -> dict[str, Column]:
    """The columns of a table by their names. Raises: DataError where one that is wanted is not there."""
    given = {column.name: column for column in read.columns}
    if absent := [name for name in wanted if name not in given]:
        raise DataError(lacking(absent, read.names))
    return given


def by_place(read: Table, names: Sequence[str]) -> dict[str, Column]:
    """The columns of a table, which take these names in order. Raises: DataError where they are more or fewer."""
    if len(read.columns) != len(names):
        raise DataError(
            f"X has {len(read.columns)} features, but TableEncoder is expecting {len(names)} features as "
            f"input: {shortlist(names, 8, quoted=True)}."
        )
    return {name: replace(column, name=name) for name, column in zip(names, read.columns, strict=True)}


def _check_shape(rows: int, width: int) -> None:
    if width == 0:
        raise DataError(f"the table has no columns: 0 feature(s) (shape=({rows}, 0)) while a minimum of 1 is required.")
    if rows == 0:
        raise DataError(
            f"the table has no rows: found 0 sample(s) (shape=(0, {width})) while a minimum of 1 is required. "
            "Check the filter or the file that made it."
        )


def read_sparse(table: Any) -> sp.csr_array:
    """A float64 CSR copy with no infinities and no missing values."""
    if table.ndim != 2 or 0 in table.shape:
        raise DataError(
            f"the sparse table has shape {table.shape}: 0 sample(s) or 0 feature(s) while a minimum of 1 is required."
        )
    if np.iscomplexobj(table):
        raise DataError("Complex data not supported: the sparse table is complex. Split it into real columns.")
    matrix = sp.csr_array(table, dtype=np.float64, copy=True)
    matrix.sum_duplicates()
    bad = ~np.isfinite(matrix.data)
    if bad.any():
        place = int(matrix.indices[bad.argmax()])
        raise DataError(
            f"the sparse table has {int(bad.sum())} NaN or infinite values, the first in column x{place}. Correct them."
        )
    return matrix


def as_number(column: Column) -> Column:
    """The column as numbers: texts that are written as numbers are read, bools become 0 and 1; days stay days.

    Raises: DataError naming the column, an example value and its row where a text is not a number.
    """
    if not column.coded:
        return column
    truth = {"True": 1.0, "False": 0.0} if column.kind == "category" else {}
    known = [truth.get(text, float(text) if is_number(text) else np.nan) for text in column.categories]
    values = np.array([*known, np.nan])[column.values]
    wrong = np.flatnonzero(~np.isfinite(values) & (column.values >= 0))
    if wrong.size:
        example = column.categories[column.values[wrong[0]]]
        raise DataError(
            f"column {column.name!r} holds numbers, but {wrong.size} of {len(values)} rows have text in it, e.g. "
            f"{example!r} in row {wrong[0]} (counting from 0). Correct these cells or leave them empty (missing)."
        )
    return Column(column.name, "number", values)


def as_category(column: Column) -> Column:
    """The column as codes into texts; whole numbers are written without a decimal point, so 1, 1.0 and "1" are one, and days as
    dates or durations."""
    if column.coded:
        return replace(column, kind="category")
    whole = column.values.dtype.kind in "iu"  # whose last digits a float may not hold
    values = column.values if whole else column.values.astype(np.float64)
    known = np.ones(len(values), dtype=bool) if whole else ~np.isnan(values)
    unique, inverse = np.unique(values[known], return_inverse=True)
    codes = np.full(len(values), -1, dtype=np.int64)
    codes[known] = inverse
    texts = texts_of_days(unique, column.order) if column.kind == "days" else unique.tolist()
    return _coded(column.name, "category", codes, texts)


def has_leading_zero(text: str) -> bool:
    """Whether a text is written as a number with a leading zero ("007", "02138"), which marks a code."""
    return _LEADING_ZERO.fullmatch(text) is not None


def is_number(text: str) -> bool:
    """Whether a text is written as a number, without units and marks between thousands."""
    return _NUMBER.fullmatch(text) is not None


def number_share(column: Column) -> tuple[int, float]:
    """How many distinct texts of a column of texts are written as numbers, and their share of the known rows.

    A number with a leading zero ("007", "02138") marks a code, not a quantity: then the answer is (0, 0.0).
    """
    if any(map(has_leading_zero, column.categories)):
        return 0, 0.0
    numeric = np.array([*map(is_number, column.categories), False])
    known = int((column.values >= 0).sum())
    return int(numeric.sum()), float(numeric[column.values].sum() / known) if known else 0.0


def _coded(name: str, kind: str, codes: np.ndarray, unique: Sequence[object]) -> Column:
    """Codes into raw values -> codes into their canonical texts, equal texts merged."""
    place: dict[str, int] = {}
    remap = [-1 if (text := text_of(value, name)) is None else place.setdefault(text, len(place)) for value in unique]
    smallest = np.min_scalar_type(-1 - len(place))
    return Column(name, kind, np.array([*remap, -1], dtype=smallest)[codes], tuple(place))


def _from_texts(name: str, series: nw.Series[Any]) -> Column:
    """A column of a library's own texts: of a long one the codes are made by Arrow, where it is there,
    without a Python object for each."""
    if len(series) >= LONG and getattr(series.to_native(), "dtype", None) != np.dtype(object):
        try:
            found = series.to_arrow().dictionary_encode()
        except (ImportError, ValueError):  # no Arrow, or texts that are no Unicode
            return _from_objects(name, series.to_list(), typed=True)
        coded = found.unify_dictionaries().combine_chunks() if hasattr(found, "combine_chunks") else found
        return _coded(name, "text", coded.indices.fill_null(-1).to_numpy(), coded.dictionary.to_pylist())
    return _from_objects(name, series.to_list(), typed=True)


def _from_objects(name: str, values: Iterable[object], typed: bool) -> Column:
    """A column of Python objects: dates -> days, bools -> category, numbers -> number, else text. If ``typed``, numbers with
    bools among them, and whole ones that a float does not tell apart, may be codes and stay loose."""
    codes, unique = _factorised(name, values)
    known = [value for value in unique if not is_missing(value)]
    if known and all(isinstance(v, dt.date) for v in known):
        stamps = np.array(
            [np.datetime64("NaT") if is_missing(v) else stamp_of(v) for v in unique], dtype="datetime64[us]"
        )
        return Column(name, "days", days_of(stamps[codes]))
    if known and all(isinstance(v, bool) for v in known):
        return _coded(name, "category", codes, unique)
    numeric = bool(known) and all(isinstance(v, Real | Decimal) for v in known)
    codes_maybe = typed and any(isinstance(v, bool) or (isinstance(v, int) and abs(v) >= WHOLE) for v in known)
    if numeric and not codes_maybe:
        numbers = np.array([np.nan if is_missing(v) else float_of(v) for v in unique])
        return Column(name, "number", numbers[codes])
    return _coded(name, "loose" if numeric or not typed else "text", codes, unique)


def _factorised(name: str, values: Iterable[object]) -> tuple[np.ndarray, list[Any]]:
    """(n,) codes into the distinct values; equal values of different types are kept apart."""
    values = values if isinstance(values, list) else list(values)
    try:
        codes, unique = factorised(values)
    except TypeError:
        bad = next(v for v in values if not isinstance(v, Hashable) or isinstance(v, tuple))
        raise no_cell(name, bad) from None
    return codes, [value.item() if isinstance(value, np.generic) else value for value in unique]


def _no_meaning(name: str, kind: object) -> DataError:
    advice = "Use numbers, bools, text, categories or dates, or drop it."
    return DataError(
        f"column {name!r} has type {kind}, which has no encoding here. {TO_DATES if str(kind).startswith('period') else advice}"
    )


def is_plain(kind: nw.dtypes.DType) -> bool:
    """Whether a column's type is one of the numbers that a processor has: floats,
    and whole numbers of at most 64 bits."""
    return kind.is_float() or (kind.is_integer() and not isinstance(kind, nw.Int128 | nw.UInt128))


def _numbers(series: nw.Series[Any]) -> np.ndarray:
    """(n,) the numbers of a column, not copied where they lie in memory as numpy has them."""
    if is_plain(series.dtype):
        values = series.to_numpy()
        if values.dtype.kind in "iuf" and values.dtype.itemsize <= 8:
            return values
    return series.cast(nw.Float64).to_numpy()


def _plainer(series: Any) -> Any:
    """A column of a library's sparse values, of floats longer than 64 bits, or of times of a zone whose name narwhals does
    not read, such as America/New_York of pandas, in a type with an encoding; None of any other."""
    kind: Any = getattr(series, "dtype", None)
    if getattr(kind, "tz", None) is not None and str(kind.tz) != "UTC":
        return series.dt.tz_convert("UTC")
    if hasattr(kind, "fill_value") and hasattr(kind, "subtype"):
        return series.astype(kind.subtype)
    return series.astype(np.float64) if isinstance(kind, np.dtype) and kind.kind == "f" else None


def _from_series(name: str, series: nw.Series[Any]) -> Column:
    kind = series.dtype
    if kind.is_numeric():
        return Column(name, "number", _numbers(series))
    if isinstance(kind, nw.Datetime) and kind.time_zone is not None:
        series = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    if isinstance(kind, nw.Date | nw.Datetime):
        return Column(name, "days", days_of(series.cast(nw.Datetime("us")).to_numpy()))
    if isinstance(kind, nw.Duration):
        return Column(name, "days", days_of(series.cast(nw.Duration("us")).to_numpy()), order=DURATION)
    if isinstance(kind, nw.Categorical | nw.Enum):
        return _coded(name, "category", *_factorised(name, series.to_list()))
    if isinstance(kind, nw.String):
        return _from_texts(name, series)
    if isinstance(kind, nw.Boolean | nw.Object):
        return _from_objects(name, series.to_list(), typed=True)
    if isinstance(kind, nw.Unknown):
        native: Any = series.to_native()
        if (dense := _plainer(native)) is not None:
            return _from_series(name, nw.from_native(dense, series_only=True))
        values = series.to_list()
        if all(is_missing(value) for value in values):
            return _from_objects(name, values, typed=True)
        if any(isinstance(value, complex) for value in values):
            raise DataError(f"Complex data not supported: column {name!r}. Split it into real columns.")
        raise _no_meaning(name, getattr(native, "dtype", kind))
    raise _no_meaning(name, kind)


def _from_array(table: Any) -> list[Column]:
    if isinstance(table, torch.Tensor):
        plain = table.detach().cpu()
        narrow = plain.is_floating_point() and plain.dtype not in (torch.float32, torch.float64)
        array = (plain.to(torch.float64) if narrow else plain).numpy()
    elif isinstance(table, list | tuple):
        return _from_rows(table)
    elif series_of(table) is not None:
        raise DataError(
            f"expected a table with rows and columns, got a {library_type(table)}. Make it a frame: "
            "series.to_frame() of a column, table.iloc[[i]] of a row."
        )
    elif isinstance(table, np.ndarray) or hasattr(table, "__array__"):
        array = unmasked(table)
    else:
        raise CellTypeError(
            "a table must be a DataFrame (pandas, polars, pyarrow, ...), a 2-D numpy array or torch tensor, a scipy "
            f"sparse matrix or a list of rows, got {type(table).__name__}."
        )
    if array.ndim != 2:
        raise DataError(
            f"expected a 2-D table, got an array of shape {array.shape}. Reshape your data: x.reshape(-1, 1) is one "
            "column, x.reshape(1, -1) one row."
        )
    names = [f"x{place}" for place in range(array.shape[1])]
    kind = array.dtype.kind
    if kind in "iuf":
        array = array if array.dtype.itemsize <= 8 else array.astype(np.float64)
        return [Column(name, "number", array[:, j]) for j, name in enumerate(names)]
    if kind in "mM":
        order = DURATION if kind == "m" else ""
        return [Column(name, "days", days_of(array[:, j]), order=order) for j, name in enumerate(names)]
    if kind in "bOU":
        return [_from_objects(name, array[:, j].tolist(), typed=False) for j, name in enumerate(names)]
    if kind == "c":
        raise DataError(f"Complex data not supported: the table is {array.dtype}. Split it into real columns.")
    raise _no_meaning("x0", array.dtype)


def _from_rows(rows: Sequence[Any]) -> list[Column]:
    if len(rows) == 0:
        raise DataError("the table is an empty list: found 0 sample(s) while a minimum of 1 is required.")
    if any(isinstance(row, dict) for row in rows):
        raise DataError("the table is a list of dicts. Make it a frame first: pandas.DataFrame(rows).")
    if not all(isinstance(row, list | tuple) or getattr(row, "ndim", 0) == 1 for row in rows):
        raise DataError(
            "expected a list of rows, each a list of cells. Reshape your data: [[x] for x in values] is one column."
        )
    widths = Counter(len(row) for row in rows)
    if len(widths) > 1:
        usual = widths.most_common(1)[0][0]
        at = next(i for i, row in enumerate(rows) if len(row) != usual)
        raise DataError(
            f"row {at} (counting from 0) has {len(rows[at])} cells, the others {usual}. Make all rows equally long."
        )
    cells = (row if isinstance(row, list | tuple) else row.tolist() for row in rows)
    return [_from_objects(f"x{j}", column, typed=False) for j, column in enumerate(zip(*cells, strict=True))]
