"""Documents of queries, in the one order that ranking works in: query by query, and by ascending relevance within a
query.

So the worse documents of document i, those it makes a pair with, are the first lower[i] of its query.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fairbound.base.errors import DataError
from fairbound.ranking import by_query
from fairbound.rows.groups import Groups
from fairbound.rows.queries import Queries
from fairbound.rows.reading import number_column


@dataclass(frozen=True, eq=False)
class Documents:
    """n documents of Q queries. relevance: (n,) float64 >= 0, a grade. queries: which rows are whose;
    groups: of the sorted rows."""

    relevance: np.ndarray
    queries: Queries
    groups: Groups

    @classmethod
    def of(cls, qid: Any, relevance: Any, groups: Any = None) -> Documents:
        """The documents of rows in any order. groups: anything Groups.of takes; None for no attribute.

        Raises: DataError where lengths differ, a query is missing, or a relevance is missing, infinite or negative.
        """
        grade = read_relevance(relevance)
        found = Queries.of(qid, grade)
        known = Groups.of_rows(groups, len(grade), "documents")
        return cls(grade[found.order], found, known.take(found.order))

    @classmethod
    def joined(cls, parts: Sequence[Documents]) -> Documents:
        """The documents of all parts, one part after another. Parts have the same names of groups, and no query in
        common."""
        groups = Groups.joined([part.groups for part in parts])
        qid = np.concatenate([part.queries.labels[part.queries.of_rows] for part in parts])
        return cls.of(qid, np.concatenate([part.relevance for part in parts]), groups)

    def __len__(self) -> int:
        return len(self.relevance)

    @property
    def starts(self) -> np.ndarray:
        """(Q + 1,) where each query begins."""
        return self.queries.starts

    @cached_property
    def lower(self) -> np.ndarray:
        """(n,) int64, documents of the same query that are less relevant."""
        query = self.queries.of_rows
        new = np.r_[True, (query[1:] != query[:-1]) | (self.relevance[1:] != self.relevance[:-1])]
        first = np.maximum.accumulate(np.where(new, np.arange(len(query)), 0))
        return first - self.starts[query]

    @cached_property
    def pairs(self) -> np.ndarray:
        """(Q,) int64, pairs of documents of different relevance in each query."""
        return by_query.sums(self.lower, self.starts).astype(np.int64)

    def won(self, scores: np.ndarray) -> np.ndarray:
        """(n,) the pairs that each document wins as the better one by the scores (n,), ties as one half."""
        return by_query.wins(scores, self.relevance, self.starts, np.ones((len(self), 1)))[0][:, 0]


def read_relevance(relevance: Any) -> np.ndarray:
    """(n,) float64 grades. Raises: DataError for values that are no finite numbers >= 0."""
    grade = number_column("relevance", relevance)
    bad = ~np.isfinite(grade) | (grade < 0)
    if bad.any():
        raise DataError(
            f"the relevance of {int(bad.sum())} of {len(grade)} documents is missing, infinite or negative, first in row "
            f"{int(np.flatnonzero(bad)[0])}. Relevance is a grade from 0 on; drop these rows or grade them."
        )
    return grade
