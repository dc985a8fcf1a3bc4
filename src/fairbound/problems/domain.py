"""Sets X that are easy to project on: all space, box, ball, simplex, and products of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from fairbound.base.errors import OptionError


class Domain(Protocol):
    def project(self, x: Tensor) -> Tensor:
        """The nearest point of the set, over the last axis of x (..., n)."""
        ...


@dataclass(frozen=True)
class Space:
    """R^n."""

    def project(self, x: Tensor) -> Tensor:
        return x


@dataclass(frozen=True)
class Box:
    """lower <= x <= upper, numbers or (n,) tensors."""

    lower: float | Tensor
    upper: float | Tensor

    def __post_init__(self) -> None:
        if bool(torch.any(torch.as_tensor(self.lower) > torch.as_tensor(self.upper))):
            raise OptionError(f"a box needs lower <= upper, got {self.lower} and {self.upper}.")

    def project(self, x: Tensor) -> Tensor:
        return x.clamp(self.lower, self.upper)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Ball:
    """|x - centre|_2 <= radius."""

    radius: float
    centre: Tensor | float = 0.0

    def __post_init__(self) -> None:
        if not self.radius > 0:
            raise OptionError(f"a ball needs a positive radius, got {self.radius}.")

    def project(self, x: Tensor) -> Tensor:
        away = x - self.centre
        norm = away.norm(dim=-1, keepdim=True)
        return torch.where(norm > self.radius, self.centre + away * (self.radius / norm.clamp_min(1e-300)), x)


@dataclass(frozen=True)
class Simplex:
    """x >= 0, sum x = total. Projection by sorting (Held, Wolfe, Crowder 1974)."""

    total: float = 1.0

    def __post_init__(self) -> None:
        if not self.total > 0:
            raise OptionError(f"a simplex needs a positive total, got {self.total}.")

    def project(self, x: Tensor) -> Tensor:
        ordered = x.sort(dim=-1, descending=True).values
        excess = ordered.cumsum(-1) - self.total
        count = torch.arange(1, x.shape[-1] + 1, dtype=x.dtype, device=x.device)
        size = (ordered * count > excess).sum(-1, keepdim=True).clamp_min(1)  # 0 by rounding at huge x, or at NaN
        return (x - excess.gather(-1, size - 1) / size).clamp_min(0)


@dataclass(frozen=True)
class Product:
    """Consecutive blocks of x, each in its own set. sizes: length of each block."""

    parts: Sequence[Domain]
    sizes: Sequence[int]

    def __post_init__(self) -> None:
        if len(self.parts) != len(self.sizes):
            raise OptionError(f"{len(self.parts)} sets for {len(self.sizes)} blocks; give one size per set.")

    def project(self, x: Tensor) -> Tensor:
        if x.shape[-1] != sum(self.sizes):
            raise OptionError(f"x has {x.shape[-1]} entries, the blocks {sum(self.sizes)}.")
        return torch.cat(
            [p.project(b) for p, b in zip(self.parts, x.split(list(self.sizes), dim=-1), strict=True)], dim=-1
        )
