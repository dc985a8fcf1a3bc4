"""The linear maps between per-row values and constraint values, for one batch, and their adjoints.

phi (…, P*B): the values of the plan's P row functions, one after another. `values(phi)` is
`g = A M phi - bounds` (with the objective before it where the plan is a `Plan.joint`) with M the cell means (K x P*B)
and A the contrasts (m x K); `vjp(w)` is `(A M)' w`: the weight of each row's slope in the gradient of `w . g`. Small
plans use the product A M as one matrix; large ones (hundreds of cells), and those whose contrasts are not linear,
indexed sums. Both give the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairbound.fairness.compiled.contrasts import Memo, PlanContrasts
from fairbound.fairness.compiled.plan import Plan
from fairbound.rows.reading import plain_array
from fairbound.rows.shards import ALONE, Shards

DENSE_LIMIT = 1 << 16  # largest m * P * B kept as a matrix
DENSE_FOR = 4  # or for each indexed entry, of which a row has one in every column
DENSE_TOTAL = 1 << 24  # largest total over the batches and runs made at once
SLICE = 1 << 16  # rows of a whole table that are taken at once


@dataclass
class DenseSums:
    """g = weights phi - bounds. weights: (m, P*B), or (R, m, P*B) where each stacked run has its own rows."""

    weights: Tensor
    bounds: Tensor

    def values(self, phi: Tensor) -> tuple[Tensor, None]:
        if self.weights.dim() == 2:
            return phi @ self.weights.mT - self.bounds, None
        return (self.weights @ phi.unsqueeze(-1)).squeeze(-1) - self.bounds, None

    def vjp(self, w: Tensor, memo: Memo | None = None) -> Tensor:
        if self.weights.dim() == 2:
            return w @ self.weights
        return (w.unsqueeze(-2) @ self.weights).squeeze(-2)


@dataclass
class IndexedSums:
    """Cell means by indexed sums, then contrasts.

    cells: (…, E) cell of each entry, K for none; rows: (E,) position in phi of each entry; shares: (…, E) weight of the
    entry in its cell's mean, 0 for none; shards: the parts of the table, whose sums make the means.
    """

    cells: Tensor
    rows: Tensor | None
    shares: Tensor
    contrasts: PlanContrasts
    shards: Shards = field(default=ALONE, kw_only=True)

    def means(self, phi: Tensor) -> Tensor:
        """(…, K) cell means; 0 for a cell that the batch lacks (the caller masks it)."""
        entries = (phi if self.rows is None else phi[..., self.rows]) * self.shares
        k = self.contrasts.plan.n_cells
        out = entries.new_zeros(*entries.shape[:-1], k + 1)
        if entries.dim() == 1:
            return self.shards.sum(out.index_add_(0, self.cells, entries)[:k])
        return self.shards.sum(out.scatter_add_(-1, self.cells.expand_as(entries), entries)[..., :k])

    def values(self, phi: Tensor) -> tuple[Tensor, Memo | None]:
        return self.contrasts.values(self.means(phi))

    def vjp(self, w: Tensor, memo: Memo | None = None) -> Tensor:
        return self.spread(self.contrasts.vjp(w, memo))

    def spread(self, dq: Tensor) -> Tensor:
        """dq (…, K) -> (…, P*B): the adjoint of `means`."""
        dq = torch.cat([dq, dq.new_zeros(*dq.shape[:-1], 1)], dim=-1)
        cells = self.cells if dq.dim() == 1 else self.cells.expand(*dq.shape[:-1], self.cells.shape[-1])
        entries = dq.gather(-1, cells) * self.shares
        if self.rows is None:
            return entries
        plan = self.contrasts.plan
        size = len(plan.functions) * (self.cells.shape[-1] // len(plan.columns))
        out = entries.new_zeros(*entries.shape[:-1], size)
        return out.index_add_(-1, self.rows, entries)


@dataclass
class StratifiedSums(IndexedSums):
    """The sums over a whole table sorted by stratum. The S strata take the place of rows: phi (…, P*S) holds their
    sums.

    Rows are taken a slice at a time, so that no more than a slice of the row functions' values is held at once.
    cells and shares: of the strata. sizes: (S,) rows of each. weights: (B,) of single rows, None where all are equal.
    dense: the map from phi to the constraints as a matrix, where that is cheaper.
    """

    sizes: np.ndarray
    weights: Tensor | None = None
    dense: DenseSums | None = None

    def values(self, phi: Tensor) -> tuple[Tensor, Memo | None]:
        return super().values(phi) if self.dense is None else self.dense.values(phi)

    def vjp(self, w: Tensor, memo: Memo | None = None) -> Tensor:
        return super().vjp(w, memo) if self.dense is None else self.dense.vjp(w)

    @cached_property
    def ends(self) -> np.ndarray:
        """(S,) one past the last row of each stratum."""
        return np.cumsum(self.sizes)

    @cached_property
    def slices(self) -> list[tuple[slice, slice, np.ndarray]]:
        """The rows of each slice, the strata that they belong to, and how many of them each has."""
        out, total = [], int(self.ends[-1])
        for first in range(0, total, SLICE):
            last = min(first + SLICE, total)
            low, high = np.searchsorted(self.ends, [first, last - 1], side="right")
            own = slice(int(low), int(high) + 1)
            inside = np.minimum(self.ends[own], last) - np.maximum(self.ends[own] - self.sizes[own], first)
            out.append((slice(first, last), own, inside))
        return out

    def sums(self, phi: Callable[[slice], list[Tensor]]) -> Tensor:
        """(…, P*S) sums over strata of what phi gives for a slice of rows: the values (…, rows) of P row functions."""
        total: Any = None
        for rows, own, inside in self.slices:
            values = torch.stack(phi(rows), dim=-2)
            values = values if self.weights is None else values * self.weights[rows]
            flat = plain_array(values.flatten())
            runs = values.shape[-1] * np.arange(
                len(flat) // values.shape[-1]
            )  # one after another, each summed as it is alone
            sums = np.add.reduceat(flat, (runs[:, None] + np.cumsum(inside) - inside).ravel())
            if total is None:
                total = np.zeros((len(runs), len(self.sizes)))
            total[:, own] += sums.reshape(len(runs), -1)
        return torch.from_numpy(total).to(values.dtype).view(*values.shape[:-2], -1)

    def weights_of_rows(self, of_strata: Tensor) -> Iterator[tuple[slice, list[Tensor]]]:
        """Each slice of rows, and the weights (…, rows) of its P row functions, from those of the strata (…, P*S)."""
        shares = plain_array(of_strata.unflatten(-1, (-1, len(self.sizes))))
        for rows, own, inside in self.slices:
            each = torch.from_numpy(np.repeat(shares[..., own], inside, axis=-1)).to(of_strata.dtype)
            yield rows, list((each if self.weights is None else each * self.weights[rows]).unbind(-2))


RowSums = DenseSums | IndexedSums


def entry_rows(plan: Plan, size: int, device: torch.device | str = "cpu") -> Tensor | None:
    """Position in phi of entry (row i, column j); None where entries and phi coincide (one column)."""
    if len(plan.columns) == 1:
        return None
    functions = [plan.functions.index(c.function) for c in plan.columns]
    rows = torch.arange(size, device=device).unsqueeze(1) + torch.tensor(functions, device=device) * size
    return rows.flatten()


def batch_shares(cells: Tensor, weights: Tensor | None, n_cells: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Shares (…, B, C) that make each cell's weighted mean over the batch, and which cells (…, K) have a row.

    cells: (…, B, C); weights: (…, B) or None.
    """
    flat = cells.flatten(-2)
    w = (
        torch.ones(cells.shape, dtype=dtype, device=cells.device)
        if weights is None
        else weights.unsqueeze(-1).expand(cells.shape)
    ).flatten(-2)
    totals = torch.zeros(*flat.shape[:-1], n_cells + 1, dtype=dtype, device=cells.device).scatter_add_(-1, flat, w)
    totals[..., n_cells] = 0
    present = totals > 0
    inverse = torch.where(present, 1 / totals.clamp_min(torch.finfo(dtype).tiny), torch.zeros_like(totals))
    return (inverse.gather(-1, flat) * w).view(cells.shape), present[..., :n_cells]


def row_sums_of(contrasts: PlanContrasts, cells: Tensor, shares: Tensor, shards: Shards) -> RowSums:
    """The cheaper of the two forms; of a table in parts the indexed one. cells, shares: (…, B, C)."""
    plan, size = contrasts.plan, cells.shape[-2]
    rows = entry_rows(plan, size, cells.device)
    indexed = IndexedSums(cells.flatten(-2), rows, shares.flatten(-2), contrasts, shards=shards)
    width = len(plan.functions) * size
    if plan.m * width * cells.shape[:-2].numel() > DENSE_TOTAL:
        return indexed
    return dense_of(indexed, width) or indexed


def dense_of(indexed: IndexedSums, width: int) -> DenseSums | None:
    """The same map as a matrix (…, m, width) of rows or strata; None where that would be dearer, or cannot be.

    Of contrasts that are sums, a matrix up to DENSE_LIMIT entries, or up to DENSE_FOR times as many as there are
    indexed entries.
    """
    contrasts, flat, entries = indexed.contrasts, indexed.cells, indexed.shares
    plan = contrasts.plan
    limit = max(DENSE_LIMIT, DENSE_FOR * flat.shape[-1])
    if not indexed.shards.alone or not contrasts.linear or plan.beyond_means or plan.m * width > limit:
        return None
    means = entries.new_zeros(*flat.shape[:-1], (plan.n_cells + 1) * width)
    position = torch.arange(width, device=flat.device) if indexed.rows is None else indexed.rows
    means.scatter_add_(-1, flat * width + position, entries)
    means = means.view(*flat.shape[:-1], plan.n_cells + 1, width)[..., : plan.n_cells, :]
    return DenseSums(contrasts.matrix @ means, contrasts.bounds)
