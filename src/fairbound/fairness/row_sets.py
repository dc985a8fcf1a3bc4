"""Sets of the rows of a batch, given by the cells that they hold, and what each row weighs in them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor


def cells_within(batch: Any, offset: int, cells: int) -> Tensor:
    """(..., B) the cell of each row among `cells` from number `offset` on, -1 for none."""
    own = batch.cells - offset
    return torch.where((own >= 0) & (own < cells), own, -1).amax(-1)


def set_shares(batch: Any, offset: int, sets: np.ndarray) -> tuple[Tensor, Tensor]:
    """W (..., S, B), what each row weighs in the mean over each set, and (..., S) which sets have a row in the batch.

    sets: (S, k) bool, which of the cells from `offset` on each set has. Kept with the batch.
    """
    kept = getattr(batch, "kept", {})
    key = ("set_shares", offset, sets.shape, sets.tobytes())
    if key not in kept:
        cells = cells_within(batch, offset, sets.shape[1])
        inside = constant(np.pad(sets, ((0, 0), (0, 1))), cells.device)  # with a last column for no cell
        share = inside[:, cells].movedim(0, -2) * batch.objective.unsqueeze(-2)
        total = share.sum(-1, keepdim=True)
        tiny = 1e-300 if share.dtype == torch.float64 else 1e-30
        W = torch.where(total > 0, share / total.clamp_min(tiny), 0.0)
        kept[key] = (W, (total > 0).squeeze(-1))
    return kept[key]


def constant(values: np.ndarray, device: torch.device, dtype: torch.dtype | None = None) -> Tensor:
    """An array as a tensor, which is kept, as every batch asks for the same ones; not to be changed in place."""
    return _constant(values.tobytes(), values.shape, values.dtype.str, device, dtype)


@lru_cache(maxsize=256)
def _constant(
    content: bytes, shape: tuple[int, ...], kind: str, device: torch.device, dtype: torch.dtype | None
) -> Tensor:
    return torch.tensor(np.frombuffer(content, dtype=kind).reshape(shape), dtype=dtype, device=device)
