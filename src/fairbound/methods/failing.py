"""The probability that a method's bounds ever fail, and how endlessly many calls share it."""

from __future__ import annotations

import math
from typing import Any, overload

import torch
from torch import Tensor

from fairbound.base.errors import OptionError


@overload
def share_of_failure(delta: float, k: int) -> float: ...
@overload
def share_of_failure(delta: float, k: Tensor) -> Tensor: ...
def share_of_failure(delta: float, k: Any) -> Any:
    """delta_k = delta / 2^(k+1), the probability with which number k = 0, 1, ... may fail; all of them sum to delta.

    k: a number, or int64 (...,), whose shares (...,) are in float64."""
    return delta * torch.exp2(-(k + 1).double()) if isinstance(k, Tensor) else math.ldexp(delta, -(k + 1))


def check_failure(theta: float, delta: float) -> None:
    """Raises: OptionError for a factor theta, within which a bound is to lie, or a probability delta out of range."""
    if not theta > 1:
        raise OptionError(f"theta must be greater than 1, got {theta!r}.")
    if not 0 < delta < 1:
        raise OptionError(f"delta is a probability in (0, 1), got {delta!r}.")
