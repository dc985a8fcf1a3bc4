"""Where data files lie, and reading them: folder, checksum, unpacking, and one clear error for each way this fails."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairbound.base.errors import DataError
from fairbound.base.extras import extra

ENVIRONMENT = "FAIRBOUND_DATA"


@dataclass(frozen=True)
class FileInfo:
    """One data file.

    path: below the data folder; with `.gz` it may also lie there unpacked, without that ending.
    sha256: of the unpacked content (recompressing a file does not change it).
    url: where its publisher offers it; None where nobody does.
    member: path inside the zip file at `url`.
    original_sha256: of what the publisher offers, where `columns` of it are kept and the rest is removed.
    columns: the columns kept, in order.
    """

    path: str
    sha256: str
    url: str | None = None
    member: str | None = None
    original_sha256: str | None = None
    columns: tuple[str, ...] = ()


def require_pandas() -> Any:
    """The pandas module; ImportError naming the extra where it is not installed."""
    with extra("data", "reading data files needs pandas"):
        import pandas
    return pandas


def data_folder(data_dir: str | os.PathLike[str] | None, name: str) -> Path:
    """The folder of data files: the argument, else the environment variable FAIRBOUND_DATA.

    Raises: DataError if neither is given, or if it is no folder.
    """
    given = data_dir if data_dir is not None else os.environ.get(ENVIRONMENT)
    if not given:
        raise DataError(
            f"data set {name!r} needs a folder of data files: pass data_dir (--data-dir), or set {ENVIRONMENT}. "
            f"`fairbound datasets fetch {name}` fills one from the original publisher."
        )
    folder = Path(given).expanduser()
    if not folder.is_dir():
        raise DataError(
            f"the data folder {str(folder)!r} does not exist or is no folder; check data_dir or {ENVIRONMENT}."
        )
    return folder


def read_rows(folder: Path, info: Any, rows: int | None = None, **how: Any) -> Any:
    """The first file of a data set as a pandas frame of `rows` rows, those of the data set by default.
    how: options of pandas.read_csv."""
    content = io.BytesIO(read_content(folder, info.files[0], info.name))
    frame = require_pandas().read_csv(content, **how)
    expect(info.name, "rows", len(frame), rows or info.rows or 0)
    return frame


def read_content(folder: Path, file: FileInfo, name: str) -> bytes:
    """The unpacked, verified content of one file of data set `name`.

    Raises: DataError if the file is absent, cannot be read, is truncated or damaged, or has another checksum.
    """
    packed, plain = folder / file.path, folder / file.path.removesuffix(".gz")
    path = packed if packed.exists() or not plain.exists() else plain
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        hint = f"`fairbound datasets fetch {name}` gets it." if file.url else "No publisher offers it in this form."
        if ":" in name:
            hint = "Put it there, or name its folder (--data-dir; in Python the second argument of load)."
        raise DataError(f"data set {name!r}: file {str(path)!r} is missing. {hint}") from None
    except OSError as error:
        raise DataError(f"data set {name!r}: file {str(path)!r} cannot be read: {error}.") from error
    if path.suffix == ".gz":
        content = unpack(content, path)
    found = hashlib.sha256(content).hexdigest()
    if found != file.sha256:
        next_move = (
            "Delete it and fetch it again." if ":" not in name else "If it is the right one, state that in FileInfo."
        )
        raise DataError(
            f"data set {name!r}: file {str(path)!r} is not the published one: expected sha256 {file.sha256} "
            f"(unpacked), found {found}. {next_move}"
        )
    return content


def unpack(content: bytes, path: Path) -> bytes:
    """Gunzip `content`, read from `path`. Raises: DataError if it is empty, truncated or damaged."""
    if not content:
        raise DataError(f"file {str(path)!r} is empty (0 bytes). Delete it and fetch it again.")
    try:
        return gzip.decompress(content)
    except EOFError:
        raise DataError(
            f"file {str(path)!r} is truncated: the gzip data end early. Delete it and fetch it again."
        ) from None
    except (OSError, zlib.error) as error:
        raise DataError(
            f"file {str(path)!r} is no intact gzip file ({error}). Delete it and fetch it again."
        ) from error


def expect(name: str, what: str, found: int, published: int) -> None:
    """Raises: DataError if a count differs from the published one."""
    if found != published:
        raise DataError(f"data set {name!r}: {found:,} {what}, but the published file has {published:,}.")
