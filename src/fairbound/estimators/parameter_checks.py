"""Parameters of estimators that must fit together, checked before anything is read."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

import numpy as np
from torch import nn

from fairbound.base.checks import amount, check_choice
from fairbound.base.errors import OptionError
from fairbound.base.names import plain_repr
from fairbound.fairness.bound import Bound
from fairbound.fairness.notions import constraints
from fairbound.fairness.objectives import objective_of
from fairbound.methods import algorithm as algorithm_named
from fairbound.models.model import model_of
from fairbound.rows.shards import Shards
from fairbound.solver.budget import Budget
from fairbound.tables import TableOptions


def check_options(estimator: Any) -> None:
    """Raises: OptionError for a parameter of an estimator that trains a model itself,
    where it can be seen without rows."""
    check_choice("sensitive_columns", estimator.sensitive_columns, ("keep", "drop"))
    check_choice("on_insufficient", estimator.on_insufficient, ("warn", "raise"))
    size, share, certify = estimator.batch_size, estimator.validation, estimator.certify
    if not isinstance(size, Integral) or size < 1:
        raise OptionError(f"batch_size must be at least 1, a whole number, got {plain_repr(size)}.")
    if share != "auto" and not (isinstance(share, Real) and 0 <= float(share) < 1):
        raise OptionError(f"validation must be 'auto' or a share in [0, 1), got {share!r}.")
    if not isinstance(certify, bool | np.bool_) and not (
        isinstance(certify, Real) and (certify == 0 or 0.5 < float(certify) < 1)
    ):
        raise OptionError(f"certify must be True or a confidence in (0.5, 1), got {certify!r}.")
    if estimator.options is not None and not isinstance(estimator.options, TableOptions):
        raise OptionError(f"options must be a fairbound.tables.TableOptions or None, got {estimator.options!r}.")
    if estimator.budget is not None:
        Budget.of(estimator.budget)
    if estimator.algorithm != "auto":
        algorithm_named(estimator.algorithm)
    if not isinstance(estimator.model, nn.Module):
        model_of(estimator.model, 1)


def classifier_bounds(classifier: Any) -> tuple[Bound, ...]:
    """The bounds of a FairClassifier, where its parameters are sound."""
    check_options(classifier)
    if classifier.certify and classifier.distributed:
        raise OptionError(
            "rows are kept apart for a certificate by one process; audit the model on other rows instead."
        )
    amount("weight_decay", classifier.weight_decay)
    objective_of(classifier.objective)
    stated = constraints(classifier.constraint)
    for bound in stated:
        if "predictions" in bound.needs:
            raise OptionError(
                f"{bound.text!r} speaks of predicted numbers; train them with fairbound.FairRegressor ('fairbound regress')."
            )
    return stated


def check_distributed(shards: Shards, stated: Any) -> None:
    """Raises: OptionError for an option of the FairClassifier `stated` that one process alone can follow."""
    if shards.alone:
        return
    if stated.class_weight == "balanced":
        raise OptionError(
            "class_weight='balanced' counts the classes of one process; give the weights as {label: weight}."
        )
    if stated.use_groups_at_prediction:
        raise OptionError("thresholds of groups are found by one process; leave use_groups_at_prediction=False.")
    if stated.validation not in ("auto", 0, 0.0):
        raise OptionError("several processes hold no rows back; leave validation='auto'.")
    if stated.budget is not None and Budget.of(stated.budget).seconds < math.inf:
        raise OptionError("several processes must stop together; give the budget in steps, like '5000 steps'.")
