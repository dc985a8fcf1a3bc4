"""What bounds on rankings compare: sums over queries, divided by what the data give once and for all.

A quantity is sum_q u_q / sum_q d_q over the queries q, where d does not depend on the scores: for a share of pairs u
counts the pairs won and d all of them, for an exposure u is a difference of shares and d says whether the query counts.
On a batch u is summed and scaled up and d is that of all queries, so that estimates are unbiased. `counted` is exact,
from sorted scores; `estimate` is what training differentiates, of scores over their spread (`QueryBatch.scaled`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from fairbound.fairness.rankings.batches import QueryBatch, QueryPart
from fairbound.ranking import by_query
from fairbound.ranking.documents import Documents

ROUNDING = 1e-12
"""Difference of two shares up to which they are equal but for rounding."""


class RankingStatistic(Protocol):
    """K quantities. low, high: between which each of them lies. dual_scale: as of a Problem, for sums of them.
    sharpness: of the sigmoids inside."""

    low: float
    high: float
    dual_scale: float

    @property
    def sharpness(self) -> float: ...

    @property
    def size(self) -> int:
        """K."""
        ...

    @property
    def totals(self) -> np.ndarray:
        """(K,) sum of d over all queries; 0 where nothing is measured."""
        ...

    def denominators(self) -> np.ndarray:
        """(Q, K) d of every query."""
        ...

    def counted(self, scores: np.ndarray) -> np.ndarray:
        """(Q, K) u of every query for scores (n,) of all documents."""
        ...

    def looked_at(self, batch: QueryBatch) -> np.ndarray:
        """(B,) numbers that `estimate` holds for each query of the batch."""
        ...

    def estimate(self, scores: Tensor, part: QueryPart, smooth: bool) -> Tensor:
        """(K,) the part's share of the quantities, up to a constant that all of them share: of the smooth surrogate,
        which can be differentiated in scores (documents,), or of the metric."""
        ...


@dataclass(frozen=True, eq=False)
class PairShares:
    """Shares of pairs won, by the group of the better and of the worse document.

    Quantity a * (k + 1) + b is Pr(s_i > s_j | i better than j, i in a, j in b), pairs of one query, ties as one half; k
    stands for any document. groups: (n,) the group of each sorted document, -1 for none; k: their number. surrogate:
    sigmoid(sharpness * (s_i - s_j)) for the win.

    Source: Beutel et al. (2019), pairwise, intra-group and inter-group fairness; Narasimhan et al. (2020), Pairwise
    fairness.
    """

    documents: Documents
    groups: np.ndarray
    k: int
    sharpness: float
    totals: np.ndarray

    low, high, dual_scale = 0.0, 1.0, 1.0

    @classmethod
    def of(cls, documents: Documents, groups: np.ndarray, k: int, sharpness: float) -> PairShares:
        """The shares for groups (n,) of the sorted documents."""
        made = cls(documents, groups, k, sharpness, np.zeros(0))
        return cls(documents, groups, k, sharpness, made.denominators().sum(0))

    @property
    def size(self) -> int:
        return (self.k + 1) ** 2

    def _member(self) -> np.ndarray:
        """(n, k + 1) whether each document is in each group, and in any."""
        member = np.ones((len(self.documents), self.k + 1), dtype=bool)
        member[:, : self.k] = self.groups[:, None] == np.arange(self.k)
        return member

    def _summed(self, of_documents: np.ndarray) -> np.ndarray:
        """(Q, K) sums by the group of the better document of numbers (n, k + 1) by that of the worse."""
        member = self._member()
        starts = self.documents.starts
        return np.concatenate([by_query.sums(of_documents * member[:, [a]], starts) for a in range(self.k + 1)], axis=1)

    def denominators(self) -> np.ndarray:
        member, starts = self._member(), self.documents.starts
        before = np.concatenate([np.zeros((1, self.k + 1)), np.cumsum(member, axis=0)])
        start = np.repeat(starts[:-1], np.diff(starts))
        return self._summed(before[start + self.documents.lower] - before[start])

    def counted(self, scores: np.ndarray) -> np.ndarray:
        d = self.documents
        return self._summed(by_query.wins(scores, d.relevance, d.starts, self._member())[0])

    def looked_at(self, batch: QueryBatch) -> np.ndarray:
        return batch.looked_at

    def estimate(self, scores: Tensor, part: QueryPart, smooth: bool) -> Tensor:
        pairs, k = part.pairs, self.k
        difference = scores[pairs.better] - scores[pairs.worse]
        won = torch.sigmoid(self.sharpness * difference) if smooth else (1 + difference.sign()) / 2
        groups = torch.as_tensor(self.groups[part.rows])
        groups = torch.where(groups < 0, k, groups)
        cell = groups[pairs.better] * (k + 1) + groups[pairs.worse]
        value = (won - 0.5) * pairs.weight.to(won.dtype)  # around one half, which makes the estimate vary less
        table = value.new_zeros((k + 1) ** 2).index_add(0, cell, value).view(k + 1, k + 1)
        table = torch.cat([table[:k], table.sum(0, keepdim=True)])
        table = torch.cat([table[:, :k], table.sum(1, keepdim=True)], 1).reshape(-1)
        totals = torch.as_tensor(self.totals, dtype=table.dtype)
        return table * part.batch.scale / totals.clamp_min(1)


@dataclass(frozen=True, eq=False)
class Exposures:
    """By how much the share of attention that a group's documents get exceeds the share they are to have.

    The attention of a place is 1 / log2(1 + rank). In query q a group gets X_q, the sum of its documents' attention
    over that of all, and is to have T_q: its share of the documents, or of the relevance (merit). Quantity a is the
    mean of X_q - T_q over the queries with documents both in group a and outside it (for merit: and with some
    relevance), in [-1, 1]. groups, k: as of PairShares. surrogate: ranks 1 + sum_j sigmoid(sharpness * (s_j - s_i)).

    Source: Singh, Joachims (2018), demographic parity (size) and disparate treatment (merit): X_q = T_q says that a
        group's mean exposure, or its exposure over its relevance, is that of all documents; Qin, Liu, Li (2010) for the
        smooth ranks.
    Departs: differences of shares in place of ratios, which need not exist; their mean over queries, in which one query
        may make up for another (Biega, Gummadi, Weikum 2018).
    """

    documents: Documents
    groups: np.ndarray
    k: int
    sharpness: float
    due: np.ndarray
    counts: np.ndarray

    low, high, dual_scale = -1.0, 1.0, 5.0  # a share moves about a third as much with the scores as a share of pairs

    @classmethod
    def of(cls, documents: Documents, groups: np.ndarray, k: int, sharpness: float, merit: bool) -> Exposures:
        """due, counts: (Q, k) T_q and whether the query counts, from the sorted documents."""
        member = (groups[:, None] == np.arange(k)).astype(np.float64)
        number = by_query.sums(member, documents.starts)
        sizes = np.diff(documents.starts)[:, None]
        worth = documents.relevance if merit else np.ones(len(documents))
        whole = by_query.sums(worth, documents.starts)[:, None]
        counts = (number > 0) & (number < sizes) & (whole > 0)
        due = by_query.sums(member * worth[:, None], documents.starts) / np.where(whole > 0, whole, 1.0)
        return cls(documents, groups, k, sharpness, np.where(counts, due, 0.0), counts.astype(np.float64))

    @property
    def size(self) -> int:
        return self.k

    @property
    def totals(self) -> np.ndarray:
        return self.counts.sum(0)

    def denominators(self) -> np.ndarray:
        return self.counts

    def counted(self, scores: np.ndarray) -> np.ndarray:
        share = by_query.exposures(scores, self.documents.starts)[:, None] * (self.groups[:, None] == np.arange(self.k))
        exceeds = by_query.sums(share, self.documents.starts) - self.due
        return np.where((self.counts > 0) & (np.abs(exceeds) > ROUNDING), exceeds, 0.0)

    def looked_at(self, batch: QueryBatch) -> np.ndarray:
        return np.diff(batch.starts) ** 2

    def estimate(self, scores: Tensor, part: QueryPart, smooth: bool) -> Tensor:
        if smooth:
            one, other = part.neighbours
            above = torch.sigmoid(self.sharpness * (scores[other] - scores[one]))
            rank = 0.5 + scores.new_zeros(len(scores)).index_add(0, one, above)
            seen = 1 / torch.log2(1 + rank)
            share = seen / scores.new_zeros(len(part.numbers)).index_add(0, part.query, seen)[part.query]
        else:
            share = torch.as_tensor(by_query.exposures(scores.double().numpy(), part.starts), dtype=scores.dtype)
        groups = torch.as_tensor(self.groups[part.rows])
        cell = part.query * (self.k + 1) + torch.where(groups < 0, self.k, groups)
        got = (
            share.new_zeros(len(part.numbers) * (self.k + 1))
            .index_add(0, cell, share)
            .view(-1, self.k + 1)[:, : self.k]
        )
        counts, due = (torch.as_tensor(v[part.numbers], dtype=got.dtype) for v in (self.counts, self.due))
        totals = torch.as_tensor(self.totals, dtype=got.dtype)
        return (counts * (got - due)).sum(0) * part.batch.scale / totals.clamp_min(1)
