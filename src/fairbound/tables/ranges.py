"""The range that numbers had in training, and rows whose numbers lie outside: a value in other units, a wrong date."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from fairbound.tables.numbers import NumberFeature
from fairbound.tables.sums import FOLD, Block

TINY = 50.0
"""A number is tiny where it is so many times less than the one in the middle of training."""

CELLS_IN_ONE = 1 << 10
"""Rows of at most so many numbers together are taken as one to find the ends of columns."""


@dataclass
class Outside:
    """By column, the rows whose number is `beyond` training's range; `far` beyond it, by more than the range is wide;
    and `tiny`. ranges: in words, of those columns. empty: rows without a value in any column."""

    beyond: dict[str, int] = field(default_factory=dict)
    far: dict[str, int] = field(default_factory=dict)
    tiny: dict[str, int] = field(default_factory=dict)
    ranges: dict[str, str] = field(default_factory=dict)
    empty: int = 0


class Ranges:
    """The ranges of columns of numbers, in order."""

    def __init__(self, features: Sequence[NumberFeature]):
        self.features = features
        self.low = np.array([-math.inf if feature.low is None else feature.low for feature in features])
        self.high = np.array([math.inf if feature.high is None else feature.high for feature in features])
        self.tiny = np.array([_tiny(feature) for feature in features])
        self.least = np.maximum(self.low, self.tiny)


class RangeCounts:
    """Counts, for some rows of columns after others, of what lies outside the ranges.

    source: columns (n,) of numbers, as many as there are ranges.
    """

    def __init__(self, ranges: Ranges, source: Block | Sequence[np.ndarray]):
        self.ranges, self.source = ranges, source
        self._left = np.zeros(len(ranges.features), dtype=bool)
        self._counts = np.zeros((3, len(ranges.features)), dtype=np.int64)

    def look(self, part: slice) -> None:
        """Count some rows, of which there is at least one. Columns that stay within their ranges there are passed over."""
        source, ranges = self.source, self.ranges
        if isinstance(source, Block):
            least, most = (ends_of(source.values[part], end)[source.at] for end in (np.fmin, np.fmax))
        else:
            least, most = (np.array([end.reduce(column[part]) for column in source]) for end in (np.fmin, np.fmax))
        if (least >= ranges.least).all() and (most <= ranges.high).all():
            return
        left = ~((least >= ranges.low) & (most <= ranges.high)) & ~np.isnan(least)
        flagged = np.flatnonzero(left | (least < ranges.tiny))
        self._left |= left
        for j in flagged.tolist():
            values = source.values[part, source.at[j]] if isinstance(source, Block) else source[j][part]
            of = ranges.low[j], ranges.high[j], ranges.tiny[j]
            self._counts[:, j] += _counted(np.asarray(values, dtype=np.float64), *of)

    def outside(self, gaps: Sequence[np.ndarray] | None) -> Outside:
        """What lies outside in the rows that were counted. gaps: (n,) bool of each other column, where it has no value;
        None where some column has one in every row."""
        found = Outside()
        columns = self.source.columns if isinstance(self.source, Block) else self.source
        if gaps is not None and len(columns) + len(gaps) > 1:
            found.empty = empty_rows([*map(np.isnan, columns), *gaps])
        for j in np.flatnonzero(self._left | (self._counts > 0).any(axis=0)).tolist():
            _tell(found, self.ranges.features[j], bool(self._left[j]), *self._counts[:, j].tolist())
        return found


def _counted(values: np.ndarray, low: float, high: float, tiny: float) -> tuple[int, int, int]:
    """How many values (n,) are beyond training's range, far beyond it, and tiny; infinities are missing."""
    outside = values[(values < low) | (values > high)]
    outside, width = outside[np.isfinite(outside)], high - low
    far = np.count_nonzero((outside < low - width) | (outside > high + width))
    return len(outside), int(far), int(np.count_nonzero(np.abs(values) < tiny)) if tiny > 0 else 0


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

    A few rows that lie one after another in memory are taken as one, which is sooner done.
    """
    if len(values) < FOLD or not values.flags.c_contiguous:
        return np.asarray(end.reduce(values, axis=0))
    fold = min(FOLD, 1 << (max(CELLS_IN_ONE // values.shape[1], 1).bit_length() - 1))
    whole = len(values) // fold * fold
    folded = end.reduce(values[:whole].reshape(whole // fold, -1), axis=0).reshape(fold, -1)
    if whole < len(values):
        folded = np.concatenate([folded, values[whole:]])
    return np.asarray(end.reduce(folded, axis=0))


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
