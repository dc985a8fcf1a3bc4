"""Reading what a model predicts: labels, a score for every class, or numbers."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from fairbound.base.errors import DataError, DataWarning, OptionError
from fairbound.base.names import shortlist
from fairbound.fairness.scored import Scored
from fairbound.rows.groups import natural_order, texts_of
from fairbound.rows.labels import two_valued
from fairbound.rows.reading import column_values, is_missing, number_column, plain_array
from fairbound.rows.scores import as_logits, strays_of


def more_than_two(scores: Any, classes: Sequence[Any] | None) -> bool:
    """Whether three classes or more are named, or have a column of scores each."""
    return (classes is not None and len(classes) > 2) or (np.ndim(scores) == 2 and np.shape(scores)[1] > 2)


def speak_of_labels(scores: Any, y: Any, classes: Sequence[Any] | None) -> bool:
    """Whether scores are labels, or a score for every class, rather than one score that says 1 or 0."""
    values = plain_array(y)
    return more_than_two(scores, classes) or values.dtype.kind not in "biufO" or not np.isin(values, (0, 1)).all()


def read_decisions(
    scores: Any, threshold: float | None, classes: Sequence[Any] | None, positive: Any
) -> tuple[np.ndarray, np.ndarray, Sequence[Any] | None]:
    """Scores, or a column of two words such as approved and denied, where nobody knows the outcomes: (n,) numbers, the
    decisions (n,) as 0 and 1, and what these mean, if it is known.

    Raises: OptionError where `positive` is named of numbers, or a threshold of words; DataError for unusable scores.
    """
    values = plain_array(scores)
    if values.dtype.kind in "biufc" or not any(isinstance(v, str) for v in column_values("scores", scores)):
        if positive is not None:
            raise OptionError(
                "positive= (--positive) names one of two words, and the scores are numbers; say where positive begins with threshold= "
                "(--threshold)."
            )
        logits = as_logits(scores, threshold)[0]
        return np.asarray(scores), (logits > 0).astype(np.int64), classes
    if threshold is not None:
        raise OptionError("threshold= (--threshold) is of scores, and these are words; leave it out.")
    if (gone := np.array([is_missing(v) for v in column_values("scores", scores)])).any():
        raise DataError(
            f"the decision is missing in {gone.sum():,} of {len(gone):,} rows, the first in row {gone.argmax()} (counting from 0). "
            "Drop these rows or fill them."
        )
    try:
        y, meant = two_valued(scores, len(values), classes, positive)
    except DataError:
        if (strays := strays_of(scores)) is not None and strays.few:
            raise DataError(f"{strays.said('the scores')} Correct it.") from None
        raise
    return y, y, meant


def read_predictions(predictions: Any, y: Any, classes: Sequence[Any] | None = None) -> Scored:
    """Predicted labels (n,) or scores (n, k), and true labels (n,), as class numbers.

    classes: the k labels in the order of the scores' columns; needed for scores. A label of y that is not among them is
    a class of its own, which no score can name. Without it the classes are the labels that occur.
    Raises: DataError for rows without a label, lengths that differ, scores that are not finite, numbers that are no
        labels, or classes of which no row has a label; OptionError where scores and classes do not fit each other.
        Warns: DataWarning where no prediction is a label.
    """
    truth = texts_of(y)
    gone = sum(v is None for v in truth)
    if gone:
        raise DataError(f"the label is missing in {gone} of {len(truth)} rows; drop these rows.")
    if not len(truth):
        raise DataError("there are no rows.")
    given = plain_array(predictions)
    if len(given) != len(truth):
        raise DataError(f"there are {len(given)} rows of predictions and {len(truth)} labels.")
    known = [] if classes is None else [str(v) for v in texts_of(np.asarray(classes, dtype=object))]
    if given.ndim == 2:
        if given.shape[1] != len(known):
            raise OptionError(
                f"the scores have {given.shape[1]} columns, and classes= names {len(known) or 'none'}. Name the class of each in "
                f"order: a classifier's classes_, or range({given.shape[1]}) where labels are the columns' numbers. Or pass the "
                "predicted labels."
            )
        scores = given.astype(np.float64)
        if not np.isfinite(scores).all():
            raise DataError(f"the scores are missing or infinite in {int((~np.isfinite(scores)).any(1).sum())} rows.")
        guess = np.array(known, dtype=object)[scores.argmax(axis=1)]
        if not set(truth) & set(known):
            raise DataError(
                f"classes= names {shortlist(known, 3, quoted=True)}, and no label of y is one of them: y holds {shortlist(sorted(set(truth)), 3, quoted=True)}. Pass y in the "
                "words of classes=."
            )
    else:
        if (
            given.dtype.kind == "f"
            and not np.equal(np.mod(given, 1), 0).all()
            and not set(texts_of(given)) <= set(truth)
        ):
            raise DataError("the predictions are fractions, which are no labels of y; pass the predicted labels.")
        guess = texts_of(given)
        if any(v is None for v in guess):
            raise DataError(f"the prediction is missing in {sum(v is None for v in guess)} of {len(guess)} rows.")
        if not set(truth) & set(guess):
            warnings.warn(
                f"no prediction is a label of y: predicted are {shortlist(sorted(set(guess)), 3, quoted=True)}, and y holds {shortlist(sorted(set(truth)), 3, quoted=True)}. "
                "Where they are the same classes, write them alike.",
                DataWarning,
                stacklevel=3,
            )
    known += sorted({*truth, *guess} - set(known), key=natural_order)
    place = {label: i for i, label in enumerate(known)}
    number = lambda labels: np.array([place[v] for v in labels], dtype=np.int64)  # noqa: E731
    return Scored(number(truth), number(guess), tuple(known))


def read_numbers(predictions: Any, y: Any) -> Scored:
    """Predicted and true numbers, (n,) each. Raises: DataError for no rows, other shapes,
    and what is no finite number."""
    predicted = finite_numbers("the predictions", predictions)
    truth = finite_numbers("the labels y", y, len(predicted))
    nothing = np.zeros(len(truth), dtype=np.int64)
    residuals = predicted - truth
    return Scored(nothing, nothing, ("0",), predicted, losses=residuals**2, residuals=residuals)


def finite_numbers(what: str, given: Any, n: int | None = None) -> np.ndarray:
    """(n,) float64 of a column that errors call `what`. Raises: DataError as `read_numbers`."""
    numbers = number_column(what, given, n)
    if not len(numbers):
        raise DataError("there are no rows.")
    bad = ~np.isfinite(numbers)
    if bad.any():
        raise DataError(f"{what} are missing or infinite in {int(bad.sum())} of {len(bad)} rows; drop these rows.")
    return numbers
