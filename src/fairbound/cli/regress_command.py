"""`fairbound regress` as the command line declares it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

from fairbound.cli.options import (
    BudgetText,
    Certify,
    Confidence,
    Cross,
    Debug,
    Drop,
    Group,
    Json,
    KeepSensitive,
    Model,
    OnInsufficient,
    Out,
    Seed,
    TestSize,
    option,
)

if TYPE_CHECKING:
    from fairbound.cli.outcome import Outcome


def add_regress(app: Any, finish: Callable[[bool, Callable[[], Outcome]], int]) -> None:
    """Add the command to the application. finish: prints an outcome and returns its exit code."""

    def regress_command(
        data: Annotated[str, option("--data", help="A CSV or Parquet file.")],
        label: Annotated[str, option("--label", help="Column of numbers to predict.")],
        out: Out,
        group: Group = None,
        constraint: Annotated[
            list[str] | None,
            option(
                "--constraint",
                help="'residual_gap <= 0.1', 'group_squared_error <= 0.5' or 'prediction_parity <= 0.05'.",
            ),
        ] = None,
        model: Model = "linear",
        seed: Seed = 0,
        budget: BudgetText = None,
        test_size: TestSize = None,
        drop: Drop = None,
        keep_sensitive: KeepSensitive = False,
        cross: Cross = False,
        certify: Certify = False,
        on_insufficient: OnInsufficient = "warn",
        confidence: Confidence = 0.95,
        as_json: Json = False,
        debug: Debug = False,
    ) -> int:
        """Predict a number under bounds between groups, and judge the model on rows it has not seen."""
        from fairbound.cli.regress import RegressOptions, regress

        options = RegressOptions(
            data=data, label=label, group=group, constraint=constraint or [], out=out, model=model, seed=seed, budget=budget,
            test_size=test_size, drop=drop, keep_sensitive=keep_sensitive, cross=cross, certify=certify, on_insufficient=on_insufficient, confidence=confidence,
        )  # fmt: skip
        return finish(as_json, lambda: regress(options))

    app.command("regress")(regress_command)
