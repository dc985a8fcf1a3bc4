"""The linear maps between per-row values and constraint values, for one batch, and their adjoints.

phi (…, P*B): the values of the plan's P per-row functions, one after another. `values(phi)` is
`g = A M phi - bounds` with M the cell means (K x P*B) and A the contrasts (m x K); `pull(w)` is `(A M)' w`: the weight
of each row's slope in the gradient of `w . g`. Small plans use the product A M as one matrix; large ones (hundreds of
cells) indexed sums. Both give the same numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from fairbound.fairness.plan import Plan
from fairbound.fairness.pointwise import Pointwise

DENSE_LIMIT = 1 << 16  # largest m * P * B kept as a matrix
DENSE_TOTAL = 1 << 24  # largest total over the batches and runs made at once


class Contrasts:
    """The plan's contrasts as tensors: g = A q - bounds, and A' w."""

    def __init__(
        self,
        plan: Plan,
        dtype: torch.dtype = torch.float64,
        bounds: Tensor | None = None,
        device: torch.device | str = "cpu",
    ):
        self.plan = plan
        self.index = torch.as_tensor(plan.index, device=device)
        self.coefficient = torch.as_tensor(plan.coefficient, dtype=dtype, device=device)
        self.bounds = torch.as_tensor(plan.bounds, dtype=dtype, device=device) if bounds is None else bounds
        self.best = [
            (torch.tensor(b.rows, device=device), torch.tensor(b.cells, device=device), b.sign) for b in plan.best
        ]
        self.is_difference = (
            plan.index.shape[1] == 2 and bool(np.all(plan.coefficient == [1.0, -1.0])) and not self.best
        )

    def values(self, q: Tensor) -> tuple[Tensor, Tensor | None]:
        """q (…, K) -> g (…, m), and the index actually used where a best-off cell was looked up."""
        if self.is_difference:
            return q[..., self.index[:, 0]] - q[..., self.index[:, 1]] - self.bounds, None
        index = self.index
        if not self.best:
            return (q[..., index] * self.coefficient).sum(-1) - self.bounds, None
        index = index.expand(*q.shape[:-1], *index.shape).clone()
        for rows, cells, sign in self.best:
            best = cells[(sign * q[..., cells]).argmax(-1)]
            index[..., rows, 0] = best.unsqueeze(-1).expand(*best.shape, len(rows))
        terms = q.gather(-1, index.flatten(-2)).view(index.shape)
        return (terms * self.coefficient).sum(-1) - self.bounds, index

    def pull(self, w: Tensor, index: Tensor | None) -> Tensor:
        """w (…, m) -> A' w (…, K)."""
        out = w.new_zeros(*w.shape[:-1], self.plan.n_cells)
        if self.is_difference and w.dim() == 1:
            return out.index_add_(0, self.index[:, 0], w).index_add_(0, self.index[:, 1], w, alpha=-1)
        spread = (w.unsqueeze(-1) * self.coefficient).flatten(-2)
        index = self.index if index is None else index
        return out.scatter_add_(-1, index.flatten(-2).expand_as(spread), spread)

    @cached_property
    def matrix(self) -> Tensor:
        """A (m, K) as a dense matrix."""
        a = torch.zeros(self.plan.m, self.plan.n_cells, dtype=self.coefficient.dtype, device=self.index.device)
        return a.scatter_add_(1, self.index, self.coefficient)


@dataclass
class DenseReduction:
    """g = weights phi - bounds. weights: (m, P*B), or (R, m, P*B) where each stacked run has its own rows."""

    weights: Tensor
    bounds: Tensor

    def values(self, phi: Tensor) -> tuple[Tensor, None]:
        if self.weights.dim() == 2:
            return phi @ self.weights.mT - self.bounds, None
        return (self.weights @ phi.unsqueeze(-1)).squeeze(-1) - self.bounds, None

    def pull(self, w: Tensor, index: Tensor | None = None) -> Tensor:
        if self.weights.dim() == 2:
            return w @ self.weights
        return (w.unsqueeze(-2) @ self.weights).squeeze(-2)


@dataclass
class IndexedReduction:
    """Cell means by indexed sums, then contrasts.

    cells: (…, E) cell of each entry, K for none; rows: (E,) position in phi of each entry; shares: (…, E) weight of the
    entry in its cell's mean, 0 for none.
    """

    cells: Tensor
    rows: Tensor | None
    shares: Tensor
    contrasts: Contrasts

    def means(self, phi: Tensor) -> Tensor:
        """(…, K) cell means; 0 for a cell that the batch lacks (the caller masks it)."""
        entries = (phi if self.rows is None else phi[..., self.rows]) * self.shares
        k = self.contrasts.plan.n_cells
        out = entries.new_zeros(*entries.shape[:-1], k + 1)
        if entries.dim() == 1:
            return out.index_add_(0, self.cells, entries)[:k]
        return out.scatter_add_(-1, self.cells.expand_as(entries), entries)[..., :k]

    def values(self, phi: Tensor) -> tuple[Tensor, Tensor | None]:
        return self.contrasts.values(self.means(phi))

    def pull(self, w: Tensor, index: Tensor | None = None) -> Tensor:
        dq = self.contrasts.pull(w, index)
        dq = torch.cat([dq, dq.new_zeros(*dq.shape[:-1], 1)], dim=-1)
        cells = self.cells if dq.dim() == 1 else self.cells.expand(*dq.shape[:-1], self.cells.shape[-1])
        entries = dq.gather(-1, cells) * self.shares
        if self.rows is None:
            return entries
        size = len(self.contrasts.plan.kinds) * (self.cells.shape[-1] // len(self.contrasts.plan.columns))
        out = entries.new_zeros(*entries.shape[:-1], size)
        return out.index_add_(-1, self.rows, entries)


Reduction = DenseReduction | IndexedReduction


def entry_rows(plan: Plan, size: int, device: torch.device | str = "cpu") -> Tensor | None:
    """Position in phi of entry (row i, column j); None where entries and phi coincide (one column)."""
    if len(plan.columns) == 1:
        return None
    kinds = [plan.kinds.index(c.kind) for c in plan.columns]
    rows = torch.arange(size, device=device).unsqueeze(1) + torch.tensor(kinds, device=device) * size
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


def seen_contrasts(plan: Plan, present: Tensor) -> Tensor | None:
    """(…, m) which contrasts have all their cells in the batch; None where all have."""
    if bool(present.all()):
        return None
    index = torch.as_tensor(plan.index, device=present.device)
    used = torch.as_tensor(plan.coefficient != 0, device=present.device)
    seen = (present[..., index] | ~used).all(-1)
    for best in plan.best:
        rows = list(best.rows)
        seen[..., rows] &= present[..., list(best.cells)].all(-1, keepdim=True)
    return seen


def dual_scale(plan: Plan, kinds: Sequence[Pointwise]) -> np.ndarray:
    """(m,) 1/4 over the steepest slope of what each contrast averages: 1 for rates by a sigmoid, 1/4 for the logistic
    loss. Multiplies dual steps and penalties. kinds: the plan's per-row functions, in the order of `plan.kinds`."""
    steepest = np.ones(plan.n_cells)
    for column in plan.columns:
        steepest[column.offset : column.offset + column.cells] = kinds[plan.kinds.index(column.kind)].steepest
    return 0.25 / steepest[plan.index[:, 0]]


def reduction(contrasts: Contrasts, cells: Tensor, shares: Tensor) -> Reduction:
    """The cheaper of the two forms. cells, shares: (…, B, C)."""
    plan, size = contrasts.plan, cells.shape[-2]
    rows = entry_rows(plan, size, cells.device)
    indexed = IndexedReduction(cells.flatten(-2), rows, shares.flatten(-2), contrasts)
    width = len(plan.kinds) * size
    matrix = plan.m * width
    if plan.best or matrix > DENSE_LIMIT or matrix * cells.shape[:-2].numel() > DENSE_TOTAL:
        return indexed
    flat, entries = indexed.cells, indexed.shares
    means = entries.new_zeros(*flat.shape[:-1], (plan.n_cells + 1) * width)
    position = torch.arange(size, device=cells.device) if rows is None else rows
    means.scatter_add_(-1, flat * width + position, entries)
    means = means.view(*flat.shape[:-1], plan.n_cells + 1, width)[..., : plan.n_cells, :]
    return DenseReduction(contrasts.matrix @ means, contrasts.bounds)
