"""What a user adds from outside the package, by the name of its module."""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType

from fairbound.base.errors import OptionError


def own_module(name: str) -> ModuleType:
    """The module of this dotted name, of Python's path or else of the folder that the program runs in.

    That folder is not on the path of an installed command. It is put at its end once it holds a module that was named,
    so that nothing of it is imported in place of what is installed; not at all where Python was told to leave it out
    (-P, PYTHONSAFEPATH).
    Raises: OptionError where there is no such module; what the module itself raises is passed on.
    """
    try:
        return _imported(name)
    except OptionError:
        here = os.getcwd()
        if sys.flags.safe_path or here in sys.path or "" in sys.path:
            raise
    sys.path.append(here)
    try:
        return _imported(name)
    except OptionError:
        sys.path.remove(here)
        raise


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise
        raise OptionError(
            f"there is no module {error.name!r} to import. Install the package, run the command in the module's folder, or "
            "put that folder on PYTHONPATH."
        ) from None
