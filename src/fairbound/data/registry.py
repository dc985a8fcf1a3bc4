"""Data sets by name: list them, describe them, load them."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable
from importlib import import_module
from typing import Any

from fairbound.base.errors import OptionError
from fairbound.base.names import did_you_mean
from fairbound.base.own import own_module
from fairbound.data.catalog import TABLE, DatasetInfo
from fairbound.data.dataset import Dataset
from fairbound.data.files import data_folder, expect, read_content

SUPPLIED = ("folder", "name")
_OWN = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def names() -> tuple[str, ...]:
    """The names that `load` knows, the embedded samples first."""
    return tuple(TABLE)


def is_own(name: str) -> bool:
    """Whether it names a `DatasetInfo` of a module outside the package, as "package.module:NAME"."""
    return _OWN.fullmatch(name) is not None


def info(name: str) -> DatasetInfo:
    """What is known about a data set without reading it. Raises: OptionError for an unknown name."""
    if is_own(name):
        module, _, inside = name.partition(":")
        found = getattr(own_module(module), inside, None)
        if not isinstance(found, DatasetInfo):
            raise OptionError(f"{name!r} names no data set: {inside!r} of {module} is no DatasetInfo.")
        return found
    if name not in TABLE:
        hint = did_you_mean(name, TABLE, before=". ", otherwise=".")
        raise OptionError(
            f"no data set is called {name!r}{hint} There are: {', '.join(TABLE)}. One of your own is 'package.module:NAME'."
        )
    return TABLE[name]


def options(name: str) -> dict[str, Any]:
    """The options of `load(name, ...)` with their defaults, e.g. {"encoding": "one-hot", "duration": False}."""
    parameters = inspect.signature(_loader(info(name))).parameters
    return {key: parameter.default for key, parameter in parameters.items() if key not in SUPPLIED}


def load(name: str, data_dir: str | os.PathLike[str] | None = None, **chosen: Any) -> Dataset:
    """A data set by name, its files verified by checksum and its rows by class against the published counts.

    name: one of `names()`, or "package.module:NAME" for a DatasetInfo of your own.
    data_dir: the folder of data files; the environment variable FAIRBOUND_DATA by default. `loanapp` and `adult` need
    neither.
    chosen: the data set's own options, listed by `options(name)`.
    Raises: OptionError for an unknown name or option; DataError if the folder or a file is missing, damaged, or not the
        published one; ImportError without pandas.
    """
    entry = info(name)
    loader = _loader(entry)
    known = options(name)
    unknown = [key for key in chosen if key not in known]
    if unknown:
        listed = ", ".join(f"{key}={value!r}" for key, value in known.items()) or "none"
        raise OptionError(f"data set {name!r} has no option {', '.join(unknown)}; its options with defaults: {listed}.")
    if is_own(name):  # the library's own loaders verify what they read
        for file in entry.files:
            read_content(data_folder(data_dir, name), file, name)
    supplied = {"folder": lambda: data_folder(data_dir, name), "name": lambda: name}
    parameters = inspect.signature(loader).parameters
    dataset = loader(**{key: supplied[key]() for key in SUPPLIED if key in parameters}, **chosen)
    if entry.rows is not None:
        expect(name, "rows", len(dataset), entry.rows)
    if entry.positives is not None and not set(chosen) & set(entry.label_options):
        expect(name, "positive rows", int(dataset.y.sum()), entry.positives)
    for number, (label, rows) in enumerate(entry.classes):
        expect(name, f"rows of class {label!r}", int((dataset.y == number).sum()), rows)
    return dataset


def _loader(entry: DatasetInfo) -> Callable[..., Dataset]:
    module, function = entry.loader.split(":")
    if TABLE.get(entry.name) is not entry:
        return getattr(own_module(module), function)
    return getattr(import_module(f"fairbound.data.{module}"), function)
