"""CSV files and label columns: what is wrong with them is said at the door, by name and line."""

from __future__ import annotations

import csv
import gzip
import io
import os
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from fairbound.base.errors import DataError
from fairbound.tables.columns import is_missing

__all__ = ["binary_labels", "class_labels", "read_table"]

_SEPARATORS = (",", ";", "\t")
_GZIP = b"\x1f\x8b"
MANY_CLASSES = 100


def binary_labels(y: Any, positive: Any = None) -> tuple[np.ndarray, tuple[Any, Any]]:
    """Two-valued labels as 0 and 1.

    y: (n,) or (n, 1) numbers, bools or strings, in a list, numpy array, torch tensor, pandas or polars Series.
    positive: the value that becomes 1; its text is enough (``"1"`` for the number 1). Without it the greater of the two
    in sorted order is positive: 1 of 0/1, 1 of -1/1, True, "yes" of no/yes, ">50K" of <=50K/>50K. Say it for pairs such
    as "approved"/"denied", where the alphabet does not know which one is meant.

    Returns: (codes, classes): (n,) int64 in {0, 1}, and (negative, positive) as Python values.
    Raises: DataError where labels are missing, not finite, of mixed types, or have one value or more than two.
    """
    codes, classes = class_labels(y)
    if len(classes) > 2:
        shown = _shown(classes)
        raise DataError(
            f"Unknown label type: multiclass. Only binary classification is supported. The type of the target is multiclass: "
            f"it has {len(classes)} values, {shown}. Choose one class against the rest, or a threshold, and pass that."
        )
    if positive is not None:
        top = [i for i, v in enumerate(classes) if v == positive and isinstance(v, str) == isinstance(positive, str)]
        top = top or [i for i, v in enumerate(classes) if str(v) == str(positive)]
        if not top:
            raise DataError(f"positive={positive!r} is not among the labels {_shown(classes)}. Name one of these.")
        if top[0] == 0:
            return 1 - codes, (classes[1], classes[0])
    return codes, (classes[0], classes[1])


def class_labels(y: Any) -> tuple[np.ndarray, tuple[Any, ...]]:
    """Labels of two or more classes as class numbers 0, 1, ... in sorted order.

    y: (n,) or (n, 1) numbers, bools or strings, in a list, numpy array, torch tensor, pandas or polars Series.
    Returns: (codes, classes): (n,) int64, and the k labels as Python values.
    Raises: DataError where labels are missing, not finite, of mixed types, of one class only, or no classes: fractions,
        or more than 100 values in fewer than ten rows each.
    """
    if isinstance(y, np.ndarray) and y.ndim == 1 and y.dtype.kind in "biuf":
        found, codes = np.unique(y, return_inverse=True)
        if len(found) >= 2 and np.isfinite(found).all():
            return codes.astype(np.int64), _checked_classes(found.tolist(), len(y))
    values = _label_list(y)
    if not values:
        raise DataError("there are no labels: found 0 sample(s). Check the filter or the file that made them.")
    gone = [i for i, v in enumerate(values) if is_missing(v)]
    if gone:
        raise DataError(
            f"{len(gone)} of {len(values)} labels are missing (NaN), the first in row {gone[0]} (counting from 0). "
            "Drop these rows from the table and the labels."
        )
    kinds = {"text" if isinstance(v, str) else "bool" if isinstance(v, bool) else "number" for v in values}
    if len(kinds) > 1:
        raise DataError(f"the labels mix {' and '.join(sorted(kinds))} values. Make them one type.")
    if any(isinstance(v, float) and v in (float("inf"), float("-inf")) for v in set(values)):
        raise DataError("the labels hold infinite (inf) values. Correct them.")
    classes = _checked_classes(sorted(set(values)), len(values))
    if len(classes) < 2:
        raise DataError(
            f"all {len(values)} labels have one class, {_shown(classes)}; two are needed. Check the label column or the filter."
        )
    place = {v: i for i, v in enumerate(classes)}
    return np.fromiter((place[v] for v in values), dtype=np.int64, count=len(values)), classes


def _checked_classes(classes: list[Any], rows: int) -> tuple[Any, ...]:
    if len(classes) > 2 and any(isinstance(v, float) and not v.is_integer() for v in classes):
        raise DataError(
            f"Unknown label type: continuous. The labels have {len(classes)} values, {_shown(classes)}, which are no classes. "
            "Choose a threshold, or bin them, and pass that."
        )
    if len(classes) > MANY_CLASSES and len(classes) > rows / 10:
        raise DataError(
            f"the labels have {len(classes)} values in {rows} rows, {_shown(classes)}: numbers or identifiers rather than "
            "classes. Choose a threshold, or bin them, and pass that."
        )
    return tuple(classes)


def _shown(classes: Any) -> str:
    return ", ".join(map(repr, classes[:6])) + (", ..." if len(classes) > 6 else "")


def _label_list(y: Any) -> list[Any]:
    if hasattr(y, "detach"):
        y = y.detach().cpu().numpy()
    if hasattr(y, "columns") and hasattr(y, "to_numpy"):
        y = y.to_numpy()
    if hasattr(y, "to_list"):
        values = y.to_list()
    else:
        array = y if isinstance(y, np.ndarray) else np.asarray(y if hasattr(y, "__array__") else list(y), dtype=object)
        if array.ndim == 2 and array.shape[1] == 1:
            array = array[:, 0]
        if array.ndim != 1:
            raise DataError(f"the labels must be one column, got shape {array.shape}. Pass y[:, j] for one of them.")
        values = array.tolist()
    values = [v.item() if isinstance(v, np.generic) else v for v in values]
    odd = next((v for v in values if not isinstance(v, str | bool | int | float) and not is_missing(v)), None)
    if odd is not None:
        raise DataError(f"a label is a {type(odd).__name__} ({str(odd)[:40]!r}); labels are numbers, bools or strings.")
    return values


def read_table(path: str | os.PathLike[str], *, encoding: str = "utf-8") -> Any:
    """A CSV file with a header line as a pandas DataFrame.

    The file may be gzip (seen from its first bytes); the separator is the one of ``,`` ``;`` tab under which the header
    has most fields. Blanks after a separator are dropped; empty cells, ``?`` and pandas' usual words (NA, NaN, null,
    ...) are missing.

    Raises: FileNotFoundError or IsADirectoryError for a wrong path; DataError for an empty file, a header without rows,
    duplicate names in the header, rows longer or shorter than the header (with the line), a truncated or damaged gzip
    file, or text in another encoding; ImportError without pandas.
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("reading CSV files needs pandas: pip install fairbound[data]") from error

    path = Path(path)
    text = _read_text(path, encoding)
    separator, header = _sniff(path, text)
    repeated = [name for name, count in Counter(name for name in header if name).items() if count > 1]
    if repeated:
        raise DataError(
            f"{path}: the header has these names more than once: {', '.join(map(repr, repeated))}. Rename or drop one."
        )
    try:
        frame = pd.read_csv(
            io.StringIO(text), sep=separator, skipinitialspace=True, na_values=["?"], index_col=False, low_memory=False
        )
    except pd.errors.EmptyDataError:
        raise DataError(f"{path}: the file has no header and no rows.") from None
    except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
        _check_widths(path, text, separator, len(header))
        raise DataError(f"{path}: not a readable table: {error}.") from error
    frame.columns = [str(name).strip() for name in frame.columns]
    if len(frame) == 0:
        raise DataError(f"{path}: the file has a header ({len(header)} columns) but no rows.")
    if len(header) > 1 and frame.iloc[:, -1].isna().any():
        _check_widths(path, text, separator, len(header))
    return frame


def _read_text(path: Path, encoding: str) -> str:
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
    if b"\0" in raw[:65536]:
        raise DataError(
            f"{path}: holds zero bytes, so it is not a UTF-8 CSV file (a spreadsheet, UTF-16?). Save it as UTF-8 CSV."
        )
    try:
        text = raw.decode("utf-8-sig" if encoding.lower().replace("_", "-") in ("utf-8", "utf8") else encoding)
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path}: line {line} is not {encoding} text (byte {raw[error.start]:#04x}). Save the file as UTF-8, or "
            'pass its encoding, e.g. encoding="latin-1".'
        ) from error
    if not text.strip():
        raise DataError(f"{path}: the file is empty but for blanks.")
    return text


def _records(text: str, separator: str) -> Any:
    """The non-blank records of a CSV text, as lists of cells with the reader's line number after each."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True)
    for record in reader:
        if record and not (len(record) == 1 and not record[0].strip()):
            yield record, reader.line_num


def _sniff(path: Path, text: str) -> tuple[str, list[str]]:
    """The separator under which the header has most fields (the first named wins a tie), and the header's names."""
    headers = {}
    for separator in _SEPARATORS:
        try:
            headers[separator] = next(_records(text, separator))[0]
        except (csv.Error, StopIteration) as error:
            raise DataError(f"{path}: the header line cannot be read ({error}).") from error
    best = max(_SEPARATORS, key=lambda separator: len(headers[separator]))
    return best, [name.strip() for name in headers[best]]


def _check_widths(path: Path, text: str, separator: str, width: int) -> None:
    try:
        for record, line in _records(text, separator):
            if len(record) != width:
                raise DataError(
                    f"{path}: line {line} has {len(record)} fields, the header {width}. A cut-off file, or a separator "
                    "inside a cell that is not quoted."
                )
    except csv.Error as error:
        raise DataError(f"{path}: not a readable table: {error}.") from error
