"""Which line a warning is about: the one that called the library."""

from __future__ import annotations

import sys


def users_line() -> int:
    """The `stacklevel` by which a warning that the caller of this function gives names the
    line outside the library that led to it."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("fairbound."):
        level, frame = level + 1, frame.f_back
    return level
