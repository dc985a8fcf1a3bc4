"""The range that numbers had in training, and rows whose numbers lie outside: a value in other units, a wrong date."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from fairbound.tables.numbers import NumberFeature
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
        for j in np.flatnonzero(some | small).tolist():
            self._count(found, self._features[j], _finite(columns[j]), bool(some[j]))
        return found

    def _count(self, found: Outside, spec: NumberFeature, values: np.ndarray, some: bool) -> None:
        if some and spec.low is not None and spec.high is not None:
            width = spec.high - spec.low
            beyond = np.count_nonzero((values < spec.low) | (values > spec.high))
            far = np.count_nonzero((values < spec.low - width) | (values > spec.high + width))
            found.ranges[spec.name] = "" if spec.kind == "days" else f" (about {spec.low:.10g} to {spec.high:.10g})"
            if beyond and spec.kind == "number":  # new dates come after those of training
                found.beyond[spec.name] = int(beyond)
            if far:
                found.far[spec.name] = int(far)
        if tiny := int(np.count_nonzero(np.abs(values) < _tiny(spec))):
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


def _finite(column: np.ndarray) -> np.ndarray:
    """(n,) the numbers, infinities as missing."""
    values = np.asarray(column, dtype=np.float64)
    return np.where(np.isinf(values), np.nan, values)


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
