"""Batches of rows from several blocks, with the weight that each row has in sums of block means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fairbound.base.errors import OptionError
from fairbound.fairness.pointwise import Pointwise
from fairbound.instances.row_matrix import RowMatrix, Rows
from fairbound.rows.sampling import KINDS, Strata, block_length, chunk_length, draw_rows
from fairbound.rows.sampling import Rows as DrawnRows

ROWS_AT_ONCE = 1 << 16


class Part(NamedTuple):
    """A loss and what a row's loss adds to F_0 .. F_m: (..., 1 + m, B), or (1 + m, 1) where it is the same for all rows.

    functions: those it adds to.
    """

    loss: Pointwise
    share: Tensor
    functions: frozenset[int]


class Piece(NamedTuple):
    """The rows of a mini-batch, or some rows of one block of a full batch. labels: (B,) or (R, B)."""

    rows: Rows
    labels: Tensor
    parts: Sequence[Part]


class Batch(NamedTuple):
    """size: rows of each run."""

    pieces: Sequence[Piece]
    size: int
    key: tuple[str, int]


class BlockBatches:
    """Rows in blocks, and batches of them whose sums are unbiased.

    matrix: the rows, block after block; labels: (rows,); losses: the distinct losses, each with the coefficients
    (1 + m, K) of its block means in F_0 .. F_m.

    A *balanced* batch takes equally many rows of every block, as `sampling.balanced_layout` does: a smaller block takes
    part whole. *uniform* and *shuffled* batches take rows of all blocks alike, and a block they lack contributes 0.
    """

    def __init__(
        self, matrix: RowMatrix, labels: Tensor, losses: Sequence[tuple[Pointwise, Tensor]], dtype: torch.dtype
    ):
        self.matrix, self.labels, self.losses, self.dtype = matrix, labels, losses, dtype
        self.rows = matrix.rows
        sizes = np.array(matrix.sizes)
        self.strata = Strata(np.arange(self.rows), np.concatenate([[0], np.cumsum(sizes)[:-1]]), sizes)
        self._sizes = torch.as_tensor(sizes, dtype=torch.float64)
        self._block_of = torch.as_tensor(np.repeat(np.arange(len(sizes)), sizes))
        self._drawn: dict[tuple, tuple[int, DrawnRows]] = {}
        self._chunks: dict[tuple, tuple[int, list[Batch]]] = {}
        self._layouts: dict[int, list[Part]] = {}
        self._full: Batch | None = None

    def sample(self, seeds: Sequence[int], name: str, k: int, size: int, kind: str) -> Batch:
        """The k-th batch of the stream `name`. Raises: OptionError for an unknown kind."""
        if kind not in KINDS:
            raise OptionError(f"unknown sampling {kind!r}; known: {', '.join(KINDS)}.")
        if kind == "full" or (kind == "balanced" and size >= self.rows):
            return self.full()
        stream = (tuple(seeds), name, size, kind)
        length = chunk_length(size, len(seeds), self.matrix.width, self.dtype.itemsize)
        chunk, at = divmod(k, length)
        made = self._chunks.get(stream)
        if made is None or made[0] != chunk:
            made = self._chunks[stream] = (chunk, self._make(stream, chunk, length))
        return made[1][at]

    def _make(self, stream: tuple, chunk: int, length: int) -> list[Batch]:
        seeds, name, size, kind = stream
        block, first = divmod(chunk * length, block_length(size))
        if self._drawn.get(stream, (-1,))[0] != block:
            self._drawn[stream] = (block, draw_rows(self.strata, seeds, name, block, size, kind))
        drawn = self._drawn[stream][1].part(first, length)
        single = len(seeds) == 1
        index = drawn.index.squeeze(1) if single else drawn.index
        labels = self.labels[index]
        out = []
        for t, (rows, places) in enumerate(zip(self.matrix.take(drawn.index), index.unbind(0), strict=True)):
            if drawn.fixed:
                parts = self._fixed_parts(places, drawn.scale, size)
            else:
                scale = None if drawn.scale is None else drawn.scale[t, 0] if single else drawn.scale[t]
                parts = self._parts(places, scale)
            out.append(Batch((Piece(rows, labels[t], parts),), places.shape[-1], (name, chunk * length + t)))
        return out

    def _fixed_parts(self, places: Tensor, scale: Tensor | None, size: int) -> list[Part]:
        """The parts of a balanced batch of `size` rows, the same for every run and batch."""
        if size not in self._layouts:
            self._layouts[size] = self._parts(places if places.dim() == 1 else places[0], scale)
        return self._layouts[size]

    def _parts(self, places: Tensor, scale: Tensor | None) -> list[Part]:
        """The parts of rows at places (..., B), of which each stands for scale (..., B) rows of its block; where None,
        for as many as any other of the batch."""
        block = self._block_of[places]
        weight = (self.rows / places.shape[-1] if scale is None else scale) / self._sizes[block]
        means = torch.zeros(*places.shape[:-1], len(self._sizes), places.shape[-1], dtype=self.dtype)
        means.scatter_(-2, block.unsqueeze(-2), weight.to(self.dtype).unsqueeze(-2))
        return [Part(loss, A @ means, _functions(A)) for loss, A in self.losses]

    def full(self) -> Batch:
        """All rows as one batch, in pieces of one block each."""
        if self._full is None:
            pieces = []
            for b, (first, rows) in enumerate(zip(self.strata.starts, self.strata.sizes, strict=True)):
                columns = [(loss, A[:, b : b + 1]) for loss, A in self.losses if bool(A[:, b].any())]
                parts = [Part(loss, column / int(rows), _functions(column)) for loss, column in columns]
                for at in range(int(first), int(first + rows), ROWS_AT_ONCE):
                    end = min(at + ROWS_AT_ONCE, int(first + rows))
                    pieces.append(Piece(self.matrix.part(at, end), self.labels[at:end], parts))
            self._full = Batch(pieces, self.rows, ("full", 0))
        return self._full


def _functions(A: Tensor) -> frozenset[int]:
    """The functions that have a coefficient in A (1 + m, K)."""
    return frozenset(int(i) for i in A.any(1).nonzero())
