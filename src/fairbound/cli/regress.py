"""`fairbound regress`: predict a number under stated bounds, judge the result on held-out rows, write the model and the report.
And the audit of a column of predicted numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from fairbound.audits.audit import audit
from fairbound.base.errors import CertificateWarning, DataError, OptionError, silenced
from fairbound.base.files import check_writable
from fairbound.base.locks import locked
from fairbound.base.seeds import seed_for
from fairbound.cli.audited import add_own_model, data_facts, whole_file_facts
from fairbound.cli.columns import groups_in, in_label, labelled_table, listed, numbers_of, one_column, weights_of
from fairbound.cli.fitted import interrupted, of_training, training_facts, written_fit
from fairbound.cli.options import RegressOptions
from fairbound.cli.outcome import Outcome, say, shows_progress, written_audit
from fairbound.cli.rows import TEST_SHARE, InputRows, Split, rows_of_file, table_options
from fairbound.cli.stated import stated_bounds
from fairbound.cli.using import AuditOptions
from fairbound.estimators.certifying import check_certifiable
from fairbound.estimators.folder import Folder
from fairbound.estimators.regressor import FairRegressor, regression_bounds
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
    rows = rows_of_file(options, True, _numbers_to_predict)
    trained = (_certified if options.certify else _trained)(options, bounds, rows)
    model, held, facts = trained.model, trained.split.test, trained.model.fit_report_
    with rows.in_lines_of(held):
        predicted, free = (one.predict(rows.X.iloc[held]) for one in (model, trained.free))
    found = audit(
        predicted,
        rows.target[held],
        rows.groups.take(held),
        list(model.constraints_),
        confidence=options.confidence,
        sample_weight=rows.weight_of(held),
        compare={"unconstrained": free},
        **data_facts(rows.name, rows.label, trained.split.words, rows.checksum, len(trained.split.train)),
        model={"kind": options.model, "description": f"{options.model} model of a number", **training_facts(model)},
        warnings=[*([] if facts["feasible"] else [facts["message"]]), *facts["warnings"]],
        notes=[*rows.notes, *facts["notes"]],
    )
    add_own_model(found, facts)
    with locked(options.out):
        return written_fit(found, options.out, model, rows.checksum, stopped=interrupted(model))


class Trained(NamedTuple):
    """The model, the same without bounds, and which rows took part."""

    model: FairRegressor
    free: FairRegressor
    split: Split


def _trained(options: RegressOptions, bounds: list[Any], rows: InputRows) -> Trained:
    share = TEST_SHARE if options.test_size is None else options.test_size
    train, held = stratified_split(rows.groups.codes, [share], seed_for("held-out", root=options.seed))
    if not len(held):
        raise OptionError(f"{len(rows)} rows are too few to hold out {share:g} of them for the verdict.")
    under = " and ".join(b.text for b in bounds)
    say(f"{rows.name}: training on {len(train):,} rows under {under}; {len(held):,} rows are held out.")
    model, free = (_fitted(options, stated, rows, train) for stated in (bounds, []))
    words = f"{100 * share:g} % held out, stratified by group, seed {options.seed}"
    return Trained(model, free, Split(train, held, words))


def _certified(options: RegressOptions, bounds: list[Any], rows: InputRows) -> Trained:
    under = " and ".join(b.text for b in bounds)
    say(f"{rows.name}: training on a part of {len(rows):,} rows until another part confirms {under}, or cannot.")
    every = np.arange(len(rows))
    model = _fitted(options, bounds, rows, every, certify=options.confidence)
    held = model.certify_rows_
    words = f"{len(held) / len(rows):.0%} of the rows, kept apart to certify, seed {options.seed}"
    return Trained(model, model.unconstrained_, Split(np.setdiff1d(every, held), held, words))


def _fitted(
    options: RegressOptions, bounds: list[Any], rows: InputRows, part: np.ndarray, certify: float = 0.0
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
    with silenced(ConvergenceWarning, CertificateWarning), rows.in_lines_of(part):  # the report says it
        return made.fit(rows.X.iloc[part], rows.target[part], rows.groups.take(part), rows.weight_of(part))


def audit_numbers(options: AuditOptions, bounds: list[Any], folder: Folder | None) -> Outcome:
    """The audit of a file's column of predicted numbers, or of the regressor saved in `folder` on its rows."""
    check_writable(options.out)
    frame, label, notes = labelled_table(options)
    columns = list(frame.columns)
    attributes = listed(options.group, columns, "--group", needed=True)
    with in_label(options.data, label, frame.index.to_numpy()):
        truth, _ = _numbers_to_predict(frame[label])
    if folder is not None:
        model = FairRegressor.load(folder)
        bounds = bounds or list(model.constraints_)
        predicted, said = model.predict(frame), f"saved in {Path(folder.path).name}"
    else:
        column = one_column(options.score, columns, "--score")
        predicted, said = numbers_of(frame[column], column), f"column {column}"
    found = audit(
        predicted,
        truth,
        groups_in(frame, attributes),
        bounds,
        confidence=options.confidence,
        sample_weight=weights_of(frame, options.weights, options.data),
        **whole_file_facts(options.data, label),
        model={"kind": "numbers", "description": said},
        warnings=of_training(folder, options.data),
        notes=notes,
    )
    return written_audit(found, options.out)


def _numbers_to_predict(column: Any) -> tuple[np.ndarray, tuple[()]]:
    """(n,) the finite numbers of a column of labels, and no classes."""
    y = numbers_of(column, str(column.name))
    if not np.isfinite(y).all():
        raise DataError(f"row {np.isinf(y).argmax()} (counting from 0) holds an infinite number. Correct it.")
    return y, ()
