"""What a ranker minimises: the mean loss of the pairs of a query, and of that the mean over the queries that have
pairs.

A pair costs loss(s_better - s_worse): logistic, log(1 + exp(-d)), of the sampled or listed pairs of a batch; hinge,
(1 - d)_+, also exactly from sorted scores in O(n log n) with memory linear in the documents.

Source: Burges et al. (2005), RankNet, for the logistic loss; Joachims (2006), Training linear SVMs in linear time,
    section 4, for sums of hinge losses over pairs from one sort.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from fairbound.ranking import by_query

LOSSES = ("logistic", "hinge")


def pair_losses(loss: str, differences: Tensor) -> Tensor:
    """(P,) losses of the differences (P,) of the better and the worse score."""
    return softplus(-differences) if loss == "logistic" else (1 - differences).clamp_min(0)


def hinge_sums(scores: np.ndarray, relevance: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(Q,) sums over the pairs of each query of (1 - (s_better - s_worse))_+, and (n,) their slopes in the scores.

    A better document at s_i and a worse one at s_j + 1 cost the latter minus the former where that is positive: so both
    are sorted together, once for each bit of the relevances' ranks (see `by_query.wins`). A pair at the corner has the
    slope of the costly side.
    """
    level = np.unique(relevance, return_inverse=True)[1].ravel()
    query, n = by_query.of_query(starts), len(scores)
    cost, slope = np.zeros(n), np.zeros(n)
    for bit in range(int(level.max(initial=0)).bit_length()):
        key, high = query * (int(level.max()) + 1) + (level >> (bit + 1)), (level >> bit) & 1 == 1
        at = np.where(high, scores, scores + 1)
        order = np.lexsort((~high, at, key))  # a worse one at the same place comes later: it costs 0, and has a slope
        worse, place = ~high[order], at[order]
        count, total, better = (np.concatenate([[0.0], np.cumsum(v)]) for v in (worse, worse * place, ~worse))
        edge = np.flatnonzero(np.r_[True, key[order][1:] != key[order][:-1], True])
        begin, end = (np.repeat(part, np.diff(edge)) for part in (edge[:-1], edge[1:]))
        above = count[end] - count[1:]
        cost[order] += ~worse * (total[end] - total[1:] - above * place)
        slope[order] += np.where(worse, better[:-1] - better[begin], -above)
    return by_query.sums(cost, starts), slope


class HingeBySorting(torch.autograd.Function):
    """`hinge_sums` of scores (n,) as a function that can be differentiated: (Q,)."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, relevance: np.ndarray, starts: np.ndarray) -> Tensor:
        total, slope = hinge_sums(scores.detach().double().numpy(), relevance, starts)
        ctx.save_for_backward(torch.as_tensor(slope, dtype=scores.dtype))
        ctx.sizes = torch.as_tensor(np.diff(starts))
        return torch.as_tensor(total, dtype=scores.dtype)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, None, None]:
        (slope,) = ctx.saved_tensors
        return slopes[0].repeat_interleave(ctx.sizes) * slope, None, None


def hinge_by_sorting(scores: Tensor, relevance: np.ndarray, starts: np.ndarray) -> Tensor:
    """(Q,) sums of hinge losses over the pairs of each query, from sorted scores (n,)."""
    return HingeBySorting.apply(scores, relevance, starts)
