"""What an encoder must know of a column that comes in parts: sums of numbers and counts of texts, which merge."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from fairbound.base.errors import DataError
from fairbound.tables.columns import Column
from fairbound.tables.numbers import NumberFeature

MOST_TEXTS = 1_000_000


@dataclass
class Seen:
    """One column so far. kind: as in Column, None while every value is missing. rows, missing, infinite: numbers of rows.

    low, high, mean, square: of the numbers known; square is the sum of squared distances from the mean. texts: their counts.
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

    def add(self, column: Column) -> None:
        """Count the next part. Raises: DataError where it is of another kind than those before, or of too many texts."""
        start, self.rows = self.rows, self.rows + len(column.values)
        if not column.coded:
            values = column.values.astype(np.float64)
            infinite = np.isinf(values)
            if infinite.any():
                self.first = start + int(infinite.argmax()) if self.first < 0 else self.first
                self.infinite += int(infinite.sum())
            values = values[np.isfinite(values)]
        else:
            values = column.values[column.values >= 0]
        before = self.rows - len(column.values) - self.missing
        self.missing += len(column.values) - len(values)
        if not len(values):
            return
        self._agree(column)
        if column.coded:
            counts = np.bincount(values, minlength=len(column.categories))
            self.texts.update({text: int(n) for text, n in zip(column.categories, counts, strict=True) if n})
            if len(self.texts) > MOST_TEXTS:
                raise DataError(f"column {self.name!r} has over {MOST_TEXTS:,} different texts. Leave it out.")
            return
        with np.errstate(over="ignore", invalid="ignore"):
            n, mean = len(values), float(values.mean())
            square = float(np.square(values - mean).sum())
            apart = mean - self.mean
            self.square += square + apart * apart * (before * n / (before + n))
            self.mean += apart * (n / (before + n))
        self.low, self.high = min(self.low, float(values.min())), max(self.high, float(values.max()))

    def _agree(self, column: Column) -> None:
        kind = "text" if column.coded and self.kind == "text" else column.kind
        if self.kind is None or (column.coded and self.kind in ("category", "text", "loose")):
            self.kind = kind if self.kind is None or kind == "text" else self.kind
        elif self.kind != kind:
            raise DataError(
                f"column {self.name!r} holds {self.kind} values in its first rows and {column.kind} values from about row "
                f"{self.rows - len(column.values)} on. Name it in TableOptions(categorical=...) or (numeric=...), or give it "
                "one type."
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
        known, gaps = self.rows - self.missing, self.missing > 0
        if self.low == self.high:
            if not gaps:
                return None, f"constant ({self.low:g})"
            reason = f"constant ({self.low:g}) where known, only its missing indicator is kept"
            return NumberFeature(self.name, str(self.kind), self.low, None, self.low, True), reason
        sd = math.sqrt(self.square / known)
        if not (math.isfinite(self.mean) and 0 < sd < math.inf):
            raise DataError(f"column {self.name!r} spans from {self.low:g} to {self.high:g}, too far. Rescale it.")
        return NumberFeature(self.name, str(self.kind), self.mean, sd, self.mean, gaps), None
