"""Checks of arguments that several rooms share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import fields
from numbers import Integral, Real
from typing import Any

from fairbound.base.errors import OptionError
from fairbound.base.names import plain_repr

WHOLE = (int, int | None, "int", "int | None")
"""How a dataclass says that a field is a whole number."""


def check_choice(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    """Raises OptionError, which lists what is allowed, where ``value`` is not one of it."""
    if value not in allowed:
        raise OptionError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {plain_repr(value)}.")


def amount(name: str, value: Any) -> float | str:
    """A finite number >= 0, as a number or as text, or "auto" itself. Raises: OptionError for anything else."""
    try:
        found = value if value == "auto" else float(value)
    except (TypeError, ValueError):
        found = math.nan
    if found != "auto" and not 0 <= found < math.inf:
        raise OptionError(f"{name} must be 'auto' or a number >= 0, got {plain_repr(value)}.")
    return found


def positive(options: Any, *names: str) -> None:
    """Raises OptionError naming the first of these fields of the dataclass ``options`` that is not a finite number > 0,
    or no whole number where the field is an int; None passes, as an option that was left out."""
    _check(options, names, lambda value: value > 0, "must be positive")


def number(options: Any, *names: str) -> None:
    """As `positive`, for fields of either sign."""
    _check(options, names, lambda value: not math.isnan(value), "must be a number")


def limit(options: Any, *names: str) -> None:
    """As `positive`, for fields that may be infinite, which is no limit."""
    _check(options, names, lambda value: value > 0, "must be positive", finite=False)


def nonnegative(options: Any, *names: str) -> None:
    """As `positive`, for fields that may be 0."""
    _check(options, names, lambda value: value >= 0, "must not be negative")


def share(options: Any, *names: str) -> None:
    """As `positive`, for fields that must lie in [0, 1)."""
    _check(options, names, lambda value: 0 <= value < 1, "must lie in [0, 1)")


def _check(options: Any, names: Sequence[str], good: Callable[[Any], bool], what: str, finite: bool = True) -> None:
    kinds = {field.name: field.type for field in fields(options)}
    for name in names:
        value = getattr(options, name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, Real) or not good(value):
            raise OptionError(f"{name} {what}, got {plain_repr(value)}.")
        if finite and math.isinf(value):
            without = "; None states none" if "None" in str(kinds[name]) else ""
            raise OptionError(f"{name} must be finite, got {plain_repr(value)}{without}.")
        if kinds[name] in WHOLE and not isinstance(value, Integral):
            raise OptionError(f"{name} must be a whole number, got {plain_repr(value)}.")


def check_confidence(confidence: Any, name: str = "confidence") -> None:
    """Raises OptionError where `confidence` is no number in (0.5, 1)."""
    if isinstance(confidence, bool) or not isinstance(confidence, Real) or not 0.5 < float(confidence) < 1:
        raise OptionError(f"{name} must lie in (0.5, 1), got {plain_repr(confidence)}.")
