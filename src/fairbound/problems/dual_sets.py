"""Sets Y of the multipliers in min over x of max over y in Y of y_0 (f(x) - r) + sum_i y_i g_i(x), with their geometry.

The set belongs to the problem (`Problem.dual_set`): a method asks it for a centre, for mirror steps, and for the
largest value of a linear function, and never for its class. Entry 0 belongs to the objective.

A face: a mirror step with an entry of `zeta` at +inf, a support with an entry of G at -inf, and a centre with the entry
in `shut` leave that entry of y at 0. Level-set methods use it for y_0 = 0 while they look for a feasible point.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from fairbound.base.checks import positive
from fairbound.base.errors import OptionError
from fairbound.problems.domain import Simplex


class Support(NamedTuple):
    """value: (...,) the maximum of <y, G> over the set; y: (..., 1 + m) where it is attained."""

    value: Tensor
    y: Tensor


class DualSet(Protocol):
    """A compact convex set in R^(1 + m), and a convex cost d of its members (0 for most sets).

    The value of a point x is the largest <y, G> - d(y) over the set, G being linear in what a batch gives.
    """

    def centre(self, like: Tensor, shut: Tensor | None = None) -> Tensor:
        """argmin of the distance-generating function, shaped like `like` (..., 1 + m).

        shut: (..., 1 + m) bool, the entries that stay 0; None for none.
        """
        ...

    def prox(self, y: Tensor, zeta: Tensor, weight: float | Tensor = 0.0) -> Tensor:
        """argmin_{z in Y} <zeta, z> + weight d(z) + V(y, z) for y, zeta (..., 1 + m) and weight >= 0, a number or
        (...,); an entry of zeta at +inf sends its own to 0."""
        ...

    def cost(self, y: Tensor) -> Tensor:
        """(...,) d(y) of members y (..., 1 + m)."""
        ...

    def support(self, G: Tensor) -> Support:
        """max_{y in Y} <y, G> - d(y) for G (..., 1 + m), and a maximiser; an entry of G at -inf has weight 0."""
        ...

    def highest(self, G: Tensor, margin: Tensor) -> Tensor:
        """(..., 1 + m) of all G' with |G' - G| <= margin in every entry one whose support is the largest; confidence
        margins rest on it."""
        ...

    def squared_diameter(self, size: int) -> float:
        """D_y^2, the range of the distance-generating function over the set in R^size; size = 1 + m."""
        ...


@dataclass(frozen=True)
class DualSimplex:
    """y >= 0, sum y = 1, with the entropy: the support of G is its largest entry,
    the worst of objective and constraints."""

    def centre(self, like: Tensor, shut: Tensor | None = None) -> Tensor:
        """(..., 1 + m) all open entries equal."""
        zeros = torch.zeros_like(like)
        return torch.softmax(zeros if shut is None else zeros.masked_fill(shut, -torch.inf), -1)

    def prox(self, y: Tensor, zeta: Tensor, weight: float | Tensor = 0.0) -> Tensor:
        """(..., 1 + m) proportional to y exp(-zeta)."""
        return Simplex().prox(y, zeta)

    def cost(self, y: Tensor) -> Tensor:
        """0."""
        return y.new_zeros(y.shape[:-1])

    def highest(self, G: Tensor, margin: Tensor) -> Tensor:
        """G + margin, since y >= 0."""
        return G + margin

    def support(self, G: Tensor) -> Support:
        """The largest entry of G (..., 1 + m), (...,), and one at its place, the first of equals."""
        value, place = G.max(-1, keepdim=True)
        return Support(value.squeeze(-1), torch.zeros_like(G).scatter_(-1, place, 1.0))

    def squared_diameter(self, size: int) -> float:
        """ln(1 + m)."""
        return math.log(size)


@dataclass(frozen=True)
class LiftedSimplex:
    """Multipliers y of the simplex, and with them a_j = y_i alpha_j of inner maximisations over |alpha_j| <= reach, j
    of owner i:

        max over (y, a) in Y of  u . y + v . a - d(y, a),    d = curvature sum_j a_j^2 / y_owner(j)

    is max_i u_i + sum_j max over alpha_j of (v_j alpha_j - curvature alpha_j^2), concave in (y, a) jointly where y and
    alpha are not. A member is one vector (..., 1 + m + J), y first. owners: (J,) entries of y; 0 is the objective's.

    The distance is that of omega = K sum_i y_i ln y_i + d with K = 2 (1 + sqrt(2 curvature) reach)^2, strongly convex
    with modulus 1 in |y|_1^2 + curvature |a|_2^2.

    Source: Yao, Lin, Yang (2023), (20) to (26) and Lemmas 3 and 4; Lin, Ma, Yang (2018), Lemma 2. Departs: d carries
    the curvature (their c1), without which Lemma 1 holds for c1 = 1 alone, and so does K.
    """

    owners: tuple[int, ...]
    reach: float
    curvature: float = 1.0

    def __post_init__(self) -> None:
        positive(self, "reach", "curvature")
        if not self.owners or min(self.owners) < 0:
            raise OptionError(f"owners must be entries of y, numbered from 0, got {self.owners!r}.")

    @property
    def entropy_weight(self) -> float:
        """K."""
        return 2 * (1 + math.sqrt(2 * self.curvature) * self.reach) ** 2

    def split(self, members: Tensor) -> tuple[Tensor, Tensor]:
        """y (..., 1 + m) and a (..., J)."""
        return members[..., : -len(self.owners)], members[..., -len(self.owners) :]

    def _of_owners(self, y: Tensor) -> Tensor:
        return y[..., list(self.owners)]

    def alphas(self, members: Tensor) -> Tensor:
        """(..., J) alpha_j = a_j / y_owner(j), 0 where y is."""
        y, a = self.split(members)
        own = self._of_owners(y)
        return torch.where(own > 0, a / own.clamp_min(torch.finfo(own.dtype).tiny), 0.0)

    def _lifted(self, y: Tensor, alpha: Tensor) -> Tensor:
        return torch.cat([y, self._of_owners(y) * alpha], dim=-1)

    def _by_owner(self, values: Tensor, like: Tensor) -> Tensor:
        """(..., 1 + m) sums of the values (..., J) of each owner."""
        return torch.zeros_like(like).index_add(-1, torch.tensor(self.owners, device=like.device), values)

    def centre(self, like: Tensor, shut: Tensor | None = None) -> Tensor:
        """(..., 1 + m + J) all open entries of y equal, a = 0; shut: (..., 1 + m + J),
        of which the first 1 + m are read."""
        y, a = self.split(like)
        return self._lifted(DualSimplex().centre(y, None if shut is None else self.split(shut)[0]), torch.zeros_like(a))

    def prox(self, members: Tensor, zeta: Tensor, weight: float | Tensor = 0.0) -> Tensor:
        """argmin over (y, a) of <zeta, (y, a)> + V + weight d (Lemma 3, with zeta = -tau (u, v) and weight = tau)."""
        y, _ = self.split(members)
        weight = weight.unsqueeze(-1) if isinstance(weight, Tensor) else weight
        (of_y, of_a), before = self.split(zeta), self.alphas(members)
        alpha = ((before - of_a / (2 * self.curvature)) / (1 + weight)).clamp(-self.reach, self.reach)
        cost = of_a * alpha + self.curvature * ((alpha - before).square() + weight * alpha.square())
        new = DualSimplex().prox(y, (of_y + self._by_owner(cost, of_y)) / self.entropy_weight)
        return self._lifted(new, alpha)

    def cost(self, members: Tensor) -> Tensor:
        """(...,) curvature sum_j y_owner(j) alpha_j^2."""
        own = self._of_owners(self.split(members)[0])
        return self.curvature * (own * self.alphas(members).square()).sum(-1)

    def highest(self, G: Tensor, margin: Tensor) -> Tensor:
        """u + its margin, and v moved away from 0 by its own: the support grows with u and with the size of v."""
        u, v = self.split(G)
        of_u, of_v = self.split(margin)
        return torch.cat([u + of_u, v + torch.where(v < 0, -of_v, of_v)], dim=-1)

    def support(self, G: Tensor) -> Support:
        """max over Y of <(y, a), G> - d(y, a) for G = (u, v) (..., 1 + m + J), and where it is attained (Lemma 4)."""
        u, v = self.split(G)
        alpha = (v / (2 * self.curvature)).clamp(-self.reach, self.reach)
        found = DualSimplex().support(u + self._by_owner(alpha * v - self.curvature * alpha.square(), u))
        return Support(found.value, self._lifted(found.y, alpha))

    def squared_diameter(self, size: int) -> float:
        """For members in R^size: K ln(1 + m), and what d adds at the corner with most inner maximisations."""
        most = max(self.owners.count(i) for i in self.owners)
        return self.entropy_weight * math.log(size - len(self.owners)) + self.curvature * most * self.reach**2
