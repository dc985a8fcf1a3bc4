"""Batches of queries with all their documents, and the pairs of documents that a batch looks at.

A query of N documents has up to N (N - 1) / 2 pairs. A random batch looks at `partners` of them for each better
document, drawn evenly from its worse ones and weighted, so that sums over pairs are unbiased and memory is linear in
the documents; a document with no more worse ones meets each of them once. A batch of all queries looks at every pair, a
part of the queries at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fairbound.ranking.documents import Documents
from fairbound.rows.queries import ragged

MOST_PAIRS = 1 << 20
"""Pairs that are looked at together, but for a single query that has more."""

LEAST_SPREAD = 1e-6
"""Spread of scores up to which they count as equal, so that a start at 0 has slopes."""


@dataclass(frozen=True, eq=False)
class Pairs:
    """better, worse: (P,) int64 places in the batch; weight: (P,) the pairs that each stands for."""

    better: Tensor
    worse: Tensor
    weight: Tensor


@dataclass(frozen=True, eq=False)
class QueryBatch:
    """Some queries with their documents, one query after another.

    documents: all of the data. numbers: (B,) the queries, of which one may occur twice. rows: (b,) the sorted rows of
    their documents; starts: (B + 1,). features: of these rows. scale: what a sum over these queries is multiplied by to
    be one over all. seed: of the partners drawn; None for all pairs. size: number of queries, the unit that is counted.
    """

    documents: Documents
    numbers: np.ndarray
    rows: np.ndarray
    starts: np.ndarray
    features: Any
    scale: float
    partners: int
    seed: int | None
    size: int

    @cached_property
    def whole(self) -> bool:
        """Whether it holds every query once, in order."""
        return np.array_equal(self.numbers, np.arange(len(self.documents.queries)))

    @cached_property
    def once(self) -> tuple[np.ndarray, np.ndarray]:
        """The different queries, ascending, and the place in the batch where each comes first."""
        return np.unique(self.numbers, return_index=True)

    @cached_property
    def relevance(self) -> np.ndarray:
        """(b,) grades."""
        return self.documents.relevance[self.rows]

    @cached_property
    def query(self) -> np.ndarray:
        """(b,) place of each document's query in the batch."""
        return np.repeat(np.arange(len(self.numbers)), np.diff(self.starts))

    def scaled(self, scores: Tensor) -> Tensor:
        """(b,) scores (b,) over their spread, the root mean square of what separates them from the mean of their query;
        as they are where they are all but equal. The spread is differentiated too."""
        query, sizes = torch.as_tensor(self.query), torch.as_tensor(np.diff(self.starts)).to(scores)
        mean = scores.new_zeros(len(sizes)).index_add(0, query, scores) / sizes
        square = (scores - mean[query]).square().mean()
        return scores / torch.where(square > LEAST_SPREAD**2, square, 1.0).sqrt()

    def parts(self, each: np.ndarray) -> Iterator[QueryPart]:
        """The batch in parts of at most MOST_PAIRS pairs, of which query q has each[q]; each: (B,).
        A whole batch is kept."""
        total = np.cumsum(each)
        if total[-1] <= MOST_PAIRS:
            yield self._whole
            return
        first = 0
        while first < len(self.numbers):
            last = int(np.searchsorted(total, (total[first - 1] if first else 0) + MOST_PAIRS, side="right"))
            last = max(last, first + 1)
            yield QueryPart(self, slice(first, last), slice(int(self.starts[first]), int(self.starts[last])))
            first = last

    @cached_property
    def _whole(self) -> QueryPart:
        return QueryPart(self, slice(0, len(self.numbers)), slice(0, len(self.rows)))

    @cached_property
    def looked_at(self) -> np.ndarray:
        """(B,) pairs of each query that are looked at, at most."""
        if self.seed is None:
            return self.documents.pairs[self.numbers]
        return np.diff(self.starts) * self.partners


class QueryBatches(NamedTuple):
    """A batch for each of R stacked runs. size: queries of each."""

    runs: tuple[QueryBatch, ...]
    size: int


@dataclass(frozen=True, eq=False)
class QueryPart:
    """Neighbouring queries of a batch: their places in it, and the places of their documents."""

    batch: QueryBatch
    queries: slice
    places: slice

    @cached_property
    def starts(self) -> np.ndarray:
        """(queries + 1,) where each begins among the documents of the part."""
        return self.batch.starts[self.queries.start : self.queries.stop + 1] - self.batch.starts[self.queries.start]

    @cached_property
    def numbers(self) -> np.ndarray:
        """(queries,) their numbers among all."""
        return self.batch.numbers[self.queries]

    @cached_property
    def rows(self) -> np.ndarray:
        """(documents,) the sorted rows."""
        return self.batch.rows[self.places]

    @cached_property
    def query(self) -> Tensor:
        """(documents,) place of each one's query in the part."""
        return torch.as_tensor(self.batch.query[self.places] - self.queries.start)

    @cached_property
    def relevance(self) -> np.ndarray:
        """(documents,) grades."""
        return self.batch.relevance[self.places]

    @cached_property
    def pairs(self) -> Pairs:
        """All pairs of the part, or those drawn; places are among the documents of the part."""
        lower = self.batch.documents.lower[self.rows]
        start = self.starts[:-1][self.query.numpy()]
        if self.batch.seed is None:
            better = np.repeat(np.arange(len(lower)), lower)
            return Pairs(
                torch.as_tensor(better),
                torch.as_tensor(ragged(start, lower)),
                torch.ones(len(better), dtype=torch.float64),
            )
        p = self.batch.partners
        met = np.minimum(lower, p)  # of few worse documents each is met, of more one in each of p equal stretches
        better = np.repeat(np.arange(len(lower)), met)
        stretch, worse = lower[better] / met[better], ragged(np.zeros(len(met), dtype=np.int64), met)
        many = np.flatnonzero(lower[better] > p)
        generator = torch.Generator().manual_seed(self.batch.seed + self.places.start)
        drawn = torch.rand(len(many), generator=generator, dtype=torch.float64).numpy()
        worse[many] = np.minimum(((worse[many] + drawn) * stretch[many]).astype(np.int64), lower[better[many]] - 1)
        return Pairs(torch.as_tensor(better), torch.as_tensor(start[better] + worse), torch.as_tensor(stretch))

    @cached_property
    def neighbours(self) -> tuple[Tensor, Tensor]:
        """(P,), (P,) every two documents of one query, in both orders and each with itself."""
        sizes = np.diff(self.starts)
        own = sizes[self.query.numpy()]
        one = np.repeat(np.arange(len(own)), own)
        return torch.as_tensor(one), torch.as_tensor(ragged(self.starts[:-1][self.query.numpy()], own))
