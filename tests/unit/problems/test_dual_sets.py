"""The simplex of multipliers against its definition, its faces, and SFLS on another set."""

import math

import pytest
import torch

from fairbound.methods import SFLS, ovsmd
from fairbound.methods.ovsmd import LightTails
from fairbound.problems.dual_sets import DualSimplex, Support
from fairbound.testing import linear_program, run

Y = DualSimplex()


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_the_support_is_the_largest_value_over_the_set_and_is_attained():
    G, points = random(5, 4), torch.softmax(3 * random(300, 4, seed=1), -1)
    value, y = Y.support(G)
    assert (
        torch.equal((y * G).sum(-1), value) and torch.equal(y.sum(-1), torch.ones(5).double()) and bool((y >= 0).all())
    )
    assert bool((points @ G.T <= value + 1e-12).all())


def test_centre_prox_and_diameter_are_those_of_the_entropy():
    y = torch.softmax(random(6, 4), -1)
    zeta = random(6, 4, seed=2)
    z = Y.prox(y, zeta)
    ratio = (z / y).log() + zeta  # constant over the entries: stationarity on the simplex
    assert torch.allclose(ratio, ratio[:, :1].expand(6, 4), rtol=0, atol=1e-12) and torch.allclose(
        z.sum(-1), torch.ones(6).double()
    )
    centre = Y.centre(y)
    assert torch.equal(centre, torch.full((6, 4), 0.25).double())

    def omega(p):
        return torch.special.xlogy(p, p).sum(-1)

    corner = torch.eye(4, dtype=torch.float64)
    assert torch.allclose(omega(corner) - omega(centre[0]), torch.full((4,), Y.squared_diameter(4)).double())
    assert Y.squared_diameter(4) == math.log(4)


def test_a_shut_entry_stays_at_zero():
    shut = torch.tensor([True, False, False])
    centre = Y.centre(torch.zeros(3), shut)
    assert centre.tolist() == [0.0, 0.5, 0.5]
    assert Y.prox(centre, torch.tensor([math.inf, 1.0, 1.0])).tolist() == [0.0, 0.5, 0.5]
    value, y = Y.support(torch.tensor([-math.inf, -2.0, -1.0]))
    assert float(value) == -1 and y.tolist() == [0.0, 0.0, 1.0]


class Scaled:
    """y >= 0, sum y = total: the simplex drawn larger. Its support is `total` times the largest entry."""

    def cost(self, y):
        return Y.cost(y)

    def highest(self, G, margin):
        return Y.highest(G, margin)

    def __init__(self, total):
        self.total = total

    def centre(self, like, shut=None):
        return self.total * Y.centre(like, shut)

    def prox(self, y, zeta, weight=0.0):
        return self.total * Y.prox(y / self.total, zeta)

    def support(self, G):
        value, y = Y.support(G)
        return Support(self.total * value, self.total * y)

    def squared_diameter(self, size):
        return self.total * Y.squared_diameter(size)


def with_set(dual_set, **options):
    problem = linear_program(**options)
    problem.dual_set = dual_set
    return problem


def test_sfls_asks_the_problem_s_set_and_nothing_else():
    """On {sum y = 2} the first call's y is twice the simplex's, and its bound U, the support at the same averages, too."""
    config = SFLS(level=0.0, scaling="none", step_size=0.1)
    one, two = (run(config, with_set(Scaled(total), noise=0.2), 1) for total in (1.0, 2.0))
    assert torch.allclose(two.call.y, 2 * one.call.y, rtol=0, atol=1e-14)
    assert torch.allclose(two.multipliers, one.multipliers, rtol=0, atol=1e-14)  # ratios to y_0
    assert float(two.upper) == pytest.approx(2 * float(one.upper), rel=1e-12) and torch.equal(
        two.call.mean, one.call.mean
    )
    square = ovsmd.rates(with_set(Scaled(2.0)), "diameters")[1] / ovsmd.rates(with_set(Scaled(1.0)), "diameters")[1]
    assert square == pytest.approx(2.0) and LightTails(M_x=1e-9, M_y=1.0, Q=0.0).M(
        with_set(Scaled(2.0))
    ) == pytest.approx(math.sqrt(2 * 2 * math.log(4)), rel=1e-6)


@pytest.mark.parametrize("oracle", ["ovsmd", "smd"])
def test_outer_iterates_are_feasible_on_another_set(oracle):
    problem, seen = with_set(Scaled(0.5)), []

    def look(state):
        if int(state.outer) > len(seen):
            seen.append(problem.evaluate(state.output))

    run(SFLS(oracle=oracle, restart="last"), problem, 1500, sampling="full", after=look)
    assert len(seen) > 3
    assert all(float(e.g.max()) <= 0 and float(e.f) >= problem.optimum.f for e in seen)
