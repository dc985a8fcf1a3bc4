"""Rows of the batches that most loops have, copied as they come and read together: one score per row on the CPU, one attribute."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairbound.base.errors import DataError
from fairbound.optim.batch import Joined, Keys

FIRST = 256  # rows that there is room for at first


def usual(
    scores: Any, targets: Any, group: Any, device: torch.device, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor] | None:
    """(B,) scores, labels of their dtype and codes, where all three are tensors on the CPU of the usual dtypes and shapes; else None.
    Labels and codes are not looked at. device, dtype: of the tables of weights."""
    if not type(scores) is type(targets) is type(group) is Tensor or scores.dtype is not dtype or device.type != "cpu":
        return None
    s = scores.squeeze(1) if scores.dim() == 2 and scores.shape[1] == 1 else scores
    codes = group.squeeze(1) if group.dim() == 2 and group.shape[1] == 1 else group
    if s.dim() != 1 or targets.shape != s.shape or codes.shape != s.shape or codes.dtype is not torch.int64:
        return None
    if not (s.is_cpu and targets.is_cpu and codes.is_cpu) or targets.requires_grad or torch.compiler.is_compiling():
        return None
    if targets.dtype is dtype:
        return s, targets, codes
    return (s, targets.to(dtype), codes) if targets.dtype is torch.int64 else None


class Recent:
    """Rows since the last update. scores, labels (of dtype), codes: (room,) each, of which the first `rows` count. steps, sizes: of
    each batch the optimiser step that it came in, and its rows."""

    def __init__(self, dtype: torch.dtype):
        like = torch.empty(FIRST, dtype=dtype).numpy()
        self.scores, self.labels, self.codes = like, like.copy(), np.empty(FIRST, np.int64)
        self.clear()

    def clear(self) -> None:
        self.rows = 0
        self.steps: list[int] = []
        self.sizes: list[int] = []

    def add(self, s: Tensor, y: Tensor, codes: Tensor, step: int) -> None:
        """A batch of step `step`, as `usual` gives it; its numbers are copied."""
        size, begin = y.shape[0], self.rows
        end = begin + size
        if end > len(self.codes):
            for name in ("scores", "labels", "codes"):
                setattr(self, name, np.resize(getattr(self, name), 2 * end))
        self.scores[begin:end] = s.detach().numpy()
        self.labels[begin:end] = y.numpy()
        self.codes[begin:end] = codes.numpy()
        self.rows = end
        self.steps.append(step)
        self.sizes.append(size)

    def joined(self, keys: Keys) -> Joined:
        """All rows. Raises: DataError where a label or a code cannot be; the rows are dropped then."""
        scores, labels, codes = self.scores[: self.rows], self.labels[: self.rows], self.codes[: self.rows]
        try:
            found = keys.of(labels, codes)
        except DataError:
            self._refuse(keys, labels, codes)
            raise
        first, sizes = self.steps[0], tuple(self.sizes)
        shape = tuple([k - first for k in self.steps]), sizes, sizes
        return torch.from_numpy(scores), torch.from_numpy(labels), found, None, shape

    def _refuse(self, keys: Keys, labels: np.ndarray, codes: np.ndarray) -> None:
        """Raises: DataError naming the batch too."""
        sizes, ends = self.sizes, np.cumsum(self.sizes)
        self.clear()
        for number, (size, end) in enumerate(zip(sizes, ends, strict=True), start=1):
            try:
                keys.of(labels[end - size : end], codes[end - size : end])
            except DataError as error:
                raise DataError(
                    f"{error} It is batch {number} of the {len(sizes)} since the multipliers last moved; none of these has entered."
                ) from None
