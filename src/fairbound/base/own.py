"""What a user adds from outside the package, by the name of its module."""

from __future__ import annotations

import importlib
from types import ModuleType

from fairbound.base.errors import OptionError


def own_module(name: str) -> ModuleType:
    """The module of this dotted name. Raises: OptionError where there is none;
    what the module itself raises is passed on."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise
        raise OptionError(
            f"there is no module {error.name!r} to import. Install the package, or put its folder on PYTHONPATH."
        ) from None
