"""Distance-generating functions of the domains: prox maps, diameters, centres and linear minimisation.

    omega(x) = |x - c|^2 / 2         Space (c = 0), Box (c its midpoint), Ball (c its centre), any set that projects
    omega(x) = sum_j x_j ln x_j      Simplex
    omega(x) = sum_b omega_b(x_b)    Product

    V(x, z) = omega(z) - omega(x) - <grad omega(x), z - x>
    prox    = argmin_{z in X} <zeta, z> + V(x, z)
    D^2     = max_X omega - min_X omega

Source: Lin, Nadarajah, Soheili, Yang (2020), section 3; Nemirovski et al. (2009).
Departs: the source has |x|^2 / 2. Centred on a box or ball D is never larger, and the same where the set is symmetric around
    0. In a box with an infinite side, and in other sets, c is the point nearest to 0.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from fairbound.problems.domain import Ball, Box, Domain, Product, Simplex, Space


def centre(domain: Domain, like: Tensor) -> Tensor:
    """argmin of omega over the domain, with the shape (..., n), dtype and device of `like`."""
    match domain:
        case Box():
            lower, upper = (
                torch.as_tensor(b, dtype=like.dtype, device=like.device) for b in (domain.lower, domain.upper)
            )
            nearest = torch.minimum(torch.maximum(torch.zeros_like(like), lower), upper)
            middle = torch.where(torch.isfinite(lower + upper), (lower + upper) / 2, nearest)
            return middle.expand_as(like).clone()
        case Ball():
            return torch.zeros_like(like) + torch.as_tensor(domain.centre, dtype=like.dtype, device=like.device)
        case Simplex():
            return torch.full_like(like, domain.total / like.shape[-1])
        case Product():
            blocks = zip(domain.parts, like.split(list(domain.sizes), dim=-1), strict=True)
            return torch.cat([centre(p, b) for p, b in blocks], dim=-1)
        case _:
            return domain.project(torch.zeros_like(like))


def squared_diameter(domain: Domain, n: int) -> float:
    """D^2 of the domain in R^n; infinite for an unbounded set, and for one this module does not know."""
    match domain:
        case Box():
            width = torch.as_tensor(domain.upper, dtype=torch.float64) - torch.as_tensor(
                domain.lower, dtype=torch.float64
            )
            return float(width.square().expand(n).sum()) / 8
        case Ball():
            return domain.radius**2 / 2
        case Simplex():
            return domain.total * math.log(n)
        case Product():
            return sum(squared_diameter(p, size) for p, size in zip(domain.parts, domain.sizes, strict=True))
        case _:
            return math.inf


def modulus(domain: Domain) -> float:
    """alpha: omega is alpha-strongly convex in |.|_2 (simplex: |.|_1; product: the root of the sum of squares)."""
    match domain:
        case Simplex():
            return 1 / domain.total
        case Product():
            return min(modulus(p) for p in domain.parts)
        case _:
            return 1.0


def prox(domain: Domain, x: Tensor, zeta: Tensor) -> Tensor:
    """argmin_{z in X} <zeta, z> + V(x, z) for x, zeta (..., n).

    On a simplex an entry of x that has underflowed to zero counts as the smallest positive number, so that it can come
    back; an entry of zeta at +inf sends its own to zero.
    """
    match domain:
        case Simplex():
            return domain.total * torch.softmax(x.clamp_min(torch.finfo(x.dtype).tiny).log() - zeta, dim=-1)
        case Product():
            sizes = list(domain.sizes)
            blocks = zip(domain.parts, x.split(sizes, dim=-1), zeta.split(sizes, dim=-1), strict=True)
            return torch.cat([prox(p, b, z) for p, b, z in blocks], dim=-1)
        case _:
            return domain.project(x - zeta)


def linear_minimum(domain: Domain, slope: Tensor) -> Tensor:
    """(...,) min over the domain of <slope, x> for slope (..., n).

    -inf where the domain is unbounded below along a slope, and for a set this module does not know; 0 at slope 0 of R^n.
    """
    match domain:
        case Space():
            return torch.where((slope == 0).all(-1), 0.0, -torch.inf).to(slope.dtype)
        case Box():
            lower, upper = (
                torch.as_tensor(b, dtype=slope.dtype, device=slope.device) for b in (domain.lower, domain.upper)
            )
            lowest = torch.where(slope > 0, slope * lower, slope * upper)
            return torch.where(slope == 0, torch.zeros_like(slope), lowest).sum(-1)
        case Ball():
            return (slope * centre(domain, slope)).sum(-1) - domain.radius * slope.norm(dim=-1)
        case Simplex():
            return domain.total * slope.amin(-1)
        case Product():
            blocks = zip(domain.parts, slope.split(list(domain.sizes), dim=-1), strict=True)
            return torch.stack([linear_minimum(p, b) for p, b in blocks], dim=-1).sum(-1)
        case _:
            return slope.new_full(slope.shape[:-1], -torch.inf)
