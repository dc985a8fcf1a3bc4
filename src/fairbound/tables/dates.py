"""Columns of texts that are dates: 2024-05-31, 31.05.2024, or 5/31/2024 and 31/5/2024, each with a time or not.

Where slashes part them, either the month or the day comes first. A column tells which one by its days above 12; one that
has none of them, or has them in both places, holds no dates.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from fairbound.tables.cells import days_of
from fairbound.tables.columns import Column

MONTH_FIRST, DAY_FIRST = ORDERS = "month first", "day first"

_ISO = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?Z?)?")
_POINTS = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})(.*)")
_SLASHES = re.compile(r"(\d{1,2})/(\d{1,2})/(\d{4})(.*)")
_CLOCK = re.compile(r" (\d{1,2})(:\d\d(?::\d\d)?)(?: ?([AP])M)?", re.IGNORECASE)


def as_days(column: Column, order: str | None = None) -> Column:
    """A column of texts all of which are dates as days; any other as it is. order: what comes first where slashes part
    them, one of ORDERS; "": such texts are no dates; None: as the column tells."""
    order = order_of(column.categories) if order is None else order
    if not column.coded or no_date(column, order) is not None:
        return column
    stamps = np.array([_read(text, order) for text in column.categories] + ["NaT"], dtype="datetime64[us]")
    return Column(column.name, "days", days_of(stamps[column.values]), order=order)


def no_date(column: Column, order: str = "") -> str | None:
    """The first of a column's texts that is no such date, None where all are."""
    for text in column.categories:
        try:
            np.datetime64(_read(text, order), "us")
        except ValueError:  # also of the 31st of June
            return text
    return None


def order_of(texts: Sequence[str]) -> str:
    """What comes first in dates with slashes, "" where their days do not tell or there are none."""
    found = [(int(match[1]), int(match[2])) for match in map(_SLASHES.fullmatch, texts) if match]
    above = [max(places) > 12 for places in zip(*found, strict=True)]
    return {(False, True): MONTH_FIRST, (True, False): DAY_FIRST}.get(tuple(above), "")


def _read(text: str, order: str) -> str:
    """A date as numpy reads it, "none" for other texts."""
    points, slashes = _POINTS.fullmatch(text), _SLASHES.fullmatch(text)
    if points or (slashes and order):
        first, second, year, time = (points or slashes).groups()  # type: ignore[union-attr]
        month, day = (first, second) if slashes and order == MONTH_FIRST else (second, first)
        text = f"{year}-{month:0>2}-{day:0>2}{_CLOCK.sub(_of_24_hours, time)}"
    return text.rstrip("Z") if _ISO.fullmatch(text) else "none"


def _of_24_hours(clock: re.Match[str]) -> str:
    """A time such as 9:05 or 9:05 PM as 09:05 or 21:05; "none" for an hour that a clock of 12 hours lacks."""
    hour, rest, half = int(clock[1]), clock[2], (clock[3] or "").upper()
    if half and not 1 <= hour <= 12:
        return "none"
    return f" {hour % 12 + 12 * (half == 'P') if half else hour:02}{rest}"
