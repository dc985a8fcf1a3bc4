"""Reads one cell of a table: its canonical text, its number, its day."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np

from fairbound.base.errors import DataError
from fairbound.rows.reading import is_missing

MISSING = "(missing)"
DURATION = "duration"
"""`Column.order` of days that are durations."""
WHOLE = 2.0**53
"""From here on float64 does not tell all whole numbers apart."""
MICROSECONDS_PER_DAY = 86_400_000_000
TO_DATES = "Make periods dates: column.dt.to_timestamp() in pandas."


class CellTypeError(DataError, TypeError):
    """A table, or a cell of one, is of a type that has no encoding."""


def text_of(value: object, name: str) -> str | None:
    """The canonical text of one cell; None where it is missing."""
    if isinstance(value, np.generic):
        value = value.item()
    if is_missing(value):
        return None
    if isinstance(value, str):
        stripped = value.strip()
        return stripped if stripped not in ("", MISSING) else None
    if isinstance(value, int | dt.date | dt.time | dt.timedelta):
        return str(value)
    if isinstance(value, Real | Decimal):
        number = float(value)
        if number != number:
            return None
        return str(int(number)) if number.is_integer() and abs(number) < WHOLE else repr(number)
    if type(value).__name__ == "Interval":  # of pandas.cut
        return str(value)
    raise no_cell(name, value)


def float_of(value: Any) -> float:
    """A number as a float, infinite where it is too large for one."""
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def stamp_of(value: dt.date) -> np.datetime64:
    """A date, or a time of UTC."""
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        value = value.astimezone(dt.UTC).replace(tzinfo=None)
    return np.datetime64(value, "us")


def days_of(stamps: np.ndarray) -> np.ndarray:
    """datetime64 or timedelta64 of any unit -> days as float64, NaT -> NaN."""
    unit = "datetime64[us]" if stamps.dtype.kind == "M" else "timedelta64[us]"
    days = stamps.astype(unit).astype(np.int64) / MICROSECONDS_PER_DAY
    days[np.isnat(stamps)] = np.nan
    return days


def texts_of_days(days: np.ndarray, order: str) -> list[str]:
    """Days (k,), none of them missing, as texts: durations such as 1 days 02:35:51, dates such as 2024-05-31 or, where it is
    not midnight, 2024-05-31 07:34:00. order: `Column.order`."""
    microseconds = np.round(days * MICROSECONDS_PER_DAY).astype(np.int64)
    whole, within = np.divmod(microseconds, MICROSECONDS_PER_DAY)
    clock = [text[11:].removesuffix(".000000") for text in np.datetime_as_string(within.astype("datetime64[us]"))]
    if order == DURATION:
        sign = ["+" if n < 0 else "" for n in whole]
        return [f"{n} days" + (f" {s}{t}" if w else "") for n, s, t, w in zip(whole, sign, clock, within, strict=True)]
    dates = np.datetime_as_string(whole.astype("datetime64[D]")).tolist()
    return [f"{date} {time}" if w else date for date, time, w in zip(dates, clock, within, strict=True)]


def no_cell(name: str, cell: object) -> CellTypeError:
    """What is said of a cell of a type that has no encoding."""
    kind = type(cell).__name__
    advice = TO_DATES if kind == "Period" else "Turn the column into one of these or drop it."
    theirs = " (argument must be a string or a number)" if isinstance(cell, dict) else ""  # scikit-learn's checks ask
    return CellTypeError(
        f"column {name!r} holds a {kind} ({str(cell)[:40]!r}); each cell must be a text, a bool or a number{theirs}. {advice}"
    )
