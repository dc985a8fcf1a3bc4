"""Multi-class Neyman-Pearson classification: the loss of one class is least while that of every other stays bounded.

    min  L_1(x)   subject to   L_i(x) <= r_i, i = 2..m,   |x_i|_2 <= lambda,
    L_i(x) = mean over the rows a of class i of  sum_{l != i} phi(x_i . a - x_l . a)

Source: Lin, Nadarajah, Soheili, Yang (2020), section 6.3, formulation (14).
Departs: any class may come first; phi may be logistic.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from fairbound.base.errors import DataError, OptionError
from fairbound.instances.block_rows import as_rows
from fairbound.instances.linear_terms import Block, LinearTerms, Term

LOSSES = {"hinge": "margin_hinge", "logistic": "margin_logistic"}


def neyman_pearson(
    X: Any,
    y: Any,
    *,
    first: Any = None,
    radius: float = 5.0,
    bound: float | Sequence[float] | None = None,
    loss: str = "hinge",
    dtype: torch.dtype = torch.float64,
    name: str = "neyman_pearson",
) -> LinearTerms:
    """Classification that bounds the loss of every class but one and minimises the loss of that one: (14) as a problem.

    X: (rows, d) array or SciPy sparse matrix.
    y: (rows,) labels.
    first: the label of the class whose loss is the objective, the least label by default; the others follow in order.
    radius: lambda.
    bound: r_i > 0, one for all constraints or one each in that order; number of classes - 1 by default, which is L_i(0)
        for the hinge: no class may do worse than a classifier that does not decide.
    loss: phi(z), "hinge" (1 - z)_+ or "logistic" log(1 + exp(-z)).

    Class vector c of x is `x.view(m, d)[c]`, first class first; block "class L" holds the rows with label L.

    Raises: DataError for rows or labels that cannot be used, or fewer than two classes; OptionError for other options.
    """
    if loss not in LOSSES:
        raise OptionError(f"loss must be one of {', '.join(LOSSES)}, got {loss!r}.")
    X, labels = as_rows(X), np.asarray(y)
    if labels.ndim != 1 or labels.shape[0] != X.shape[0]:
        raise DataError(f"X has {X.shape[0]} rows but y has shape {labels.shape}; y needs one label per row.")
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise DataError("y holds NaN. Drop the rows without a label.")
    try:
        found = list(np.unique(labels))
    except TypeError as error:
        raise DataError("y holds labels that cannot be put in order. Use numbers, or text, for all rows.") from error
    if len(found) < 2:
        raise DataError(f"y holds {len(found)} classes; Neyman-Pearson classification needs at least two.")
    if first is not None and first not in found:
        raise OptionError(f"first={first!r} is not among the labels: {', '.join(map(str, found[:10]))}.")
    order = found if first is None else [first, *(label for label in found if label != first)]
    limits = np.asarray(len(order) - 1.0 if bound is None else bound, dtype=np.float64)
    if limits.ndim > 1 or (limits.ndim and len(limits) != len(order) - 1) or not (limits > 0).all():
        raise OptionError(
            f"bound must be a positive number, or {len(order) - 1} of them, one for each class but the first; got {bound!r}."
        )
    return LinearTerms(
        [Block(f"class {label}", X[np.flatnonzero(labels == label)], c) for c, label in enumerate(order)],
        [Term(i, i, LOSSES[loss]) for i in range(len(order))],
        np.broadcast_to(limits, (len(order) - 1,)).tolist(),
        classes=len(order),
        radius=radius,
        names=[f"loss of class {label}" for label in order[1:]],
        dtype=dtype,
        name=name,
    )
