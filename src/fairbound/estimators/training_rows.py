"""What `FairClassifier` is given, made rows to train on: labels as numbers, and the columns that become features."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.exceptions import DataConversionWarning

from fairbound.base.errors import DataError, OptionError
from fairbound.rows.groups import Groups
from fairbound.tables import binary_labels, class_labels


def checked_labels(X: Any, y: Any) -> Any:
    """y as one column of real labels, in scikit-learn's words where it is something else."""
    if y is None:
        raise DataError("FairClassifier requires y to be passed, but the target y is None.")
    if any(getattr(getattr(part, "dtype", None), "kind", None) == "c" for part in (X, y)):
        raise DataError("Complex data not supported: X and y must be real.")
    shape: tuple[int, ...] = getattr(y, "shape", ())
    if len(shape) == 2 and shape[1] == 1:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected; it is taken as one column of labels.",
            DataConversionWarning,
            stacklevel=3,
        )
    return y


def class_codes(y: Any, positive: Any, loss: str, compared: Sequence[str]) -> tuple[np.ndarray, tuple[Any, ...]]:
    """(n,) class numbers and the labels; of two, the positive one is last. compared: bounds on groups.

    positive: of two classes the positive label, None for the greater one. loss: as in FairClassifier.
    Raises: DataError or OptionError where bounds, positive or loss need two classes and y has more.
    """
    codes, classes = class_labels(y)
    if len(classes) == 2:
        return binary_labels(y, positive)
    if compared or positive is not None:
        what = f"the bound {compared[0]!r}" if compared else f"positive={positive!r}"
        raise DataError(
            f"{what} needs two classes, a positive and a negative one, but y has {len(classes)} values, "
            f"{', '.join(map(repr, classes[:6]))}{', ...' if len(classes) > 6 else ''}. Choose one class against the rest, "
            "or bound the recall of a class."
        )
    if loss not in ("logistic", "cross_entropy"):
        raise OptionError(f"loss={loss!r} is for two classes; y has {len(classes)}. Take 'logistic'.")
    return codes, classes


def columns_to_drop(X: Any, groups: Groups | None, choice: str, notes: list[str]) -> list[str]:
    """The columns of X named like a sensitive attribute where choice is "drop", none where it is "keep"."""
    if groups is None or not hasattr(X, "columns"):
        return []
    shared = [c for c in map(str, X.columns) if c in groups.attributes]
    if shared and choice == "drop":
        notes.append(f"Sensitive columns dropped from the features: {', '.join(shared)}.")
        return shared
    if shared:
        notes.append(f"Sensitive columns kept among the features: {', '.join(shared)}.")
    return []


def without(X: Any, columns: Sequence[str]) -> Any:
    """X without those of its columns that are named."""
    if not columns or not hasattr(X, "columns"):
        return X
    present = [c for c in X.columns if str(c) in columns]
    return X.drop(columns=present) if hasattr(X, "iloc") else X.drop(present)


def module_features(X: Any) -> np.ndarray:
    """X (n, ...) as float32, for an nn.Module. Raises: DataError where it is not numeric or has no column."""
    if hasattr(X, "detach"):
        X = X.detach().cpu().numpy()
    elif hasattr(X, "to_numpy"):
        X = X.to_numpy()
    try:
        array = np.require(X, dtype=np.float32, requirements=["W"])
    except (TypeError, ValueError) as error:
        raise DataError(
            f"an nn.Module needs numeric features ({error}); encode the table with fairbound.TableEncoder first."
        ) from None
    if array.ndim < 2:
        raise DataError(f"X must have at least two dimensions, got {array.ndim}.")
    return array
