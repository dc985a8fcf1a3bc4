"""The options that several commands share, as the command line declares them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

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


def finish(as_json: bool, run: Callable[[], Any]) -> int:
    """Run a command, print its outcome (as one JSON object, or for people), and return its exit code."""
    outcome = run()
    print(json.dumps(outcome.summary, ensure_ascii=False, allow_nan=False) if as_json else outcome.text)
    return outcome.exit_code


REPEATED = ("--constraint",)
"""Options that may be given several times."""

ONE_BOUND = ("feasibility", "frontier")
"""Commands that ask about one bound."""


def given_twice(arguments: Sequence[str]) -> str | None:
    """The first option that the arguments of a command give more than once, of which all but the last would be ignored."""
    names = [word.partition("=")[0] for word in arguments if word.startswith("--") and len(word) > 2]
    may = () if arguments and arguments[0] in ONE_BOUND else REPEATED
    return next((name for name in names if names.count(name) > 1 and name not in may), None)


Json = Annotated[bool, option("--json", help="Print one JSON object and nothing else on standard output.")]
Debug = Annotated[bool, option("--debug", help="Show where in the program an error arose.")]
Out = Annotated[Path, option("--out", help="Folder to write; made where missing.")]
DataDir = Annotated[str | None, option("--data-dir", help="Folder of data files; FAIRBOUND_DATA by default.")]
Data = Annotated[str, option("--data", help="A CSV or Parquet file, or the name of a data set.")]
Label = Annotated[
    str | None, option("--label", help="Column to predict; two values, or more where only classes are bounded.")
]
Group = Annotated[str | None, option("--group", help="Sensitive columns, separated by commas.")]
Positive = Annotated[
    str | None, option("--positive", help="The label's value that counts as positive; the greater one by default.")
]
Constraints = Annotated[
    list[str] | None,
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
Cross = Annotated[bool, option("--cross", help="Compare combinations of the sensitive columns (race x sex).")]
Certify = Annotated[
    bool, option("--certify", help="Return the least costly model whose bounds rows kept apart confirm.")
]
OnInsufficient = Annotated[
    str, option("--on-insufficient", help="With --certify: warn, or raise to refuse a model that is not confirmed.")
]
Confidence = Annotated[float, option("--confidence", help="Of all verdicts together, between 0.5 and 1.")]
Model = Annotated[str, option("--model", help="linear, or mlp:64,32 for layers of 64 and 32 units.")]
Algorithm = Annotated[str, option("--algorithm", help="auto, or a method such as alm or ssl_alm.")]
Objective = Annotated[
    str,
    option(
        "--objective",
        help="What is minimised: loss; accuracy; auto (as much of the latter as keeps the scores in order); "
        "largest_group_loss (the worst-off group's); auc for rank.",
    ),
]
Seed = Annotated[int, option("--seed", help="Decides the split and the training; equal seeds, equal results.", min=0)]
BudgetText = Annotated[
    str | None, option("--budget", help="'30s', '5000 steps' or '10 epochs'; by the rows if absent.")
]
TestSize = Annotated[
    float | None,
    option("--test-size", help="Share of rows held out; the published split or 0.25 by default."),
]
BatchSize = Annotated[int, option("--batch-size", help="Rows per training step.", min=1)]
KeepSensitive = Annotated[
    bool, option("--keep-sensitive/--drop-sensitive", help="Whether the sensitive columns are features too.")
]
ChunkRows = Annotated[
    int | None, option("--chunk-rows", help="Read the file this many rows at a time, to bound memory.", min=1)
]
Drop = Annotated[str | None, option("--drop", help="Columns that are no features, separated by commas.")]
