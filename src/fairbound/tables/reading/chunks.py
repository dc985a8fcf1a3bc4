"""`Chunks`, tables that are read in parts: Parquet and CSV files larger than memory, partitions of Dask or Spark, any
frames that a function makes or that stand in a list.

The encoder reads such a table twice: what it learns are sums and counts that merge (Chan, Golub, LeVeque 1983, for
variances), then it writes the features part by part into one float32 array, in memory or in a file of a folder that is
given.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fairbound.base.errors import DataError, OptionError
from fairbound.rows.reading import frame_of, take_rows
from fairbound.tables.marks import Mark
from fairbound.tables.reading.files import Reading, csv_parts
from fairbound.tables.reading.kinds import Kinds
from fairbound.tables.reading.opening import check_file, check_plain
from fairbound.tables.reading.parquet import check_written, is_parquet, parquet_parts

ROWS = 1 << 16


class Chunks:
    """A table in parts, which is read again each time it is iterated over. Parts without rows are passed over.

    parts: the parts in order, each a frame of any library or an array of the same columns: a list of them, or a
        function that makes them anew each time, for Dask ``lambda: (p.compute() for p in frame.partitions)``. folder:
        where features of this table are kept in a file instead of in memory; the file has no name, and its space is
        free again when the features are no longer used.

    Raises: OptionError for other parts; when it is iterated over DataError where there are no rows, or other ones than
        before, as of an iterator that has ended.
    """

    def __init__(
        self, parts: Callable[[], Iterable[Any]] | Sequence[Any], *, folder: str | os.PathLike[str] | None = None
    ):
        if isinstance(parts, list | tuple):
            given = parts
            parts = lambda: given  # noqa: E731
        elif not callable(parts):
            raise OptionError(
                f"the parts of a table must be a list of frames, or a function that makes them anew each time it is called, got "
                f"{type(parts).__name__}. A table in one piece is passed as it is; of what can be iterated over once write the "
                "function that begins it, as in Chunks(lambda: pandas.read_csv(path, chunksize=100_000))."
            )
        self._parts, self._folder = parts, folder
        self._rows: np.ndarray | None = None
        self._length: int | None = None
        # rows of all parts, once they were read; one list of all that is made of these parts
        self._whole: list[int] = []
        self._reading: Reading | None = None

    @classmethod
    def read(
        cls,
        path: str | os.PathLike[str],
        *,
        rows: int = ROWS,
        columns: Sequence[str] | None = None,
        folder: str | os.PathLike[str] | None = None,
        encoding: str | None = None,
        decimal: str | None = None,
        kinds: Kinds | None = None,
    ) -> Chunks:
        """A Parquet file (by its name, .parquet or .pq) or a CSV file, `rows` rows at a time; columns: these alone.
        encoding, decimal, kinds: of a CSV file, as in `read_table`; it is looked through before, so that a column is
        read alike in all parts.

        Raises: OptionError for rows < 1 and as `read_table`; FileNotFoundError; IsADirectoryError for a folder; ImportError
        without pyarrow or pandas.
        A damaged part raises when it is read.
        """
        if rows < 1:
            raise OptionError(f"rows at a time must be at least 1, got {rows}.")
        check_plain(Path(path))
        check_file(Path(path))
        check_written(path, encoding, decimal)
        names = None if columns is None else list(columns)
        if is_parquet(path):
            return cls(lambda: parquet_parts(path, rows, names), folder=folder)
        reading = Reading()
        out = cls(lambda: csv_parts(path, rows, names, encoding, decimal, reading, kinds), folder=folder)
        out._reading = reading
        return out

    @property
    def marks(self) -> dict[str, Mark]:
        """Of a CSV file that was begun to be read, its mark before decimals as `Reading.marks` has it; else {}."""
        return {} if self._reading is None else self._reading.marks

    def __iter__(self) -> Iterator[Any]:
        at = 0
        for part in self._parts():
            frame_of(part)  # refuses one whose rows are not computed yet, which has no length either
            size = len(part)
            if self._rows is None:
                if size:
                    yield part
            else:
                first, last = np.searchsorted(self._rows, [at, at + size])
                if last > first:
                    yield take_rows(part, self._rows[first:last] - at)
            at += size
        if self._whole and self._whole[0] != at:
            raise DataError(
                f"the parts of the table have {at:,} rows, and had {self._whole[0]:,} when they were read before: a table is read "
                "more than once. Pass a function that makes the parts anew each time it is called, or a list of them."
            )
        if not at:
            raise DataError("the table has no rows. Check the filter or the file that made it.")
        self._whole[:] = [at]

    def __len__(self) -> int:
        if self._length is None:
            self._length = sum(map(len, self))
        return self._length

    def take(self, rows: np.ndarray) -> Chunks:
        """The rows numbered `rows` (k,), which ascend."""
        if (np.diff(rows) <= 0).any():
            raise OptionError("rows are taken in ascending order and each once.")
        out = self._of_these(self._parts)
        out._rows, out._length = np.asarray(rows) if self._rows is None else self._rows[rows], len(rows)
        return out

    def map(self, change: Callable[[Any], Any]) -> Chunks:
        """The same rows with every part changed by a function that keeps its rows."""
        out = self._of_these(lambda: map(change, self._parts()))
        out._rows, out._length = self._rows, self._length
        return out

    def _of_these(self, parts: Callable[[], Iterable[Any]]) -> Chunks:
        out = Chunks(parts, folder=self._folder)
        out._whole = self._whole
        return out

    def room(self, shape: tuple[int, int]) -> np.ndarray:
        """A float32 array of zeros for features: in memory, or in a file without a name in the folder."""
        if self._folder is None or 0 in shape:
            return np.zeros(shape, dtype=np.float32)
        with tempfile.TemporaryFile(dir=self._folder) as file:
            return np.memmap(file, dtype=np.float32, mode="w+", shape=shape)
