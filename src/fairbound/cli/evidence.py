"""The commands that watch and compare models that are in use: `monitor`, and their options."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from fairbound.cli.options import Confidence, Constraints, Cross, Debug, Group, Json, Positive, option


def add_commands(app: Any, finish: Callable[[bool, Callable[[], Any]], int]) -> None:
    """Add the commands to the typer application; finish: prints an outcome (as JSON or not) and returns its exit code."""

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
        confidence: Confidence = 0.95,
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

    app.command("monitor")(monitor)
