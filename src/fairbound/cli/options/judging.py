"""What the commands that judge, watch, compare or move the decisions of a model may be given."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar

from fairbound.base.errors import OptionError
from fairbound.cli.options.common import (
    MODEL_FOLDER,
    ChunkRows,
    Confidence,
    Constraints,
    Cross,
    DropMissingLabels,
    File,
    Group,
    HeldOut,
    Out,
    PageIfAny,
    PictureIfAny,
    Positive,
    Qid,
    ReadOptions,
    RealScore,
    SavedModel,
    Score,
    Seed,
    Threshold,
    TrueLabel,
    Weights,
    WritesFolder,
    check_share,
)
from fairbound.cli.options.typer_commands import argument, option


def _check_source(score: str | None, model: Path | None, threshold: float | None) -> None:
    """Raises: OptionError unless decisions come from either a column or a saved model, which has its own threshold."""
    if (score is None) == (model is None):
        raise OptionError("give either --score, a column of scores, or --model, the folder of a saved model.")
    if model is not None and threshold is not None:
        raise OptionError("--threshold belongs to --score; a saved model decides by itself.")


@dataclass(frozen=True, kw_only=True)
class JudgeOptions(ReadOptions):
    """Which held-out rows of a file to judge by, and which bounds; a saved model brings its own."""

    data: HeldOut
    label: TrueLabel
    group: Group = None
    positive: Positive = None
    constraint: Constraints = field(default_factory=list)
    weights: Weights = None
    cross: Cross = False
    confidence: Confidence = 0.95
    drop_missing_labels: DropMissingLabels = False


@dataclass(frozen=True, kw_only=True)
class AuditOptions(WritesFolder, JudgeOptions):
    """Judge scores or a saved model on a file of held-out rows.

    Give --score or --model. A saved model brings its own bounds, unless --constraint states others.
    """

    out: Out
    label: Annotated[
        str | None,
        option(
            "--label",
            help="Column of true outcomes. Left out, the decisions of --score or --model are judged alone, by bounds on the "
            "shares selected.",
        ),
    ] = None  # type: ignore[assignment]
    qid: Qid = None
    score: Score = None
    model: SavedModel = None
    threshold: Threshold = None
    clusters: Annotated[
        str | None,
        option(
            "--clusters",
            help="Column of the person, or the like, that a row is of, where some have several: limits then take persons, "
            "not rows, for independent.",
        ),
    ] = None
    chunk_rows: ChunkRows = None
    power: Annotated[
        float,
        option("--power", help="Chance with which the rows said to be needed are to decide, from 0.5 up to 1."),
    ] = 0.5

    @property
    def run(self) -> str:
        """What judges."""
        return "judging.audit:run_audit" if self.qid is None else "judging.rankings:audit_ranking"

    def __post_init__(self) -> None:
        _check_source(self.score, self.model, self.threshold)
        if self.score is not None and self.score == self.label:
            raise OptionError(
                f"--score and --label both name {self.label!r}: outcomes taken for decisions are right in every row. Name the column of "
                "decisions with --score, or leave --label out to judge decisions alone."
            )
        if self.label is None and self.qid is not None:
            raise OptionError(
                "name the column of true outcomes with --label, which --qid needs; decisions (--score, --model) can be judged without."
            )
        if self.weights is not None and self.chunk_rows is not None:
            raise OptionError(
                "rows that are read in parts are counted, without weights; leave --weights or --chunk-rows out."
            )
        if self.clusters is not None and self.chunk_rows is not None:
            raise OptionError(
                "rows that are read in parts are counted one by one; leave --clusters or --chunk-rows out."
            )


@dataclass(frozen=True, kw_only=True)
class PredictOptions(ReadOptions):
    """Write what a saved model predicts for the rows of a file.

    It needs no labels.
    """

    run: ClassVar[str] = "predict:run_predict"
    data: File
    model: Annotated[Path, MODEL_FOLDER]
    out: Annotated[
        Path,
        option(
            "--out",
            help="The file to write, a line for each row in the rows' order: CSV, or by its name .csv.gz or .parquet.",
        ),
    ]
    keep: Annotated[
        str | None,
        option("--keep", help="Columns to copy beside the predictions, separated by commas, such as an identifier."),
    ] = None

    def __post_init__(self) -> None:
        if self.out.is_dir():
            raise OptionError(f"--out names the file to write, and {self.out} is a folder.")
        if re.fullmatch(r"-|/dev/std(in|out|err)|(/dev/fd|/proc/self/fd)/[012]", self.out.as_posix()):
            raise OptionError(
                f"--out {self.out} is where the command says what it did, so the rows would be mixed with that; name a file or a pipe."
            )


@dataclass(frozen=True, kw_only=True)
class MonitorOptions(ReadOptions):
    """Watch bounds on decisions as they come, file by file.

    Adds a file of decisions with known outcomes to the state and judges the bounds on all decisions so far. The
    verdicts hold however often one looks (docs/monitoring.md).
    """

    run: ClassVar[str] = "monitoring.monitor:run_monitor"
    state: Annotated[Path, option("--state", help="Folder of the monitor's state and report; made where missing.")]
    data: Annotated[
        str | None, option("--data", help="A CSV or Parquet file of new decisions whose outcome is known.")
    ] = None
    label: Annotated[
        str | None,
        option(
            "--label",
            help="Column of true outcomes. Left out, decisions alone are watched, by bounds on the shares selected.",
        ),
    ] = None
    group: Group = None
    score: Score = None
    model: SavedModel = None
    positive: Positive = None
    threshold: Threshold = None
    loss: Annotated[
        str | None,
        option("--loss", help="Column of each row's loss, where mean losses are bounded. Not needed with --model."),
    ] = None
    weights: Weights = None
    largest_weight: Annotated[
        float | None, option("--largest-weight", help="The largest weight that a row can have; kept in the state.")
    ] = None
    id: Annotated[
        str | None,
        option(
            "--id",
            help="Column that tells decisions apart. A decision whose id was counted before is left out, so that exports may overlap.",
        ),
    ] = None
    constraint: Constraints = field(default_factory=list)
    cross: Cross = False
    confidence: Annotated[
        float | None,
        option(
            "--confidence",
            help="Confidence of all verdicts together, between 0.5 and 1. Default: 0.95, kept in the state.",
        ),
    ] = None
    fail_on: Annotated[
        str | None,
        option(
            "--fail-on", help="growth: exit with 1 also where a gap has grown for certain, though its bound is met."
        ),
    ] = None

    @property
    def folder(self) -> Path:
        """What is held for the command, as `output_folder` says."""
        return self.state

    def __post_init__(self) -> None:
        if self.fail_on not in (None, "growth"):
            raise OptionError(f"--fail-on takes growth, got {self.fail_on!r}.")
        if self.weights is None and self.largest_weight is not None:
            raise OptionError("--largest-weight belongs to --weights COLUMN.")
        if self.data is not None:
            _check_source(self.score, self.model, self.threshold)


@dataclass(frozen=True, kw_only=True)
class CompareOptions(WritesFolder, JudgeOptions):
    """Compare two models on the same rows.

    The second less the first: accuracy, rates of each group and values of bounds, with paired intervals
    (docs/evidence.md).
    """

    run: ClassVar[str] = "judging.compare:run_compare"
    first: Annotated[str, argument("Folder of a saved model, a column of scores or decisions, or 'score>600'.")]
    second: Annotated[str, argument("The other one.")]
    label: Annotated[
        str | None,
        option("--label", help="Column of true outcomes. Left out, whom the two select is compared."),
    ] = None  # type: ignore[assignment]
    threshold: Threshold = None
    confidence: Annotated[
        float, option("--confidence", help="Confidence of each interval by itself, between 0.5 and 1.")
    ] = 0.95
    out: PageIfAny = None

    def __post_init__(self) -> None:
        if self.threshold is not None and Path(self.first).is_dir() and Path(self.second).is_dir():
            raise OptionError("--threshold is of columns of scores; saved models decide by themselves.")


@dataclass(frozen=True, kw_only=True)
class GateOptions:
    """Check what a TOML file says must hold of a model, for CI.

    Exit code 0 where all holds, 1 where something does not, 3 where the evidence does not suffice.
    """

    run: ClassVar[str] = "gate:run_gate"
    config: Annotated[Path, option("--config", help="The gate's TOML file (docs/evidence.md).")]


@dataclass(frozen=True, kw_only=True)
class IntervalOptions(WritesFolder, ReadOptions):
    """Suggest a percentile interval of scores to bound.

    It holds the rate of positive decisions and is the one on which the groups are furthest apart (docs/partial.md).
    """

    run: ClassVar[str] = "interval:run_interval"
    data: File
    score: RealScore
    group: Annotated[str, option("--group", help="Sensitive columns, separated by commas.")]
    positive_rate: Annotated[
        float | None, option("--positive-rate", help="Share of positive decisions. Default: that of these scores.")
    ] = None
    threshold: Threshold = None
    weights: Weights = None
    out: PictureIfAny = None


@dataclass(frozen=True, kw_only=True)
class ShiftOptions(WritesFolder, ReadOptions):
    """Scale and shift one group's scores to meet a bound on areas.

    The moved scores are judged on held-out rows (docs/auc.md).
    """

    run: ClassVar[str] = "training.areas:run_shift"
    data: File
    label: TrueLabel
    score: RealScore
    group: Annotated[str, option("--group", help="Sensitive column, of two groups.")]
    out: Out
    constraint: Constraints = field(default_factory=list)
    move: Annotated[str | None, option("--move", help="The group whose scores move. Default: the smaller.")] = None
    positive: Positive = None
    threshold: Threshold = None
    seed: Seed = 0
    test_size: Annotated[float, option("--test-size", help="Share of rows held out for the verdict.")] = 0.5
    confidence: Confidence = 0.95
    drop_missing_labels: DropMissingLabels = False

    def __post_init__(self) -> None:
        check_share(self.test_size)
