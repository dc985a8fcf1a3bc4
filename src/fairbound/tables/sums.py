"""Weighted sums of the features of numbers, a few rows at a time and without making the features.

A number x with mean m, deviation s, knots k_1 < k_2 < ..., jumps j_1 < j_2 < ... and weights w, v_1, v_2, ..., u_1,
u_2, ... adds

    w (x - m) / s + sum_i v_i max(x - k_i, 0) / s + sum_i u_i 1[x > j_i]

so slopes w / s and v_i / s are multiplied with x and max(x, k_i), and what does not depend on x is taken off once. As
knots ascend, max(x, k_i) is made of max(x, k_{i-1}) in its place. Jumps are looked up: one sum for each interval
between two of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fairbound.rows.reading import frame_of
from fairbound.tables.columns import is_plain
from fairbound.tables.numbers import NumberFeature, Tally, fill_numbers, slices

CELLS_AT_ONCE = 3 << 17  # of float64, so that what is read and written stays in the cache
ROWS_AT_ONCE = 1 << 15  # at most, so that narrow tables need little memory
CELLS_COPIED = 1 << 18
"""A frame with at most so many cells is copied into one array, which is quicker than to look at every column."""
FOLD = 64
"""Rows are read a multiple of so many at a time, as their ends are looked for up to so many at once."""
_FAR = 64.0  # |mean| over sd: above it a weighted number's own rounding is 64 times its feature's or more


@dataclass(frozen=True)
class Block:
    """Columns of numbers as parts of one array (n, c). at: (k,) the place of each."""

    values: np.ndarray
    at: np.ndarray

    @property
    def columns(self) -> list[np.ndarray]:
        """The columns (n,), views of the array."""
        return [self.values[:, place] for place in self.at]

    @classmethod
    def of(cls, columns: Sequence[np.ndarray]) -> Block | None:
        """The array of which the columns (n,) are views; None where they lie apart."""
        kinds = {(id(column.base), column.dtype, column.strides) for column in columns}
        if len(kinds) != 1 or columns[0].base is None or len(columns) < 2:
            return None
        at = np.array([column.__array_interface__["data"][0] for column in columns])
        step = int(np.diff(at).min())
        if step <= 0 or ((at - at[0]) % step).any() or at[-1] - at[0] >= 2 * len(columns) * step:
            return None
        at = (at - at[0]) // step
        shape, strides = (len(columns[0]), int(at[-1]) + 1), (*columns[0].strides, step)
        return cls(np.lib.stride_tricks.as_strided(columns[0], shape, strides, writeable=False), at)


def number_array(table: Any, names: Sequence[str] | None) -> np.ndarray | None:
    """(n, c) the numbers of a table that holds nothing else, often a view of it: of an array, or of a frame with the
    columns `names`.

    None of another table, and of a large frame whose columns do not lie together, so that this would be a copy of it.
    """
    if type(table) is np.ndarray:
        plain = table.dtype.kind in "iuf" and table.dtype.itemsize <= 8 and table.ndim == 2 and len(table) > 0
        return table if plain else None
    frame = None if names is None else frame_of(table)
    if frame is None or tuple(map(str, frame.columns)) != names or not len(frame):
        return None
    if not all(map(is_plain, frame.schema.values())):
        return None
    cells = len(frame) * len(frame.columns)
    if cells > CELLS_COPIED:
        whole = frame[:2].to_numpy().base
        if not isinstance(whole, np.ndarray) or whole.size < cells:
            return None
    found = frame.to_numpy()
    return found if found.dtype.kind in "iuf" and found.dtype.itemsize <= 8 else None


class NumberSums:
    """Weighted sums of the features of some columns of numbers.

    places: of each column its feature and the first place of this among all features.
    """

    def __init__(self, places: Sequence[tuple[NumberFeature, int]]):
        self.features = [feature for feature, _ in places]
        self.at = np.array([at for _, at in places], dtype=np.intp)

    @cached_property
    def _scales(self) -> tuple[np.ndarray, ...]:
        """(c,) deviations, infinite where only a gap is a feature, means and medians."""
        each = [(np.inf, 0.0, 0.0) if f.sd is None else (f.sd, f.mean, f.median) for f in self.features]
        return tuple(np.array(each, dtype=float).reshape(-1, 3).T)

    @cached_property
    def _knots(self) -> np.ndarray:
        """(k, c) the first knots, the second ones, ...; -inf where a column has fewer."""
        out = np.full((max((len(f.knots) for f in self.features), default=0), len(self.features)), -np.inf)
        for j, feature in enumerate(self.features):
            out[: len(feature.knots), j] = feature.knots
        return out

    @cached_property
    def ends(self) -> list[int]:
        """(c,) where the features of each number, but for that of gaps, end."""
        return [int(at) + feature.indicator_at for feature, at in zip(self.features, self.at, strict=True)]

    def add(
        self,
        out: np.ndarray,
        source: Block | Sequence[np.ndarray],
        weight: np.ndarray,
        look: Callable[[slice], None],
    ) -> list[Tally]:
        """Add the columns' features times their weights to out (n, k), in float64; returns what was counted of every
        column.

        source: the columns (n,). weight: (d, k) of all features. look: is called before some rows are read, which are in
        the cache for both.
        Raises: DataError where a value is so far from training that its feature is not a finite float.
        """
        tallies = [Tally() for _ in self.features]
        if not tallies:
            return tallies
        work = _Work(self, source, weight, len(out))
        with np.errstate(over="ignore", invalid="ignore"):
            for part in slices(len(out), work.size):
                look(part)
                sums = work.sums(work.read(part))
                if not np.isfinite(sums).all():
                    sums = work.mended(part, tallies)
                out[part] += sums
        return tallies


class _Work:
    """The weighted sums of slices of rows, one slice after another, in memory that is used again."""

    def __init__(self, columns: NumberSums, source: Block | Sequence[np.ndarray], weight: np.ndarray, rows: int):
        self.columns, self.weight = columns, weight
        sd, mean, _ = columns._scales
        far = np.abs(mean) > _FAR * sd
        slope, self.shift = weight[columns.at] / sd[:, None], np.where(far, mean, 0.0)
        self.constant = (self.shift - mean) @ slope  # a mean far from 0 is subtracted first, so that no digits are lost
        self.block = block = source if isinstance(source, Block) else None
        self.apart: Sequence[np.ndarray] = () if isinstance(source, Block) else source
        self.places = np.arange(len(sd)) if block is None else block.at
        width = len(sd) if block is None else block.values.shape[1]
        self.slope = np.zeros((width, slope.shape[1]))
        self.slope[self.places] = slope
        self.off = [(int(self.places[j]), float(mean[j])) for j in np.flatnonzero(far)]
        parts = width * (2 if len(columns._knots) else 1)
        self.size = min(rows, ROWS_AT_ONCE, max(CELLS_AT_ONCE // (parts * FOLD), 1) * FOLD)
        self.jumps = [
            (
                place,
                np.array(feature.jumps),
                np.vstack([np.zeros(weight.shape[1]), weight[end - len(feature.jumps) : end].cumsum(0)]),
            )
            for feature, place, end in zip(columns.features, self.places.tolist(), columns.ends, strict=True)
            if feature.jumps
        ]
        """Of each number that jumps its place, where it jumps, and the sums of weights (j + 1, k) between."""
        self.by_row = block is not None and block.values.strides[1] < block.values.strides[0]
        self.room = np.empty((self.size, width) if self.by_row else (width, self.size))
        self._bend(width, sd)

    def _bend(self, width: int, sd: np.ndarray) -> None:
        """Find the columns that bend (all, where most do), and for the first, the second, ... knot of each where it
        lies and by how much the slope changes there."""
        knots, self.bends, self.bent = self.columns._knots, [], None
        if not len(knots):
            return
        changes = np.zeros((len(knots), *self.slope.shape))
        at = np.full((len(knots), width), -np.inf)
        for j, own in enumerate(knots > -np.inf):
            change = self.weight[self.columns.at[own] + 1 + j] / sd[own, None]
            above = (knots[j] - self.shift)[own]
            self.constant = self.constant - above @ change
            at[j, self.places[own]], changes[j, self.places[own]] = above, change
        bent = np.flatnonzero(at[0] > -np.inf)
        if 2 * len(bent) <= width:
            self.bent, at, changes = bent, at[:, bent], changes[:, bent]
        for row, change in zip(at, changes, strict=True):
            self.bends.append((np.tile(row, (self.size, 1)) if self.by_row else row, change))

    def read(self, part: slice) -> np.ndarray:
        """(b, c) the numbers of some rows, as float64 to be changed."""
        size = part.stop - part.start
        rows = self.room[:size] if self.by_row else self.room[:, :size].T
        if self.block is not None:
            np.copyto(rows, self.block.values[part])
        else:
            for row, values in zip(self.room, self.apart, strict=True):
                row[:size] = values[part]
        return rows

    def sums(self, rows: np.ndarray) -> np.ndarray:
        """(b, k) the weighted sums of rows (b, c), which are changed."""
        beyond = [(sums, np.searchsorted(jumps, rows[:, place])) for place, jumps, sums in self.jumps]
        for j, mean in self.off:
            rows[:, j] -= mean
        out = rows @ self.slope
        if self.bent is not None:
            rows = rows.take(self.bent, axis=1) if self.by_row else rows.T[self.bent].T
        for knots, change in self.bends:
            out += np.maximum(rows, knots[: len(rows)] if self.by_row else knots, out=rows) @ change
        for sums, interval in beyond:
            out += sums[interval]
        out += self.constant
        return out

    def mended(self, part: slice, tallies: list[Tally]) -> np.ndarray:
        """(b, k) the weighted sums of some rows in which numbers are missing, which are counted."""
        rows, marks = self.read(part), 0.0
        of = dict(zip(self.places.tolist(), range(len(tallies)), strict=True))
        for place in np.flatnonzero(~np.isfinite(rows).all(axis=0)).tolist():
            if place not in of:
                rows[:, place] = 0.0
                continue
            column = of[place]
            feature, at = self.columns.features[column], int(self.columns.at[column])
            missing = tallies[column].of(rows[:, place], part.start)
            rows[missing, place] = self.columns._scales[2][column]
            if feature.indicator:
                marks = marks + missing[:, None] * self.weight[at + feature.indicator_at]
        out = self.sums(rows) + marks
        return out if np.isfinite(out).all() else self._by_features(part)

    def _by_features(self, part: slice) -> np.ndarray:
        """(b, k) the weighted sums of some rows from their features."""
        features = np.zeros((part.stop - part.start, len(self.weight)))
        values = self.apart if self.block is None else [self.block.values[:, place] for place in self.places]
        of = zip(self.columns.features, self.columns.at.tolist(), values, strict=True)
        fill_numbers(features, [(feature, at, column[part]) for feature, at, column in of], part.start)
        return features @ self.weight
