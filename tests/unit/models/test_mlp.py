"""The gradient of a linear model of many rows, of which only some have slopes."""

from __future__ import annotations

import pytest
import torch
from scipy.sparse import csr_matrix

from fairbound.models.mlp import MANY_ROWS, MLP
from fairbound.rows.sparse import SparseRows


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("first", "last"), [(100, 3000), (1, MANY_ROWS + 5), (0, 7), (9, 9)])
def test_rows_without_a_slope_add_nothing_to_a_gradient(first, last, sparse):
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(MANY_ROWS + 5, 4, generator=generator, dtype=torch.float64)
    slopes = torch.zeros(len(X), dtype=X.dtype)
    slopes[first:last] = torch.randn(last - first, generator=generator, dtype=X.dtype)
    model = MLP(4)
    rows = SparseRows.of(csr_matrix(X.numpy()), X.dtype) if sparse else X
    gradient = model.forward(torch.zeros(5, dtype=X.dtype), rows)[1].vjp(slopes)
    assert torch.allclose(gradient, torch.cat([X.T @ slopes, slopes.sum().reshape(1)]))
