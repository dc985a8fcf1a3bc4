"""What the cells of a CSV file are read as: each column as text, as numbers, or as all its cells in the file say."""

from __future__ import annotations

import re
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fairbound.base.errors import DataWarning, OptionError
from fairbound.rows.groups import label_text
from fairbound.tables.columns import has_leading_zero
from fairbound.tables.encoder import TableEncoder
from fairbound.tables.features import CategoryFeature
from fairbound.tables.marks import Mark
from fairbound.tables.notation import WORDS, Notations, key_text

BLOCK = 1 << 20
"""Characters of a file that are searched at once."""


@dataclass(frozen=True, kw_only=True)
class Kinds:
    """How columns of a CSV file are read, by their names.

    text: their cells stay as they are written. numbers: they are numbers, even where their cells look like codes. keys:
    they tell persons or groups apart, so they are numbers only where these are called as the cells are: `key_text`.
    known: of columns of text, the values that a saved model knows; a cell that is one of them, None or NA too, is that
    text, and one in another notation, such as true or 1.0, is read as it. look: whether the other columns of a file that
    is read in parts are looked through before, so that all parts are read alike. verbatim: no cell is taken for missing,
    not even an empty one. marks: by separator, the marks before decimals of files that saved models were trained on.
    """

    text: frozenset[str] = frozenset()
    numbers: frozenset[str] = frozenset()
    keys: frozenset[str] = frozenset()
    known: Mapping[str, frozenset[str]] = field(default_factory=dict)
    look: bool = True
    verbatim: bool = False
    marks: Mapping[str, frozenset[Mark]] = field(default_factory=dict)

    @classmethod
    def learnt(cls, *encoders: TableEncoder) -> Kinds:
        """Those that fitted encoders dictate. A column that one of them has as text is text for all: numbers are read
        from text too."""
        text, numbers, known = set[str](), set[str](), defaultdict[str, set[str]](set)
        for encoder in encoders:
            for spec in (encoder.learnt or ()) if encoder.named else ():
                (numbers if spec.kind == "number" else text).add(spec.name)
                if isinstance(spec, CategoryFeature):
                    known[spec.name].update(spec.values)
        values = {name: frozenset(found) for name, found in known.items()}
        return cls(text=frozenset(text), numbers=frozenset(numbers - text), known=values)

    def as_read(self, header: Sequence[str]) -> dict[str, Any]:
        """What `pandas.read_csv` is told. header: the names of all columns, in order."""
        types = {at: str for at, name in enumerate(header) if self.verbatim or name in self.text}
        if self.verbatim:
            return {"dtype": types, "na_values": []}
        kept = {name: values & WORDS for name, values in self.known.items() if name in self.text and values & WORDS}
        if kept.keys().isdisjoint(header):
            return {"dtype": types}
        missing = {at: sorted(WORDS - kept.get(name, frozenset())) for at, name in enumerate(header)}
        return {"dtype": types, "na_values": missing}

    def mark_under(self, separator: str) -> Mark | None:
        """The mark before decimals that saved models know in files of this separator, None where they know none.
        Raises: OptionError where they know several."""
        marks = self.marks.get(separator, frozenset())
        if len(marks) > 1:
            raise OptionError(
                "the saved models were trained on files with other marks before decimals than each other's, so that it is not known how "
                'this file has them. Pass decimal="." or decimal=",".'
            )
        return next(iter(marks), None)

    def named(self, frame: Any) -> None:
        """Write cells of text in a frame as `known` and `keys` have them. Warns: DataWarning where blanks at their ends
        are all that told cells of `keys` apart."""
        for name in frame.columns:
            if frame[name].dtype.kind in "biufM" or self.verbatim:
                continue
            values = self.known.get(name, frozenset()) if name in self.text else frozenset()
            written, spelled, otherwise = {}, defaultdict[str, list[str]](list), Notations(values)
            for cell in frame[name].dropna().unique():
                spelled[str(cell).strip()].append(str(cell))
                other = _as_known(str(cell), values, otherwise)
                if name in self.keys and other == cell and cell.strip() not in values:
                    other = key_text(cell)
                if other != cell:
                    written[cell] = other
            if name in self.keys and (alike := next((cells for cells in spelled.values() if len(cells) > 1), None)):
                warnings.warn(
                    f"the column {name!r} of the CSV file holds {' and '.join(map(repr, sorted(alike)))}, which differ only in "
                    "blanks and are read as one. Where they are not, write them otherwise.",
                    DataWarning,
                    stacklevel=3,
                )
            if written:
                frame[name] = frame[name].map(lambda cell, written=written: written.get(cell, cell), na_action="ignore")

    def doubtful(self, frame: Any, zeros: bool) -> list[str]:
        """Columns of numbers of a frame that may be codes. zeros: whether any cell of the file begins with a zero that
        another digit follows."""
        return [
            name
            for name in frame.columns
            if name not in self.numbers
            and frame[name].dtype.kind in "iuf"
            and ((zeros and _whole(frame[name])) or (name in self.keys and frame[name].dtype.kind == "f"))
        ]

    def are_codes(self, name: str, cells: Iterable[str]) -> bool:
        """Whether cells of a column, all of them numbers, are read as text."""
        if name in self.keys:
            return any(key_text(cell) != _number_name(cell) for cell in cells)
        return any(has_leading_zero(cell.strip()) for cell in cells)

    def with_text(self, names: Iterable[str]) -> Kinds:
        """These, and more columns of text."""
        return replace(self, text=self.text | set(names))


def _as_known(cell: str, values: frozenset[str], otherwise: Notations) -> str:
    """A cell as one of some values is spelt, if it is one in another notation; else as it is."""
    return cell if cell.strip() in values else otherwise.find(cell) or cell


def _number_name(cell: str) -> str | None:
    try:
        return label_text(float(cell))
    except ValueError:  # with a comma before its decimals
        return None


def _whole(column: Any) -> bool:
    return column.dtype.kind != "f" or bool((column.dropna() % 1 == 0).all())


def zeros_before(blocks: Iterable[str], separator: str) -> bool:
    """Whether a cell of a CSV text may begin with a zero that another digit follows. blocks: the text in pieces."""
    begins, end = re.compile(rf"[{re.escape(separator)}\"\s][+-]?0\d"), ""
    for block in blocks:
        if begins.search(end + block):
            return True
        end = block[-3:]
    return False


def blocks_of(lines: Any) -> Iterator[str]:
    """The text of an open file in pieces."""
    return iter(lambda: lines.read(BLOCK), "")


class Looked:
    """What the columns of a file were found to hold, part by part."""

    def __init__(self) -> None:
        self._found: dict[str, set[str]] = defaultdict(set)

    def add(self, frame: Any) -> None:
        """Look at a part that was read by itself."""
        for name in frame.columns:
            known = frame[name].dropna()
            if len(known):
                self._found[name].add(_holds(known))

    @property
    def mixed(self) -> set[str]:
        """The columns that hold numbers in some parts and text in others."""
        return {name for name, found in self._found.items() if len(found) > 1}


def _holds(known: Any) -> str:
    if known.dtype.kind in "iuf":
        return "numbers"
    return "truth" if known.dtype.kind == "b" or all(isinstance(v, bool) for v in known.unique()) else "text"
