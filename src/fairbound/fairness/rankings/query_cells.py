"""A constraint for every query and every group of documents in it.

MSLR-WEB10K has half a million of them; a batch of queries evaluates those of its own queries alone.

    g_{q,a} = (share of q's pairs with the better document in a that are in the wrong order)
              - (share of all of q's pairs that are) - bound

for the cells (q, a) that have pairs, and not all pairs of the query. A cell's share is estimated from the batch's pairs
without bias.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fairbound.fairness.rankings.batches import QueryPart
from fairbound.ranking import by_query
from fairbound.ranking.documents import Documents
from fairbound.rows.queries import ragged


@dataclass(frozen=True, eq=False)
class QueryCells:
    """C cells, those of a query one after another.

    of_document: (n,) the cell of each sorted document as the better one, -1 for none. starts: (Q + 1,) where the cells
    of each query begin. pairs: (C,) of each cell; query, group: (C,) of each cell. said: the name of a group.
    sharpness: of the sigmoid.
    """

    documents: Documents
    of_document: np.ndarray
    starts: np.ndarray
    pairs: np.ndarray
    query: np.ndarray
    group: np.ndarray
    said: Callable[[int], str]
    sharpness: float

    @classmethod
    def of(
        cls, documents: Documents, groups: np.ndarray, k: int, said: Callable[[int], str], sharpness: float
    ) -> QueryCells:
        """The cells for groups (n,) of the sorted documents, -1 for none, below k."""
        query = documents.queries.of_rows
        known = (groups >= 0) & (documents.lower > 0)
        found, place = np.unique(query[known] * k + groups[known], return_inverse=True)
        pairs = np.bincount(place.ravel(), weights=documents.lower[known], minlength=len(found)).astype(np.int64)
        kept = pairs < documents.pairs[found // k]
        number = np.where(kept, np.cumsum(kept) - 1, -1)
        of_document = np.full(len(groups), -1, dtype=np.int64)
        of_document[known] = number[place.ravel()]
        whose = (found // k)[kept]
        starts = np.concatenate([[0], np.cumsum(np.bincount(whose, minlength=len(documents.queries)))])
        return cls(documents, of_document, starts, pairs[kept], whose, (found % k)[kept], said, sharpness)

    def __len__(self) -> int:
        return len(self.pairs)

    @property
    def dual_scale(self) -> float:
        """As in `Problem`: the cells of a query together weigh what one constraint does."""
        return len(self.documents.queries) / len(self)

    def name(self, i: int) -> str:
        """The name of the i-th cell."""
        return f"query {self.documents.queries.labels[self.query[i]]}, {self.said(int(self.group[i]))}"

    def of_queries(self, numbers: np.ndarray) -> np.ndarray:
        """(c,) the cells of the queries (B,), one query after another."""
        return ragged(self.starts[numbers], np.diff(self.starts)[numbers])

    def values(self, won: np.ndarray) -> np.ndarray:
        """(C,) exact excess of each cell's share over its query's. won: (n,) of `Documents.won`."""
        d = self.documents
        lost = d.lower - won
        inside = self.of_document >= 0
        own = np.bincount(self.of_document[inside], weights=lost[inside], minlength=len(self)) / self.pairs
        return own - (by_query.sums(lost, d.starts) / np.maximum(d.pairs, 1))[self.query]

    def estimate(self, scores: Tensor, part: QueryPart, smooth: bool) -> Tensor:
        """(c,) the same of the cells of the part's queries, as `of_queries` lists them, from the part's pairs."""
        pairs, cells = part.pairs, self.of_queries(part.numbers)
        difference = scores[pairs.better] - scores[pairs.worse]
        lost = torch.sigmoid(-self.sharpness * difference) if smooth else (1 - difference.sign()) / 2
        lost = lost * pairs.weight.to(lost.dtype)
        number = len(part.numbers)
        first = np.concatenate([[0], np.cumsum(np.diff(self.starts)[part.numbers])])
        at = part.query.numpy()
        cell = self.of_document[part.rows]
        place = torch.as_tensor(np.where(cell >= 0, cell - self.starts[part.numbers][at] + first[at], len(cells)))
        own = lost.new_zeros(len(cells) + 1).index_add(0, place[pairs.better], lost)[: len(cells)]
        whole = lost.new_zeros(number).index_add(0, part.query[pairs.better], lost)
        total = torch.as_tensor(np.maximum(self.documents.pairs[part.numbers], 1), dtype=lost.dtype)
        each = torch.as_tensor(np.repeat(np.arange(number), np.diff(first)))
        return own / torch.as_tensor(self.pairs[cells], dtype=lost.dtype) - (whole / total)[each]
