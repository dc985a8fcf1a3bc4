"""What one column becomes: learnt from its training values, filled into the feature matrix."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from fairbound.base.errors import DataError
from fairbound.tables.amounts import BLANKS, of_other_mark
from fairbound.tables.cells import DURATION, MISSING
from fairbound.tables.columns import Column, as_category, as_number, has_leading_zero, is_number
from fairbound.tables.dates import as_days, as_known_days, no_date, other_order
from fairbound.tables.notation import Notations
from fairbound.tables.numbers import NumberFeature, slices
from fairbound.tables.options import TableOptions

OTHER = "(other)"
TO_NUMBERS = "correct such cells or leave them empty (missing), and make it a column of numbers (pandas.to_numeric)"
LOOKED_AT = 100  # texts of a column, evenly spread
MOST_WORDS = 0.1  # of the different texts of a column whose others are numbers
ROWS_AT_ONCE = 1 << 15  # so that what is made of codes stays in the cache


class Unseen(NamedTuple):
    """The rows whose value has no feature of its own, and of a column without (other) these values: none of them was in
    training."""

    rows: int
    new: tuple[str, ...] = ()


@dataclass(frozen=True)
class CategoryFeature:
    """One 0/1 column for each value, then (other) and (missing) where training had them."""

    name: str
    kind: str  # "category"
    values: tuple[str, ...]
    other: bool
    missing: bool
    rare: float = 0.0  # share of the training rows whose value is none of `values`
    full: bool = False  # whether some of these values were frequent enough for a feature of their own
    gaps: float = 0.0  # share of the training rows without a value

    @property
    def texts(self) -> list[str]:
        """The value of each of its features, in order."""
        return [*self.values, *[OTHER] * self.other, *[MISSING] * self.missing]

    @property
    def feature_names(self) -> list[str]:
        """Names of its features, in order."""
        return [f"{self.name}={value}" for value in self.texts]

    @cached_property
    def _notations(self) -> Notations:
        return Notations(self.values)

    def places(self, column: Column) -> tuple[np.ndarray, Unseen]:
        """(k + 1,) number of the feature of this column that is 1 for each of the column's categories, -1 for none, and
        last that of a missing value; and the rows without a feature.

        Those are values unseen in training and those too rare in it, which share (other). The rare ones are not told
        apart, because their texts are not stored: a value that few people share has no place in a model file. A value
        spelt as none of training is looked up in other notations too (`Notations`).
        """
        place = {value: i for i, value in enumerate(self.values)}
        other = len(self.values) if self.other else -1
        gap = len(self.values) + self.other if self.missing else other
        for text in column.categories:
            if text not in place and (value := self._notations.find(text)) is not None:
                place[text] = place[value]
        where = np.array([*(place.get(text, other) for text in column.categories), gap])
        known = {*place, OTHER} if self.other else set(place)
        new = np.array([*(text not in known for text in column.categories), False])
        if not new.any():
            return where, Unseen(0)
        codes = column.values[new[column.values]]
        return where, Unseen(len(codes), () if self.other else tuple(column.categories[i] for i in np.unique(codes)))

    def fill(self, out: np.ndarray, at: int, column: Column) -> Unseen:
        """Write the features of `column` into ``out[:, at:]``, zeros before; returns the rows without a column."""
        where, unseen = self.places(column)
        for part in slices(len(out), ROWS_AT_ONCE):
            places = where[column.values[part]]
            rows = np.flatnonzero(places >= 0)
            out[part][rows, at + places[rows]] = 1.0
        return unseen

    def add_weighted(self, out: np.ndarray, at: int, column: Column, weight: np.ndarray) -> Unseen:
        """Add the features times their weights, which start at ``weight[at]``, to out (n, k);
        returns as `fill` does."""
        where, unseen = self.places(column)
        own = weight[at : at + len(self.feature_names)]
        each = np.concatenate([own, np.zeros_like(own[:1])])[where]
        for part in slices(len(out), ROWS_AT_ONCE):
            out[part] += each.take(column.values[part], axis=0, mode="wrap")
        return unseen


Feature = NumberFeature | CategoryFeature


def placed(learnt: Iterable[Feature]) -> Iterator[tuple[Feature, slice]]:
    """What was learnt of each column, with the places of its features among all."""
    end = 0
    for spec in learnt:
        start, end = end, end + len(spec.feature_names)
        yield spec, slice(start, end)


_NUMBER = re.compile(
    rf"\s*([^\w\s]|[A-Z]{{3}}(?=\s))?\s*[-+]?\d{{1,3}}([,.'’{BLANKS}]?\d{{3}})*([.,]\d+)?\s*([^\w\s]|(?<=\s)[^\W\d_]{{1,4}})?\s*"
)
_DATE = re.compile(r"\s*([0-9]{4}[-/.][0-9]{1,2}[-/.][0-9]{1,2}|[0-9]{1,2}[-/.][0-9]{1,2}[-/.][0-9]{2,4})([ T]|$)")


def learn_category(column: Column, options: TableOptions) -> tuple[CategoryFeature | None, str | None]:
    """The feature of a coded column, and why it is dropped."""
    min_count, most = options.min_count, options.most_categories(len(column.values))
    counts = np.bincount(column.values[column.values >= 0], minlength=len(column.categories))
    known, distinct = int(counts.sum()), int((counts > 0).sum())
    if known == 0:
        return None, "no row has a value"
    texts = [text for text, count in zip(column.categories, counts, strict=True) if count > 0]
    if distinct > options.many and distinct >= options.unique_share * known:
        why = meant(texts) or ": nearly unique, like a name or an identifier"
        return None, f"{distinct} different texts in {known} rows{why}"
    pairs = zip(counts.tolist(), column.categories, strict=True)
    ranked = sorted((-count, text) for count, text in pairs if count > 0 and text != OTHER)
    kept = [text for count, text in ranked if -count >= min_count]
    frequent_enough = len(kept)
    if len(kept) < distinct or len(kept) > most:
        kept = kept[: most - 1]
    rows, frequent = len(column.values), set(kept)
    rare = sum(count for count, text in zip(counts.tolist(), column.categories, strict=True) if text not in frequent)
    feature = CategoryFeature(
        column.name,
        "category",
        tuple(sorted(kept)),
        other=len(kept) < distinct,
        missing=known < rows,
        rare=rare / rows,
        full=len(kept) < frequent_enough,
        gaps=1 - known / rows,
    )
    if len(feature.feature_names) > 1:
        return feature, None
    if kept:
        return None, f"constant ({kept[0]!r})"
    why = meant(texts) if distinct > options.many else ""
    return None, f"none of its {distinct} values is in min_count={min_count} rows{why}"


def meant(texts: Sequence[str]) -> str:
    """What texts that are too many for categories look like, and how they are kept; "" where they look like nothing."""
    some = texts[:: -(-len(texts) // LOOKED_AT)]
    if all(_DATE.match(text) for text in some):
        return (
            f"; they look like dates, such as {some[0]!r}: make it a column of dates (pandas.to_datetime; a Parquet file "
            "keeps it) or of numbers"
        )
    if any(map(has_leading_zero, texts)):
        return ""
    others, quantity = [text for text in texts if not is_number(text)], next(filter(is_quantity, texts), None)
    if not others:
        where = "" if quantity else " where it is no code"
        return f"; they look like numbers kept as text, such as {quantity or some[0]!r}: make it a column of numbers (pandas.to_numeric){where}"
    if quantity and 2 * len(others) < len(texts):
        return f"; most look like numbers, such as {quantity!r}, but not {others[0]!r}: {TO_NUMBERS}"
    words = [text for text in others if not _NUMBER.fullmatch(text)]
    if len(words) > MOST_WORDS * len(texts) or any(re.search(r"\d", text) for text in words):
        return ""
    if len(words) == len(others):
        number = next(filter(is_number, texts))
        return f"; most are numbers, such as {number!r}, but not {words[0]!r}: where it is no code, {TO_NUMBERS}"
    signed = [text for text in others if _NUMBER.fullmatch(text)]
    comma = of_other_mark(signed, ".")
    plainly = "remove signs, units and separators of thousands, so that they are read as numbers"
    plainly = f"write the decimal comma as a point and {plainly}" if comma else plainly
    example = repr(comma or signed[0])
    if words:
        return f"; most look like numbers, such as {example}, but not {words[0]!r}: leave such cells empty (missing), and {plainly}"
    return f"; they look like numbers, such as {example}: {plainly}"


def is_quantity(text: str) -> bool:
    """Whether a text is written as a number that is no whole number from 0 on, and so hardly a code."""
    return is_number(text) and not (float(text) >= 0 and float(text).is_integer())


def names_out(
    learnt: Sequence[Feature] | None, pairs: Sequence[Any], inputs: Sequence[str], named: bool, given: Any
) -> np.ndarray:
    """The names of the features as scikit-learn's transformers give them. learnt: None for those of a sparse table. pairs: those
    whose features come last (`fairbound.tables.pairs`).

    given: names of the columns, which those without a name take; None for `inputs`, the names in training.
    Raises: ValueError in scikit-learn's words where they do not fit these.
    """
    columns = list(inputs if given is None else map(str, given))
    if len(columns) != len(inputs):
        raise ValueError(
            f"input_features should have length equal to number of features ({len(inputs)}), got {len(columns)}"
        )
    if named and columns != list(inputs):
        raise ValueError("input_features is not equal to feature_names_in_")
    of = dict(zip(inputs, columns, strict=True))
    if learnt is not None:
        columns = [f for spec in learnt for f in replace(spec, name=of[spec.name]).feature_names]
        columns += [pair.named(of).feature_name for pair in pairs]
    return np.array(columns, dtype=object)


def converted(column: Column, spec: Feature) -> Column:
    """Bring a column at prediction to the kind that was learnt."""
    if isinstance(spec, CategoryFeature):
        return as_known_days(column, spec.values) if column.kind == "days" else as_category(column)
    column = as_days(column, spec.order) if spec.kind == "days" else as_number(column)
    other = (column.kind == "days") != (spec.kind == "days")
    if (other or (spec.order == DURATION != column.order)) and not column.missing.all():
        now = "numbers" if column.kind != "days" else "durations" if column.order == DURATION else "dates"
        was = "numbers" if spec.kind != "days" else "durations" if spec.order == DURATION else "dates"
        if column.coded:
            now = f"no {was}"
        text = no_date(column, spec.order) if column.coded else None
        if text is not None and (why := other_order(text, spec.order)):
            raise DataError(
                f"column {spec.name!r} holds dates such as {text!r} now, {why}. Write them as in training, or with the year first, as "
                "2024-05-31."
            )
        such = "" if text is None else f", such as {text!r}"
        raise DataError(
            f"column {spec.name!r} held {was} in training and holds {now} now{such}. Convert it as for training."
        )
    return column
