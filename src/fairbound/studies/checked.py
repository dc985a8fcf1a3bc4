"""Checks of what a TOML file says, with errors that name the place and the nearest word."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any

from fairbound.base.checks import of_kind
from fairbound.base.errors import OptionError
from fairbound.base.names import did_you_mean
from fairbound.base.own import own_module

_LIST = re.compile(r"(?:tuple|Sequence)\[(.+?)(?:, \.\.\.)?\]")
_TABLE = re.compile(r"Mapping\[str, (.+)\]|Values")
FEW = 10
"""Names that an error lists beside the nearest one."""


@dataclass(frozen=True)
class NoOptions:
    """The options of a task that has none."""


def made(kind: Any, where: str, values: Mapping[str, Any]) -> Any:
    """An instance of the dataclass `kind` from a TOML table, its lists as tuples.

    Raises: OptionError for an unknown or a missing key, for a value of another type than the annotation of its field says,
        and where `kind` refuses a value.
    """
    there = {f.name: f for f in fields(kind)}
    for name in values:
        known(where, "key", name, there)
    given = {k: checked(where, k, v, there[k].type) for k, v in values.items()}
    needed = [k for k, f in there.items() if f.init and f.default is MISSING and f.default_factory is MISSING]
    if missing := [k for k in needed if k not in given]:
        raise OptionError(f"{where}: {', '.join(map(repr, missing))} must be stated.")
    try:
        return kind(**given)
    except TypeError as error:
        raise OptionError(f"{where}: {error}.") from error


def checked(where: str, name: str, value: Any, kind: Any) -> Any:
    """The value of a TOML file called `name`, a list as a tuple. kind: the annotation that says what it must be: texts,
    numbers and truth values, lists and tables of these; others are left alone. Raises: OptionError."""
    kind = (kind if isinstance(kind, str) else getattr(kind, "__name__", str(kind))).removesuffix(" | None")
    if value is None:
        return None
    if table := _TABLE.fullmatch(kind):
        for key, one in table_of(where, name, value).items():
            checked(where, f"{name}.{key}", one, table[1] or "Any")
        return value
    if several := _LIST.fullmatch(kind):
        if not isinstance(value, list | tuple):
            raise OptionError(f"{where}: {name} must be a list, got {value!r}; write [{value!r}] for one.")
        return tuple(checked(where, f"{name}[{n}]", one, several[1]) for n, one in enumerate(value))
    try:
        return of_kind(name, value, kind)
    except OptionError as error:
        raise OptionError(f"{where}: {error}") from None


def table_of(where: str, name: str, value: Any) -> Mapping[str, Any]:
    """The value. Raises: OptionError where it is no table."""
    if not isinstance(value, Mapping):
        raise OptionError(f"{where}: {name} must be a table, with names and their values, got {value!r}.")
    return value


def known(where: str, kind: str, name: str, names: Iterable[str]) -> None:
    """Raises: OptionError where `name` is not among `names`, with the nearest of them, and with all where these are few."""
    names = list(names)
    if name not in names:
        there = f"there are: {', '.join(names) or 'none'}."
        near = did_you_mean(name, names, otherwise=there)
        few = "" if near == there or len(names) > FEW else f" T{there[1:]}"
        raise OptionError(f"{where} has no {kind} {name!r}; {near}{few}")


def imported(name: str) -> Any:
    """The module "package.module", or the object "package.module:name". Raises: OptionError where there is none."""
    module, _, inside = name.partition(":")
    try:
        found = own_module(module)
        return getattr(found, inside) if inside else found
    except OptionError:
        raise
    except (ImportError, AttributeError, ValueError) as error:
        raise OptionError(f"cannot import {name!r}: {error}.") from None
