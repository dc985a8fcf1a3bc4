"""Decides on the training table what becomes of each column; `fairbound.tables.encoder` states the rules."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fairbound.base.callers import users_line
from fairbound.base.errors import DataError, DataWarning
from fairbound.base.names import shortlist
from fairbound.tables.amounts import Amounts, of_other_mark
from fairbound.tables.columns import Column, Table, as_category, as_number, is_number, number_share
from fairbound.tables.dates import as_days
from fairbound.tables.far_values import far_values
from fairbound.tables.features import TO_NUMBERS, Feature, is_quantity, learn_category, meant
from fairbound.tables.numbers import learn_number
from fairbound.tables.options import FEWEST, TableOptions

CODE = "If the column is a code, name it in TableOptions(categorical=...)."
_MOSTLY = 0.95
_FEW_NUMBERS = 10
_LOOKED_AT = 100


def check_options(options: TableOptions, read: Table) -> None:
    """Raises: DataError where the options name a column that the table lacks."""
    absent = [name for name in (*options.categorical, *options.numeric) if name not in read.names]
    if absent:
        raise DataError(
            f"the options name columns that the table lacks: {absent}. It has {shortlist(read.names, 8, quoted=True)}."
        )


def learn_column(given: Column, options: TableOptions) -> tuple[Feature | None, str | None, str]:
    """What becomes of a training column that is `finite`, why it is dropped, and what is said where it becomes
    categories though its texts look like numbers or dates."""
    column = _settle(given, options)
    if not column.coded:
        number, reason = learn_number(column, options.most_knots, options.min_count)
        return None if number is None else replace(number, order=column.order), reason, ""
    spec, reason = learn_category(column, options)
    said = ""
    if spec is not None and given.name not in options.categorical:
        said = _of_amounts(given)
        if not said and given.kind != "category":
            said = _of_numbers(given, options.many) or _of_many(given, options.many)
    doubt = f"column {given.name!r} is text and taken for categories, though {said} {CODE}" if said else ""
    return spec, reason, doubt


def warned_of(doubts: Sequence[str], numbers: Sequence[Column] = ()) -> tuple[str, ...]:
    """What is said of columns, "" of most, and of numbers far from others of their column. Warns: DataWarning of each of
    which anything is."""
    found = (*filter(None, doubts), *far_values(numbers))
    for said in found:
        warnings.warn(said, DataWarning, stacklevel=users_line())
    return found


def _of_amounts(column: Column) -> str:
    """What is said of texts that are numbers with signs, marks between thousands or a decimal comma; "" of others."""
    some = column.categories[:_LOOKED_AT]
    if comma := of_other_mark(some, "."):
        return f"its cells are numbers with a decimal comma, such as {comma!r}. Make them numbers, with a point for the comma."
    found = Amounts.of(some, ".")
    if not found.marked or found.other or found.doubtful:
        return ""
    return f"its cells are numbers such as {found.marked[0]!r}. Make them numbers."


def _of_numbers(column: Column, many: int) -> str:
    """What is said of texts most of which are plain numbers, and no codes for sure; "" of others."""
    numbers, texts = number_share(column)[0], column.categories
    if numbers < _FEW_NUMBERS or 2 * numbers <= len(texts):
        return ""
    others, quantity = [text for text in texts if not is_number(text)], next(filter(is_quantity, texts), None)
    example = quantity or next(filter(is_number, texts))
    if others:
        return (
            f"{numbers} of its {len(texts)} different texts are numbers such as {example!r}; {others[0]!r} is none. To have "
            f"numbers, {TO_NUMBERS}."
        )
    if quantity is None and numbers <= many:
        return ""
    return f"all its texts are numbers such as {example!r}. Make it a column of numbers (pandas.to_numeric)."


def _of_many(column: Column, many: int) -> str:
    """What is said of more texts than that, and than FEWEST, which look like dates, or numbers with units; "" of others."""
    words = meant(column.categories) if len(column.categories) > max(many, FEWEST) else ""
    return f"{words.removeprefix('; ')}." if words else ""


def _settle(column: Column, options: TableOptions) -> Column:
    """Decide at training whether a column is a number or a category."""
    if column.name in options.categorical:
        return as_category(column)
    if column.name in options.numeric:
        return as_number(column)
    if column.kind not in ("text", "loose"):
        return column
    if len(column.categories) > options.many and (days := as_days(column)) is not column:
        return days
    numbers, share = number_share(column)
    if column.kind == "loose" and share == 1.0 and numbers > options.many:
        return as_number(column)
    if _MOSTLY <= share < 1.0 and numbers >= _FEW_NUMBERS:
        try:
            as_number(column)
        except DataError as error:
            raise DataError(f"{error} {CODE}") from None
    return as_category(column)


def finite(column: Column, options: TableOptions) -> tuple[Column, int]:
    """A column of numbers as contiguous float64, infinities as missing, and how many there were."""
    if column.coded:
        return column, 0
    values = column.values.astype(np.float64)
    bad = np.isinf(values)
    count = int(bad.sum())
    if count and options.infinite == "error":
        raise infinite_error(column.name, count, int(bad.argmax()))
    values[bad] = np.nan
    return replace(column, values=values), count


def infinite_error(name: str, count: int, first: int) -> DataError:
    """What is said of a column with infinities, the first of them in row `first`."""
    return DataError(
        f"column {name!r} has {count} infinite value{'s' * (count > 1)}, the first in row {first} (counting from 0). Correct them, or pass "
        'TableOptions(infinite="missing") to treat infinity as missing.'
    )
