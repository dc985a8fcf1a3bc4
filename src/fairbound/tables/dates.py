"""Columns of texts that are dates, 2024-05-31, 31.05.2024, 31-May-2024, May 31, 2024, or 5/31/2024 and 31/5/2024, each
with a time or not; or that are times of a day, 9:05 or 9:05 PM, which are parts of a day then.

Where slashes part them, either the month or the day comes first. A column tells which one by its days above 12; one that
has none of them, or has them in both places, holds no dates.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from fairbound.tables.cells import days_of
from fairbound.tables.columns import Column

MONTH_FIRST, DAY_FIRST, CLOCK = ORDERS = "month first", "day first", "time of day"

_ISO = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?Z?)?")
_POINTS = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})(.*)")
_SLASHES = re.compile(r"(\d{1,2})/(\d{1,2})/(\d{4})(.*)")
_NAMED = re.compile(r"(\d{1,2})(?:st|nd|rd|th)?[ -]([a-z]{3,9})\.?,?[ -](\d{4})(.*)", re.IGNORECASE)
_NAME_FIRST = re.compile(r"([a-z]{3,9})\.? (\d{1,2})(?:st|nd|rd|th)?,? (\d{4})(.*)", re.IGNORECASE)
_CLOCK = re.compile(r" (\d{1,2})(:\d\d(?::\d\d)?)(?: ?([AP])M)?", re.IGNORECASE)
MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december",
)  # fmt: skip
"""English whatever the locale, which `calendar.month_name` follows."""
FIRST_DAY = "1970-01-01"
"""Of which times of a day are parts, as days are counted from it."""


def as_days(column: Column, order: str | None = None) -> Column:
    """A column of texts all of which are dates as days, or all of which are times of a day; any other as it is. order: CLOCK
    of times of a day, or what comes first where slashes part dates; "": such texts are no dates; None: as the column tells."""
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
    """CLOCK where all texts are times of a day; what comes first in dates with slashes, "" where their days do not tell or
    there are none."""
    if texts and all(_CLOCK.fullmatch(f" {text}") for text in texts):
        return CLOCK
    found = [(int(match[1]), int(match[2])) for match in map(_SLASHES.fullmatch, texts) if match]
    above = [max(places) > 12 for places in zip(*found, strict=True)]
    return {(False, True): MONTH_FIRST, (True, False): DAY_FIRST}.get(tuple(above), "")


def _read(text: str, order: str) -> str:
    """A date, or a time of the first day, as numpy reads it; "none" for other texts."""
    if order == CLOCK:
        clock = _CLOCK.fullmatch(f" {text}")
        return "none" if clock is None else FIRST_DAY + _of_24_hours(clock)
    found = None if _ISO.fullmatch(text) else _parts(text, order)
    if found is not None:
        year, month, day, time = found
        text = f"{year}-{month:0>2}-{day:0>2}{_CLOCK.sub(_of_24_hours, time)}"
    return text.rstrip("Z") if _ISO.fullmatch(text) else "none"


def _parts(text: str, order: str) -> tuple[str, str, str, str] | None:
    """Year, month, day and what follows of a date that does not begin with the year."""
    if named := _NAMED.fullmatch(text) or _NAME_FIRST.fullmatch(text):
        first, second, year, time = named.groups()
        name, day = (second, first) if first.isdecimal() else (first, second)
        month = next((str(n) for n, known in enumerate(MONTHS, 1) if known.startswith(name.lower())), "none")
        return year, month, day, time
    slashes = _SLASHES.fullmatch(text) if order else None
    if (found := slashes or _POINTS.fullmatch(text)) is None:
        return None
    first, second, year, time = found.groups()
    return (year, first, second, time) if slashes and order == MONTH_FIRST else (year, second, first, time)


def _of_24_hours(clock: re.Match[str]) -> str:
    """A time such as 9:05 or 9:05 PM as 09:05 or 21:05; "none" for an hour that a clock of 12 hours lacks."""
    hour, rest, half = int(clock[1]), clock[2], (clock[3] or "").upper()
    if half and not 1 <= hour <= 12:
        return "none"
    return f" {hour % 12 + 12 * (half == 'P') if half else hour:02}{rest}"
