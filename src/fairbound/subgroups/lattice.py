"""The lattice of conjunctions over occurring cells: refine one attribute at a time, drop what has too few rows.

A *family* is all conjunctions that fix the same attributes and have at least `min_count` rows. Fixing one attribute
more can only lose rows, so a family's refinement needs only the cells inside its survivors. Attributes are taken in one
order, largest first, and a family is refined by later attributes only: each set of attributes is met once.

Source: Beyer, Ramakrishnan (1999), bottom-up computation of iceberg cubes; Agrawal, Srikant (1994) for the pruning.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

DENSE_AT_LEAST = 1 << 20


@dataclass(frozen=True)
class Family:
    """Conjunctions that fix `fixed` (positions in the lattice's order of attributes).

    index: (g,) int64 numbers. count: (g,) int64 rows. cells: (r,) cells inside, group after group, ascending in each.
    starts: (g + 1,) where each group's cells begin.
    """

    fixed: tuple[int, ...]
    index: np.ndarray
    count: np.ndarray
    cells: np.ndarray
    starts: np.ndarray

    def __len__(self) -> int:
        return len(self.index)

    @property
    def nbytes(self) -> int:
        return self.index.nbytes + self.count.nbytes + self.cells.nbytes + self.starts.nbytes

    def keep(self, mask: np.ndarray) -> Family:
        """Only the conjunctions of mask (g,)."""
        if mask.all():
            return self
        lengths = np.diff(self.starts)
        return Family(
            self.fixed,
            self.index[mask],
            self.count[mask],
            self.cells[np.repeat(mask, lengths)],
            np.concatenate([[0], np.cumsum(lengths[mask])]),
        )


class Lattice:
    """Refinement of conjunctions over k cells.

    codes: (k, A) code of each cell, -1 missing. count: (k,) rows of each. weights: (A,) of the mixed-radix number.
    """

    def __init__(
        self,
        codes: np.ndarray,
        count: np.ndarray,
        sizes: Sequence[int],
        weights: np.ndarray,
        min_count: int,
        max_fixed: int | None = None,
    ):
        self.count, self.min_count = count, min_count
        self.depth = len(sizes) if max_fixed is None else min(max_fixed, len(sizes))
        order = sorted(range(len(sizes)), key=lambda a: (-sizes[a], a))
        self.sizes, self.weights = [sizes[a] for a in order], [int(weights[a]) for a in order]
        narrow = np.int16 if max(sizes) < 2**15 else np.int32
        self.columns = [np.ascontiguousarray(codes[:, a], dtype=narrow) for a in order]

    def root(self) -> Family:
        """Everyone; no conjunction where there are fewer than min_count rows."""
        k, total = len(self.count), int(self.count.sum())
        root = Family((), np.zeros(1, np.int64), np.array([total]), np.arange(k, dtype=np.int32), np.array([0, k]))
        return root.keep(root.count >= self.min_count)

    def later(self, family: Family) -> range:
        """The attributes by which the family may still be refined."""
        if len(family.fixed) >= self.depth or not len(family):
            return range(0)
        return range(family.fixed[-1] + 1 if family.fixed else 0, len(self.sizes))

    def refine(self, family: Family, attribute: int) -> Family:
        """The conjunctions of `family` with one more attribute fixed, of at least min_count rows."""
        size, cells = self.sizes[attribute], family.cells
        code = self.columns[attribute][cells]
        group = np.repeat(np.arange(len(family)), np.diff(family.starts))
        known = code >= 0
        if not known.all():
            cells, code, group = cells[known], code[known], group[known]
        key = group * size + code
        values = None
        if len(family) * size > max(DENSE_AT_LEAST, 4 * len(key)):
            values, key = np.unique(key, return_inverse=True)
        rows = np.bincount(key, weights=self.count[cells], minlength=0 if values is not None else len(family) * size)
        kept = np.flatnonzero(rows >= self.min_count)
        place = np.full(len(rows), -1, dtype=np.int32)
        place[kept] = np.arange(len(kept), dtype=np.int32)
        child = place[key]
        inside = child >= 0
        cells, child = cells[inside], child[inside]
        if len(kept) < 2**16:
            child = child.astype(np.uint16)
        parent, value = np.divmod(kept if values is None else values[kept], size)
        return Family(
            (*family.fixed, attribute),
            family.index[parent] + (value + 1) * self.weights[attribute],
            rows[kept].astype(np.int64),
            cells[np.argsort(child, kind="stable")],
            np.concatenate([[0], np.cumsum(np.bincount(child, minlength=len(kept)))]),
        )

    def families(self, within: Family | None = None) -> Iterator[Family]:
        """Every family that has a conjunction, the root first; holds one path down the tree at a time."""
        family = self.root() if within is None else within
        if len(family):
            yield family
            for attribute in self.later(family):
                yield from self.families(self.refine(family, attribute))
