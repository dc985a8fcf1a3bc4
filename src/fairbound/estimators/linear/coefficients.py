"""The weights of a linear model in the units of the table."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairbound.models.mlp import is_linear
from fairbound.tables import TableEncoder
from fairbound.tables.features import placed
from fairbound.tables.numbers import NumberFeature


def linear_parts(model: Any, x: Any, encoder: TableEncoder | None) -> tuple[np.ndarray, np.ndarray]:
    """(k, d) weights and (k,) intercepts of a linear model in the units of the table: a number's weight is per unit of
    its column.

    k: 1, or the number of classes. Column j belongs to `encoder.feature_names[j]`; missing numbers take the median, but
    in pairs, where they lie beyond nothing if training had gaps.
    Raises: AttributeError for a model that is not linear.
    """
    if not is_linear(model):
        raise AttributeError("coef_ and intercept_ are of linear models; this one is not.")
    weight, bias = (part.double().numpy().copy() for part in model.layers.split(x))
    if encoder is None or encoder.learnt is None:
        scale = np.ones(weight.shape[1]) if encoder is None else encoder.scale
        return weight / scale, bias
    for spec, own in placed(encoder.learnt):
        if isinstance(spec, NumberFeature) and spec.sd is not None:
            weight[:, own.start : own.start + 1 + len(spec.knots)] /= spec.sd
            bias -= weight[:, own.start] * spec.mean
    return weight, bias
