"""Checks of arguments that several rooms share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any

from fairbound.base.errors import OptionError


def check_choice(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    """Raises OptionError, which lists what is allowed, where ``value`` is not one of it."""
    if value not in allowed:
        raise OptionError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}.")


def positive(options: Any, *names: str) -> None:
    """Raises OptionError naming the first of these fields of ``options`` that is not > 0; None passes, as an option that was left out."""
    _check(options, names, lambda value: value > 0, "must be positive")


def finite(options: Any, *names: str) -> None:
    """As `positive`, for fields that must not be infinite either."""
    _check(options, names, lambda value: 0 < value < math.inf, "must be positive and finite")


def nonnegative(options: Any, *names: str) -> None:
    """As `positive`, for fields that may be 0."""
    _check(options, names, lambda value: value >= 0, "must not be negative")


def share(options: Any, *names: str) -> None:
    """As `positive`, for fields that must lie in [0, 1)."""
    _check(options, names, lambda value: 0 <= value < 1, "must lie in [0, 1)")


def _check(options: Any, names: Sequence[str], good: Callable[[Any], bool], what: str) -> None:
    for name in names:
        value = getattr(options, name)
        if value is not None and not (isinstance(value, Real) and good(value)):
            raise OptionError(f"{name} {what}, got {value!r}.")
