"""`fairbound regress`: predict a number under stated bounds, judge the result on held-out rows, write the model and the
report."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from fairbound.base.errors import DataError, DataWarning, OptionError, silenced
from fairbound.cli.bounds import bounds_of_texts
from fairbound.cli.files.columns import numbers_to_predict
from fairbound.cli.files.outcome import Outcome
from fairbound.cli.options.training import RegressOptions
from fairbound.cli.training.common import held_out, judged, parameters, reported, trained
from fairbound.cli.training.rows import InputRows, rows_of_file
from fairbound.estimators.certificates.certifying import check_certifiable
from fairbound.estimators.regressor import FairRegressor, regression_bounds


def run_regress(options: RegressOptions) -> Outcome:
    """Train on a part of the file, judge the rest beside a model without bounds,
    and write both reports and the model."""
    bounds = bounds_of_texts(options.constraint, options.cross)
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


def _to_learn(column: Any) -> tuple[np.ndarray, tuple[()]]:
    """`numbers_to_predict`, which says of texts what learns them."""
    try:
        return numbers_to_predict(column)
    except DataError as error:
        if column.dtype.kind in "iuf":
            raise
        raise DataError(f"{error} To predict classes such as these, take `fairbound fit`.") from None
