"""`fairbound regress`: predict a number under stated bounds, judge the result on held-out rows, write the model and the
report. And the audit of a column of predicted numbers."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from fairbound.audits.audit import audit
from fairbound.base.errors import DataError, DataWarning, OptionError, silenced
from fairbound.cli.audit_facts import judged_so, whole_file_facts
from fairbound.cli.bounds import stated_bounds
from fairbound.cli.columns import (
    groups_in,
    in_label,
    labelled_table,
    listed,
    numbers_in,
    numbers_of,
    one_column,
    said_of_weights,
)
from fairbound.cli.judging_options import AuditOptions
from fairbound.cli.outcome import Outcome, written_audit
from fairbound.cli.row_warnings import said_of_rows
from fairbound.cli.rows import InputRows, rows_of_file
from fairbound.cli.training import held_out, judged, parameters, reported, trained
from fairbound.cli.training_options import RegressOptions
from fairbound.cli.unfamiliar import Unfamiliar
from fairbound.estimators.certificates.certifying import check_certifiable
from fairbound.estimators.regressor import FairRegressor, regression_bounds
from fairbound.estimators.saving.folder import Folder


def run_regress(options: RegressOptions) -> Outcome:
    """Train on a part of the file, judge the rest beside a model without bounds,
    and write both reports and the model."""
    bounds = stated_bounds(options.constraint, options.cross)
    if not bounds:
        raise OptionError("state a bound with --constraint, as in 'residual_gap <= 0.1'.")
    regression_bounds(bounds)
    if options.certify:
        check_certifiable(bounds)
    rows = rows_of_file(options, True, _to_learn)
    rows.check_bounds(bounds)
    done = trained(options, bounds, rows, held_out(options, rows), partial(_fitted, options, rows))
    facts = done.model.fit_report_
    stated = list(done.model.constraints_)
    found = judged(
        options, stated, rows, done, partial(_scored, rows, done.split.test),
        about=f"{options.model} model of a number", warnings=[*([] if facts["feasible"] else [facts["message"]]), *facts["warnings"]],
    )  # fmt: skip
    return reported(options, stated, rows, done, found, partial(_scored, rows, done.split.train))


def _fitted(options: RegressOptions, rows: InputRows, part: np.ndarray, bounds: list, certify: float) -> FairRegressor:
    made = FairRegressor(
        bounds or None,
        **parameters(options),
        certify=certify,
        on_insufficient=options.on_insufficient,  # type: ignore[arg-type]
    )
    with silenced(ConvergenceWarning, DataWarning), rows.in_lines_of(part):  # the report says it
        return made.fit(rows.X.iloc[part], rows.target[part], rows.groups.take(part), rows.weight_of(part))


def _scored(rows: InputRows, part: np.ndarray, model: FairRegressor) -> dict[str, Any]:
    with rows.in_lines_of(part):
        return rows.known_of(part) | {"scores": model.predict(rows.X.iloc[part])}


def audit_numbers(options: AuditOptions, bounds: list[Any], folder: Folder | None) -> Outcome:
    """The audit of a file's column of predicted numbers, or of the regressor saved in `folder` on its rows."""
    frame, label, notes, _ = labelled_table(options)
    attributes = listed(options.group, frame.columns, "--group", needed=True)
    with in_label(options.data, label, frame.index.to_numpy()):
        truth, _ = _numbers_to_predict(frame[label])
    warnings = list(said_of_rows(frame, label, options.clusters))
    if folder is not None:
        model = FairRegressor.load(folder)
        bounds = bounds or list(model.constraints_)
        unfamiliar = Unfamiliar(model)
        with unfamiliar.part():
            predicted = model.predict(frame)
        warnings += unfamiliar.said()
        about = {"description": f"saved in {Path(folder.path).name}", "checksum": f"sha256:{folder.checksum}"}
    else:
        column = one_column(options.score, frame.columns, "--score")
        predicted, about = numbers_in(frame, column, options.data), {"description": f"column {column}"}
    found = audit(
        predicted,
        truth,
        groups_in(frame, attributes),
        bounds,
        **judged_so(options, frame),
        **whole_file_facts(options, label, folder, warnings=warnings),
        model={"kind": "numbers", **about},
        notes=[*notes, *said_of_weights(options.weights)],
    )
    return written_audit(found, options.out)


def _to_learn(column: Any) -> tuple[np.ndarray, tuple[()]]:
    """`_numbers_to_predict`, which says of texts what learns them."""
    try:
        return _numbers_to_predict(column)
    except DataError as error:
        if column.dtype.kind in "iuf":
            raise
        raise DataError(f"{error} To predict classes such as these, take `fairbound fit`.") from None


def _numbers_to_predict(column: Any) -> tuple[np.ndarray, tuple[()]]:
    """(n,) the finite numbers of a column of labels, and no classes."""
    y = numbers_of(column, str(column.name))
    if not np.isfinite(y).all():
        raise DataError(f"row {np.isinf(y).argmax()} (counting from 0) holds an infinite number. Correct it.")
    return y, ()
