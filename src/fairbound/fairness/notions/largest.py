"""The largest that a loss counts as, which a mean needs for a bound that holds for certain."""

from __future__ import annotations

import math

from fairbound.base.errors import OptionError
from fairbound.fairness.bound import Bound


def check_largest(largest: float | None) -> None:
    """Raises: OptionError for what is no largest loss."""
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
