"""The convex functions whose difference is the mean of steps between rows of percentile intervals of two groups.

    V = sum_ij u_i v_j s(h_i - h_j),    u the weights of group a's rows within its interval [alpha, beta), v those of group b's

u = U_beta - U_alpha with U_p the weights of the top p of a, and v = L_alpha - L_beta with L_p those of the rows of b
below its top p. For a step s that is convex and rises, sum_ij U_i L_j s(h_i - h_j) is the largest over all weights of
these sizes: the top of a and the bottom of b have the largest distances. So it is convex in a linear model's
parameters, and with s = s+ - s-, both convex and rising,

    V = sum_ij P s+ + N s-  -  sum_ij P s- + N s+,      P = U_beta L_alpha' + U_alpha L_beta',   N = U_beta L_beta' + U_alpha L_alpha'

is a difference of convex functions. Slopes are those with the weights held fixed, at ties those of one order.

Source: He, Huang, Yao, Lin (2026), (49) and Example D.7. Departs: they add the sum over all pairs to keep signs; taking
the bottom of b needs none. Their split of the logistic step has a quadratic term, see `steps`. All pairs are looked at,
some rows at a time: O(n_a n_b).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairbound.fairness.compiled.forms import Sharpened
from fairbound.fairness.evaluation.row_sets import set_shares
from fairbound.fairness.percentiles.intervals import Percentiles
from fairbound.fairness.percentiles.steps import Step

PAIRS_AT_ONCE = 1 << 21


@dataclass(frozen=True, eq=False)
class WindowParts(Sharpened):
    """[V+ + constant | V-], each (..., m), of m pairs (a, b) of sets. offset, sets,
    intervals: as in `WindowPairs`. pairs: (m, 2)."""

    offset: int
    sets: np.ndarray
    pairs: np.ndarray
    step: Step
    intervals: tuple[Percentiles, ...]
    constant: float
    unbiased = False
    steep = "step"

    @property
    def size(self) -> int:
        return 2 * len(self.pairs)

    def value(self, scores: Tensor, z: Tensor, batch: Any, true: bool) -> tuple[Tensor, Any]:
        """Both parts, of training; the metric has none."""
        runs = [self._weights(s, w) for s, w in self._runs(scores, batch)]
        made = []
        for ends in runs:
            both = ends.h.new_zeros(2, len(self.pairs))
            for m, rows, columns, P, N in self._blocks(ends):
                plus, minus = self.step.parts(ends.h[rows].unsqueeze(-1) - ends.h[columns])
                both[0, m] += (P * plus + N * minus).sum()
                both[1, m] += (P * minus + N * plus).sum()
            both[0] += torch.where(ends.known, self.constant, 0.0)
            made.append(both.flatten())
        return torch.stack(made).reshape(*scores.shape[:-1], self.size), (runs, scores.shape)

    def vjp(self, dq: Tensor, memo: Any) -> tuple[Tensor, None]:
        """(..., B) the gradient of dq . value in the scores."""
        runs, shape = memo
        out = []
        for ends, d in zip(runs, dq.reshape(len(runs), 2, -1), strict=True):
            slope = torch.zeros_like(ends.h)
            for m, rows, columns, P, N in self._blocks(ends):
                if not bool(d[:, m].any()):
                    continue
                plus, minus = self.step.slopes(ends.h[rows].unsqueeze(-1) - ends.h[columns])
                along = (d[0, m] * P + d[1, m] * N) * plus + (d[0, m] * N + d[1, m] * P) * minus
                slope.index_add_(0, rows, along.sum(-1)).index_add_(0, columns, -along.sum(0))
            out.append(slope)
        return torch.stack(out).reshape(shape), None

    def _runs(self, scores: Tensor, batch: Any) -> Iterator[tuple[Tensor, Tensor]]:
        """Scores (B,) and shares (S, B) of every run."""
        W = set_shares(batch, self.offset, self.sets)[0]
        W = W.expand(*scores.shape[:-1], *W.shape[-2:]).reshape(-1, *W.shape[-2:])
        return zip(scores.reshape(-1, scores.shape[-1]), W, strict=True)

    def _weights(self, h: Tensor, W: Tensor) -> _Ends:
        """The weights of each set's rows in the tops and the bottoms at the ends of its intervals, over their
        length."""
        order = h.argsort(descending=True, stable=True)
        reached = W[:, order].double().cumsum(-1)
        before = reached - W[:, order].double()

        def top(end: float, k: int) -> Tensor:
            out = torch.zeros_like(reached[k])
            return out.scatter_(0, order, reached[k].clamp_max(end) - before[k].clamp_max(end)).to(h)

        tops, bottoms = h.new_zeros(2, *W.shape), h.new_zeros(2, *W.shape)
        for k, interval in enumerate(self.intervals):
            for alpha, beta in interval.parts:
                at_alpha, at_beta = top(alpha, k) / interval.length, top(beta, k) / interval.length
                tops[0, k], tops[1, k] = tops[0, k] + at_beta, tops[1, k] + at_alpha
                own = W[k] / interval.length
                bottoms[0, k], bottoms[1, k] = bottoms[0, k] + own - at_alpha, bottoms[1, k] + own - at_beta
        there = W.sum(-1) > 0
        first, second = torch.as_tensor(self.pairs).unbind(-1)
        return _Ends(h, W > 0, tops, bottoms, there[first] & there[second])

    def _blocks(self, ends: _Ends) -> Iterator[tuple[int, Tensor, Tensor, Tensor, Tensor]]:
        """(pair, rows of a, rows of b, P, N) of as many rows of a as are looked at together;
        none of a pair without rows."""
        for m, (a, b) in enumerate(self.pairs.tolist()):
            if not ends.known[m]:
                continue
            columns = ends.member[b].nonzero().flatten()
            at_alpha, at_beta = ends.bottoms[0, b, columns], ends.bottoms[1, b, columns]
            for rows in ends.member[a].nonzero().flatten().split(max(1, PAIRS_AT_ONCE // max(len(columns), 1))):
                low, high = (ends.tops[i, a, rows].unsqueeze(-1) for i in (1, 0))
                yield m, rows, columns, high * at_alpha + low * at_beta, high * at_beta + low * at_alpha


@dataclass(frozen=True, eq=False)
class _Ends:
    """h (B,); member (S, B) bool; tops, bottoms (2, S, B): at beta and alpha, at alpha and beta;
    known (m,): pairs with rows."""

    h: Tensor
    member: Tensor
    tops: Tensor
    bottoms: Tensor
    known: Tensor
