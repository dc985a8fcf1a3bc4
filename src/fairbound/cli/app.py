"""The command line: read the options, call a function of `fairbound.cli`, print. Exit codes: 0 done or bound met,
1 bound violated, 2 wrong use, 3 not enough evidence, 130 interrupted."""

from __future__ import annotations

import contextlib
import functools
import gc
import logging
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from fairbound.base.errors import CertificateError, FairboundError
from fairbound.base.interrupts import INTERRUPTED
from fairbound.cli.files.advice import for_commands
from fairbound.cli.options import data as data_options
from fairbound.cli.options import judging as judging_options
from fairbound.cli.options import training as training_options
from fairbound.cli.options.streams import json_line, lasting_streams
from fairbound.cli.options.typer_commands import Debug, add, given_nothing, given_twice, joined, option, typer

WRONG_USE, NOT_CONFIRMED = 2, 3
SELDOM = 100_000, 20, 100
"""When unused objects are looked for in a process of its own: importing torch and scikit-learn makes so many that stay that
looking for them as often as usual takes a seventh of a short command."""
LISTS = ("--group", "--drop", "--keep", "--only", "--bounds")
"""Options that take several values, separated by commas, or given once for each."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line on `argv` (sys.argv[1:] by default) and return the exit code, also where nobody reads what
    it prints."""
    if argv is None:
        gc.set_threshold(*SELDOM)
    with lasting_streams():
        return _run(list(sys.argv[1:] if argv is None else argv))


def _run(arguments: list[str]) -> int:
    if typer is None:
        return _fail("the command line needs typer: pip install 'fairbound[cli]'")
    if not arguments or arguments == ["datasets"]:
        arguments.append("--help")
    arguments = joined(arguments, LISTS)
    if (twice := given_twice(arguments)) is not None:
        return _fail(f"the option {twice} is given twice; give it once.")
    if (empty := given_nothing(arguments)) is not None:
        return _fail(f"{empty} is given an empty value, as of a shell variable that is not set; '.' is this folder.")
    debug, quiet, progress = (f"--{word}" in arguments for word in ("debug", "quiet", "progress"))
    if quiet and progress:
        return _fail("--quiet and --progress exclude each other; give one of them.")
    arguments = [word for word in arguments if word not in ("--quiet", "--progress")]
    told: set[str] = set()

    def show_warning(message: Warning | str, *args: Any, **kwargs: Any) -> None:
        said = " ".join(for_commands(str(message)).split())
        if said not in told:
            print(f"fairbound: warning: {said}", file=sys.stderr)
        told.add(said)

    with logged(quiet, progress), warnings.catch_warnings():
        warnings.showwarning = show_warning
        try:
            code = int(_command().main(args=arguments, prog_name="fairbound", standalone_mode=False) or 0)
            sys.stdout.flush()  # an error of it is told here, while it can be
            return code
        except (KeyboardInterrupt, typer.Abort):
            return _fail("interrupted", INTERRUPTED)
        except Exception as error:
            if debug:
                traceback.print_exc()
            if isinstance(error, CertificateError):
                return _refused(_said(error), "--json" in arguments)
            return _fail(_said(error))


@contextlib.contextmanager
def logged(quiet: bool, progress: bool) -> Iterator[None]:
    """What the library logs at INFO and above goes to standard error; with quiet only warnings do. progress: of
    training, also where standard error is no terminal."""
    log, drawn = logging.getLogger("fairbound"), logging.getLogger("fairbound.progress")
    before, handler = [(each, each.level) for each in (log, drawn)], logging.StreamHandler()
    log.addHandler(handler)
    log.setLevel(logging.WARNING if quiet else logging.INFO)
    drawn.setLevel(logging.INFO if not quiet and (progress or sys.stderr.isatty()) else logging.WARNING)
    try:
        yield
    finally:
        log.removeHandler(handler)
        for each, level in before:
            each.setLevel(level)


def _said(error: Exception) -> str:
    """One line for people; of an error that is not the user's, its type too."""
    if hasattr(error, "format_message"):  # the option parser's own errors
        said = error.format_message().strip()
        where = getattr(getattr(error, "ctx", None), "command_path", "fairbound")
        return f"{said}{'' if said.endswith(('.', '?')) else '.'} See {where} --help."
    if isinstance(error, OSError) and error.strerror:
        return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    if isinstance(error, (FairboundError, OSError, ImportError)):
        return for_commands(str(error))
    return f"{type(error).__name__}: {error} (--debug shows where)"


def _fail(message: str, code: int = WRONG_USE) -> int:
    print(f"fairbound: {' '.join(message.split())}", file=sys.stderr)
    return code


def _refused(reason: str, as_json: bool) -> int:
    """Of a model that could not be certified; a reader of --json gets an object too."""
    if as_json:
        said = {"verdict": "insufficient", "refused": True, "reason": reason, "exit_code": NOT_CONFIRMED}
        print(json_line(said))
        sys.stdout.flush()
    return _fail(reason, NOT_CONFIRMED)


COMMANDS: dict[str, type] = {
    "fit": training_options.FitOptions,
    "regress": training_options.RegressOptions,
    "audit": judging_options.AuditOptions,
    "frontier": training_options.FrontierOptions,
    "predict": judging_options.PredictOptions,
    "feasibility": training_options.FeasibilityOptions,
    "monitor": judging_options.MonitorOptions,
    "compare": judging_options.CompareOptions,
    "gate": judging_options.GateOptions,
    "interval": judging_options.IntervalOptions,
    "stream": training_options.StreamOptions,
    "shift": judging_options.ShiftOptions,
    "reproduce": data_options.ReproduceOptions,
}
DATA_SETS: dict[str, type] = {
    "list": data_options.ListOptions,
    "info": data_options.InfoOptions,
    "fetch": data_options.FetchOptions,
}


@functools.cache
def _command() -> Any:
    """All commands, as typer reads them from their options: 15 ms, where `main` is called again and again."""
    app = typer.Typer(
        name="fairbound",
        add_completion=False,
        rich_markup_mode=None,
        help="Train models under fairness bounds that a person can state, check and defend.\n\n"
        "Exit codes: 0 done or bound met, 1 bound violated, 2 wrong use, 3 not enough evidence, 130 interrupted.\n\n"
        "Any command takes --quiet (no progress on standard error) and --progress (also where that is no terminal).",
    )
    app.callback()(_root)
    sets = typer.Typer(help="List, describe and download the named data sets.")
    for group, commands in ((app, COMMANDS), (sets, DATA_SETS)):
        for name, asked in commands.items():
            add(group, name, asked)
    app.add_typer(sets, name="datasets")
    return typer.main.get_command(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        from fairbound import __version__

        print(__version__)
        raise typer.Exit


def _root(
    version: Annotated[
        bool, option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
    debug: Debug = False,
) -> None:
    pass


if __name__ == "__main__":
    sys.exit(main())
