"""Rows of several blocks as one table, dense or CSR. CSR rows are never made dense."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from fairbound.base.errors import DataError
from fairbound.rows.sparse import SparseRows


def stacked(
    blocks: Sequence[Any], names: Sequence[str], dtype: torch.dtype
) -> tuple[Tensor | SparseRows, tuple[int, ...]]:
    """All rows (n, d), block after block, and the number of rows of each.

    blocks: (n_b, d) arrays, tensors or SciPy sparse matrices, all dense or all sparse.
    Raises: DataError for an empty block, other shapes, widths that differ, or values that are NaN or infinite.
    """
    kinds = {sparse.issparse(block) for block in blocks}
    if len(kinds) != 1:
        raise DataError(
            "there are no rows."
            if not kinds
            else "some blocks of rows are dense and some sparse; give all as CSR or all as arrays."
        )
    is_sparse = kinds.pop()
    made = [_checked(block, f"block {name!r}", is_sparse, dtype) for block, name in zip(blocks, names, strict=True)]
    widths = {block.shape[1] for block in made}
    if len(widths) > 1:
        raise DataError(f"the blocks of rows have different numbers of features: {sorted(widths)}.")
    sizes = tuple(block.shape[0] for block in made)
    if is_sparse:
        return SparseRows([made[0] if len(made) == 1 else sparse.vstack(made, format="csr")]), sizes
    return torch.cat(made), sizes


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
