"""Checks of the options that several notions share."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

from fairbound.base.checks import check_choice, positive
from fairbound.base.errors import OptionError
from fairbound.fairness.bound import Bound
from fairbound.fairness.language import Key, number_text, plain_number

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


def check_fewest(bound: Any) -> None:
    """Makes `fewest` an int where it is given. Raises: OptionError where it is no whole number from 1 on."""
    fewest = bound.fewest
    if fewest is None:
        return
    whole = isinstance(fewest, Real) and not isinstance(fewest, bool) and math.isfinite(fewest) and fewest % 1 == 0
    if not whole or fewest < 1:
        shown = number_text(float(fewest)) if isinstance(fewest, Real) else repr(fewest)
        raise OptionError(
            f"fewest must be a whole number of rows, 1 or more, got {shown}; groups of fewer rows are left out of the "
            f"bound, as by fewest=30. To leave none out, say no fewest."
        )
    object.__setattr__(bound, "fewest", int(fewest))


def without_largest(bound: Bound, example: str) -> str:
    """Why the mean of the bound, which has no `largest` yet, has no interval that holds for certain."""
    inside = bound.statement.partition("[")[2].rstrip("]")
    asked = f"{bound.name}[{inside + ',' if inside else ''}largest={example}]"
    return (
        "a mean loss without a largest value has no interval that holds for certain. Say what the largest loss counts as, "
        f"as in {asked!r}."
    )
