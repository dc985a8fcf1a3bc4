"""A linear model that bends in every number, tried where bounds cost much of one that bends where labels ask for it.

Bounds can forbid a line what they allow a curve: where the shares of the groups rise and fall with a number, a line
through the middle can meet a bound that no slope meets. Labels alone do not ask for such bends.

    accuracy of a constant, a; of a logistic regression without bounds, b; of the model under bounds, c
    where c - a < LEFT (b - a): fit it again with KNOTS in every number
    take that if it meets the bounds and decides more rows right, surely more than chance gives its further numbers
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from fairbound.estimators.gains import SURE
from fairbound.estimators.judged_rows import LabelledRows
from fairbound.estimators.sharded import shards_of
from fairbound.estimators.trained import MOST
from fairbound.estimators.training_rows import shaped_by_default
from fairbound.tables import Encoded, TableOptions
from fairbound.tables.encode_report import of_one_table
from fairbound.tables.shapes.bending import looked_at, regression

KNOTS = 5
"""Values at which every number bends then."""

LEFT = 0.5
"""Share of what a model without bounds decides right beyond a constant, below which bounds cost much."""

CELLS = 10_000_000
"""Features with KNOTS in each, times rows, up to which that is tried: a few seconds."""

BENT = (
    "The model bends at up to {} values in every number, as the bounds cost one that bends where the labels ask for it more than half of "
    "what it would decide right beyond a constant. options=TableOptions(knots=0) keeps it straight."
)


ROWS = 10_000
"""Rows at most whose regression tells what a model without bounds would decide right."""


def may_need_bends(estimator: Any, X: Any, rows: LabelledRows) -> bool:
    """Whether bounds cost a fitted classifier much, though no label is so common that this had to be expected, and its
    user leaves open how it bends."""
    facts, stated = estimator.fit_report_, estimator.options or TableOptions()
    automatic = stated.knots is None and estimator.algorithm == "auto" and estimator.budget is None
    free = automatic and estimator.objective in ("auto", "accuracy")
    if not free or not facts["constraints"] or "accuracy" not in facts or estimator.rule_ is not None:
        return False
    if estimator.solution_.interrupted:
        return False
    if len(rows.classes) != 2 or isinstance(X, Encoded):
        return False
    if estimator.model != "linear" or not shaped_by_default(estimator, X, rows.codes, shards_of(estimator)):
        return False
    largest = np.bincount(rows.codes, rows.weight).max() / (len(rows) if rows.weight is None else rows.weight.sum())
    seen = looked_at(len(rows), len(estimator.x_))
    large = len(rows) * (1 + KNOTS) * len(estimator.x_) > CELLS
    gain = facts["accuracy"] - largest
    if seen is None or large or largest >= MOST or gain >= LEFT * (1 - largest):  # whatever is possible without bounds
        return False
    part = seen[:: -(-len(seen) // ROWS)]
    features = np.asarray(estimator.encode(X)[0])[part].astype(np.float32, copy=False)  # training sorts its own
    _, unbounded = regression(features, rows.codes[part])
    unbound = np.mean((unbounded.scores > 0) == rows.codes[part])
    return bool(gain < LEFT * (unbound - largest))


def with_bends(estimator: Any, X: Any, rows: LabelledRows) -> Any:
    """The classifier fitted again with KNOTS in every number where it then meets its bounds and is more accurate on the
    training rows, surely more than chance gives so many more free numbers; else None."""
    stated = estimator.options or TableOptions()
    jumps = "auto" if stated.jumps is None else stated.jumps
    pairs = jumps if stated.pairs is None else stated.pairs
    bent = clone(estimator).set_params(options=replace(stated, knots=KNOTS, jumps=jumps, pairs=pairs))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bent._fit(X, rows)
    more = len(bent.x_) - len(estimator.x_)
    if more <= 0 or not bent.fit_report_["feasible"]:
        return None
    with of_one_table():
        before, after = ((fit.decision_function(X) > 0) == rows.codes for fit in (estimator, bent))
    gain = (1.0 if rows.weight is None else rows.weight) * (after.astype(float) - before)
    if gain.sum() <= (more**0.5 + SURE) * np.square(gain).sum() ** 0.5:
        return None
    bent.fit_report_["notes"] = [BENT.format(KNOTS), *bent.fit_report_["notes"]]
    return bent
