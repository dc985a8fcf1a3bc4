"""Reading CSV and Parquet files; an error names the file and the line that is wrong."""

from __future__ import annotations

import io
import os
import re
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from fairbound.base.errors import DataError, DataWarning, NoRowsError, silenced
from fairbound.base.extras import extra
from fairbound.tables.amounts import OTHER_MARK, Said, Written, of_other_mark, read_amounts, written_amounts
from fairbound.tables.marks import ALIKE, BOTH, Mark, Marks
from fairbound.tables.notation import MISSING_WORDS
from fairbound.tables.reading.kinds import Kinds, Looked, blocks_of, zeros_before
from fairbound.tables.reading.opening import (
    DAMAGED,
    check_plain,
    damaged,
    how_written,
    opened,
    read_text,
    undecoded_line,
)
from fairbound.tables.reading.parquet import check_written, is_parquet, parquet_parts, whole_numbers
from fairbound.tables.reading.records import before_header, check_widths, first_lines, line_of, sniff

INDEX = "Unnamed: 0"
"""What pandas calls a first column without a name."""


def read_table(
    path: str | os.PathLike[str],
    *,
    encoding: str | None = None,
    decimal: str | None = None,
    kinds: Kinds | None = None,
) -> Any:
    """A CSV file with a header line, or a Parquet file (.parquet, .pq), as a pandas DataFrame.

    The file may be gzip (seen from its first bytes); the separator is the one of ``,`` ``;`` tab under which the header
    has most fields, and a line ``sep=;`` before it is passed over. Blanks after a separator are dropped; empty cells, ``?``, ``.`` and pandas' usual words
    (NA, NaN, null, ...) are missing, but where `kinds` has such a word as a known category. A first column without a name, where pandas and R write row numbers, is left out
    with a DataWarning. A column is numbers only where all its cells are, and none is a whole number with a zero before
    it: 01003 is a code, and its column text.

    encoding: of the text, such as "cp1252"; a byte order mark (UTF-8, UTF-16, UTF-32) goes before it, and without
    either it is UTF-8.
    decimal: the mark before decimals, "." or ",". Without it it is "." where commas separate; where ``;`` or tab does,
    both are read, and a mark that may be either is taken as the other columns have it. Else a comma stands between
    thousands of money and beside whole numbers below 1,000 without one, and before decimals of others, and a point of
    plain numbers before decimals, with a DataWarning. A column of text all of whose cells are numbers ($1,015; 1.015,50 €; 12 % as
    12; 1 015; ($30) as -30; $1.2k as 1200) is read as numbers, with a DataWarning that says so; another one warns of a
    column that stays text though it may be numbers.
    kinds: how single columns are read, such as Kinds(text=frozenset({"code"})). Kinds(keys=frozenset({"sex"})) reads
    groups and persons as the command line does: without blanks at the ends of their cells, which are kept otherwise,
    and 1.0 as 1.

    Raises: FileNotFoundError or IsADirectoryError for a wrong path; DataError for an empty file, a header without rows,
    duplicate names in the header, rows longer or shorter than the header (with the line), a truncated or damaged gzip
    file, or text in another encoding; OptionError for an unknown encoding or decimal mark, and for either with a
    Parquet file; ImportError without pandas.
    """
    return table_and_marks(path, encoding, decimal, kinds)[0]


def table_and_marks(
    path: str | os.PathLike[str], encoding: str | None, decimal: str | None, kinds: Kinds | None
) -> tuple[Any, dict[str, Mark]]:
    """As `read_table`, and its mark before decimals as `Reading.marks` has it."""
    with extra("data", "reading CSV files needs pandas"):
        import pandas as pd

    path, kinds, reading = Path(path), kinds or Kinds(), Reading()
    check_written(path, encoding, decimal)
    check_plain(path)
    if is_parquet(path) and path.is_file():
        parts = [whole_numbers(part, kinds.keys) for part in parquet_parts(path, 1 << 20)]
        return pd.concat(parts).reset_index(drop=True), {}
    text = read_text(path, encoding)
    separator, header = sniff(path, text)
    _check_header(path, header, set())
    known = reading.known_mark(separator, decimal, kinds)
    first_text = kinds.with_text(known.commas if known else ())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # cells beyond the header would be left out
            how = {**_as_read(text, separator, known), **first_text.as_read(header)}
            frame = pd.read_csv(io.StringIO(text), **how)
    except pd.errors.EmptyDataError:
        raise DataError(f"{path}: the file has no header and no rows.") from None
    except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
        check_widths(path, text, separator, len(header))
        raise _unreadable(path, error) from error
    frame = _without_index(frame)
    if len(frame) == 0:
        raise _no_rows(path, header)
    if len(header) > 1 and frame.iloc[:, -1].isna().any():
        check_widths(path, text, separator, len(header))
    doubtful = kinds.doubtful(frame, zeros_before([text], separator))
    for cells in [_texts(io.StringIO(text), how, header, doubtful)] if doubtful else ():
        codes = [name for name in doubtful if kinds.are_codes(name, cells[name].dropna().unique())]
        frame[codes] = cells[codes]
    written = _written(frame, kinds)
    if reading.mark is None:
        found = Marks()
        found.add(frame, written)
        if columns := found.doubtful():
            cells = _texts(io.StringIO(text), how, header, columns)
            for name in columns:
                found.add_written(name, cells[name].dropna().unique())
        reading.mark = found.settled()
        if again := [name for name in columns if name in reading.mark.commas]:
            frame[again] = cells[again]
            written |= _written(frame[again], kinds)
        _warn(path, reading.mark.lines(header))
    _warn(path, _take_amounts(frame, written, reading.mark, reading.told).lines(list(frame)))
    _check_marks(path, frame, kinds, reading.mark)
    kinds.named(frame)
    return frame, reading.marks


def _texts(source: Any, how: dict[str, Any], header: Sequence[str], columns: Sequence[str]) -> Any:
    """Some columns of a CSV file as they are written, read at once, or in parts where `how` says so."""
    import pandas as pd

    places = [at for at, name in enumerate(header) if name in columns]
    found = pd.read_csv(source, **{**how, "usecols": places, "dtype": str})
    if hasattr(found, "columns"):
        found.columns = [str(name).strip() for name in found.columns]
    return found


def _unreadable(path: Path, error: Exception) -> DataError:
    """What is said of a table that pandas cannot read, where all its lines are as long as the header."""
    if opens := re.search(r"EOF inside string starting at row (\d+)", str(error)):
        line = line_of(path, int(opens[1]) - 1, unclosed=True)  # pandas counts the header too
        return DataError(
            f"{path}: a quotation mark in line {line} opens a cell that is never closed. Close it or take it out."
        )
    return DataError(f"{path}: not a readable table: {error}.")


def _no_rows(path: Path, header: Sequence[str]) -> NoRowsError:
    return NoRowsError(f"{path}: the file has a header ({len(header)} columns) but no rows.", header)


@dataclass
class Reading:
    """What has been done with a CSV file that is read in parts, each time it is read. mark: before its decimals, None
    until it is known. marks: what a model that is trained on the file remembers of it, by separator; {} where it
    follows from the separator, or no number of the file has one."""

    told: set[str] = field(default_factory=set)
    even: bool = False
    kinds: Kinds | None = None
    mark: Mark | None = None
    _separator: str = ","
    _stated: bool = False

    def known_mark(self, separator: str, decimal: str | None, kinds: Kinds) -> Mark | None:
        """The mark before decimals as far as it is known before the numbers are looked at. decimal: as stated.
        Raises: OptionError where saved models contradict each other."""
        self._separator, self._stated = separator, decimal is not None
        known = Mark(decimal) if decimal else kinds.mark_under(separator)
        if known is None and (separator == "," or kinds.verbatim):
            known = Mark(".")
        self.mark = known or self.mark
        return known

    @property
    def marks(self) -> dict[str, Mark]:
        if self.mark is None or self.mark.decimal is None or (self._separator == "," and not self._stated):
            return {}
        mark = Mark(self.mark.decimal, self.mark.commas if self.mark.decimal == BOTH else frozenset())
        return {one: mark for one in (ALIKE if self._separator in ALIKE else (self._separator,))}

    def check_widths(self, path: Path, zipped: bool, encoding: str, separator: str, width: int) -> None:
        """Raises: DataError with the first line that is longer or shorter than the header."""
        if not self.even:
            with opened(path, zipped, encoding) as lines:
                check_widths(path, lines, separator, width)
            self.even = True


def csv_parts(
    path: str | os.PathLike[str],
    rows: int,
    columns: Sequence[str] | None = None,
    encoding: str | None = None,
    decimal: str | None = None,
    reading: Reading | None = None,
    kinds: Kinds | None = None,
) -> Iterator[Any]:
    """The rows of a CSV file as DataFrames of at most `rows` rows, read as `read_table` reads it; columns: these alone.
    reading: of a file that is read several times, so that it is looked through, checked and spoken of once.

    Raises: DataError and ImportError as `read_table`.
    """
    reading, kinds = reading or Reading(), kinds or Kinds()
    with extra("data", "reading CSV files needs pandas"):
        import pandas as pd

    path = Path(path)
    check_plain(path)
    zipped, encoding = how_written(path, encoding)
    try:
        with opened(path, zipped, encoding) as lines:
            first = first_lines(lines)
            separator, header = sniff(path, first)
    except DAMAGED as error:
        raise damaged(path, error) from error
    except UnicodeError as error:
        raise undecoded_line(path, zipped, encoding, error) from None
    _check_header(path, header, reading.told)
    how = {
        **_as_read(first, separator, reading.known_mark(separator, decimal, kinds)),
        "chunksize": rows,
        "encoding": encoding,
        "compression": "gzip" if zipped else None,
        "usecols": None if columns is None else lambda name: str(name).strip() in columns,
    }
    file = _File(path, zipped, encoding, separator, header, how)
    try:
        if columns is not None:  # pandas passes over what is wrong in columns that it leaves out
            reading.check_widths(path, zipped, encoding, separator, len(header))
        if reading.mark is None:
            reading.mark = _settled_mark(file, kinds, reading) if kinds.look else Mark(None)
            _warn(path, reading.mark.lines(header if columns is None else columns))
        if reading.kinds is None:
            wanted = header if columns is None else columns
            reading.kinds = _looked_through(file, wanted, kinds, reading) if kinds.look else kinds
        for frame, said in _parts(file, reading.kinds, reading):
            _warn(path, said.lines(list(frame)))
            yield frame
    except UnicodeError as error:
        raise undecoded_line(path, zipped, encoding, error) from None
    except DAMAGED as error:
        raise damaged(path, error) from error
    except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
        reading.check_widths(path, zipped, encoding, separator, len(header))
        raise _unreadable(path, error) from error


class _File(NamedTuple):
    """A CSV file, and `how` pandas is told to read it in parts."""

    path: Path
    zipped: bool
    encoding: str
    separator: str
    header: Sequence[str]
    how: dict[str, Any]


def _frames(file: _File, kinds: Kinds, reading: Reading, texts: Collection[str] = ()) -> Iterator[Any]:
    """The parts of the file as pandas reads them. texts: columns that are text at first."""
    import pandas as pd

    with pd.read_csv(file.path, **{**file.how, **kinds.with_text(texts).as_read(file.header)}) as reader:
        while True:
            with warnings.catch_warnings():
                warnings.simplefilter("error", pd.errors.ParserWarning)
                frame = next(reader, None)
            if frame is None:
                return
            if len(frame) == 0:
                raise _no_rows(file.path, file.header)
            if len(file.header) > 1 and frame.iloc[:, -1].isna().any():
                reading.check_widths(file.path, file.zipped, file.encoding, file.separator, len(file.header))
            yield _without_index(frame)


def _parts(file: _File, kinds: Kinds, reading: Reading) -> Iterator[tuple[Any, Said]]:
    """The parts of the file, each read by itself, and what is said of their amounts."""
    assert reading.mark is not None
    settled: dict[str, frozenset[str]] = {}
    for frame in _frames(file, kinds, reading, reading.mark.commas):
        written = _written(frame, kinds, settled)
        settled |= {name: found[reading.mark.before(name)].settled for name, found in written.items()}
        said = _take_amounts(frame, written, reading.mark, reading.told)
        _check_marks(file.path, frame, kinds, reading.mark)
        kinds.named(frame)
        yield frame, said


def _settled_mark(file: _File, kinds: Kinds, reading: Reading) -> Mark:
    """The mark before decimals that the whole file shows, in all its columns."""
    found, file = Marks(), file._replace(how={**file.how, "usecols": None})
    for frame in _frames(file, kinds, reading):
        found.add(frame, _written(frame, kinds))
    if columns := found.doubtful():
        with _texts(file.path, file.how, file.header, columns) as parts:
            for cells in parts:
                for name, texts in _without_index(cells).items():
                    found.add_written(name, texts.dropna().unique())
    return found.settled()


def _looked_through(file: _File, columns: Sequence[str], kinds: Kinds, reading: Reading) -> Kinds:
    """The kinds with those columns as text that are not numbers in the whole file. Warns: DataWarning of its amounts."""
    if kinds.verbatim or all(name in kinds.text or name in kinds.numbers for name in columns):
        return kinds
    looked, doubtful, said = Looked(), set[str](), Said()
    with opened(file.path, file.zipped, file.encoding) as lines:
        zeros = zeros_before(blocks_of(lines), file.separator)
    with silenced(DataWarning):
        for frame, of_part in _parts(file, kinds, reading):
            looked.add(frame)
            doubtful.update(kinds.doubtful(frame, zeros))
            said.add(of_part)
    codes = set[str]()
    doubtful -= looked.mixed
    if doubtful:
        with _texts(file.path, file.how, file.header, sorted(doubtful)) as parts:
            for cells in parts:
                cells.columns = [str(name).strip() for name in cells.columns]
                codes.update(name for name in cells if kinds.are_codes(name, cells[name].dropna().unique()))
    texts = codes | {name for name in looked.mixed if name not in kinds.numbers}
    _warn(file.path, said.lines(columns, texts))
    return kinds.with_text(texts)


def _as_read(text: str, separator: str, mark: Mark | None) -> dict[str, Any]:
    """What `pandas.read_csv` is told of every file. text: its first lines, or all. mark: as of `Reading.known_mark`."""
    return {
        "sep": separator, "decimal": "," if mark and mark.decimal == "," else ".", "keep_default_na": False, "na_values": MISSING_WORDS,
        "skiprows": before_header(text), "skipinitialspace": True, "index_col": False, "low_memory": False,
    }  # fmt: skip


def _check_header(path: Path, header: Sequence[str], told: set[str]) -> None:
    """Raises: DataError for names that repeat. Warns: DataWarning where the first column has none, unless this was
    told."""
    repeated = [name for name, count in Counter(name for name in header if name).items() if count > 1]
    if repeated:
        raise DataError(
            f"{path}: the header has these names more than once: {', '.join(map(repr, repeated))}. Rename or drop one."
        )
    if len(header) > 1 and header[0] in ("", INDEX) and INDEX not in told:
        told.add(INDEX)
        warnings.warn(
            f"{path}: the first column has no name, as the row numbers that pandas and R write; it is left out. Name it if it is a column "
            "of the table.",
            DataWarning,
            stacklevel=4,
        )


def _without_index(frame: Any) -> Any:
    """The frame without blanks around its names, and without a first column that has none."""
    frame.columns = [str(name).strip() for name in frame.columns]
    return frame.drop(columns=INDEX) if frame.columns[0] == INDEX and len(frame.columns) > 1 else frame


def _written(frame: Any, kinds: Kinds, settled: dict[str, frozenset[str]] | None = None) -> Written:
    """The `written_amounts` of a part, but for columns whose text stays text."""
    return {} if kinds.verbatim else written_amounts(frame[[n for n in frame if n not in kinds.text]], settled)


def _take_amounts(frame: Any, written: Written, mark: Mark, told: set[str]) -> Said:
    """Make numbers of the frame's columns that hold amounts; what is said of them. told: as of `read_amounts`."""
    said = read_amounts(frame, written, mark.before, told, mark.commas)
    for name in mark.commas.intersection(frame):
        if frame[name].isna().all():
            frame[name] = frame[name].astype(float)
    return said


def _check_marks(path: Path, frame: Any, kinds: Kinds, mark: Mark) -> None:
    """Raises: DataError where texts of a column of `kinds.numbers` would be taken for numbers with another mark than the
    file's, with the line of one."""
    if mark.decimal is None or kinds.verbatim:
        return
    for name in [n for n in frame if n in kinds.numbers and frame[n].dtype.kind not in "biuf"]:
        texts, decimal = frame[name].dropna().astype(str), mark.before(name)
        if (cell := of_other_mark(texts.unique().tolist(), decimal)) is not None:
            line = line_of(path, int(texts.index[texts == cell][0]))
            raise DataError(
                f"{path}{'' if line is None else f', line {line}'}: the column {name!r} holds numbers, and {cell!r} is not "
                f"read as one, since {decimal!r} begins decimals. If {OTHER_MARK[decimal]!r} does in this file, pass "
                f'decimal="{OTHER_MARK[decimal]}"; else correct the cell.'
            )


def _warn(path: Path, lines: Iterable[str]) -> None:
    for line in lines:
        warnings.warn(f"{path}: {line}", DataWarning, stacklevel=4)
