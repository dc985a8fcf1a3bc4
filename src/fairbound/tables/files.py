"""Reading CSV and Parquet files; an error names the file and the line that is wrong."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import os
import warnings
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairbound.base.errors import DataError, DataWarning, NoRowsError, OptionError
from fairbound.base.extras import extra
from fairbound.tables.amounts import OTHER_MARK, decimal_mark, read_amounts, written_amounts
from fairbound.tables.records import any_field_size, before_header, check_widths, first_lines, records, sniff

_MISSING_TOO = ("?", ".")  # the latter in files of SAS and Stata
_GZIP = b"\x1f\x8b"
_WORKBOOKS = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")  # .xlsx, which is a zip file, and .xls
_BEGINS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}  # UTF-32 first, since its mark may begin as that of UTF-16


INDEX = "Unnamed: 0"
"""What pandas calls a first column without a name."""


def read_table(path: str | os.PathLike[str], *, encoding: str | None = None, decimal: str | None = None) -> Any:
    """A CSV file with a header line, or a Parquet file (.parquet, .pq), as a pandas DataFrame.

    The file may be gzip (seen from its first bytes); the separator is the one of ``,`` ``;`` tab under which the header
    has most fields, and a line ``sep=;`` before it is passed over. Blanks after a separator are dropped; empty cells, ``?``, ``.`` and pandas' usual words
    (NA, NaN, null, ...) are missing. A first column without a name, where pandas and R write row numbers, is left out
    with a DataWarning.

    encoding: of the text, such as "cp1252"; a byte order mark (UTF-8, UTF-16, UTF-32) goes before it, and without
    either it is UTF-8.
    decimal: the mark before decimals, "." or ",". Without it it is "." where commas separate; where ``;`` or tab does,
    both are read, and a comma that may be either mark is taken as the other columns have it, else between thousands of
    money and before decimals of others. A column of text all of whose cells are numbers ($1,015; 1.015,50 €; 12 % as
    12; 1 015; ($30) as -30; $1.2k as 1200) is read as numbers, with a DataWarning that says so; another one warns of a
    column that stays text though it may be numbers.

    Raises: FileNotFoundError or IsADirectoryError for a wrong path; DataError for an empty file, a header without rows,
    duplicate names in the header, rows longer or shorter than the header (with the line), a truncated or damaged gzip
    file, or text in another encoding; OptionError for an unknown encoding or decimal mark, and for either with a
    Parquet file; ImportError without pandas.
    """
    with extra("data", "reading CSV files needs pandas"):
        import pandas as pd

    path = Path(path)
    check_written(path, encoding, decimal)
    _check_plain(path)
    if is_parquet(path) and path.is_file():
        return pd.concat([part.to_pandas() for part in parquet_parts(path, 1 << 20)]).reset_index(drop=True)
    text = _read_text(path, encoding)
    separator, header = sniff(path, text)
    _check_header(path, header, set())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # cells beyond the header would be left out
            frame = pd.read_csv(io.StringIO(text), **_as_read(text, separator, decimal))
    except pd.errors.EmptyDataError:
        raise DataError(f"{path}: the file has no header and no rows.") from None
    except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
        check_widths(path, text, separator, len(header))
        raise DataError(f"{path}: not a readable table: {error}.") from error
    frame = _without_index(frame)
    if len(frame) == 0:
        raise _no_rows(path, header)
    if len(header) > 1 and frame.iloc[:, -1].isna().any():
        check_widths(path, text, separator, len(header))
    _take_amounts(path, frame, separator, decimal, {}, set())
    return frame


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

    def check_widths(self, path: Path, zipped: bool, encoding: str, separator: str, width: int) -> None:
        """Raises: DataError with the first line that is longer or shorter than the header."""
        if not self.even:
            with _opened(path, zipped, encoding) as lines:
                check_widths(path, lines, separator, width)
            self.even = True


def csv_parts(
    path: str | os.PathLike[str],
    rows: int,
    columns: Sequence[str] | None = None,
    encoding: str | None = None,
    decimal: str | None = None,
    reading: Reading | None = None,
) -> Iterator[Any]:
    """The rows of a CSV file as DataFrames of at most `rows` rows, read as `read_table` reads it; columns: these alone.
    reading: of a file that is read several times, so that it is checked and spoken of once.

    Raises: DataError and ImportError as `read_table`.
    """
    reading = Reading() if reading is None else reading
    with extra("data", "reading CSV files needs pandas"):
        import pandas as pd

    path = Path(path)
    _check_plain(path)
    zipped, encoding = _how_written(path, encoding)
    try:
        with _opened(path, zipped, encoding) as lines:
            first = first_lines(lines)
            separator, header = sniff(path, first)
    except UnicodeError as error:
        raise _undecoded(f"{path}: the header line", encoding, error) from None
    _check_header(path, header, reading.told)
    how = {
        **_as_read(first, separator, decimal),
        "chunksize": rows,
        "encoding": encoding,
        "compression": "gzip" if zipped else None,
        "usecols": None if columns is None else lambda name: str(name).strip() in columns,
    }
    settled: dict[str, frozenset[str]] = {}
    try:
        if columns is not None:  # pandas passes over what is wrong in columns that it leaves out
            reading.check_widths(path, zipped, encoding, separator, len(header))
        with pd.read_csv(path, **how) as reader:
            while True:
                with warnings.catch_warnings():
                    warnings.simplefilter("error", pd.errors.ParserWarning)
                    frame = next(reader, None)
                if frame is None:
                    return
                if len(frame) == 0:
                    raise _no_rows(path, header)
                if len(header) > 1 and frame.iloc[:, -1].isna().any():
                    reading.check_widths(path, zipped, encoding, separator, len(header))
                frame = _without_index(frame)
                decimal = _take_amounts(path, frame, separator, decimal, settled, reading.told)
                yield frame
    except UnicodeError as error:
        raise _undecoded(f"{path}: the file", encoding, error) from None
    except (pd.errors.ParserError, pd.errors.ParserWarning, EOFError, zlib.error) as error:
        if not isinstance(error, EOFError | zlib.error):
            reading.check_widths(path, zipped, encoding, separator, len(header))
        raise DataError(f"{path}: not a readable table: {error}.") from error


def _as_read(text: str, separator: str, decimal: str | None) -> dict[str, Any]:
    """What `pandas.read_csv` is told of every file. text: its first lines, or all."""
    return {
        "sep": separator, "decimal": decimal or ".", "na_values": _MISSING_TOO, "skiprows": before_header(text),
        "skipinitialspace": True, "index_col": False, "low_memory": False,
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
    path: Path, frame: Any, separator: str, decimal: str | None, settled: dict[str, frozenset[str]], told: set[str]
) -> str:
    """Make numbers of the frame's text columns that hold amounts, with a warning; returns the mark before decimals.
    settled: by column what earlier parts of the file have settled, to which this part adds. told: as of
    `read_amounts`."""
    written = written_amounts(frame, settled)
    decimal = decimal or ("." if separator == "," else decimal_mark(written))
    settled |= {name: found[decimal].settled for name, found in written.items()}
    for line in read_amounts(frame, written, decimal, told):
        warnings.warn(f"{path}: {line}", DataWarning, stacklevel=4)
    return decimal


def _how_written(path: Path, encoding: str | None) -> tuple[bool, str]:
    """Whether a file is gzip, and how its text is encoded."""
    with path.open("rb") as file:
        zipped = file.read(2) == _GZIP
    with gzip.open(path) if zipped else path.open("rb") as file:
        return zipped, _encoding(path, file.read(4), encoding)


def _encoding(path: Path, first: bytes, encoding: str | None) -> str:
    """The encoding of a text that begins with the bytes `first`: by its byte order mark, else `encoding`, else UTF-8.
    Raises: DataError for a workbook."""
    if first in _WORKBOOKS:
        raise DataError(f"{path} is an Excel workbook, or a zip file. Save its sheet as CSV or Parquet and pass that.")
    return next((name for mark, name in _BEGINS.items() if first.startswith(mark)), encoding or "utf-8")


def _opened(path: Path, zipped: bool, encoding: str) -> io.TextIOWrapper:
    return gzip.open(path, "rt", encoding=encoding, newline="") if zipped else path.open(encoding=encoding, newline="")  # type: ignore[return-value]


def _undecoded(what: str, encoding: str, error: UnicodeError) -> DataError:
    byte = f" (byte {error.object[error.start]:#04x})" if isinstance(error, UnicodeDecodeError) else ""
    return DataError(
        f"{what} is not {encoding} text{byte}. Save the file as UTF-8, or pass its encoding, such as "
        'encoding="cp1252" (Windows in Western Europe and America).'
    )


def _check_plain(path: Path) -> None:
    """Raises: DataError for a pipe or a device, whose rows can be read once at most, or never."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise DataError(f"{path} is a pipe or a device, not a file. Write its rows to a file first.")


def _read_text(path: Path, encoding: str | None) -> str:
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the path of a CSV file in it.")
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist; check the path.")
    raw = path.read_bytes()
    if not raw:
        raise DataError(f"{path}: the file is empty (0 bytes).")
    if raw.startswith(_GZIP):
        try:
            raw = gzip.decompress(raw)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise DataError(
                f"{path}: the gzip file is truncated or damaged ({error}). Copy or download it again."
            ) from error
    elif path.suffix == ".gz":
        raise DataError(f"{path}: named .gz, but it is not a gzip file. Rename it, or copy or download it again.")
    written = _encoding(path, raw[:4], encoding)
    if b"\0" in raw[:65536] and not codecs.lookup(written).name.startswith(("utf-16", "utf-32")):
        raise DataError(
            f"{path}: holds zero bytes, so it is not a UTF-8 CSV file. Save it as UTF-8 CSV (a spreadsheet), or pass its encoding "
            '(UTF-16 without a byte order mark: encoding="utf-16-le").'
        )
    try:
        text = raw.decode(written)
    except UnicodeError as error:
        line = raw.count(b"\n", 0, getattr(error, "start", 0)) + 1
        raise _undecoded(f"{path}: line {line}", written, error) from error
    if not text.strip():
        raise DataError(f"{path}: the file is empty but for blanks.")
    return text


def line_of(path: str | os.PathLike[str], row: int) -> int | None:
    """The line of a CSV file on which its row number `row` (from 0, the header not counted) begins, blank lines and
    line breaks in quoted cells counted; None where the file cannot be read so. Commas, quotes and ends of lines are the
    same in Latin-1 as in other encodings that need no byte order mark."""
    try:
        with _opened(Path(path), *_how_written(Path(path), "latin-1")) as lines, any_field_size():
            separator, _ = sniff(Path(path), first_lines(lines))
            lines.seek(0)
            for at, (record, line) in enumerate(records(lines, separator)):
                if at == row + 1:
                    return int(line) - sum(cell.count("\n") for cell in record)
    except (OSError, EOFError, ValueError, zlib.error, csv.Error, DataError):
        pass
    return None
