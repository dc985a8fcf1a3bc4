"""Numbers of a training table so far from the others of their column that these are nearly one value to a linear model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairbound.tables.columns import Column

APART = 100.0
"""Times the distance between the 5th and the 95th of a hundred values, at which a value is far from its median."""

FEWEST = 100
"""Values of fewer rows are not looked at: one in twenty of them is hardly one."""

LOOKED_AT = 1000
"""Values that tell between which ends nine of ten lie."""


def far_values(columns: Sequence[Column]) -> list[str]:
    """What is said of columns of numbers, finite or NaN, a few of which are far from the others."""
    return [said for column in columns if column.kind == "number" and (said := far_of(column.name, column.values))]


def far_of(name: str, values: np.ndarray) -> str:
    """The same of one column (n,); "" where nothing is said."""
    known = values[np.isfinite(values)]
    if len(known) < FEWEST:
        return ""
    some = known[:: max(len(known) // LOOKED_AT, 1)].astype(float)
    low, median, high = np.quantile(some, (0.05, 0.5, 0.95), method="lower")
    if not low < high:
        return ""
    with np.errstate(over="ignore"):
        far = np.abs(known - median) > APART * (high - low)
    if not far.any():
        return ""
    farthest = max(float(known.min()), float(known.max()), key=lambda value: abs(value - median))
    return (
        f"column {name!r}: {np.count_nonzero(far):,} of {len(known):,} numbers are as far off as {float(f'{farthest:.1g}'):g}, "
        f"while nine of ten lie between {low:.2g} and {high:.2g}, which are nearly one value to a linear model then. Are they "
        "right? If not, correct them or empty their cells; else give the logarithm, or cap them."
    )
