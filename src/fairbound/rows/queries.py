"""Rows that belong to queries: the documents of a query lie together, a batch is some queries with all their documents,
and a split never divides a query.

Query q of the sorted rows is starts[q] .. starts[q + 1]. Batches draw queries as `sampling` draws rows, so that batch k
of a stream is a function of (seed, name, k, size, kind) alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from fairbound.base.errors import DataError
from fairbound.rows.reading import column_values, factorised, is_missing, plain_column
from fairbound.rows.sampling import block_length, draw_rows
from fairbound.rows.split import split_whole
from fairbound.rows.strata import Strata


@dataclass(frozen=True, eq=False)
class Queries:
    """n documents of Q queries.

    order: (n,) numbers of the rows as given, the documents of a query one after another. starts: (Q + 1,) where each
    query begins among the sorted rows, and n at the end. labels: (Q,) what the queries are called, in the order in
    which they come first.
    """

    order: np.ndarray
    starts: np.ndarray
    labels: np.ndarray

    @classmethod
    def of(cls, qid: Any, within: Any = None) -> Queries:
        """qid: (n,) the query of each row, numbers or texts; rows of one query need not be neighbours. within: (n,)
        numbers by which the documents of a query are sorted, ascending; None keeps them as they come.

        Raises: DataError for no rows, for another shape, and where a query is missing.
        """
        codes, labels = query_codes(qid)
        if within is not None and len(within) != len(codes):
            raise DataError(f"there are {len(codes)} rows with a query, but {len(within)} numbers to sort them by.")
        order = np.argsort(codes, kind="stable") if within is None else np.lexsort((np.asarray(within), codes))
        starts = np.concatenate([[0], np.cumsum(np.bincount(codes, minlength=len(labels)))])
        return cls(order, starts, labels)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def rows(self) -> int:
        """Number of documents."""
        return len(self.order)

    @property
    def sizes(self) -> np.ndarray:
        """(Q,) documents of each query."""
        return np.diff(self.starts)

    @property
    def of_rows(self) -> np.ndarray:
        """(n,) query of each sorted row."""
        return np.repeat(np.arange(len(self)), self.sizes)

    def codes(self) -> np.ndarray:
        """(n,) query of each row as given."""
        out = np.empty(self.rows, dtype=np.int64)
        out[self.order] = self.of_rows
        return out

    def merge(self, other: Queries) -> Queries:
        """Of the rows of both, those of `other` behind these; queries of the same name are one."""
        place, names = factorised([*self.labels.tolist(), *other.labels.tolist()])
        codes = np.concatenate([place[: len(self)][self.codes()], place[len(self) :][other.codes()]])
        return replace(Queries.of(codes), labels=_labels(names))

    def documents(self, queries: np.ndarray) -> np.ndarray:
        """Sorted rows of the queries (B,), one query after another; a query that is named twice comes twice."""
        return ragged(self.starts[queries], self.sizes[queries])

    def draw(self, seeds: Sequence[int], name: str, k: int, size: int, kind: str) -> list[np.ndarray]:
        """For each seed the queries (B,) of the k-th batch of the stream `name`.

        kind: "full" for all queries once; "shuffled" for epochs without repeats; "uniform" and "balanced" for `size` of
        them with replacement, or, where `size` is Q or more, "balanced" for each once.
        """
        if kind == "full":
            return [np.arange(len(self))] * len(seeds)
        block, place = divmod(k, block_length(size))
        return list(_drawn(len(self), tuple(seeds), name, block, size, kind)[place])


@lru_cache(maxsize=8)
def _drawn(count: int, seeds: tuple[int, ...], name: str, block: int, size: int, kind: str) -> np.ndarray:
    """The queries (T, R, B) of a block of batches, of `count` in all. A run asks for one batch after another,
    of few streams."""
    one = Strata(np.arange(count), np.zeros(1, dtype=np.int64), np.array([count]))
    return torch.sort(draw_rows(one, seeds, name, block, size, kind).index, -1).values.numpy()


def query_codes(qid: Any) -> tuple[np.ndarray, np.ndarray]:
    """(n,) numbers of the queries in the order in which they come first, and their names.
    Raises: DataError as `Queries.of`."""
    array = plain_column(qid)
    if array.ndim == 1 and array.dtype.kind in "iu":
        found, first, codes = np.unique(array, return_index=True, return_inverse=True)
        rank = np.argsort(np.argsort(first))
        codes, labels = rank[codes], found[np.argsort(first)]
    else:
        values = column_values("qid", qid)
        missing = sum(map(is_missing, values))
        if missing:
            raise DataError(f"the query is missing in {missing} of {len(values)} rows; drop these rows.")
        codes, names = factorised(values)
        labels = _labels(names)
    if not len(codes):
        raise DataError("there are no rows.")
    return codes, labels


def _labels(names: Sequence[Any]) -> np.ndarray:
    labels = np.empty(len(names), dtype=object)
    labels[:] = names
    return labels


def ragged(starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """starts[0], starts[0] + 1, ... (sizes[0] of them), then those of the next."""
    ends = np.cumsum(sizes)
    return np.repeat(starts - ends + sizes, sizes) + np.arange(int(ends[-1]) if len(ends) else 0)


def split_by_query(qid: Any, shares: Sequence[float], seed: int) -> list[np.ndarray]:
    """Random parts of the rows, first those left over, then a part for each share, each query whole in one of them.

    qid: as in `Queries.of`. shares: of the queries, rounded up. Returns: sorted row numbers, 1 + len(shares) arrays.
    """
    codes, _ = query_codes(qid)
    return split_whole(codes, np.zeros((len(codes), 0), dtype=np.int64), shares, seed)
