"""Rows grouped by stratum: those in the same cells of every constraint."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Strata:
    """Rows grouped by stratum: rows starts[s] .. starts[s] + sizes[s] of the sorted data belong to stratum s.

    order: (n,) the numbers of the rows in that order, int32 where these hold them."""

    order: np.ndarray
    starts: np.ndarray
    sizes: np.ndarray

    @classmethod
    def of(cls, cells: np.ndarray) -> Strata:
        """cells: (n, C) integers; equal rows are one stratum."""
        stratum, sizes = strata_of(cells)
        order = np.argsort(stratum, kind="stable").astype(np.int32 if len(stratum) < 1 << 31 else np.int64)
        return cls(order, np.concatenate([[0], np.cumsum(sizes)[:-1]]), sizes)


def strata_of(cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(n,) the number of each row's stratum, in the smallest integers that hold it, and the rows of each stratum.
    cells: as in `Strata.of`."""
    n = len(cells)
    if cells.shape[1] == 0:
        return np.zeros(n, dtype=np.uint8), np.array([n])
    joint = cells[:, 0].astype(np.int64)
    joint -= joint.min()
    for column in cells.T[1:]:
        least = int(column.min())
        joint *= int(column.max()) - least + 1
        joint += column
        joint -= least
        if joint.max() > n:
            joint = np.unique(joint, return_inverse=True)[1].ravel()
    return ranked(joint)


def in_least_memory(codes: np.ndarray) -> np.ndarray:
    """Whole numbers (n,), n > 0, in the smallest integers that hold them."""
    return codes.astype(np.result_type(*(np.min_scalar_type(int(end)) for end in (codes.min(), codes.max()))))


def ranked(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(n,) rank of each code >= 0 among those that occur, in the smallest integers that hold it,
    and the rows of each rank."""
    if codes.max(initial=0) > 4 * len(codes) + 1024:
        _, rank, sizes = np.unique(codes, return_inverse=True, return_counts=True)
        return rank.ravel(), sizes
    counts = np.bincount(codes)
    place = np.cumsum(counts > 0) - 1
    return place.astype(np.min_scalar_type(max(len(counts) - 1, 0)))[codes], counts[counts > 0]
