"""Rows of features, dense or CSR, and the two products that linear models need. CSR rows are never made dense."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from fairbound.base.errors import DataError
from fairbound.rows.sparse import SparseRows, window


class Rows(Protocol):
    """B rows of d features, the same for a whole stack of runs or B of each run."""

    def scores(self, W: Tensor) -> Tensor:
        """(..., B, C) products of every row with the class vectors W (..., C, d)."""
        ...

    def pull(self, slopes: Tensor) -> Tensor:
        """(..., C, d): sum over rows of slopes (..., B, C) times the row."""
        ...


class DenseRows:
    """matrix: (B, d), or (R, B, d) with rows for each of R runs."""

    def __init__(self, matrix: Tensor):
        self.matrix = matrix

    def scores(self, W: Tensor) -> Tensor:
        if self.matrix.dim() == 3:
            return self.matrix @ W.transpose(-1, -2)
        if W.dim() == 2:
            return self.matrix @ W.T
        return (self.matrix @ W.flatten(0, 1).T).view(-1, *W.shape[:2]).transpose(0, 1)

    def pull(self, slopes: Tensor) -> Tensor:
        if self.matrix.dim() == 3 or slopes.dim() == 2:
            return slopes.transpose(-1, -2) @ self.matrix
        runs, _, classes = slopes.shape
        return (slopes.transpose(0, 1).flatten(1).T @ self.matrix).view(runs, classes, -1)


class RowMatrix:
    """All rows of a problem, block after block.

    blocks: (n_b, d) arrays, tensors or SciPy sparse matrices, all dense or all sparse.
    Raises: DataError for an empty block, other shapes, widths that differ, or values that are NaN or infinite.
    """

    def __init__(self, blocks: Sequence[Any], names: Sequence[str], dtype: torch.dtype):
        kinds = {sparse.issparse(block) for block in blocks}
        if len(kinds) != 1:
            raise DataError(
                "there are no rows."
                if not kinds
                else "some blocks of rows are dense and some sparse; give all as CSR or all as arrays."
            )
        self.sparse = kinds.pop()
        made = [
            _checked(block, f"block {name!r}", self.sparse, dtype) for block, name in zip(blocks, names, strict=True)
        ]
        widths = {block.shape[1] for block in made}
        if len(widths) > 1:
            raise DataError(f"the blocks of rows have different numbers of features: {sorted(widths)}.")
        self.sizes = tuple(block.shape[0] for block in made)
        self.features = made[0].shape[1]
        self.rows = sum(self.sizes)
        if len(made) == 1:
            self.matrix = made[0]
        else:
            self.matrix = sparse.vstack(made, format="csr") if self.sparse else torch.cat(made)
        width = (2 * self.matrix.nnz) // self.rows + 1 if self.sparse else self.features
        self.width = width
        """Numbers that one row takes in memory, on average."""

    def part(self, first: int, last: int) -> Rows:
        """Rows first .. last - 1, without copying them."""
        if not self.sparse:
            return DenseRows(self.matrix[first:last])
        return SparseRows([window(self.matrix, first, last)])

    def take(self, index: Tensor) -> list[Rows]:
        """The rows of T batches of R runs: index (T, R, B) -> T of Rows."""
        batches, runs, size = index.shape
        if not self.sparse:
            flat = self.matrix.index_select(0, index.flatten())
            shape = (batches, size, -1) if runs == 1 else (batches, runs, size, -1)
            return [DenseRows(rows) for rows in flat.view(shape).unbind(0)]
        gathered = self.matrix[index.flatten().numpy()]
        windows = [window(gathered, at, at + size) for at in range(0, gathered.shape[0], size)]
        return [SparseRows(windows[t : t + runs]) for t in range(0, len(windows), runs)]

    def norms(self) -> np.ndarray:
        """(rows,) Euclidean norms, float64."""
        if self.sparse:
            squares = self.matrix.copy()
            squares.data = np.square(squares.data, dtype=np.float64)
            return np.sqrt(np.asarray(squares.sum(axis=1)).ravel())
        return self.matrix.double().norm(dim=1).numpy()


def as_rows(X: Any) -> Any:
    """X as rows that can be picked by number: a CSR matrix if it is sparse, else an array or tensor."""
    if sparse.issparse(X):
        return sparse.csr_matrix(X)
    return X if isinstance(X, Tensor) else np.asarray(X)


def _checked(block: Any, where: str, is_sparse: bool, dtype: torch.dtype) -> Any:
    made = as_rows(block)
    if made.ndim != 2:
        raise DataError(f"{where} must be a matrix (rows, features), got shape {tuple(made.shape)}.")
    if not made.shape[0] or not made.shape[1]:
        raise DataError(f"{where} has shape {tuple(made.shape)}: no rows or no features. Leave it out, or fill it.")
    if is_sparse:
        made = made.astype(np.float32 if dtype == torch.float32 else np.float64, copy=False)
        if not made.has_canonical_format:
            made = made.copy()
            made.sum_duplicates()
        finite = bool(np.isfinite(made.data).all())
    else:
        try:
            made = torch.as_tensor(made).to(dtype)
        except (TypeError, ValueError) as error:
            raise DataError(f"{where} holds something else than numbers: {error}") from error
        finite = bool(torch.isfinite(made).all())
    if not finite:
        raise DataError(f"{where} holds NaN or infinite values. Impute or drop them first.")
    return made
