"""`fairbound regress`: predict a number under stated bounds, judge the result on held-out rows, write the model and the report.
And the audit of a column of predicted numbers."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from fairbound.audits.audit import audit
from fairbound.audits.classes import compared_model
from fairbound.base.errors import CertificateWarning, DataError, OptionError
from fairbound.base.files import check_writable
from fairbound.base.seeds import seed_for
from fairbound.cli.outcome import (
    Outcome,
    say,
    shows_progress,
    stated_bounds,
    take_certificate,
    verdict_summary,
    verdict_text,
)
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
    certify: bool = False
    on_insufficient: str = "warn"
    confidence: float = 0.95

    def __post_init__(self) -> None:
        if self.certify and self.test_size is not None:
            raise OptionError("--certify decides itself how many rows are held out; leave --test-size out.")
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
    X = frame[features]
    trained = (_certified if options.certify else _trained)(options, bounds, X, y, groups)
    model, held, facts = trained.model, trained.held, trained.model.fit_report_
    with in_file(options.data, held):
        predicted, free = (one.predict(X.iloc[held]) for one in (model, trained.free))
    found = audit(
        predicted,
        y[held],
        groups.take(held),
        list(model.constraints_),
        confidence=options.confidence,
        compare={"unconstrained": free},
        **_file_facts(options.data, label, f"{trained.words}, seed {options.seed}", len(y) - len(held)),
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
    take_certificate(found, facts)
    model.save(options.out / "model")
    return _written(found, options.out, facts["seconds"], options.seed, options.out / "model")


class Trained(NamedTuple):
    """The model, the same without bounds, the numbers of the rows held out, and how they were chosen."""

    model: FairRegressor
    free: FairRegressor
    held: np.ndarray
    words: str


def _trained(options: RegressOptions, bounds: list[Any], X: Any, y: np.ndarray, groups: Groups) -> Trained:
    share = TEST_SHARE if options.test_size is None else options.test_size
    train, held = stratified_split(groups.codes, [share], seed_for("held-out", root=options.seed))
    if not len(held):
        raise OptionError(f"{len(y)} rows are too few to hold out {share:g} of them for the verdict.")
    under = " and ".join(b.text for b in bounds)
    say(f"{Path(options.data).name}: training on {len(train):,} rows under {under}; {len(held):,} rows are held out.")
    with in_file(options.data, train):
        model, free = (_fitted(options, stated, X.iloc[train], y[train], groups.take(train)) for stated in (bounds, []))
    return Trained(model, free, held, f"{100 * share:g} % held out, stratified by group")


def _certified(options: RegressOptions, bounds: list[Any], X: Any, y: np.ndarray, groups: Groups) -> Trained:
    under = " and ".join(b.text for b in bounds)
    say(
        f"{Path(options.data).name}: training on a part of {len(y):,} rows until another part confirms {under}, or cannot."
    )
    with in_file(options.data):
        model = _fitted(options, bounds, X, y, groups, certify=options.confidence)
    held = model.certify_rows_
    return Trained(model, model.unconstrained_, held, f"{len(held) / len(y):.0%} of the rows, kept apart to certify")


def _fitted(
    options: RegressOptions, bounds: list[Any], X: Any, y: np.ndarray, groups: Groups, certify: float = 0.0
) -> FairRegressor:
    made = FairRegressor(
        bounds or None,
        model=options.model,
        budget=options.budget,
        certify=certify,
        on_insufficient=options.on_insufficient,  # type: ignore[arg-type]
        random_state=options.seed,
        progress=shows_progress(),
    )
    with warnings.catch_warnings():
        for said_by_the_report in (ConvergenceWarning, CertificateWarning):
            warnings.simplefilter("ignore", said_by_the_report)
        return made.fit(X, y, groups)


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
