"""Training on areas between the rows of percentile intervals: pair losses whose sets are windows of ranks that move
with the scores.

A row of a group weighs what its place in the order of the group's scores lets through, T(rank after it) - T(rank before
it), so that rows at the end of an interval count in part. Between two changes of the order the weights are constant,
and so the slopes are those of the losses of pairs alone.

Source: He, Huang, Yao, Lin (2026), (49). Departs: rows at an end count in part, where the source rounds their number
up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairbound.fairness.areas.pair_losses import PairLosses, Ramp, Sigmoid
from fairbound.fairness.percentiles.intervals import Percentiles
from fairbound.fairness.percentiles.steps import step_named
from fairbound.fairness.percentiles.window_parts import WindowParts
from fairbound.ranking.exceedance import exceedance
from fairbound.rows.reading import plain_array


@dataclass(frozen=True, eq=False)
class WindowPairs(PairLosses):
    """Pair losses of S groups, a set each, over the rows within their intervals. intervals: S of them."""

    intervals: tuple[Percentiles, ...] = ()

    def in_parts(self) -> WindowParts:
        """The statistic [v+ | v-] of twice the size, both convex where the scores are linear, with v = v+ - v-."""
        step = step_named({Ramp: "clip", Sigmoid: "logistic"}[type(self.loss)], self.loss.sharpness)  # type: ignore[attr-defined, index]
        pairs = self.pairs[:, 0, [1, 0]]  # l(h - h') is the step of h' - h
        return WindowParts(self.offset, self.sets, pairs, step, self.intervals, self.constant)

    def _shares(self, scores: Tensor, batch: Any) -> tuple[Tensor, Tensor]:
        W, there = super()._shares(scores, batch)
        order = scores.argsort(dim=-1, descending=True, stable=True).unsqueeze(-2).expand_as(W)
        own = W.gather(-1, order).double()
        reached = own.cumsum(-1).cpu().numpy()
        before = reached - own.cpu().numpy()
        made = [
            i.through(np.minimum(reached[..., k, :], 1.0)) - i.through(np.clip(before[..., k, :], 0.0, 1.0))
            for k, i in enumerate(self.intervals)
        ]
        window = torch.as_tensor(np.stack(made, axis=-2)).to(W)
        return torch.zeros_like(W).scatter(-1, order, window), there

    def _exact(self, scores: Tensor, cells: Tensor, weight: Tensor) -> Tensor:
        number = torch.as_tensor(np.append(np.where(self.sets.any(0), self.sets.argmax(0), -1), -1))
        parts = scores, number[cells.cpu()], weight
        flat = [plain_array(part.reshape(-1, part.shape[-1])) for part in parts]
        found = []
        for s, group, w in zip(*flat, strict=True):
            above = np.pad(
                exceedance(s, group, len(self.sets), w)[1], ((0, 0), (1, 1)), constant_values=((0, 0), (0, 1))
            )
            T = np.stack([i.through(np.nan_to_num(a)) for i, a in zip(self.intervals, above, strict=True)])
            table = np.array([[area(T[b], T[a]) for b in range(len(T))] for a in range(len(T))])
            empty = np.isnan(above).any(1)
            table[empty], table[:, empty] = 0.5, 0.5
            found.append(table)
        return torch.as_tensor(np.stack(found)).reshape(*scores.shape[:-1], *found[0].shape)


def area(a: np.ndarray, b: np.ndarray) -> float:
    """Pr(h_a > h_b) + Pr(h_a = h_b) / 2, of the shares (t,) above every threshold,
    from above all scores (0) to below all (1)."""
    return float(((a[1:] + a[:-1]) / 2 * np.diff(b)).sum())
