"""What the commands about named data sets and the studies on them may be given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from fairbound.cli.options.common import DataDir, Out, WritesFolder
from fairbound.cli.options.typer_commands import argument, option


@dataclass(frozen=True, kw_only=True)
class ListOptions:
    """Every named data set, one line each."""

    run: ClassVar[str] = "datasets:list_datasets"


@dataclass(frozen=True, kw_only=True)
class InfoOptions:
    """Rows, groups, options, licence, citation and files of a data set."""

    run: ClassVar[str] = "datasets:describe_dataset"
    name: Annotated[str, argument("Name of a data set.")]


@dataclass(frozen=True, kw_only=True)
class FetchOptions:
    """Download a data set from its publisher and check it."""

    run: ClassVar[str] = "datasets:fetch_dataset"
    name: Annotated[str, argument("Name of a data set.")]
    data_dir: DataDir = None
    state: Annotated[str | None, option("--state", help="acs-income only: states such as OK,TX.")] = None
    year: Annotated[int | None, option("--year", help="acs-income only: the survey's year.")] = None


@dataclass(frozen=True, kw_only=True)
class ReproduceOptions(WritesFolder):
    """Run a paper's experiments; draw tables, figures and a page.

    The same command goes on where it stopped (docs/reproduce.md).
    """

    run: ClassVar[str] = "reproduce:run_reproduce"
    study: Annotated[
        str, argument("auc-fairness, deep-benchmark, level-set, partial-fairness, plada, which-method, or a TOML file.")
    ]
    out: Out
    quick: Annotated[bool, option("--quick", help="The study's short form: minutes on two cores.")] = False
    only: Annotated[str | None, option("--only", help="Items of the study, separated by commas.")] = None
    tune: Annotated[bool, option("--tune", help="Also tune every method, with equal budgets.")] = False
    seeds: Annotated[int | None, option("--seeds", help="Seeds of every method. Default: the study's.", min=1)] = None
    budget: Annotated[
        str | None,
        option(
            "--budget", help="Budget of every run, such as 30s. Default: the study's. Trials of --tune keep theirs."
        ),
    ] = None
    jobs: Annotated[int, option("--jobs", help="Runs at once, each in its own process and thread.", min=1)] = 1
    backend: Annotated[str, option("--backend", help="loky, threading, ray or dask.")] = "loky"
    data_dir: DataDir = None
