"""Sparse tables as features: every column divided by its largest absolute value, so that zeros stay zeros."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from fairbound.base.errors import DataError
from fairbound.tables.columns import as_number, read_columns, read_sparse
from fairbound.tables.options import TableOptions


def learn_scale(table: Any, options: TableOptions) -> np.ndarray:
    """(d,) the divisor of every column of a sparse table (n, d). Raises: DataError for values that cannot be used."""
    matrix = read_sparse(table)
    if options.categorical or options.numeric:
        raise DataError("a sparse table holds numbers only and has no names; leave categorical= and numeric= empty.")
    if options.knots or options.jumps or options.pairs:
        raise DataError(
            "a sparse table takes no knots, jumps or pairs, which would fill its zeros; leave them out, or pass table.toarray()."
        )
    scale = np.ones(matrix.shape[1])
    if options.sparse_scale == "max_abs":
        largest = np.asarray(abs(matrix).max(axis=0).todense()).ravel()
        scale[largest > 0] = largest[largest > 0]
    return scale


def scaled(table: Any, scale: np.ndarray) -> sp.csr_array:
    """The features (n, d) of a sparse table, or of a dense one, divided by scale (d,). Raises: DataError."""
    if not sp.issparse(table):
        columns = [as_number(column).values for column in read_columns(table).columns]
        table = sp.csr_array(np.stack(columns, axis=1))
    matrix = read_sparse(table)
    if matrix.shape[1] != len(scale):
        raise DataError(
            f"X has {matrix.shape[1]} features, but TableEncoder is expecting {len(scale)} features as input."
        )
    with np.errstate(over="ignore"):
        matrix.data = matrix.data / scale[matrix.indices]
    if not np.isfinite(matrix.data).all():
        raise DataError("the sparse table has values too far from training for a float. Correct them.")
    return matrix
