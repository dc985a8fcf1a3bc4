"""Columns of values as people have them, read in one way: Series of any dataframe library, tensors, arrays and lists.

Dataframe libraries (pandas, polars, pyarrow, ...) are reached through narwhals; no other reader names one of them.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.exceptions import DuplicateError

from fairbound.base.callers import users_line
from fairbound.base.errors import DataError, DataWarning

Frame = nw.DataFrame[Any]
LEAST, MOST = 1e-100, 1e100
"""Between these the largest weight of some rows lies, or their weights are taken in units of it, as sums would overflow."""
WIDEST = 1e30
"""How many times the smallest weight above 0 the largest may be: models and sums in single precision hold no more."""


def frame_of(table: Any) -> Frame | None:
    """The narwhals view of a DataFrame of any library; None for what is no frame.

    Raises: DataError for a frame whose rows are not computed yet, and for one whose column names repeat.
    """
    if isinstance(table, np.ndarray | list | tuple | dict):
        return None
    try:
        found = nw.from_native(table, pass_through=True)
    except DuplicateError:
        raise _repeated(getattr(table, "column_names", None) or list(table.columns)) from None
    if isinstance(found, nw.LazyFrame):
        raise DataError(
            f"expected a table with rows and columns, got a {library_type(table)}, whose rows are not computed yet. Call "
            ".collect() (or .compute()) first."
        )
    if found is table and hasattr(table, "__arrow_c_stream__") and hasattr(table, "column_names"):
        found = nw.from_arrow(table, backend="pyarrow")  # a RecordBatch, which narwhals takes for no frame
    if not isinstance(found, nw.DataFrame):
        return None
    if len(set(map(str, found.columns))) < len(found.columns):
        raise _repeated(found.columns)
    return found


def _repeated(names: list[Any]) -> DataError:
    repeated = [name for name, count in Counter(map(str, names)).items() if count > 1]
    return DataError(
        f"column names must be unique, but these repeat: {', '.join(map(repr, repeated))}. Rename or drop one."
    )


def series_of(values: Any) -> nw.Series[Any] | None:
    """The narwhals view of a Series of any library; None for what is none."""
    if isinstance(values, nw.Series):
        return values
    if isinstance(values, np.ndarray | list | tuple | nw.DataFrame):
        return None
    found = nw.from_native(values, series_only=True, pass_through=True)
    return found if isinstance(found, nw.Series) else None


def library_type(native: Any) -> str:
    """The library and type of an object, such as "polars LazyFrame"."""
    return f"{type(native).__module__.partition('.')[0]} {type(native).__name__}"


def take_rows(table: Any, rows: np.ndarray) -> Any:
    """The rows numbered `rows` (k,) of a frame, a Series, an array, a sparse matrix or a list, in its form."""
    native = frame_of(table) if series_of(table) is None else series_of(table)
    if native is not None:
        return native[rows].to_native()
    if getattr(table, "format", None) in ("coo", "dia", "bsr"):  # sparse matrices of which scipy takes no rows
        table = table.tocsr()
    return table[rows] if hasattr(table, "shape") else [table[i] for i in rows.tolist()]


def plain_array(values: Any) -> np.ndarray:
    """A Series, frame, tensor, array or list as an array of its shape."""
    if hasattr(values, "detach"):
        tensor = values.detach().cpu()
        half = tensor.is_floating_point() and tensor.element_size() < 4  # numpy has no bfloat16
        return (tensor.float() if half else tensor).numpy()
    series = series_of(values)
    if series is not None:
        return series.to_numpy()
    frame = frame_of(values)
    return unmasked(values) if frame is None else frame.to_numpy()


def plain_column(values: Any) -> np.ndarray:
    """`plain_array`, with the one column of (n, 1) as (n,)."""
    array = plain_array(values)
    return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array


def unmasked(values: Any) -> np.ndarray:
    """Values as an array, in which those that numpy masks are missing: NaN among floats, None among others."""
    if not isinstance(values, np.ma.MaskedArray) or not np.ma.is_masked(values):
        return np.asarray(values)
    floats = values.dtype.kind == "f"
    out = values.data.copy() if floats else values.data.astype(object)
    out[np.ma.getmaskarray(values)] = np.nan if floats else None
    return out


def column_array(name: str, values: Any, n: int | None = None) -> np.ndarray:
    """(n,) array of one column, given as (n,) or (n, 1). name: for the message.

    Raises: DataError for another shape.
    """
    column = plain_column(values)
    if column.ndim != 1 or (n is not None and len(column) != n):
        raise DataError(f"{name} must have shape ({'n' if n is None else n},), got {column.shape}.")
    return column


def number_column(name: str, values: Any, n: int | None = None) -> np.ndarray:
    """`column_array` of real numbers, as float64. Raises: DataError for complex numbers, dates,
    durations and texts that are no numbers too. Warns: DataWarning of texts that are."""
    column = column_array(name, values, n)
    if column.dtype.kind in "cmM":
        raise DataError(f"{name} must be numbers, got {column.dtype}.")
    try:
        found = column.astype(np.float64)
    except (TypeError, ValueError) as error:
        cells = enumerate(column.tolist())
        odd = next(((row, cell) for row, cell in cells if cell is not None and not reads_as_number(cell)), None)
        why = f" ({error})" if odd is None else f", and row {odd[0]} (counting from 0) has {odd[1]!r}"
        raise DataError(f"{name} must be numbers{why}.") from None
    if len(column) and isinstance(column[0], str):
        warnings.warn(
            f"{name}: texts such as {str(column[0])!r} are read as numbers. Pass numbers, if that is meant; else look at the column.",
            DataWarning,
            stacklevel=users_line(),
        )
    return found


def reads_as_number(cell: Any) -> bool:
    """Whether Python makes a float of a cell."""
    try:
        float(cell)
    except (TypeError, ValueError):
        return False
    return True


def column_values(name: str, values: Any) -> list[Any]:
    """The n Python values of one column, given as (n,) or (n, 1); missing ones as they came. name: for the message.

    Raises: DataError for another shape.
    """
    series = series_of(values)
    if series is not None:
        return series.to_list()
    if frame_of(values) is None and not hasattr(values, "__array__"):
        check_rows(**{name: values})
        values = np.asarray(list(values), dtype=object)
    array = plain_column(values)
    if array.ndim != 1:
        raise DataError(f"{name} must be one column, got shape {array.shape}. Pass one of its columns, [:, j].")
    return array.tolist()


def factorised(values: list[Any]) -> tuple[np.ndarray, list[Any]]:
    """(n,) codes into the distinct values, in the order in which they come; equal values of different types are kept
    apart.

    Raises: TypeError for a value that has no hash.
    """
    apart = len(set(map(type, values)) - {str, type(None)}) > 1  # 1, 1.0 and True are equal
    keys: list[Any] = [(type(v), v) for v in values] if apart else values
    index = {key: place for place, key in enumerate(dict.fromkeys(keys))}
    codes = np.fromiter(map(index.__getitem__, keys), dtype=np.int64, count=len(keys))
    return codes, [value for _, value in index] if apart else list(index)


def coded_labels(values: Any) -> tuple[np.ndarray, list[Any]]:
    """(n,) codes into the distinct Python values of one column of labels; errors as of `column_values`,
    and TypeError for a value that has no hash."""
    whole = isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "biu"
    if not whole or isinstance(values, np.ma.MaskedArray):
        return factorised(column_values("the labels", values))
    kinds = np.unique(values)  # without a Python object for each row
    return places_among(kinds, values), kinds.tolist()


def places_among(kinds: np.ndarray, values: np.ndarray) -> np.ndarray:
    """(n,) int64 the place of each of some values (n,) among those that occur (k,), ascending."""
    return np.searchsorted(kinds, values)


def is_missing(value: object) -> bool:
    """Whether a cell is None, NaN, NaT or pandas.NA."""
    if isinstance(value, float | np.floating | Decimal):
        return bool(value != value)
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def warn_of_order(**columns: Any) -> None:
    """Warns: DataWarning where two of the columns, by name, or those in a dict of columns, have an index of the same labels in
    another order, as pandas' have: rows are paired by their place, so one of the two was probably shuffled or sorted by
    itself."""
    indexed = [
        (name, column.index)
        for name, column in _opened(columns)
        if hasattr(getattr(column, "index", None), "sort_values") and column.index.is_unique
    ]
    for name, index in indexed[1:]:
        first, known = indexed[0]
        alike = len(index) == len(known) and index.nlevels == known.nlevels
        if alike and not index.equals(known) and known.isin(index).all():
            warnings.warn(
                f"{first} and {name} have the same index labels in another order, and rows are paired by their place. If they should be "
                f"paired by label, pass {name}.loc[{first}.index]; else reset the index of one of them.",
                DataWarning,
                stacklevel=users_line(),
            )


def _opened(columns: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The columns with their names, and for a dict of columns each of these, called as `name['key']`."""
    for name, column in columns.items():
        if isinstance(column, Mapping):
            yield from ((f"{name}[{key!r}]", one) for key, one in column.items())
        else:
            yield name, column


def check_rows(**columns: Any) -> None:
    """Raises: DataError for one of `columns`, by name, that has no rows to speak of: None, a number, a generator,
    a ragged list."""
    for name, values in columns.items():
        try:
            dims = values.dim() if hasattr(values, "dim") else np.ndim(values)
        except ValueError:
            raise DataError(f"{name} is a list of lists of different lengths; pass one value for each row.") from None
        if values is None or dims == 0:
            raise DataError(f"{name} must have one value for each row, got {type(values).__name__}.")


def read_weights(sample_weight: Any, n: int) -> np.ndarray:
    """(n,) float64 weights >= 0, ones for None; in units of the largest where that is so large or small that sums
    overflow.

    Raises: DataError for another length, and for weights that are no numbers, negative, not finite or all zero, naming the
        first such row, or of which one above 0 is less than a 1e30th of another, naming both.
    """
    if sample_weight is None:
        return np.ones(n)
    given = column_array("sample_weight", sample_weight, n)
    try:
        column = number_column("sample_weight", given)
    except DataError as error:
        raise DataError(f"{error} Groups are passed by name, as sensitive_features=.") from None
    wrong = ~(np.isfinite(column) & (column >= 0))
    if wrong.any() or not column.any():
        row = int(wrong.argmax())
        what = f"row {row} (counting from 0) has {column[row]:g}" if wrong.any() else "all are 0"
        raise DataError(f"sample_weight must be finite, non-negative and not all zero, and {what}.")
    small, large = np.where(column > 0, column, np.inf).argmin(), column.argmax()
    if column[small] < column[large] / WIDEST:
        raise DataError(
            f"sample_weight lies too far apart: row {small} (counting from 0) has {column[small]:g} and row {large} has "
            f"{column[large]:g}, more than {WIDEST:g} times as much. Rows that are not to count take the weight 0."
        )
    return column if LEAST < column.max() < MOST else column / column.max()
