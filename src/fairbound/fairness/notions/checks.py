"""Checks of the options that several notions share."""

from __future__ import annotations

import math
from typing import Any

from fairbound.base.checks import check_choice, positive
from fairbound.base.errors import OptionError
from fairbound.fairness.bound import Bound
from fairbound.fairness.language import Key, plain_number

SMOOTHING = {"surrogate": Key("surrogate"), "sharpness": Key("sharpness", plain_number, repr)}


def check_smoothing(bound: Any, *surrogates: str) -> None:
    """Raises: OptionError for an unknown surrogate of the decision, or a sharpness that is not positive and finite."""
    check_choice("surrogate", bound.surrogate, surrogates)
    positive(bound, "sharpness")


def check_pairwise(bound: Any) -> None:
    """Raises OptionError where a bound that can only compare every two groups says otherwise."""
    if bound.against != "pairwise":
        raise OptionError(f"{bound.name} compares groups pairwise, got {bound.against!r}.")


def check_uncompared(bound: Any) -> None:
    """Raises OptionError where a bound on each group by itself says what to compare groups with."""
    if bound.against != "pairwise":
        raise OptionError(f"{bound.name} compares no groups, so against={bound.against!r} says nothing; leave it out.")


def check_aggregated(bound: Any) -> None:
    """Raises OptionError where a bound on two values joins them in an unknown way, or by a sum against the best."""
    check_choice("aggregated", bound.aggregated, ("max", "sum"))
    if bound.against == "best" and bound.aggregated == "sum":
        raise OptionError(f"against='best' needs one best-off group; {bound.name}[sum] has none. Use 'pairwise'.")


def check_largest(largest: float | None) -> None:
    """Raises: OptionError where `largest` is given and is no positive number."""
    if largest is not None and not 0 < largest < math.inf:
        raise OptionError(f"largest must be a positive number, got {largest!r}; a loss above it counts as it.")


def without_largest(bound: Bound, example: str) -> str:
    """Why the mean of the bound, which has no `largest` yet, has no interval that holds for certain."""
    inside = bound.statement.partition("[")[2].rstrip("]")
    asked = f"{bound.name}[{inside + ',' if inside else ''}largest={example}]"
    return (
        "a mean loss without a largest value has no interval that holds for certain. Say what the largest loss counts as, "
        f"as in {asked!r}."
    )
