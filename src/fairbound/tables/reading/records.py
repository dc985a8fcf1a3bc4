"""The records of a CSV text: which separator it has, its header, and lines that are longer or shorter than that."""

from __future__ import annotations

import contextlib
import csv
import io
import os
import re
import sys
import zlib
from collections.abc import Iterable, Iterator
from itertools import dropwhile, islice
from pathlib import Path
from typing import Any

from fairbound.base.errors import DataError
from fairbound.tables.reading.opening import how_written, opened

SEPARATORS = (",", ";", "\t")
FAR = 10
"""Lines that one record may have before an open quotation mark is taken for the reason."""
SAYS_SEPARATOR = re.compile(r'"?sep=[,;\t]"?', re.IGNORECASE)


@contextlib.contextmanager
def any_field_size() -> Iterator[None]:
    """Cells of any length, as pandas reads them."""
    before = csv.field_size_limit(sys.maxsize)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def records(text: str | Iterable[str], separator: str) -> Any:
    """The non-blank records of a CSV text or of its lines, as lists of cells
    with the reader's line number after each."""
    lines = io.StringIO(text, newline="") if isinstance(text, str) else text
    reader = csv.reader(lines, delimiter=separator, skipinitialspace=True)
    for record in reader:
        if reader.line_num == 1 and before_header(separator.join(record)):
            continue
        if record and not (len(record) == 1 and not record[0].strip()):
            yield record, reader.line_num


def begins_at(record: list[str], line: int, unclosed: bool = False) -> int:
    """The line on which a record begins that ends on `line`. unclosed: its last cell, whose quotation mark is open, also
    holds the end of the file's last line."""
    last = record[-1].removesuffix("\n") if unclosed else record[-1]
    return line - sum(cell.count("\n") for cell in (*record[:-1], last))


def first_lines(lines: Iterable[str]) -> str:
    """The first line of a file that is not blank, in which the header is, and the next one, in which it may be."""
    return "".join(islice(dropwhile(lambda line: not line.strip(), lines), 2))


def before_header(text: str) -> int:
    """How many lines stand before the header: one where Excel is told there what separates (sep=;), else none."""
    return int(SAYS_SEPARATOR.fullmatch(text.partition("\n")[0].rstrip("\r")) is not None)


def sniff(path: Path, text: str) -> tuple[str, list[str]]:
    """The separator under which the header has most fields (the first named wins a tie), and the header's names."""
    headers: dict[str, list[str]] = {}
    with any_field_size():  # under a wrong separator the header is one long field
        for separator in SEPARATORS:
            try:
                headers[separator] = next(records(text, separator))[0]
            except StopIteration:
                raise DataError(f"{path}: the file is empty.") from None
            except csv.Error as error:
                raise DataError(f"{path}: the header line cannot be read ({error}).") from error
    best = max(SEPARATORS, key=lambda separator: len(headers[separator]))
    if len(headers[best]) == 1 and "|" in headers[best][0]:
        raise DataError(
            f"{path}: its header is separated by |, which is not read. Save it with , or ; or tab between fields."
        )
    return best, [name.strip() for name in headers[best]]


def check_widths(path: Path, text: str | Iterable[str], separator: str, width: int) -> None:
    """Raises: DataError with the first line of a CSV text, or of its lines, that has not `width` fields."""
    try:
        with any_field_size():
            for record, line in records(text, separator):
                if len(record) != width:
                    begins = begins_at(record, line, unclosed=True)
                    if line - begins > FAR:
                        raise DataError(
                            f"{path}: what begins in line {begins} ends in line {line}, and has {len(record)} fields, the header {width}. "
                            f"A quotation mark in line {begins} may open a cell that is never closed; close it or take it out."
                        )
                    raise DataError(
                        f"{path}: line {line} has {len(record)} fields, the header {width}. A cut-off file, or a separator "
                        "inside a cell that is not quoted."
                    )
    except csv.Error as error:
        raise DataError(f"{path}: not a readable table: {error}.") from error


def line_of(path: str | os.PathLike[str], row: int, unclosed: bool = False) -> int | None:
    """The line of a CSV file on which its row number `row` (from 0, the header not counted) begins, blank lines and
    line breaks in quoted cells counted; None where the file cannot be read so. Commas, quotes and ends of lines are the
    same in Latin-1 as in other encodings that need no byte order mark. unclosed: a cell of it, whose quotation mark is
    open, goes on to the file's end."""
    try:
        with opened(Path(path), *how_written(Path(path), "latin-1")) as lines, any_field_size():
            separator, _ = sniff(Path(path), first_lines(lines))
            lines.seek(0)
            for at, (record, line) in enumerate(records(lines, separator)):
                if at == row + 1:
                    return begins_at(record, int(line), unclosed)
    except (OSError, EOFError, ValueError, zlib.error, csv.Error, DataError):
        pass
    return None
