"""Reading CSV and Parquet files; an error names the file and the line that is wrong."""

from __future__ import annotations

import csv
import io
import os
import re
import warnings
import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from fairbound.base.errors import DataError, DataWarning, NoRowsError, OptionError, silenced
from fairbound.base.extras import extra
from fairbound.tables.amounts import OTHER_MARK, decimal_mark, read_amounts, written_amounts
from fairbound.tables.kinds import Kinds, Looked, blocks_of, zeros_before
from fairbound.tables.notation import MISSING_WORDS
from fairbound.tables.opening import DAMAGED, check_plain, damaged, how_written, opened, read_text, undecoded
from fairbound.tables.records import any_field_size, before_header, begins_at, check_widths, first_lines, records, sniff

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
    both are read, and a comma that may be either mark is taken as the other columns have it, else between thousands of
    money and before decimals of others. A column of text all of whose cells are numbers ($1,015; 1.015,50 €; 12 % as
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
    with extra("data", "reading CSV files needs pandas"):
        import pandas as pd

    path, kinds = Path(path), kinds or Kinds()
    check_written(path, encoding, decimal)
    check_plain(path)
    if is_parquet(path) and path.is_file():
        return pd.concat([whole_numbers(part, kinds.keys) for part in parquet_parts(path, 1 << 20)]).reset_index(
            drop=True
        )
    text = read_text(path, encoding)
    separator, header = sniff(path, text)
    _check_header(path, header, set())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # cells beyond the header would be left out
            how = {**_as_read(text, separator, decimal), **kinds.as_read(header)}
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
    _take_amounts(path, frame, separator, decimal, {}, set(), kinds)
    kinds.named(frame)
    return frame


def _texts(source: Any, how: dict[str, Any], header: Sequence[str], columns: Sequence[str]) -> Any:
    """Some columns of a CSV file as they are written, read at once, or in parts where `how` says so."""
    import pandas as pd

    places = [at for at, name in enumerate(header) if name in columns]
    found = pd.read_csv(source, **{**how, "usecols": places, "dtype": str})
    if hasattr(found, "columns"):
        found.columns = [str(name).strip() for name in found.columns]
    return found


def whole_numbers(part: Any, columns: Collection[str]) -> Any:
    """A part of a Parquet file as a pandas frame, in which those columns stay whole numbers where some are missing."""
    frame = part.to_pandas()
    for name in columns:
        if (
            name in frame
            and frame[name].dtype.kind == "f"
            and str(part.schema.field(name).type).startswith(("int", "uint"))
        ):
            frame[name] = part.select([name]).to_pandas(integer_object_nulls=True)[name]
    return frame


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


def check_written(path: str | os.PathLike[str], encoding: str | None, decimal: str | None) -> None:
    """Raises: OptionError for an unknown encoding or decimal mark, and for either with a Parquet file."""
    if is_parquet(path) and (encoding or decimal):
        raise OptionError(
            f"{path} is a Parquet file, which has no encoding and no decimal mark to state; leave them out."
        )
    if decimal not in (None, *OTHER_MARK):
        raise OptionError(f"decimal must be '.' or ',', the mark before decimals, got {decimal!r}.")
    try:
        "".encode(encoding or "utf-8")
    except (LookupError, ValueError):
        raise OptionError(
            f"encoding {encoding!r} is none that Python knows; try 'cp1252' (Windows), 'latin-1' or 'utf-16'."
        ) from None


def is_parquet(path: str | os.PathLike[str]) -> bool:
    """Whether the file's name says that it is Parquet."""
    return Path(path).suffix.lower() in (".parquet", ".pq")


def parquet_parts(path: str | os.PathLike[str], rows: int, columns: Sequence[str] | None = None) -> Iterator[Any]:
    """The rows of a Parquet file as pyarrow tables of at most `rows` rows; columns: these alone.

    Raises: DataError for a damaged file, and for one without rows; ImportError without pyarrow.
    """
    with extra("parquet", "reading Parquet files needs pyarrow"):
        import pyarrow as pa
        import pyarrow.parquet as pq
    try:
        names = None if columns is None else list(columns)
        with pq.ParquetFile(path, pre_buffer=False) as file:  # with threads it keeps most of the file in memory
            for batch in file.iter_batches(batch_size=rows, columns=names, use_threads=False):
                yield pa.Table.from_batches([batch])
            if not file.metadata.num_rows:
                raise NoRowsError(f"{path}: the file has no rows.", file.schema_arrow.names)
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"{path}: not a readable Parquet file ({error}).") from error


@dataclass
class Reading:
    """What has been done with a CSV file that is read in parts, each time it is read."""

    told: set[str] = field(default_factory=set)
    even: bool = False
    kinds: Kinds | None = None

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
        raise undecoded(f"{path}: the header line", encoding, error) from None
    _check_header(path, header, reading.told)
    how = {
        **_as_read(first, separator, decimal),
        "chunksize": rows,
        "encoding": encoding,
        "compression": "gzip" if zipped else None,
        "usecols": None if columns is None else lambda name: str(name).strip() in columns,
    }
    file = _File(path, zipped, encoding, separator, header, decimal, how)
    try:
        if columns is not None:  # pandas passes over what is wrong in columns that it leaves out
            reading.check_widths(path, zipped, encoding, separator, len(header))
        if reading.kinds is None:
            wanted = header if columns is None else columns
            reading.kinds = _looked_through(file, wanted, kinds, reading) if kinds.look else kinds
        yield from _parts(file, reading.kinds, reading)
    except UnicodeError as error:
        raise undecoded(f"{path}: the file", encoding, error) from None
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
    decimal: str | None
    how: dict[str, Any]


def _parts(file: _File, kinds: Kinds, reading: Reading) -> Iterator[Any]:
    """The parts of the file, each read by itself."""
    import pandas as pd

    settled: dict[str, frozenset[str]] = {}
    decimal = file.decimal
    with pd.read_csv(file.path, **{**file.how, **kinds.as_read(file.header)}) as reader:
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
            frame = _without_index(frame)
            decimal = _take_amounts(file.path, frame, file.separator, decimal, settled, reading.told, kinds)
            kinds.named(frame)
            yield frame


def _looked_through(file: _File, columns: Sequence[str], kinds: Kinds, reading: Reading) -> Kinds:
    """The kinds with those columns as text that are not numbers in the whole file."""
    if kinds.verbatim or all(name in kinds.text or name in kinds.numbers for name in columns):
        return kinds
    looked, doubtful = Looked(), set[str]()
    with opened(file.path, file.zipped, file.encoding) as lines:
        zeros = zeros_before(blocks_of(lines), file.separator)
    with silenced(DataWarning):
        for frame in _parts(file, kinds, Reading(even=reading.even)):
            looked.add(frame)
            doubtful.update(kinds.doubtful(frame, zeros))
    codes = set[str]()
    doubtful -= looked.mixed
    if doubtful:
        with _texts(file.path, file.how, file.header, sorted(doubtful)) as parts:
            for cells in parts:
                cells.columns = [str(name).strip() for name in cells.columns]
                codes.update(name for name in cells if kinds.are_codes(name, cells[name].dropna().unique()))
    return kinds.with_text(codes | {name for name in looked.mixed if name not in kinds.numbers})


def _as_read(text: str, separator: str, decimal: str | None) -> dict[str, Any]:
    """What `pandas.read_csv` is told of every file. text: its first lines, or all."""
    return {
        "sep": separator, "decimal": decimal or ".", "keep_default_na": False, "na_values": MISSING_WORDS,
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


def _take_amounts(
    path: Path,
    frame: Any,
    separator: str,
    decimal: str | None,
    settled: dict[str, frozenset[str]],
    told: set[str],
    kinds: Kinds,
) -> str:
    """Make numbers of the frame's text columns that hold amounts, with a warning; returns the mark before decimals.
    settled: by column what earlier parts of the file have settled, to which this part adds. told: as of
    `read_amounts`. kinds: whose text stays text."""
    written = {} if kinds.verbatim else written_amounts(frame[[n for n in frame if n not in kinds.text]], settled)
    decimal = decimal or ("." if separator == "," else decimal_mark(written))
    settled |= {name: found[decimal].settled for name, found in written.items()}
    for line in read_amounts(frame, written, decimal, told):
        warnings.warn(f"{path}: {line}", DataWarning, stacklevel=4)
    return decimal


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
