"""The best iterate that meets the true bounds, and what may be said of it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass
class Best:
    """The best iterate so far: feasible before infeasible; then the lower objective; then the smaller violation.

    x: (..., n); f, violation: (...,) of the rows it was chosen on; step: (...,) where it was met; met: (...,) the last step
    at which any iterate met the bounds, -1 for none.
    """

    x: Tensor
    f: Tensor
    violation: Tensor
    step: Tensor
    met: Tensor

    @classmethod
    def none(cls, x: Tensor) -> Best:
        """Nothing yet but the start x (..., n), which any point with a finite violation beats."""
        lead = x.shape[:-1]
        far = torch.full(lead, math.inf, dtype=torch.float64)
        never = torch.full(lead, -1, dtype=torch.int64)
        return cls(x.clone(), far, far.clone(), never, never.clone())

    @property
    def found(self) -> bool:
        """Whether every run has met the bounds somewhere else than at its start."""
        return bool((self.met > 0).all())

    def offer(self, x: Tensor, f: Tensor, violation: Tensor, step: int) -> None:
        """Take x (..., n) with objective f (...,) and violation (...,) >= 0 where it is better, run by run: one that meets
        the bounds before one that does not, then the lower f, or the smaller violation where neither does."""
        f, violation = f.double().cpu(), violation.double().cpu()
        feasible, was = violation <= 0, self.violation <= 0
        better = (feasible & ~was) | (feasible & was & (f < self.f)) | (~feasible & ~was & (violation < self.violation))
        self.x = torch.where(better.unsqueeze(-1).to(x.device), x, self.x)
        self.f, self.violation = torch.where(better, f, self.f), torch.where(better, violation, self.violation)
        self.step = torch.where(better, torch.full_like(self.step, step), self.step)
        self.met = torch.where(feasible, torch.full_like(self.met, step), self.met)

    def settled(self, step: int) -> bool:
        """Whether every run has met the bounds in the second half of its steps, and so not by an early chance alone."""
        return bool((self.met >= max(1, step // 2)).all())

    def verdict(self, validated: bool) -> str:
        """What may be said of the best iterate; validated: whether it was chosen on validation rows too."""
        where = "the training and the validation rows" if validated else "the training rows"
        missed = ~(self.violation <= 0)
        if not missed.any() and not self.found:
            return (
                f"the bounds are met on {where}, but by no iterate that training reached: only the starting point meets them. Loosen "
                "the bound, train longer, or merge small groups."
            )
        if not missed.any():
            return f"every bound is met on {where}."
        least = float(self.violation[missed].min())
        runs = "" if missed.dim() == 0 else f" in {int(missed.sum())} of {missed.numel()} runs"
        return (
            f"no iterate met every bound on {where}{runs}; the smallest excess reached is {least:.4g} in the units of the "
            "metric. The bound may be infeasible for this model and data: loosen it, train longer, or take another model."
        )
