"""Sets X that are easy to project on, each with its geometry: all space, box, ball, simplex, and products of them.

Mirror steps need more of a set than its projection: a distance-generating function omega, which gives

    V(x, z) = omega(z) - omega(x) - <grad omega(x), z - x>
    prox    = argmin_{z in X} <zeta, z> + V(x, z)
    D^2     = max_X omega - min_X omega

    omega(x) = |x - c|^2 / 2         Space (c = 0), Box (c its midpoint), Ball (c its centre), any set that projects
    omega(x) = sum_j x_j ln x_j      Simplex
    omega(x) = sum_b omega_b(x_b)    Product

Source: Lin, Nadarajah, Soheili, Yang (2020), section 3; Nemirovski et al. (2009).
Departs: the source has |x|^2 / 2. Centred on a box or ball D is never larger, and the same where the set is symmetric
around
    0. In a box with an infinite side, and in other sets, c is the point nearest to 0.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fairbound.base.errors import OptionError

AT = 0.01
"""Share of a set's size within which a point is at one of its sides."""

MOST_SIDES = 512
ROUNDING = 1e-9


class Domain(ABC):
    """A closed convex set in R^n. A set of your own needs `project` alone; its geometry is then Euclidean, its diameter
    and its linear minima unknown (infinite), its sides too."""

    @abstractmethod
    def project(self, x: Tensor) -> Tensor:
        """The nearest point of the set to every x (..., n), of the same shape; runs are projected each by itself."""

    def prox_centre(self, like: Tensor) -> Tensor:
        """argmin of omega over the set, with the shape (..., n), dtype and device of `like`."""
        return self.project(torch.zeros_like(like))

    def prox(self, x: Tensor, zeta: Tensor) -> Tensor:
        """argmin_{z in X} <zeta, z> + V(x, z) for x, zeta (..., n); of the same shape."""
        return self.project(x - zeta)

    def squared_diameter(self, n: int) -> float:
        """D^2 of the set in R^n; infinite for an unbounded set, and for one whose diameter is not known."""
        return math.inf

    def modulus(self) -> float:
        """alpha > 0: omega is alpha-strongly convex in |.|_2 (simplex: |.|_1;
        product: the root of the sum of squares)."""
        return 1.0

    def minimise_linear(self, slope: Tensor) -> Tensor:
        """(...,) the minimum over the set of <slope, x> for slope (..., n).

        -inf where the set is unbounded below along a slope, and for a set whose minima are not known.
        """
        return slope.new_full(slope.shape[:-1], -torch.inf)

    def sides(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The sides that x (n,) is at, to within a hundredth of the set's size: (k, n) unit normals that point outwards,
        and (k,) the distances to them. None for a set whose sides are not known."""
        return x.new_zeros(0, x.shape[-1]), x.new_zeros(0)


@dataclass(frozen=True)
class Space(Domain):
    """All of R^n: nothing is projected."""

    def project(self, x: Tensor) -> Tensor:
        """x (..., n) itself."""
        return x

    def minimise_linear(self, slope: Tensor) -> Tensor:
        """(...,) 0 at slope 0, else -inf."""
        return torch.where((slope == 0).all(-1), 0.0, -torch.inf).to(slope.dtype)


@dataclass(frozen=True)
class Box(Domain):
    """An interval for every entry: lower <= x <= upper, numbers or (n,) tensors; infinite sides are allowed."""

    lower: float | Tensor
    upper: float | Tensor

    def __post_init__(self) -> None:
        if bool(torch.any(torch.as_tensor(self.lower) > torch.as_tensor(self.upper))):
            raise OptionError(f"a box needs lower <= upper, got {self.lower} and {self.upper}.")

    def project(self, x: Tensor) -> Tensor:
        """x (..., n) with every entry moved to the nearest end of its interval where it lies outside."""
        return x.clamp(self.lower, self.upper)  # type: ignore[arg-type]

    def prox_centre(self, like: Tensor) -> Tensor:
        """(..., n) the midpoint; where a side is infinite the point nearest to 0."""
        lower, upper = self._ends(like)
        nearest = torch.minimum(torch.maximum(torch.zeros_like(like), lower), upper)
        middle = torch.where(torch.isfinite(lower + upper), (lower + upper) / 2, nearest)
        return middle.expand_as(like).clone()

    def squared_diameter(self, n: int) -> float:
        """An eighth of the summed squares of the n widths."""
        upper, lower = (torch.as_tensor(side, dtype=torch.float64) for side in (self.upper, self.lower))
        return float((upper - lower).square().expand(n).sum()) / 8

    def minimise_linear(self, slope: Tensor) -> Tensor:
        """(...,) the sum over the entries of the smaller of slope * lower and slope * upper."""
        lower, upper = self._ends(slope)
        lowest = torch.where(slope > 0, slope * lower, slope * upper)
        return torch.where(slope == 0, torch.zeros_like(slope), lowest).sum(-1)

    def sides(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(k, n), (k,) of the ends of the intervals, at most MOST_SIDES, the nearest first."""
        lower, upper = (side.expand_as(x) for side in self._ends(x))
        room = torch.cat([x - lower, upper - x])
        width = torch.where(torch.isfinite(upper - lower), upper - lower, torch.zeros_like(x))
        return _near_axes(room, AT * width.repeat(2) + ROUNDING, len(x))

    def _ends(self, like: Tensor) -> list[Tensor]:
        return [torch.as_tensor(side, dtype=like.dtype, device=like.device) for side in (self.lower, self.upper)]


@dataclass(frozen=True)
class Ball(Domain):
    """The points near a centre: |x - centre|_2 <= radius, centre a number or an (n,) tensor."""

    radius: float
    centre: Tensor | float = 0.0

    def __post_init__(self) -> None:
        if not self.radius > 0:
            raise OptionError(f"a ball needs a positive radius, got {self.radius}.")

    def project(self, x: Tensor) -> Tensor:
        """x (..., n), moved towards the centre onto the sphere where it lies outside."""
        away = x - self.centre
        norm = away.norm(dim=-1, keepdim=True)
        return torch.where(norm > self.radius, self.centre + away * (self.radius / norm.clamp_min(1e-300)), x)

    def prox_centre(self, like: Tensor) -> Tensor:
        """(..., n) the ball's centre."""
        return torch.zeros_like(like) + torch.as_tensor(self.centre, dtype=like.dtype, device=like.device)

    def squared_diameter(self, n: int) -> float:
        """Half the squared radius."""
        return self.radius**2 / 2

    def minimise_linear(self, slope: Tensor) -> Tensor:
        """(...,) <slope, centre> - radius |slope|_2."""
        return (slope * self.prox_centre(slope)).sum(-1) - self.radius * slope.norm(dim=-1)

    def sides(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(1, n), (1,) of the sphere where x (n,) is near it."""
        away = x - self.centre
        room = self.radius - away.norm()
        near = bool(room <= AT * self.radius)
        return (away / away.norm())[None][:near], room[None][:near]


@dataclass(frozen=True)
class Simplex(Domain):
    """Shares of a total: x >= 0, sum x = total. Projection by sorting (Held, Wolfe, Crowder 1974)."""

    total: float = 1.0

    def __post_init__(self) -> None:
        if not self.total > 0:
            raise OptionError(f"a simplex needs a positive total, got {self.total}.")

    def project(self, x: Tensor) -> Tensor:
        """[x - c]_+ for x (..., n), with the c of each run that makes the sum `total`."""
        ordered = x.sort(dim=-1, descending=True).values
        excess = ordered.cumsum(-1) - self.total
        count = torch.arange(1, x.shape[-1] + 1, dtype=x.dtype, device=x.device)
        size = (ordered * count > excess).sum(-1, keepdim=True).clamp_min(1)  # 0 by rounding at huge x, or at NaN
        return (x - excess.gather(-1, size - 1) / size).clamp_min(0)

    def prox_centre(self, like: Tensor) -> Tensor:
        """(..., n) all entries equal."""
        return torch.full_like(like, self.total / like.shape[-1])

    def prox(self, x: Tensor, zeta: Tensor) -> Tensor:
        """(..., n) total * softmax(ln x - zeta).

        An entry of x that has underflowed to zero counts as the smallest positive number, so that it can come back; an
        entry of zeta at +inf sends its own to zero.
        """
        return self.total * torch.softmax(x.clamp_min(torch.finfo(x.dtype).tiny).log() - zeta, dim=-1)

    def squared_diameter(self, n: int) -> float:
        """total * ln n."""
        return self.total * math.log(n)

    def modulus(self) -> float:
        """1 / total, in |.|_1 (Pinsker)."""
        return 1 / self.total

    def minimise_linear(self, slope: Tensor) -> Tensor:
        """(...,) total times the smallest entry."""
        return self.total * slope.amin(-1)

    def sides(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(k, n), (k,) of the entries that are nearly 0, beside an even share; and of the plane of the sum,
        both ways."""
        lowest = _near_axes(x, x.new_full(x.shape, AT * self.total / len(x)), len(x))
        across = torch.full_like(x, len(x) ** -0.5)
        return torch.cat([lowest[0], across[None], -across[None]]), torch.cat([lowest[1], x.new_zeros(2)])


@dataclass(frozen=True)
class Product(Domain):
    """Consecutive blocks of x, each in its own set. sizes: length of each block."""

    parts: Sequence[Domain]
    sizes: Sequence[int]

    def __post_init__(self) -> None:
        if len(self.parts) != len(self.sizes):
            raise OptionError(f"{len(self.parts)} sets for {len(self.sizes)} blocks; give one size per set.")

    def project(self, x: Tensor) -> Tensor:
        """Every block of x (..., n) projected on its own set; n is the sum of the sizes."""
        return torch.cat([part.project(block) for part, block in self._blocks(x)], dim=-1)

    def prox_centre(self, like: Tensor) -> Tensor:
        """(..., n) the centres of the parts."""
        return torch.cat([part.prox_centre(block) for part, block in self._blocks(like)], dim=-1)

    def prox(self, x: Tensor, zeta: Tensor) -> Tensor:
        """(..., n) the prox maps of the parts."""
        pairs = zip(self._blocks(x), self._blocks(zeta), strict=True)
        return torch.cat([part.prox(block, z) for (part, block), (_, z) in pairs], dim=-1)

    def squared_diameter(self, n: int) -> float:
        """The sum over the parts."""
        return sum(part.squared_diameter(size) for part, size in zip(self.parts, self.sizes, strict=True))

    def modulus(self) -> float:
        """The least of the parts."""
        return min(part.modulus() for part in self.parts)

    def minimise_linear(self, slope: Tensor) -> Tensor:
        """(...,) the sum of the parts' minima."""
        return torch.stack([part.minimise_linear(block) for part, block in self._blocks(slope)], dim=-1).sum(-1)

    def sides(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(k, n), (k,) those of the parts."""
        normals, distances, at = [], [], 0
        for part, block in self._blocks(x):
            own, room = part.sides(block)
            normals.append(torch.nn.functional.pad(own, (at, len(x) - at - len(block))))
            distances.append(room)
            at += len(block)
        return torch.cat(normals), torch.cat(distances)

    def _blocks(self, x: Tensor) -> list[tuple[Domain, Tensor]]:
        if x.shape[-1] != sum(self.sizes):
            raise OptionError(f"x has {x.shape[-1]} entries, the blocks {sum(self.sizes)}.")
        return list(zip(self.parts, x.split(list(self.sizes), dim=-1), strict=True))


def _near_axes(room: Tensor, near: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Of sides across the axes, those with room (k,) at most `near` (k,): (l, n) their normals and (l,) their room.
    room: of n lower sides, then of n upper ones or none."""
    order = room.argsort()[:MOST_SIDES]
    at = order[room[order] <= near[order]]
    normals = room.new_zeros(len(at), n)
    normals[torch.arange(len(at), device=at.device), at % n] = torch.where(at < n, -1.0, 1.0).to(room)
    return normals, room[at]
