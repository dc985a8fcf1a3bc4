"""Which combinations of groups and labels occur among the rows, and how often: all that compiling a bound needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fairbound.base.errors import DataError
from fairbound.rows.groups import MISSING, Groups, cross

LARGEST_JOINT = 1 << 24


@dataclass(frozen=True)
class Occurring:
    """Counts of the (groups, label) combinations that occur. Counts of parts of the rows add up: see `merge`.

    attributes: A names; labels: the group names of each, in code order. codes: (u, A) int64, MISSING (-1) where not
    known;
    targets: (u,) class numbers; counts: (u,) rows, at least 1.
    """

    attributes: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    codes: np.ndarray
    targets: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(cls, groups: Groups, targets: np.ndarray, each: np.ndarray | None = None) -> Occurring:
        """groups of n rows, and their class numbers (n,); each: (n,) rows that each of them stands for,
        None for one."""
        y = np.asarray(targets).astype(np.int64, copy=False)
        sizes = [len(known) + 1 for known in groups.labels]
        joint = y - int(y.min(initial=0))
        span = int(joint.max(initial=0)) + 1
        for column, size in zip(groups.codes.T, sizes, strict=True):
            if span * size > LARGEST_JOINT:
                joint = np.unique(joint, return_inverse=True)[1].ravel()
                span = int(joint.max(initial=0)) + 1
            joint *= size
            joint += column
            joint += 1
            span *= size
        if span <= LARGEST_JOINT:
            counts = np.bincount(joint, weights=each, minlength=span).astype(np.int64)
            present = np.flatnonzero(counts)
            first = np.zeros(span, dtype=np.int64)
            first[joint[::-1]] = np.arange(len(joint))[::-1]
            at, counts = first[present], counts[present]
        else:
            _, at, place = np.unique(joint, return_index=True, return_inverse=True)
            counts = np.bincount(place.ravel(), weights=each).astype(np.int64)
        return cls(groups.attributes, groups.labels, groups.codes[at], y[at], counts)

    @classmethod
    def every(cls, attributes: Sequence[str], labels: Sequence[Sequence[str]], classes: int = 2) -> Occurring:
        """Every combination of the named groups once with each of the labels 0, 1, ..., for rows not seen yet."""
        sizes = [len(known) for known in labels]
        codes = np.indices([*sizes, classes]).reshape(len(sizes) + 1, -1).T
        known = tuple(tuple(str(v) for v in column) for column in labels)
        return cls(tuple(attributes), known, codes[:, :-1].copy(), codes[:, -1].copy(), np.ones(len(codes), np.int64))

    def merge(self, other: Occurring) -> Occurring:
        """The counts of both parts. Raises: DataError where their attributes or groups differ."""
        if (self.attributes, self.labels) != (other.attributes, other.labels):
            raise DataError("counts of rows can be merged only where attributes and groups are the same.")
        table = np.concatenate([np.column_stack([part.codes, part.targets]) for part in (self, other)])
        rows, place = np.unique(table, axis=0, return_inverse=True)
        counts = np.bincount(place.ravel(), weights=np.concatenate([self.counts, other.counts])).astype(np.int64)
        return Occurring(self.attributes, self.labels, rows[:, :-1], rows[:, -1], counts)

    @cached_property
    def rows(self) -> int:
        return int(self.counts.sum())

    def sizes(self, attributes: Sequence[int]) -> tuple[int, ...]:
        """Number of groups of each of the attributes."""
        return tuple(len(self.labels[a]) for a in attributes)

    def per_group(self, attributes: Sequence[int], label: int | None = None) -> np.ndarray:
        """(product of the sizes,) rows of every combination of the attributes' groups, of one label or of all."""
        sizes = self.sizes(attributes)
        code = cross([self.codes[:, a] for a in attributes], sizes)
        chosen = code != MISSING
        if label is not None:
            chosen = chosen & (self.targets == label)
        return np.bincount(code[chosen], weights=self.counts[chosen], minlength=int(np.prod(sizes))).astype(np.int64)

    def of_label(self, label: int) -> int:
        """Rows with this label."""
        return int(self.counts[self.targets == label].sum())
