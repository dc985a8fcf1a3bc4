"""The inventory program: its identities by loop and by quadrature, its four verbs, its sampling."""

import itertools

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from fairbound.base.errors import NonFiniteError, OptionError
from fairbound.instances.inventory import DEMAND, LEVELS, Inventory, TruncatedNormal, _fixed_part, basis
from fairbound.problems.problem import Problem
from fairbound.problems.wrappers import Counted
from fairbound.solver.solve import solve
from fairbound.testing import check_gradient

COSTS = [(2, 10, 10), (5, 10, 8), (2, 5, 10)]
CORNERS = np.array(list(itertools.product((-10.0, 0.0, 10.0), (0.0, 10.0), (0.0, 10.0))))


def phi(z0, z1, q1):
    """The 18 basis functions as section 6.2 lists them."""
    out = [z0, z1, q1]
    for nu in (5.0, float(DEMAND.quantile(np.array(0.25))), float(DEMAND.quantile(np.array(0.5)))):
        out += [max(z0 - nu, 0), max(z0 + z1 - 2 * nu, 0), max(z0 + z1 + q1 - 3 * nu, 0)]
        out += [max(2 * nu - z0 - z1 - q1, 0), max(nu - z1 - q1, 0)]
    return np.array(out)


def one_draw(state, action, demand, costs):
    """(row of A, entry of b) of a constraint for one demand, term by term from the text."""
    (z0, z1, q1), (hold, dispose, backlog), gamma, least = state, costs, 0.95, -10.0
    left = z1 - max(demand - z0, 0.0)
    cost = (
        gamma**2 * 20 * action
        + hold * max(left, 0.0)
        + backlog * max(demand - z0 - z1, 0.0)
        + dispose * max(z0 - demand, 0.0)
        + 100 * max(least + demand - z0 - z1, 0.0)
    )
    after = phi(max(left, least), q1, action)
    return np.r_[1 - gamma, phi(z0, z1, q1) - gamma * after, -cost]


@pytest.mark.parametrize("costs", COSTS)
@pytest.mark.parametrize("seed", range(5))
def test_matrices_of_a_batch_are_the_mean_over_its_draws(costs, seed):
    problem = Inventory(costs, constraints=40, seed=seed)
    demand = np.r_[DEMAND.quantile(np.random.default_rng(seed).random(17)), 0.0, 10.0, 5.0, 5.0]
    A, b = problem.matrices(problem.batch(demand))
    for i, (state, action) in enumerate(zip(problem.states, problem.actions, strict=True)):
        mean = np.mean([one_draw(state, action, d, costs) for d in demand], axis=0)
        scale = 1e-12 * max(1.0, abs(mean[-1]))  # rounding is relative: b is up to 800
        np.testing.assert_allclose(A[i], mean[:-1], rtol=0, atol=1e-12)
        np.testing.assert_allclose(b[i], mean[-1], rtol=0, atol=scale)


def test_identities_hold_at_the_corners_of_the_state_space():
    states, actions = np.repeat(CORNERS, 2, axis=0), np.tile([0.0, 10.0], len(CORNERS))
    K, k, W, w, thresholds = _fixed_part(states, actions, COSTS[0])
    for demand in (0.0, 2.5, 5.0, 10.0):
        D = np.maximum(thresholds - demand, 0.0)
        found = np.c_[K + D @ W, k - 110.0 * demand + D @ w]
        plain = [one_draw(s, a, demand, COSTS[0]) for s, a in zip(states, actions, strict=True)]
        np.testing.assert_allclose(found, plain, rtol=0, atol=1e-12 * 3000)


@pytest.mark.parametrize("costs", COSTS)
def test_expectation_is_the_integral_over_demand(costs):
    problem = Inventory(costs, constraints=6)
    A, b = problem.matrices()
    law = stats.truncnorm(-2.5, 2.5, loc=5, scale=2)
    for i, (state, action) in enumerate(zip(problem.states, problem.actions, strict=True)):
        z0, z1, q1 = state
        kinks = [z0, z0 + z1, z0 + z1 + 10]
        for nu in (5.0, LEVELS[1]):
            kinks += [z0 + z1 - c for c in (nu, 2 * nu - q1, 3 * nu - q1 - action, 2 * nu - q1 - action)]
        ends = np.unique(np.clip([0.0, 10.0, *kinks], 0.0, 10.0))
        total = sum(
            integrate.quad_vec(lambda d, s=state, a=action: one_draw(s, a, d, costs) * law.pdf(d), low, high)[0]
            for low, high in itertools.pairwise(ends)
        )
        np.testing.assert_allclose(A[i], total[:-1], rtol=0, atol=1e-9)
        np.testing.assert_allclose(b[i], total[-1], rtol=1e-11, atol=1e-9)


@pytest.mark.parametrize("law", [DEMAND, TruncatedNormal(1.0, 0.5, -1.0, 1.2), TruncatedNormal(-3.0, 2.0, 0.0, 4.0)])
def test_shortfall_of_a_truncated_normal(law):
    reference = stats.truncnorm((law.lower - law.centre) / law.scale, (law.upper - law.centre) / law.scale)
    assert abs(law.mean - (law.centre + law.scale * reference.mean())) < 1e-10
    for t in np.linspace(law.lower - 1, law.upper + 1, 9):
        u = (t - law.centre) / law.scale
        low, high = reference.support()
        integral = law.scale * integrate.quad(reference.cdf, low, min(max(u, low), high))[0] + max(t - law.upper, 0.0)
        assert abs(float(law.shortfall(np.array(t))) - integral) < 1e-9
    p = np.linspace(0, 1, 7)
    np.testing.assert_allclose(law.quantile(p), law.centre + law.scale * reference.ppf(p), atol=1e-8)


def test_mean_demand_is_the_median_and_its_basis_functions_coincide():
    assert abs(DEMAND.mean - 5.0) < 1e-12
    assert abs(float(DEMAND.quantile(np.array(0.5))) - 5.0) < 1e-12
    states = np.random.default_rng(0).uniform(-10, 10, (50, 3))
    values = basis(*states.T)
    np.testing.assert_array_equal(values[:, 3:8], values[:, 13:18])
    np.testing.assert_allclose(values, [phi(*s) for s in states], rtol=0, atol=1e-12)


@pytest.mark.parametrize("costs", COSTS)
def test_zero_is_strictly_feasible_since_every_pair_costs_something(costs):
    problem = Inventory(costs)
    measured = problem.evaluate(problem.start((0,)))
    assert float(measured.f) == 0.0
    assert float(measured.g.max()) < 0.0
    np.testing.assert_allclose(measured.g, problem.matrices()[1], rtol=1e-12)


def test_the_box_of_the_source_decides_alone():
    """The objective's least value over the box, 5 |grad f|_1, is the same for all costs."""
    for costs in COSTS:
        problem = Inventory(costs, constraints=10)
        least = -5 * float(
            problem.gradient(problem.start((0,)), problem.sample((0,), "", 0, 1, "full"), (1.0, None))[1].abs().sum()
        )
        assert abs(least + 5 * (1 + phi(5.0, 0.0, 0.0).sum())) < 1e-12
        assert abs(least + 166.70497678983048) < 1e-9


@pytest.mark.parametrize("lead", [(), (3,)])
@pytest.mark.parametrize("kind", ["uniform", "balanced", "full"])
def test_the_verbs_agree_with_the_matrices(lead, kind):
    problem = Inventory(constraints=200)
    assert isinstance(problem, Problem)
    seeds = tuple(range(3)) if lead else (0,)
    batch = problem.sample(seeds, "xi", 4, 30, kind)
    generator = torch.Generator().manual_seed(0)
    x, dx = (torch.randn(*lead, problem.n, dtype=torch.float64, generator=generator) for _ in range(2))
    w = torch.rand(*lead, problem.m, dtype=torch.float64, generator=generator)
    w0 = torch.rand(*lead, 1, dtype=torch.float64, generator=generator) if lead else 0.3
    A, b = problem.matrices(batch)
    g = (A @ x.unsqueeze(-1)).squeeze(-1) + b
    value, jacobian = problem.jacobian(x, batch)
    assert jacobian.shape == (*lead, 1 + problem.m, problem.n)
    torch.testing.assert_close(problem.values(x, batch).g, g, rtol=1e-12, atol=1e-10)
    torch.testing.assert_close(value.g, g, rtol=1e-12, atol=1e-10)
    torch.testing.assert_close(value.f, (jacobian[..., 0, :] * x).sum(-1))
    evaluation, gradient = problem.gradient(x, batch, lambda e: (w0, w))
    torch.testing.assert_close(evaluation.g, g, rtol=1e-12, atol=1e-10)
    weights = torch.cat([torch.as_tensor(w0, dtype=torch.float64).expand(*lead, 1), w], -1)
    torch.testing.assert_close(gradient, (weights.unsqueeze(-2) @ jacobian).squeeze(-2), rtol=1e-11, atol=1e-10)
    torch.testing.assert_close(
        problem.jvp(x, batch, dx), (jacobian @ dx.unsqueeze(-1)).squeeze(-1), rtol=1e-11, atol=1e-10
    )
    evaluation, alone = problem.gradient(x, batch, (1.0, None))
    assert evaluation is None
    torch.testing.assert_close(alone, jacobian[..., 0, :].expand_as(x))
    if kind == "full":
        torch.testing.assert_close(problem.evaluate(x).g, g, rtol=1e-12, atol=1e-10)


def test_a_stack_has_the_batches_of_its_single_runs():
    problem = Inventory(constraints=50)
    for kind in ("uniform", "balanced"):
        stack = problem.sample((3, 8), "xi", 2, 20, kind)
        for i, seed in enumerate((3, 8)):
            single = problem.sample((seed,), "xi", 2, 20, kind)
            assert torch.equal(stack.D[i], single.D) and torch.equal(stack.mean[i], single.mean)
        assert torch.equal(stack.D, problem.sample((3, 8), "xi", 2, 20, kind).D)
        for other in (("xi", 3, 20), ("zeta", 2, 20)):
            assert not torch.equal(stack.D, problem.sample((3, 8), *other, kind).D)


def test_both_kinds_of_sampling_are_unbiased():
    """Integrated over its uniform numbers, a batch has the expectation of one draw; stratified draws scatter less."""
    problem = Inventory(constraints=30)
    fine = (np.arange(20_000) + 0.5) / 20_000  # midpoint rule in p
    expected = problem.matrices()
    whole = problem.matrices(problem.batch(DEMAND.quantile(fine)))
    for found, truth in zip(whole, expected, strict=True):
        torch.testing.assert_close(found, truth, rtol=1e-6, atol=1e-4)
    strata = [problem.matrices(problem.batch(DEMAND.quantile((s + fine) / 4)))[1] for s in range(4)]
    torch.testing.assert_close(torch.stack(strata).mean(0), expected[1], rtol=1e-6, atol=1e-4)
    spread = {}
    for kind in ("uniform", "balanced"):
        b = torch.stack([problem.matrices(problem.sample((0,), "s", k, 100, kind))[1] for k in range(60)])
        error = b.mean(0) - expected[1]
        spread[kind] = b.std(0)
        assert bool((error.abs() <= 6 * b.std(0) / 60**0.5 + 1e-9).all())
    assert float((spread["balanced"] / spread["uniform"].clamp_min(1e-9)).max()) < 0.3


def test_slopes_are_those_of_the_values():
    check_gradient(Inventory(constraints=25))


def test_methods_run_on_it():
    problem = Inventory(constraints=100)
    found = solve(problem, "switching_subgradient", budget="40 steps", batch_size=20, sampling="uniform", seed=(0, 1))
    assert found.x.shape == (2, problem.n)
    assert bool((problem.evaluate(found.x).f <= 0).all())  # feasible at x = 0, where f = 0


def test_counts_of_draws_and_calls():
    problem = Counted(Inventory(constraints=20))
    x, batch = problem.start((0,)), problem.sample((0,), "xi", 0, 100, "uniform")
    problem.values(x, batch)
    problem.gradient(x, batch, (1.0, None))
    problem.jvp(x, batch, x)
    problem.jacobian(x, batch)
    problem.evaluate(x)
    counts = problem.counts
    assert (counts.values, counts.gradients, counts.jvps, counts.jacobians) == (1, 1, 1, 1)
    assert counts.samples == 400


def test_single_precision_follows():
    double, single = Inventory(constraints=100), Inventory(constraints=100, dtype=torch.float32)
    a, b = (p.matrices(p.sample((0,), "xi", 0, 100, "uniform")) for p in (double, single))
    assert b[0].dtype == torch.float32
    for wide, narrow in zip(a, b, strict=True):  # a dozen terms of size at most 100 * 30, each rounded to 2^-24
        torch.testing.assert_close(narrow.double(), wide, rtol=0, atol=12 * 3000 * 2**-24)


def test_errors():
    for wrong in ((1.0, 2.0), (1.0, -2.0, 3.0), (1.0, float("nan"), 3.0)):
        with pytest.raises(OptionError, match="costs are three"):
            Inventory(wrong, constraints=5)
    with pytest.raises(OptionError, match="constraints must be"):
        Inventory(constraints=0)
    with pytest.raises(OptionError, match="box must be"):
        Inventory(constraints=5, box=0.0)
    with pytest.raises(OptionError, match="truncated normal"):
        TruncatedNormal(0.0, 1.0, 2.0, 2.0)
    problem = Inventory(constraints=5)
    with pytest.raises(OptionError, match="unknown sampling"):
        problem.sample((0,), "xi", 0, 10, "bogus")
    with pytest.raises(OptionError, match="at least one draw"):
        problem.sample((0,), "xi", 0, 0, "uniform")
    batch = problem.sample((0,), "xi", 7, 10, "uniform")
    broken = torch.full((19,), float("nan"), dtype=torch.float64)
    with pytest.raises(NonFiniteError, match="batch 7 of stream 'xi'"):
        problem.values(broken, batch)
    with pytest.raises(NonFiniteError, match="gradient"):
        problem.gradient(problem.start((0,)), batch, (float("nan"), None))
