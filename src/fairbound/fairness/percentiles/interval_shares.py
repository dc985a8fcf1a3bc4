"""Training on percentile intervals of scores: two statistics of a batch, each also as a difference of convex functions.

With q_k(theta) = mean over group k of s(h - theta), s a step that stands for "above", and T_k the share of a rank
within the intervals of group k (see `percentiles`):

    WithinShares  T_k(q_k(0)): partial demographic parity bounds their differences
    GridParity    for levels t_1 < ... < t_P and free thresholds theta_p: twice how far q_k(theta_p) lies from the middle of the
                  ranks at which T_k = t_p and T_k = t_p + kappa, in units of T; where no group's is above kappa, no two curves T_k
                  are further apart than kappa, up to (1 - kappa) / (P + 1) between levels

Of q = q+ - q-, convex in a linear model's parameters, min(q, a) = q+ + a - max(q- + a, q+) is a difference of convex
functions.

Source: He, Huang, Yao, Lin (2026), Lemmas 5.1 and 5.2, (15), (21), (84). Departs: (84) prints a sum where both sides
need a mean; levels lie inside the interval, not at its upper end, which loses least between them; both bounds of (15)
are written as distances from their middle, times 2 / |I|, so that kappa is in the units of the metric.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from fairbound.fairness.compiled.forms import Sharpened
from fairbound.fairness.evaluation.row_sets import cells_within, set_shares
from fairbound.fairness.percentiles.intervals import EVERYTHING, Percentiles
from fairbound.fairness.percentiles.matching import nearer
from fairbound.fairness.percentiles.steps import Step
from fairbound.ranking.exceedance import exceedance
from fairbound.rows.reading import plain_array


@dataclass(frozen=True, eq=False)
class RowShares(Sharpened):
    """Shares above thresholds, of which both statistics are made. offset: of the column whose cells are numbered by the
    sets; sets: (S, k) bool, one set for each group; step: of training; intervals: of each group. whole: whether it is
    the statistic, not its two parts."""

    offset: int
    sets: np.ndarray
    step: Step
    intervals: tuple[Percentiles, ...]
    whole: bool = True
    turn: ClassVar[float] = 1.0
    steep = "step"

    @property
    def slope(self) -> float:
        """The largest slope of a number, if that of a step is 1/4."""
        return 0.25 * self.turn / min(i.length for i in self.intervals)

    def in_parts(self) -> Any:
        """The statistic [v+ | v-] of twice the size, both convex where the scores are linear, with v = v+ - v-."""
        return replace(self, whole=False)

    def _means(self, scores: Tensor, thresholds: Tensor, batch: Any) -> tuple[list[Tensor], Tensor, tuple]:
        """q (..., S, P), or q+ and q-; which sets have rows (..., S, 1); and what `_vjp_of_means` needs."""
        W, there = set_shares(batch, self.offset, self.sets)
        away = scores.unsqueeze(-2) - thresholds.unsqueeze(-1)
        made = (self.step.value(away),) if self.whole else self.step.parts(away)
        means = [W @ v.transpose(-1, -2) for v in made]
        return means, there.unsqueeze(-1), (away, W)

    def _vjp_of_means(self, dmeans: list[Tensor], memo: tuple) -> tuple[Tensor, Tensor]:
        """The gradients in the scores (..., B) and in the thresholds (..., P), from dq (..., S, P) of each mean."""
        away, W = memo
        used = None
        if away.dim() == 2:  # few thresholds matter, as for one constraint: slopes of no others are computed
            used = torch.stack([d.abs().amax(0) for d in dmeans]).amax(0).nonzero().flatten()
            away, dmeans = away[used], [d[:, used] for d in dmeans]
        slopes = (self.step.slope(away),) if self.whole else self.step.slopes(away)
        parts = [(d.transpose(-1, -2) @ W).mul_(slope) for d, slope in zip(dmeans, slopes, strict=True)]
        part = parts[0] if self.whole else parts[0].add_(parts[1])
        dt = -part.sum(-1)
        if used is not None:
            dt = dt.new_zeros(memo[0].shape[0]).index_copy_(0, used, dt)
        return part.sum(-2), dt

    def _rows(self, memo: tuple) -> tuple[Tensor, Tensor]:
        """(R, B) slopes of every mean of scores (B,) in the scores, and their sums (R,),
        minus those in its threshold."""
        away, W = memo
        slopes = (self.step.slope(away),) if self.whole else self.step.slopes(away)
        rows = torch.cat([(W.unsqueeze(-2) * slope).flatten(0, 1) for slope in slopes])
        return rows, rows.sum(-1)


@dataclass(frozen=True, eq=False)
class WithinShares(RowShares):
    """T_k(q_k(0)) of S groups. The metric's is T of the share of positive decisions."""

    @property
    def size(self) -> int:
        return len(self.sets) * (1 if self.whole else 2)

    @property
    def unbiased(self) -> bool:
        return all(i == EVERYTHING for i in self.intervals)

    def value(self, scores: Tensor, z: Tensor, batch: Any, true: bool) -> tuple[Tensor, Any]:
        if true:
            W, there = set_shares(batch, self.offset, self.sets)
            rank = (W @ (scores > 0).to(W.dtype).unsqueeze(-1)).squeeze(-1)
            return torch.where(there, self._through([rank])[0][0], 0.5), None
        means, there, memo = self._means(scores, scores.new_zeros(1), batch)
        values, slopes = self._through([m.squeeze(-1) for m in means])
        there = there.squeeze(-1)
        made = [torch.where(there, v, e) for v, e in zip(values, (0.5, 0.0), strict=False)]
        return torch.cat(made, -1), (memo, slopes, there)

    def _through(self, means: list[Tensor]) -> tuple[list[Tensor], list[list[Tensor]]]:
        """T (..., S) or its two parts, and for each of them its slopes in each of the means."""
        most = max(len(i.parts) for i in self.intervals)
        padded = [[*i.parts, *[(1.0, 1.0)] * (most - len(i.parts))] for i in self.intervals]
        low, high = means[0].new_tensor(padded).unbind(-1)  # (S, most)
        length = means[0].new_tensor([i.length for i in self.intervals])
        if self.whole:
            q = means[0].unsqueeze(-1)
            value = (torch.minimum(q, high) - torch.minimum(q, low)).sum(-1) / length
            return [value], [[((q > low) & (q < high)).any(-1).to(q.dtype) / length]]
        plus, minus = (m.unsqueeze(-1) for m in means)
        values, slopes = [], []
        for end, constant in ((low, 1.0), (high, 0.0)):  # T = 1 + sum of max(q- + low, q+) - sum of max(q- + high, q+)
            values.append(constant + torch.maximum(minus + end, plus).sum(-1) / length)
            first = (plus >= minus + end).to(plus.dtype).sum(-1)
            slopes.append([first / length, (most - first) / length])
        return values, slopes

    def vjp(self, dq: Tensor, memo: Any) -> tuple[Tensor, Tensor | None]:
        rows, slopes, there = memo
        parts = [torch.where(there, d, 0.0) for d in dq.split(len(self.sets), dim=-1)]
        of_means: list[Any] = [
            sum(d * of[which] for d, of in zip(parts, slopes, strict=True)) for which in range(len(parts))
        ]
        return self._vjp_of_means([d.unsqueeze(-1) for d in of_means], rows)[0], None

    def basis(self, memo: Any) -> tuple[Tensor, Tensor | None, Tensor]:
        """The slopes of all numbers, as `Statistic` says."""
        rows, slopes, there = memo
        mix = [torch.cat([torch.diag(torch.where(there, s, 0.0)) for s in of], -1) for of in slopes]
        return self._rows(rows)[0], None, torch.cat(mix)


@dataclass(frozen=True, eq=False)
class GridParity(RowShares):
    """[u | l], each (..., S * P): u = 2 (q - high) / |I| + kappa, l = 2 (low - q) / |I| + kappa, at thresholds among
    the auxiliary variables, low and high being the ranks at which T_k = t_p and t_p + kappa. All are to be at most
    kappa.

    places: (P,) which of the auxiliary variables. levels: (P,) t. kappa: the stated bound.
    The metric takes the shares themselves. There a threshold stands for every score whose rank is nearest to its own,
    and a number is taken at the worst of these scores, so that the largest number is the largest distance of two curves
    at any threshold. Where a threshold lies off the middle of its ranks, the number of the slack side is smaller by as
    much.
    """

    places: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    levels: np.ndarray = field(default_factory=lambda: np.zeros(0))
    kappa: float = 0.0
    _kept: dict = field(default_factory=dict, init=False, repr=False)
    unbiased: ClassVar[bool] = True
    turn: ClassVar[float] = 2.0

    @property
    def size(self) -> int:
        return 2 * len(self.sets) * len(self.levels) * (1 if self.whole else 2)

    def value(self, scores: Tensor, z: Tensor, batch: Any, true: bool) -> tuple[Tensor, Any]:
        thresholds = z[..., torch.as_tensor(self.places, device=z.device)]
        if true:
            W, has = set_shares(batch, self.offset, self.sets)
            away = scores.unsqueeze(-2) - thresholds.unsqueeze(-1)
            shares = W @ (away > 0).to(W.dtype).transpose(-1, -2)
            stated = self._sides([shares], has.unsqueeze(-1))
            return self._between(scores, shares, stated, batch), None
        means, there, memo = self._means(scores, thresholds, batch)
        return self._sides(means, there), (memo, there, z.shape)

    def _sides(self, means: list[Tensor], there: Tensor) -> Tensor:
        """[u | l] of means (..., S, P), or their parts [u+ | l+ | u- | l-]; below the bound for sets without a row."""
        low, high, half = self._ranks_as(means[0].dtype, means[0].device)
        if self.whole:
            q = torch.where(there, means[0], (low + high) / 2)
            made = [(q - high) / half + self.kappa, (low - q) / half + self.kappa]
        else:
            plus, minus = torch.where(there, means[0], (low + high) / 2), torch.where(there, means[1], 0.0)
            made = [(plus - high) / half + self.kappa, (low + minus) / half + self.kappa, minus / half, plus / half]
        return torch.cat([v.flatten(-2) for v in made], -1)

    def vjp(self, dq: Tensor, memo: Any) -> tuple[Tensor, Tensor | None]:
        rows, there, shape = memo
        of = [d.unflatten(-1, (len(self.sets), -1)) for d in dq.split(len(self.sets) * len(self.levels), dim=-1)]
        of_means = [of[0] - of[1]] if self.whole else [of[0] + of[3], of[1] + of[2]]
        half = self._ranks_as(dq.dtype, dq.device)[2]
        ds, dt = self._vjp_of_means([torch.where(there, d / half, 0.0) for d in of_means], rows)
        dz = dq.new_zeros(*dq.shape[:-1], shape[-1])
        return ds, dz.index_copy(-1, torch.as_tensor(self.places, device=dz.device), dt)

    def basis(self, memo: Any) -> tuple[Tensor, Tensor | None, Tensor]:
        """The slopes of all numbers, as `Statistic` says."""
        pair, there, shape = memo
        rows, sums = self._rows(pair)
        P = len(self.levels)
        dz = rows.new_zeros(len(rows), shape[-1])
        at = torch.as_tensor(self.places, device=rows.device).repeat(len(rows) // P)
        dz[torch.arange(len(rows)), at] = -sums
        size = torch.where(there, 1 / self._ranks_as(rows.dtype, rows.device)[2], 0.0).expand(-1, P).flatten()
        one, none = torch.diag(size), torch.diag(torch.zeros_like(size))
        turns = [[one], [-one]] if self.whole else [[one, none], [none, one], [none, one], [one, none]]
        return rows, dz, torch.cat([torch.cat(turn, -1) for turn in turns])

    @cached_property
    def _ranks(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """low and high (S, P), the ranks between which q is to lie, and |I| / 2 (S, 1)."""
        low = np.stack([i.rank(self.levels) for i in self.intervals])
        high = np.stack([i.rank(np.minimum(self.levels + self.kappa, 1.0)) for i in self.intervals])
        return low, high, np.array([[i.length / 2] for i in self.intervals])

    def _ranks_as(self, dtype: torch.dtype, device: torch.device) -> list[Tensor]:
        """`_ranks` as tensors, kept."""
        if (dtype, device) not in self._kept:
            self._kept[dtype, device] = [torch.tensor(v, dtype=dtype, device=device) for v in self._ranks]
        return self._kept[dtype, device]

    def nearer(self, problem: Any, x: Tensor) -> Tensor:
        """As `Statistic` says, by moving the curves of the groups towards each other (`matching`)."""
        return nearer(problem, self, x)

    def numbers(self, batch: Any) -> np.ndarray:
        """(..., B) the group of each row, -1 for none."""
        cells = cells_within(batch, self.offset, self.sets.shape[1])
        return np.append(np.where(self.sets.any(0), self.sets.argmax(0), -1), -1)[cells.cpu().numpy()]

    def _between(self, scores: Tensor, shares: Tensor, stated: Tensor, batch: Any) -> Tensor:
        """(..., 2 S P) [u | l], each as large as at the worst score whose rank is nearest to that of the threshold.
        shares: (..., S, P) above the thresholds, of which `stated` (..., 2 S P) are the numbers."""
        parts = scores, batch.objective.expand(scores.shape), torch.as_tensor(self.numbers(batch)).expand(scores.shape)
        flat = [plain_array(part.reshape(-1, part.shape[-1])) for part in parts]
        upper = stated.unflatten(-1, (2, *shares.shape[-2:]))[..., 0, :, :]
        own = [part.reshape(-1, *shares.shape[-2:]).double().cpu().numpy() for part in (shares, upper)]
        found = [
            self._largest(exceedance(s, group, len(self.sets), w)[1], at, u)
            for s, w, group, at, u in zip(*flat, *own, strict=True)
        ]
        return torch.from_numpy(np.stack(found)).reshape(*scores.shape[:-1], -1).to(scores)

    def _largest(self, above: np.ndarray, at: np.ndarray, u: np.ndarray) -> np.ndarray:
        """(2 S P,) of one run, from the shares above every score (S, t) and above the thresholds (S, P),
        and u there (S, P)."""
        known = ~np.isnan(above).any(1)
        out = np.zeros((2, *at.shape))
        if known.sum() < 2:
            return out.ravel()
        through = lambda q: np.stack([i.through(p) for i, p, k in zip(self.intervals, q, known, strict=True) if k])  # noqa: E731
        curves, own = through(above), through(at)
        middle = curves.max(0) + curves.min(0)
        centres = 2 * self.levels + min(self.kappa, 1.0)
        zone = np.searchsorted((centres[1:] + centres[:-1]) / 2, middle)
        away, there = 2 * curves - middle, 2 * own - (own.max(0) + own.min(0))
        beside = u[known].max(0) + u[known].min(0)  # twice how far the threshold is from where both sides are alike
        for side, sign in enumerate((1.0, -1.0)):
            most = sign * there
            np.maximum.at(most.T, zone, (sign * away).T)
            out[side, known] = most - np.maximum(-sign * beside, 0)
        return out.ravel()
