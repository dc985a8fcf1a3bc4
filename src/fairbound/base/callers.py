"""Which line a warning is about: the one that called the library."""

from __future__ import annotations

import sys

BETWEEN = ("fairbound.", "sklearn.", "joblib.")
"""Packages whose lines are passed over: scikit-learn calls the steps of a pipeline, by joblib in a search."""


def users_line() -> int:
    """The `stacklevel` by which a warning that the caller of this function gives names the
    line outside the library, and outside what calls it for the user, that led to it."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(BETWEEN):
        level, frame = level + 1, frame.f_back
    return level
