"""What a classifier minimises, of three ways to state it."""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fairbound.base.errors import OptionError
from fairbound.fairness.compiled.builder import class_number
from fairbound.fairness.objectives import ClassLoss, ClassLosses, objective_of


def class_costs(objective: Any, codes: np.ndarray, weight: np.ndarray | None) -> tuple[float, float]:
    """What a wrong decision costs on a row of class 0 and of class 1, with mean 1 over all rows: the class weights of an
    objective of `one_objective`; 1 under other objectives. codes: (n,) in {0, 1}."""
    if not isinstance(objective, ClassLosses):
        return 1.0, 1.0
    zero, one = objective.row_weights(np.bincount(codes, weights=weight, minlength=2)).tolist()
    return zero, one


def one_objective(
    objective: Any,
    objective_class: Any,
    class_weight: Any,
    classes: Sequence[Any],
    codes: np.ndarray,
    weight: np.ndarray | None,
) -> Any:
    """What is minimised, of three ways to state it: the objective; the loss of one class; with class weights the mean
    loss in which every row counts with the weight w_c of its class, so that the share of class c in it is
    w_c n_c / sum_c w_c n_c.

    class_weight: None, "balanced" (w_c = 1 / n_c up to a factor), or a mapping of labels to weights >= 0, 1 for a label
    it lacks. codes: (n,) class numbers. weight: (n,) >= 0, or None.
    Raises: OptionError where more than one is stated.
    """
    others = objective_of(objective) is not None
    if class_weight is None:
        if objective_class is None:
            return objective
        if others:
            raise OptionError(
                f"objective={objective!r} and objective_class={objective_class!r} are two objectives; keep one of them."
            )
        return ClassLoss(objective_class)
    if others or objective_class is not None:
        raise OptionError("class_weight weighs the loss; leave objective and objective_class out beside it.")
    factor, share = np.ones(len(classes)), np.bincount(codes, weights=weight, minlength=len(classes))
    if isinstance(class_weight, str) and class_weight == "balanced":
        factor = np.divide(1.0, share, out=np.zeros(len(classes)), where=share > 0)
    elif not isinstance(class_weight, Mapping):
        raise OptionError(
            f"class_weight must be None, 'balanced' or a dict of labels to weights, got {class_weight!r}."
        )
    else:
        for label, value in class_weight.items():
            if not isinstance(value, numbers.Real) or not 0 <= float(value) < np.inf:
                raise OptionError(f"class_weight[{label!r}] must be a number >= 0, got {value!r}.")
            factor[class_number(label, codes, classes)] = float(value)
    weighed_share = share * factor
    if not weighed_share.sum() > 0:
        raise OptionError("class_weight gives every row the weight 0.")
    return ClassLosses(tuple((weighed_share / weighed_share.sum()).tolist()))
