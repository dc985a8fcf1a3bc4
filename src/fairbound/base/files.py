"""Writing files so that a crash, a kill or a full disk leaves either the old content or the new, never a part.

Every file is written under a temporary name beside its target, flushed to the device (fsync) and then renamed over the
target, which POSIX and Windows both do atomically. A killed writer can leave its temporary file, ``.NAME.*.part``,
which nothing reads.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fairbound.base.errors import OptionError

__all__ = [
    "atomic_write_bytes",
    "atomic_write_many",
    "atomic_write_text",
    "check_not_read",
    "check_writable",
    "sum_of_content",
    "unless_failed",
]

_NEXT_MOVE = {
    errno.ENOSPC: "the disk is full: free some space or choose another folder",
    errno.EDQUOT: "the disk quota is used up: free some space or choose another folder",
    errno.EFBIG: "the file is larger than the system's limit for one file (ulimit -f): raise it",
    errno.EACCES: "no permission to write there: choose another folder or change its permissions",
    errno.EPERM: "no permission to write there: choose another folder or change its permissions",
    errno.EROFS: "the file system is read-only: choose another folder",
    errno.ENOENT: "its folder does not exist: create it first, or choose another",
    errno.ENOTDIR: "a part of the path is a file, not a folder: choose another path",
    errno.EISDIR: "the path is a folder: give the path of a file",
}


def atomic_write_bytes(path: str | os.PathLike[str], data: bytes | bytearray | memoryview) -> Path:
    """Write ``data`` to ``path`` so that the file is either as it was or complete; the folder must exist.

    An existing file keeps its permissions; a symbolic link is followed; a pipe or a device is written to and stays what
    it is. Two writers of one path never mix: the last
    to finish wins.

    Returns: the path written.
    Raises: OSError (its subclass and ``errno`` kept, e.g. ``ENOSPC`` for a full disk) with a message that names the
    file and the next move; the old content, if any, is untouched and no temporary file stays.
    """
    path = Path(path)
    atomic_write_many(path.parent, {path.name: data})
    return path


def atomic_write_text(path: str | os.PathLike[str], text: str) -> Path:
    """:func:`atomic_write_bytes` for text, as UTF-8 with the line ends as given."""
    return atomic_write_bytes(path, text.encode("utf-8"))


def atomic_write_many(
    folder: str | os.PathLike[str],
    contents: Mapping[str, bytes | bytearray | memoryview],
    *,
    removed: Sequence[str] = (),
) -> None:
    """Write several files of one folder: all are staged and flushed first, then renamed in the order given.

    A failure while staging (the disk fills up) touches none of the targets. A crash between two renames can leave
    new and old files side by side, so put last the file that vouches for the others.

    ``contents``: file name in ``folder``, or path below it, whose folders are made -> bytes. ``removed``: files that go
    before the first rename, so that nothing old stands beside something new.
    Raises: OSError as :func:`atomic_write_bytes`.
    """
    folder = Path(folder)
    staged: list[tuple[Path, Path]] = []
    target, passed = folder, list[str]()
    try:
        for name, data in contents.items():
            if _passes_on(folder / name):
                passed.append(name)
                continue
            target = Path(os.path.realpath(folder / name))
            part = target.with_name(f".{target.name[:80]}.{os.getpid()}-{secrets.token_hex(4)}.part")
            if name != Path(name).name:
                target.parent.mkdir(parents=True, exist_ok=True)
            staged.append((part, target))
            _stage(part, target, data)
        for name in removed:
            (folder / name).unlink(missing_ok=True)
        for part, target in staged:
            os.replace(part, target)
        for place in {folder, *(target.parent for _, target in staged)} if staged else ():
            _sync_folder(place)
        for name in passed:
            target = folder / name
            with open(target, "wb") as stream:
                stream.write(contents[name])
    except OSError as error:
        raise _explained(error, f"could not write {str(target)!r}") from error
    finally:
        for part, _ in staged:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)


def check_writable(folder: str | os.PathLike[str]) -> Path:
    """Create ``folder`` where it is missing and prove that files can be written there, by writing and removing one.

    Call it before a long training run, so that a wrong path fails at once and not when the model is saved.

    Returns: the folder's path.
    Raises: OSError (subclass and ``errno`` kept) naming the folder and the next move.
    """
    folder = Path(folder)
    probe = folder / f".fairbound-{os.getpid()}-{secrets.token_hex(4)}.part"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _stage(probe, probe, b"\0" * 4096)
    except OSError as error:
        if isinstance(error, FileExistsError):
            error = NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        raise _explained(error, f"the output folder {str(folder)!r} cannot be written") from error
    finally:
        with contextlib.suppress(OSError):
            probe.unlink(missing_ok=True)
    return folder


def check_not_read(written: Path, *read: str | os.PathLike[str]) -> None:
    """Raises: OptionError where the file to write is one of those to read."""
    if written.exists() and any(written.samefile(file) for file in read if Path(file).exists()):
        raise OptionError(f"{written} is read, so it cannot be written too; write to another place with --out.")


@contextlib.contextmanager
def unless_failed(folder: Path) -> Iterator[None]:
    """Takes `folder` and those above it away again where they were made within, and an error left them empty."""
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        yield
    except BaseException:
        for path in made:
            with contextlib.suppress(OSError):
                path.rmdir()
        raise


def _passes_on(path: Path) -> bool:
    """Whether what is written to a path is passed on, as by a pipe or a device, and not kept in a file."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _stage(part: Path, target: Path, data: bytes | bytearray | memoryview) -> None:
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    with open(handle, "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if target.exists():
        os.chmod(part, target.stat().st_mode & 0o777)


def _sync_folder(folder: Path) -> None:
    """Flush the renames themselves; file systems that cannot do it are left to their own order."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _explained(error: OSError, what: str) -> OSError:
    reason = _NEXT_MOVE.get(error.errno or 0, error.strerror or str(error))
    return OSError(error.errno or errno.EIO, f"{what}: {reason}")


def sum_of_content(content: Mapping[str, Any]) -> str:
    """The sha256 of plain content as JSON, apart from what it holds as its own "checksum"; the same before it is written and
    after it is read."""
    read = json.loads(json.dumps(content))
    plain = {key: value for key, value in read.items() if key != "checksum"}
    return hashlib.sha256(json.dumps(plain, sort_keys=True, separators=(",", ":")).encode("utf-8")).hexdigest()
