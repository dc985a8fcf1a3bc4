"""The quadratic loss of pairs as a min-max over single rows, so that one row at a time gives an unbiased gradient.

    L[G, G'] = E c1 (h - h' - 1)^2 = min over a, b of max over alpha of  E F + alpha E G - c1 alpha^2
    F = c1 + 2 c1 (h' - h) + c1 (h - a)^2 + c1 (h' - b)^2,    G = 2 c1 (h - h')

with h over a row of G and h' over a row of G', each a mean over its own set; a and b are then the means of h and h',
and alpha their difference. Sums of several losses have an a, b and alpha for each.

Source: Yao, Lin, Yang (2023), Lemma 1 and (8); Ying, Wen, Lyu (2016). Departs: - c1 alpha^2 where Lemma 1
prints - alpha^2, with which its maximum is c1^2 D^2 and the lemma holds for c1 = 1 alone. c2 = 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor


class Parts(NamedTuple):
    """F: (..., m), G: (..., m, t), bounds not subtracted. means: (..., S) of the scores in each set."""

    F: Tensor
    G: Tensor
    means: Tensor


@dataclass(frozen=True, eq=False)
class PairSaddle:
    """m sums of t losses L[G, G']. pairs: (m, t, 2) numbers of the sets G, G'."""

    pairs: np.ndarray
    c1: float = 0.5

    def parts(self, s: Tensor, W: Tensor, a: Tensor, b: Tensor) -> Parts:
        """F and G of scores s (..., B), the rows' shares W (..., S, B) of each of S sets, and a, b (..., m, t).

        Linear in W: shares 1 / Pr(set) of one row drawn at random give unbiased F and G.
        """
        first, second = torch.as_tensor(self.pairs).unbind(-1)
        total, means, squares = W.sum(-1), (W * s.unsqueeze(-2)).sum(-1), (W * s.square().unsqueeze(-2)).sum(-1)
        G = 2 * self.c1 * (means[..., first] - means[..., second])
        F = self.c1 - G
        for sets, centre in ((first, a), (second, b)):
            F = F + self.c1 * (squares[..., sets] - 2 * centre * means[..., sets] + centre.square() * total[..., sets])
        return Parts(F.sum(-1), G, means)

    def slopes(
        self, s: Tensor, W: Tensor, a: Tensor, b: Tensor, y: Tensor, lifted: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The gradients of y . F + lifted . G in s (..., B), a and b (..., m, t); y (..., m), lifted (..., m,
        t) = y alpha."""
        first, second = torch.as_tensor(self.pairs).unbind(-1)
        weight = y.unsqueeze(-1).expand(a.shape)
        slopes, out = torch.zeros_like(s), []
        for sets, centre, sign in ((first, a, 1.0), (second, b, -1.0)):
            own = W[..., sets.flatten(), :]
            flat = lambda x: x.flatten(-2).unsqueeze(-1)  # noqa: E731
            away = s.unsqueeze(-2) - flat(centre)
            along = 2 * self.c1 * (flat(weight) * away + sign * flat(lifted - weight))
            slopes = slopes + (own * along).sum(-2)
            out.append(-2 * self.c1 * weight * (own * away).sum(-1).unflatten(-1, a.shape[-2:]))
        return slopes, out[0], out[1]

    def best(self, means: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """a, b and alpha (..., m, t) of the saddle point, from the means (..., S)."""
        first, second = torch.as_tensor(self.pairs).unbind(-1)
        return means[..., first], means[..., second], means[..., first] - means[..., second]
