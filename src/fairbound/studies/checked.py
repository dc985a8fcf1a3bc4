"""Checks of what a TOML file says, with errors that name the place and the nearest word."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from fairbound.base.errors import OptionError
from fairbound.base.names import did_you_mean
from fairbound.base.own import own_module

FEW = 10
"""Names that an error lists beside the nearest one."""


@dataclass(frozen=True)
class NoOptions:
    """The options of a task that has none."""


def made(kind: Any, where: str, values: Mapping[str, Any]) -> Any:
    """An instance of the dataclass `kind` from a TOML table, its lists as tuples.

    Raises: OptionError for an unknown or a missing key, and where `kind` refuses a value.
    """
    there = [f.name for f in fields(kind)]
    for name in values:
        known(where, "key", name, there)
    given = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
    try:
        return kind(**given)
    except TypeError as error:
        raise OptionError(f"{where}: {str(error).partition('__init__() ')[2]}.") from None


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
