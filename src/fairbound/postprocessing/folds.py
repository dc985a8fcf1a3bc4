"""Folds of rows: whether a model knows its rows by heart, and scores of every row by a fit that has not seen it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.utils import _safe_indexing

from fairbound.base.errors import DataError, OptionError
from fairbound.postprocessing.curves import curve_of
from fairbound.postprocessing.scoring import fitted_to, scores_of
from fairbound.rows.weighted import weighted_rows

FOLDS = 5
BY_HEART, ERRORS = 0.05, 3.0
"""A classifier knows its rows by heart that is right on more of them than of held-out rows,
by this share and so many standard errors."""
BETTER_KNOWN = 0.02, 1.5
"""The same where folds cost little, so that scores of known rows are soon not taken."""
FEWEST = 30
FURTHER = 1.0
"""More standard errors than of all rows are asked of those of one label, as either may differ by chance."""
HELD = 30
"""So many held-out rows of each label tell enough of a fit."""
WRONG = 0.01
"""At most this share of the rows is wrong, and of the errors of a constant at most ten times this, where nearly all are
right."""


def check_folds(folds: Any, estimator: Any) -> None:
    """Raises: OptionError where it is neither "auto" nor a number of folds that the estimator can have."""
    if folds != "auto" and (not isinstance(folds, int) or folds < 0 or folds == 1):
        raise OptionError(f'folds must be "auto", 0 or a whole number of at least 2, got {folds!r}.')
    if folds not in ("auto", 0) and _pairwise(estimator):
        raise OptionError(
            f"{type(estimator).__name__} gets what it knows of every two rows, which folds do not take apart; say folds=0, and "
            "judge it on other rows."
        )


def check_every_row_counts(estimator: Any, sample_weight: Any, y: Any) -> None:
    """Raises: OptionError where rows of weight 0 would be left out of what an estimator that is fitted here gets of every two
    rows; DataError for weights that cannot be used."""
    if _pairwise(estimator) and (rows := weighted_rows(sample_weight, y)) is not None:
        raise OptionError(
            f"{type(estimator).__name__} gets what it knows of every two rows, and rows of weight 0 are no rows, which it would "
            f"ask for at predict all the same. Leave them out: keep = sample_weight > 0, which is {len(rows):,} rows, then "
            "X[keep][:, keep], y[keep] and so on; at predict X[:, keep]."
        )


def _pairwise(estimator: Any) -> bool:
    """Whether a classifier takes a number for every two rows, as an SVC with a kernel computed before."""
    tags = None if isinstance(estimator, type) else getattr(estimator, "__sklearn_tags__", None)
    return tags is not None and bool(tags().input_tags.pairwise)


def parts_of(kind: np.ndarray, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each fold the other rows and its own. kind: (n,) whole numbers >= 0; rows of every kind are spread evenly over
    the folds where some kind has a row for each."""
    splitter = StratifiedKFold if np.bincount(kind).max() >= count else KFold
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The least populated class", UserWarning)  # it is missing in a fold then
        return list(splitter(count, shuffle=True, random_state=0).split(kind, kind))


def kinds_of(group: np.ndarray, label: np.ndarray, count: int) -> np.ndarray:
    """(n,) kinds for `parts_of`: the group and label of a row, 0 or 1, and of kinds too rare for every fold the label
    alone, so that no fold has all rows of a label that has `count`."""
    kind = 2 * (group + 1) + label
    return np.where(np.bincount(kind)[kind] < count, label, kind)


def knows_by_heart(
    estimator: Any,
    X: Any,
    labels: np.ndarray,
    weight: np.ndarray | None,
    share: float = BY_HEART,
    errors: float = ERRORS,
) -> bool | None:
    """Whether a fit to four fifths of the rows is far more often right on these than on the others, of all rows or of
    those of one label: by this share and so many standard errors (of one label FURTHER more). labels: (n,) of two
    values; weight: (n,), None for equal ones.

    One fit tells it where HELD rows of each label are held out, else up to five do.
    None for fewer than FEWEST rows, or than 5 of a label, and of a model
    without `predict` or of one that takes numbers of every two rows, where that cannot be told."""
    values, code = np.unique(labels, return_inverse=True)
    if len(labels) < FEWEST or len(values) < 2 or np.bincount(code).min() < FOLDS or _pairwise(estimator):
        return None
    parts: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])  # seen, held
    right: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for fold in parts_of(code, FOLDS):
        model = _fitted(estimator, X, labels, weight, fold[0])
        if not hasattr(model, "predict"):
            return None
        for k, rows in enumerate(fold):
            parts[k].append(rows)
            right[k].append(model.predict(_safe_indexing(X, rows)) == labels[rows])
        if np.unique(labels[np.concatenate(parts[1])], return_counts=True)[1].min() >= HELD:
            break
    seen, held = (
        _shares(np.concatenate(a), np.concatenate(b), labels, weight) for a, b in zip(parts, right, strict=True)
    )
    wanted = (errors, errors + FURTHER, errors + FURTHER)
    return any(
        known - of > max(share, times * _error(of, rows))
        for times, (known, _), (of, rows) in zip(wanted, seen, held, strict=True)
    )


def folds_taken(stated: int | Literal["auto"], known: Callable[[], bool | None]) -> tuple[int, bool]:
    """How many folds are taken where so many were stated, and whether none are although nothing told if the model knows
    its rows by heart. known: as `knows_by_heart` says that; asked with "auto" alone."""
    if stated != "auto":
        return int(stated), not stated
    by_heart = known()
    return FOLDS if by_heart else 0, by_heart is None


def _shares(
    rows: np.ndarray, right: np.ndarray, labels: np.ndarray, weight: np.ndarray | None
) -> list[tuple[float, int]]:
    """The share of `rows` (k,) that are right (k,), and their number: of all, and of those of each label."""
    among = [np.full(len(rows), True), *(labels[rows] == value for value in np.unique(labels[rows]))]
    own = np.ones(len(rows)) if weight is None else weight[rows]
    return [(float(np.average(right[of], weights=own[of])), int(of.sum())) for of in among]


def _error(share: float, rows: int) -> float:
    """The standard error of a share of so many rows, with one more row right and one more wrong, so that it is not 0."""
    share = (share * rows + 1) / (rows + 2)
    return (share * (1 - share) / rows) ** 0.5


def nearly_all_right(scores: np.ndarray, codes: np.ndarray, weight: np.ndarray | None) -> bool:
    """Whether one threshold on the scores (n,) tells the labels (n,), 0 or 1, of nearly all rows. weight: (n,), None for
    equal ones. False for fewer than FEWEST rows."""
    if len(codes) < FEWEST:
        return False
    curve = curve_of(scores, codes, np.ones(len(codes)) if weight is None else weight)
    wrong = (curve.selected[:, 0] - curve.selected[:, 1]).min() + curve.total[1]
    return bool(wrong <= min(WRONG * curve.total.sum(), 10 * WRONG * curve.total.min()))


def scores_by_others(
    estimator: Any,
    how: str | Callable[[Any, Any], Any],
    X: Any,
    labels: np.ndarray,
    classes: np.ndarray,
    weight: np.ndarray | None,
    parts: list[tuple[np.ndarray, np.ndarray]],
) -> np.ndarray:
    """(n,) scores, each by a clone of the estimator fitted to the folds `parts` that do not hold the row.

    how, classes: as `scores_of` takes them. labels: (n,) of two values; weight: (n,), None for equal ones.
    Raises: DataError where a fold holds all rows of a label."""
    out = np.zeros(len(labels))
    for others, own in parts:
        if len(np.unique(labels[others])) < 2:
            raise DataError(f"too few rows of a label for {len(parts)} folds; take folds=0, or rows of both labels.")
        model = _fitted(estimator, X, labels, weight, others)
        out[own] = scores_of(model, how, _safe_indexing(X, own), classes)
    return out


def _fitted(estimator: Any, X: Any, labels: np.ndarray, weight: np.ndarray | None, rows: np.ndarray) -> Any:
    """A clone fitted to some of the rows."""
    return fitted_to(estimator, _safe_indexing(X, rows), labels[rows], None if weight is None else weight[rows])
