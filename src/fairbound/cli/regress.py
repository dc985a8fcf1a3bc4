"""`fairbound regress`: predict a number under stated bounds, judge the result on held-out rows, write the model and the report.
And the audit of a column of predicted numbers."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from fairbound.audits.audit import audit
from fairbound.audits.classes import compared_model
from fairbound.base.errors import DataError, OptionError
from fairbound.base.files import check_writable
from fairbound.base.seeds import seed_for
from fairbound.cli.outcome import Outcome, say, shows_progress, stated_bounds, verdict_summary, verdict_text
from fairbound.cli.rows import TEST_SHARE, file_checksum, in_file, listed, one_column
from fairbound.estimators.regressor import FairRegressor
from fairbound.report import write_audit
from fairbound.rows.groups import Groups
from fairbound.rows.split import stratified_split
from fairbound.solver.budget import Budget
from fairbound.tables import read_table


@dataclass(frozen=True, kw_only=True)
class RegressOptions:
    """The options of `fairbound regress`; see `fairbound regress --help`."""

    data: str
    label: str
    group: str | None
    constraint: list[str]
    out: Path
    model: str = "linear"
    seed: int = 0
    budget: str | None = None
    test_size: float | None = None
    drop: str | None = None
    keep_sensitive: bool = False
    cross: bool = False
    confidence: float = 0.95

    def __post_init__(self) -> None:
        if self.budget is not None:
            Budget.of(self.budget)
        if self.test_size is not None and not 0 < self.test_size < 1:
            raise OptionError(f"--test-size must be a share of the rows between 0 and 1, got {self.test_size}.")


def regress(options: RegressOptions) -> Outcome:
    """Train on a part of the file, judge the rest beside a model without bounds, and write both reports and the model."""
    bounds = stated_bounds(options.constraint, options.cross)
    check_writable(options.out)
    frame = read_table(options.data)
    columns = list(frame.columns)
    label, attributes = one_column(options.label, columns, "--label"), listed(options.group, columns, "--group")
    if not attributes:
        one_column(None, columns, "--group")
    if not bounds:
        raise OptionError("state a bound with --constraint, as in 'residual_gap <= 0.1'.")
    away = {label, *listed(options.drop, columns, "--drop"), *(() if options.keep_sensitive else attributes)}
    features = [c for c in columns if c not in away]
    if not features:
        raise OptionError(
            f"{options.data}: no column is left to learn from after the label, groups and dropped columns."
        )
    y, groups = numbers_of(frame, label), Groups.of({a: frame[a] for a in attributes})
    share = TEST_SHARE if options.test_size is None else options.test_size
    train, held = stratified_split(groups.codes, [share], seed_for("held-out", root=options.seed))
    if not len(held):
        raise OptionError(f"{len(y)} rows are too few to hold out {share:g} of them for the verdict.")
    under = " and ".join(b.text for b in bounds)
    say(f"{Path(options.data).name}: training on {len(train):,} rows under {under}; {len(held):,} rows are held out.")
    X = frame[features]

    def fitted(stated: Any) -> FairRegressor:
        made = FairRegressor(
            stated or None, model=options.model, budget=options.budget, random_state=options.seed,
            progress=shows_progress(),
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the report says it
            with in_file(options.data, train):
                return made.fit(X.iloc[train], y[train], groups.take(train))

    model = fitted(bounds)
    with in_file(options.data, held):
        predicted = model.predict(X.iloc[held])
    compare = {"unconstrained": fitted(None).predict(X.iloc[held])}
    facts = model.fit_report_
    found = audit(
        predicted,
        y[held],
        groups.take(held),
        list(model.constraints_),
        confidence=options.confidence,
        compare=compare,
        **_file_facts(
            options.data, label, f"{100 * share:g} % held out, stratified by group, seed {options.seed}", len(train)
        ),
        model={
            "kind": options.model,
            "description": f"{options.model} model of a number",
            **{key: facts[key] for key in ("algorithm", "seed", "budget", "seconds", "steps")},
        },
        warnings=[*([] if facts["feasible"] else [facts["message"]]), *facts["warnings"]],
        notes=facts["notes"],
    )
    own = compared_model("constrained", None, None, found["constraints"]) | {"metrics": found["metrics"]}
    found["comparison"].insert(0, own)
    model.save(options.out / "model")
    return _written(found, options.out, facts["seconds"], options.seed, options.out / "model")


def numbers_of(frame: Any, column: str) -> np.ndarray:
    """(n,) a column as numbers. Raises: DataError for values that are none."""
    try:
        return np.asarray(frame[column], dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"the column {column!r} holds values that are no numbers ({error}).") from None


def audit_numbers(options: Any, bounds: list[Any]) -> Outcome:
    """The audit of a file's column of predicted numbers, or of a saved regressor on its rows. options: of `fairbound audit`."""
    check_writable(options.out)
    frame = read_table(options.data)
    columns = list(frame.columns)
    label, attributes = one_column(options.label, columns, "--label"), listed(options.group, columns, "--group")
    if not attributes:
        one_column(None, columns, "--group")
    if options.model is not None:
        model = FairRegressor.load(options.model)
        bounds = bounds or list(model.constraints_)
        predicted, said = model.predict(frame), f"saved in {options.model.name}"
    else:
        predicted, said = numbers_of(frame, one_column(options.score, columns, "--score")), f"column {options.score}"
    found = audit(
        predicted,
        numbers_of(frame, label),
        Groups.of({a: frame[a] for a in attributes}),
        bounds,
        confidence=options.confidence,
        **_file_facts(options.data, label, "all rows of the file, taken as held out", None),
        model={"kind": "numbers", "description": said},
    )
    return _written(found, options.out, None, None, None)


def _file_facts(path: str, label: str, split: str, train_rows: int | None) -> dict[str, Any]:
    data = {"name": Path(path).name, "checksum": file_checksum(path), "label": label, "split": split}
    return {"title": f"{label}: {Path(path).name}", "data": {**data, "train_rows": train_rows}}


def _written(found: dict[str, Any], out: Path, seconds: float | None, seed: int | None, model: Path | None) -> Outcome:
    write_audit(found, out)
    lines = [f"report          {out / 'report.html'}", f"report as data  {out / 'audit.json'}"]
    lines += [] if model is None else [f"model           {model}"]
    summary = verdict_summary(found, seconds=seconds, seed=seed, out=out)
    return Outcome(summary, verdict_text(found) + "\n\n" + "\n".join(lines), found["exit_code"])
