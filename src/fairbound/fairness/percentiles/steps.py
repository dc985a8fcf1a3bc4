"""Smooth or clipped steps that stand for "above a threshold" in training, and their splits into convex functions.

    clip       min(max(x + 1/2, 0), 1) = max(x + 1/2, 0) - max(x - 1/2, 0)
    logistic   1 / (1 + exp(-x)) = [itself below 0, its tangent 1/2 + x/4 above] - [the tangent less itself above 0, 0 below]

with x = sharpness times the distance to the threshold.

Source: He, Huang, Yao, Lin (2026), Examples D.3 and D.4. Departs: they split the logistic function by rho/2 |w|^2 for a
rho that depends on the data; its own convex and concave halves need none, and lie nearer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, Self

import torch
from torch import Tensor

from fairbound.base.checks import check_choice
from fairbound.fairness.compiled.forms import Sharpened


class Step(Protocol):
    """A step and its parts, of distances x of any shape."""

    def sharpened(self, factor: float) -> Self: ...

    def threshold(self, share: float) -> float:
        """The threshold for which the step of a score of 0 is `share`, in (0, 1)."""
        ...

    def value(self, x: Tensor) -> Tensor: ...
    def slope(self, x: Tensor) -> Tensor: ...

    def parts(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The two convex functions whose difference is `value`."""
        ...

    def slopes(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """A subgradient of each, from above where it bends."""
        ...


@dataclass(frozen=True)
class Clip(Sharpened):
    """min(max(sharpness x + 1/2, 0), 1)."""

    sharpness: float = 1.0

    def threshold(self, share: float) -> float:
        return (0.5 - share) / self.sharpness

    def value(self, x: Tensor) -> Tensor:
        return (self.sharpness * x).add_(0.5).clamp_(0, 1)

    def slope(self, x: Tensor) -> Tensor:
        return (x.abs() < 0.5 / self.sharpness).to(x.dtype).mul_(self.sharpness)

    def parts(self, x: Tensor) -> tuple[Tensor, Tensor]:
        t = self.sharpness * x
        return (t + 0.5).clamp_min_(0), (t - 0.5).clamp_min_(0)

    def slopes(self, x: Tensor) -> tuple[Tensor, Tensor]:
        edge = 0.5 / self.sharpness
        return tuple((x >= end).to(x.dtype).mul_(self.sharpness) for end in (-edge, edge))  # type: ignore[return-value]


@dataclass(frozen=True)
class Logistic(Sharpened):
    """1 / (1 + exp(-sharpness x))."""

    sharpness: float = 1.0

    def threshold(self, share: float) -> float:
        p = min(max(share, 1e-6), 1 - 1e-6)
        return math.log((1 - p) / p) / self.sharpness

    def value(self, x: Tensor) -> Tensor:
        return torch.sigmoid(self.sharpness * x)

    def slope(self, x: Tensor) -> Tensor:
        p = torch.sigmoid(self.sharpness * x)
        return (p - p * p).mul_(self.sharpness)

    def parts(self, x: Tensor) -> tuple[Tensor, Tensor]:
        t = self.sharpness * x
        p = torch.sigmoid(t)
        plus = torch.where(t < 0, p, 0.5 + t / 4)
        return plus, plus - p

    def slopes(self, x: Tensor) -> tuple[Tensor, Tensor]:
        t = self.sharpness * x
        p = torch.sigmoid(t)
        own = p - p * p
        plus = torch.where(t < 0, own, 0.25)
        return self.sharpness * plus, self.sharpness * (plus - own)


STEPS: dict[str, Callable[[float], Step]] = {"clip": Clip, "logistic": Logistic}


def step_named(surrogate: str, sharpness: float) -> Step:
    """The step of this name, "clip" or "logistic". Raises: OptionError for another one."""
    check_choice("surrogate", surrogate, tuple(STEPS))
    return STEPS[surrogate](sharpness)
