"""Folds of rows: whether a model scores its own rows better than others, and scores of every row by a fit that has not
seen it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from scipy.stats import combine_pvalues, mannwhitneyu
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.utils import _safe_indexing

from fairbound.base.errors import DataError, OptionError
from fairbound.postprocessing.curves import curve_of
from fairbound.postprocessing.scoring import fitted_to, scores_of
from fairbound.rows.weighted import weighted_rows

FOLDS = 5
CHANCE = 0.01
"""A model scores the rows that it was fitted to better where they would by chance be scored as much so less often."""
FEWEST = 30
HELD = 200
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


def scores_own_rows_better(
    estimator: Any,
    how: str | Callable[[Any, Any], Any],
    X: Any,
    labels: np.ndarray,
    classes: np.ndarray,
    weight: np.ndarray | None,
) -> bool | None:
    """Whether a fit to four fifths of the rows scores these better than the rest: higher among the rows of the positive
    label and lower among the others, by the ranks of both together.

    how, classes: as `scores_of` takes them. labels: (n,) of these two; weight: (n,), None for equal ones.
    One fit tells it where HELD rows of each label are held out, else up to five do.
    None for fewer than FEWEST rows, or than 5 of a label, and of a model that takes numbers of every two rows, where that
    cannot be told.

    Source: Mann, Whitney (1947), the test of whether one of two samples is larger; its normal deviates of the two labels are
    added as Stouffer (1949) does.
    """
    positive = labels == classes[1]
    if len(labels) < FEWEST or min(positive.sum(), (~positive).sum()) < FOLDS or _pairwise(estimator):
        return None
    seen, held = np.full(len(labels), np.nan), np.full(len(labels), np.nan)
    for fold in parts_of(positive.astype(int), FOLDS):
        model = _fitted(estimator, X, labels, weight, fold[0])
        for scores, rows in zip((seen, held), fold, strict=True):
            scores[rows] = scores_of(model, how, _safe_indexing(X, rows), classes)
        told = ~np.isnan(held)
        if min((told & positive).sum(), (told & ~positive).sum()) >= HELD:
            break
    by_chance = [
        _larger_by_chance(seen[positive], held[positive]),
        _larger_by_chance(-seen[~positive], -held[~positive]),
    ]
    return bool(combine_pvalues(by_chance, method="stouffer").pvalue < CHANCE)


def folds_taken(stated: int | Literal["auto"], known: Callable[[], bool | None]) -> tuple[int, bool]:
    """How many folds are taken where so many were stated, and whether none are although nothing told if the model knows
    its rows better. known: as `scores_own_rows_better` says that; asked with "auto" alone."""
    if stated != "auto":
        return int(stated), not stated
    better = known()
    return FOLDS if better else 0, better is None


def _larger_by_chance(a: np.ndarray, b: np.ndarray) -> float:
    """How often the ranks of a (n,) would lie as high above those of b (n,) if both were drawn alike; NaN stands for none."""
    a, b = a[~np.isnan(a)], b[~np.isnan(b)]
    if np.ptp(np.concatenate([a, b])) == 0:
        return 0.5
    return float(mannwhitneyu(a, b, alternative="greater", method="asymptotic", use_continuity=False).pvalue)


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
