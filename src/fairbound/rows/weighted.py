"""Rows with weights: those of weight 0 are no rows, and are left out before anything else looks at them; the unit of
weights changes nothing; a few of large weight may stand for all."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from fairbound.base.callers import users_line
from fairbound.base.errors import DataError, DataWarning
from fairbound.rows.groups import Groups
from fairbound.rows.reading import plain_column, read_weights, take_rows
from fairbound.rows.shards import ALONE, Shards

LARGE = 0.1
"""Share of all weight from which on a single row has a great say."""
MANY = 100
"""More rows than these are expected to share the weight."""
FEW = 30
"""Rows of equal weight below which many rows tell little."""
BITS, DOUBLE = 33, 53
"""Binary digits of a weight in units of the smallest, which are ten decimal ones, and of a float64."""


def kish_size(weight: np.ndarray) -> float:
    """How many rows of equal weight tell as much of a mean as rows of weights (n,) > 0 do, in [1, n]: Kish's
    (sum w)^2 / sum w^2, for numbers that do not go with the weights."""
    scaled = weight / weight.max()
    return float(scaled.sum() ** 2 / (scaled**2).sum())


def uneven_words(weight: np.ndarray) -> list[str]:
    """A warning where one of many rows of weights (n,) > 0 has more than a tenth of all weight, or all of them tell as much as
    a few rows of equal weight."""
    n, share, size = len(weight), float((weight / weight.sum()).max()), kish_size(weight)
    if n <= MANY or (share <= LARGE and size >= FEW):
        return []
    return [
        f"One of {n:,} rows holds {100 * share:.3g} % of all weight (its weight is {weight.max():.6g}, the median {np.median(weight):.6g}). "
        f"Together they tell as much as {size:.1f} rows of equal weight. Check the column of weights; if it is right, a few rows "
        "decide what is measured and learnt."
    ]


def warn_of_weights(weight: np.ndarray) -> None:
    """Warns: DataWarning with `uneven_words` of the rows of weights (n,) above 0."""
    for said in uneven_words(weight[weight > 0]):
        warnings.warn(said, DataWarning, stacklevel=users_line())


def scaled_weights(weight: np.ndarray | None, shards: Shards = ALONE) -> np.ndarray | None:
    """(n,) weights (n,) >= 0 over their mean in all processes, so that their unit changes no fit: many models shrink less
    where all weights are larger. None where all of them are equal, which is as none.

    They are the same to the last digit in every unit, and multiples of the smallest weight stay exact ones: of the weights
    over the smallest and of its share of the mean those binary digits are kept whose product is exact.
    """
    weight = unequal_weights(weight, shards)
    if weight is None:
        return None
    parts = shards.gather((weight[weight > 0].min(initial=np.inf), weight.sum(), len(weight)))
    units, totals, rows = zip(*parts, strict=True)
    unit = min(units)
    return _rounded(weight / unit, BITS) * _rounded(unit * sum(rows) / sum(totals), DOUBLE - BITS)


def _rounded(values: Any, bits: int) -> Any:
    """Numbers of so many binary digits."""
    digits, exponent = np.frexp(values)
    return np.ldexp(np.round(np.ldexp(digits, bits)), exponent - bits)


def unequal_weights(weight: np.ndarray | None, shards: Shards = ALONE) -> np.ndarray | None:
    """The weights (n,), None for none and where those of all processes are equal."""
    if weight is None:
        return None
    least, largest = zip(*shards.gather((weight.min(), weight.max())), strict=True)
    return None if min(least) == max(largest) else weight


def weights_of_fit(sample_weight: Any, n: int) -> np.ndarray | None:
    """(n,) the weights that a fit was given, None for none.

    Raises: DataError as `read_weights`. Warns: as `warn_of_weights`."""
    if sample_weight is None:
        return None
    weight = read_weights(sample_weight, n)
    warn_of_weights(weight)
    return weight


def weighted_rows(sample_weight: Any, column: Any) -> np.ndarray | None:
    """(k,) the numbers of the rows whose weight is above 0; None where these are all, or no weights are given.

    column: another one of these rows. Raises: DataError as `read_weights`."""
    shape = getattr(column, "shape", None)
    if sample_weight is None or shape == () or not hasattr(column, "__len__"):
        return None
    weight = read_weights(sample_weight, shape[0] if shape else len(column))
    return None if weight.all() else np.flatnonzero(weight)


def column_of_rows(column: Any, rows: np.ndarray, n: int) -> Any:
    """The rows numbered `rows` of a column or a table of n rows, or of a dict of such; None stays.

    Raises: DataError where it has not n rows."""
    if isinstance(column, Mapping):
        return {name: column_of_rows(values, rows, n) for name, values in column.items()}
    if column is None:
        return None
    found = column.shape[0] if hasattr(column, "shape") else len(column)
    if found != n:
        raise DataError(f"sample_weight has {n} rows, and another column {found}.")
    return column.take(rows) if isinstance(column, Groups) else take_rows(column, rows)


def without_weight_0(sample_weight: Any, first: Any, *others: Any) -> tuple[Any, ...]:
    """`sample_weight` (n,) and columns (n, ...), without the rows whose weight is 0."""
    rows, columns = weighted_rows(sample_weight, first), (sample_weight, first, *others)
    if rows is None:
        return columns
    n = plain_column(sample_weight).size
    return tuple(column_of_rows(column, rows, n) for column in columns)
