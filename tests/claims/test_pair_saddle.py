"""The min-max form of the quadratic loss of pairs, and the dual set of its inner maximisations: Lemmas 1 to 4 of Yao et al."""

import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar

from fairbound.base.errors import OptionError
from fairbound.fairness.area_problems.pair_saddle import PairSaddle
from fairbound.fairness.areas.pair_losses import Quadratic
from fairbound.problems.dual_sets import DualSimplex, LiftedSimplex

cvxpy = pytest.importorskip("cvxpy")

CURVATURES = (0.25, 0.5, 1.0, 2.0)
PAIRS = np.array([[[0, 1], [2, 3]], [[1, 0], [3, 2]]])  # the two sides of |AUC(1, 0) - AUC(2, 3)|


def rows(seed, B=60):
    generator = torch.Generator().manual_seed(seed)
    s = 1.5 * torch.randn(B, generator=generator, dtype=torch.float64) + 0.4
    W = (torch.arange(B) % 4 == torch.arange(4)[:, None]).double()
    return s, W / W.sum(-1, keepdim=True)


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("c1", CURVATURES)
def test_lemma_1_the_saddle_value_is_the_double_sum(c1, seed):
    """By minimising and maximising one variable at a time; with - alpha^2, as printed, it is so for c1 = 1 alone."""
    s, W = rows(seed)
    form = PairSaddle(np.array([[[0, 1]]]), c1)
    first, second = (s[w > 0].numpy() for w in W[:2])
    double = np.mean(c1 * (first[:, None] - second - 1) ** 2)
    zero = torch.zeros(1, 1, dtype=torch.float64)

    def F(a, b):
        return float(form.parts(s, W, zero + a, zero + b).F)

    G = float(form.parts(s, W, zero, zero).G)
    a = minimize_scalar(lambda a: F(a, 0.0), method="brent").x
    b = minimize_scalar(lambda b: F(a, b), method="brent").x
    alpha = minimize_scalar(lambda alpha: c1 * alpha**2 - alpha * G, method="brent").x
    assert F(a, b) + alpha * G - c1 * alpha**2 == pytest.approx(double, abs=1e-9)
    printed = F(a, b) + G**2 / 4  # the maximum of alpha G - alpha^2
    assert (abs(printed - double) < 1e-9) == (c1 == 1.0)
    best = form.best(form.parts(s, W, zero, zero).means)
    assert [float(x) for x in best] == pytest.approx([a, b, alpha], abs=1e-6)


@pytest.mark.parametrize("c1", CURVATURES)
def test_sums_of_losses_at_their_saddle_points_are_the_linear_time_table(c1):
    s, W = rows(7)
    form = PairSaddle(PAIRS, c1)
    a, b, alpha = form.best(form.parts(s, W, *torch.zeros(2, 2, 2).double()).means)
    F, G, _ = form.parts(s, W, a, b)
    found = F + (alpha * G - c1 * alpha**2).sum(-1)
    table = Quadratic(c1).table(s, W)[0]
    torch.testing.assert_close(found, torch.stack([sum(table[i, j] for i, j in sums) for sums in PAIRS.tolist()]))


@pytest.mark.parametrize("c1", CURVATURES)
def test_lemma_2_constant_scores_are_feasible_for_c1_up_to_a_half(c1):
    s, W = rows(0)
    form, s = PairSaddle(PAIRS, c1), torch.full_like(s, 3.0)
    a, b, alpha = form.best(form.parts(s, W, *torch.zeros(2, 2, 2).double()).means)
    F, G, _ = form.parts(s, W, a, b)
    value = F + (alpha * G - c1 * alpha**2).sum(-1) - 1
    torch.testing.assert_close(value, torch.full_like(value, 2 * c1 - 1))
    assert bool((value < 0.01).all()) == (c1 <= 0.5)


def test_one_row_at_a_time_is_unbiased_and_slopes_are_differences():
    s, W = rows(1, B=12)
    form, a, b = PairSaddle(PAIRS, 0.7), draw(2, 2, seed=2), draw(2, 2, seed=3)
    whole = form.parts(s, W, a, b)
    single = [form.parts(s[i : i + 1], 12 * W[:, i : i + 1], a, b) for i in range(12)]  # 1 / Pr(set) of a row in it
    torch.testing.assert_close(torch.stack([p.G for p in single]).mean(0), whole.G)
    torch.testing.assert_close(torch.stack([p.F for p in single]).mean(0), whole.F)
    y, lifted = torch.rand(2).double(), draw(2, 2, seed=4)

    def value(s, a, b):
        F, G, _ = form.parts(s, W, a, b)
        return (y * F).sum() + (lifted * G).sum()

    variables = [x.clone().requires_grad_() for x in (s, a, b)]
    expected = torch.autograd.grad(value(*variables), variables)
    for mine, theirs in zip(form.slopes(s, W, a, b, y, lifted), expected, strict=True):
        torch.testing.assert_close(mine, theirs)


# -- the dual set ----------------------------------------------------------------------------------------------------

OWNERS = (0, 1, 1, 2, 2)


def member(seed, Y):
    y = torch.softmax(draw(3, seed=seed), -1)
    alpha = Y.reach * torch.tanh(draw(5, seed=seed + 50))
    return torch.cat([y, y[list(OWNERS)] * alpha])


def distance(Y, z, centre):
    """V of (24) from its definition."""
    (y, _), (y0, _) = Y.split(z), Y.split(centre)
    moved = Y.curvature * (y[list(OWNERS)] * (Y.alphas(z) - Y.alphas(centre)).square()).sum()
    return Y.entropy_weight * (y * (y / y0).log()).sum() + moved


@pytest.mark.parametrize("c1", CURVATURES)
@pytest.mark.parametrize("seed", range(3))
def test_lemma_3_the_step_is_the_solver_s(c1, seed):
    Y = LiftedSimplex(OWNERS, reach=1.5, curvature=c1)
    start, zeta, tau = member(seed, Y), draw(8, seed=seed + 9) * 4, (0.0, 0.3, 2.0)[seed]
    (y0, _), before = Y.split(start), Y.alphas(start).numpy()
    found = Y.prox(start, zeta, tau)
    y, a = cvxpy.Variable(3), cvxpy.Variable(5)
    cost = zeta.numpy()[:3] @ y + zeta.numpy()[3:] @ a + Y.entropy_weight * cvxpy.sum(cvxpy.rel_entr(y, y0.numpy()))
    for j, i in enumerate(OWNERS):
        square = cvxpy.quad_over_lin(a[j], y[i])
        cost += c1 * ((1 + tau) * square - 2 * before[j] * a[j] + before[j] ** 2 * y[i])
    inside = [cvxpy.sum(y) == 1, *(cvxpy.abs(a[j]) <= Y.reach * y[i] for j, i in enumerate(OWNERS))]
    cvxpy.Problem(cvxpy.Minimize(cost), inside).solve(solver="CLARABEL")
    theirs = torch.as_tensor(np.concatenate([y.value, a.value]))
    np.testing.assert_allclose(found.numpy(), theirs.numpy(), atol=3e-4)  # of a value that is flat at its least

    def value(z):
        (_, a), alpha = Y.split(z), Y.alphas(z)
        return float((zeta * z).sum() + distance(Y, z, start) + tau * c1 * (a * alpha).sum())

    assert value(found) == pytest.approx(value(theirs), abs=1e-6)
    for seed in range(20):
        assert value(found) <= value(member(seed + 200, Y)) + 1e-12


@pytest.mark.parametrize("c1", CURVATURES)
def test_lemma_4_the_support_is_the_largest_value_and_is_attained(c1):
    Y = LiftedSimplex(OWNERS, reach=1.2, curvature=c1)
    G = draw(6, 8, seed=4) * 2
    found = Y.support(G)

    def payoff(z, G):
        (y, a), owner = Y.split(z), list(OWNERS)
        own = y[..., owner]
        return (z * G).sum(-1) - c1 * torch.where(own > 0, a.square() / own.clamp_min(1e-300), 0.0).sum(-1)

    torch.testing.assert_close(payoff(found.y, G), found.value)
    others = torch.stack([member(seed, Y) for seed in range(300)])
    corners = torch.stack([torch.cat([e, e[list(OWNERS)] * alpha]) for e in torch.eye(3).double()
                           for alpha in 1.2 * torch.linspace(-1, 1, 41).double()[:, None].expand(41, 5)])  # fmt: skip
    for g, value in zip(G, found.value, strict=True):
        assert bool((payoff(torch.cat([others, corners]), g) <= value + 1e-12).all())
    # of one payoff of each row: max over y in the simplex of max over alpha of y . (u + v alpha - c1 alpha^2)
    u, v = Y.split(G)
    grid = torch.linspace(-1.2, 1.2, 20_001, dtype=torch.float64)
    inner = (v.unsqueeze(-1) * grid - c1 * grid.square()).amax(-1)
    total = torch.stack([u[:, 0] + inner[:, 0], u[:, 1] + inner[:, 1:3].sum(-1), u[:, 2] + inner[:, 3:].sum(-1)], -1)
    torch.testing.assert_close(found.value, total.amax(-1), rtol=0, atol=1e-6)


@pytest.mark.parametrize("c1", CURVATURES)
def test_the_distance_is_strongly_convex_and_bounded_by_the_diameter(c1):
    Y = LiftedSimplex(OWNERS, reach=0.9, curvature=c1)
    centre = Y.centre(torch.zeros(8).double())
    assert centre.tolist() == [1 / 3] * 3 + [0.0] * 5
    for seed in range(40):
        z, w = member(seed, Y), member(seed + 100, Y)
        (y, a), (y2, a2) = Y.split(z), Y.split(w)
        norm = (y - y2).abs().sum() ** 2 + c1 * (a - a2).square().sum()
        assert float(distance(Y, z, w)) >= float(norm) / 2 - 1e-12
        assert float(distance(Y, z, centre)) <= Y.squared_diameter(8) + 1e-12
    corner = torch.cat([torch.tensor([0.0, 1.0, 0.0]), torch.tensor([0.0, 0.9, -0.9, 0.0, 0.0])]).double()
    near = 1e-9 * centre + (1 - 1e-9) * corner
    assert float(distance(Y, near, centre)) == pytest.approx(Y.squared_diameter(8), rel=1e-6)


def test_without_inner_maximisations_that_pay_it_is_the_simplex():
    Y = LiftedSimplex((0, 1), reach=1.0)
    y, zeta = torch.softmax(draw(4, 3), -1), draw(4, 3, seed=1)
    none = torch.zeros(4, 2).double()
    found, _ = Y.split(Y.prox(torch.cat([y, none], -1), torch.cat([zeta * Y.entropy_weight, none], -1)))
    torch.testing.assert_close(found, DualSimplex().prox(y, zeta))
    shut = Y.prox(
        torch.cat([y, none], -1),
        torch.cat([zeta.masked_fill(torch.tensor([True, False, False]), math.inf), none + 1], -1),
    )
    assert not shut[:, [0, 3]].any() and bool(torch.isfinite(shut).all())
    assert Y.support(torch.cat([zeta, none], -1)).value.tolist() == DualSimplex().support(zeta).value.tolist()
    for wrong in ({"owners": ()}, {"owners": (0,), "reach": 0.0}, {"owners": (0,), "curvature": math.inf}):
        with pytest.raises(OptionError, match="must be"):
            LiftedSimplex(**{"reach": 1.0, **wrong})
