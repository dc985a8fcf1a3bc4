"""Labels that are class numbers already, 0, 1, ..., and what to say of those that are not."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fairbound.base.errors import DataError
from fairbound.rows.reading import is_missing

NUMBERS = "residual_gap, group_squared_error or prediction_parity"


class Advice(NamedTuple):
    """What to do where labels of two classes are not 0 and 1, as texts: if some lie `between` 0 and 1, a sentence; if
    there are `more` classes, and if they are `numbers` to predict, the end of one."""

    between: str
    more: str
    numbers: str = f"state bounds on them: {NUMBERS}"


def check_class_numbers(y: np.ndarray, classes: int, advice: Advice) -> None:
    """Raises: DataError, which names some of the others, where labels (n,) are not all among 0, ..., classes - 1."""
    try:
        known = np.isin(y, np.arange(classes))
    except TypeError:  # pandas.NA is neither equal to a number nor not
        known = np.array([not is_missing(v) and v in range(classes) for v in y.tolist()], dtype=bool)
    if known.all():
        return
    others = y[~known]
    shown = sorted(set(others.tolist()), key=str) if others.dtype.kind == "O" else np.unique(others).tolist()
    raise DataError(f"targets must be {said_of(classes)}, got {shown[:5]}.{how_to_pass(shown[:5], classes, advice)}")


def said_of(classes: int) -> str:
    """Which class numbers there are, in words."""
    return "0 or 1" if classes == 2 else f"class numbers 0 to {classes - 1}"


def how_to_pass(labels: list[Any], classes: int, advice: Advice) -> str:
    """What to do about labels that are none of the class numbers, as the end of a message."""
    if any(map(is_missing, labels)):
        return " Drop the rows without a label."
    if classes > 2:
        return ""
    fractions = [v for v in labels if isinstance(v, float) and v % 1]
    if not fractions:
        return (
            f" Of two classes pass targets == POSITIVE, with the value that counts as positive; of more {advice.more}."
        )
    return f" {advice.between}" if all(0 < v < 1 for v in fractions) else f" To predict numbers, {advice.numbers}."
