"""Tables whose columns lie one after another in memory.

Products of such a table with a vector, either way, take about half the time. To read a few of its rows takes several
times as long.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor


def by_column(rows: Any) -> bool:
    """Whether it is a tensor (n, d) whose columns lie one after another in memory, or a part of its rows."""
    return isinstance(rows, Tensor) and rows.dim() == 2 and rows.shape[1] > 1 and rows.stride(0) == 1 < rows.stride(1)


def rows_at(rows: Tensor, places: Tensor) -> Tensor:
    """The rows (n, ...) at `places` (k,), in memory as all of them are."""
    return rows.t().index_select(1, places).t() if by_column(rows) else rows.index_select(0, places)


def column_after_column(rows: Tensor) -> Tensor:
    """`rows` (n, d), copied where it lies row by row."""
    return rows if by_column(rows) else rows.t().contiguous().t()
