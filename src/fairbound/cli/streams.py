"""Standard output and standard error whose reader may have gone, as `head -1` has after one line. What he does not read
is dropped, so that a command does all its work and ends with its own exit code."""

from __future__ import annotations

import contextlib
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


@contextlib.contextmanager
def lasting_streams() -> Iterator[None]:
    """Within, standard output and standard error take all that is written, whether anybody reads it or not."""
    before = sys.stdout, sys.stderr
    own = _Unread(sys.stdout), _Unread(sys.stderr)
    sys.stdout, sys.stderr = own  # type: ignore[assignment]
    try:
        yield
    finally:
        for stream in own:
            try:
                stream.flush()
            except OSError:  # a full device, of which an error told
                stream.drop()
        sys.stdout, sys.stderr = before
