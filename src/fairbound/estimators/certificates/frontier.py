"""Models of the same rows under one bound after another, each begun where the one before ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sklearn.base import clone, is_regressor
from sklearn.exceptions import ConvergenceWarning
from torch import nn

from fairbound.base.errors import DataWarning, silenced
from fairbound.estimators.choosing import without_bounds
from fairbound.estimators.judged_rows import JudgedRows
from fairbound.estimators.training_rows import at_once, without
from fairbound.fairness.bound import Bound
from fairbound.methods import FullBatchALM
from fairbound.tables import Encoded


def frontier(estimator: Any, rows: JudgedRows, stages: Sequence[Sequence[Bound]], before: Any = None) -> Iterator[Any]:
    """A copy of `estimator` fitted on `rows` under each of the `stages`, bounds from loose to tight, each begun where
    the one before it ended.

    before: an estimator of the same rows to begin at, or None. Every copy reads the table as the first one did, and
    warns of nothing: its report says whether it met its bounds.
    """
    table = rows.X if before is None else _as_read(before, rows.X)
    for bounds in stages:
        algorithm = estimator.algorithm if bounds else without_bounds(estimator.algorithm)
        made = clone(estimator).set_params(certify=False, constraint=list(bounds) or None, algorithm=algorithm)
        if not bounds and hasattr(made, "use_groups_at_prediction"):
            made.set_params(use_groups_at_prediction=False)
        if before is not None and before.constraint and estimator.algorithm == "auto" and not _to_try_more(before):
            made.set_params(algorithm=_without_batches(before))
        with silenced(ConvergenceWarning, DataWarning):  # the report of each model says it
            rows.train(made, table, None if before is None else before.x_)
        if before is None:
            table = _as_read(made, rows.X)
        else:
            made.dropped_columns_, made.encoder_report_ = before.dropped_columns_, before.encoder_report_
        before = made
        yield made
        if made.solution_.interrupted:
            return


def _to_try_more(before: Any) -> bool:
    """Whether "auto" is to go on after a fit under bounds: where it did not end with all rows at once; and a linear
    regressor, which ends at the exact optimum then, as long as bounds are met, and random batches are not tried."""
    if is_regressor(before) and at_once(before.model, before.algorithm):
        return bool(before.fit_report_["feasible"])
    return bool(before.fit_report_["algorithm"] != FullBatchALM.name)


def _without_batches(before: Any) -> FullBatchALM:
    """The method of all rows that "auto" took for `before`: random batches were tried under its bounds, if at all."""
    method, rates = before.solution_.method, FullBatchALM(**FullBatchALM.presets["rates"])
    same = isinstance(method, FullBatchALM) and (method.sharpness, method.dual_values) == (
        rates.sharpness,
        rates.dual_values,
    )
    return rates if same else FullBatchALM()


def _as_read(fitted: Any, table: Any) -> Any:
    """The table as the fitted estimator reads it, once for all that follow."""
    if isinstance(fitted.model, nn.Module) or isinstance(table, Encoded):
        return table
    table = without(table, fitted.dropped_columns_)
    return Encoded.of(fitted.encoder_, table, by_column=at_once(fitted.model, fitted.algorithm))
