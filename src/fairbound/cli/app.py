"""The command line: read the options, call a function of `fairbound.cli`, print. Exit codes: 0 done or bound met,
1 bound violated, 2 wrong use, 3 not enough evidence, 130 interrupted."""

from __future__ import annotations

import contextlib
import logging
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

from fairbound.base.errors import CertificateError, FairboundError
from fairbound.base.interrupts import INTERRUPTED
from fairbound.cli.advice import for_commands
from fairbound.cli.evidence import add_commands
from fairbound.cli.options import (
    Algorithm,
    BatchSize,
    BudgetText,
    Certify,
    ChunkRows,
    Confidence,
    Constraints,
    Cross,
    Data,
    DataDir,
    Debug,
    Drop,
    Group,
    Json,
    KeepSensitive,
    Label,
    Model,
    Objective,
    OnInsufficient,
    Out,
    Positive,
    Qid,
    Seed,
    TestSize,
    finish,
    given_twice,
    option,
    typer,
)
from fairbound.cli.regress_command import add_regress

WRONG_USE, NOT_CONFIRMED = 2, 3


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line on `argv` (sys.argv[1:] by default) and return the exit code."""
    if typer is None:
        return _fail("the command line needs typer: pip install 'fairbound[cli]'")
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments == ["datasets"]:
        arguments.append("--help")
    if (twice := given_twice(arguments)) is not None:
        return _fail(f"the option {twice} is given twice; give it once.")
    debug, quiet, progress = (f"--{word}" in arguments for word in ("debug", "quiet", "progress"))
    if quiet and progress:
        return _fail("--quiet and --progress exclude each other; give one of them.")
    arguments = [word for word in arguments if word not in ("--quiet", "--progress")]
    with logged(quiet, progress), warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            command = typer.main.get_command(_app())
            return int(command.main(args=arguments, prog_name="fairbound", standalone_mode=False) or 0)
        except (KeyboardInterrupt, typer.Abort):
            return _fail("interrupted", INTERRUPTED)
        except Exception as error:
            if debug:
                traceback.print_exc()
            return _fail(_said(error), NOT_CONFIRMED if isinstance(error, CertificateError) else WRONG_USE)


@contextlib.contextmanager
def logged(quiet: bool, progress: bool = False) -> Iterator[None]:
    """What the library logs at INFO and above goes to standard error; with quiet only warnings do. progress: of training, also
    where standard error is no terminal."""
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
        return f"{said}{'' if said.endswith(('.', '?')) else '.'} See fairbound --help."
    if isinstance(error, OSError) and error.strerror and error.filename is None:
        return error.strerror
    if isinstance(error, (FairboundError, OSError, ImportError)):
        return for_commands(str(error))
    return f"{type(error).__name__}: {error} (--debug shows where)"


def _fail(message: str, code: int = WRONG_USE) -> int:
    print(f"fairbound: {' '.join(message.split())}", file=sys.stderr)
    return code


def _show_warning(message: Warning | str, *args: Any, **kwargs: Any) -> None:
    print(f"fairbound: warning: {' '.join(str(message).split())}", file=sys.stderr)


def _app() -> typer.Typer:
    app = typer.Typer(
        name="fairbound",
        add_completion=False,
        rich_markup_mode=None,
        help="Train models under fairness bounds that a person can state, check and defend. Exit codes: 0 done or "
        "bound met, 1 bound violated, 2 wrong use, 3 not enough evidence, 130 interrupted. --quiet anywhere: no progress on "
        "standard error; --progress: lines of it also where that is no terminal.",
    )
    app.callback()(_root)
    app.command("fit")(_fit)
    add_regress(app, finish)
    app.command("audit")(_audit)
    app.command("frontier")(_frontier)
    add_commands(app)
    app.command("reproduce")(_reproduce)
    sets = typer.Typer(help="List, describe and download the named data sets.")
    sets.command("list")(_datasets_list)
    sets.command("info")(_datasets_info)
    sets.command("fetch")(_datasets_fetch)
    app.add_typer(sets, name="datasets")
    return app


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


def _fit(
    data: Data,
    out: Out,
    label: Label = None,
    group: Group = None,
    qid: Qid = None,
    constraint: Constraints = None,
    model: Model = "linear",
    algorithm: Algorithm = "auto",
    objective: Objective = "auto",
    seed: Seed = 0,
    budget: BudgetText = None,
    positive: Positive = None,
    test_size: TestSize = None,
    batch_size: BatchSize = 256,
    keep_sensitive: KeepSensitive = False,
    drop: Drop = None,
    baseline: Annotated[
        bool, option("--baseline/--no-baseline", help="Train an unconstrained model too, for comparison.")
    ] = True,
    cross: Cross = False,
    use_groups_at_prediction: Annotated[
        bool,
        option(
            "--use-groups-at-prediction",
            help="Give every group the threshold that meets the bounds; decisions then need the group.",
        ),
    ] = False,
    certify: Certify = False,
    on_insufficient: OnInsufficient = "warn",
    confidence: Confidence = 0.95,
    data_dir: DataDir = None,
    chunk_rows: ChunkRows = None,
    as_json: Json = False,
    debug: Debug = False,
) -> int:
    """Train a model under fairness bounds and judge it on rows it has not seen."""
    from fairbound.cli.fit import FitOptions, fit

    options = FitOptions(
        data=data,
        label=label,
        group=group,
        constraint=constraint or [],
        out=out,
        model=model,
        algorithm=algorithm,
        objective=objective,
        seed=seed,
        budget=budget,
        positive=positive,
        test_size=test_size,
        batch_size=batch_size,
        keep_sensitive=keep_sensitive,
        drop=drop,
        baseline=baseline,
        cross=cross,
        use_groups_at_prediction=use_groups_at_prediction,
        certify=certify,
        on_insufficient=on_insufficient,
        confidence=confidence,
        data_dir=data_dir,
        chunk_rows=chunk_rows,
    )
    return finish(as_json, lambda: fit(options) if qid is None else _ranked("fit_ranking", options, qid))


def _ranked(command: str, options: Any, qid: str) -> Any:
    from fairbound.cli import rank

    return getattr(rank, command)(options, qid)


def _audit(
    data: Annotated[str, option("--data", help="A CSV or Parquet file of rows not used in training.")],
    label: Annotated[str, option("--label", help="Column of true outcomes.")],
    out: Out,
    group: Group = None,
    qid: Qid = None,
    score: Annotated[
        str | None,
        option("--score", help="Column of decisions (0/1), probabilities, real scores or predicted labels."),
    ] = None,
    model: Annotated[Path | None, option("--model", help="Folder of a saved model, such as OUT/model of fit.")] = None,
    positive: Positive = None,
    threshold: Annotated[
        float | None, option("--threshold", help="Positive where the score is above it; 0.5 or 0 by default.")
    ] = None,
    constraint: Constraints = None,
    cross: Cross = False,
    confidence: Confidence = 0.95,
    chunk_rows: ChunkRows = None,
    as_json: Json = False,
    debug: Debug = False,
) -> int:
    """Judge scores or a saved model on a file of held-out rows; a saved model brings its own bounds."""
    from fairbound.cli.audit import AuditOptions, run_audit

    options = AuditOptions(
        data=data, label=label, group=group, out=out, score=score, model=model, positive=positive,
        threshold=threshold, constraint=constraint or [], cross=cross, confidence=confidence, chunk_rows=chunk_rows,
    )  # fmt: skip
    return finish(as_json, lambda: run_audit(options) if qid is None else _ranked("audit_ranking", options, qid))


def _frontier(
    data: Data,
    out: Out,
    constraint: Annotated[str, option("--constraint", help="A notion without its bound: demographic_parity.")],
    bounds: Annotated[
        str, option("--bounds", help="Bounds to train under, separated by commas.")
    ] = "0.01,0.02,0.05,0.1",
    seeds: Annotated[int, option("--seeds", help="Models per bound, with seeds SEED, SEED+1, ...", min=1)] = 3,
    label: Label = None,
    group: Group = None,
    model: Model = "linear",
    algorithm: Algorithm = "auto",
    seed: Seed = 0,
    budget: BudgetText = None,
    positive: Positive = None,
    test_size: TestSize = None,
    batch_size: BatchSize = 256,
    keep_sensitive: KeepSensitive = False,
    drop: Drop = None,
    cross: Cross = False,
    use_groups_at_prediction: Annotated[
        bool, option("--use-groups-at-prediction", help="Models with a threshold for each group, as of fit.")
    ] = False,
    confidence: Confidence = 0.95,
    data_dir: DataDir = None,
    as_json: Json = False,
    debug: Debug = False,
) -> int:
    """Train under a range of bounds and draw what each costs in accuracy."""
    from fairbound.cli.fit import FitOptions
    from fairbound.cli.frontier import FrontierOptions, frontier

    options = FrontierOptions(
        notion=constraint,
        bounds=bounds,
        seeds=seeds,
        fit=FitOptions(
            data=data,
            label=label,
            group=group,
            constraint=[],
            out=out,
            model=model,
            algorithm=algorithm,
            seed=seed,
            budget=budget,
            positive=positive,
            test_size=test_size,
            batch_size=batch_size,
            keep_sensitive=keep_sensitive,
            drop=drop,
            cross=cross,
            use_groups_at_prediction=use_groups_at_prediction,
            confidence=confidence,
            data_dir=data_dir,
        ),
    )
    return finish(as_json, lambda: frontier(options))


def _reproduce(
    study: Annotated[
        str,
        typer.Argument(
            help="auc-fairness, deep-benchmark, level-set, partial-fairness, plada, which-method, or a TOML file."
        )
        if typer
        else None,
    ],
    out: Out,
    quick: Annotated[bool, option("--quick", help="The study's short form: minutes on two cores.")] = False,
    only: Annotated[str | None, option("--only", help="Items of the study, separated by commas.")] = None,
    tune: Annotated[
        bool, option("--tune", help="Also tune every method on validation rows, with equal budgets.")
    ] = False,
    seeds: Annotated[
        int | None, option("--seeds", help="Runs of every method; the study's own by default.", min=1)
    ] = None,
    budget: Annotated[
        str | None, option("--budget", help="Of every run, such as 30s; the study's own by default.")
    ] = None,
    jobs: Annotated[int, option("--jobs", help="Runs at once, each in its own process and thread.", min=1)] = 1,
    backend: Annotated[str, option("--backend", help="loky, threading, ray or dask.")] = "loky",
    data_dir: DataDir = None,
    as_json: Json = False,
    debug: Debug = False,
) -> int:
    """Run a paper's experiments, or finish them where they stopped, and draw tables, figures and a page."""
    from fairbound.cli.reproduce import ReproduceOptions, reproduce

    options = ReproduceOptions(
        study=study, out=out, quick=quick, only=only, tune=tune, seeds=seeds, budget=budget, jobs=jobs, backend=backend,
        data_dir=data_dir,
    )  # fmt: skip
    return finish(as_json, lambda: reproduce(options))


def _datasets_list(as_json: Json = False, debug: Debug = False) -> int:
    """Every named data set, one line each."""
    from fairbound.cli.datasets import list_datasets

    return finish(as_json, list_datasets)


def _datasets_info(
    name: Annotated[str, typer.Argument(help="Name of a data set.") if typer else None],
    as_json: Json = False,
    debug: Debug = False,
) -> int:
    """Rows, groups, options, licence, citation and files of a data set."""
    from fairbound.cli.datasets import describe

    return finish(as_json, lambda: describe(name))


def _datasets_fetch(
    name: Annotated[str, typer.Argument(help="Name of a data set.") if typer else None],
    data_dir: DataDir = None,
    state: Annotated[str | None, option("--state", help="acs-income only: states such as OK,TX.")] = None,
    year: Annotated[int | None, option("--year", help="acs-income only: year of the survey.")] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> int:
    """Download a data set from its publisher and check it."""
    from fairbound.cli.datasets import fetch

    return finish(as_json, lambda: fetch(name, data_dir, state, year))


if __name__ == "__main__":
    sys.exit(main())
