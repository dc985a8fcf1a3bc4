"""The kinds of studies, and the studies that come with the library."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from fairbound.base.errors import OptionError
from fairbound.studies import fair_models, known_optima
from fairbound.studies.spec import Kind, StudySpec, known, made

KINDS: dict[str, Kind] = {"fair-models": fair_models.KIND, "known-optima": known_optima.KIND}


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
    """The study of a parsed TOML table; its key `kind` says of which kind, "fair-models" by default."""
    values = dict(table)
    where = f"study {values.get('name')!r}"
    kind = values.setdefault("kind", "fair-models")
    known(where, "kind", kind, KINDS)
    spec = KINDS[kind].spec
    for table_name, part in spec.parts.items():
        if table_name in ("data", "methods"):
            word = table_name.removesuffix("s")
            its = values.get(table_name, {})
            values[table_name] = {k: made(part, f"{word} {k!r}", {"key": k, **v}) for k, v in its.items()}
        elif table_name == "items":
            values["items"] = tuple(made(part, f"item {v.get('key')!r}", v) for v in values.get("items", ()))
        elif table_name in values:
            values[table_name] = made(part, table_name, values[table_name])
    return made(spec, where, values)
