"""What the commands that train may be given, with the checks that need no data."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar

from fairbound.base.checks import amount, check_confidence
from fairbound.base.errors import OptionError
from fairbound.cli.options.common import (
    Confidence,
    Constraints,
    Cross,
    DataIfAny,
    FileOptions,
    Out,
    Qid,
    RowOptions,
    Seed,
    TestSize,
    WritesFolder,
    check_share,
)
from fairbound.cli.options.typer_commands import option

OneConstraint = Annotated[str, option("--constraint", help="The bound asked about: 'demographic_parity <= 0.05'.")]
Certify = Annotated[
    bool,
    option("--certify", help="Train so that rows kept apart confirm the bounds (docs/certificates.md)."),
]
OnInsufficient = Annotated[
    str,
    option("--on-insufficient", help="With --certify, of a model that is not confirmed: warn, or raise to refuse it."),
]
Model = Annotated[str, option("--model", help="linear, or mlp:64,32 for layers of 64 and 32 units.")]
Knots = Annotated[
    str | None,
    option(
        "--knots",
        help="At how many values each number may bend, or auto: at 3 where a test says so. Default: auto for linear models of classes or numbers, else 0.",
    ),
]
Jumps = Annotated[
    str | None,
    option(
        "--jumps",
        help="0, or auto: a number may jump at the values for which a test says so. Default: as --knots, auto where they are, and for networks of classes.",
    ),
]
Pairs = Annotated[
    str | None,
    option(
        "--pairs",
        help="0, or auto: two columns may have an effect together where a test says so. Default: auto where --knots and --jumps are, except with more than two classes.",
    ),
]
MaxCategories = Annotated[
    int | None,
    option(
        "--max-categories",
        help="Columns that a column of categories becomes at most; its less frequent values share one. Default: 250, fewer in tables of more than 100,000 rows.",
        min=2,
    ),
]
Algorithm = Annotated[str, option("--algorithm", help="auto, or a method such as alm or ssl_alm.")]
Objective = Annotated[
    str,
    option(
        "--objective",
        help="What training aims at: auto (decisions on new rows); loss, accuracy (of the training rows); "
        "largest_group_loss (the loss of the worst-off group); auc (scores that rank, not decisions).",
    ),
]
Decay = Annotated[
    str,
    option(
        "--weight-decay",
        help="Of a linear model: D adds D/2 |weights|^2 to what is minimised; auto chooses D; 0 adds nothing.",
    ),
]
BudgetText = Annotated[
    str | None, option("--budget", help="'30s', '5000 steps' or '10 epochs'. Default: by the number of rows.")
]
SplitBy = Annotated[
    str | None,
    option(
        "--split-by",
        help="Column of the person that a row is of, such as patient_id: all rows of a person are held out, or none.",
    ),
]
BatchSize = Annotated[int, option("--batch-size", help="Rows per training step.", min=1)]
WithTerms = Annotated[
    bool, option("--group-terms", help="Give every group weights of its own; predictions then need the group.")
]
ByGroup = Annotated[
    bool,
    option(
        "--use-groups-at-prediction",
        help="Decide by a threshold for each group; decisions then need the group (docs/postprocessing.md).",
    ),
]


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """Which model to train, and how long. What can be wrong without reading the data is found before it is read."""

    model: Model = "linear"
    algorithm: Algorithm = "auto"
    knots: Knots = None
    jumps: Jumps = None
    pairs: Pairs = None
    max_categories: MaxCategories = None
    seed: Seed = 0
    budget: BudgetText = None
    cross: Cross = False
    confidence: Confidence = 0.95

    def __post_init__(self) -> None:
        from fairbound.methods import algorithm as algorithm_named
        from fairbound.models.model import model_of
        from fairbound.solver.budget import Budget

        model_of(self.model, features=1)
        if self.algorithm != "auto":
            algorithm_named(self.algorithm)
        if self.budget is not None:
            Budget.of(self.budget)
        check_confidence(self.confidence, "--confidence")
        if self.knots not in (None, "auto") and not self.knots.isdecimal():
            raise OptionError(f"--knots must be a whole number or 'auto', got {self.knots!r}.")
        for name, value in (("--jumps", self.jumps), ("--pairs", self.pairs)):
            if value not in (None, "auto", "0"):
                raise OptionError(f"{name} must be 0 or 'auto', got {value!r}.")


@dataclass(frozen=True, kw_only=True)
class TrainOptions(ModelOptions, RowOptions):
    """How to train a classifier or a ranker."""

    objective: Objective = "auto"
    weight_decay: Decay = "auto"
    batch_size: BatchSize = 256
    use_groups_at_prediction: ByGroup = False
    group_terms: WithTerms = False

    def __post_init__(self) -> None:
        from fairbound.fairness.objectives import objective_of

        objective_of(self.objective)
        amount("--weight-decay", self.weight_decay)
        super().__post_init__()


@dataclass(frozen=True, kw_only=True)
class HeldOutOptions:
    """Which rows judge the model: a share held out, or those that `--certify` keeps apart."""

    test_size: TestSize = None
    split_by: SplitBy = None
    certify: Certify = False
    on_insufficient: OnInsufficient = "warn"

    def __post_init__(self) -> None:
        super().__post_init__()  # type: ignore[misc]
        check_share(self.test_size)
        if self.on_insufficient != "warn" and not self.certify:
            raise OptionError("--on-insufficient is of a model that --certify confirms; add that, or leave it out.")
        if self.certify and self.test_size is not None:
            raise OptionError("--certify decides itself how many rows are held out; leave --test-size out.")
        if self.certify and self.split_by is not None:
            raise OptionError(
                "--certify takes every row for independent of the others, so keep one row of each person, or leave --split-by out."
            )


NOT_DISTRIBUTED = ("estimator", "qid", "chunk_rows", "knots", "jumps", "pairs", "certify", "use_groups_at_prediction")


@dataclass(frozen=True, kw_only=True)
class FitOptions(WritesFolder, HeldOutOptions, TrainOptions):
    """Train a model under fairness bounds; judge it on new rows.

    Writes the report, its numbers, the model and a model card to --out (docs/commands.md).
    """

    out: Out
    constraint: Constraints = field(default_factory=list)
    qid: Qid = None
    estimator: Annotated[
        str | None,
        option(
            "--estimator",
            help="A scikit-learn classifier that takes sample weights, such as 'sklearn.tree.DecisionTreeClassifier(max_depth=5)', "
            "to fit in place of --model; no model is saved then.",
        ),
    ] = None
    folds: Annotated[
        int | None,
        option(
            "--folds",
            help="With --estimator: judge the bounds on rows that a fit has not seen, of so many parts, or 0 for none; 5 unless given for a "
            "classifier that knows its training rows by heart.",
            min=0,
        ),
    ] = None
    baseline: Annotated[
        bool, option("--baseline/--no-baseline", help="Also train a model without bounds, for comparison.")
    ] = True
    distributed: Annotated[
        bool,
        option(
            "--distributed",
            help="Train on the processes of torchrun: 'torchrun --nproc-per-node 2 -m fairbound fit ... --distributed'.",
        ),
    ] = False

    @property
    def run(self) -> str:
        """What trains."""
        if self.estimator is not None:
            return "training.reduce:fit_reduction"
        return "training.fit:run_fit" if self.qid is None else "training.rank:fit_ranking"

    @property
    def folder(self) -> Path | None:
        """None in all but the first of several processes, which writes for them."""
        return self.out if not self.distributed or os.environ.get("RANK", "0") == "0" else None

    def refuse(self, what: str, option: str, *names: str) -> None:
        """Raises: OptionError for one of these options that differs from its default, which `what`,
        asked for by `option`, has not."""
        odd = [name for name in names if getattr(self, name) != getattr(type(self), name)]
        if odd:
            raise OptionError(f"--{odd[0].replace('_', '-')} is not for {what}; leave it out, or leave {option} out.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.certify and not self.constraint:
            raise OptionError("--certify needs a bound: state one with --constraint.")
        if self.folds is not None and self.estimator is None:
            raise OptionError(
                "--folds is for a classifier of another library; name one with --estimator, or leave it out."
            )
        if self.distributed:
            self.refuse("several processes", "--distributed", *NOT_DISTRIBUTED)


@dataclass(frozen=True, kw_only=True)
class FrontierOptions(WritesFolder, TrainOptions):
    """Show what each of several bounds costs in accuracy."""

    run: ClassVar[str] = "training.frontier:run_frontier"
    out: Out
    constraint: Annotated[str, option("--constraint", help="A notion without its bound: demographic_parity.")]
    bounds: Annotated[str, option("--bounds", help="Bounds to train under, separated by commas.")] = (
        "0.01,0.02,0.05,0.1"
    )
    seeds: Annotated[int, option("--seeds", help="Models per bound, with seeds SEED, SEED+1, ...", min=1)] = 3
    test_size: TestSize = None
    split_by: SplitBy = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share(self.test_size)
        if any(sign in self.constraint for sign in "<>≤≥"):
            raise OptionError(f"--constraint is a notion without its bound, got {self.constraint!r}; use --bounds.")


@dataclass(frozen=True, kw_only=True)
class FeasibilityOptions(WritesFolder, TrainOptions):
    """Say what a bound costs, before a long run.

    Also the smallest value reached, whether these rows could confirm the bound, and what more rows of each group would
    buy.
    """

    run: ClassVar[str] = "training.feasibility:run_feasibility"
    constraint: OneConstraint
    out: DataIfAny = None


@dataclass(frozen=True, kw_only=True)
class RegressOptions(WritesFolder, HeldOutOptions, ModelOptions, FileOptions):
    """Predict a number under fairness bounds; judge on new rows."""

    run: ClassVar[str] = "training.regress:run_regress"
    baseline: ClassVar[bool] = True
    label: Annotated[str, option("--label", help="Column of numbers to predict.")]
    out: Out
    constraint: Annotated[
        list[str],
        option(
            "--constraint", help="'residual_gap <= 0.1', 'group_squared_error <= 0.5' or 'prediction_parity <= 0.05'."
        ),
    ] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class StreamOptions(WritesFolder, RowOptions):
    """Learn a ranking score under a bound, in one pass over a file.

    It is the linear score of largest area under the ROC curve under one bound on areas, judged on held-out rows
    (docs/auc.md).
    """

    run: ClassVar[str] = "training.areas:run_stream"
    out: Out
    constraint: Constraints = field(default_factory=list)
    solver: Annotated[
        str,
        option("--solver", help="exact: from means and covariances; rows: one step of mirror descent for each row."),
    ] = "exact"
    kappa: Annotated[
        float | None,
        option(
            "--kappa", help="Bound on the smooth stand-in of the areas. Default: chosen by the true areas of a sample."
        ),
    ] = None
    sample: Annotated[int, option("--sample", help="Rows of the sample that chooses --kappa.", min=1)] = 10_000
    seed: Seed = 0
    test_size: TestSize = None
    confidence: Confidence = 0.95

    def __post_init__(self) -> None:
        check_share(self.test_size)
        if self.solver == "rows" and self.kappa is None:
            raise OptionError("--solver rows needs --kappa, the bound on the surrogate: try 0.2.")
