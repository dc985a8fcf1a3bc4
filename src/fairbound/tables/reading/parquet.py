"""Reading Parquet files, in parts of some rows, and which options are for CSV files alone."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from fairbound.base.errors import DataError, NoRowsError, OptionError
from fairbound.base.extras import extra
from fairbound.tables.amounts import OTHER_MARK


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
