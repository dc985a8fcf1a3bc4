"""What a FairProblem is given, read and checked: rows (sorted by stratum), labels, weights, and whether they fit loss and bounds."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from fairbound.base.errors import DataError, OptionError
from fairbound.fairness.bound import Bound
from fairbound.fairness.class_numbers import NUMBERS, Advice, check_class_numbers
from fairbound.fairness.objectives import Accuracy
from fairbound.fairness.pointwise import TWO_CLASSES, Pointwise
from fairbound.models.mlp import MLP, is_linear
from fairbound.models.model import Model, ModuleModel
from fairbound.models.scoring import ROWS_AT_ONCE
from fairbound.rows.by_column import by_column, column_after_column, rows_at
from fairbound.rows.reading import column_array, number_column, plain_array, read_weights
from fairbound.rows.sampling import reorder
from fairbound.rows.sparse import SparseRows

OF_A_PROBLEM = Advice(
    "Labels between 0 and 1 need a loss of your own, a function of (scores, targets).",
    more="take a model with a score for each class",
    numbers=f"take the loss 'squared', and bounds on them: {NUMBERS}",
)
MOST_COPIED = 1 << 24
"""Cells of features that lie row by row and are copied column by column for a linear model, at most."""


def check_same_length(features: Any, y: np.ndarray, codes: np.ndarray) -> None:
    """Whether there are rows, and as many of them in features, labels (n,) and group codes (n, A)."""
    if not len(y):
        raise DataError("there are no rows.")
    given = features.shape[0] if sparse.issparse(features) else len(features)
    if len(codes) != len(y) or given != len(y):
        raise DataError(f"features, targets and groups differ in length: {given}, {len(y)}, {len(codes)}.")


def labels_of(targets: Any, loss: Pointwise, outputs: int) -> np.ndarray:
    """(n,) labels, given as (n,) or (n, 1), that a loss of so many scores per row can be taken of.

    Raises: OptionError where loss and scores do not fit each other; DataError for labels that are not the numbers of the
    classes, or no numbers where the loss is of numbers.
    """
    y = column_array("targets", targets)
    if loss.per_class != (outputs > 1):
        raise OptionError(
            f"the loss {loss.name!r} takes one score per row, the model gives {outputs}; take 'cross_entropy' "
            "(labels 0, 1, ...), or a function of (scores, targets)."
            if outputs > 1
            else f"the loss {loss.name!r} takes a score for every class, the model gives one per row; take "
            "'logistic', or a model with as many outputs as classes."
        )
    if outputs > 1 or loss in TWO_CLASSES:
        check_class_numbers(y, max(outputs, 2), OF_A_PROBLEM)
        return y.astype(np.int64) if y.dtype.kind == "O" else y
    y = y if y.dtype.kind in "biuf" else number_column("targets", y)
    if not np.isfinite(y).all():
        row = int(np.flatnonzero(~np.isfinite(y))[0])
        raise DataError(f"targets must be finite numbers, got {y[row]} in row {row} (counting from 0). Drop such rows.")
    return y


def check_bounds(bounds: Sequence[Bound], outputs: int, objective: Any, y: np.ndarray) -> None:
    """Whether objective and bounds fit a model of so many scores per row and the labels (n,)."""
    if isinstance(objective, Accuracy) and outputs > 1:
        raise OptionError("objective='accuracy' is for two classes and one score per row; take 'loss'.")
    for bound in bounds:
        bound.check_model(outputs, y)


def dense_rows(features: Any) -> Tensor:
    """A table, array or tensor (n, ...) as a tensor; True and False become 1.0 and 0.0, other integers stay.

    Raises: DataError where they are no numbers.
    """
    if not isinstance(features, Tensor):
        array = plain_array(features)
        if array.dtype == object and all(isinstance(cell, Real | np.bool_) for cell in array.flat):
            array = array.astype(np.float64)  # columns of several kinds of numbers
        if array.dtype.kind not in "biuf":
            raise DataError(f"features must be numbers, got {array.dtype}; encode text first (TableEncoder does).")
        if (
            not array.flags.writeable or min(array.strides, default=0) < 0
        ):  # torch warns of the first, refuses the second
            array = array.copy()
        features = torch.as_tensor(array.astype(array.dtype.newbyteorder("="), copy=False))
    features = features.detach()
    return features.float() if features.dtype == torch.bool else features


def sorted_rows(
    model: Model, features: Any, order: np.ndarray, dtype: torch.dtype, device: torch.device, in_place: bool = False
) -> Tensor | SparseRows:
    """The rows in the order of their strata, checked. in_place: dense features are sorted where they lie, if they have
    the dtype and device asked for. Those of a linear model lie column by column in memory if they are given so, or are
    at most MOST_COPIED cells."""
    if sparse.issparse(features):
        if not isinstance(model, MLP):
            raise DataError(
                f"{type(model).__name__} computes with dense features, and a sparse matrix of {features.shape[0]:,} x "
                f"{features.shape[1]:,} was given. Pass features.toarray(), or take model='linear' or 'mlp:...'."
            )
        if device.type != "cpu":
            raise OptionError(
                f"sparse features work on the CPU, not on {device}. Pass features.toarray(), or device='cpu'."
            )
        return SparseRows.of(features, dtype)[order]
    x = dense_rows(features)
    x = x if is_linear(model) and by_column(x) else x.contiguous()
    x = x.to(dtype=dtype if x.is_floating_point() else x.dtype, device=device)
    if in_place and (x.is_contiguous() or by_column(x)):
        reorder(x, order)
    else:
        x = rows_at(x, torch.as_tensor(order, device=device))
    if is_linear(model) and x.numel() <= MOST_COPIED and device.type == "cpu":
        x = column_after_column(x)
    if x.is_floating_point() and not _all_finite(x):
        raise DataError(_name_rows(x, order))
    if isinstance(model, ModuleModel):
        model.row_dims = x.dim() - 1
    return x


def _all_finite(x: Tensor) -> bool:
    """Whether all numbers are finite: that of their sum is enough, and takes a twentieth of the time."""
    return bool(x.sum().isfinite()) or all(bool(part.isfinite().all()) for part in x.split(ROWS_AT_ONCE))


def _name_rows(features: Tensor, order: np.ndarray) -> str:
    flat = features.flatten(1)
    row = int((~torch.isfinite(flat)).any(1).nonzero()[0])
    column = int((~torch.isfinite(flat[row])).nonzero()[0])
    return (
        f"feature {column} is NaN or infinite in row {int(order[row])} (and perhaps in others). Impute or drop such values "
        "before training; TableEncoder does."
    )


def sorted_weights(sample_weight: Any, order: np.ndarray) -> Tensor:
    """(n_rows,) weights in the order of their strata. Raises: DataError as `read_weights`."""
    return torch.as_tensor(read_weights(sample_weight, len(order))[order])
