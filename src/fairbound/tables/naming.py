"""Columns of a table by their names, and groups that are such columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairbound.base.errors import DataError
from fairbound.base.names import lacking, plain_repr
from fairbound.rows.reading import frame_of, warn_of_order
from fairbound.tables.encoded import Encoded
from fairbound.tables.reading.chunks import Chunks


def column_names(X: Any) -> list[str] | None:
    """The column names of a frame, or of the table that was encoded; None for a table without names."""
    if isinstance(X, Encoded):
        return list(X.encoder.columns) if X.encoder.named else None
    frame = frame_of(next(iter(X), None) if isinstance(X, Chunks) else X)
    return None if frame is None else [str(name) for name in frame.columns]


def columns_named(X: Any, names: Sequence[str]) -> Any:
    """The columns of a frame X that are called `names`, in this order; X itself where it is no frame or has just these.

    Raises: DataError where it lacks one.
    """
    frame = frame_of(X)
    if frame is None:
        return X
    places = {str(name): place for place, name in enumerate(frame.columns)}
    if list(places) == list(names):
        return X
    if absent := [name for name in names if name not in places]:
        raise DataError(lacking(absent, places))
    return frame[:, [places[name] for name in names]].to_native()


def keep_names(estimator: Any, names: Sequence[str] | None) -> None:
    """Sets `feature_names_in_` of an estimator to the names of the columns that it was fitted to; without names it has no
    such attribute, not that of an earlier fit either."""
    if names is not None and len(names):
        estimator.feature_names_in_ = np.array(names, dtype=object)
    else:
        vars(estimator).pop("feature_names_in_", None)


def named_features(X: Any, sensitive_features: Any) -> Any:
    """The columns of X that `sensitive_features` names, where it is a name or a list of names; else itself.

    A list is one of names where all of it are different columns of X, and it is no value for every row.
    Raises: DataError where X has no such column.
    """
    if isinstance(sensitive_features, str):
        wanted = [sensitive_features]
    elif isinstance(sensitive_features, list | tuple) and all(isinstance(v, str) for v in sensitive_features):
        wanted = list(sensitive_features)
    else:
        return sensitive_features
    columns, frame = column_names(X), frame_of(X)
    if not isinstance(sensitive_features, str):
        named = len(set(wanted)) == len(wanted) > 0 and set(wanted) <= set(columns or ())
        if not named or (frame is not None and len(frame) == len(wanted)):
            return sensitive_features
    if frame is None:
        raise DataError(
            f"sensitive_features={plain_repr(sensitive_features)} names columns, but X is no data frame with columns in memory. Pass "
            "the values, (n,) or a dict of columns."
        )
    absent = [name for name in wanted if name not in (columns or ())]
    if absent:
        raise DataError(f"sensitive_features names {plain_repr(absent[0])}, which is no column of X. It has {columns}.")
    native = {str(name): name for name in frame.columns}
    return {name: frame.get_column(native[name]) for name in wanted}


def groups_to_decide_by(X: Any, sensitive_features: Any) -> Any:
    """What `sensitive_features` are of rows X that are to be predicted, as `named_features`.
    Warns: DataWarning as `warn_of_order`."""
    warn_of_order(X=X, sensitive_features=sensitive_features)
    return named_features(X, sensitive_features)
