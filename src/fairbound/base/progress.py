"""Lines of progress on standard error: at a terminal one is written over the other, elsewhere each stands by itself."""

from __future__ import annotations

import sys


def heading(text: str) -> None:
    """Says what the lines below are of."""
    print(text, file=sys.stderr, flush=True)


def line(text: str) -> None:
    """One line, of the length of those before it."""
    start, end = ("\r", "") if sys.stderr.isatty() else ("", "\n")
    print(f"{start}{text}", end=end, file=sys.stderr, flush=True)


def ended() -> None:
    """What follows begins on a line of its own."""
    if sys.stderr.isatty():
        print(file=sys.stderr)
