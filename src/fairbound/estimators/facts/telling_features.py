"""Looks for a feature or a column of categories that decides every training row right by itself, as a copy of the label
or a finer form of it does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from fairbound.fairness.problem import FairProblem
from fairbound.rows.sparse import SparseRows
from fairbound.tables import TableEncoder
from fairbound.tables.features import CategoryFeature, placed

SURPRISING = 100
"""With at least so many rows, a model without an error is a reason to look for a column made from the label."""

OF_EACH = 5
"""Rows of a value, in the mean, that a column of categories needs to be looked at: ids would tell all labels."""

ROWS_AT_ONCE = 4096

LOOK = "If that is a surprise, look for a column that is made from the label."


def told_by_feature(problem: FairProblem, encoder: TableEncoder | None) -> str | None:
    """What is said where one feature, or one column of categories, could decide every one of many training rows right,
    whatever bounds do to the model; None elsewhere. encoder: of the features, None where it is not known."""
    if problem.total_rows < SURPRISING or not problem.shards.alone or len(problem.features.shape) != 2:
        return None
    names = () if encoder is None else encoder.feature_names
    codes = problem.targets.cpu().numpy().astype(np.int64).ravel()
    if not codes.any():  # one class
        return None
    if (found := telling_feature(problem.features, codes)) is not None:
        what = f"The feature {names[found]!r}" if found < len(names) else f"Feature {found} (counting from 0)"
    elif encoder is not None and (column := telling_column(problem.features, codes, encoder)) is not None:
        what = f"The column {column!r}"
    else:
        return None
    return f"{what} by itself tells the labels of all {problem.total_rows:,} training rows. {LOOK}"


def telling_column(features: Any, codes: np.ndarray, encoder: TableEncoder) -> str | None:
    """The first column of categories each of whose values has rows of one class alone, and rows enough. codes: (n,) class
    numbers."""
    spans = {
        spec.name: span
        for spec, span in placed(encoder.learnt or ())
        if isinstance(spec, CategoryFeature) and len(spec.feature_names) * OF_EACH <= len(codes)
    }
    classes = int(codes.max()) + 1
    rows = {name: np.zeros((classes, span.stop - span.start)) for name, span in spans.items()}
    for part, labels in _slices(features, codes):
        of_class = (np.arange(classes)[:, None] == labels).astype(part.dtype)
        for name in list(rows):
            rows[name] += of_class @ part[:, spans[name]]
            if ((rows[name] > 0).sum(axis=0) > 1).any():
                del rows[name]
        if not rows:
            return None
    return next((name for name, found in rows.items() if found.sum() == len(codes)), None)


def telling_feature(features: Any, codes: np.ndarray) -> int | None:
    """The number of the first feature that tells every class from all others by a threshold or more; or of the first
    class where each has a feature that tells it, as the dummies of a copied column. Of most tables a first part of the
    rows is enough to see that there is none."""
    k = int(codes.max()) + 1
    low, high = (np.full((k, features.shape[-1]), end) for end in (np.inf, -np.inf))
    told = np.zeros((k, low.shape[1]), dtype=bool)
    for part, labels in _slices(features, codes):
        for c in np.unique(labels):
            own = part[labels == c]
            least, most = _dense(own.min(axis=0)), _dense(own.max(axis=0))
            low[c], high[c] = np.minimum(low[c], least), np.maximum(high[c], most)
        told = np.stack([_apart(low, high, c) for c in range(k)])
        if not told.any(axis=1).all():
            return None
    together = told.all(axis=0)
    return int(together.argmax() if together.any() else told[0].argmax())


def _apart(low: np.ndarray, high: np.ndarray, c: int) -> np.ndarray:
    """(d,) whether no other class has a value within the range of class c, by feature."""
    others = np.arange(len(low)) != c
    return np.all((low[others] > high[c]) | (high[others] < low[c]), axis=0)


def _slices(features: Any, codes: np.ndarray) -> Iterator[tuple[Any, np.ndarray]]:
    """A few rows at a time, dense or sparse, with their classes; each part is drawn from all of the table, whose rows
    are sorted."""
    table = features.matrices[0] if isinstance(features, SparseRows) else features
    step = -(-len(codes) // ROWS_AT_ONCE)
    for first in range(step):
        part = table[first::step]
        yield (part if isinstance(features, SparseRows) else part.cpu().numpy()), codes[first::step]


def _dense(row: Any) -> np.ndarray:
    """A row (d,) of a dense table or of a sparse one."""
    return row.toarray().ravel() if hasattr(row, "toarray") else np.asarray(row)
