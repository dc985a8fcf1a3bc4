"""The command that uses a saved model, `predict`; those that watch, compare and hold back models, `monitor`, `compare` and `gate`; `interval`, which says what to bound;
`feasibility`, which says what a bound costs; `stream` and `shift`, for bounds on areas; with their options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from fairbound.cli.options import (
    Algorithm,
    BudgetText,
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
    Out,
    Positive,
    Seed,
    TestSize,
    argument,
    finish,
    option,
)


def monitor(
    state: Annotated[Path, option("--state", help="Folder of the monitor's state and report; made where missing.")],
    data: Annotated[
        str | None, option("--data", help="A CSV or Parquet file of new decisions whose outcome is known.")
    ] = None,
    label: Annotated[str | None, option("--label", help="Column of true outcomes.")] = None,
    group: Group = None,
    score: Annotated[
        str | None, option("--score", help="Column of decisions (labels or 0/1), probabilities or real scores.")
    ] = None,
    model: Annotated[Path | None, option("--model", help="Folder of a saved model, which decides.")] = None,
    positive: Positive = None,
    threshold: Annotated[
        float | None, option("--threshold", help="Positive where the score is above it; kept in the state.")
    ] = None,
    constraint: Constraints = None,
    cross: Cross = False,
    confidence: Annotated[
        float | None,
        option("--confidence", help="Of all verdicts together, between 0.5 and 1; 0.95 by default, kept in the state."),
    ] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> int:
    """Add new labelled decisions to a monitor and judge its bounds; the verdicts hold however often one looks."""
    from fairbound.cli.monitor import MonitorOptions, run_monitor

    options = MonitorOptions(
        state=state,
        data=data,
        label=label,
        group=group,
        score=score,
        model=model,
        positive=positive,
        threshold=threshold,
        constraint=constraint or [],
        cross=cross,
        confidence=confidence,
    )
    return finish(as_json, lambda: run_monitor(options))


def compare(
    first: Annotated[str, argument("Folder of a saved model, or a column of scores.")],
    second: Annotated[str, argument("The other one.")],
    data: Annotated[str, option("--data", help="A CSV or Parquet file of rows not used in training.")],
    label: Annotated[str, option("--label", help="Column of true outcomes.")],
    group: Group = None,
    positive: Positive = None,
    constraint: Constraints = None,
    cross: Cross = False,
    confidence: Confidence = 0.95,
    out: Annotated[
        Path | None, option("--out", help="Folder for compare.json and compare.html; none by default.")
    ] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> int:
    """The second of two models less the first on the same rows: accuracy, rates and bounds, with paired intervals."""
    from fairbound.cli.compare import CompareOptions, run_compare

    options = CompareOptions(
        first=first,
        second=second,
        data=data,
        label=label,
        group=group,
        positive=positive,
        constraint=constraint or [],
        cross=cross,
        confidence=confidence,
        out=out,
    )
    return finish(as_json, lambda: run_compare(options))


def gate(
    config: Annotated[Path, option("--config", help="The gate's TOML file; docs/evidence.md.")],
    as_json: Json = False,
    debug: Debug = False,
) -> int:
    """Check what a TOML file says must hold of a model: 0 where it does, 1 where not, 3 without enough evidence."""
    from fairbound.cli.gate import run_gate

    return finish(as_json, lambda: run_gate(config))


def interval(
    data: Annotated[str, option("--data", help="A CSV or Parquet file of rows with scores.")],
    score: Annotated[str, option("--score", help="Column of probabilities or real scores of a model without bounds.")],
    group: Annotated[str, option("--group", help="Sensitive columns, separated by commas.")],
    positive_rate: Annotated[
        float | None, option("--positive-rate", help="Share of positive decisions; that of these scores by default.")
    ] = None,
    threshold: Annotated[
        float | None, option("--threshold", help="Positive where the score is above it; 0.5 or 0 by default.")
    ] = None,
    out: Annotated[
        Path | None, option("--out", help="Folder for interval.json and the picture; none by default.")
    ] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> int:
    """Suggest the percentile interval of scores to bound: around the positive rate, where the groups are furthest apart."""
    from fairbound.cli.interval import IntervalOptions, run_interval

    options = IntervalOptions(
        data=data, score=score, group=group, positive_rate=positive_rate, threshold=threshold, out=out
    )
    return finish(as_json, lambda: run_interval(options))


def feasibility(
    data: Data,
    constraint: Annotated[str, option("--constraint", help="The bound asked about: 'demographic_parity <= 0.05'.")],
    label: Label = None,
    group: Group = None,
    model: Model = "linear",
    algorithm: Algorithm = "auto",
    objective: Objective = "auto",
    seed: Seed = 0,
    budget: BudgetText = None,
    positive: Positive = None,
    drop: Drop = None,
    keep_sensitive: KeepSensitive = False,
    cross: Cross = False,
    confidence: Confidence = 0.95,
    data_dir: DataDir = None,
    out: Annotated[Path | None, option("--out", help="Folder for feasibility.json; none by default.")] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> int:
    """Before a long run: what a bound costs, the smallest value that can be reached, and what more rows of which group would buy."""
    from fairbound.cli.feasibility import FeasibilityOptions, run_feasibility
    from fairbound.cli.fit import FitOptions

    asked = FitOptions(
        data=data, label=label, group=group, constraint=[constraint], out=out or Path("."), model=model, algorithm=algorithm,
        objective=objective, seed=seed, budget=budget, positive=positive, drop=drop, keep_sensitive=keep_sensitive, cross=cross,
        confidence=confidence, data_dir=data_dir,
    )  # fmt: skip
    return finish(as_json, lambda: run_feasibility(FeasibilityOptions(fit=asked, out=out)))


def stream(
    data: Data,
    out: Out,
    constraint: Constraints = None,
    label: Label = None,
    group: Group = None,
    solver: Annotated[
        str, option("--solver", help="exact, from means and covariances; rows, a step of mirror descent a row.")
    ] = "exact",
    kappa: Annotated[
        float | None, option("--kappa", help="Bound on the surrogate; chosen by the true areas of a sample by default.")
    ] = None,
    sample: Annotated[int, option("--sample", help="Rows of that sample.", min=1)] = 10_000,
    seed: Seed = 0,
    positive: Positive = None,
    test_size: TestSize = None,
    drop: Drop = None,
    confidence: Confidence = 0.95,
    data_dir: DataDir = None,
    chunk_rows: ChunkRows = None,
    as_json: Json = False,
    debug: Debug = False,
) -> int:
    """Learn a linear score of largest AUC under one bound on areas, chunk by chunk, and judge it on rows held out."""
    from fairbound.cli.areas import StreamOptions, run_stream

    options = StreamOptions(
        data=data, constraint=constraint or [], out=out, label=label, group=group, positive=positive, drop=drop,
        solver=solver, kappa=kappa, sample=sample, seed=seed, test_size=test_size, confidence=confidence,
        data_dir=data_dir, chunk_rows=chunk_rows,
    )  # fmt: skip
    return finish(as_json, lambda: run_stream(options))


def shift(
    data: Annotated[str, option("--data", help="A CSV or Parquet file of rows with scores.")],
    label: Annotated[str, option("--label", help="Column of true outcomes.")],
    score: Annotated[str, option("--score", help="Column of probabilities or real scores.")],
    group: Annotated[str, option("--group", help="Sensitive column, of two groups.")],
    out: Out,
    constraint: Constraints = None,
    move: Annotated[
        str | None, option("--move", help="The group whose scores move; the smaller one by default.")
    ] = None,
    positive: Positive = None,
    threshold: Annotated[
        float | None, option("--threshold", help="Positive where the score is above it; 0.5 or 0 by default.")
    ] = None,
    seed: Seed = 0,
    test_size: Annotated[float, option("--test-size", help="Share of rows held out for the verdict.")] = 0.5,
    confidence: Confidence = 0.95,
    as_json: Json = False,
    debug: Debug = False,
) -> int:
    """Scale and shift the scores of one group to meet a bound on areas, and judge them on rows held out."""
    from fairbound.cli.areas import ShiftOptions, run_shift

    options = ShiftOptions(
        data=data, label=label, score=score, group=group, constraint=constraint or [], out=out, move=move,
        positive=positive, threshold=threshold, seed=seed, test_size=test_size, confidence=confidence,
    )  # fmt: skip
    return finish(as_json, lambda: run_shift(options))


def predict(
    data: Annotated[str, option("--data", help="A CSV or Parquet file of rows to predict.")],
    model: Annotated[Path, option("--model", help="Folder of a saved model, such as OUT/model of fit.")],
    out: Annotated[Path, option("--out", help="The CSV file to write, a line for each row in the rows' order.")],
    keep: Annotated[
        str | None, option("--keep", help="Columns to copy into it, separated by commas, such as an identifier.")
    ] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> int:
    """Write what a saved model predicts for the rows of a file; it needs no labels."""
    from fairbound.cli.predict import PredictOptions, run_predict

    options = PredictOptions(data=data, model=model, out=out, keep=keep)
    return finish(as_json, lambda: run_predict(options))


def add_commands(app: Any) -> None:
    """Add the commands to the typer application."""
    for command in (predict, feasibility, monitor, compare, gate, interval, stream, shift):
        app.command(command.__name__)(command)
