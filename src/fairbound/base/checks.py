"""Checks of arguments that several rooms share."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import fields
from numbers import Integral, Real
from typing import Any

from fairbound.base.errors import OptionError
from fairbound.base.names import plain_repr

WHOLE = (int, int | None, "int", "int | None")
"""How a dataclass says that a field is a whole number."""

KINDS: dict[str, tuple[tuple[type, ...], str, str]] = {
    "float": ((Real,), "a number", "numbers"),
    "int": ((Integral,), "a whole number", "whole numbers"),
    "bool": ((bool,), "True or False", "truth values"),
    "str": ((str,), "a text", "texts"),
}
"""What `check_kinds` knows: the word of an annotation, the types that it allows, and one and many of them in words."""

_MANY = re.compile(r"tuple\[(.+), \.\.\.\]")


def check_choice(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    """Raises OptionError, which lists what is allowed, where ``value`` is not one of it."""
    if value not in allowed:
        raise OptionError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {plain_repr(value)}.")


def check_kinds(options: Any) -> None:
    """Raises OptionError naming the first field of the dataclass ``options`` whose value is not of the kind that the
    annotation of the field says: numbers, truth values, texts, tuples of these, and None where that is one of them. Fields of
    other kinds are left alone. Values of numpy become those of Python that they stand for, and lists become tuples."""
    for field in fields(options):
        if not field.init:
            continue
        kind = field.type.__name__ if isinstance(field.type, type) else str(field.type)
        value = getattr(options, field.name)
        found = of_kind(field.name, value, kind)
        if found is not value:
            object.__setattr__(options, field.name, found)


def of_kind(name: str, value: Any, kind: str) -> Any:
    """The value as one of Python's. kind: an annotation, such as "float | None" or "tuple[int, ...]". Raises: OptionError
    where it is of another kind."""
    kinds = kind.split(" | ")
    if value is None and "None" in kinds:
        return None
    known = [word for word in kinds if word != "None"]
    if len(known) == 1 and (many := _MANY.fullmatch(known[0])):
        return _tuple_of(name, value, many[1], "None" in kinds)
    if not all(word in KINDS for word in known):
        return value
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        value = value.item()
    allowed = tuple(one for word in known for one in KINDS[word][0])
    if not isinstance(value, allowed) or (isinstance(value, bool) and "bool" not in known):
        words = " or ".join([*(KINDS[word][1] for word in known), *(["None"] if "None" in kinds else [])])
        raise OptionError(f"{name} must be {words}, got {plain_repr(value)}.")
    return value


def _tuple_of(name: str, value: Any, kind: str, optional: bool) -> tuple[Any, ...]:
    value = value.tolist() if hasattr(value, "tolist") else value
    if not isinstance(value, list | tuple):
        many = KINDS[kind][2] if kind in KINDS else "rows"
        raise OptionError(
            f"{name} must be a tuple of {many}{' or None' * optional}, got {plain_repr(value)}"
            + (f"; write ({plain_repr(value)},) for one." if isinstance(value, Real) and kind in KINDS else ".")
        )
    return tuple(of_kind(f"{name}[{i}]", one, kind) for i, one in enumerate(value))


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
