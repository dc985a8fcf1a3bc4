"""Numbers as people write them in text: $1,015 and 1.015,50 € and 12 %, ($30) and 1,015- below 0, $1.2k and 3.5M."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fairbound.base.names import shortlist
from fairbound.tables.columns import is_number

MONEY = r"[$¢£¤¥฿₡₦₩₪₫€₭₮₱₲₴₵₸₹₺₽₾₿]|EUR|USD|GBP|CHF"
_UNIT = rf"{MONEY}|%"
BLANKS = " \u00a0\u202f\u2009"
"""That may stand between thousands, or before a unit."""
_TIMES = {"k": 1e3, "K": 1e3, "m": 1e6, "M": 1e6, "mn": 1e6, "bn": 1e9, "B": 1e9}
_WITHOUT_UNIT = ("k", "K", "M")
"""Those of `_TIMES` that may also follow a number that is not money. Not m: 5 m is a length."""
OTHER_MARK = {".": ",", ",": "."}
"""For each mark before decimals, the mark that may then stand between thousands."""


def _pattern(decimal: str) -> re.Pattern[str]:
    between = BLANKS + "'’" + OTHER_MARK[decimal]
    return re.compile(
        rf"(?!0\d+$)(?P<sign>[+-]?)(?:(?P<before>{_UNIT})[{BLANKS}]?(?P<second>[+-]?))?"
        rf"(?P<whole>[1-9]\d{{0,2}}(?:(?P<between>[{between}])\d{{3}})(?:(?P=between)\d{{3}})*|\d+|(?=[{decimal}]\d))"
        rf"(?P<part>(?:[{decimal}]\d*)?(?P<power>[eE][+-]?\d+)?)(?:[{BLANKS}]?(?P<times>{'|'.join(sorted(_TIMES, key=len, reverse=True))}))?"
        rf"(?P<last>-?)(?:[{BLANKS}]?(?P<after>{_UNIT}))?",
        re.ASCII,
    )


_PATTERNS = {decimal: _pattern(decimal) for decimal in OTHER_MARK}
_BRACKETS = re.compile(rf"(?P<before>(?:{_UNIT})?)[{BLANKS}]?\((?P<inside>[^()]+)\)[{BLANKS}]?(?P<after>(?:{_UNIT})?)")
_NUMBER = rf"\d(?:[\d.,'’{BLANKS}]*\d)?"
_WORD = r"(?:[^\W\d]{1,8}\.?)?"
_LIKE_MONEY = re.compile(
    rf"[+-]?\(?(?:(?:{MONEY})[{BLANKS}]?{_NUMBER}[{BLANKS}]?{_WORD}|{_NUMBER}[{BLANKS}]?{_WORD}[{BLANKS}]?(?:{MONEY}))\)?"
)


class _Cell(NamedTuple):
    """A text that is an amount. number: its value. unit, mark, times: as written, None where absent. form: "()" or "-"
    where brackets or a last minus make it negative. cents: whether two digits follow the mark before decimals;
    decimals: whether any do."""

    number: float
    unit: str | None
    mark: str | None
    times: str | None
    form: str | None
    cents: bool
    decimals: bool

    @classmethod
    def of(cls, text: str, decimal: str) -> _Cell | None:
        """None where the text is no amount."""
        bare = text.strip()
        bracketed = _BRACKETS.fullmatch(bare)
        if bracketed is not None:
            bare = bracketed["before"] + bracketed["inside"].strip() + bracketed["after"]
        found = _PATTERNS[decimal].fullmatch(bare)
        if found is None or (found["before"] and found["after"]):
            return None
        unit, mark, times, part = found["before"] or found["after"], found["between"], found["times"], found["part"]
        if bool(found["sign"]) + bool(found["second"]) + bool(found["last"]) + (bracketed is not None) > 1:
            return None
        if times and (unit == "%" or found["power"] or (unit is None and times not in _WITHOUT_UNIT)):
            return None
        whole = found["whole"].replace(mark, "") if mark else found["whole"]
        sign = "-" if bracketed or found["last"] else found["sign"] or found["second"] or ""
        number = float(sign + whole + part.replace(decimal, "."))
        form = "()" if bracketed else found["last"] or None
        digits = len(part) - 1 if part and not found["power"] else 0
        return cls(
            round(number * _TIMES[times], 6) if times else number, unit, mark, times, form, digits == 2, digits > 0
        )


@dataclass(frozen=True)
class Amounts:
    """The texts of a column, read as numbers.

    numbers: by text. marked: those of them with a unit (a sign of currency, or per cent), a mark between thousands, k
    or M, or a minus written as brackets or at the end. other: the texts that are no numbers. doubtful: those that may
    be, such as 12- and 5k, where no other text settles it. alike: whether there is one unit, which some may lack unless
    it is per cent, and one mark between thousands. settled: which of the ways "()", "-" and "k" to write numbers are
    beyond doubt in this column.
    """

    numbers: dict[str, float]
    marked: tuple[str, ...]
    other: tuple[str, ...]
    doubtful: tuple[str, ...]
    alike: bool
    settled: frozenset[str]

    @classmethod
    def of(cls, texts: Iterable[str], decimal: str, settled: Iterable[str] = ()) -> Amounts:
        """Read distinct texts; blanks at their ends do not count. decimal: the mark before decimals, "." or ",".
        settled: that of earlier texts of the same column."""
        cells, other = {}, []
        for text in texts:
            cell = _Cell.of(text, decimal)
            if cell is None:
                other.append(text)
            else:
                cells[text] = cell
        known = _settled(list(cells.values())) | frozenset(settled)
        doubtful = {t for t, c in cells.items() if (c.form and c.form not in known) or (c.times and "k" not in known)}
        read = {text: cell for text, cell in cells.items() if text not in doubtful}
        units, marks = ({getattr(cell, what) for cell in cells.values()} for what in ("unit", "mark"))
        alike = len(units - {None}) <= 1 and len(marks - {None}) <= 1 and units != {None, "%"}
        marked = tuple(t for t, c in read.items() if c.unit or c.mark or c.form or c.times)
        return cls(
            {t: c.number for t, c in read.items()},
            marked,
            tuple(other),
            tuple(t for t in cells if t in doubtful),
            alike,
            known,
        )


def _settled(cells: Sequence[_Cell]) -> frozenset[str]:
    """Which ways to write numbers are beyond doubt in a column: brackets and a last minus by a unit, by a mark between
    thousands or by cents in such a cell (12- may be a code, 1.5- a grade, (2) a note),
    k and M by money or by decimals (5k may be a run)."""
    forms = {c.form for c in cells if c.form and (c.unit or c.mark or c.cents)}
    return frozenset(forms | {"k" for c in cells if c.times and (c.unit or c.decimals)})


_FIRST = 100
_MOSTLY = 0.95
_FEWEST = 10
Written = dict[Any, dict[str, Amounts]]


def written_amounts(frame: Any, settled: Mapping[Any, Iterable[str]] | None) -> Written:
    """The text columns of a pandas frame whose first cells are nearly all numbers by one of both marks before decimals,
    or mostly like amounts of money: by name, and of each its cells as read with either mark. settled: `Amounts.settled`
    of earlier parts of the same file, by column."""
    out = {}
    for name in frame.columns:
        if frame[name].dtype.kind in "biuf":
            continue
        known, before = frame[name].dropna(), (settled or {}).get(name, ())
        few = known.head(_FIRST).astype(str).unique()
        likely = sum(_like_money(text) for text in few) > len(few) / 2
        if likely or any(
            len(Amounts.of(few, mark).other) <= (1 - _MOSTLY) * len(few) < len(few) for mark in OTHER_MARK
        ):
            cells = known.astype(str).unique()
            out[name] = {mark: Amounts.of(cells, mark, before) for mark in OTHER_MARK}
    return out


def of_other_mark(texts: Sequence[str], decimal: str) -> str | None:
    """Of the distinct texts of a column that are not all numbers where `decimal` begins decimals, but would be read as some
    where the other mark does, one with that mark; None for other columns."""
    other_mark = OTHER_MARK[decimal]
    marked = [text for text in texts if other_mark in text]
    if not marked or not (wrong := Amounts.of(texts, decimal).other):
        return None
    otherwise = Amounts.of(texts, other_mark)
    if not all(map(is_number, (*otherwise.other, *otherwise.doubtful))):
        return None
    return next((text for text in marked if text in wrong), marked[0])


def _like_money(text: str) -> bool:
    return _LIKE_MONEY.fullmatch(text.strip()) is not None


@dataclass
class Said:
    """What a reader should know of columns of amounts. read: which were read so that have signs, marks between thousands
    or marks that may be either, with a cell each. either: by column with marks that may be either, the mark that was not
    taken; sure: columns that are none with that mark before decimals. text: why columns stay text."""

    read: dict[Any, str] = field(default_factory=dict)
    either: dict[Any, str] = field(default_factory=dict)
    sure: set[Any] = field(default_factory=set)
    text: dict[Any, str] = field(default_factory=dict)

    def add(self, other: Said) -> None:
        """What was said of another part of the file."""
        self.read |= other.read
        self.either |= other.either
        self.sure |= other.sure
        self.text |= other.text

    def lines(self, columns: Sequence[Any], left_out: Collection[Any] = ()) -> list[str]:
        """In sentences. columns: of the file, in order. left_out: those that are not read as numbers after all."""
        read = [name for name in columns if name in self.read and name not in left_out]
        said = [self.text[name] for name in columns if name in self.text]
        if not read:
            return said
        others = sorted({mark for name, mark in self.either.items() if name in read and name not in self.sure})
        hint = "".join(f' If {mark!r} begins decimals there, pass decimal="{mark}".' for mark in others)
        return [f"read as numbers: {shortlist(self.read[name] for name in read)}.{hint}", *said]


def read_amounts(
    frame: Any,
    written: Written,
    decimal_of: Callable[[Any], str],
    told: set[str],
    numbers: Collection[Any] = frozenset(),
) -> Said:
    """Make numbers of those text columns of a pandas frame all of whose cells are some. written: its `written_amounts`.
    decimal_of: the mark before decimals of a column, "." or ",". told: what was said of earlier parts, which is not said
    again, and to which this adds. numbers: columns that are numbers even where no cell has a mark or a sign. Returns what
    is said."""
    out = Said()
    for name, by_mark in written.items():
        decimal = decimal_of(name)
        other_mark = OTHER_MARK[decimal]
        found, otherwise = by_mark[decimal], by_mark[other_mark]
        commas = [cell for cell in found.numbers if "," in cell]
        written_so = found.marked or commas or name in numbers
        if found.alike and not found.other and not found.doubtful and written_so:
            frame[name] = frame[name].map(found.numbers, na_action="ignore").astype(float)
            if otherwise.other:
                out.sure.add(name)
            elif any("," in cell or "." in cell for cell in found.numbers):
                out.either[name] = other_mark
            shown = (*found.marked, *(() if otherwise.other else commas))
            if shown and f"{name} read" not in told:
                told.add(f"{name} read")
                cell = shown[0]
                out.read[name] = f"{name!r} ({cell!r} as {found.numbers[cell]:.15g}{_below_zero(found, cell)})"
        elif f"{name} text" not in told and (why := _why_text(name, found, otherwise, other_mark)):
            told.add(f"{name} text")
            out.text[name] = why
    return out


def _below_zero(found: Amounts, shown: str) -> str:
    """How a cell in brackets, or with a minus at its end, was read; "" without one, or where it is `shown`."""
    cells = [cell for cell in found.marked if found.numbers[cell] <= 0 and ("(" in cell or cell.rstrip().endswith("-"))]
    return f", {cells[0]!r} as {found.numbers[cells[0]]:.15g}" if cells and cells[0] != shown else ""


def _why_text(name: str, found: Amounts, otherwise: Amounts, other_mark: str) -> str:
    """What is said of a column that stays text, "" if nothing. otherwise: as read with the other mark before decimals."""
    begins = f"the column {name!r} is read as text"
    if found.other and not otherwise.other and not otherwise.doubtful:
        return (
            f"{begins}, since {other_mark!r} does not begin decimals in this file ({found.other[0]!r}). If it does, pass "
            f'decimal="{other_mark}"; numbers may also be written plainly, such as 1015.5.'
        )
    cells = len(found.numbers) + len(found.doubtful) + len(found.other)
    if found.other:
        odd = [text for text in found.other if _like_money(text)]
        likely = 2 * (len(found.marked) + len(odd)) > cells or (
            found.marked and len(found.other) <= (1 - _MOSTLY) * cells
        )
        if cells - len(found.other) + len(odd) < _FEWEST or not likely:
            return ""
        if len(odd) > len(found.other) / 2:
            return f"{begins}, though its cells look like amounts, such as {odd[0]!r}. If they are, write them plainly, such as 1015.5."
        return f"{begins}: most cells are numbers such as {(*found.marked, *odd)[0]!r}, not {found.other[0]!r}. Correct these or leave them empty."
    if found.doubtful:
        likely = bool(found.numbers) or any(text.strip()[-1] in _WITHOUT_UNIT for text in found.doubtful)
        doubt = f"since {found.doubtful[0]!r} may be a number or a code. If it is a number, write it plainly, such as 1015.5."
        return f"{begins}, {doubt}" if likely else ""
    if not found.marked:
        return ""
    cell = repr(found.marked[0])
    return f"{begins}: its cells are numbers such as {cell}, but not of one unit and one mark between thousands. Write them alike."
