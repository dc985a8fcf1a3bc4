"""One real score per row from a fitted model of any library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from fairbound.base.errors import DataError, OptionError
from fairbound.rows.reading import column_array, plain_array

METHODS = ("decision_function", "predict_proba", "predict")


def is_fitted(estimator: Any) -> bool:
    """Whether the model can score as it is: unless scikit-learn can tell that it cannot."""
    if not hasattr(estimator, "fit"):
        return True
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return False
    except (AttributeError, TypeError):  # of no library that scikit-learn knows
        return True
    return True


def check_how(how: Any) -> None:
    """Raises: OptionError where `how` names no way to get scores."""
    if not callable(how) and how not in ("auto", *METHODS):
        raise OptionError(
            f"scores must be 'auto', one of {', '.join(map(repr, METHODS))}, or a function of (estimator, X), got {how!r}."
        )


def scores_of(estimator: Any, how: str | Callable[[Any, Any], Any], X: Any, classes: np.ndarray) -> np.ndarray:
    """(n,) float64 scores of X, larger where classes[1] is more likely.

    estimator: None where X is the scores themselves. how: a method's name, "auto" for the first of `METHODS` that the
    model has, or a function of (estimator, X).
    Raises: OptionError where the model lacks the method; DataError for scores that are no finite numbers, one for each row.
    """
    if callable(how):
        return _checked("the scores", how(estimator, X))
    if estimator is None:
        return _checked("X, which is taken as the scores where there is no estimator,", X)
    names = METHODS if how == "auto" else (how,)
    name = next((m for m in names if hasattr(estimator, m)), None)
    if name is None:
        raise OptionError(
            f"{type(estimator).__name__} has none of the methods {', '.join(names)}; pass scores=, a function of (estimator, X)."
        )
    values = plain_array(getattr(estimator, name)(X))
    return _oriented(estimator, name, values, classes)


def _oriented(estimator: Any, name: str, values: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """The scores of classes[1] from what the method `name` returned."""
    own = [_plain(c) for c in getattr(estimator, "classes_", ())]
    negative, positive = (_plain(c) for c in classes)
    if own and positive not in own:
        raise DataError(f"the model was fitted to the labels {own}, y has {negative!r} and {positive!r}.")
    if len(own) > 2:
        raise DataError(f"the model has {len(own)} classes; thresholds need a model of two.")
    if name == "predict" and own:
        return np.array([_plain(v) == positive for v in values.ravel()], dtype=np.float64)
    if name == "predict_proba" and values.ndim == 2 and values.shape[1] == 2:
        return _checked(name, values[:, own.index(positive) if own else 1])
    found = _checked(name, values)
    return -found if own and own.index(positive) == 0 else found


def _checked(what: str, values: Any) -> np.ndarray:
    column = column_array(what, values)
    try:
        found = column.astype(np.float64)
    except (TypeError, ValueError):
        raise DataError(f"{what} must be numbers, got {column[0]!r}.") from None
    if not np.isfinite(found).all():
        gone = int((~np.isfinite(found)).sum())
        raise DataError(
            f"the score is missing or infinite in {gone} of {len(found)} rows; drop these rows or fill them."
        )
    return found


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
