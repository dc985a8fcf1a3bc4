"""Batches of rows, never with a silently empty group.

Rows are sorted by stratum once (a stratum: rows in the same cells of every constraint). A *balanced* batch takes the
same number of rows from every stratum and weights them back, so objective and cell means are unbiased and no group can
be absent; *uniform* and *shuffled* batches may lack a group, which `Batch.seen` then says. Rows are drawn a block of
batches at a time, and batch k of a stream is a function of (seed, name, k, size, kind) alone: not of how many runs are
stacked, nor of the width or dtype of the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fairbound.base.errors import OptionError
from fairbound.base.seeds import seed_for
from fairbound.rows.by_column import by_column
from fairbound.rows.strata import Strata

KINDS = ("balanced", "uniform", "shuffled", "full")
CHUNK_BYTES = 4 << 20
BLOCK_BATCHES = 64
BLOCK_ROWS = 1 << 14


def reorder(rows: Tensor, order: np.ndarray) -> None:
    """Put row order[i] of a tensor (n, ...) at place i, for all i at once, in the memory that it has. It is contiguous,
    or lies column by column.

    As many columns are moved at a time as twice CHUNK_BYTES hold, or a thirty-second of the tensor, or two: each time all
    rows are passed over.
    """
    if (order[1:] > order[:-1]).all():
        return
    places = torch.as_tensor(order, device=rows.device)
    if by_column(rows):
        for column in rows.unbind(1):
            column.copy_(column.index_select(0, places))
        return
    flat = rows.view(len(rows), -1)
    at_once = max(2, flat.shape[1] // 32, 2 * CHUNK_BYTES // (len(flat) * flat.element_size()))
    for part in flat.split(at_once, dim=1):
        part.copy_(part.index_select(0, places))


@dataclass(frozen=True)
class Layout:
    """Where the rows of every batch come from. positions: (B,) stratum of each place; scale: (B,) how many rows
    each place counts for; within: (B,) the row of a stratum that takes part whole, -1 where the row is drawn."""

    positions: Tensor
    scale: Tensor
    within: Tensor


def balanced_layout(strata: Strata, size: int) -> Layout | None:
    """Equal places per stratum; None where there are more strata than places.

    A stratum smaller than its share takes part whole, each row once, and leaves the rest of its share to the others;
    what does not divide goes to the largest strata.
    """
    count = len(strata.sizes)
    if size < count:
        return None
    size = min(size, int(strata.sizes.sum()))
    places, open_ = np.zeros(count, dtype=np.int64), np.ones(count, dtype=bool)
    while True:
        share = (size - places[~open_].sum()) // open_.sum()
        whole = open_ & (strata.sizes <= share)
        if not whole.any():
            break
        places[whole], open_ = strata.sizes[whole], open_ & ~whole
        if not open_.any():
            break
    if open_.any():
        places[open_] = share
        rest = size - places.sum()
        places[np.argsort(-strata.sizes, kind="stable")[:rest]] += 1
    positions = np.repeat(np.arange(count), places)
    within = np.concatenate([np.arange(p) for p in places])
    whole = (places == strata.sizes)[positions]
    return Layout(
        torch.as_tensor(positions),
        torch.as_tensor((strata.sizes / places)[positions]),
        torch.as_tensor(np.where(whole, within, -1)),
    )


@dataclass
class Rows:
    """Row numbers (T, R, B) of T consecutive batches of R runs, in sorted order, and how many rows each place
    counts for: scale (B,) where it is the same for every batch, (T, R, B) where not, None for equal weights."""

    index: Tensor
    scale: Tensor | None
    fixed: bool

    def part(self, first: int, length: int) -> Rows:
        """Batches first .. first + length - 1 of these."""
        scale = self.scale if self.scale is None or self.scale.dim() == 1 else self.scale[first : first + length]
        return Rows(self.index[first : first + length], scale, self.fixed)


def block_length(size: int) -> int:
    """Batches whose rows are drawn together, a power of two: it depends on their size alone."""
    return _power_of_two(min(BLOCK_BATCHES, BLOCK_ROWS // size))


def chunk_length(size: int, runs: int, width: int, bytes_per: int) -> int:
    """Batches of a block whose features are gathered at once, a power of two: few enough for cache-sized memory."""
    return min(block_length(size), _power_of_two(CHUNK_BYTES // max(1, runs * size * width * bytes_per)))


def _power_of_two(limit: int) -> int:
    return 1 << (max(1, limit).bit_length() - 1)


def check_kind(kind: str) -> None:
    """Raises: OptionError where there is no sampling called `kind`."""
    if kind not in KINDS:
        raise OptionError(f"unknown sampling {kind!r}; known: {', '.join(KINDS)}.")


def draw_rows(strata: Strata, seeds: Sequence[int], name: str, block: int, size: int, kind: str) -> Rows:
    """The rows of the block-th `block_length(size)` batches of the stream `name`."""
    check_kind(kind)
    n, length = int(strata.sizes.sum()), block_length(size)
    if kind == "shuffled":
        return Rows(torch.stack([_shuffled(n, s, name, block * length, length, size) for s in seeds], 1), None, False)
    uniforms, keys = [], []
    layout = balanced_layout(strata, size) if kind == "balanced" else None
    size = size if layout is None else len(layout.positions)
    for seed in seeds:
        generator = torch.Generator().manual_seed(seed_for("batch", name, block, kind, size, root=seed))
        uniforms.append(torch.rand(length, size, generator=generator, dtype=torch.float64))
        if kind == "balanced" and layout is None:
            keys.append(torch.rand(length, len(strata.sizes), generator=generator))
    u = torch.stack(uniforms, 1)
    if kind == "uniform":
        return Rows((u * n).long().clamp_max_(n - 1), None, False)
    starts, sizes = torch.as_tensor(strata.starts), torch.as_tensor(strata.sizes)
    if layout is not None:
        at, fixed, scale = layout.positions, True, layout.scale
    else:
        at = torch.stack(keys, 1).argsort(-1)[..., :size].sort(-1).values
        fixed, scale = False, sizes[at].double() * (len(strata.sizes) / size)
    inside = torch.minimum((u * sizes[at]).long(), sizes[at] - 1)
    if layout is not None:
        inside = torch.where(layout.within >= 0, layout.within, inside)
    return Rows(starts[at] + inside, scale, fixed)


def _shuffled(n: int, seed: int, name: str, first: int, length: int, size: int) -> Tensor:
    """Epochs without replacement: n // size batches of a fresh permutation each, the remainder left out."""
    size = min(size, n)
    per_epoch = n // size
    batches, epoch, order = [], -1, torch.empty(0)
    for k in range(first, first + length):
        if k // per_epoch != epoch:
            epoch = k // per_epoch
            generator = torch.Generator().manual_seed(seed_for("epoch", name, epoch, root=seed))
            order = torch.randperm(n, generator=generator)
        at = (k % per_epoch) * size
        batches.append(order[at : at + size])
    return torch.stack(batches)
