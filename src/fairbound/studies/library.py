"""Studies from their TOML files: those that come with the library by name, others by path."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from fairbound.base.errors import OptionError
from fairbound.studies import spec
from fairbound.studies.checked import checked, known, made, table_of
from fairbound.studies.spec import StudySpec


def names() -> tuple[str, ...]:
    """The studies that come with the library."""
    here = resources.files(__package__)
    return tuple(sorted(f.name.removesuffix(".toml") for f in here.iterdir() if f.name.endswith(".toml")))


def load_spec(study: str | Path) -> StudySpec:
    """A study by name, or from a TOML file.

    Raises: OptionError for an unknown name, a file that is not TOML, an unknown or a missing key.
    """
    text = str(study)
    if text.endswith(".toml"):
        path = Path(text)
        if not path.is_file():
            raise OptionError(f"the study file {text!r} does not exist.")
        content = path.read_text(encoding="utf-8")
    else:
        known("the library", "study", text, names())
        content = resources.files(__package__).joinpath(f"{text}.toml").read_text(encoding="utf-8")
    try:
        return parse(tomllib.loads(content))
    except tomllib.TOMLDecodeError as error:
        raise OptionError(f"the study {text!r} is not valid TOML: {error}.") from None


def parse(table: Mapping[str, Any]) -> StudySpec:
    """The study of a parsed TOML table. Raises: OptionError for an unknown or a missing key, or a wrong value."""
    values, where = dict(table), f"study {table.get('name')!r}"
    for name in ("data", "methods"):
        word, its = name.removesuffix("s"), checked(where, name, values.get(name, {}), "Mapping[str, Values]")
        several = _for_each(word, its).items()
        values[name] = {k: made(_PARTS[name], f"{word} {k!r}", {"key": k, **v}) for k, v in several}
    for name in ("items", "figures", "tables"):
        word, those = name.removesuffix("s"), checked(where, name, values.get(name, ()), "Sequence[Values]")
        values[name] = tuple(made(_PARTS[name], f"{word} {v.get('key', n)!r}", v) for n, v in enumerate(those))
    for number, shown in enumerate(values["tables"]):
        for key in shown.items:
            known(f"table {number!r} of {where}", "item", key, [i.key for i in values["items"]])
    for name in ("quick", "tuning"):
        values[name] = made(_PARTS[name], name, table_of(where, name, values.get(name, {})))
    return made(StudySpec, where, values)


def _for_each(word: str, tables: Mapping[str, Any]) -> dict[str, Any]:
    """The tables by key. A table with a list `each` becomes one table for each number of the list: the number replaces
    "$" in the key (with _ for the point) and in texts; a text that is "$" alone becomes the number itself. Raises:
    OptionError."""
    out: dict[str, Any] = {}
    for key, table in tables.items():
        own, numbers = dict(table), table.get("each")
        if numbers is not None:
            own.pop("each")
            if "$" not in key or not isinstance(numbers, list) or not all(isinstance(n, int | float) for n in numbers):
                raise OptionError(f"{word} {key!r}: each is a list of numbers, and the key has $ where they stand.")
        for n in numbers or (None,):
            name = key if n is None else key.replace("$", f"{n:g}".replace(".", "_"))
            if name in out:
                raise OptionError(f"{word} {name!r} is stated twice.")
            out[name] = own if n is None else _with_number(own, n)
    return out


def _with_number(value: Any, number: float) -> Any:
    """What a table of `each` says for one of its numbers."""
    if isinstance(value, str):
        return number if value == "$" else value.replace("$", f"{number:g}")
    if isinstance(value, dict):
        return {name: _with_number(v, number) for name, v in value.items()}
    return [_with_number(v, number) for v in value] if isinstance(value, list) else value


_PARTS: dict[str, type] = {
    "data": spec.DataSpec, "methods": spec.MethodSpec, "items": spec.ItemSpec, "figures": spec.FigureSpec,
    "tables": spec.TableSpec, "quick": spec.QuickSpec, "tuning": spec.TuningSpec,
}  # fmt: skip
