"""Columns of numbers: what is learnt of them, and their features, a few rows at a time.

A table may lie in memory row by row, its columns scattered. So all columns of a few rows are read before the next rows,
each number once for what is learnt and once for the features, and no copy of the whole table is made.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fairbound.base.errors import DataError
from fairbound.tables.cells import MISSING, WHOLE
from fairbound.tables.columns import Column

ROWS_AT_ONCE = 2048  # so that what is read and written stays in the cache
_SUMMED_AT_ONCE = 1 << 14
_LEAST_SPREAD = 1e-10  # sd over |mean|: below it the numbers may all be one
MANY_TIMES = 20  # rows for each of `min_count` from which on numbers that differ in fewer are divided by their range
_ORDINARY = (1e-100, 1e90)  # of the root mean square: sums of squares stay in range


def shown(value: float) -> str:
    """A value of a column in the name of a feature: ten digits, of large ones more, which may differ in their last."""
    return f"{value:.10g}" if abs(value) < 1e8 else f"{value:.16g}"


@dataclass(frozen=True)
class NumberFeature:
    """A standardised number, how far it lies above each of its knots, whether it lies beyond each of its jumps and,
    where training had gaps, a 0/1 column that marks them.

    Weighted sums of the first three are the functions of the number that are linear between knots and jumps.
    """

    name: str
    kind: str  # "number" or "days"
    mean: float
    sd: float | None  # as `_divisor`; None where the known values are constant and only the indicator is a feature
    median: float
    indicator: bool
    knots: tuple[float, ...] = ()  # ascending, in the column's units
    jumps: tuple[float, ...] = ()  # likewise
    low: float | None = None  # of a range that held all values of training; None in folders written before it was kept
    high: float | None = None
    gaps: float = 0.0  # share of the training rows without a value
    order: str = ""  # of days, as of `Column`

    @property
    def feature_names(self) -> list[str]:
        """Names of its features, in order."""
        above = [f"{self.name} above {shown(knot)}" for knot in self.knots]
        beyond = [f"{self.name}>{shown(jump)}" for jump in self.jumps]
        return [self.name] * (self.sd is not None) + above + beyond + [f"{self.name}={MISSING}"] * self.indicator

    @property
    def indicator_at(self) -> int:
        """How many of its features stand before the 0/1 column of gaps."""
        return 0 if self.sd is None else 1 + len(self.knots) + len(self.jumps)

    def fill(self, out: np.ndarray, at: int, values: np.ndarray, missing: np.ndarray | None) -> None:
        """Write the features of `values` (b,) float64, which is changed, into ``out[:, at:]``, zeros before.

        missing: (b,) bool, None where nothing is missing. A value too far from training becomes infinite.
        """
        if self.sd is not None:
            if missing is not None:
                values[missing] = self.median
            end = at + self.indicator_at
            if self.jumps:
                jumps = np.array(self.jumps)
                by_column = out.strides[0] < out.strides[1]
                beyond = (values > jumps[:, None]).T if by_column else values[:, None] > jumps
                out[:, end - len(jumps) : end] = beyond
            values -= self.mean
            values /= self.sd
            out[:, at] = values
            if self.knots:
                out[:, at + 1 : at + 1 + len(self.knots)] = self.above(values)
        if self.indicator and missing is not None:
            out[:, at + self.indicator_at] = missing

    def in_units(self, values: Sequence[float]) -> tuple[float, ...]:
        """Standardised values in the column's units, ascending, without what rounding left in their last digits."""
        assert self.sd is not None
        return tuple(sorted({float(f"{self.mean + self.sd * value:.15g}") for value in values}))

    def above(self, values: np.ndarray) -> np.ndarray:
        """(b, k) how far standardised values (b,) lie above each knot."""
        assert self.sd is not None
        knots = (np.array(self.knots) - self.mean) / self.sd
        return np.maximum(values - knots[:, None], 0).T


_Place = tuple[NumberFeature, int, np.ndarray]
"""A column's feature, its first place among all features, and its values (n,)."""


@dataclass
class Tally:
    """Counts of one column: rows without a value, infinities among them, and the row of the first infinity."""

    missing: int = 0
    infinite: int = 0
    first: int = -1

    def of(self, values: np.ndarray, start: int) -> np.ndarray:
        """Count the values (b,) of the rows from `start` on; returns which are missing,
        infinities taken for missing."""
        infinite = np.isinf(values)
        missing = infinite | np.isnan(values)
        if infinite.any():
            self.first = start + int(infinite.argmax()) if self.first < 0 else self.first
            self.infinite += int(infinite.sum())
        self.missing += int(missing.sum())
        return missing


def slices(rows: int, size: int = ROWS_AT_ONCE) -> Iterator[slice]:
    """Consecutive parts of `rows` rows, of at most `size` each."""
    return (slice(at, min(at + size, rows)) for at in range(0, rows, size))


def fill_numbers(out: np.ndarray, places: Sequence[_Place], start: int = 0) -> list[Tally]:
    """Write columns of numbers into the feature matrix, zeros before; of each its place in `out` and its values (n,).

    start: the number of the first row, for messages. Returns what was counted of every column.
    Raises: DataError where a value is so far from training that the feature is not a finite float.
    """
    tallies = [Tally() for _ in places]
    room = np.empty(ROWS_AT_ONCE)
    for part in slices(len(out)) if places else ():
        values = room[: part.stop - part.start]
        with np.errstate(over="ignore", invalid="ignore"):
            for (feature, at, column), tally in zip(places, tallies, strict=True):
                values[:] = column[part]
                finite = math.isfinite(values.sum())
                missing = None if finite else tally.of(values, start + part.start)
                feature.fill(out[part], at, values, missing)
        if not np.isfinite(out[part]).all():
            _refuse_far(out[part], [(feature, at, column[part]) for feature, at, column in places], start + part.start)
    return tallies


def _refuse_far(out: np.ndarray, places: Sequence[_Place], start: int) -> None:
    for feature, at, values in places:
        far = ~np.isfinite(out[:, at])
        if feature.sd is not None and far.any():
            row = int(far.argmax())
            raise DataError(
                f"column {feature.name!r} has the value {values[row]:g} in row {start + row} (counting from 0), too far from "
                f"training (mean {feature.mean:g}, sd {feature.sd:g}) for a float. Correct it or leave it empty."
            )


# -- what is learnt --------------------------------------------------------------------------------------------------


def learn_number(column: Column, knots: int = 0, min_count: int = 1) -> tuple[NumberFeature | None, str | None]:
    """The feature of a column of numbers or days (finite or NaN), and why it or a part of it is dropped.

    knots: how many it may have at most. min_count: rows that must differ from the value of all others for it to be divided
    by its sd; with fewer, of many times as many, that would make it huge there, and it is divided by its range.
    """
    missing = column.missing
    gaps = bool(missing.any())
    known = column.values[~missing] if gaps else column.values
    if known.size == 0:
        return None, "no row has a value"
    low, high = float(known.min()), float(known.max())
    largest = max(abs(low), abs(high))
    unit = 1.0 if 1e-100 < largest < 1e100 or largest == 0 else largest  # so that sums of squares stay in range
    scaled = known if unit == 1.0 else known / unit
    mean, sd = float(scaled.mean() * unit), float(scaled.std() * unit)
    if low == high or sd == 0.0:
        return constant_number(column.name, column.kind, low, float(missing.mean()))
    median = float(np.median(scaled) * unit)
    sd = _divisor(known, sd, median, min_count) if unit == 1.0 else sd
    ends, share = range_of(low, high), float(missing.mean())
    return NumberFeature(
        column.name, column.kind, mean, sd, median, gaps, knots_of(known, knots), (), *ends, share
    ), None


def constant_number(name: str, kind: str, value: float, gaps: float) -> tuple[NumberFeature | None, str]:
    """The feature of a column whose known numbers are all `value`, where it has gaps to mark, and why it is dropped. gaps:
    their share of the rows."""
    reason = f"constant ({value:g})"
    if kind == "number" and abs(value) >= WHOLE:
        reason += " in float64, which cannot tell neighbouring numbers of this size apart; if they differ, leave it out or make it text"
    if not gaps:
        return None, reason
    reason = f"{reason} where known, only its missing indicator is kept"
    return NumberFeature(name, kind, value, None, value, True, gaps=gaps), reason


def _divisor(known: np.ndarray, sd: float, common: float, min_count: int) -> float:
    """What values (n,) of this population sd are divided by: that, or their range where they are `common` in all rows but
    fewer than `min_count`, of MANY_TIMES as many or more."""
    few = len(known) >= MANY_TIMES * min_count and all(
        np.count_nonzero(some != common) < min_count for some in (known[: MANY_TIMES * min_count], known)
    )
    return float(known.max()) - float(known.min()) if few else sd


def range_of(low: float, high: float) -> tuple[float | None, float | None]:
    """A range that holds all numbers from `low` to `high` and ends at round ones, so that a saved model tells the
    greatest and least of no one; None where they are too far apart."""
    width = high - low
    if not 0 < width < math.inf:
        return None, None
    step = 10.0 ** math.floor(math.log10(width))
    ends = math.floor(low / step) * step, math.ceil(high / step) * step
    return ends if all(map(math.isfinite, ends)) else (None, None)


def knots_of(values: np.ndarray, most: int) -> tuple[float, ...]:
    """At most `most` of the values (n,), at equal steps of rank, all strictly between the least and the largest."""
    low, high = values.min(), values.max()
    if not most or not ((values > low) & (values < high)).any():
        return ()
    ranks = np.linspace(0, 1, most + 2)[1:-1] * (len(values) - 1)
    at = np.unique(np.sort(values)[ranks.astype(np.int64)])  # sooner than by np.quantile
    return tuple(float(knot) for knot in at if low < knot < high)


def learn_numbers(columns: Sequence[Column], knots: int = 0, min_count: int = 1) -> dict[str, NumberFeature]:
    """What `learn_number` learns of those columns that have a finite value of ordinary size in every row, and vary.

    The same numbers to the last bit, from a quarter of the columns at a time, so that a quarter of the table is copied.
    """
    found = {}
    size = -(-len(columns) // 4)
    for first in range(0, len(columns), max(size, 1)):
        some = columns[first : first + size]
        for column, values in zip(some, together([c.values for c in some]), strict=True):
            feature = _learn_ordinary(column, values, knots, min_count)
            if feature is not None:
                found[column.name] = feature
    return found


def together(columns: Sequence[np.ndarray]) -> list[np.ndarray]:
    """A contiguous copy of each of some columns (n,), read a few rows at a time."""
    sizes = [-(-column.size * column.itemsize // 64) * 64 for column in columns]
    room = np.empty(sum(sizes), dtype=np.uint8)  # in one piece, which the system takes back at once
    ends = np.cumsum(sizes)
    out = [
        room[end - size :][: c.size * c.itemsize].view(c.dtype)
        for c, size, end in zip(columns, sizes, ends, strict=True)
    ]
    for part in slices(len(columns[0])):
        for to, column in zip(out, columns, strict=True):
            to[part] = column[part]
    return out


def _learn_ordinary(column: Column, values: np.ndarray, knots: int, min_count: int) -> NumberFeature | None:
    """The feature of a column, None where `learn_number` must see it. values: (n,) a copy, whose order is changed."""
    n = len(values)
    with np.errstate(over="ignore", invalid="ignore"):
        mean = _sum(values, None) / n
        if not math.isfinite(mean):
            return None
        sd = math.sqrt(_sum(values, mean) / n)
        size = math.hypot(mean, sd)
    if not _ORDINARY[0] < size < _ORDINARY[1] or sd <= _LEAST_SPREAD * abs(mean):
        return None
    ends = range_of(float(values.min()), float(values.max()))
    known, median = knots_of(values, knots), median_of(values)
    sd = _divisor(values, sd, median, min_count)
    return NumberFeature(column.name, column.kind, mean, sd, median, False, known, (), *ends, order=column.order)


def _sum(values: np.ndarray, centre: float | None) -> float:
    """The sum of values (n,), or of their squares about `centre`, as float64; bit for bit what numpy's sum of the whole
    is.

    numpy halves a sum until it is short (pairwise summation); so do the parts here.
    """
    n = len(values)
    if n > _SUMMED_AT_ONCE:
        half = n // 2 - n // 2 % 8
        return _sum(values[:half], centre) + _sum(values[half:], centre)
    part = values.astype(np.float64)
    if centre is not None:
        part -= centre
        part *= part
    return float(part.sum())


def median_of(values: np.ndarray) -> float:
    """The median of values (n,) without NaN, whose order is changed."""
    middle = len(values) // 2
    for end in (values.min(), values.max()):  # a partition of values most of which are alike takes long
        if 2 * np.count_nonzero(values == end) > len(values):
            return float(end)
    values.partition(middle)
    high = float(values[middle])
    return high if len(values) % 2 else (float(values[:middle].max()) + high) / 2
