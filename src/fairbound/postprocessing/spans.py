"""Inequalities a q_i - b q_j <= bound between every two of some cells, all at once: a max q - b min q <= bound.

k groups under one bound on differences are k (k - 1) inequalities, and 2 k numbers to look at.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components


@dataclass(frozen=True)
class Span:
    """a q_i - b q_j <= bound for every two of `cells` (c,), with 0 < a <= b."""

    cells: np.ndarray
    a: float
    b: float
    bound: float

    def largest(self, q: np.ndarray) -> np.ndarray:
        """(T,) the largest excess at means q >= 0 (k, T). With a < b a cell is compared with itself too,
        which is no excess."""
        some = q[self.cells]
        return self.a * some.max(0) - self.b * some.min(0) - self.bound


def spans_of(contrasts: sparse.csr_array, bounds: np.ndarray) -> tuple[list[Span], np.ndarray]:
    """The spans of three cells or more among contrasts (m, k) <= bounds (m,), and the numbers of the other rows."""
    two = np.flatnonzero(np.diff(contrasts.indptr) == 2)
    at = contrasts.indptr[two, None] + np.arange(2)
    order = np.argsort(-contrasts.data[at], axis=1)
    cell, value = (np.take_along_axis(of[at], order, 1) for of in (contrasts.indices, contrasts.data))
    kinds, kind = np.unique(np.column_stack([value, bounds[two]]), axis=0, return_inverse=True)
    spans, other = [], np.ones(len(bounds), dtype=bool)
    for number, (a, b, bound) in enumerate(kinds):
        if not 0 < a <= -b:
            continue
        rows = np.flatnonzero(kind.ravel() == number)
        i, j = cell[rows].T
        graph = sparse.csr_array((np.ones(len(rows)), (i, j)), (contrasts.shape[1],) * 2)
        part = connected_components(graph, directed=False)[1]
        size, pairs = np.bincount(part), np.bincount(part[graph.nonzero()[0]], minlength=part.max() + 1)
        whole = (size > 2) & (pairs == size * (size - 1))
        spans += [Span(np.flatnonzero(part == k), a, -b, bound) for k in np.flatnonzero(whole)]
        other[two[rows[whole[part[i]]]]] = False
    return spans, np.flatnonzero(other)
