"""PLADA against the paper: its equations as identities, Lemmas 3 and 4, Theorems 1 and 2, and optima whose multipliers are known."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

import fairbound as fb
from fairbound.base.errors import OptionError
from fairbound.methods import algorithm
from fairbound.methods.constants import constraint_slope, gradient_lipschitz, squared_norm
from fairbound.methods.plada import PLADA, _stationary
from fairbound.models.mlp import MLP
from fairbound.problems.problem import Draws
from fairbound.testing import PROBLEMS, KnownProblem, Optimum, run

EXACT = {"dual_values": "surrogate", "margin": 0.0, "clip": math.inf, "scaled": False, "balance": None}
WEIGHED = {**EXACT, "balance": 0.5}
SMOOTH = ("active", "inactive", "two_sided", "box", "ball", "simplex")


def states(config, problem, steps, seed=0):
    """The states after 0, 1, ..., `steps` steps on all rows."""
    draws = Draws(problem, (seed,), 8, "full")
    state = config.init(problem, problem.start((seed,)), draws)
    out = []
    for _ in range(steps):
        before = replace(state, x=state.x.clone())
        state = config.step(state, problem, draws)
        out.append((before, replace(state, x=state.x.clone())))
    return out


def lagrangian(config, f, g, u, z, lam, mu):
    """(6)."""
    apart = lam - mu
    return f + lam @ (g + u - z) + mu @ z + config.alpha / 2 * z @ z - config.beta / 2 * apart @ apart


def test_the_iterates_are_those_of_algorithm_1():
    """Lines 3 to 7 in the paper's order, written out by hand with the same start, on a problem with linear constraints and a box."""
    problem, config = PROBLEMS["box"](), PLADA(**EXACT, alpha=3.0, beta=0.2, step_size=0.1, slack_step=0.05, kappa=2.0)
    batch = problem.sample((0,), "full", 0, 1, "full")
    rho = 3.0 / (1 + 3.0 * 0.2)
    theta = problem.start((0,))
    g = problem.values(theta, batch).g
    u, mu, reach = (-g).clamp_min(0), torch.zeros_like(g), g.abs()
    lam = mu + rho * (g + u)
    for k, (_, after) in enumerate(states(config, problem, 60)):
        assert torch.allclose(after.multipliers, lam, atol=1e-12)
        slopes = problem.jacobian(theta, batch)[1]
        theta = problem.domain.project(theta - 0.1 * (slopes[0] + lam @ slopes[1:]))  # line 3, G being linear
        u = torch.minimum((u - 0.05 * lam).clamp_min(0), 2 * reach)  # line 4
        gamma = min(1.0, rho * 2.0 / (k + 1) / float((lam - mu) @ (lam - mu) + 1))
        mu = mu + gamma * (lam - mu) / rho  # line 5
        assert (
            torch.allclose(after.x, theta, atol=1e-12) and torch.allclose(after.u, u) and torch.allclose(after.mu, mu)
        )
        g = problem.values(theta, batch).g
        reach = torch.maximum(reach, g.abs())
        lam = mu + rho * (g + u)  # line 6


@pytest.mark.parametrize("seed", range(3))
def test_equations_7_8_12_and_13(seed):
    """The state solves (8) and (13): lambda maximises the reduced Lagrangian (7), and z minimises (6)."""
    problem, config = PROBLEMS["two_sided"](), PLADA(**EXACT, alpha=2.5, beta=0.3)
    batch = problem.sample((0,), "full", 0, 1, "full")
    generator = torch.Generator().manual_seed(seed)
    assert config.rho == pytest.approx(2.5 / 1.75)
    for before, after in states(config, problem, 20, seed)[::5]:
        e = problem.values(before.x, batch)
        u = (-e.g).clamp_min(0) if before.k == 0 else before.u
        lam, mu, z = after.multipliers, before.mu, after.z
        assert torch.allclose(lam, mu + config.rho * (e.g + u), atol=1e-12)  # (12)
        assert torch.allclose(z, (lam - mu) / config.alpha, atol=1e-12)  # (13)
        value = lagrangian(config, e.f, e.g, u, z, lam, mu)
        apart = lam - mu
        assert float(value) == pytest.approx(float(e.f + lam @ (e.g + u) - apart @ apart / (2 * config.rho)), abs=1e-12)
        for _ in range(5):
            d = torch.randn(2, generator=generator, dtype=torch.float64)
            assert lagrangian(config, e.f, e.g, u, z + 0.1 * d, lam, mu) >= value
            other = lam + 0.1 * d
            assert lagrangian(config, e.f, e.g, u, (other - mu) / config.alpha, other, mu) <= value + 1e-12


@pytest.mark.parametrize("name", ["active", "two_sided", "weakly_convex_constraint", "infeasible"])
def test_lemma_3_and_bounded_multipliers(name):
    """(19a) with its sharper constant, |mu+ - mu| <= delta / 2; (19b); and so |mu| grows like a logarithm even where no point is
    feasible, with lambda within rho |G + u| of it."""
    problem, config = PROBLEMS[name](), PLADA(**EXACT, kappa=3.0)
    batch = problem.sample((0,), "full", 0, 1, "full")
    most = 0.0
    for k, (before, after) in enumerate(states(config, problem, 200)):
        delta, apart = config.kappa / (k + 1), after.multipliers - before.mu
        moved = after.mu - before.mu
        gamma = min(config.dual_step, config.rho * delta / (float(apart @ apart) + 1))
        assert float(moved.norm()) <= delta / 2 + 1e-12
        assert torch.allclose(moved, gamma / config.rho * apart, atol=1e-12)
        assert torch.allclose(after.multipliers - after.mu, (1 - gamma / config.rho) * apart, atol=1e-12)
        most += delta / 2
        u = (-problem.values(before.x, batch).g).clamp_min(0) if k == 0 else before.u
        reach = config.rho * float((problem.values(before.x, batch).g + u).norm())
        assert float(after.mu.norm()) <= most + 1e-12
        assert float(after.multipliers.norm()) <= most + reach + 1e-12


@pytest.mark.parametrize("name", ["active", "two_sided", "simplex"])
def test_lemma_4_the_lagrangian_falls(name):
    """(20) with the step sizes of the theory: L_F = 1, constraints are linear, so that one step solves (9)."""
    problem, config = PROBLEMS[name](), PLADA(**EXACT, kappa=1.0)
    batch = problem.sample((0,), "full", 0, 1, "full")
    slopes = problem.jacobian(problem.start((0,)), batch)[1][1:]
    M = float(torch.linalg.matrix_norm(slopes, 2))
    made = states(config, problem, 300)
    for k, ((now, after), (_, later)) in enumerate(itertools.pairwise(made)):
        e, following = problem.values(now.x, batch), problem.values(after.x, batch)
        u = (-e.g).clamp_min(0) if k == 0 else now.u
        before = lagrangian(config, e.f, e.g, u, after.z, after.multipliers, now.mu)
        behind = lagrangian(config, following.f, following.g, after.u, later.z, later.multipliers, after.mu)
        eta, delta = float(after.eta), config.kappa / (k + 1)
        C1, C2 = 0.5 * (1 / eta - 1 - 3 * config.rho * M**2), 0.5 * (1 / config.tau - 3 * config.rho)
        assert C1 > 0 and C2 > 0
        fall = C1 * float((after.x - now.x).square().sum()) + C2 * float((after.u - u).square().sum())
        assert float(behind - before) <= -fall + (2 * delta**2 + delta) / config.rho + 1e-12


@pytest.mark.parametrize("options", [EXACT, WEIGHED], ids=["as_they_are", "weighed"])
@pytest.mark.parametrize("name", SMOOTH)
def test_known_multipliers_are_found(name, options):
    """Theorem 2, |lambda - mu| -> 0, and the conditions (4) hold at the end with the multipliers of the certificate.

    |lambda - mu| = rho |G + u| falls like k^-kappa while gamma_0 does not bind; after 500 steps 1e-4 leaves room.
    """
    problem = PROBLEMS[name]()
    end = states(PLADA(**options), problem, 500)[-1][1]
    assert float((end.multipliers - end.mu).norm()) < 1e-4
    assert torch.allclose(end.multipliers, problem.optimum.multipliers, atol=1e-3)
    assert float((end.x - problem.optimum.x).norm()) < 1e-3
    batch = problem.sample((0,), "full", 0, 1, "full")
    slopes = problem.jacobian(end.x, batch)[1]
    step = end.x - problem.domain.project(end.x - (slopes[0] + end.multipliers @ slopes[1:]))
    assert float(step.norm()) < 1e-3 and float(problem.values(end.x, batch).g.max()) < 1e-4


def residuals(config, problem, steps):
    """|G_p^{k+1}|^2 of (28) and of the projected gradient in u, of each step; (28) for a problem without a domain."""
    batch = problem.sample((0,), "full", 0, 1, "full")
    out = []
    made = states(config, problem, steps + 1)
    for (now, after), (_, later) in itertools.pairwise(made):
        first, second = (problem.jacobian(s.x, batch)[1] for s in (now, after))
        of_theta = (
            second[0] - first[0] + (later.multipliers @ second[1:] - after.multipliers @ first[1:])
            - (after.x - now.x) / after.eta
        )  # fmt: skip
        of_u = after.u - torch.minimum((after.u - later.multipliers).clamp_min(0), 2 * after.reach)
        out.append(float(of_theta.square().sum() + of_u.square().sum()))
    return np.array(out)


@pytest.mark.parametrize("name", ["active", "two_sided"])
def test_theorem_1_the_averaged_residual_falls(name):
    """As O(log T / T): between T = 50 and 400 it falls at least by their ratio."""
    found = residuals(PLADA(**EXACT, kappa=1.0), PROBLEMS[name](), 400)
    average = found.cumsum() / np.arange(1, len(found) + 1)
    at = [50, 100, 200, 400]
    falls = [average[T - 1] for T in at]
    assert all(a > b for a, b in itertools.pairwise(falls))
    rate = [math.log(T) / T for T in at]
    assert falls[-1] <= falls[0] * rate[-1] / rate[0]


def test_the_inner_steps_solve_the_proximal_problem():
    """(9) with a quadratic G, by a general solver: 300 inner steps come to it, one is the explicit step."""
    problem = PROBLEMS["weakly_convex_constraint"]()
    batch = problem.sample((0,), "full", 0, 1, "full")
    x, lam, eta = torch.tensor([0.4, -0.3], dtype=torch.float64), torch.tensor([0.7], dtype=torch.float64), 0.3
    slope = problem.gradient(x, batch, (1.0, None))[1]

    def inside(at):
        theta = torch.tensor(at, dtype=torch.float64)
        away = theta - x
        return float(slope @ theta + lam @ problem.values(theta, batch).g + away @ away / (2 * eta))

    best = minimize(inside, x.numpy(), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-14, "maxiter": 4000}).x
    for steps, close in ((1, None), (300, 5e-3)):
        config = PLADA(**EXACT, inner_steps=steps, step_size=eta)
        draws = Draws(problem, (0,), 8, "full")
        state = replace(config.init(problem, x.clone(), draws), eta=x.new_full((1,), eta))
        found = x - eta * config._direction(state, problem, batch, lam)
        if close is None:
            assert torch.allclose(found, x - eta * problem.gradient(x, batch, (1.0, lam))[1])
        else:
            assert np.abs(found.numpy() - best).max() < close


def fair(dtype=torch.float64, rows=300):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(rows, 4)) * [1.0, 2.0, 0.5, 1.0]
    race = rng.integers(0, 3, rows)
    y = (X[:, 0] + 0.8 * (race == 1) + rng.normal(size=rows) > 0).astype(int)
    return fb.FairProblem(MLP(4), X, y, {"race": race.astype(str)}, "demographic_parity <= 0.05", dtype=dtype), X


def test_the_constants_are_those_of_the_matrices():
    """At 0 the Hessian of the mean logistic loss is the second moment over 4; M_G is the largest singular value of the Jacobian.
    The power method comes from below; a tenth is what ITERATIONS promises."""
    problem, X = fair()
    x, batch = torch.zeros(5, dtype=torch.float64), problem.sample((0,), "full", 0, 1, "full")
    whole = np.column_stack([X, np.ones(len(X))])
    largest = np.linalg.eigvalsh(whole.T @ whole / len(X) / 4)[-1]
    assert 0.9 * largest <= float(gradient_lipschitz(problem, x, batch)) <= 1.001 * largest
    slopes = problem.jacobian(x, batch)[1][1:]
    largest = float(torch.linalg.matrix_norm(slopes, 2))
    assert 0.9 * largest <= float(constraint_slope(problem, x, batch)) <= 1.001 * largest
    weights = torch.linspace(0.2, 3.0, problem.m, dtype=torch.float64)
    largest = float(torch.linalg.matrix_norm(weights.sqrt().unsqueeze(1) * slopes, 2))
    assert 0.9 * largest <= float(constraint_slope(problem, x, batch, weights)) <= 1.001 * largest


def test_default_steps_are_those_of_the_theory():
    problem, _ = fair()
    state = run(PLADA(), problem, 1, sampling="full")
    config, x = PLADA(), torch.zeros(5, dtype=torch.float64)
    batch = problem.sample((0,), "full", 0, 1, "full")
    L = float(gradient_lipschitz(problem, x, batch))
    weighed = problem.jacobian(x, batch)[1][1:] * torch.as_tensor(problem.dual_scale).sqrt().unsqueeze(-1)
    M = float(torch.linalg.matrix_norm(weighed, 2)) * float(state.share) ** 0.5
    assert pytest.approx(0.5 * L) == M**2
    assert float(state.eta) == pytest.approx(0.9 / (L + 3 * config.rho * M**2))
    plain = run(PLADA(balance=None), problem, 1, sampling="full")
    M = float(constraint_slope(problem, x, batch, problem.dual_scale)) * float(plain.share) ** 0.5
    assert float(plain.eta) == pytest.approx(0.9 / (L + 3 * config.rho * M**2))
    assert config.tau == pytest.approx(0.9 / (3 * config.rho)) and config.rho == pytest.approx(1.1 / 1.11)


@pytest.mark.parametrize(("sampling", "asked"), [("balanced", (256, "balanced")), ("full", (2048, "full"))])
def test_the_constants_of_a_run_on_batches_cost_few_rows(sampling, asked):
    """256 rows where steps are on batches, all of few rows where they are on all."""
    (problem, _), seen = fair(), []

    class Spy(Draws):
        def __call__(self, name, k, size=None, sampling=None):
            seen.append((size, sampling))
            return super().__call__(name, k, size, sampling)

    PLADA().beginning(problem, problem.start((0,)), Spy(problem, (0,), 16, sampling))
    assert seen == [asked]


def line(slope, bound=1.0):
    """min (x - 3)^2 / 2 subject to slope (x - bound) <= 0, from near 0: the optimum is x = bound with (3 - bound) / slope as multiplier."""

    def f(x):
        return [(x[..., 0] - 3).square() / 2, slope * (x[..., 0] - bound)]

    def df(x):
        return [x - 3, torch.full_like(x, slope)]

    best = torch.tensor([bound], dtype=torch.float64)
    y = (3 - bound) / slope
    optimum = Optimum(best, (3 - bound) ** 2 / 2, None, best, (3 - bound) ** 2 / 2, y, "x - 3 + y slope = 0")
    return KnownProblem("line", f, df, [0.0], optimum, 1)


@pytest.mark.parametrize("slope", [0.01, 0.3, 20.0])
def test_the_first_multipliers_make_the_start_stationary(slope):
    """At x the slope of f is x - 3, so that mu = (3 - x) / slope; u is 0 there, lambda follows (12) with rho shared, and a bound that
    pulls the other way gets mu = 0 and u = [-G]_+."""
    problem, config = line(slope), PLADA(**WEIGHED)
    x = float(problem.start((0,)))
    state = states(config, problem, 1)[0][1]
    share = min(max(0.5 / slope**2, 0.01), 100.0)  # L_F = 1
    assert float(state.share) == pytest.approx(share, rel=1e-6)
    assert float(state.multipliers) == pytest.approx((3 - x) / slope + config.rho * share * slope * (x - 1), rel=1e-5)
    away = states(config, line(-slope, bound=-1.0), 1)[0][1]  # x >= -1
    assert float(away.multipliers) == 0 and float(away.mu) == 0 and float(away.u) == pytest.approx(slope * (1 + x))


def test_the_first_multipliers_are_short_where_constraints_go_round_in_a_circle():
    """The gradients of a - b, b - c and c - a sum to 0, so that (1, 0, 0) + t (1, 1, 1) are all as stationary; but for rounding, here
    of 1e-6, with which t = 3,333 would take the last hundredth off the residual."""
    one, two, off = torch.eye(3, dtype=torch.float64)
    g = torch.stack([one, two, -one - two]) - 1e-6 * off
    y = _stationary(torch.stack([-one + 0.01 * off, *g]))
    assert torch.allclose(y, one, atol=0.02)


def test_weighed_constraints_have_no_unit():
    """A constraint stated ten times as steep gives the same iterates, with a tenth of the multiplier, while gamma_0 holds."""
    ends = [states(PLADA(**WEIGHED), line(slope), 100) for slope in (0.3, 3.0)]
    for (_, one), (_, other) in zip(*ends, strict=True):
        assert torch.allclose(one.x, other.x, atol=1e-9)
        assert torch.allclose(one.multipliers, 10 * other.multipliers, atol=1e-8)
    assert float(ends[0][-1][1].x) == pytest.approx(1.0, abs=1e-3)


def test_constraints_that_pull_alike_share_rho():
    """Of m copies of one constraint, in both directions, the share is 2 / m and m M_G^2 = m sum |grad g|^2; of g and -g it is 1."""
    _, X = fair()
    groups = {f"race {i}": np.where(np.arange(len(X)) % 2 == 0, "a", "b") for i in range(10)}
    y = (X[:, 0] > 0).astype(int)
    for copies, expected in ((1, 1.0), (10, 0.1)):
        some = dict(list(groups.items())[:copies])
        made = fb.FairProblem(MLP(4), X, y, some, "demographic_parity <= 0.05", dtype=torch.float64)
        state = run(PLADA(balance=None), made, 1, sampling="full")
        batch = made.sample((0,), "full", 0, 1, "full")
        squares = made.jacobian(torch.zeros(5, dtype=torch.float64), batch)[1][1:].square().sum()
        found = squared_norm(made, torch.zeros(5, dtype=torch.float64), batch)
        # a mean of 8 squares of sums of m = 2 copies random signs: chi-square with 8 degrees, between 1.3 and 24 of 8 but for 1 %
        assert 0.15 * squares < float(found) < 3.1 * squares
        if copies == 1:
            assert float(state.share) == expected
        else:
            steep = float(constraint_slope(made, torch.zeros(5, dtype=torch.float64), batch).square())
            assert float(state.share) == pytest.approx(min(1.0, 2 * float(found) / (steep * made.m)))


def test_eta_is_halved_where_the_lagrangian_rises():
    """Far from the start, where the curvature is 100 times that of the estimate, the step size comes down and the run does not diverge."""

    def f(x):
        away = (x[..., 0] - 0.2).clamp_min(0)
        return [x[..., 0].square() / 2 - x[..., 0] + 50 * away.square(), x[..., 0] - 10]

    def df(x):
        return [x - 1 + 100 * (x - 0.2).clamp_min(0), torch.ones_like(x)]

    best = torch.tensor([21 / 101], dtype=torch.float64)
    optimum = Optimum(
        best, float(f(best)[0]), None, best, float(f(best)[0]), 100.0, "the slope x - 1 + 100 (x - 0.2) is zero"
    )
    made = KnownProblem("steeper", f, df, [-1.0], optimum, 1)
    config = PLADA(**EXACT, alpha=0.01)
    first = run(config, made, 1, sampling="full")
    end = run(config, made, 200, sampling="full")
    assert float(first.eta) > 0.5 and float(end.eta) < 0.1
    assert float((end.x - best).abs()) < 0.05


@pytest.mark.parametrize("sampling", ["full", "balanced", "shuffled"])
def test_the_default_meets_true_bounds_and_lowers_the_loss(sampling):
    problem, _ = fair()
    start = float(problem.evaluate(problem.start((0,))).f)
    for seed in range(2):
        solution = fb.solve(problem, "plada", budget="400 steps", sampling=sampling, seed=seed)
        assert solution.found and float(problem.evaluate(solution.x).f) < start - 0.05


def test_presets_are_table_2():
    for name, values in (
        ("paper", (1e-3, 0.1, 10.0, 0.1, 0.1)),
        ("paper-network", (0.1, 0.01, 10.0, 0.5, 0.1)),
    ):
        made = algorithm(f"plada:{name}")
        assert (made.step_size, made.tau, made.alpha, made.beta, made.dual_step) == values
        assert made.margin == 0 and not made.scaled and made.dual_values == "surrogate"


@pytest.mark.parametrize(
    "options",
    [{"alpha": 0.0}, {"beta": -1.0}, {"dual_step": 1.5}, {"margin": 1.0}, {"step_size": 0.0}, {"inner_steps": 0},
     {"dual_values": "both"}, {"kappa": math.nan}, {"constraint_rows": 0},
     {"alpha": math.inf}, {"alpha": True}, {"inner_steps": 1.5}],
)  # fmt: skip
def test_wrong_options(options):
    with pytest.raises(OptionError):
        PLADA(**options)
