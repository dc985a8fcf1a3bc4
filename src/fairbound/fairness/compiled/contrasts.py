"""A plan's contrasts as tensors: from the quantities q to g = A q - bounds, and back.

q (..., Q - R) are the cell means, or all quantities but ratios where a plan has more; the R ratios are formed here.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fairbound.fairness.compiled.plan import Plan
from fairbound.fairness.pointwise import Pointwise

UNDEFINED = 1.0  # g of a contrast whose ratio divides by 0: missed by 1, the largest difference of two rates
LEAST_BELOW = 1e-8  # a smaller denominator of a ratio counts as this, so that its slopes stay finite in float32


ROUNDING, COARSER = 1e-12, 1e-6
"""Sums of equal parts are 0 but for such a share of these: of parts in float64, and in others."""


class Memo(NamedTuple):
    """compared: (..., m, t) quantities actually compared, None where they are those of the plan; quotients: (..., R)
    values of the ratios and below: (..., R) their denominators, None without ratios; defined: (...,
    m) contrasts with a value."""

    compared: Tensor | None
    quotients: Tensor | None = None
    below: Tensor | None = None
    defined: Tensor | None = None


class PlanContrasts:
    """g = A q - bounds of a plan's contrasts, and its derivatives."""

    def __init__(self, plan: Plan, dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu"):
        self.plan = plan
        self.index = torch.as_tensor(plan.index, device=device)
        self.coefficient = torch.as_tensor(plan.coefficient, dtype=dtype, device=device)
        self.bounds = torch.as_tensor(plan.bounds, dtype=dtype, device=device)
        self.ratios = torch.as_tensor(plan.ratios, device=device)
        self.best = [
            (torch.tensor(b.rows, device=device), torch.tensor(b.quantities, device=device), b.sign) for b in plan.best
        ]
        self.linear = not self.best and not len(plan.ratios)
        self.is_difference = self.linear and (
            plan.index.shape[1] == 2 and bool(np.all(plan.coefficient == [1.0, -1.0]))
        )

        self._paired = self.linear and plan.index.shape[1] == 2
        if self._paired:
            self._first, self._second = self.index.T.contiguous()
            self._of_first, self._of_second = self.coefficient.T.contiguous()

    def extended(self, q: Tensor) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """q with the ratios after it, the ratios (NaN where they divide by 0), and their denominators."""
        if not len(self.ratios):
            return q, None, None
        below = q[..., self.ratios[:, 1]]
        quotients = torch.where(below > 0, q[..., self.ratios[:, 0]] / below.clamp_min(LEAST_BELOW), torch.nan)
        return torch.cat([q, quotients], dim=-1), quotients, below

    def values(self, q: Tensor) -> tuple[Tensor, Memo | None]:
        """q (..., Q - R) -> g (..., m), and what the derivatives need where they depend on q."""
        if self.is_difference:
            return q.index_select(-1, self._first) - q.index_select(-1, self._second) - self.bounds, None
        if self._paired:
            first, second = q.index_select(-1, self._first), q.index_select(-1, self._second)
            return first * self._of_first + second * self._of_second - self.bounds, None
        q, quotients, below = self.extended(q)
        if self.linear:
            return (q[..., self.index] * self.coefficient).sum(-1) - self.bounds, None
        index = None
        if self.best:
            index = self.index.expand(*q.shape[:-1], *self.index.shape).clone()
            for rows, candidates, sign in self.best:
                best = candidates[(sign * q[..., candidates]).nan_to_num(nan=-torch.inf).argmax(-1)]
                index[..., rows, 0] = best.unsqueeze(-1).expand(*best.shape, len(rows))
        g = self._weighted(q, index) - self.bounds
        if quotients is None:
            return g, Memo(index)
        defined = ~torch.isnan(g)
        return torch.where(defined, g, UNDEFINED), Memo(index, quotients, below, defined)

    def _weighted(self, q: Tensor, index: Tensor | None) -> Tensor:
        terms = q[..., self.index] if index is None else q.gather(-1, index.flatten(-2)).view(index.shape)
        return torch.where(self.coefficient != 0, terms * self.coefficient, 0.0).sum(-1)

    def vjp(self, w: Tensor, memo: Memo | None) -> Tensor:
        """w (..., m) -> (..., Q - R): the gradient of w . g in the quantities that are no ratios."""
        out = w.new_zeros(*w.shape[:-1], self.plan.quantities)
        if self.is_difference and w.dim() == 1:
            return out.scatter_add_(0, self._first, w).scatter_add_(0, self._second, -w)
        if memo is not None and memo.defined is not None:  # what is undefined is a constant
            w = torch.where(memo.defined, w, 0.0)
        spread = (w.unsqueeze(-1) * self.coefficient).flatten(-2)
        index = self.index if memo is None or memo.compared is None else memo.compared
        return self.collapsed(out.scatter_add_(-1, index.flatten(-2).expand_as(spread), spread), memo)

    def collapsed(self, dq: Tensor, memo: Memo | None) -> Tensor:
        """A gradient in all Q quantities as one in those that the ratios are made of, (..., Q - R)."""
        if memo is None or memo.quotients is None or memo.below is None:
            return dq
        dq, of_ratios = dq.split([dq.shape[-1] - len(self.ratios), len(self.ratios)], dim=-1)
        safe = torch.where(memo.below > 0, of_ratios / memo.below.clamp_min(LEAST_BELOW), 0.0)
        dq = dq.index_add(-1, self.ratios[:, 0], safe)
        moves = torch.where(memo.below > LEAST_BELOW, memo.quotients, 0.0)
        return dq.index_add(-1, self.ratios[:, 1], safe * moves, alpha=-1)

    def jvp(self, dq: Tensor, memo: Memo | None) -> Tensor:
        """dq (..., Q - R) -> (..., m): the derivative of g along dq."""
        if memo is None:
            return self.values(dq)[0] + self.bounds
        if memo.quotients is not None and memo.below is not None:
            above, below = dq[..., self.ratios[:, 0]], dq[..., self.ratios[:, 1]]
            moves = torch.where(memo.below > LEAST_BELOW, memo.quotients, 0.0)
            along = (above - moves * below) / memo.below.clamp_min(LEAST_BELOW)
            dq = torch.cat([dq, torch.where(memo.below > 0, along, 0.0)], dim=-1)
        dg = self._weighted(dq, memo.compared)
        return dg if memo.defined is None else torch.where(memo.defined, dg, 0.0)

    def levelled(self, g: Tensor, q: Tensor, raw: Tensor) -> Tensor:
        """g (..., m) at q (..., Q - R), where contrasts that are 0 but for the rounding of q are 0: else a bound of 0 would
        refuse equal rates. raw: the sums of all contrasts, as of `raw`."""
        m = len(self.index)
        sums = g[..., :m] + self.bounds
        if bool((sums.abs_() > _rounding(q)).all()):
            return g
        level = torch.where(raw == 0, 0 - self.bounds.to(g.dtype), g[..., :m])
        return level if m == g.shape[-1] else torch.cat([level, g[..., m:]], dim=-1)

    def raw(self, q: Tensor, contrasts: np.ndarray | None = None) -> tuple[Tensor, Tensor]:
        """The sums (..., r) of some contrasts, of all by default, 0 where they are so but for the rounding of q, and their
        terms (..., r, t) without coefficients, 0 where unused; NaN where a ratio divides by 0. q: (..., Q - R)."""
        every = contrasts is None or len(contrasts) == len(self.index)
        rows = slice(None) if every else torch.as_tensor(contrasts, device=self.index.device)
        if self.is_difference:
            first, second = q.index_select(-1, self._first[rows]), q.index_select(-1, self._second[rows])
            terms = torch.stack([first, second]).movedim(0, -1)  # of many contrasts quicker than side by side
            return _level(first - second, first.abs() + second.abs(), q), terms
        memo = None if self.linear else self.values(q)[1]
        q = self.extended(q)[0]
        index = self.index if memo is None or memo.compared is None else memo.compared
        chosen = index[..., rows, :]
        terms = q[..., chosen] if chosen.dim() == 2 else q.gather(-1, chosen.flatten(-2)).view(chosen.shape)
        terms = torch.where(self.coefficient[rows] != 0, terms, 0.0)
        parts = terms * self.coefficient[rows]
        return _level(parts.sum(-1), parts.abs().sum(-1), q), terms

    @cached_property
    def matrix(self) -> Tensor:
        """A (m, K) as a dense matrix, of linear contrasts."""
        a = torch.zeros(len(self.index), self.plan.n_cells, dtype=self.coefficient.dtype, device=self.index.device)
        return a.scatter_add_(1, self.index, self.coefficient)


def _rounding(q: Tensor) -> float:
    return ROUNDING if q.dtype == torch.float64 else COARSER


def _level(sums: Tensor, size: Tensor, q: Tensor) -> Tensor:
    """Sums of quantities q, 0 where they are below the rounding of parts that add up to `size`."""
    return torch.where(sums.abs() <= _rounding(q) * size, 0.0, sums)


def seen_contrasts(plan: Plan, present: Tensor) -> Tensor | None:
    """(..., m) which constraints have all their cells in the batch; None where all have. present: (..., K)."""
    if bool(present.all()):
        return None
    behind = torch.as_tensor(plan.cells_of, device=present.device)
    known = torch.cat([present, torch.ones_like(present[..., :1])], dim=-1)
    seen = known[..., behind].all(-1)
    for best in plan.best:
        cells = torch.as_tensor(plan.cells_of[list(best.rows)], device=present.device)
        seen[..., list(best.rows)] = known[..., cells.flatten()].all(-1, keepdim=True)
    of_combinations = [
        present[..., list(cells)].all(-1, keepdim=True).expand(*present.shape[:-1], combination.m)
        for combination, cells in zip(plan.combinations, plan.combined_cells, strict=True)
    ]
    return torch.cat([seen, *of_combinations], dim=-1)


def dual_scale(plan: Plan, functions: list[Pointwise]) -> np.ndarray:
    """(m,) 1/4 over the largest slope of what each contrast averages: 1 for rates by a sigmoid, 1/4 for the logistic
    loss. Multiplies dual steps and penalties. functions: the plan's row functions, in the order of `plan.functions`. A
    statistic may say in `slope` how steep its numbers are in one score's mean."""
    largest = np.full(plan.n_cells + 1, 0.25)
    for column in plan.columns:
        largest[column.offset : column.offset + column.cells] = functions[
            plan.functions.index(column.function)
        ].lipschitz
    extra = np.ones(plan.m - len(plan.index))
    scale = 0.25 / largest[plan.cells_of[:, 0]]
    start = plan.n_cells + 1
    for statistic in plan.statistics:
        own = (plan.index >= start) & (plan.index < start + statistic.size) & (plan.coefficient != 0)
        scale[own.any(1)] *= 0.25 / getattr(statistic, "slope", 0.25)
        start += statistic.size
    return np.concatenate([scale, extra])
