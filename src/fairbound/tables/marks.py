"""Which mark stands before decimals in a CSV file that does not say it: what all its columns show together."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from fairbound.base.names import shortlist
from fairbound.tables.amounts import MONEY, Amounts, Written

BOTH = ".,"
"""Both marks stand before decimals: commas in some columns, `Mark.commas`, and points in the others."""
ALIKE = (";", "\t")
"""Separators under which commas may stand in numbers without quotation marks: files of both are read alike."""
_THOUSAND = 1000


class Mark(NamedTuple):
    """How the numbers of a file are written. decimal: "." or ",", the mark before decimals; `BOTH`; None where no number
    has a mark. commas: columns where commas begin decimals though their cells may look like plain numbers, as 1.015 does, so
    that they are read from text. unsure: columns whose points may stand between thousands too, though they are read as
    decimals, each with such a cell."""

    decimal: str | None
    commas: frozenset[Any] = frozenset()
    unsure: tuple[tuple[Any, str], ...] = ()

    def before(self, name: Any) -> str:
        """The mark before decimals in a column that is read from text."""
        return "." if self.decimal == "." or (self.decimal == BOTH and name not in self.commas) else ","

    def lines(self, columns: Collection[Any]) -> list[str]:
        """What a reader should know of columns that may be read wrongly."""
        said = [f"{name!r} ({cell!r} as {float(cell):.15g})" for name, cell in self.unsure if name in columns]
        if not said:
            return []
        return [f'points begin decimals in {shortlist(said)}. If they stand between thousands there, pass decimal=",".']


@dataclass
class _Column:
    """What was seen of a column. text: whether any of its parts was text. point, comma: whether all its texts are numbers
    where this mark begins decimals. points, commas: whether any has it. money: the marks in amounts of money. plain: whether
    it has a number with a point that can only begin decimals. small, large: whether it has whole numbers without a mark
    from 1 to 999, and greater ones. floats: whether a part was read as numbers with decimals. cell: one with a point."""

    text: bool = False
    point: bool = True
    comma: bool = True
    points: bool = False
    commas: bool = False
    money: set[str] = field(default_factory=set)
    plain: bool = False
    small: bool = False
    large: bool = False
    floats: bool = False
    cell: str = ""

    @property
    def grouped(self) -> bool:
        """Whether a mark stands before three digits always, and numbers below 1,000 have none, as between thousands.
        (Decimals would end in another number of digits somewhere.)"""
        return self.small and not self.large

    def add_numbers(self, values: np.ndarray) -> None:
        """Most decimals are known by their values; texts, which take longer to look at, are left for the others."""
        sizes = np.abs(values[np.isfinite(values)])
        whole = sizes % 1 == 0
        decimals = ~whole & ((sizes < 1) | (sizes >= _THOUSAND) | (np.round(sizes, 3) != sizes))
        self.plain |= bool(decimals.any())
        self.floats |= values.dtype.kind == "f"
        self._add_whole(sizes[whole])

    def _add_whole(self, sizes: np.ndarray) -> None:
        self.small |= bool(((sizes > 0) & (sizes < _THOUSAND)).any())
        self.large |= bool((sizes >= _THOUSAND).any())

    def add_texts(self, point: Amounts, comma: Amounts) -> None:
        self.text = True
        self.point &= not point.other
        self.comma &= not comma.other
        self._add_cells({**point.numbers, **comma.numbers})

    def _add_cells(self, texts: Iterable[str]) -> None:
        bare = []
        for text in texts:
            marks = {mark for mark in ".," if mark in text}
            self.points |= "." in marks
            self.commas |= "," in marks
            if marks and re.search(MONEY, text):
                self.money |= marks
            if "." in marks:
                self.cell = self.cell or text
            if re.fullmatch(r"[+-]?[0-9]+", text.strip()):
                bare.append(abs(float(text)))
        self._add_whole(np.array(bare))

    def add_written(self, texts: Iterable[str]) -> None:
        """The texts of a column that was read as numbers with decimals."""
        found = Amounts.of(texts, ",")
        self.plain |= any("." in text for text in found.other)
        self.comma &= not found.other
        self._add_cells(found.numbers)


class Marks:
    """What the numbers of a file show of the mark before decimals, part by part."""

    def __init__(self) -> None:
        self._columns: dict[Any, _Column] = defaultdict(_Column)

    def add(self, frame: Any, written: Written) -> None:
        """A part as pandas reads it where a point begins decimals. written: its `written_amounts`."""
        for name in frame.columns:
            column = self._columns[name]
            if name in written:
                column.add_texts(written[name]["."], written[name][","])
            elif frame[name].dtype.kind in "iuf":
                column.add_numbers(frame[name].to_numpy())
            elif frame[name].notna().any():  # words
                column.text, column.point, column.comma = True, False, False

    def add_written(self, name: Any, texts: Sequence[str]) -> None:
        """Different texts of a column of `doubtful`, as they are written in the file."""
        self._columns[name].add_written(texts)

    def doubtful(self) -> list[Any]:
        """Columns read as numbers with decimals that say nothing before their texts are seen, where these may matter."""
        if self._plain and not self._commas:
            return []
        found = [n for n, c in self._columns.items() if c.floats and not c.plain and (c.comma or not c.text)]
        for name in found:
            self._columns[name].small = self._columns[name].large = False  # 1.000 may be a thousand: its text says it
        return found

    @property
    def _plain(self) -> bool:
        """Whether a column of plain numbers has points that begin decimals for sure."""
        return any(c.plain and not c.text for c in self._columns.values())

    @property
    def _commas(self) -> bool:
        """Whether a column is numbers where commas begin decimals, and is none otherwise."""
        return any(c.text and c.comma and not c.plain and not c.point for c in self._columns.values())

    def settled(self) -> Mark:
        """The mark that the columns agree on. Where none is sure, a mark before three digits stands between thousands
        of money, and beside whole numbers below 1,000 without one; else a point and a comma begin decimals."""
        columns = self._columns.items()
        pointed = {n: c for n, c in columns if c.floats and c.points and c.comma and not c.plain}
        sure = self._plain or any(c.text and c.point and not c.comma for _, c in columns)
        decimal: str | None = "." if sure and not self._commas else BOTH if self._plain else ","
        if not sure and not self._commas:
            decimal = self._likely([c for _, c in columns if c.text and c.point and c.comma], list(pointed.values()))
        pairs = [(n, c) for n, c in columns if c.text and c.comma and not c.plain and (c.commas or c.points)]
        commas = pairs if decimal == BOTH else pointed.items() if decimal == "," else ()
        told = decimal == "," or (decimal == "." and sure)
        unsure = [] if told else [(n, c.cell) for n, c in pointed.items() if c.grouped and not c.text]
        return Mark(decimal, frozenset(n for n, _ in commas), tuple(unsure))

    @staticmethod
    def _likely(texts: Sequence[_Column], pointed: Sequence[_Column]) -> str | None:
        """The mark before decimals where no column is sure of it. texts: columns of text that are numbers either way;
        pointed: of plain numbers that may have points between thousands."""
        commas = any(c.commas for c in texts)
        if any("," in c.money or (c.commas and c.grouped) for c in texts):
            return "."
        if any("." in c.money for c in texts) or (commas and any(c.grouped for c in pointed)):
            return ","
        if commas:
            return BOTH if pointed else ","
        return "." if pointed or any(c.points for c in texts) else None
