"""Options of FairClassifier that must fit together, checked before anything is read."""

from __future__ import annotations

import math
from typing import Any

from fairbound.base.errors import OptionError
from fairbound.fairness.bound import Bound
from fairbound.fairness.notions import constraints
from fairbound.methods import algorithm as algorithm_named
from fairbound.models.model import model_of
from fairbound.rows.shards import Shards
from fairbound.solver.budget import Budget


def checked_bounds(stated: Any) -> tuple[Bound, ...]:
    """The bounds of the FairClassifier `stated`, where the options that no other room checks are sound."""
    if stated.sensitive_columns not in ("keep", "drop"):
        raise OptionError(f"sensitive_columns must be 'keep' or 'drop', got {stated.sensitive_columns!r}.")
    if stated.batch_size < 1:
        raise OptionError(f"batch_size must be at least 1, got {stated.batch_size!r}.")
    if stated.certify and stated.distributed:
        raise OptionError(
            "rows are kept apart for a certificate by one process; audit the model on other rows instead."
        )
    if stated.budget is not None:
        Budget.of(stated.budget)
    if stated.algorithm != "auto":
        algorithm_named(stated.algorithm)
    if isinstance(stated.model, str):
        model_of(stated.model, 1)
    return constraints(stated.constraint)


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
