"""What an encoder must know of a column that comes in parts: sums of numbers and counts of texts, which merge."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np

from fairbound.base.errors import DataError
from fairbound.tables.columns import CODED, Column
from fairbound.tables.numbers import NumberFeature, constant_number, range_of

MOST_TEXTS = 1_000_000


@dataclass
class Seen:
    """One column so far. kind: as in Column, None while every value is missing. rows, missing, infinite: numbers of
    rows.

    low, high, mean, square: of the numbers known; square is the sum of squared distances from the mean. texts: their
    counts.
    """

    name: str
    kind: str | None = None
    rows: int = 0
    missing: int = 0
    infinite: int = 0
    first: int = -1
    low: float = math.inf
    high: float = -math.inf
    mean: float = 0.0
    square: float = 0.0
    texts: Counter[str] = field(default_factory=Counter)
    order: str = ""

    @classmethod
    def of(cls, column: Column) -> Seen:
        """The sums and counts of one part."""
        seen = cls(column.name, rows=len(column.values), order=column.order)
        if column.coded:
            values = column.values[column.values >= 0]
        else:
            values = column.values.astype(np.float64)
            infinite = np.isinf(values)
            seen.infinite, seen.first = int(infinite.sum()), int(infinite.argmax()) if infinite.any() else -1
            values = values[np.isfinite(values)]
        seen.missing = seen.rows - len(values)
        if not len(values):
            return seen
        seen.kind = column.kind
        if column.coded:
            counts = np.bincount(values, minlength=len(column.categories))
            seen.texts.update({text: int(n) for text, n in zip(column.categories, counts, strict=True) if n})
            return seen
        with np.errstate(over="ignore", invalid="ignore"):
            seen.mean = float(values.mean())
            seen.square = float(np.square(values - seen.mean).sum())
        seen.low, seen.high = float(values.min()), float(values.max())
        return seen

    def merge(self, other: Seen) -> None:
        """Count the rows of `other` after these. Raises: DataError where they are of another kind,
        or of too many texts."""
        start, before, more = self.rows, self.rows - self.missing, other.rows - other.missing
        if self.first < 0 <= other.first:
            self.first = start + other.first
        self.rows, self.missing, self.infinite = (
            start + other.rows,
            self.missing + other.missing,
            self.infinite + other.infinite,
        )
        if other.kind is None:
            return
        self._agree(other.kind, start)
        self.order = self.order or other.order
        self.texts.update(other.texts)
        if len(self.texts) > MOST_TEXTS:
            raise DataError(f"column {self.name!r} has over {MOST_TEXTS:,} different texts. Leave it out.")
        if other.texts:
            return
        with np.errstate(over="ignore", invalid="ignore"):
            apart = other.mean - self.mean
            self.square += other.square + apart * apart * (before * more / (before + more))
            self.mean += apart * (more / (before + more))
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)

    def _agree(self, other: str, at: int) -> None:
        """Take the kind of a part that begins in row `at`."""
        coded = other in CODED
        kind = "text" if coded and self.kind == "text" else other
        if self.kind is None or (coded and self.kind in CODED):
            self.kind = kind if self.kind is None or kind == "text" else self.kind
        elif self.kind != kind:
            raise DataError(
                f"column {self.name!r} holds {self.kind} values in its first rows and {other} values from about row "
                f"{at} on. Name it in TableOptions(categorical=...) or (numeric=...), or give it one type."
            )

    def as_column(self) -> Column:
        """A column of the same texts, as often, in another order; of numbers that are all missing, of none."""
        if self.kind in (None, "number", "days"):
            return Column(self.name, self.kind or "number", np.full(self.rows, np.nan))
        counts = np.fromiter(self.texts.values(), dtype=np.int64)
        codes = np.concatenate([np.repeat(np.arange(len(counts)), counts), np.full(self.missing, -1, dtype=np.int64)])
        return Column(self.name, self.kind or "text", codes, tuple(self.texts))

    def number_feature(self) -> tuple[NumberFeature | None, str | None]:
        """As `learn_number` of the whole column; the median is not known yet and stands at the mean.

        Raises: DataError for numbers too large or too small for sums of squares.
        """
        found, reason = self._number_feature()
        return None if found is None else replace(found, order=self.order), reason

    def _number_feature(self) -> tuple[NumberFeature | None, str | None]:
        known, gaps = self.rows - self.missing, self.missing / self.rows
        if self.low == self.high:
            return constant_number(self.name, str(self.kind), self.low, gaps)
        sd = math.sqrt(self.square / known)
        if not (math.isfinite(self.mean) and 0 < sd < math.inf):
            raise DataError(f"column {self.name!r} spans from {self.low:g} to {self.high:g}, too far. Rescale it.")
        ends = range_of(self.low, self.high)
        return NumberFeature(self.name, str(self.kind), self.mean, sd, self.mean, gaps > 0, (), (), *ends, gaps), None
