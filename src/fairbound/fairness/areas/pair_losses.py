"""Training on areas under ROC curves: sums of mean losses of pairs of rows, as a statistic of a batch.

    L[a, b] = E l(h - h'),    h the score of a row of set a, h' of a row of set b, drawn independently

stands in for Pr(h < h'), so that AUC(G1, G1') - AUC(G2, G2') becomes L[G1', G1] + L[G2, G2'] - 1, with l one of

    sigmoid    1 / (1 + exp(sharpness t)), from all pairs of the batch, in blocks of rows: bounded memory, time O(B^2).
               In long batches the scores are moved to a grid (of MOST_POINTS at most) by cubic interpolation, and
               fast Fourier transforms sum over it: O(B)
    ramp       clip(1/2 - sharpness t, 0, 1), from the scores in order: memory O(B), time O(B log B)
    quadratic  c1 (t - 1)^2, from means and variances: O(B)

Sigmoid and ramp have l(t) + l(-t) = 1, as the metric does: a row paired with itself counts 1/2, two sets that are one
have L = 1/2 whatever the scores, and batches that hold rows of every cell in fixed numbers give unbiased values. The
quadratic loss is biased: the variances of a batch are too small.

Source: Yao, Lin, Yang (2023), (3) to (6); Vogel, Bellet, Clemencon (2021) for sums over sampled pairs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from fairbound.base.errors import OptionError
from fairbound.fairness.compiled.forms import Sharpened
from fairbound.fairness.evaluation.row_sets import cells_within, set_shares
from fairbound.ranking.wins import cell_wins

PAIRS_AT_ONCE = 1 << 22
GRID_ROWS = 512  # longer batches are counted on a grid
GRID_STEP = 0.2  # largest distance of its points, times sharpness; an error of a loss is then at most 1e-5
MOST_POINTS = 1 << 16  # further apart where scores are spread wider than that
FAR = 40.0  # distance, times sharpness, from which a loss is 0 or 1 to double precision


class Loss(Protocol):
    """A loss of pairs. unbiased: whether the table of a balanced batch is unbiased."""

    @property
    def unbiased(self) -> bool: ...

    def sharpened(self, factor: float) -> Loss:
        """`factor` times as steep, so nearer to the metric."""
        ...

    def table(self, s: Tensor, W: Tensor) -> tuple[Tensor, Any]:
        """L (..., S, S) of scores s (..., B) and the rows' shares W (..., S, B) of each of S sets, 0 where a set is
        empty; and what `slope` goes on from."""
        ...

    def slope(self, memo: Any, C: Tensor) -> Tensor:
        """(..., B) the gradient of (C * L).sum in s; C (..., S, S)."""
        ...


@dataclass(frozen=True)
class Sigmoid(Sharpened):
    """1 / (1 + exp(sharpness t)) over all pairs, some rows against all at a time, or on a grid."""

    sharpness: float = 1.0
    unbiased = True

    def table(self, s: Tensor, W: Tensor) -> tuple[Tensor, Any]:
        grid = _Grid.of(s, self.sharpness)
        if grid is not None:
            mass = grid.shared(W)
            losses = grid.losses(mass)
            return (mass @ losses.transpose(-1, -2)).to(s.dtype), (s, W, grid, losses)
        out: Any = 0
        for part, loss in self._blocks(s):
            out = out + W[..., part] @ (loss @ W.transpose(-1, -2))
        return out, (s, W, None, None)

    def slope(self, memo: Any, C: Tensor) -> Tensor:
        s, W, grid, losses = memo
        turned = (C.transpose(-1, -2) - C) @ W  # the slope is even in t, so each pair is seen from both sides at once
        if grid is not None:
            return (turned * grid.slopes(losses)).sum(-2).to(s.dtype)
        out = []
        for part, loss in self._blocks(s):
            weight = W[..., part].transpose(-1, -2) @ turned
            out.append((weight * loss * (1 - loss)).sum(-1))
        return self.sharpness * torch.cat(out, dim=-1)

    def _blocks(self, s: Tensor) -> Any:
        """Parts of the rows, and their loss against every row."""
        length = max(1, PAIRS_AT_ONCE // max(s.numel(), 1))
        for at in range(0, s.shape[-1], length):
            part = slice(at, at + length)
            yield part, torch.sigmoid(self.sharpness * (s.unsqueeze(-2) - s[..., part].unsqueeze(-1)))


class _Grid:
    """H equally spaced points over the scores (..., B); a row counts at the four around it, by cubic interpolation.

    Sums over the points are those over the rows of a loss that is cubic between points: its values and slopes, and
    l(t) + l(-t) = 1, hold exactly. Where the points are further apart than the loss is wide, the loss is widened. All
    in float64.
    """

    def __init__(self, s: Tensor, sharpness: float, low: Tensor, step: Tensor, points: int):
        away = (s.double() - low) / step + 1  # a point lies below the lowest score
        self.left = away.floor().clamp(1, points - 3).long()
        t = away - self.left
        self.parts = (
            -t * (t - 1) * (t - 2) / 6,
            (t * t - 1) * (t - 2) / 2,
            -t * (t + 1) * (t - 2) / 2,
            t * (t * t - 1) / 6,
        )
        self.changes = tuple(
            c / step
            for c in (t - 0.5 * t * t - 1 / 3, (1.5 * t - 2) * t - 0.5, 1 + t - 1.5 * t * t, 0.5 * t * t - 1 / 6)
        )
        self.scale, self.points = (sharpness * step).clamp_max(1.0), points

    @classmethod
    def of(cls, s: Tensor, sharpness: float) -> _Grid | None:
        """None for short batches, and for scores that are not finite."""
        if s.shape[-1] <= GRID_ROWS:
            return None
        s = s.detach()
        low, high, wide = _spread(s, sharpness)
        if wide >= MOST_POINTS - 3:
            s = _without_gaps(s, FAR / sharpness)
            low, high, wide = _spread(s, sharpness)
        if not math.isfinite(wide):
            return None
        points = min(1 << max(int(wide + 3).bit_length(), 4), MOST_POINTS)
        return cls(s, sharpness, low, ((high - low) / (points - 3)).clamp_min(GRID_STEP / sharpness), points)

    def shared(self, W: Tensor) -> Tensor:
        """(..., S, H) the shares W (..., S, B) of the rows, moved to the points."""
        W = W.double()
        out = W.new_zeros(*W.shape[:-1], self.points)
        for k, part in enumerate(self.parts):
            out.scatter_add_(-1, (self.left + (k - 1)).unsqueeze(-2).expand_as(W), W * part.unsqueeze(-2))
        return out

    def losses(self, mass: Tensor) -> Tensor:
        """(..., S, H) the mean loss of a row at each point against each set."""
        fine = bool((self.scale <= GRID_STEP * (1 + 1e-9)).all())
        kernel = _spectrum(self.points, mass.device) if fine else _spectrum_of(self.scale, self.points)
        spectrum = kernel.unsqueeze(-2) * torch.fft.rfft(mass, n=2 * self.points)
        return torch.fft.irfft(spectrum, n=2 * self.points)[..., self.points :]

    def slopes(self, losses: Tensor) -> Tensor:
        """(..., S, B) the derivative of each row's mean loss in its score."""
        out: Any = 0
        for k, change in enumerate(self.changes):
            at = (self.left + (k - 1)).unsqueeze(-2).expand(*losses.shape[:-1], -1)
            out = out + change.unsqueeze(-2) * losses.gather(-1, at)
        return out


def _spectrum_of(scale: Tensor, points: int) -> Tensor:
    """(..., points + 1) the transform of the losses of a point up to so many steps below or above another;
    scale (..., 1): of a step."""
    offsets = torch.arange(-points, points, device=scale.device, dtype=torch.float64)
    return torch.fft.rfft(torch.sigmoid(-scale * offsets))


@lru_cache(maxsize=32)
def _spectrum(points: int, device: torch.device) -> Tensor:
    """`_spectrum_of` GRID_STEP."""
    return _spectrum_of(torch.full((1,), GRID_STEP, device=device, dtype=torch.float64), points)


def _spread(s: Tensor, sharpness: float) -> tuple[Tensor, Tensor, float]:
    """The lowest and highest of the scores (..., B), each (..., 1) float64,
    and the most steps of the grid between them."""
    low, high = (v.double() for v in s.aminmax(dim=-1, keepdim=True))
    return low, high, float((high - low).max()) * sharpness / GRID_STEP


def _without_gaps(s: Tensor, far: float) -> Tensor:
    """Scores (..., B) in the same order, neighbours as far apart as before but at most `far`; float64."""
    ordered, order = s.double().sort(dim=-1)
    moved = torch.zeros_like(ordered)
    moved[..., 1:] = ordered.diff(dim=-1).clamp_max(far).cumsum(-1)
    return torch.empty_like(moved).scatter_(-1, order, moved)


@dataclass(frozen=True)
class Ramp(Sharpened):
    """clip(1/2 - sharpness t, 0, 1), by sums over the rows below a score and within 1 / (2 sharpness) of it."""

    sharpness: float = 1.0
    unbiased = True

    def _sums(self, s: Tensor, W: Tensor) -> tuple[Tensor, ...]:
        """For every row, shares (..., S, B) of each set that lie below and within reach, and the scores of the latter;
        float64, as they are differences of long sums. Last, the scores s."""
        s, W = s.double(), W.double()
        ordered, order = s.sort(dim=-1)
        moved = W.gather(-1, order.unsqueeze(-2).expand_as(W))
        zero = torch.zeros_like(W[..., :1])
        counts = torch.cat([zero, moved.cumsum(-1)], -1)
        scores = torch.cat([zero, (moved * ordered.unsqueeze(-2)).cumsum(-1)], -1)
        half = 0.5 / self.sharpness
        low, high = torch.searchsorted(ordered, s - half), torch.searchsorted(ordered, s + half)
        low, high = (at.unsqueeze(-2).expand_as(W) for at in (low, high))
        below = counts.gather(-1, low)
        return below, counts.gather(-1, high) - below, scores.gather(-1, high) - scores.gather(-1, low), s

    def table(self, s: Tensor, W: Tensor) -> tuple[Tensor, Any]:
        below, near, scores, t = self._sums(s, W)
        won = (
            below + (0.5 + self.sharpness * t.unsqueeze(-2)) * near - self.sharpness * scores
        )  # (..., S, B) of row over set
        total = W.double().sum(-1)
        double = W.double()
        table = double.sum(-1).unsqueeze(-1) * total.unsqueeze(-2) - double @ won.transpose(-1, -2)
        return table.to(s.dtype), (W, near)

    def slope(self, memo: Any, C: Tensor) -> Tensor:
        W, near = memo
        turned = (C - C.transpose(-1, -2)).double().transpose(-1, -2) @ W.double()
        return -self.sharpness * (turned * near).sum(-2).to(W.dtype)


@dataclass(frozen=True)
class Quadratic:
    """c1 (t - 1)^2: c1 (var + var' + (mean - mean' - 1)^2), linear in the rows."""

    c1: float = 0.5
    unbiased = False

    def sharpened(self, factor: float) -> Quadratic:
        """Itself: it is no smoothed step."""
        return self

    def _moments(self, s: Tensor, W: Tensor) -> tuple[Tensor, Tensor]:
        mean = (W @ s.unsqueeze(-1)).squeeze(-1)
        away = s.unsqueeze(-2) - mean.unsqueeze(-1)
        return mean, away

    def table(self, s: Tensor, W: Tensor) -> tuple[Tensor, Any]:
        mean, away = self._moments(s, W)
        variance = (W * away.square()).sum(-1)
        gap = mean.unsqueeze(-1) - mean.unsqueeze(-2) - 1
        return self.c1 * (variance.unsqueeze(-1) + variance.unsqueeze(-2) + gap.square()), (W, mean, away)

    def slope(self, memo: Any, C: Tensor) -> Tensor:
        W, mean, away = memo
        gap = C * (mean.unsqueeze(-1) - mean.unsqueeze(-2) - 1)
        of_mean = gap.sum(-1) - gap.sum(-2)
        of_variance = C.sum(-1) + C.sum(-2)
        return 2 * self.c1 * (W * (of_variance.unsqueeze(-1) * away + of_mean.unsqueeze(-1))).sum(-2)


@dataclass(frozen=True, eq=False)
class PairLosses(Sharpened):
    """A statistic of a batch: m sums of t mean losses of pairs, plus a constant.

    offset: of the column whose cells are numbered by the sets. sets: (S, k) bool, which cells each set has. pairs: (m,
    t, 2) sets (a, b), of which a is meant to score higher. The metric counts Pr(h < h') + 1/2 Pr(h = h') for each.
    A set without a row in the batch has loss 1/2 against any other.
    """

    offset: int
    sets: np.ndarray
    pairs: np.ndarray
    loss: Loss
    constant: float = 0.0
    steep = "loss"
    _kept: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    @property
    def size(self) -> int:
        return len(self.pairs)

    @property
    def unbiased(self) -> bool:
        return self.loss.unbiased

    def value(self, scores: Tensor, z: Tensor, batch: Any, true: bool) -> tuple[Tensor, Any]:
        if scores.shape[-1] != batch.targets.shape[-1] or scores.dim() < batch.targets.dim():
            raise OptionError("areas under ROC curves need one score per row; the model gives one for every class.")
        weight = batch.objective
        if true:
            cells = cells_within(batch, self.offset, self.sets.shape[1])
            table = self._exact(scores, cells.expand(scores.shape), weight.expand(scores.shape)).to(scores)
            return self._of_pairs(table), None
        W, there = self._shares(scores, batch)
        both = there.unsqueeze(-1) & there.unsqueeze(-2)
        table, memo = self.loss.table(scores, W)
        return self._of_pairs(torch.where(both, table, 0.5)), (memo, both)

    def _shares(self, scores: Tensor, batch: Any) -> tuple[Tensor, Tensor]:
        """(..., S, B) what each row weighs in each set, and (..., S) which sets have a row."""
        W, there = set_shares(batch, self.offset, self.sets)
        return W.expand(*scores.shape[:-1], *W.shape[-2:]), there.expand(*scores.shape[:-1], there.shape[-1])

    def _of_pairs(self, table: Tensor) -> Tensor:
        index = self._places(table.device)
        return table.flatten(-2).index_select(-1, index).unflatten(-1, self.pairs.shape[:-1]).sum(-1) + self.constant

    def _places(self, device: torch.device) -> Tensor:
        """(m t,) where the pairs are found in a table (S S,)."""
        if self._kept.get("device") != device:
            at = (self.pairs[..., 0] * len(self.sets) + self.pairs[..., 1]).ravel()
            self._kept.update(device=device, places=torch.as_tensor(at, device=device))
        return self._kept["places"]

    def _exact(self, scores: Tensor, cells: Tensor, weight: Tensor) -> Tensor:
        """(..., S, S) Pr(h < h') + 1/2 Pr(h = h'), 1/2 where a set is empty; float64 on the CPU."""
        flat = [part.reshape(-1, part.shape[-1]).cpu().double().numpy() for part in (scores, cells, weight)]
        found = []
        for s, c, w in zip(*flat, strict=True):
            equal = None if (w == w[0]).all() else w
            wins = cell_wins(s, c.astype(np.int64), self.sets.shape[1], equal)
            found.append(np.nan_to_num(wins.between(self.sets).T, nan=0.5))
        return torch.as_tensor(np.stack(found)).reshape(*scores.shape[:-1], *found[0].shape)

    def vjp(self, dq: Tensor, memo: Any) -> tuple[Tensor, Tensor | None]:
        if memo is None:
            raise RuntimeError("the exact areas have no slopes; ask for those of the surrogate.")
        kept, both = memo
        S, flat = both.shape[-1], self._places(dq.device)
        spread = dq.unsqueeze(-1).expand(*dq.shape, self.pairs.shape[1]).flatten(-2)
        C = dq.new_zeros(*dq.shape[:-1], S * S).index_add(-1, flat, spread).unflatten(-1, (S, S))
        return self.loss.slope(kept, torch.where(both, C, 0.0)), None
