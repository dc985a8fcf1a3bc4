"""Rows of features in CSR form, which linear models and MLPs multiply with; no dense copy of them is made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from fairbound.base.errors import DataError


class SparseRows:
    """B rows of d features, the same for a whole stack of runs, or B of each of R > 1 runs.

    matrices: one CSR matrix (B, d), or R of them; float32 or float64, in the dtype of what they are multiplied with.
    """

    def __init__(self, matrices: Sequence[Any]):
        self.matrices = tuple(matrices)

    @classmethod
    def of(cls, table: Any, dtype: torch.dtype) -> SparseRows:
        """The rows of a SciPy sparse matrix (n, d).

        Raises: DataError for another number of dimensions, another dtype, or values that are NaN or infinite.
        """
        if table.ndim != 2:
            raise DataError(f"sparse features must be a matrix (rows, features), got shape {table.shape}.")
        if dtype not in (torch.float32, torch.float64):
            raise DataError(f"sparse features work in float32 or float64, not in {dtype}. Pass X.toarray() for others.")
        matrix = sparse.csr_matrix(table, dtype=np.float32 if dtype == torch.float32 else np.float64)
        bad = ~np.isfinite(matrix.data)
        if bad.any():
            place = int(bad.argmax())
            row = int(np.searchsorted(matrix.indptr, place, side="right")) - 1
            raise DataError(
                f"feature {int(matrix.indices[place])} is NaN or infinite in row {row} (and perhaps in others). Impute or "
                "drop such values before training."
            )
        return cls((matrix,))

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def shape(self) -> tuple[int, ...]:
        """(B, d) or (R, B, d)."""
        own = self.matrices[0].shape
        return own if len(self.matrices) == 1 else (len(self.matrices), *own)

    @property
    def width(self) -> int:
        """Numbers that one row takes in memory, on average."""
        return 1 + sum(2 * m.nnz for m in self.matrices) // max(1, sum(m.shape[0] for m in self.matrices))

    def scores(self, weight: Tensor) -> Tensor:
        """(..., B, C) products of every row with the C vectors of weight (..., C, d)."""
        if len(self.matrices) > 1:
            return torch.stack([_scores(A, w) for A, w in zip(self.matrices, weight, strict=True)])
        if weight.dim() == 2:
            return _scores(self.matrices[0], weight)
        return _scores(self.matrices[0], weight.flatten(0, 1)).unflatten(1, weight.shape[:2]).transpose(0, 1)

    def vjp(self, slopes: Tensor) -> Tensor:
        """(..., C, d): the sum over rows of slopes (..., B, C) times the row."""
        if len(self.matrices) > 1:
            return torch.stack([_vjp(A, s) for A, s in zip(self.matrices, slopes, strict=True)])
        if slopes.dim() == 2:
            return _vjp(self.matrices[0], slopes)
        runs, _, vectors = slopes.shape
        return _vjp(self.matrices[0], slopes.transpose(0, 1).flatten(1)).unflatten(0, (runs, vectors))

    def __getitem__(self, rows: slice | np.ndarray) -> SparseRows:
        """As of a tensor: consecutive rows, which share the values, or those numbered (k,), copied."""
        if isinstance(rows, slice):
            first, last, _ = rows.indices(len(self))
            return SparseRows([window(self.matrices[0], first, last)])
        return SparseRows([self.matrices[0][rows]])

    def split(self, size: int) -> list[SparseRows]:
        """Consecutive parts of at most `size` rows, which share the values."""
        return [self[at : at + size] for at in range(0, len(self), size)]

    def double(self) -> SparseRows:
        """The same rows in float64."""
        return SparseRows([matrix.astype(np.float64) for matrix in self.matrices])

    def take(self, index: Tensor) -> list[SparseRows]:
        """The rows of T batches: index (T, B), or (T, R, B) for R runs."""
        gathered = self[index.flatten().numpy()]
        parts = [part.matrices[0] for part in gathered.split(index.shape[-1])]
        runs = index.shape[1] if index.dim() == 3 else 1
        return [SparseRows(parts[at : at + runs]) for at in range(0, len(parts), runs)]


def window(matrix: Any, first: int, last: int) -> Any:
    """Rows first .. last - 1 of a CSR matrix, sharing its values and columns."""
    pointer = matrix.indptr[first : last + 1]
    at, end = int(pointer[0]), int(pointer[-1])
    return sparse.csr_matrix(
        (matrix.data[at:end], matrix.indices[at:end], pointer - pointer[0]),
        shape=(last - first, matrix.shape[1]),
        copy=False,
    )


def _scores(A: Any, weight: Tensor) -> Tensor:
    """(B, C) of CSR rows A (B, d) and weight (C, d)."""
    vectors = weight.numpy()
    if _one_by_one(A, len(vectors)):
        return torch.from_numpy(np.stack([A @ vector for vector in vectors], axis=-1))
    return torch.from_numpy(A @ vectors.T)


def _vjp(A: Any, slopes: Tensor) -> Tensor:
    """(C, d) of CSR rows A (B, d) and slopes (B, C)."""
    columns, transposed = slopes.numpy(), A.T
    if _one_by_one(A, columns.shape[1]):
        return torch.from_numpy(np.stack([transposed @ column for column in np.ascontiguousarray(columns.T)]))
    return torch.from_numpy(np.ascontiguousarray((transposed @ columns).T))


def _one_by_one(A: Any, vectors: int) -> bool:
    """Whether a product for each vector is faster than one for all: where rearranging C x d numbers costs more than it
    saves on the stored entries."""
    return vectors == 1 or A.nnz < 2 * A.shape[1]
