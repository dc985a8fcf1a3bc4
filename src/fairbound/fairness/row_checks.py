"""Checks of what a FairProblem is given: rows (sorted by stratum), weights, and whether labels, loss and bounds fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from fairbound.base.errors import DataError, OptionError
from fairbound.fairness.objectives import Accuracy
from fairbound.fairness.plan import Plan
from fairbound.fairness.pointwise import Pointwise
from fairbound.models.mlp import MLP, is_linear
from fairbound.models.model import Model, ModuleModel
from fairbound.models.scoring import ROWS_AT_ONCE
from fairbound.rows.by_column import by_column, column_after_column, taken
from fairbound.rows.sampling import reorder
from fairbound.rows.sparse import SparseRows

MOST_COPIED = 1 << 24
"""Cells of features that lie row by row and are copied column by column for a linear model, at most."""


def check_lengths(features: Any, y: np.ndarray, codes: np.ndarray) -> None:
    """Whether there are rows, and as many of them in features, labels (n,) and group codes (n, A)."""
    if not len(y):
        raise DataError("there are no rows.")
    given = features.shape[0] if sparse.issparse(features) else len(features)
    if len(codes) != len(y) or given != len(y):
        raise DataError(f"features, targets and groups differ in length: {given}, {len(y)}, {len(codes)}.")


def check_outputs(model: Model, loss: Pointwise, objective: Any, plan: Plan, y: np.ndarray) -> None:
    """Whether loss, objective, bounds and labels fit the model's number of scores per row."""
    outputs = model.outputs
    if loss.per_class != (outputs > 1):
        raise OptionError(
            f"the loss {loss.name!r} takes one score per row, the model gives {outputs}; take 'cross_entropy' "
            "(labels 0, 1, ...), or a function of (scores, targets)."
            if outputs > 1
            else f"the loss {loss.name!r} takes a score for every class, the model gives one per row; take "
            "'logistic', or a model with as many outputs as classes."
        )
    if isinstance(objective, Accuracy) and outputs > 1:
        raise OptionError("objective='accuracy' is for two classes and one score per row; take 'loss'.")
    for bound in plan.notions:
        bound.check_model(outputs, y)
    if outputs == 1:
        return
    if not np.isin(y, np.arange(outputs)).all():
        raise DataError(f"labels must be class numbers 0 to {outputs - 1}, got {np.unique(y)[:5].tolist()}...")


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
    x = features if isinstance(features, Tensor) else torch.as_tensor(np.asarray(features))
    x = x if is_linear(model) and by_column(x) else x.contiguous()
    x = x.to(dtype=dtype if x.is_floating_point() else x.dtype, device=device)
    if in_place and (x.is_contiguous() or by_column(x)):
        reorder(x, order)
    else:
        x = taken(x, torch.as_tensor(order, device=device))
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
    """(n_rows,) weights in the order of their strata, checked."""
    w = np.asarray(sample_weight, dtype=np.float64)
    if w.shape != order.shape or not np.isfinite(w).all() or (w < 0).any() or w.sum() == 0:
        raise DataError(f"sample_weight must be {len(order)} finite numbers >= 0 that are not all zero.")
    return torch.as_tensor(w[order])
