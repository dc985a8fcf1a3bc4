"""Ctrl-C during a run: asked once it stops after the current step, asked twice at once."""

from __future__ import annotations

import signal
import threading

INTERRUPTED = 130  # exit code of a command that Ctrl-C ended


class Interrupts:
    """Ctrl-C asks the loop to stop after the current step; a second one stops it at once."""

    def __init__(self) -> None:
        self.seen = False

    def __enter__(self) -> Interrupts:
        self._main = threading.current_thread() is threading.main_thread()
        if self._main:
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *args: object) -> None:
        if self._main:
            signal.signal(signal.SIGINT, self._before)

    def _note(self, *args: object) -> None:
        if self.seen:
            raise KeyboardInterrupt
        self.seen = True
