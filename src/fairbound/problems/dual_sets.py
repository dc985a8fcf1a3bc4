"""Sets Y of the multipliers in min over x of max over y in Y of y_0 (f(x) - r) + sum_i y_i g_i(x), with their geometry.

The set belongs to the problem (`Problem.dual_set`): a method asks it for a centre, for mirror steps, and for the largest value
of a linear function, and never for its class. Entry 0 belongs to the objective.

A face: a mirror step with an entry of `zeta` at +inf, a support with an entry of G at -inf, and a centre with the entry in
`shut` leave that entry of y at 0. Level-set methods use it for y_0 = 0 while they look for a feasible point.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from fairbound.problems.domain import Simplex


class Support(NamedTuple):
    """value: (...,) the maximum of <y, G> over the set; y: (..., 1 + m) where it is attained."""

    value: Tensor
    y: Tensor


class DualSet(Protocol):
    """A compact convex set in R^(1 + m).

    nonnegative: whether y >= 0 for all its members. Then the support grows with G, so that upper bounds on the entries of
    G give an upper bound on the support; confidence margins rest on it.
    """

    @property
    def nonnegative(self) -> bool: ...

    def centre(self, like: Tensor, shut: Tensor | None = None) -> Tensor:
        """argmin of the distance-generating function, shaped like `like` (..., 1 + m).

        shut: (..., 1 + m) bool, the entries that stay 0; None for none.
        """
        ...

    def prox(self, y: Tensor, zeta: Tensor) -> Tensor:
        """argmin_{z in Y} <zeta, z> + V(y, z) for y, zeta (..., 1 + m); an entry of zeta at +inf sends its own to 0."""
        ...

    def support(self, G: Tensor) -> Support:
        """max_{y in Y} <y, G> for G (..., 1 + m), and a maximiser; an entry of G at -inf has weight 0."""
        ...

    def squared_diameter(self, size: int) -> float:
        """D_y^2, the range of the distance-generating function over the set in R^size; size = 1 + m."""
        ...


@dataclass(frozen=True)
class DualSimplex:
    """y >= 0, sum y = 1, with the entropy: the support of G is its largest entry, the worst of objective and constraints."""

    nonnegative = True

    def centre(self, like: Tensor, shut: Tensor | None = None) -> Tensor:
        """(..., 1 + m) all open entries equal."""
        zeros = torch.zeros_like(like)
        return torch.softmax(zeros if shut is None else zeros.masked_fill(shut, -torch.inf), -1)

    def prox(self, y: Tensor, zeta: Tensor) -> Tensor:
        """(..., 1 + m) proportional to y exp(-zeta)."""
        return Simplex().prox(y, zeta)

    def support(self, G: Tensor) -> Support:
        """The largest entry of G (..., 1 + m), (...,), and one at its place, the first of equals."""
        value, place = G.max(-1, keepdim=True)
        return Support(value.squeeze(-1), torch.zeros_like(G).scatter_(-1, place, 1.0))

    def squared_diameter(self, size: int) -> float:
        """ln(1 + m)."""
        return math.log(size)
