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
        inside = _columns(sets.tobytes(), sets.shape, cells.device)
        share = inside[:, cells].movedim(0, -2) * batch.objective.unsqueeze(-2)
        total = share.sum(-1, keepdim=True)
        tiny = 1e-300 if share.dtype == torch.float64 else 1e-30
        W = torch.where(total > 0, share / total.clamp_min(tiny), 0.0)
        kept[key] = (W, (total > 0).squeeze(-1))
    return kept[key]


@lru_cache(maxsize=64)
def _columns(sets: bytes, shape: tuple[int, int], device: torch.device) -> Tensor:
    """(S, k + 1) bool, the sets with a last column for no cell."""
    inside = np.frombuffer(sets, dtype=bool).reshape(shape)
    return torch.as_tensor(np.pad(inside, ((0, 0), (0, 1))), device=device)
