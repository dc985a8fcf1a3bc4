"""Subgradient descent on the objective plus the largest violated bound: the regularised baseline, which promises no
bound.

    x <- Proj_X(x - tau_k grad (f + strength * max(0, g_1, ..., g_m))(x)),   both on one batch

Under a bound of 0, max_i g_i is the disparity itself: of `partial_statistical_parity[...] <= 0` twice the largest
distance of a group's share above a threshold from its level, over the length of the interval; of
`partial_demographic_parity[...] <= 0` the largest difference of two groups' shares.

Source: He, Huang, Yao, Lin (2026), (114), (119) and G.4.2, with sampling="full". Departs: none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fairbound.base.checks import nonnegative
from fairbound.methods.sgd import SGD
from fairbound.problems.problem import Evaluation, Problem, Weights


@dataclass(frozen=True, kw_only=True)
class SGDMaxPenalty(SGD):
    """For bounds as a wish: SGD on the loss plus `strength` times how far the worst bound is broken.

    Take it as the regularised baseline under `partial_*` bounds of 0, with sampling="full", as its source does.
    Formulas and source: help(fairbound.methods.sgd_max_penalty).

    step_size: > 0; the source picks it among 5e-4, 1e-3, 2e-3, 5e-3 on validation rows, and takes the last iterate.
    strength: >= 0, the source's lambda; 0 is SGD.
    optimizer, decay, decay_steps: as in SGD.
    """

    step_size: float = 5e-3
    strength: float = 1.0
    name: ClassVar[str] = "sgd_max_penalty"
    partial: ClassVar[bool] = False
    takes_bounds: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        nonnegative(self, "strength")

    def weights(self, problem: Problem, x: Tensor) -> Callable[[Evaluation], Weights]:
        """The weights of a subgradient of f + strength * max(0, g)."""

        def of(e: Evaluation) -> Weights:
            w = torch.zeros_like(e.g)
            if problem.m:
                worst = e.g.argmax(-1, keepdim=True)
                w.scatter_(-1, worst, self.strength * (e.g.gather(-1, worst) > 0).to(e.g.dtype))
            return 1.0 if x.dim() == 1 else torch.ones_like(x[..., :1]), w

        return of
