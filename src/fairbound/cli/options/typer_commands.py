"""A dataclass of options as a command of typer."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import MISSING, fields
from importlib import import_module
from itertools import pairwise
from typing import Annotated, Any, get_type_hints

from fairbound.base.errors import DataError
from fairbound.base.locks import output_folder
from fairbound.cli.options.streams import json_line

try:
    import typer
except ImportError:  # the extra `cli` is not installed; cli.app.main() says so
    typer = None  # type: ignore[assignment]


def option(*names: str, help: str, **more: Any) -> Any:
    """A command's option of these names; None without typer."""
    return None if typer is None else typer.Option(*names, help=help, **more)


def argument(help: str) -> Any:
    """A command's argument; None without typer."""
    return None if typer is None else typer.Argument(help=help)


Json = Annotated[bool, option("--json", help="Print one JSON object and nothing else on standard output.")]
Debug = Annotated[bool, option("--debug", help="Show where in the program an error arose.")]


def add(app: Any, command: str, options: type) -> None:
    """Add a command to a typer application. options: a dataclass whose fields are its options, and whose docstring is
    its help. Its `run`, "module:function" below `fairbound.cli`, is imported when the command is called; it takes the
    options and returns an `Outcome`. Its `folder`, if it has one, is the command's alone meanwhile."""

    def call(*, as_json: bool, debug: bool, **given: Any) -> int:
        asked = options(**given)
        module, name = asked.run.split(":")
        try:
            with output_folder(getattr(asked, "folder", None)):
                outcome = getattr(import_module(f"fairbound.cli.{module}"), name)(asked)
        except BrokenPipeError as error:  # of a file to write; typer would take it for standard output and say nothing
            raise DataError(error.strerror or str(error)) from error
        if outcome.text:  # of several processes one alone speaks
            facts = {**outcome.summary, "exit_code": int(outcome.exit_code)}
            print(json_line(facts) if as_json else outcome.text)
        return int(outcome.exit_code)

    hints = get_type_hints(options, include_extras=True)
    taken = [(f.name, hints[f.name], _default(f)) for f in fields(options)]
    taken.sort(key=lambda t: 2 if t[0] in LAST else t[2] is not inspect.Parameter.empty)
    taken += [("as_json", Json, False), ("debug", Debug, False)]
    call.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=hint, default=d) for name, hint, d in taken]
    )
    call.__annotations__ = {name: hint for name, hint, _ in taken}
    app.command(command, help=inspect.getdoc(options))(call)


def _default(f: Any) -> Any:
    if f.default_factory is not MISSING:
        return f.default_factory()
    return inspect.Parameter.empty if f.default is MISSING else f.default


LAST = ("encoding", "decimal")
"""Options that stand last in a command's help; those that must be given stand first."""

REPEATED = ("--constraint",)
"""Options that may be given several times."""

ONE_BOUND = ("feasibility", "frontier")
"""Commands that ask about one bound."""


def given_twice(arguments: Sequence[str]) -> str | None:
    """The first option that the arguments of a command give more than once,
    of which all but the last would be ignored."""
    names = [word.partition("=")[0] for word in arguments if word.startswith("--") and len(word) > 2]
    may = () if arguments and arguments[0] in ONE_BOUND else REPEATED
    return next((name for name in names if names.count(name) > 1 and name not in may), None)


FOLDERS = ("--out", "--state", "--model", "--config")
"""Options whose value is a path, of which an empty one would be the current folder."""


def given_nothing(arguments: Sequence[str]) -> str | None:
    """The first option of FOLDERS that is given an empty value, as by a variable of the shell that is not set."""
    given = (f"{word}={value}" if word in FOLDERS else word for word, value in pairwise([*arguments, "-"]))
    return next((word[:-1] for word in given if word[:-1] in FOLDERS and word.endswith("=")), None)


def joined(arguments: Sequence[str], lists: Sequence[str]) -> list[str]:
    """The arguments of a command; of an option of `lists` that is given more than once the values stand together, with
    commas between, where it stood first."""
    out, places, words = list[str](), dict[str, int](), iter(arguments)
    for word in words:
        name, equals, value = word.partition("=")
        given = value if equals else next(words, None) if name in lists else None
        if name not in lists or given is None:
            out.append(word)
        elif name in places:
            out[places[name]] += f",{given}"
        else:
            out += [name, given]
            places[name] = len(out) - 1
    return out
