"""`fairbound regress`: predict a number under stated bounds, judge the result on held-out rows, write the model and the report.
And the audit of a column of predicted numbers."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from fairbound.audits.audit import audit
from fairbound.base.errors import CertificateWarning, DataError, OptionError
from fairbound.base.files import check_writable
from fairbound.base.seeds import seed_for
from fairbound.cli.audited import data_facts, take_own, training_facts
from fairbound.cli.columns import (
    file_checksum,
    groups_in,
    in_file,
    in_label,
    labelled_table,
    listed,
    numbers_of,
    one_column,
    weights_of,
)
from fairbound.cli.options import RegressOptions
from fairbound.cli.outcome import Outcome, say, shows_progress, written_audit
from fairbound.cli.rows import TEST_SHARE, table_options
from fairbound.cli.stated import stated_bounds
from fairbound.cli.using import AuditOptions
from fairbound.estimators.certifying import check_certifiable
from fairbound.estimators.folder import Folder
from fairbound.estimators.regressor import FairRegressor, regression_bounds
from fairbound.rows.groups import Groups
from fairbound.rows.split import stratified_split


def regress(options: RegressOptions) -> Outcome:
    """Train on a part of the file, judge the rest beside a model without bounds, and write both reports and the model."""
    bounds = stated_bounds(options.constraint, options.cross)
    if not bounds:
        raise OptionError("state a bound with --constraint, as in 'residual_gap <= 0.1'.")
    regression_bounds(bounds)
    if options.certify:
        check_certifiable(bounds)
    check_writable(options.out)
    frame, label, attributes, notes = _read(options)
    columns = list(frame.columns)
    weight = weights_of(frame, options.weights, options.data)
    away = {
        label,
        options.weights,
        *listed(options.drop, columns, "--drop"),
        *(() if options.keep_sensitive else attributes),
    }
    features = [c for c in columns if c not in away]
    if not features:
        raise OptionError(
            f"{options.data}: no column is left to learn from after the label, groups and dropped columns."
        )
    y, groups = _numbers_to_predict(frame, label, options.data), Groups.of(frame[attributes])
    X = frame[features]
    trained = (_certified if options.certify else _trained)(options, bounds, X, y, groups, weight)
    model, held, facts = trained.model, trained.held, trained.model.fit_report_
    with in_file(options.data, X.index.to_numpy()[held]):
        predicted, free = (one.predict(X.iloc[held]) for one in (model, trained.free))
    found = audit(
        predicted,
        y[held],
        groups.take(held),
        list(model.constraints_),
        confidence=options.confidence,
        sample_weight=None if weight is None else weight[held],
        compare={"unconstrained": free},
        **_file_facts(options.data, label, f"{trained.words}, seed {options.seed}", len(y) - len(held)),
        model={"kind": options.model, "description": f"{options.model} model of a number", **training_facts(model)},
        warnings=[*([] if facts["feasible"] else [facts["message"]]), *facts["warnings"]],
        notes=[*notes, *facts["notes"]],
    )
    take_own(found, facts)
    model.save(options.out / "model")
    return written_audit(found, options.out, facts["seconds"], options.seed, model=options.out / "model")


class Trained(NamedTuple):
    """The model, the same without bounds, the numbers of the rows held out, and how they were chosen."""

    model: FairRegressor
    free: FairRegressor
    held: np.ndarray
    words: str


def _trained(
    options: RegressOptions, bounds: list[Any], X: Any, y: np.ndarray, groups: Groups, weight: np.ndarray | None
) -> Trained:
    share = TEST_SHARE if options.test_size is None else options.test_size
    train, held = stratified_split(groups.codes, [share], seed_for("held-out", root=options.seed))
    if not len(held):
        raise OptionError(f"{len(y)} rows are too few to hold out {share:g} of them for the verdict.")
    under = " and ".join(b.text for b in bounds)
    say(f"{Path(options.data).name}: training on {len(train):,} rows under {under}; {len(held):,} rows are held out.")
    with in_file(options.data, X.index.to_numpy()[train]):
        part = X.iloc[train], y[train], groups.take(train), None if weight is None else weight[train]
        model, free = (_fitted(options, stated, *part) for stated in (bounds, []))
    return Trained(model, free, held, f"{100 * share:g} % held out, stratified by group")


def _certified(
    options: RegressOptions, bounds: list[Any], X: Any, y: np.ndarray, groups: Groups, weight: np.ndarray | None
) -> Trained:
    under = " and ".join(b.text for b in bounds)
    say(
        f"{Path(options.data).name}: training on a part of {len(y):,} rows until another part confirms {under}, or cannot."
    )
    with in_file(options.data, X.index.to_numpy()):
        model = _fitted(options, bounds, X, y, groups, weight, certify=options.confidence)
    held = model.certify_rows_
    return Trained(model, model.unconstrained_, held, f"{len(held) / len(y):.0%} of the rows, kept apart to certify")


def _fitted(
    options: RegressOptions,
    bounds: list[Any],
    X: Any,
    y: np.ndarray,
    groups: Groups,
    weight: np.ndarray | None,
    certify: float = 0.0,
) -> FairRegressor:
    made = FairRegressor(
        bounds or None,
        model=options.model,
        options=table_options(options.knots),
        budget=options.budget,
        certify=certify,
        on_insufficient=options.on_insufficient,  # type: ignore[arg-type]
        random_state=options.seed,
        progress=shows_progress(),
    )
    with warnings.catch_warnings():
        for said_by_the_report in (ConvergenceWarning, CertificateWarning):
            warnings.simplefilter("ignore", said_by_the_report)
        return made.fit(X, y, groups, weight)


def audit_numbers(options: AuditOptions, bounds: list[Any], folder: Folder | None) -> Outcome:
    """The audit of a file's column of predicted numbers, or of the regressor saved in `folder` on its rows."""
    check_writable(options.out)
    frame, label, attributes, notes = _read(options)
    columns = list(frame.columns)
    if folder is not None:
        model = FairRegressor.load(folder)
        bounds = bounds or list(model.constraints_)
        predicted, said = model.predict(frame), f"saved in {Path(folder.path).name}"
    else:
        column = one_column(options.score, columns, "--score")
        predicted, said = numbers_of(frame[column], column), f"column {column}"
    found = audit(
        predicted,
        _numbers_to_predict(frame, label, options.data),
        groups_in(frame, attributes),
        bounds,
        confidence=options.confidence,
        sample_weight=weights_of(frame, options.weights, options.data),
        **_file_facts(options.data, label, "all rows of the file, taken as held out"),
        model={"kind": "numbers", "description": said},
        notes=notes,
    )
    return written_audit(found, options.out)


def _read(options: RegressOptions | AuditOptions) -> tuple[Any, str, list[str], list[str]]:
    """The file, its column of labels, the columns of its groups, and notes."""
    frame, label, notes = labelled_table(options)
    attributes = listed(options.group, list(frame.columns), "--group")
    if not attributes:
        one_column(None, list(frame.columns), "--group")
    return frame, label, attributes, notes


def _numbers_to_predict(frame: Any, label: str, source: str) -> np.ndarray:
    with in_label(source, label, frame.index.to_numpy()):
        y = numbers_of(frame[label], label)
        if not np.isfinite(y).all():
            raise DataError(f"row {np.isinf(y).argmax()} (counting from 0) holds an infinite number. Correct it.")
    return y


def _file_facts(path: str, label: str, split: str, train_rows: int | None = None) -> dict[str, Any]:
    return data_facts(Path(path).name, label, split, file_checksum(path), train_rows)
