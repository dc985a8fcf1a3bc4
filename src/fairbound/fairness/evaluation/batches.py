"""The rows of a problem and the batches drawn from them: weights, cells,
and the maps from row values to constraints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fairbound.base.seeds import seed_for
from fairbound.fairness.compiled.contrasts import PlanContrasts, seen_contrasts
from fairbound.fairness.compiled.plan import Plan
from fairbound.fairness.evaluation.row_sums import (
    SLICE,
    IndexedSums,
    RowSums,
    StratifiedSums,
    batch_shares,
    dense_of,
    entry_rows,
    row_sums_of,
)
from fairbound.rows.by_column import rows_at
from fairbound.rows.sampling import Rows, block_length, chunk_length, draw_rows
from fairbound.rows.shards import ALONE, Shards
from fairbound.rows.sparse import SparseRows
from fairbound.rows.strata import Strata

MANY_COLUMNS = 16
"""With so many columns of cells (overlapping groups, say) the map from all rows to constraints may be a matrix."""


@dataclass(eq=False, repr=False, slots=True)
class Batch:
    """B rows ready for the four verbs.

    features (..., B, d), as SparseRows where the table is sparse; targets (..., B); objective (..., B): weight of each
    row's loss in f; row_sums: row values to constraint values; seen (..., m): constraints all of whose cells have
    rows, None for all; cells (..., B, C); seed: for modules with dropout; rows (..., B): places among the problem's
    sorted rows, None for all of them. kept: what statistics have computed of the rows, by their own keys.
    """

    features: Tensor | SparseRows
    targets: Tensor
    objective: Tensor
    row_sums: RowSums | None
    seen: Tensor | None
    _cells: Tensor
    key: tuple[str, int]
    seed: int
    rows: Tensor | None = None
    kept: dict[Any, Any] = field(default_factory=dict)

    @property
    def cells(self) -> Tensor:
        """(..., B, C) int64 the cell of each row in each column of the plan."""
        return self._cells.long()

    @property
    def size(self) -> int:
        """Rows of each run."""
        return self.targets.shape[-1]


class Weighed(NamedTuple):
    """How the rows of a batch count; see `Batch`."""

    objective: Tensor
    row_sums: RowSums | None
    seen: Tensor | None
    cells: Tensor


class Batches:
    """Rows sorted by stratum, and the batches that the verbs of a FairProblem see.

    features (n_rows, ...), targets (n_rows,), cells (n_rows, C) and row_weight (n_rows,) or None are in sorted order.
    own_means: how cell means are formed in a batch of varying make-up (uniform, shuffled, or fewer rows than strata).
    True: over its own rows; a constraint is masked where one of its cells has none. False: each row counts by how many
    it stands for, so that sums are unbiased and a cell without rows adds 0. A table in parts (shards) always takes the
    second way.
    of_cells: what was computed of the rows and their cells, by its own keys; problems with the same columns share it.
    """

    own_means = True

    def __init__(
        self,
        features: Tensor | SparseRows,
        targets: Tensor,
        cells: Tensor,
        row_weight: Tensor | None,
        strata: Strata,
        shards: Shards = ALONE,
    ):
        self.shards = shards
        self.features, self.targets, self._cells, self.row_weight = features, targets, cells, row_weight
        self.strata, self.rows = strata, len(targets)
        self.dtype, self.device = targets.dtype, targets.device
        self.total_rows = int(shards.sum(torch.tensor(self.rows)))
        mass = torch.tensor(float(self.rows), dtype=self.dtype) if row_weight is None else row_weight.sum()
        self._mass = shards.sum(mass.to(self.device))
        self._totals: Tensor | None = None
        self.of_cells: dict[Any, Any] = {}

    @property
    def cells(self) -> Tensor:
        """(n_rows, C) int64 the cell of each row in each column, made of the smaller integers that are held."""
        return self._cells.long()

    @property
    def _of_strata(self) -> Tensor:
        """(S, C) int64 the cells of the rows of each stratum."""
        return self._cells[torch.as_tensor(self.strata.starts, device=self.device)].long()

    def _use(self, plan: Plan) -> None:
        """Use this plan, whose columns are those of `cells`, and forget the batches made for another."""
        self.plan, self.m = plan, plan.m
        self.contrasts = PlanContrasts(plan, self.dtype, device=self.device)
        self.joint = None if plan.joint is None else PlanContrasts(plan.joint, self.dtype, device=self.device)
        self._all_contrasts = self.contrasts if self.joint is None else self.joint
        self._chunks: dict[tuple, tuple[int, list[Batch]]] = {}
        self._blocks: dict[tuple, tuple[int, Rows]] = {}
        self._lengths: dict[tuple, int] = {}
        self._fixed: dict[tuple, Weighed] = {}
        self._full: Batch | None = None

    def sample(self, seeds: Sequence[int], name: str, k: int, size: int, kind: str) -> Batch:
        if kind == "full":
            return self.full()
        stream = (tuple(seeds), name, size, kind)
        length = self._lengths.get(stream)
        if length is None:
            width = self.features.width if isinstance(self.features, SparseRows) else self.features[0].numel()
            bytes_per = self.dtype.itemsize if isinstance(self.features, SparseRows) else self.features.element_size()
            length = self._lengths[stream] = chunk_length(size, len(seeds), width, bytes_per)
        chunk, at = divmod(k, length)
        made = self._chunks.get(stream)
        if made is None or made[0] != chunk:
            made = (chunk, self._make(stream, chunk, length))
            self._chunks[stream] = made
        return made[1][at]

    def _make(self, stream: tuple, chunk: int, length: int) -> list[Batch]:
        seeds, name, size, kind = stream
        block, first = divmod(chunk * length, block_length(size))
        if self._blocks.get(stream, (-1,))[0] != block:
            self._blocks[stream] = (block, draw_rows(self.strata, seeds, name, block, size, kind))
        rows = self._blocks[stream][1].part(first, length)
        index = rows.index if len(seeds) > 1 else rows.index.squeeze(1)
        scale = rows.scale
        if scale is not None and scale.dim() == 3 and len(seeds) == 1:
            scale = scale.squeeze(1)
        index = index.to(self.device)
        features = self._rows_of(index)
        targets = self.targets.index_select(0, index.flatten()).view(index.shape)
        weighed = self._weighed(stream, index, scale, rows.fixed)
        seed = (seed_for("noise", name, root=seeds[0]) + chunk * length) % 2**62
        return [
            Batch(x, y, *counts, (name, chunk * length + t), seed + t, at)
            for t, (x, y, counts, at) in enumerate(
                zip(features, targets.unbind(0), weighed, index.unbind(0), strict=True)
            )
        ]

    def _rows_of(self, index: Tensor) -> Sequence[Tensor | SparseRows]:
        """The features of T batches, index (T, B) or (T, R, B)."""
        if isinstance(self.features, SparseRows):
            return self.features.take(index)
        rows = rows_at(self.features, index.flatten()).contiguous()
        return rows.view(*index.shape, *self.features.shape[1:]).unbind(0)

    def _weighed(self, stream: tuple, index: Tensor, scale: Tensor | None, fixed: bool) -> list[Weighed]:
        """How the rows of each of T batches count, index (T, B) or (T, R, B)."""
        if fixed and self.row_weight is None:
            key = stream[2:]
            if key not in self._fixed:
                cells = self._cells[index[(0,) * (index.dim() - 1)]].long()
                each = scale.to(self.dtype).to(self.device)  # type: ignore[union-attr]
                shares = self._cell_shares(cells, each)
                row_sums = row_sums_of(self._all_contrasts, cells, shares, self.shards) if self.plan.columns else None
                self._fixed[key] = Weighed(each / self.total_rows, row_sums, None, cells)
            return [self._fixed[key]] * len(index)
        cells = self._cells[index].long()
        weights = None if scale is None else scale.to(self.dtype).to(self.device).expand(index.shape)
        if self.row_weight is not None:
            rows = self.row_weight[index]
            weights = rows if weights is None else weights * rows
        stands_for = 1.0 if scale is not None else self.rows / index.shape[-1]
        if weights is None:
            each = torch.full(index.shape, stands_for, dtype=self.dtype, device=self.device)
            objective = torch.full_like(each, stands_for / self.total_rows)
        else:
            each = weights * stands_for
            objective = each / self._mass
        sums: Sequence[Any] = [None] * len(index)
        seen = None
        if self.plan.columns:
            if fixed or not self.own_means or not self.shards.alone:
                shares = self._cell_shares(cells, each)
            else:
                shares, present = batch_shares(cells, weights, self.plan.n_cells, self.dtype)
                seen = seen_contrasts(self.plan, present)
            sums = _unbind(row_sums_of(self._all_contrasts, cells, shares, self.shards))
        masks = [None] * len(index) if seen is None else seen.unbind(0)
        return [Weighed(*of) for of in zip(objective.unbind(0), sums, masks, cells.unbind(0), strict=True)]

    def _cell_shares(self, cells: Tensor, weights: Tensor) -> Tensor:
        """Weight of each row in each of its cells' means over all the data: unbiased for balanced draws."""
        totals = self.totals()
        return torch.where(cells < self.plan.n_cells, weights.unsqueeze(-1) / totals[cells], totals.new_zeros(()))

    def totals(self) -> Tensor:
        """(K + 1,) total weight of every cell over all rows of all parts; the last is of rows in no cell."""
        if self._totals is None:
            rows = torch.as_tensor(self.strata.sizes, device=self.device)
            sizes = rows.to(self.dtype)
            if self.row_weight is not None:
                sizes = torch.zeros_like(sizes).index_add_(0, torch.repeat_interleave(rows), self.row_weight)
            cells = self._of_strata
            totals = sizes.new_zeros(self.plan.n_cells + 1)
            totals.index_add_(0, cells.flatten(), sizes.unsqueeze(1).expand(cells.shape).flatten())
            self._totals = self.shards.sum(totals)
        return self._totals

    def weight_of_rows(self) -> Tensor:
        """(n_rows,) the weight of every row, 1 where none were given."""
        return torch.ones_like(self.targets) if self.row_weight is None else self.row_weight

    def weight_of_classes(self, classes: int) -> Tensor:
        """(classes,) float64 total weight of the rows of each class in all parts."""
        total = torch.zeros(classes, dtype=torch.float64, device=self.device)
        for rows in range(0, self.rows, SLICE):
            y = self.targets[rows : rows + SLICE].long()
            w = torch.ones_like(y) if self.row_weight is None else self.row_weight[rows : rows + SLICE]
            total.index_add_(0, y, w.double())
        return self.shards.sum(total)

    def counts_of_cells(self) -> np.ndarray:
        """(K,) rows of every cell in all parts, whatever their weight."""
        cells = self._of_strata.cpu().numpy()
        counts = np.bincount(cells.ravel(), np.repeat(self.strata.sizes, cells.shape[1]), self.plan.n_cells + 1)
        return self.shards.sum(torch.from_numpy(counts[:-1].astype(np.int64))).numpy()

    def within(self, cells: np.ndarray) -> np.ndarray:
        """(n_rows,) bool whether each row is in one of the cells (K + 1,) bool; the last stands for no cell."""
        return np.repeat(cells[self._of_strata.cpu().numpy()].any(axis=1), self.strata.sizes)

    def full(self) -> Batch:
        """All rows as one batch."""
        if self._full is None:
            w = self.weight_of_rows()
            row_sums = self._whole(w) if self.plan.columns else None
            w = w.div_(self._mass) if self.row_weight is None else w / self._mass
            self._full = Batch(self.features, self.targets, w, row_sums, None, self._cells, ("full", 0), 0)
        return self._full

    def _whole(self, w: Tensor) -> IndexedSums:
        """The sums over all rows, of weights w (n_rows,)."""
        plan, device = self.plan, self.device
        if device.type != "cpu":
            shares = self._cell_shares(self.cells, w)
            return IndexedSums(
                self.cells.flatten(),
                entry_rows(plan, len(w), device),
                shares.flatten(),
                self._all_contrasts,
                shards=self.shards,
            )
        cells = self._of_strata
        shares = self._cell_shares(cells, torch.ones_like(cells[:, 0], dtype=self.dtype))
        rows, P = entry_rows(plan, len(cells)), len(plan.functions)
        made = StratifiedSums(
            cells.flatten(),
            rows,
            shares.flatten(),
            self._all_contrasts,
            self.strata.sizes,
            self.row_weight,
            shards=self.shards,
        )
        return replace(made, dense=dense_of(made, P * len(cells))) if cells.shape[1] >= MANY_COLUMNS else made


def _unbind(joint: RowSums) -> list[RowSums]:
    """The row sums of each batch of a chunk."""
    if isinstance(joint, IndexedSums):
        return [
            IndexedSums(c, joint.rows, s, joint.contrasts, shards=joint.shards)
            for c, s in zip(joint.cells.unbind(0), joint.shares.unbind(0), strict=True)
        ]
    return [type(joint)(w, joint.bounds) for w in joint.weights.unbind(0)]
