"""Standard output and standard error whose reader may have gone, as `head -1` has after one line, or whose encoding lacks
characters, as ASCII does. What nobody reads is dropped, and what cannot be written is written otherwise, so that a command does
all its work and ends with its own exit code."""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import sys
from collections.abc import Iterator
from typing import Any


class _Unread:
    """A stream of text that drops what nobody reads any more; nothing is one that was closed from the start."""

    def __init__(self, stream: Any):
        self._stream = stream if stream is not None else open(os.devnull, "w")  # noqa: SIM115  (as long as the process)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with self._dropped():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with self._dropped():
            self._stream.flush()

    @contextlib.contextmanager
    def _dropped(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            self.drop()
        except OSError as error:
            raise OSError(error.errno, f"could not print to {self._stream.name}: {error.strerror}") from error

    def drop(self) -> None:
        """What is still held for the stream, and what comes, goes nowhere: Python itself flushes at its end."""
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())


PLAIN = dict(zip("╭╮╰╯├┤┬┴┼│─–−“”‘’≤≥…", (*"+++++++++|---\"\"''", "<=", ">=", "..."), strict=True))
"""What stands for signs of tables and sentences where an encoding lacks them."""


def _plainly(error: UnicodeError) -> tuple[str, int]:
    """What is written in place of characters that an encoding lacks, as `codecs.register_error` takes it."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(PLAIN.get(c) or c.encode("ascii", "backslashreplace").decode() for c in lacking), error.end


codecs.register_error("fairbound.plainly", _plainly)


@contextlib.contextmanager
def _writable(stream: Any) -> Iterator[None]:
    """Within, the stream takes characters that its encoding lacks."""
    before = getattr(stream, "errors", None)
    if before is None or not hasattr(stream, "reconfigure"):
        yield
        return
    with contextlib.suppress(OSError, ValueError):  # nobody reads it, or it is closed
        stream.reconfigure(errors="fairbound.plainly")
    try:
        yield
    finally:
        with contextlib.suppress(OSError, ValueError):
            stream.reconfigure(errors=before)


def json_line(facts: Any) -> str:
    """Facts as JSON that standard output can write: characters beyond ASCII as escapes where it is not in Unicode."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return json.dumps(facts, ensure_ascii=not codecs.lookup(encoding).name.startswith("utf"), allow_nan=False)


@contextlib.contextmanager
def lasting_streams() -> Iterator[None]:
    """Within, standard output and standard error take all that is written, whether anybody reads it or not."""
    before = sys.stdout, sys.stderr
    own = _Unread(sys.stdout), _Unread(sys.stderr)
    sys.stdout, sys.stderr = own  # type: ignore[assignment]
    try:
        with _writable(before[0]), _writable(before[1]):
            yield
    finally:
        for stream in own:
            try:
                stream.flush()
            except OSError:  # a full device, of which an error told
                stream.drop()
        sys.stdout, sys.stderr = before
