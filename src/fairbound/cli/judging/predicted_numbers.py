"""`fairbound audit` of predicted numbers: those in a column of a file, or those of a saved regressor on its rows."""

from __future__ import annotations

from typing import Any

from fairbound.audits.audit import audit
from fairbound.cli.files.columns import (
    groups_in,
    in_file,
    in_label,
    labelled_table,
    named_columns,
    numbers_in,
    numbers_to_predict,
    one_column,
    weight_notes,
)
from fairbound.cli.files.outcome import Outcome, written_audit
from fairbound.cli.files.row_warnings import repeated_row_warnings
from fairbound.cli.judging.audit_facts import judged_so, whole_file_facts
from fairbound.cli.judging.judged_model import model_facts
from fairbound.cli.judging.unfamiliar import predicted
from fairbound.cli.options.judging import AuditOptions
from fairbound.estimators.regressor import FairRegressor
from fairbound.estimators.saving.folder import Folder


def audit_numbers(options: AuditOptions, bounds: list[Any], folder: Folder | None) -> Outcome:
    """The audit of a file's column of predicted numbers, or of the regressor saved in `folder` on its rows."""
    frame, label, notes, _ = labelled_table(options)
    attributes = named_columns(options.group, frame.columns, "--group", needed=True)
    with in_label(options.data, label, frame.index.to_numpy()):
        truth, _ = numbers_to_predict(frame[label])
    warnings = list(repeated_row_warnings(frame, label, options.clusters))
    model = None if folder is None else FairRegressor.load(folder)
    if model is None:
        column = one_column(options.score, frame.columns, "--score")
        numbers = numbers_in(frame, column, options.data)
    else:
        bounds = bounds or list(model.constraints_)
        with in_file(options.data, frame.index.to_numpy()):
            numbers, said = predicted(model, frame)
        warnings += said
    found = audit(
        numbers,
        truth,
        groups_in(frame, attributes),
        bounds,
        **judged_so(options, frame),
        **whole_file_facts(options, label, folder, warnings=warnings),
        model=model_facts(model, options, folder, "numbers"),
        notes=[*notes, *weight_notes(options.weights)],
    )
    return written_audit(found, options.out)
