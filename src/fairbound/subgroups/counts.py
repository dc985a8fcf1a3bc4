"""What of a product of attributes occurs in the data: cells counted in one pass, conjunctions counted on demand, draws.

A *cell* is a distinct row of codes. There are at most as many as rows, however many subgroups are nominal, and the
rows of any subgroup are the rows of some cells, so everything after the one pass over the rows works on cells.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from fairbound.base.errors import DataError, OptionError
from fairbound.base.seeds import seed_for
from fairbound.rows.groups import MISSING
from fairbound.subgroups.index import OPEN, Subgroups
from fairbound.subgroups.lattice import Lattice

ROWS_AT_ONCE = 1 << 17
TRIALS_PER_DRAW = 1000


@dataclass(frozen=True, eq=False)
class OccurringCells:
    """The cells that occur among `rows` rows.

    key: (k,) int64, ascending: a cell's code row as a number, with digit 0 where the value is missing. Where nothing is
        missing it is the number of the subgroup that fixes every attribute.
    count: (k,) int64 rows of each cell. row_cell: (n,) int32 cell of each row, or None where rows came as a stream.
    """

    subgroups: Subgroups
    key: np.ndarray
    count: np.ndarray
    row_cell: np.ndarray | None = None
    codes: np.ndarray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        narrow = np.int16 if max(self.subgroups.sizes) < 2**15 else np.int32
        codes = np.empty((len(self.key), len(self.subgroups.sizes)), dtype=narrow, order="F")
        rest = self.key
        for j, weight in enumerate(self.subgroups.weights):
            digit, rest = np.divmod(rest, weight)
            codes[:, j] = digit - 1
        object.__setattr__(self, "codes", codes)

    def __len__(self) -> int:
        return len(self.key)

    @property
    def rows(self) -> int:
        return int(self.count.sum())

    @property
    def complete(self) -> np.ndarray:
        """(k,) bool: cells without a missing value; their keys are subgroup numbers."""
        return (self.codes != MISSING).all(axis=1)

    def at_least(self, min_count: int) -> tuple[np.ndarray, np.ndarray]:
        """Numbers and row counts of the subgroups that fix every attribute and have at least min_count rows."""
        kept = self.complete & (self.count >= min_count)
        return self.key[kept], self.count[kept]

    def inside(self, index: int) -> np.ndarray:
        """(k,) bool: the cells inside one subgroup."""
        out = np.ones(len(self.key), dtype=bool)
        for column, code in zip(self.codes.T, self.subgroups.decode([index])[0], strict=True):
            if code != OPEN:
                out &= column == code
        return out

    def lattice(self, min_count: int, max_fixed: int | None = None) -> Lattice:
        check_limits(min_count, max_fixed)
        return Lattice(self.codes, self.count, self.subgroups.sizes, self.subgroups.weights, min_count, max_fixed)

    def frequent(self, min_count: int, max_fixed: int | None = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """(numbers, row counts) of every subgroup with at least min_count rows and at most max_fixed fixed attributes.

        One pair of arrays for each set of fixed attributes that has any, made when asked for; the first is everyone.
        """
        for family in self.lattice(min_count, max_fixed).families():
            yield family.index, family.count

    def draw(
        self,
        size: int,
        seed: int,
        *,
        min_count: int = 1,
        kind: Literal["conjunctions", "cells"] = "conjunctions",
        max_fixed: int | None = None,
    ) -> np.ndarray:
        """(at most size,) int64 numbers of distinct subgroups with at least min_count rows, drawn uniformly by `seed`.

        kind: "cells" draws among those that fix every attribute; "conjunctions" among all that fix at least one and at
            most max_fixed. These are drawn without listing them: a set of attributes, then a row, and the subgroup of
            that row is kept with probability min_count / its rows, which cancels that large ones are met more often.
        Fewer than `size` come back where there are fewer, or where 1000 trials per draw met no more.
        Raises: DataError where there is none, or the trials met none.
        """
        check_limits(min_count, max_fixed)
        if size < 1 or kind not in ("conjunctions", "cells"):
            raise OptionError(f"size must be at least 1 and kind 'conjunctions' or 'cells', got {size}, {kind!r}.")
        rng = np.random.default_rng(seed_for("subgroups", kind, root=seed))
        if kind == "cells":
            found, _ = self.at_least(min_count)
            drawn = rng.choice(found, size=min(size, len(found)), replace=False) if len(found) else found
        else:
            drawn = self._draw_conjunctions(size, rng, min_count, max_fixed)
        if not len(drawn):
            raise DataError(
                f"no subgroup with at least {min_count} rows was met ({kind}, {self.rows} rows). Lower min_count or "
                "max_fixed, or bin the attributes more coarsely."
            )
        return drawn

    def _draw_conjunctions(
        self, size: int, rng: np.random.Generator, min_count: int, max_fixed: int | None
    ) -> np.ndarray:
        total = len(self.subgroups.sizes)
        depth = total if max_fixed is None else min(max_fixed, total)
        ways = np.array([math.comb(total, d) for d in range(1, depth + 1)], dtype=float)
        upto = np.cumsum(self.count)
        drawn: dict[int, None] = {}
        for _ in range(size * TRIALS_PER_DRAW):
            fixed = rng.choice(total, size=rng.choice(depth, p=ways / ways.sum()) + 1, replace=False)
            values = self.codes[np.searchsorted(upto, rng.integers(upto[-1]), side="right"), fixed].astype(np.int64)
            accept = rng.random()
            if (values == MISSING).any():
                continue
            inside = np.ones(len(self.key), dtype=bool)
            for attribute, value in zip(fixed, values, strict=True):
                inside &= self.codes[:, attribute] == value
            rows = int(self.count[inside].sum())
            if rows >= min_count and accept * rows < min_count:
                drawn.setdefault(int((values + 1) @ self.subgroups.weights[fixed]))
                if len(drawn) == size:
                    break
        return np.array(list(drawn), dtype=np.int64)


def occurring(subgroups: Subgroups, codes: np.ndarray | Iterable[np.ndarray]) -> OccurringCells:
    """Count the cells of rows in one pass.

    codes: (n, A) group codes, -1 missing; or an iterable of such arrays, as when a file is read part by part (then only
        the cells are kept in memory, and `most_violated` is not available).
    Raises: DataError where a code is out of range, or there are no rows.
    """
    parts = _slices(codes) if isinstance(codes, np.ndarray) else codes
    held: list[tuple[np.ndarray, np.ndarray]] = []
    for part in parts:
        keys, count = np.unique(subgroups.encode(part), return_counts=True)
        held.append((keys, count.astype(np.int64)))
        while len(held) > 1 and len(held[-2][0]) <= 2 * len(held[-1][0]):
            held[-2:] = [_merged(held[-2:])]
    if not held or not len(held[0][0]):
        raise DataError("there are no rows to count subgroups in.")
    key, count = _merged(held)
    row_cell = None
    if isinstance(codes, np.ndarray):
        places = (np.searchsorted(key, subgroups.encode(part)).astype(np.int32) for part in _slices(codes))
        row_cell = np.concatenate(list(places))
    return OccurringCells(subgroups, key, count, row_cell)


def _slices(codes: np.ndarray) -> Iterator[np.ndarray]:
    return (codes[i : i + ROWS_AT_ONCE] for i in range(0, len(codes), ROWS_AT_ONCE))


def _merged(held: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    if len(held) == 1:
        return held[0]
    key, place = np.unique(np.concatenate([k for k, _ in held]), return_inverse=True)
    count = np.zeros(len(key), dtype=np.int64)
    np.add.at(count, place, np.concatenate([c for _, c in held]))
    return key, count


def check_limits(min_count: int, max_fixed: int | None) -> None:
    """Raises: OptionError where a limit is below 1."""
    if min_count < 1 or (max_fixed is not None and max_fixed < 1):
        raise OptionError(f"min_count and max_fixed must be at least 1, got {min_count} and {max_fixed}.")
