"""The range that numbers had in training, and rows whose numbers lie outside: a value in other units, a wrong date."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from fairbound.tables.numbers import NumberFeature, slices
from fairbound.tables.sums import Block

TINY = 50.0
"""A number is tiny where it is so many times less than the one in the middle of training."""


@dataclass
class Outside:
    """By column, the rows whose number is `beyond` training's range; `far` beyond it, by more than the range is wide;
    and `tiny`. ranges: in words, of those columns. empty: rows without a value in any column."""

    beyond: dict[str, int] = field(default_factory=dict)
    far: dict[str, int] = field(default_factory=dict)
    tiny: dict[str, int] = field(default_factory=dict)
    ranges: dict[str, str] = field(default_factory=dict)
    empty: int = 0


FOLD = 64
"""Rows of a table that are compared at once."""


class Ranges:
    """The ranges of columns of numbers, in order."""

    def __init__(self, features: Sequence[NumberFeature]):
        self._features = features
        self._low = np.array([-math.inf if feature.low is None else feature.low for feature in features])
        self._high = np.array([math.inf if feature.high is None else feature.high for feature in features])
        self._tiny = np.array([_tiny(feature) for feature in features])

    def outside(self, source: Block | Sequence[np.ndarray], gaps: Sequence[np.ndarray] | None) -> Outside:
        """What lies outside in columns (n,) of numbers, as many as there are features. gaps: (n,) bool of each other column,
        where it has no value; None where some column has one in every row."""
        found = Outside()
        columns = source.columns if isinstance(source, Block) else source
        if gaps is not None and len(columns) + len(gaps) > 1:
            found.empty = empty_rows([*map(np.isnan, columns), *gaps])
        if not len(columns) or not len(columns[0]):
            return found
        if isinstance(source, Block):
            least, most = (ends_of(source.values, end)[source.at] for end in (np.fmin, np.fmax))
        else:
            least, most = (np.array([end.reduce(column) for column in columns]) for end in (np.fmin, np.fmax))
        some = ~((least >= self._low) & (most <= self._high)) & ~np.isnan(least)
        small = least < self._tiny
        flagged = np.flatnonzero(some | small)
        for j, counts in zip(flagged.tolist(), self._counted(source, flagged).T.tolist(), strict=True):
            _tell(found, self._features[j], bool(some[j]), *counts)
        return found

    def _counted(self, source: Block | Sequence[np.ndarray], flagged: np.ndarray) -> np.ndarray:
        """(3, k) how many rows of each of these columns are beyond training's range, far beyond it, and tiny; infinities are
        missing. A few rows at a time, as those of a table lie together."""
        low, high, tiny = (of[flagged] for of in (self._low, self._high, self._tiny))
        width, counts = high - low, np.zeros((3, len(flagged)), dtype=np.int64)
        rows = len(source.values if isinstance(source, Block) else source[0])
        for part in slices(rows if len(flagged) else 0):
            if isinstance(source, Block):
                values = source.values[part][:, source.at[flagged]].astype(np.float64)
            else:
                values = np.column_stack([np.asarray(source[j][part], dtype=np.float64) for j in flagged])
            values[np.isinf(values)] = np.nan
            beyond = (values < low) | (values > high)
            counts[0] += np.count_nonzero(beyond, axis=0)
            if beyond.any():
                counts[1] += np.count_nonzero((values < low - width) | (values > high + width), axis=0)
            counts[2] += np.count_nonzero(np.abs(values) < tiny, axis=0)
        return counts


def _tell(found: Outside, spec: NumberFeature, some: bool, beyond: int, far: int, tiny: int) -> None:
    """Add what was counted of a column. some: whether its numbers left training's range."""
    if some and spec.low is not None and spec.high is not None:
        found.ranges[spec.name] = "" if spec.kind == "days" else f" (about {spec.low:.10g} to {spec.high:.10g})"
        if beyond and spec.kind == "number":  # new dates come after those of training
            found.beyond[spec.name] = beyond
        if far:
            found.far[spec.name] = far
    if tiny:
        found.tiny[spec.name] = tiny
        found.ranges.setdefault(spec.name, "")


def ends_of(values: np.ndarray, end: np.ufunc) -> np.ndarray:
    """(c,) the least (np.fmin) or greatest (np.fmax) numbers of the columns of values (n, c), NaN where there is none.

    FOLD rows that lie one after another in memory are taken as one, which is sooner done.
    """
    if len(values) < FOLD or not values.flags.c_contiguous:
        return np.asarray(end.reduce(values, axis=0))
    whole = len(values) // FOLD * FOLD
    folded = end.reduce(values[:whole].reshape(whole // FOLD, -1), axis=0).reshape(FOLD, -1)
    return np.asarray(end.reduce(np.concatenate([folded, values[whole:]]), axis=0))


def _tiny(spec: NumberFeature) -> float:
    """Below what a number is tiny; below 0 where none is."""
    whole = spec.kind == "number" and spec.low is not None and spec.low >= 0
    return abs(spec.median) / TINY if whole and spec.median else -math.inf


def empty_rows(missing: Iterable[np.ndarray]) -> int:
    """How many rows have no value in any column. missing: (n,) bool of each."""
    left: np.ndarray | None = None
    for column in missing:
        left = column if left is None else left & column
        if not left.any():
            return 0
    return 0 if left is None else int(left.sum())
