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
"""Values that tell at first whether any may be so far."""


def far_values(columns: Sequence[Column]) -> list[str]:
    """What is said of columns of numbers, finite or NaN, at most one in twenty of which are far from the others."""
    return [said for column in columns if column.kind == "number" and (said := _of(column.name, column.values))]


def _of(name: str, given: np.ndarray) -> str:
    values = given[:: max(len(given) // LOOKED_AT, 1)].astype(float)
    if len(given) < FEWEST or not _beyond(given, values[np.isfinite(values)], APART / 2)[0]:
        return ""
    known = given[np.isfinite(given)].astype(float)
    count, middle = _beyond(known, known, APART)
    if not count:
        return ""
    low, median, high = middle
    example = known[np.abs(known - median).argmax()]
    return (
        f"column {name!r}: {count:,} of {len(known):,} numbers are as far off as {float(f'{example:.1g}'):g}, while nine of ten lie between "
        f"{low:.2g} and {high:.2g}, which are nearly one value to a linear model then. Are they right? If not, correct them or empty "
        "their cells; else give the logarithm, or cap them."
    )


def _beyond(values: np.ndarray, some: np.ndarray, times: float) -> tuple[int, np.ndarray]:
    """How many of the values (n,) lie so many times as far from the median of `some` (k,) as nine of ten of these are apart,
    none where these are alike; and the ends of the nine, the median between them."""
    if len(some) < FEWEST:
        return 0, np.zeros(3)
    low, median, high = middle = np.quantile(some, (0.05, 0.5, 0.95), method="lower")
    if not low < high:
        return 0, middle
    with np.errstate(invalid="ignore", over="ignore"):
        return int(np.count_nonzero(np.abs(values - median) > times * (high - low))), middle
