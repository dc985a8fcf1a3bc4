"""`FastQueue`, a faster `Queue` for most batches (one score per row on the CPU, one attribute): rows are copied and read
later."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fairbound.base.errors import DataError
from fairbound.optim.batch import Joined, Keys

Rows = tuple[Tensor, Tensor, Tensor]
"""(B,) scores without their graph and labels, both of the same dtype, and codes."""


def usual(scores: Any, targets: Any, group: Any, dtype: torch.dtype | None) -> tuple[Tensor, Rows] | None:
    """(B,) scores and a copy of the batch, where all three are tensors on the CPU of the usual dtypes and shapes; else
    None. Labels and codes are not looked at. dtype: of scores."""
    if not type(scores) is type(targets) is type(group) is Tensor or scores.dtype is not dtype:
        return None
    shape = targets.shape
    if scores.shape != shape and scores.shape == (*shape, 1):
        scores = scores.squeeze(1)
    if group.shape != shape and group.shape == (*shape, 1):
        group = group.squeeze(1)
    if len(shape) != 1 or not scores.shape == group.shape == shape or group.dtype is not torch.int64:
        return None
    if (
        not (scores.is_cpu and targets.is_cpu and group.is_cpu)
        or targets.requires_grad
        or torch.compiler.is_compiling()
    ):
        return None
    if targets.dtype is dtype:
        return scores, (scores.detach().clone(), targets.clone(), group.clone())
    return (
        (scores, (scores.detach().clone(), targets.to(dtype), group.clone())) if targets.dtype is torch.int64 else None
    )


class FastQueue:
    """Usual batches since the last update, and the optimiser step that each came in. dtype: of scores,
    None where no batch is usual."""

    def __init__(self, dtype: torch.dtype | None):
        self.dtype = dtype
        self.clear()

    def clear(self) -> None:
        self.rows = 0
        self.sizes: list[int] = []
        self.batches: list[Rows] = []
        self.steps: list[int] = []

    def add(self, batch: Rows, step: int) -> None:
        """A batch of step `step`, as `usual` gives it."""
        size = batch[0].shape[0]
        self.batches.append(batch)
        self.steps.append(step)
        self.sizes.append(size)
        self.rows += size

    def joined(self, keys: Keys) -> Joined:
        """All rows. Raises: DataError where a label or a code cannot be; the rows are dropped then."""
        scores, labels, codes = map(torch.cat, zip(*self.batches, strict=True))
        try:
            cells = keys.cells_by_code(labels.numpy(), codes.numpy())
        except DataError:
            self._refuse(keys)
            raise
        first, sizes = self.steps[0], tuple(self.sizes)
        return scores, labels, cells, None, (tuple([k - first for k in self.steps]), sizes, sizes)

    def _refuse(self, keys: Keys) -> None:
        """Raises: DataError naming the batch too."""
        batches = self.batches
        self.clear()
        for number, (_, labels, codes) in enumerate(batches, start=1):
            try:
                keys.cells_by_code(labels.numpy(), codes.numpy())
            except DataError as error:
                raise DataError(
                    f"{error} It is batch {number} of the {len(batches)} since the multipliers last moved; none of these has entered."
                ) from None
