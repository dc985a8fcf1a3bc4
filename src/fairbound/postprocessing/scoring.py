"""Models of any library: fitted to weighted rows, and one real score per row from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from fairbound.base.errors import DataError, OptionError
from fairbound.base.names import lacking, shortlist
from fairbound.postprocessing.weights import weighted_part, with_weights
from fairbound.rows.reading import column_array, frame_of, is_missing, library_type, plain_array, series_of
from fairbound.rows.scores import check_finite_scores
from fairbound.tables.naming import column_names, columns_named

CODES = np.array([0, 1])
"""The labels that a model is fitted to where its own library may take no others."""
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


def fitted_to(estimator: Any, X: Any, y: Any, weight: Any) -> Any:
    """A clone of the estimator fitted to rows of these weights, None for none.
    Raises: DataError for an X that it does not take."""
    with _saying_why(estimator, X):
        made, weights = with_weights(estimator, weight)
        return made.fit(X, y, **weights)


def _by_name(estimator: Any, how: Any, X: Any, names: Sequence[str]) -> Any:
    """The columns of a frame that a fitted estimator was fitted to, in its order; where it keeps no names, those that are
    called `names`. Else X: where one of the two has no names, and where columns are lacking that may not be needed.

    Raises: DataError for a lacking column, unless the estimator keeps names, or a function or no estimator gives the scores.
    """
    own = names_seen(estimator)
    wanted, strict = own or names, not (own or callable(how) or estimator is None)
    if not wanted or list(getattr(X, "columns", ())) == wanted:  # the usual case, told without opening the frame
        return X
    if not (strict or set(wanted) <= set(column_names(X) or ())):
        return X
    return columns_named(X, wanted)


def names_seen(estimator: Any) -> list[str]:
    """The names of the columns that a fitted estimator was fitted to; [] where it has none."""
    return [str(name) for name in getattr(estimator, "feature_names_in_", ())]


@contextmanager
def _saying_why(estimator: Any, X: Any, seen: Sequence[str] = ()) -> Iterator[None]:
    """Raises: DataError where the estimator fails on an X that is no table,
    or on columns of text or without a value, and names them; where X lacks columns that it has `seen` in its fit; and
    where it takes no other labels y than 0 and 1."""
    try:
        yield
    except (TypeError, ValueError, AttributeError) as error:
        why = None if isinstance(error, DataError) else _reason(estimator, X, str(error), seen)
        if why is None:
            raise
        raise DataError(f"{why} Its own words: {error}") from error


def _reason(estimator: Any, X: Any, words: str, seen: Sequence[str]) -> str | None:
    """What in X or the labels the estimator did not take, as far as X and the words of its error show it, and what to do."""
    name = type(weighted_part(estimator)[0]).__name__  # of a pipeline its last step
    if "Expected: [0 1]" in words:
        return f"{name} takes no labels but 0 and 1. Pass (y == POSITIVE).astype(int), with the value that counts as positive."
    if isinstance(X, Mapping):
        return f"{name} takes a table, and X is a {type(X).__name__}. Make it a frame: pandas.DataFrame(X)."
    if series_of(X) is not None:
        return f"{name} takes a table, and X is a {library_type(X)}. Make it a frame: X.to_frame() of a column, table.iloc[[i]] of a row."
    if seen and (frame := frame_of(X)) is not None:
        names = [str(name) for name in frame.columns]
        if absent := [name for name in seen if name not in names]:
            return lacking(absent, names)
    if any(said in words for said in ("NaN", "missing", "infinity")) and (found := _columns(X, _has_gap)):
        return (
            f"{name} takes finite numbers, and these columns of X have rows without one: {found}. Fill or drop these rows, or encode the "
            f"table in a pipeline, as by sklearn.pipeline.make_pipeline(fb.TableEncoder(), {name}())."
        )
    if not isinstance(estimator, Pipeline) and (found := _columns(X, _has_text)):
        return (
            f"{name} takes numbers, and these columns of X are none: {found}. Encode them in a pipeline, as by "
            f"sklearn.pipeline.make_pipeline(fb.TableEncoder(), {name}())."
        )
    return None


def _columns(X: Any, has: Callable[[np.ndarray], bool]) -> str:
    """The columns of a table, by name or place, that have something."""
    frame = frame_of(X)
    if frame is not None:
        found: list[Any] = [name for name in frame.columns if has(frame[name].to_numpy())]
    else:
        values = plain_array(X) if not hasattr(X, "tocsr") else np.empty((0, 0))
        found = [j for j, column in enumerate(values.T) if has(column)] if values.ndim == 2 else []
    return shortlist(found, quoted=True)


def _has_text(column: np.ndarray) -> bool:
    """Whether it holds something other than numbers."""
    return column.dtype.kind not in "biuf" and any(isinstance(v, str) for v in column)


def _has_gap(column: np.ndarray) -> bool:
    """Whether a value is missing or infinite."""
    if column.dtype.kind == "f":
        return not np.isfinite(column).all()
    return column.dtype.kind == "O" and any(is_missing(v) or v in (np.inf, -np.inf) for v in column)


def check_how(how: Any) -> None:
    """Raises: OptionError where `how` names no way to get scores."""
    if not callable(how) and how not in ("auto", *METHODS):
        raise OptionError(
            f"scores must be 'auto', one of {', '.join(map(repr, METHODS))}, or a function of (estimator, X), got {how!r}."
        )


def scores_of(
    estimator: Any, how: str | Callable[[Any, Any], Any], X: Any, classes: np.ndarray, names: Sequence[str] = ()
) -> np.ndarray:
    """(n,) float64 scores of X, larger where classes[1] is more likely.

    estimator: None where X is the scores themselves. how: a method's name, "auto" for the first of `METHODS` that the
    model has, or a function of (estimator, X). A frame's columns are matched by their names where the model has seen
    names; further ones are left out. names: of the columns that it was fitted to, for a model that keeps none itself.
    Raises: OptionError where the model lacks the method; DataError for scores that are no finite numbers, one for each
    row, and for a column of `names` that is lacking.
    """
    X = _by_name(estimator, how, X, names)
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
    with _saying_why(estimator, X, names_seen(estimator)):
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
    check_finite_scores(found)
    return found


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
