"""What one column becomes: learnt from its training values, filled into the feature matrix, stored as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairbound.base.errors import DataError
from fairbound.tables.columns import MISSING, Column

OTHER = "(other)"
_ROWS_AT_ONCE = 4096  # so that what is written stays in the cache


@dataclass(frozen=True)
class NumberFeature:
    """A standardised number and, where training had gaps, a 0/1 column that marks them."""

    name: str
    kind: str  # "number" or "days"
    mean: float
    sd: float | None  # population sd; None where the known values are constant and only the indicator is a feature
    median: float
    indicator: bool

    @property
    def feature_names(self) -> list[str]:
        """Names of its features, in order."""
        return [self.name] * (self.sd is not None) + [f"{self.name}={MISSING}"] * self.indicator

    def fill(self, out: np.ndarray, at: int, values: np.ndarray) -> None:
        """Write the features of the rows ``values`` into ``out[:, at:]``; a value too far from training becomes infinite."""
        missing = np.isnan(values)
        if self.sd is not None:
            with np.errstate(over="ignore"):
                out[:, at] = (np.where(missing, self.median, values) - self.mean) / self.sd
            at += 1
        if self.indicator:
            out[:, at] = missing


@dataclass(frozen=True)
class CategoryFeature:
    """One 0/1 column for each value, then (other) and (missing) where training had them."""

    name: str
    kind: str  # "category"
    values: tuple[str, ...]
    other: bool
    missing: bool

    @property
    def feature_names(self) -> list[str]:
        """Names of its features, in order."""
        tail = [OTHER] * self.other + [MISSING] * self.missing
        return [f"{self.name}={value}" for value in (*self.values, *tail)]

    def fill(self, out: np.ndarray, at: int, column: Column) -> int:
        """Write the features of ``column`` into ``out[:, at:]``, zeros before; returns the rows without a column.

        Those are values unseen in training and those too rare in it. The rare ones are not told apart, because their
        texts are not stored: a value that few people share has no place in a model file.
        """
        place = {value: at + i for i, value in enumerate(self.values)}
        other = at + len(self.values) if self.other else -1
        gap = at + len(self.values) + self.other if self.missing else other
        where = np.array([*(place.get(text, other) for text in column.categories), gap])[column.values]
        rows = np.flatnonzero(where >= 0)
        out[rows, where[rows]] = 1.0
        known = {*place, OTHER} if self.other else set(place)
        new = np.array([*(text not in known for text in column.categories), False])
        return int(new[column.values].sum())


Feature = NumberFeature | CategoryFeature


def fill_numbers(out: np.ndarray, places: Sequence[tuple[NumberFeature, int, Column]]) -> None:
    """Write columns of numbers into the feature matrix together, a few rows at a time; of each its place in ``out``.

    Raises: DataError where a value is so far from training that the feature is not a finite float.
    """
    for start in range(0, len(out) if places else 0, _ROWS_AT_ONCE):
        part = slice(start, start + _ROWS_AT_ONCE)
        for feature, at, column in places:
            feature.fill(out[part], at, column.values[part])
    for feature, at, column in places if not np.isfinite(out).all() else ():
        far = ~np.isfinite(out[:, at])
        if feature.sd is not None and far.any():
            row = int(far.argmax())
            raise DataError(
                f"column {feature.name!r} has the value {column.values[row]:g} in row {row} (counting from 0), too far from "
                f"training (mean {feature.mean:g}, sd {feature.sd:g}) for a float. Correct it or leave it empty."
            )


def learn_number(column: Column) -> tuple[NumberFeature | None, str | None]:
    """The feature of a column of numbers or days (finite or NaN), and why it or a part of it is dropped."""
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
        if not gaps:
            return None, f"constant ({low:g})"
        reason = f"constant ({low:g}) where known, only its missing indicator is kept"
        return NumberFeature(column.name, column.kind, low, None, low, True), reason
    return NumberFeature(column.name, column.kind, mean, sd, float(np.median(scaled) * unit), gaps), None


def learn_category(
    column: Column, min_count: int, max_categories: int, unique_share: float
) -> tuple[CategoryFeature | None, str | None]:
    """The feature of a coded column, and why it is dropped; the options are those of ``TableOptions``."""
    counts = np.bincount(column.values[column.values >= 0], minlength=len(column.categories))
    known, distinct = int(counts.sum()), int((counts > 0).sum())
    if known == 0:
        return None, "no row has a value"
    if distinct > max_categories and distinct >= unique_share * known:
        return None, f"{distinct} different texts in {known} rows: nearly unique, like a name or an identifier"
    pairs = zip(counts.tolist(), column.categories, strict=True)
    ranked = sorted((-count, text) for count, text in pairs if count > 0 and text != OTHER)
    kept = [text for count, text in ranked if -count >= min_count]
    if len(kept) < distinct or len(kept) > max_categories:
        kept = kept[: max_categories - 1]
    feature = CategoryFeature(
        column.name, "category", tuple(sorted(kept)), other=len(kept) < distinct, missing=known < len(column.values)
    )
    if len(feature.feature_names) > 1:
        return feature, None
    if kept:
        return None, f"constant ({kept[0]!r})"
    return None, f"none of its {distinct} values is in min_count={min_count} rows"


def load_feature(state: dict[str, Any]) -> Feature:
    """The feature whose fields are ``state``, as ``dataclasses.asdict`` wrote them.

    Raises: KeyError, TypeError or ValueError where a field is missing or wrong.
    """
    if state["kind"] == "category":
        return CategoryFeature(**{**state, "values": tuple(state["values"])})
    if state["kind"] not in ("number", "days"):
        raise ValueError(f"unknown kind {state['kind']!r}")
    return NumberFeature(**state)
