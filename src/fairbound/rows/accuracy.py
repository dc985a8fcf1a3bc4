"""How often predicted labels are the true ones, which are read in the words of the model."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairbound.base.errors import DataError
from fairbound.base.names import plain_repr, shortlist
from fairbound.rows.labels import plain_labels, same_label
from fairbound.rows.reading import coded_labels, column_array, factorised, is_missing, read_weights


def accuracy_of(predicted: np.ndarray, y: Any, classes: np.ndarray, sample_weight: Any = None) -> float:
    """The share in [0, 1] of rows whose label is predicted, of the total weight where there are weights.

    predicted: (n,) of the labels `classes` (k,). y: (n,) true labels, in any form that `fit` takes; one that means none of the
    classes counts as wrongly predicted. sample_weight: (n,) >= 0; labels of rows of weight 0 may be missing.
    Raises: DataError for no rows, another length, a missing label, and texts where the classes are numbers, or the other
        way round, but for texts of these numbers.
    """
    column = column_array("the labels", y, len(predicted))
    n = len(column)
    if not n:
        raise DataError("there are no rows.")
    weight = read_weights(sample_weight, n)
    return float(np.average(predicted == _in_words_of(classes, y, column, weight), weights=weight))


def _in_words_of(classes: np.ndarray, y: Any, column: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """(n,) object array of the class that each label means, None for none of them. column: (n,) y as an array."""
    whole = column.dtype.kind in "biu"  # which are read without a Python object for each row
    codes, found = coded_labels(column) if whole else factorised(plain_labels(y))
    gone = np.array([is_missing(label) for label in found])[codes] & (weight > 0)
    if gone.any():
        raise DataError(
            f"{gone.sum():,} of {len(gone):,} labels are missing, the first in row {gone.argmax()} (counting from 0). "
            "Drop these rows, or give them weight 0."
        )
    known = classes.tolist()
    meant = [next((one for one in known if one == label), same_label(label, known)) for label in found]
    strange = [label for label, one in zip(found, meant, strict=True) if one is None and not is_missing(label)]
    text = isinstance(known[0], str)
    if other := [label for label in strange if isinstance(label, str) != text]:
        raise DataError(
            f"the labels hold {plain_repr(other[0])}, and those of the model are {shortlist(known, quoted=True)}. Pass y in these."
        )
    return np.array(meant, dtype=object)[codes]
