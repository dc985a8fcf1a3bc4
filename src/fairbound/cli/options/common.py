"""Options that commands of several kinds share, each once with its help, and how rows of a file or a data set are named.
`fairbound.cli.options.typer_commands` makes commands of dataclasses such as those here."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from fairbound.base.errors import OptionError
from fairbound.cli.options.typer_commands import option

Out = Annotated[Path, option("--out", help="Folder to write; made where missing.")]
PageIfAny = Annotated[
    Path | None, option("--out", help="Folder for the result, as data and as a page. Default: none is written.")
]
PictureIfAny = Annotated[
    Path | None, option("--out", help="Folder for the result, as data and as a picture. Default: none is written.")
]
DataIfAny = Annotated[Path | None, option("--out", help="Folder for the result, as data. Default: none is written.")]
DataDir = Annotated[str | None, option("--data-dir", help="Folder of data files. Default: FAIRBOUND_DATA.")]
Data = Annotated[str, option("--data", help="A CSV or Parquet file, or the name of a data set.")]
File = Annotated[str, option("--data", help="A CSV or Parquet file.")]
HeldOut = Annotated[str, option("--data", help="A CSV or Parquet file of rows not used in training.")]
Label = Annotated[
    str | None, option("--label", help="Column to predict; two values, or more where only classes are bounded.")
]
TrueLabel = Annotated[str, option("--label", help="Column of true outcomes.")]
Group = Annotated[str | None, option("--group", help="Sensitive columns, separated by commas.")]
Positive = Annotated[
    str | None, option("--positive", help="The label that counts as positive. Default: the greater of the two.")
]
Constraints = Annotated[
    list[str],
    option(
        "--constraint", help="A bound, 'demographic_parity <= 0.02' or 'recall of class b >= 0.9'; may be repeated."
    ),
]
Qid = Annotated[
    str | None,
    option(
        "--qid", help="Column of the query: rows are documents to rank, the label is their relevance (docs/ranking.md)."
    ),
]
Weights = Annotated[
    str | None,
    option("--weights", help="Column of row weights. 'survey': the survey weights of a named data set."),
]
Cross = Annotated[
    bool,
    option(
        "--cross", help="Compare combinations of the sensitive columns (race x sex), but for bounds that say [each]."
    ),
]
Confidence = Annotated[float, option("--confidence", help="Confidence of all verdicts together, between 0.5 and 1.")]
MODEL_FOLDER = option("--model", help="Folder of a saved model, such as OUT/model of fit.")
SavedModel = Annotated[Path | None, MODEL_FOLDER]
Score = Annotated[
    str | None,
    option(
        "--score",
        help="Column of decisions (0/1), probabilities, real scores or predicted labels; or what counts as positive, "
        "'decision=approved' or 'risk<0.2'.",
    ),
]
RealScore = Annotated[str, option("--score", help="Column of probabilities or real scores.")]
Threshold = Annotated[
    float | None,
    option(
        "--threshold", help="Positive where the score is above it. Default: 0.5 for probabilities, 0 for other scores."
    ),
]
Seed = Annotated[int, option("--seed", help="Decides the split and the training; equal seeds, equal results.", min=0)]
TestSize = Annotated[
    float | None, option("--test-size", help="Share of rows held out. Default: the published split, or 0.25.")
]
KeepSensitive = Annotated[
    bool, option("--keep-sensitive/--drop-sensitive", help="Whether the sensitive columns are features too.")
]
ChunkRows = Annotated[
    int | None, option("--chunk-rows", help="Read the file this many rows at a time, to bound memory.", min=1)
]
DropMissingLabels = Annotated[
    bool, option("--drop-missing-labels", help="Leave out rows without a label, which are an error otherwise.")
]
Drop = Annotated[str | None, option("--drop", help="Columns that are no features, separated by commas.")]


class WritesFolder:
    """A command that writes the folder `out`, or nothing where that is None."""

    out: Path | None

    @property
    def folder(self) -> Path | None:
        """What is held for the command, as `output_folder` says; no command looks after it itself."""
        return self.out


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """How a CSV file is written, where it does not tell."""

    encoding: Annotated[
        str | None,
        option("--encoding", help="Encoding of a CSV file, such as cp1252. Default: by its byte order mark, or UTF-8."),
    ] = None
    decimal: Annotated[
        str | None,
        option(
            "--decimal",
            help="The mark before decimals in a CSV file: '.' or ','. Default: that of a saved model; else '.', and what the columns show where ; or "
            "tab separates.",
        ),
    ] = None
    text: Annotated[
        str | None,
        option(
            "--text",
            help="Columns of a CSV file that are text though their cells look like numbers, such as codes, separated by "
            "commas. Default: those with a zero before a whole number (01), and those that a saved model has as text.",
        ),
    ] = None

    @cached_property
    def file_format(self) -> dict[str, Any]:
        """What `read_table` and `Chunks.read` take; saved models, which say some of it, are loaded once for it."""
        from fairbound.cli.files.kinds import kinds_of

        return {"encoding": self.encoding, "decimal": self.decimal, "kinds": kinds_of(self)}


@dataclass(frozen=True, kw_only=True)
class FileOptions(ReadOptions):
    """Which columns of a file to learn from."""

    data: File
    label: Label = None
    group: Group = None
    drop: Drop = None
    keep_sensitive: KeepSensitive = False
    weights: Weights = None
    drop_missing_labels: DropMissingLabels = False


@dataclass(frozen=True, kw_only=True)
class RowOptions(FileOptions):
    """Which rows of two or more classes to read, of a file or a named data set."""

    data: Data
    positive: Positive = None
    data_dir: DataDir = None
    chunk_rows: ChunkRows = None


def check_share(share: float | None) -> None:
    if share is not None and not 0 < share < 1:
        raise OptionError(f"--test-size must be a share of the rows between 0 and 1, got {share}.")
