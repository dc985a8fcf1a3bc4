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
        left = ~((least >= ranges.low) & (most <= ranges.high)) & ~np.isnan(least)
        flagged = np.flatnonzero(left | (least < ranges.tiny))
        if not len(flagged):
            return
        self._left |= left
        if isinstance(source, Block):
            values = source.values[part][:, source.at[flagged]].astype(np.float64)
        else:
            values = np.column_stack([np.asarray(source[j][part], dtype=np.float64) for j in flagged.tolist()])
        self._counts[:, flagged] += _counted(values, *(of[flagged] for of in (ranges.low, ranges.high, ranges.tiny)))

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


def _counted(values: np.ndarray, low: np.ndarray, high: np.ndarray, tiny: np.ndarray) -> np.ndarray:
    """(3, k) how many values (n, k), which are changed, are beyond training's range, far beyond it, and tiny; infinities
    are missing."""
    values[np.isinf(values)] = np.nan
    beyond, width = (values < low) | (values > high), high - low
    far = (values < low - width) | (values > high + width) if beyond.any() else beyond
    return np.array([np.count_nonzero(of, axis=0) for of in (beyond, far, np.abs(values) < tiny)])


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
