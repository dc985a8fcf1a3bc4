"""Bisection of many intervals at once, so many times as are asked for: the end of an interval hangs on no other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def bisected(outside: Callable[[Any], Any], low: Any, high: Any, times: int) -> tuple[Any, Any]:
    """The ends (...,) of the intervals from `low` to `high`, (...,) or a number, after they are halved `times` times: a
    middle takes the place of the low end where it is `outside`, and of the high end elsewhere."""
    for _ in range(times):
        middle = (low + high) / 2
        moves = outside(middle)
        low, high = np.where(moves, middle, low), np.where(moves, high, middle)
    return low, high
