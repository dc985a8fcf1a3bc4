"""The codes of new rows for the loss of a `Dual`, and the warning where none of them is in a group."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from fairbound.base.callers import users_line
from fairbound.base.errors import DataError, DataWarning
from fairbound.base.names import shortlist
from fairbound.fairness.compiled.plan import Plan
from fairbound.rows.groups import MISSING, Groups, columns_of, has_names, is_number
from fairbound.rows.occurring import Occurring
from fairbound.rows.reading import column_values, factorised, is_missing

EXPECTED = 20  # rows of a cell, of which none comes by chance once in e^20 times


def encoded(known: Groups, sensitive_features: Any, numbered: bool) -> np.ndarray:
    """(n, A) codes of new rows, MISSING where a group is missing or not known.

    As many columns as there are attributes, without names, stand in their order. numbered: whether names were given for
    codes; whole numbers are then codes already, unless a name of the attribute is a number too.
    Raises: DataError where no row has a known group of some attribute though they have values, or a code has no name.
    Warns: DataWarning where some rows have a group that is not known.
    """
    columns = sensitive_features
    if not isinstance(columns, Groups):
        found = columns_of(columns)
        if len(found) == len(known.attributes) and (len(found) == 1 or not has_names(columns)):
            columns = dict(zip(known.attributes, found.values(), strict=True))
        if numbered:
            columns = {name: _labelled(name, v, known.names.get(name, ())) for name, v in columns_of(columns).items()}
    made, unseen = known.encode(columns)
    for attribute, labels, codes in made.by_attribute:
        if unseen[attribute] and (codes == MISSING).all():
            raise DataError(
                f"no row has a group of {attribute!r} that is known here: {shortlist(labels)}. "
                "Spell them so, or pass -1 to loss(...) for rows that shall be in no group."
            )
        if unseen[attribute]:
            warnings.warn(
                f"some rows have a group of {attribute!r} that is not known here, and are in no group: {shortlist(labels)} are known.",
                DataWarning,
                stacklevel=users_line(),
            )
    return made.codes


def _labelled(attribute: str, column: Any, labels: tuple[str, ...]) -> Any:
    """The column, with labels in place of codes where it holds codes of them."""
    if any(map(is_number, labels)):
        return column
    codes, values = factorised(column_values("the labels", column))
    whole = [None if is_missing(v) else _whole(v) for v in values]
    if any(v is None and not is_missing(value) for v, value in zip(whole, values, strict=True)):
        return column
    beyond = [v for v in whole if v is not None and not MISSING <= v < len(labels)]
    if beyond:
        raise DataError(f"{attribute!r} has the code {beyond[0]}, and names for 0 to {len(labels) - 1}: {labels}.")
    texts = [None if v is None or v == MISSING else labels[v] for v in whole]
    return np.array([*texts, None], dtype=object)[codes]


def _whole(value: Any) -> int | None:
    """A whole number, None for other values."""
    number = isinstance(value, int | np.integer | np.bool_) or (isinstance(value, float) and value.is_integer())
    return int(value) if number else None


def warn_of_rows_to_come(plan: Plan, means: Mapping[str, Any], steps: int, trained: Occurring) -> None:
    """Warns: DataWarning where some cells have no row yet, of which 20 or more were to be expected; as
    `warn_of_no_rows`. trained: how often the training rows have each cell, once each of a stream."""
    expected = plan.counts(trained.codes, trained.targets, trained.counts) * means["total_rows"] / trained.rows
    absent = [int(c) for c in plan.used_cells() if not means["rows"][c] and expected[c] >= EXPECTED]
    if absent and means["rows"].any():
        warnings.warn(
            f"no row of {shortlist([plan.cell_names[c] for c in absent])} has come in the first {steps} steps: bounds on them are "
            "not active yet. Where rows of them should have come, look at the codes.",
            DataWarning,
            stacklevel=users_line(),
        )


def warn_of_no_rows(plan: Plan, means: Mapping[str, Any], steps: int) -> None:
    """Warns: DataWarning where rows came in the first `steps` steps and no cell had one. means: the state of the running
    means after them."""
    if means["total_rows"] and not means["rows"].any():
        warnings.warn(
            f"no row of a group or class that the bounds speak of has come in the first {steps} steps: no bound is "
            f"active. Pass the codes that dual.encode(...) gives ({shortlist(plan.cell_names)}); -1 is in no group.",
            DataWarning,
            stacklevel=users_line(),
        )
