"""Prox maps, diameters and linear minima of the domains against numeric solvers."""

import itertools
import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from scipy.optimize import linprog, minimize

from fairbound.problems.domain import Ball, Box, Domain, Product, Simplex, Space

BOX = Box(torch.tensor([-1.0, 0.0, 2.0], dtype=torch.float64), torch.tensor([1.0, 0.5, 5.0], dtype=torch.float64))
BALL = Ball(2.0, torch.tensor([1.0, -1.0, 0.0], dtype=torch.float64))
PRODUCT = Product((Box(-1.0, 2.0), Ball(1.5), Simplex(2.0)), (2, 3, 3))
DOMAINS = {
    "space": (Space(), 3),
    "box": (BOX, 3),
    "ball": (BALL, 3),
    "simplex": (Simplex(3.0), 4),
    "product": (PRODUCT, 8),
}


def omega(domain, x):
    """The distance-generating function, written out for numpy."""
    if isinstance(domain, Simplex):
        return float((x * np.log(np.maximum(x, 1e-300))).sum())
    if isinstance(domain, Product):
        blocks = np.split(x, np.cumsum(domain.sizes)[:-1])
        return sum(omega(p, b) for p, b in zip(domain.parts, blocks, strict=True))
    at = domain.prox_centre(torch.tensor(x)).numpy()
    return 0.5 * float(((x - at) ** 2).sum())


def slope(domain, x):
    if isinstance(domain, Simplex):
        return 1 + np.log(x)
    if isinstance(domain, Product):
        blocks = np.split(x, np.cumsum(domain.sizes)[:-1])
        return np.concatenate([slope(p, b) for p, b in zip(domain.parts, blocks, strict=True)])
    return x - domain.prox_centre(torch.tensor(x)).numpy()


def limits(domain, n):
    """Bounds and constraints of the set for scipy's SLSQP."""
    if isinstance(domain, Box):
        sides = [torch.as_tensor(b, dtype=torch.float64).expand(n).tolist() for b in (domain.lower, domain.upper)]
        return list(zip(*sides, strict=True)), []
    if isinstance(domain, Simplex):
        return [(1e-12, None)] * n, [{"type": "eq", "fun": lambda z: z.sum() - domain.total}]
    if isinstance(domain, Ball):
        at = np.zeros(n) + np.asarray(domain.centre)
        return [(None, None)] * n, [{"type": "ineq", "fun": lambda z: domain.radius**2 - ((z - at) ** 2).sum()}]
    if isinstance(domain, Product):
        bounds, rules, first = [], [], 0
        for part, size in zip(domain.parts, domain.sizes, strict=True):
            own, own_rules = limits(part, size)
            bounds += own
            cut = slice(first, first + size)
            rules += [{**r, "fun": lambda z, r=r, cut=cut: r["fun"](z[cut])} for r in own_rules]
            first += size
        return bounds, rules
    return [(None, None)] * n, []


def inside(domain, n, count, rng):
    """Points of the set, its interior for a simplex."""
    if isinstance(domain, Simplex):
        return domain.total * rng.dirichlet(np.ones(n), count)
    if isinstance(domain, Product):
        return np.hstack([inside(p, s, count, rng) for p, s in zip(domain.parts, domain.sizes, strict=True)])
    return domain.project(torch.tensor(rng.normal(0, 3, (count, n)))).numpy()


@pytest.mark.parametrize("name", DOMAINS)
def test_the_prox_map_against_a_numeric_solver(name):
    """Value and point against SLSQP; and the variational inequality, which is exact, at 200 points of the set."""
    (domain, n), rng = DOMAINS[name], np.random.default_rng(0)
    bounds, rules = limits(domain, n)
    for x in inside(domain, n, 5, rng):
        zeta = rng.normal(0, 2, n)
        z = domain.prox(torch.tensor(x), torch.tensor(zeta)).numpy()

        def value(z, x=x, zeta=zeta):
            return zeta @ z + omega(domain, z) - omega(domain, x) - slope(domain, x) @ (z - x)

        found = minimize(
            value, x, bounds=bounds, constraints=rules, method="SLSQP", options={"ftol": 1e-13, "maxiter": 500}
        )
        assert value(z) <= found.fun + 1e-8 and np.abs(z - found.x).max() < 1e-3
        moved = inside(domain, n, 200, rng) - z
        assert (moved @ (zeta + slope(domain, z) - slope(domain, x)) >= -1e-9).all()
    stack = torch.tensor(inside(domain, n, 4, rng))
    zeta = torch.tensor(rng.normal(0, 1, (4, n)))
    each = torch.stack([domain.prox(x, s) for x, s in zip(stack, zeta, strict=True)])
    assert torch.allclose(domain.prox(stack, zeta), each, rtol=0, atol=1e-15)


@pytest.mark.parametrize("name", [n for n in DOMAINS if n != "space"])
def test_diameter_centre_and_strong_convexity(name):
    (domain, n), rng = DOMAINS[name], np.random.default_rng(1)
    c = domain.prox_centre(torch.zeros(n, dtype=torch.float64)).numpy()
    square, points = domain.squared_diameter(n), inside(domain, n, 2000, rng)
    values = np.array([omega(domain, p) for p in points])
    assert (values >= omega(domain, c) - 1e-12).all() and (values - omega(domain, c) <= square + 1e-12).all()
    far = {
        "box": [1.0, 0.5, 5.0],
        "ball": [3.0, -1.0, 0.0],
        "simplex": [3.0, 0, 0, 0],
        "product": [2.0, -1.0, 1.5, 0, 0, 2.0, 0, 0],
    }[name]
    assert omega(domain, np.array(far)) - omega(domain, c) == pytest.approx(square, rel=1e-12)

    def squared_norm(domain, d):
        if isinstance(domain, Simplex):
            return np.abs(d).sum() ** 2
        if isinstance(domain, Product):
            blocks = np.split(d, np.cumsum(domain.sizes)[:-1])
            return sum(squared_norm(p, b) for p, b in zip(domain.parts, blocks, strict=True))
        return d @ d

    for x, z in itertools.pairwise(points[:400]):
        bregman = omega(domain, z) - omega(domain, x) - slope(domain, x) @ (z - x)
        assert bregman >= 0.5 * domain.modulus() * squared_norm(domain, z - x) - 1e-9


@pytest.mark.parametrize("name", [n for n in DOMAINS if n != "space"])
def test_the_linear_minimum(name):
    """Box and simplex against HiGHS, the ball at its minimiser, products as sums; never above a point of the set."""
    (domain, n), rng = DOMAINS[name], np.random.default_rng(2)
    slopes = rng.normal(0, 1, (20, n))
    slopes[0, 0] = 0.0
    found = domain.minimise_linear(torch.tensor(slopes)).numpy()
    assert (slopes @ inside(domain, n, 500, rng).T >= found[:, None] - 1e-12).all()
    for s, value in zip(slopes, found, strict=True):
        if name == "box":
            assert value == pytest.approx(linprog(s, bounds=limits(BOX, 3)[0]).fun, abs=1e-10)
        elif name == "simplex":
            assert value == pytest.approx(linprog(s, A_eq=np.ones((1, 4)), b_eq=[3.0]).fun, abs=1e-10)
        elif name == "ball":
            at = BALL.centre.numpy() - 2.0 * s / np.linalg.norm(s)
            assert value == pytest.approx(float(s @ at), abs=1e-12)
        else:
            parts = torch.tensor(s).split([2, 3, 3])
            assert value == pytest.approx(
                sum(float(p.minimise_linear(b)) for p, b in zip(domain.parts, parts, strict=True))
            )


@dataclass(frozen=True)
class Halfspace(Domain):
    """x_1 >= 1: a set this library does not know."""

    def project(self, x):
        return torch.cat([x[..., :1].clamp_min(1), x[..., 1:]], dim=-1)


def test_unbounded_and_unknown_sets():
    x = torch.tensor([[0.0, 0.0], [1.0, 0.0]])
    assert Space().minimise_linear(x).tolist() == [0.0, -math.inf]
    assert Space().squared_diameter(2) == math.inf and Halfspace().minimise_linear(x).tolist() == [-math.inf] * 2
    assert Halfspace().prox_centre(x[0]).tolist() == [1.0, 0.0] and Halfspace().squared_diameter(2) == math.inf
    half_open = Box(torch.tensor([1.0, -1.0]), torch.tensor([math.inf, 3.0]))
    assert half_open.prox_centre(x[0]).tolist() == [1.0, 1.0] and half_open.squared_diameter(2) == math.inf
    assert half_open.minimise_linear(torch.tensor([[0.0, 1.0], [1.0, 1.0], [-1.0, 0.0]])).tolist() == [
        -1.0,
        0.0,
        -math.inf,
    ]


def test_the_entropy_prox_at_the_edge():
    """An entry that underflowed comes back, an infinite price shuts one, and float32 stays in the set."""
    x = torch.tensor([1.0, 0.0, 0.0])
    back = Simplex().prox(x, torch.tensor([200.0, 0.0, 0.0]))
    assert back.tolist() == pytest.approx([0.0, 0.5, 0.5])
    shut = Simplex().prox(torch.full((3,), 1 / 3), torch.tensor([0.0, math.inf, 0.0]))
    assert shut.tolist() == pytest.approx([0.5, 0.0, 0.5])
    huge = Simplex().prox(torch.full((3,), 1 / 3), torch.tensor([1e30, -1e30, 0.0]))
    assert huge.tolist() == [0.0, 1.0, 0.0] and huge.dtype == torch.float32
