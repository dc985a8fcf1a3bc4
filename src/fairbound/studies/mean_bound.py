"""One constraint in place of many: the mean of all constraints of a problem, as equation (18) of PLADA is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from fairbound.problems.base import DATA, BaseProblem
from fairbound.problems.problem import Evaluation, Measured, Problem, Weights


class MeanBound(BaseProblem):
    """min f(x) subject to (g_1(x) + ... + g_m(x)) / m <= 0, from a problem with m constraints on the same rows.

    The mean of the constraints of groups that a batch lacks is that of the others; where it lacks all, it is not seen.
    """

    def __init__(self, inner: Problem):
        self._say_as(inner, DATA)
        self.inner, self.m, self.names = inner, 1, ("mean of all constraints",)
        self.bounds, self.dual_scale = (
            torch.as_tensor(its).mean(-1, keepdim=True) if isinstance(its, Tensor) and its.dim() else its
            for its in (inner.bounds, inner.dual_scale)
        )

    def start(self, seeds: Sequence[int]) -> Tensor:
        return self.inner.start(seeds)

    def sample(self, seeds: Sequence[int], name: str, k: int, size: int, kind: str) -> Any:
        return self.inner.sample(seeds, name, k, size, kind)

    def values(self, x: Tensor, batch: Any, true: bool = False) -> Evaluation:
        return _mean(self.inner.values(x, batch, true))

    def gradient(
        self, x: Tensor, batch: Any, weights: Weights | Callable[[Evaluation], Weights]
    ) -> tuple[Evaluation | None, Tensor]:
        found: Evaluation | None = None

        def spread(e: Evaluation) -> Weights:
            nonlocal found
            found = _mean(e)
            w0, w = weights(found) if callable(weights) else weights
            return w0, None if w is None else w * _shares(e)

        gradient = self.inner.gradient(x, batch, spread)[1]
        return found if callable(weights) else None, gradient

    def evaluate(self, x: Tensor) -> Measured:
        measured = self.inner.evaluate(x)
        return replace(measured, g=measured.g.mean(-1, keepdim=True))


def _shares(e: Evaluation) -> Tensor:
    """(..., m) the weight of each constraint in the mean of those that were seen."""
    seen = torch.ones_like(e.g) if e.seen is None else e.seen.to(e.g)
    return seen / seen.sum(-1, keepdim=True).clamp_min(1)


def _mean(e: Evaluation) -> Evaluation:
    seen = None if e.seen is None else e.seen.any(-1, keepdim=True)
    return Evaluation(e.f, (e.g * _shares(e)).sum(-1, keepdim=True), seen)
