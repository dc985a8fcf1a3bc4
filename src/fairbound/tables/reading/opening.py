"""Opens CSV files: gzip or not, in the encoding that they tell or that is stated."""

from __future__ import annotations

import codecs
import gzip
import io
import re
import zlib
from pathlib import Path

from fairbound.base.errors import DataError

_GZIP = b"\x1f\x8b"
_WORKBOOKS = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")  # .xlsx, which is a zip file, and .xls
_PARQUET = b"PAR1"
_JSON = re.compile(rb"\s*(\[\s*)*[\[{]\s*\"")
"""A text in quotation marks within brackets or braces, which begins no header line."""
FIRST = 64
"""Bytes by which the kind of a file is seen."""
_BEGINS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}  # UTF-32 first, since its mark may begin as that of UTF-16


DAMAGED = (EOFError, zlib.error, gzip.BadGzipFile)
"""What Python raises of a gzip file that is cut off or has changed."""


def damaged(path: Path, error: Exception) -> DataError:
    return DataError(f"{path}: the gzip file is truncated or damaged ({error}). Copy or download it again.")


def how_written(path: Path, encoding: str | None) -> tuple[bool, str]:
    """Whether a file is gzip, and how its text is encoded."""
    with path.open("rb") as file:
        zipped = file.read(2) == _GZIP
    try:
        with gzip.open(path) if zipped else path.open("rb") as file:
            first = file.read(FIRST)
    except DAMAGED as error:
        raise damaged(path, error) from error
    return zipped, encoding_of(path, first, encoding)


def encoding_of(path: Path, first: bytes, encoding: str | None) -> str:
    """The encoding of a text that begins with the bytes `first`: by its byte order mark, else `encoding`, else UTF-8.
    Raises: DataError for a workbook, a Parquet file under another name, and JSON."""
    if first.startswith(_WORKBOOKS):
        raise DataError(f"{path} is an Excel workbook, or a zip file. Save its sheet as CSV or Parquet and pass that.")
    if first.startswith(_PARQUET):
        raise DataError(f"{path} is a Parquet file, by its first bytes. Give it a name that ends in .parquet.")
    if _JSON.match(first.removeprefix(codecs.BOM_UTF8)):
        raise DataError(
            f"{path} holds JSON, by its first characters. Save it as CSV or Parquet and pass that, as by pandas.read_json (lines=True where every line "
            "is a record)."
        )
    return next((name for mark, name in _BEGINS.items() if first.startswith(mark)), encoding or "utf-8")


def opened(path: Path, zipped: bool, encoding: str) -> io.TextIOWrapper:
    return gzip.open(path, "rt", encoding=encoding, newline="") if zipped else path.open(encoding=encoding, newline="")  # type: ignore[return-value]


def undecoded(what: str, encoding: str, error: UnicodeError) -> DataError:
    byte = f" (byte {error.object[error.start]:#04x})" if isinstance(error, UnicodeDecodeError) else ""
    return DataError(
        f"{what} is not {encoding} text{byte}. Save the file as UTF-8, or pass its encoding, such as "
        'encoding="cp1252" (Windows in Western Europe and America).'
    )


def undecoded_line(path: Path, zipped: bool, encoding: str, error: UnicodeError) -> DataError:
    """`undecoded` of the first line that is not in the encoding of a file that is read in parts. error: that came while reading,
    whose part of the file does not tell the line."""
    decoder, line = codecs.getincrementaldecoder(encoding)(), 1
    try:
        with gzip.open(path) if zipped else path.open("rb") as file:
            while part := file.read(1 << 20):
                line += decoder.decode(part).count("\n")
            decoder.decode(b"", final=True)
    except UnicodeDecodeError as first:
        line += first.object.count(b"\n", 0, first.start)
        return undecoded(f"{path}: line {line}", encoding, first)
    return undecoded(f"{path}: the file", encoding, error)


def check_plain(path: Path) -> None:
    """Raises: DataError for a pipe or a device, whose rows can be read once at most, or never, and for standard input."""
    if str(path) == "-" and not path.exists():
        raise DataError("- does not exist, and standard input is not read. Write the rows to a file first.")
    if path.exists() and not path.is_file() and not path.is_dir():
        raise DataError(f"{path} is a pipe or a device, not a file. Write its rows to a file first.")


def check_file(path: Path) -> None:
    """Raises: IsADirectoryError where the path of a file is that of a folder; FileNotFoundError."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the path of a CSV file in it.")
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist; check the path.")


def read_text(path: Path, encoding: str | None) -> str:
    check_file(path)
    raw = path.read_bytes()
    if not raw:
        raise DataError(f"{path}: the file is empty (0 bytes).")
    if raw.startswith(_GZIP):
        try:
            raw = gzip.decompress(raw)
        except DAMAGED as error:
            raise damaged(path, error) from error
    elif path.suffix == ".gz":
        raise DataError(f"{path}: named .gz, but it is not a gzip file. Rename it, or copy or download it again.")
    written = encoding_of(path, raw[:FIRST], encoding)
    if b"\0" in raw[:65536] and not codecs.lookup(written).name.startswith(("utf-16", "utf-32")):
        raise DataError(
            f"{path}: holds zero bytes, so it is not a UTF-8 CSV file. Save it as UTF-8 CSV (a spreadsheet), or pass its encoding "
            '(UTF-16 without a byte order mark: encoding="utf-16-le").'
        )
    try:
        text = raw.decode(written)
    except UnicodeError as error:
        line = raw.count(b"\n", 0, getattr(error, "start", 0)) + 1
        raise undecoded(f"{path}: line {line}", written, error) from error
    if not text.strip():
        raise DataError(f"{path}: the file is empty but for blanks.")
    return text
