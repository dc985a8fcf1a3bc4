"""Downloading data files from their original publishers, with checksum and progress."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairbound.base.errors import DataError, OptionError
from fairbound.base.extras import extra
from fairbound.base.files import atomic_write_bytes
from fairbound.data.acs import check_states, raw_path
from fairbound.data.catalog import CENSUS
from fairbound.data.files import ENVIRONMENT, FileInfo, read_content, require_pandas
from fairbound.data.loanstats import FILE as LOANSTATS
from fairbound.data.registry import info

TIMEOUT = 60.0  # seconds without an answer


def fetch(
    name: str,
    dest: str | os.PathLike[str],
    *,
    progress: bool = False,
    state: str | Sequence[str] = "OK",
    year: int = 2018,
) -> list[Path]:
    """Download the files of a data set into the folder `dest` (made if absent), ready for `load(name, dest)`.

    A file already there with the right checksum is kept. Nothing is written unless its checksum is right; what the
    publisher offers with names of people in it (COMPAS) is reduced in memory first.
    progress: whether to draw a progress bar of each download on standard error.
    state, year: for `acs-income` only; the Census publishes no checksums, so only the archive's own is checked.
    Returns: the paths of the files; empty for an embedded sample without a publisher's file.
    Raises: DataError if a download fails, has the wrong content, or if nobody offers the file; ImportError naming the
        extra where pooch is not installed.
    """
    entry = info(name)
    folder = Path(dest).expanduser()
    if name != "acs-income" and (state, year) != ("OK", 2018):
        raise OptionError(f"state and year choose raw files of 'acs-income'; data set {name!r} has none.")
    if name == "loanstats":
        raise DataError(f"nobody publishes {LOANSTATS} any more: put a copy into {str(folder)!r}.")
    folder.mkdir(parents=True, exist_ok=True)
    if name == "acs-income":
        return [_fetch_census(folder, one, year, progress) for one in check_states(state, year)]
    return [_fetch_file(folder, file, name, progress) for file in entry.files]


def _require_pooch() -> Any:
    with extra("data", "downloading data files needs pooch"):
        import pooch
        import tqdm  # noqa: F401  (pooch draws its progress bar with it)
    return pooch


def _download(url: str, progress: bool) -> bytes:
    """The bytes at `url`, kept in memory: what is not to be stored never reaches the disk."""
    content = io.BytesIO()
    get = _require_pooch().HTTPDownloader(progressbar=progress, timeout=TIMEOUT)
    try:
        get(url, content, None)
    except (OSError, ValueError) as error:
        raise DataError(f"cannot download {url}: {error}. Try again. {_alternative()}") from error
    return content.getvalue()


def _alternative() -> str:
    return f"Without a network, put the files into a folder and set {ENVIRONMENT} (or pass data_dir) to it."


def _fetch_file(folder: Path, file: FileInfo, name: str, progress: bool) -> Path:
    path = folder / file.path
    if path.exists():
        read_content(folder, file, name)
        return path
    if file.url is None:
        raise DataError(f"nobody publishes {file.path} in this form. {info(name).note} {_alternative()}")
    content = _download(file.url, progress)
    if file.member is not None:
        content = _member(content, file.member, file.url)
    if file.original_sha256 is not None:
        _check(content, file.original_sha256, file.url)
        frame = require_pandas().read_csv(io.BytesIO(content))
        content = frame[list(file.columns)].to_csv(index=False, lineterminator="\n").encode()
    _check(content, file.sha256, file.url)
    path.parent.mkdir(parents=True, exist_ok=True)
    return atomic_write_bytes(path, gzip.compress(content, mtime=0))


def _fetch_census(folder: Path, state: str, year: int, progress: bool) -> Path:
    path = raw_path(folder, state, year)
    if path.is_file():
        return path
    url = f"{CENSUS}/{year}/1-Year/csv_p{state.lower()}.zip"
    content = _member(_download(url, progress), path.name, url)
    path.parent.mkdir(parents=True, exist_ok=True)
    return atomic_write_bytes(path, content)


def _member(archive: bytes, member: str, url: str) -> bytes:
    """One file of a zip archive; its CRC is checked on reading."""
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as opened:
            return opened.read(member)
    except KeyError:
        raise DataError(
            f"the archive at {url} has no file {member!r}: its publisher changed it. {_alternative()}"
        ) from None
    except zipfile.BadZipFile as error:
        raise DataError(f"what {url} sent is no intact zip archive ({error}). Try again. {_alternative()}") from error


def _check(content: bytes, expected: str, url: str) -> None:
    found = hashlib.sha256(content).hexdigest()
    if found != expected:
        raise DataError(
            f"{url} sent other content than expected: sha256 {expected} expected, {found} found. Nothing was stored. "
            f"{_alternative()}"
        )
