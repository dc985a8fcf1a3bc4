"""Numbers as people write them in text: $1,015 and 1.015,50 € and 12 %."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

_MONEY = r"[$¢£¤¥฿₡₦₩₪₫€₭₮₱₲₴₵₸₹₺₽₾₿]|EUR|USD|GBP|CHF"
_UNIT = rf"{_MONEY}|%"
_BLANKS = " \u00a0\u202f"
OTHER_MARK = {".": ",", ",": "."}
"""Of the mark before decimals, the one that may then stand between thousands."""


def _pattern(decimal: str) -> re.Pattern[str]:
    between = _BLANKS + "'’" + OTHER_MARK[decimal]
    return re.compile(
        rf"(?!0\d+$)(?P<sign>[+-]?)(?:(?P<before>{_UNIT})[{_BLANKS}]?(?P<second>[+-]?))?"
        rf"(?P<whole>[1-9]\d{{0,2}}(?:(?P<between>[{between}])\d{{3}})(?:(?P=between)\d{{3}})*|\d+|(?=[{decimal}]\d))"
        rf"(?P<part>(?:[{decimal}]\d*)?(?:[eE][+-]?\d+)?)(?:[{_BLANKS}]?(?P<after>{_UNIT}))?",
        re.ASCII,
    )


_PATTERNS = {decimal: _pattern(decimal) for decimal in OTHER_MARK}


@dataclass(frozen=True)
class Amounts:
    """What some texts are, read as numbers.

    numbers: by text. marked: those of them with a unit (a sign of currency, or per cent) or a mark between thousands. other: the texts
    that are no numbers. alike: whether there is one unit, which some may lack unless it is per cent, and one mark between thousands.
    """

    numbers: dict[str, float]
    marked: tuple[str, ...]
    other: tuple[str, ...]
    alike: bool

    @classmethod
    def of(cls, texts: Iterable[str], decimal: str) -> Amounts:
        """Read distinct texts; blanks at their ends do not count. decimal: the mark before decimals, "." or ","."""
        numbers, marked, other, units, marks = {}, [], [], set(), set()
        for text in texts:
            found = _PATTERNS[decimal].fullmatch(text.strip())
            if found is None or (found["before"] and found["after"]) or (found["sign"] and found["second"]):
                other.append(text)
                continue
            unit, mark = found["before"] or found["after"], found["between"]
            whole = found["whole"].replace(mark, "") if mark else found["whole"]
            sign = found["sign"] or found["second"] or ""
            numbers[text] = float(sign + whole + found["part"].replace(decimal, "."))
            units.add(unit)
            marks.add(mark)
            if unit or mark:
                marked.append(text)
        alike = len(units - {None}) <= 1 and len(marks - {None}) <= 1 and units != {None, "%"}
        return cls(numbers, tuple(marked), tuple(other), alike)


_FIRST = 100
_MOSTLY = 0.95
_FEWEST = 10
_SHOWN = 6


def written_amounts(frame: Any) -> dict[Any, dict[str, Amounts]]:
    """The text columns of a pandas frame whose first cells are nearly all numbers by one of both marks before decimals: by name, and of each
    its cells as read with either mark."""
    out = {}
    for name in frame.columns:
        if frame[name].dtype.kind in "biuf":
            continue
        known = frame[name].dropna()
        few = known.head(_FIRST).astype(str).unique()
        if any(len(Amounts.of(few, mark).numbers) >= _MOSTLY * len(few) > 0 for mark in OTHER_MARK):
            cells = known.astype(str).unique()
            out[name] = {mark: Amounts.of(cells, mark) for mark in OTHER_MARK}
    return out


def decimal_mark(written: dict[Any, dict[str, Amounts]]) -> str:
    """The mark before decimals in columns of `written_amounts` whose file says nothing of it, where commas do not separate fields: "," unless they
    stand between thousands for sure, as in $1,234,567, or in all amounts of money before three digits, and no column says otherwise."""
    mark = ","
    for either in written.values():
        comma, point = either[","], either["."]
        if point.other and not comma.other:
            return ","
        money = any("," in cell and re.search(_MONEY, cell) for cell in point.numbers)
        if not point.other and (comma.other or money):
            mark = "."
    return mark


def read_amounts(frame: Any, written: dict[Any, dict[str, Amounts]], decimal: str) -> list[str]:
    """Make numbers of those text columns of a pandas frame all of whose cells are some. written: its `written_amounts`. decimal: the mark before
    decimals, "." or ",".

    Returns what a reader should know: which columns were read so that have signs, marks between thousands, or commas that may be either
    mark; and which stay text though nearly all cells are numbers, with what to do.
    """
    read, said, other_mark, either = [], [], OTHER_MARK[decimal], False
    for name, by_mark in written.items():
        found, otherwise = by_mark[decimal], by_mark[other_mark]
        commas = [cell for cell in found.numbers if "," in cell]
        if found.alike and not found.other and (found.marked or commas):
            frame[name] = frame[name].map(found.numbers, na_action="ignore").astype(float)
            if found.marked or not otherwise.other:
                cell = (*found.marked, *commas)[0]
                read.append(f"{name!r} ({cell!r} as {found.numbers[cell]:.15g})")
                either |= bool(commas) and not otherwise.other
        else:
            said += _why_text(name, found, otherwise, other_mark)
    if read:
        more = f" and {len(read) - _SHOWN} more" if len(read) > _SHOWN else ""
        hint = f' If {other_mark!r} begins decimals there, pass decimal="{other_mark}".' if either else ""
        said.insert(0, f"read as numbers: {', '.join(read[:_SHOWN])}{more}.{hint}")
    return said


def _why_text(name: str, found: Amounts, otherwise: Amounts, other_mark: str) -> list[str]:
    """What is said of a column that stays text, if anything. otherwise: as read with the other mark before decimals."""
    begins, most = f"the column {name!r} is read as text", _MOSTLY * (len(found.numbers) + len(found.other))
    if found.other and not otherwise.other:
        return [
            f"{begins}, since {other_mark!r} does not begin decimals in this file ({found.other[0]!r}). If it does, pass "
            f'decimal="{other_mark}"; numbers may also be written plainly, such as 1015.5.'
        ]
    if not found.marked or len(found.numbers) < max(_FEWEST * bool(found.other), most):
        return []
    cell = repr(found.marked[0])
    if found.other:
        return [
            f"{begins}: nearly all cells are numbers such as {cell}, not {found.other[0]!r}. Correct these or leave them empty."
        ]
    return [
        f"{begins}: its cells are numbers such as {cell}, but not of one unit and one mark between thousands. Write them alike."
    ]
