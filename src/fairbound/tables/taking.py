"""Rows of a table of any kind that a `fit` takes."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import indexable

from fairbound.base.errors import DataError
from fairbound.rows.groups import check_lengths, no_groups
from fairbound.rows.reading import plain_column, take_rows
from fairbound.rows.weighted import column_of_rows, weighted_rows
from fairbound.tables.encoded import Encoded
from fairbound.tables.naming import named_features
from fairbound.tables.reading.chunks import Chunks


def taken(table: Any, rows: np.ndarray) -> Any:
    """The rows numbered `rows` of anything that FairClassifier takes as X."""
    if isinstance(table, Chunks):
        return table.take(rows)
    if isinstance(table, Encoded):
        return Encoded(table.features[rows], table.report, table.encoder)
    return take_rows(table, rows)


def in_memory(X: Any, estimator: str) -> Any:
    """X, a sparse table by rows, for a model of another library. estimator: the name of the one that fits it.
    Raises: DataError for Chunks and Encoded, which such models do not take."""
    if isinstance(X, Chunks):
        raise DataError(
            f"{estimator} needs a table in memory, and X is read in parts (Chunks). Pass the table in one piece, or take FairClassifier, "
            "which reads tables in parts."
        )
    if isinstance(X, Encoded):
        raise DataError(
            f"{estimator} needs a table, and X is Encoded. Pass the table itself, or its features as X.features."
        )
    return indexable(X)[0]


def rows_that_count(X: Any, y: Any, sensitive_features: Any, sample_weight: Any) -> tuple[Any, Any, Any, Any]:
    """What a `fit` was given, without the rows of weight 0, and with the columns that `sensitive_features` names.

    Raises: DataError as `read_weights` and `named_features`, and where a column has not as many rows as there are weights."""
    named = named_features(X, sensitive_features)
    rows = None if y is None else weighted_rows(sample_weight, y)
    if rows is None:
        return X, y, named, sample_weight
    n = plain_column(sample_weight).size
    y, named, weight = (column_of_rows(column, rows, n) for column in (y, named, sample_weight))
    check_lengths(X, n, no_groups(n))
    return taken(X, rows), y, named, weight
