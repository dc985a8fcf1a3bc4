"""0/1 columns of two columns of a table together: the rows on one side of a split by the one and of a split by the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from fairbound.tables.columns import Column
from fairbound.tables.features import CategoryFeature, Feature
from fairbound.tables.numbers import NumberFeature, shown, slices

ROWS_AT_ONCE = 1 << 13  # so that what is made of them stays in the cache

Columns = Mapping[str, Column | np.ndarray]
"""The columns of a table by their names in training, numbers as they are or as `Column`."""


@dataclass(frozen=True)
class Side:
    """The rows with a number of column `name` beyond a value, in the column's units, or with a value of a category.

    value: as in the names of the features of a `CategoryFeature`, also (other) and (missing); of a number only the latter.
    """

    name: str
    beyond: float | None = None
    value: str | None = None

    @property
    def text(self) -> str:
        """As features are named."""
        return f"{self.name}={self.value}" if self.beyond is None else f"{self.name}>{shown(self.beyond)}"


@dataclass(frozen=True)
class Pair:
    """A 0/1 column of the rows in both of two sides, of two columns."""

    first: Side
    second: Side

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.first, self.second

    @property
    def feature_name(self) -> str:
        """Name of the column."""
        return f"{self.first.text} & {self.second.text}"

    def named(self, names: Mapping[str, str]) -> Pair:
        """The pair of columns with other names."""
        first, second = (replace(side, name=names[side.name]) for side in self.sides)
        return Pair(first, second)


class PairColumns:
    """The features of pairs, and their weighted sums, some rows at a time.

    learnt: what was learnt of the columns. at: the first place of the pairs among all features.
    """

    def __init__(self, pairs: Sequence[Pair], learnt: Sequence[Feature], at: int):
        self.pairs, self.at, self.of = tuple(pairs), at, {spec.name: spec for spec in learnt}

    @cached_property
    def _sides(self) -> list[Side]:
        sides = {side for pair in self.pairs for side in pair.sides}
        return sorted(sides, key=lambda side: (side.value is not None, side.text))

    @cached_property
    def _numbers(self) -> dict[str, float]:
        """Names of the numbers among the sides, and what a missing one is taken for: NaN, which lies beyond nothing, where
        training had some."""
        specs = {side.name: self.of[side.name] for side in self._sides if side.beyond is not None}
        numbers = {name: spec for name, spec in specs.items() if isinstance(spec, NumberFeature)}
        return {name: np.nan if spec.indicator else spec.median for name, spec in numbers.items()}

    @cached_property
    def _beyond(self) -> tuple[np.ndarray, np.ndarray]:
        """Of the sides of numbers, which come first, (s,) the place among these and (s, 1) the value."""
        place, sides = list(self._numbers), [side for side in self._sides if side.beyond is not None]
        values = np.array([side.beyond for side in sides], dtype=float)
        return np.array([place.index(side.name) for side in sides], dtype=np.intp), values[:, None]

    @cached_property
    def _both(self) -> np.ndarray:
        """(2, k) the numbers of each pair's sides."""
        place = {side: number for number, side in enumerate(self._sides)}
        return np.array([[place[side] for side in pair.sides] for pair in self.pairs]).T

    def fill(self, out: np.ndarray, columns: Columns) -> None:
        """Write the features into ``out[:, at:]``."""
        for part, inside in self._inside(columns, len(out)):
            out[part, self.at :] = inside.T

    def add_weighted(self, out: np.ndarray, columns: Columns, weight: np.ndarray) -> None:
        """Add the features times their weights, which start at ``weight[at]``, to out (n, c)."""
        for part, inside in self._inside(columns, len(out)):
            out[part] += inside.T.astype(float) @ weight[self.at :]

    def _inside(self, columns: Columns, rows: int) -> Iterator[tuple[slice, np.ndarray]]:
        """Some rows at a time, and (k, b) which of them lie in each pair."""
        if not self.pairs:
            return
        at, beyond = self._beyond
        missing = np.array(list(self._numbers.values()))[:, None]
        others = list(self._others(columns))
        for part in slices(rows, ROWS_AT_ONCE):
            values = np.empty((len(missing), part.stop - part.start))
            for row, name in zip(values, self._numbers, strict=True):
                column = columns[name]
                row[:] = (column.values if isinstance(column, Column) else column)[part]
            known = np.isfinite(values)
            if not known.all():
                values = np.where(known, values, missing)
            each = np.concatenate([values[at] > beyond, *(lies(part)[None] for lies in others)])
            yield part, each[self._both[0]] & each[self._both[1]]

    def _others(self, columns: Columns) -> Iterator[Callable[[slice], np.ndarray]]:
        """Of each side of a category or of missing numbers, after the others, (b,) which of some rows lie there."""
        places: dict[str, np.ndarray] = {}
        for side in self._sides[len(self._beyond[0]) :]:
            spec, column = self.of[side.name], columns[side.name]
            values = column.values if isinstance(column, Column) else column
            if isinstance(spec, CategoryFeature) and isinstance(column, Column):
                if side.name not in places:
                    places[side.name] = spec.places(column)[0]
                yield partial(_of_category, values, places[side.name] == spec.texts.index(str(side.value)))
            else:
                yield partial(_missing, values)


def _of_category(codes: np.ndarray, lies: np.ndarray, part: slice) -> np.ndarray:
    """(b,) lies: (c + 1,) whether rows of each category, and last those without a value, lie on the side."""
    return lies.take(codes[part], mode="wrap")


def _missing(values: np.ndarray, part: slice) -> np.ndarray:
    return ~np.isfinite(values[part])
