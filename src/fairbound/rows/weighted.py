"""Rows of weight 0 are no rows: they are left out before anything else looks at them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fairbound.base.errors import DataError
from fairbound.rows.groups import Groups
from fairbound.rows.reading import plain_column, read_weights, take_rows


def weighted_rows(sample_weight: Any, column: Any) -> np.ndarray | None:
    """(k,) the numbers of the rows whose weight is above 0; None where these are all, or no weights are given.

    column: another one of these rows. Raises: DataError as `read_weights`."""
    shape = getattr(column, "shape", None)
    if sample_weight is None or shape == () or not hasattr(column, "__len__"):
        return None
    weight = read_weights(sample_weight, shape[0] if shape else len(column))
    return None if weight.all() else np.flatnonzero(weight)


def column_of_rows(column: Any, rows: np.ndarray, n: int) -> Any:
    """The rows numbered `rows` of a column or a table of n rows, or of a dict of such; None stays.

    Raises: DataError where it has not n rows."""
    if isinstance(column, Mapping):
        return {name: column_of_rows(values, rows, n) for name, values in column.items()}
    if column is None:
        return None
    found = column.shape[0] if hasattr(column, "shape") else len(column)
    if found != n:
        raise DataError(f"sample_weight has {n} rows, and another column {found}.")
    return column.take(rows) if isinstance(column, Groups) else take_rows(column, rows)


def counted(sample_weight: Any, first: Any, *others: Any) -> tuple[Any, ...]:
    """`sample_weight` (n,) and columns (n, ...), without the rows whose weight is 0."""
    rows, columns = weighted_rows(sample_weight, first), (sample_weight, first, *others)
    if rows is None:
        return columns
    n = plain_column(sample_weight).size
    return tuple(column_of_rows(column, rows, n) for column in columns)
