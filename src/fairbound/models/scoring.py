"""The scores of rows as a problem needs them: of a batch with its own dropout, or of all rows without any."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairbound.base.errors import DataError
from fairbound.models.model import Model
from fairbound.rows.sparse import SparseRows

ROWS_AT_ONCE = 16384
MODULE_ROWS_AT_ONCE = 2048

_QUIET = contextlib.nullcontext()


def noise(model: Model, seed: int) -> Any:
    """A context in which a module with dropout drops the units of `seed`; the same ones each time it is entered."""
    return _Seeded(seed) if getattr(model, "random", False) else _QUIET


class _Seeded:
    """Torch's global generator seeded for one batch and put back."""

    def __init__(self, seed: int):
        self.seed = seed

    def __enter__(self) -> None:
        self.before = torch.random.get_rng_state()
        torch.manual_seed(self.seed)

    def __exit__(self, *args: object) -> None:
        torch.random.set_rng_state(self.before)


def scores_of_rows(model: Model, x: Tensor, features: Tensor | SparseRows) -> Tensor:
    """(..., rows) scores, with several outputs (..., rows, c), a slice at a time; a module is run in evaluation mode
    and left in the mode that it was in."""
    module = getattr(model, "module", None)
    modes = [] if module is None else [(part, part.training) for part in module.modules() if part.training]
    if modes:
        module.eval()  # type: ignore[union-attr]
    try:
        size = ROWS_AT_ONCE if module is None else MODULE_ROWS_AT_ONCE
        return torch.cat([model.scores(x, part) for part in features.split(size)], dim=x.dim() - 1)
    finally:
        for part, training in modes:
            part.training = training


def predicted_scores(model: Model, x: Tensor, features: Tensor | SparseRows) -> Tensor:
    """`scores_of_rows` in float64 arithmetic for a built-in model, a module in its own dtype.

    A matrix product rounds a row differently in another batch; in float64 this is below 1e-12 of the score's terms.
    """
    if getattr(model, "module", None) is not None:
        return scores_of_rows(model, x, features).double()
    wide = x.double()
    return torch.cat([scores_of_rows(model, wide, part.double()) for part in features.split(ROWS_AT_ONCE)], x.dim() - 1)


def refuse_overflow(scores: np.ndarray) -> None:
    """Raises: DataError where a score (n,) or (n, k) is NaN, which no decision can be made of."""
    bad = np.isnan(scores)
    if bad.any():
        row = int(np.argwhere(bad)[0][0])
        raise DataError(
            f"the score of {int(bad.any(axis=-1).sum()) if bad.ndim > 1 else int(bad.sum())} of {len(scores)} rows is NaN, the first "
            f"in row {row} (counting from 0): a value there is too large for a float. Correct it or leave it empty."
        )
