"""Models of any library: fitted to weighted rows, and one real score per row from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from fairbound.base.errors import DataError, OptionError
from fairbound.rows.reading import column_array, frame_of, plain_array

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


def weighted_part(estimator: Any) -> tuple[Any, str]:
    """What takes the weights of rows, a pipeline's last step or the estimator itself, and their name in `fit`."""
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        return last, f"{name}__sample_weight"
    return estimator, "sample_weight"


def fitted_to(estimator: Any, X: Any, y: Any, weight: Any = None) -> Any:
    """A clone of the estimator fitted to rows of these weights, None for none. Raises: DataError for text that it does not take."""
    name = weighted_part(estimator)[1]
    with _naming_text(estimator, X):
        return clone(estimator).fit(X, y, **({} if weight is None else {name: weight}))


@contextmanager
def _naming_text(estimator: Any, X: Any) -> Iterator[None]:
    """Raises: DataError where the estimator, which is no pipeline, fails on a table X with columns that are no numbers."""
    try:
        yield
    except (TypeError, ValueError) as error:
        columns = [] if isinstance(error, DataError) or isinstance(estimator, Pipeline) else _columns_of_text(X)
        if not columns:
            raise
        name = type(estimator).__name__
        shown = ", ".join(map(repr, columns[:6])) + (", ..." if len(columns) > 6 else "")
        raise DataError(
            f"{name} takes numbers, and these columns of X are none: {shown}. Encode them in a pipeline, as by "
            f"sklearn.pipeline.make_pipeline(fb.TableEncoder(), {name}()). Its own words: {error}"
        ) from error


def _columns_of_text(X: Any) -> list[Any]:
    """The columns of a table, by name or place, that hold something other than numbers."""
    frame = frame_of(X)
    if frame is not None:
        return [name for name, kind in frame.schema.items() if not (kind.is_numeric() or kind == nw.Boolean)]
    values = plain_array(X) if not hasattr(X, "tocsr") else np.empty((0, 0))
    if values.ndim != 2 or values.dtype.kind not in "OU":
        return []
    return [j for j, column in enumerate(values.T) if any(isinstance(v, str) for v in column)]


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
    with _naming_text(estimator, X):
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
