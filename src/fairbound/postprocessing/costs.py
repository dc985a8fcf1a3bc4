"""What a wrong decision of either kind costs: as stated, or as the class_weight of the model says it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np
from sklearn.base import clone

from fairbound.base.errors import OptionError
from fairbound.postprocessing.weights import weighted_part

EQUAL = (1.0, 1.0)
BALANCED = ("balanced", "balanced_subsample")
ROUNDING = 1e-6
"""The rounding error of a mean of float32 numbers."""


def checked_costs(costs: Any) -> tuple[float, float]:
    """The two costs as floats. Raises: OptionError where they are not two numbers >= 0, one of them above 0."""
    try:
        found = () if isinstance(costs, Mapping | str | Set) else tuple(float(c) for c in costs)
    except (TypeError, ValueError):
        found = ()
    if len(found) != 2 or not all(0 <= c < math.inf for c in found) or sum(found) == 0:
        raise OptionError(
            f"costs must be two numbers >= 0 and not both 0, of a false positive and of a false negative, got {costs!r}."
        )
    return found


def cost_of_constants(costs: tuple[float, float], positive: float) -> float:
    """The lower of the mean costs of both answers, each given to all rows. positive: the share of these labelled so."""
    return min(costs[1] * positive, costs[0] * (1 - positive))


def saves_nothing(cost: float, constant: float, rows: int, dearest: float = 1.0) -> bool:
    """Whether a mean cost of decisions is that of one answer for all rows, `constant`, or higher, but for less than half a
    wrong decision among so many rows. dearest: what a wrong decision costs at most."""
    return cost > constant - dearest * (0.5 / rows + ROUNDING)


def costs_for(
    stated: Any, estimator: Any, codes: np.ndarray, classes: Sequence[Any], weight: np.ndarray | None
) -> tuple[tuple[float, float], list[str]]:
    """Of a false positive and of a false negative, and the notes that say where they are from.

    stated: such costs, or None for those of the estimator's class_weight: a false positive is an error on the first
    class, a false negative one on the second. codes: (n,) places in `classes`. weight: (n,) or None.
    Raises: OptionError for costs that are none, and for a class_weight of labels that y lacks.
    """
    if stated is not None:
        return checked_costs(stated), []
    part, weights = _class_weight(estimator)
    if weights is None:
        return EQUAL, []
    if isinstance(weights, Mapping):
        costs = checked_costs(_of_labels(part, weights, classes))
    else:
        share = np.bincount(codes, weights=weight, minlength=2)
        costs = checked_costs(np.divide(share.sum(), 2 * share, out=np.zeros(2), where=share > 0))
    said = (
        f"costs=({costs[0]:.4g}, {costs[1]:.4g}), of a false positive and of a false negative, are those of "
        f"class_weight={weights!r} of {type(part).__name__}; state costs= for others."
    )
    return costs, [said]


def without_class_weight(estimator: Any) -> Any:
    """The estimator, or where it has a class_weight that `costs_for` reads a clone without it."""
    if _class_weight(estimator)[1] is None:
        return estimator
    made = clone(estimator)
    weighted_part(made)[0].set_params(class_weight=None)
    return made


def _class_weight(estimator: Any) -> tuple[Any, Any]:
    """The part of the estimator that takes weights, and its class_weight, None where it has none or one of another
    kind."""
    if not hasattr(estimator, "get_params"):
        return estimator, None
    part, _ = weighted_part(estimator)
    weights = getattr(part, "class_weight", None)
    known = isinstance(weights, Mapping) or (isinstance(weights, str) and weights in BALANCED)
    return part, weights if known else None


def _of_labels(part: Any, weights: Mapping[Any, Any], classes: Sequence[Any]) -> list[Any]:
    """The weights of the two classes, 1 for one that has none, as in scikit-learn."""
    if strange := [label for label in weights if label not in list(classes)]:
        raise OptionError(
            f"class_weight of {type(part).__name__} names {strange}, and the labels of y are {list(classes)}. Name these, "
            "or state costs=(of a false positive, of a false negative)."
        )
    return [next((value for label, value in weights.items() if label == one), 1.0) for one in classes]
