"""Checks of arguments that several rooms share."""

from __future__ import annotations

from typing import Any

from fairbound.base.errors import OptionError


def check_choice(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    """Raises OptionError, which lists what is allowed, where ``value`` is not one of it."""
    if value not in allowed:
        raise OptionError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}.")
