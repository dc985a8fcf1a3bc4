"""Projections against the definition of the nearest point, a numeric solver and their Jacobians."""

import numpy as np
import pytest
import torch
from scipy import optimize

from fairbound.base.errors import OptionError
from fairbound.problems.domain import Ball, Box, Product, Simplex, Space

N = 5
CENTRE = torch.tensor([0.5, -1.0, 0.0, 2.0, 0.3], dtype=torch.float64)
LOWER = torch.tensor([-1.0, 0.0, -0.5, -2.0, 0.2], dtype=torch.float64)
DOMAINS = {
    "space": Space(),
    "box": Box(-0.5, 1.0),
    "box by entry": Box(LOWER, LOWER + 0.7),
    "ball": Ball(1.5),
    "ball elsewhere": Ball(0.7, CENTRE),
    "simplex": Simplex(),
    "scaled simplex": Simplex(2.5),
    "product": Product([Simplex(), Box(0.0, 1.0), Ball(1.0)], [2, 1, 2]),
}


def points(count, seed=0, scale=2.0):
    return scale * torch.randn(count, N, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("name", DOMAINS)
def test_a_projection_is_the_nearest_point(name):
    """p = P(x) is nearest exactly if (x - p) . (q - p) <= 0 for every q of the set; P is nonexpansive."""
    domain = DOMAINS[name]
    x, inside = points(200), DOMAINS[name].project(points(300, seed=1, scale=5.0))
    p = domain.project(x)
    angle = (x - p) @ inside.T - ((x - p) * p).sum(-1, keepdim=True)
    assert float(angle.max()) < 1e-12
    assert torch.allclose(domain.project(p), p, rtol=0, atol=1e-15)
    assert torch.allclose(domain.project(inside), inside, rtol=0, atol=1e-15)
    moved = (p[:100] - p[100:]).norm(dim=-1)
    assert bool((moved <= (x[:100] - x[100:]).norm(dim=-1) + 1e-12).all())


@pytest.mark.parametrize("name", ["box", "box by entry", "ball", "ball elsewhere", "simplex", "scaled simplex"])
def test_a_projection_equals_a_numeric_solver(name):
    domain = DOMAINS[name]
    constraints, bounds = [], None
    if isinstance(domain, Box):
        lower, upper = (np.broadcast_to(np.asarray(v), N) for v in (domain.lower, domain.upper))
        bounds = list(zip(lower, upper, strict=True))
    elif isinstance(domain, Ball):
        centre = np.broadcast_to(np.asarray(domain.centre), N)
        constraints = [{"type": "ineq", "fun": lambda v: domain.radius**2 - ((v - centre) ** 2).sum()}]
    else:
        bounds = [(0, None)] * N
        constraints = [{"type": "eq", "fun": lambda v: v.sum() - domain.total}]
    for x in points(10, seed=3).numpy():
        solved = optimize.minimize(lambda v, x=x: ((v - x) ** 2).sum(), np.full(N, 0.3), jac=lambda v, x=x: 2 * (v - x),
                                   bounds=bounds, constraints=constraints, method="SLSQP",
                                   options={"ftol": 1e-14, "maxiter": 500})  # fmt: skip
        assert np.allclose(domain.project(torch.tensor(x)).numpy(), solved.x, atol=1e-5)


@pytest.mark.parametrize("name", DOMAINS)
def test_a_stack_is_projected_row_by_row_and_keeps_its_dtype(name):
    domain, x = DOMAINS[name], points(6)
    assert torch.equal(domain.project(x), torch.stack([domain.project(row) for row in x]))
    if "by entry" not in name and "elsewhere" not in name:
        assert domain.project(x.float()).dtype == torch.float32
    assert torch.equal(domain.project(x.view(2, 3, N)).view(6, N), domain.project(x))


def test_the_jacobian_of_the_simplex_projection():
    """diag(s) - s s' / |s| with s the support (Martins and Astudillo 2016)."""
    for x in points(20, seed=4):
        s = (Simplex().project(x) > 0).double()
        jacobian = torch.autograd.functional.jacobian(Simplex().project, x)
        assert torch.allclose(jacobian, torch.diag(s) - torch.outer(s, s) / s.sum(), atol=1e-15)


def test_the_jacobian_of_the_ball_projection():
    """(r / |x|) (I - x x' / |x|^2) outside, the identity inside."""
    for x in points(20, seed=5):
        norm = x.norm()
        expected = torch.eye(N, dtype=torch.float64)
        if norm > 1.5:
            expected = 1.5 / norm * (expected - torch.outer(x, x) / norm**2)
        assert torch.allclose(torch.autograd.functional.jacobian(Ball(1.5).project, x), expected, atol=1e-14)


def test_edges():
    zero = torch.zeros(3)
    assert torch.equal(Ball(1.0).project(zero), zero)
    assert torch.equal(Ball(0.5, torch.ones(3)).project(torch.ones(3)), torch.ones(3))
    assert torch.equal(Box(1.0, 1.0).project(zero), torch.ones(3))
    assert torch.allclose(Simplex().project(torch.full((3,), -7.0)), torch.full((3,), 1 / 3))
    assert torch.allclose(Simplex().project(torch.tensor([1e6, 0.0, -1e6])), torch.tensor([1.0, 0.0, 0.0]))
    assert torch.equal(Simplex(2.0).project(torch.tensor([5.0])), torch.tensor([2.0]))


def test_wrong_sets_are_refused():
    for make, words in (
        (lambda: Box(1.0, 0.0), "lower <= upper"),
        (lambda: Ball(0.0), "positive radius"),
        (lambda: Simplex(-1.0), "positive total"),
        (lambda: Product([Space()], [1, 2]), "one size per set"),
        (lambda: Product([Space()], [2]).project(torch.zeros(3)), "3 entries"),
    ):
        with pytest.raises(OptionError, match=words):
            make()
