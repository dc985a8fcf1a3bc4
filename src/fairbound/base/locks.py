"""One writer of a folder at a time. The system frees the lock of a process that is killed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from fairbound.base.errors import OptionError
from fairbound.base.files import check_writable, unless_failed

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

NAME = ".fairbound.lock"


@contextlib.contextmanager
def locked(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Hold `folder`, which exists, for one command. Where the system has no such locks, nothing is held.

    Raises: OptionError where another process holds it.
    """
    path = Path(folder) / NAME
    if fcntl is None:
        yield
        return
    handle = _taken(path)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            path.unlink()
        os.close(handle)


@contextlib.contextmanager
def output_folder(folder: Path | None) -> Iterator[None]:
    """Make `folder`, prove that it can be written and hold it for one command; where an error leaves it empty, it goes
    again. None stands for no folder.

    Raises: OSError where it cannot be written; OptionError where another process holds it.
    """
    if folder is None:
        yield
        return
    with unless_failed(folder), locked(check_writable(folder)):
        yield


def _taken(path: Path) -> int:
    """The open lock file; opened again where its last holder removed it in between."""
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise OptionError(
                f"another fairbound command is writing into {str(path.parent)!r}. Wait for it, or give another folder."
            ) from None
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), os.stat(path)):
                return handle
        os.close(handle)
