"""`fairbound audit` of predicted numbers: those in a column of a file, or those of a saved regressor on its rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fairbound.audits.audit import audit
from fairbound.cli.audit_facts import judged_so, whole_file_facts
from fairbound.cli.columns import (
    groups_in,
    in_label,
    labelled_table,
    listed,
    numbers_in,
    numbers_to_predict,
    one_column,
    said_of_weights,
)
from fairbound.cli.judging_options import AuditOptions
from fairbound.cli.outcome import Outcome, written_audit
from fairbound.cli.row_warnings import said_of_rows
from fairbound.cli.unfamiliar import Unfamiliar
from fairbound.estimators.regressor import FairRegressor
from fairbound.estimators.saving.folder import Folder


def audit_numbers(options: AuditOptions, bounds: list[Any], folder: Folder | None) -> Outcome:
    """The audit of a file's column of predicted numbers, or of the regressor saved in `folder` on its rows."""
    frame, label, notes, _ = labelled_table(options)
    attributes = listed(options.group, frame.columns, "--group", needed=True)
    with in_label(options.data, label, frame.index.to_numpy()):
        truth, _ = numbers_to_predict(frame[label])
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
