"""Folds of rows: whether a model knows its rows by heart, and scores of every row by a fit that has not seen it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.utils import _safe_indexing

from fairbound.base.errors import DataError, OptionError
from fairbound.postprocessing.curves import curve_of
from fairbound.postprocessing.scoring import fitted_to, scores_of

FOLDS = 5
BY_HEART, ERRORS = 0.05, 3.0
"""A classifier knows its rows by heart that is right on more of them than of held-out rows,
by this share and so many standard errors."""
FEWEST = 100
WRONG = 0.01
"""At most this share of the rows is wrong, and of the errors of a constant at most ten times this, where nearly all are
right."""


def check_folds(folds: Any) -> None:
    """Raises: OptionError where it is neither "auto" nor a number of folds."""
    if folds != "auto" and (not isinstance(folds, int) or folds < 0 or folds == 1):
        raise OptionError(f'folds must be "auto", 0 or a whole number of at least 2, got {folds!r}.')


def parts_of(kind: np.ndarray, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each fold the other rows and its own. kind: (n,) whole numbers >= 0; rows of every kind are spread evenly over
    the folds where some kind has a row for each."""
    splitter = StratifiedKFold if np.bincount(kind).max() >= count else KFold
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The least populated class", UserWarning)  # it is missing in a fold then
        return list(splitter(count, shuffle=True, random_state=0).split(kind, kind))


def knows_by_heart(
    estimator: Any, X: Any, labels: np.ndarray, weight: np.ndarray, share: float = BY_HEART, errors: float = ERRORS
) -> bool:
    """Whether a fit to four fifths of the rows is far more often right on these than on the others: by this share and so
    many standard errors. labels: (n,) of two values; weight: (n,).

    False for fewer than FEWEST rows of positive weight, or than 5 of a label, where that cannot be told."""
    some = np.flatnonzero(weight)
    values, code = np.unique(labels[some], return_inverse=True)
    if len(some) < FEWEST or len(values) < 2 or np.bincount(code).min() < 5:
        return False
    seen, held = (some[part] for part in parts_of(code, FOLDS)[0])
    model = _fitted(estimator, X, labels, weight, seen)
    right = [
        np.average(model.predict(_safe_indexing(X, part)) == labels[part], weights=weight[part])
        for part in (seen, held)
    ]
    error = (right[1] * (1 - right[1]) / len(held)) ** 0.5
    return bool(right[0] - right[1] > max(share, errors * error))


def nearly_all_right(scores: np.ndarray, codes: np.ndarray, weight: np.ndarray | None) -> bool:
    """Whether one threshold on the scores (n,) tells the labels (n,), 0 or 1, of nearly all rows.
    False for fewer than FEWEST rows of positive weight."""
    weight = np.ones(len(codes)) if weight is None else weight
    some = weight > 0
    if np.count_nonzero(some) < FEWEST:
        return False
    curve = curve_of(scores[some], codes[some], weight[some])
    wrong = (curve.selected[:, 0] - curve.selected[:, 1]).min() + curve.total[1]
    return bool(wrong <= min(WRONG * curve.total.sum(), 10 * WRONG * curve.total.min()))


def scores_by_others(
    estimator: Any,
    how: str | Callable[[Any, Any], Any],
    X: Any,
    labels: np.ndarray,
    classes: np.ndarray,
    weight: np.ndarray,
    parts: list[tuple[np.ndarray, np.ndarray]],
) -> np.ndarray:
    """(n,) scores, each by a clone of the estimator fitted to the folds `parts` that do not hold the row.

    how, classes: as `scores_of` takes them. labels: (n,) of two values; weight: (n,), rows of 0 are in no fit.
    Raises: DataError where a fold holds all rows of a label."""
    out = np.zeros(len(labels))
    for others, own in parts:
        seen = others[weight[others] > 0]
        if len(np.unique(labels[seen])) < 2:
            raise DataError(f"too few rows of a label for {len(parts)} folds; take folds=0, or rows of both labels.")
        model = _fitted(estimator, X, labels, weight, seen)
        out[own] = scores_of(model, how, _safe_indexing(X, own), classes)
    return out


def _fitted(estimator: Any, X: Any, labels: np.ndarray, weight: np.ndarray, rows: np.ndarray) -> Any:
    """A clone fitted to some of the rows, without weights where all of positive weight have the same."""
    some = weight[weight > 0]
    even = (some == some[0]).all()
    return fitted_to(estimator, _safe_indexing(X, rows), labels[rows], None if even else weight[rows])
