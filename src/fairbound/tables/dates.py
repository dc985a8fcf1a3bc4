"""Columns of texts that are dates, 2024-05-31, 2024/05/31, 31.05.2024, 31-May-2024, May 31, 2024, and 5/31/2024, 31/5/2024 or
31-5-2024, each with a time or not, which may end with its zone, 07:34:00+01:00; that are times of a day, 9:05 or 9:05 PM, which
are parts of a day then; or that are durations as pandas and Python write them, 1 days 02:35:51.

Where slashes or dashes part them and the year is last, either the month or the day comes first. A column tells which one by its
days above 12; one that has none of them, or has them in both places, holds no dates.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fairbound.tables.cells import DURATION, MICROSECONDS_PER_DAY, days_of, texts_of_days
from fairbound.tables.columns import Column, as_category, is_number

MONTH_FIRST, DAY_FIRST, CLOCK = "month first", "day first", "time of day"
ORDERS = MONTH_FIRST, DAY_FIRST, CLOCK, DURATION

_ISO = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d{1,9})?)?)?")
_TO_MICROSECONDS = len("2024-05-31 07:34:00.123456")
_ZONE = re.compile(r"(.*\d:\d\d(?:\.\d+)?) ?(?:Z|UTC|([+-])(0\d|1[0-4])(?::?([0-5]\d))?)")
_YEAR_FIRST = re.compile(r"(\d{4})([-/.])(\d{1,2})\2(\d{1,2})(.*)")
_POINTS = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})(.*)")
_SLASHES = re.compile(r"(\d{1,2})(?P<mark>[/-])(\d{1,2})(?P=mark)(\d{4})(.*)")
_NAMED = re.compile(r"(\d{1,2})(?:st|nd|rd|th)?[ -]([a-z]{3,9})\.?,?[ -](\d{4})(.*)", re.IGNORECASE)
_NAME_FIRST = re.compile(r"([a-z]{3,9})\.? (\d{1,2})(?:st|nd|rd|th)?,? (\d{4})(.*)", re.IGNORECASE)
_CLOCK = re.compile(r" (\d{1,2})(:\d\d(?::\d\d)?)(?: ?([AP])M)?", re.IGNORECASE)
_DURATION = re.compile(r"(-?\d{1,6}) days?(?:,? ([+-]?)(\d{1,2}):(\d\d):(\d\d)(?:\.(\d{1,9}))?)?")
MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december",
)  # fmt: skip
"""English whatever the locale, which `calendar.month_name` follows."""
FIRST_DAY = "1970-01-01"
"""Of which times of a day are parts, as days are counted from it."""


def as_days(column: Column, order: str | None = None) -> Column:
    """A column of texts all of which are dates as days, or all of which are times of a day or durations; any other as it is.
    order: CLOCK of times of a day, DURATION, or what comes first where slashes part dates; "": such texts are no dates;
    None: as the column tells."""
    order = order_of(column.categories) if order is None else order
    days = _days(column.categories, order) if column.coded else None
    return column if days is None else Column(column.name, "days", np.append(days, np.nan)[column.values], order=order)


def as_known_days(column: Column, texts: Sequence[str]) -> Column:
    """A column of days as categories, each day spelt as the one of some texts that means it, as 31.05.2024, or else as
    `as_category` writes it."""
    order = DURATION if column.order == DURATION else order_of(texts)
    read = [(_days((text,), order), text) for text in texts]
    known = {float(days[0]): text for days, text in read if days is not None}
    known |= {float(text): text for text in texts if is_number(text)}  # folders written before days had dates for names
    days = np.unique(column.values[~column.missing])
    spelt = dict(zip(texts_of_days(days, column.order), map(known.get, days.tolist()), strict=True))
    found = as_category(column)
    return replace(found, categories=tuple(spelt[text] or text for text in found.categories))


def no_date(column: Column, order: str = "") -> str | None:
    """The first of a column's texts that is no such date, None where all are."""
    return next((text for text in column.categories if _days((text,), order) is None), None)


def other_order(text: str, order: str) -> str:
    """Why a text is no such date though it is one with slashes: another part comes first; "" where that is not why.
    order: of dates."""
    found = [first for first in (MONTH_FIRST, DAY_FIRST) if _days((text,), first) is not None]
    if not found or order not in ("", MONTH_FIRST, DAY_FIRST):
        return ""
    if order:
        return f"in which the {order.replace(' first', '')} does not come first, as it did in training"
    return "and training does not tell whether the month or the day comes first in them"


def order_of(texts: Sequence[str]) -> str:
    """CLOCK where all texts are times of a day, DURATION where all are durations; what comes first in dates with slashes, ""
    where their days do not tell or there are none."""
    if texts and all(_CLOCK.fullmatch(f" {text}") for text in texts):
        return CLOCK
    if texts and all(map(_DURATION.fullmatch, texts)):
        return DURATION
    found = [(int(match[1]), int(match[3])) for match in map(_SLASHES.fullmatch, texts) if match]
    above = [max(places) > 12 for places in zip(*found, strict=True)]
    return {(False, True): MONTH_FIRST, (True, False): DAY_FIRST}.get(tuple(above), "")


def _days(texts: Sequence[str], order: str) -> np.ndarray | None:
    """(k,) the days of texts which are what `order` says; None where one is not."""
    read: list[tuple[str | float, int]] = []
    for text in texts:
        if (one := _read(text, order)) is None:
            return None
        read.append(one)
    if order == DURATION:
        return np.array([days for days, _ in read], dtype=np.float64)
    try:
        stamps = np.array([stamp for stamp, _ in read], dtype="datetime64[us]")
    except ValueError:  # the 31st of June
        return None
    return days_of(stamps - np.array([ahead for _, ahead in read], dtype="timedelta64[m]"))


def _read(text: str, order: str) -> tuple[str | float, int] | None:
    """A date, or a time of the first day, as numpy reads it, and by how many minutes its zone is ahead of UTC; the days of
    a duration and 0; None of another text."""
    if _ISO.fullmatch(text) and order not in (CLOCK, DURATION):
        return text[:_TO_MICROSECONDS], 0
    if order == DURATION:
        found = _DURATION.fullmatch(text)
        return None if found is None else (_days_long(*found.groups()), 0)
    if order == CLOCK:
        clock = _CLOCK.fullmatch(f" {text}")
        return None if clock is None else (FIRST_DAY + _of_24_hours(clock), 0)
    text, ahead = _without_zone(text)
    if not _ISO.fullmatch(text) and (parts := _parts(text, order)) is not None:
        year, month, day, time = parts
        text = f"{year}-{month:0>2}-{day:0>2}{_CLOCK.sub(_of_24_hours, time)}"
    return (text[:_TO_MICROSECONDS], ahead) if _ISO.fullmatch(text) else None


def _without_zone(text: str) -> tuple[str, int]:
    """A text without the zone at its end, and by how many minutes that is ahead of UTC."""
    if (zone := _ZONE.fullmatch(text)) is None:
        return text, 0
    bare, sign, hours, minutes = zone.groups()
    return bare, int(f"{sign or ''}1") * (60 * int(hours or 0) + int(minutes or 0))


def _days_long(days: str, sign: str, hours: str, minutes: str, seconds: str, part: str) -> float:
    """The days of a duration of these parts, of which all but the first may be None."""
    whole = 3600 * int(hours or 0) + 60 * int(minutes or 0) + int(seconds or 0)
    within = whole * 1_000_000 + int((part or "0")[:6].ljust(6, "0"))
    return float(int(days) * MICROSECONDS_PER_DAY + (-within if sign == "-" else within)) / MICROSECONDS_PER_DAY


def _parts(text: str, order: str) -> tuple[str, str, str, str] | None:
    """Year, month, day and what follows of a date that is not written as numpy reads it."""
    if named := _NAMED.fullmatch(text) or _NAME_FIRST.fullmatch(text):
        first, second, year, time = named.groups()
        name, day = (second, first) if first.isdecimal() else (first, second)
        month = next((str(n) for n, known in enumerate(MONTHS, 1) if known.startswith(name.lower())), "none")
        return year, month, day, time
    if dated := _YEAR_FIRST.fullmatch(text):
        year, _, month, day, time = dated.groups()
        return year, month, day, time
    slashes = _SLASHES.fullmatch(text) if order else None
    if (found := slashes or _POINTS.fullmatch(text)) is None:
        return None
    first, second, year, time = found.group(1, 3, 4, 5) if slashes else found.groups()
    return (year, first, second, time) if slashes and order == MONTH_FIRST else (year, second, first, time)


def _of_24_hours(clock: re.Match[str]) -> str:
    """A time such as 9:05 or 9:05 PM as 09:05 or 21:05; "none" for an hour that a clock of 12 hours lacks."""
    hour, rest, half = int(clock[1]), clock[2], (clock[3] or "").upper()
    if half and not 1 <= hour <= 12:
        return "none"
    return f" {hour % 12 + 12 * (half == 'P') if half else hour:02}{rest}"
