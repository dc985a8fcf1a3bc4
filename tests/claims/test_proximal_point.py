"""ConEx, IPP-ConEx, IPP-SSG and the multiplier model against the formulas of their sources, written out by hand."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import fairbound as fb
from fairbound.base.errors import OptionError
from fairbound.methods import ConEx, MultiplierModel, ProximalPoint, SwitchingSubgradient, algorithm
from fairbound.models.mlp import MLP
from fairbound.problems.problem import Draws
from fairbound.testing import PROBLEMS, run


@pytest.mark.parametrize("modulus", [0.0, 0.3])
@pytest.mark.parametrize("name", ["two_sided", "simplex", "weakly_convex_constraint"])
def test_conex_is_algorithm_1_of_its_source(name, modulus):
    problem = PROBLEMS[name]()
    config = ConEx(step_size=0.1, modulus=modulus, dual_step=0.05, output="average")
    full = problem.sample((0,), "a", 0, 1, "full")
    x = problem.start((0,))
    before, l_now, l_before = x, problem.values(x, full).g, problem.values(x, full).g
    y, points, gammas = torch.zeros(problem.m, dtype=torch.float64), [], []
    t0 = 2 / (modulus * 0.1) - 1 if modulus else None
    for t in range(40):
        theta = (t + t0 + 1) / (t + t0 + 2) if modulus else 1.0
        if t:
            l_now = problem.values(before, full).g + problem.jacobian(before, full)[1][1:] @ (x - before)
        tau = 1 / (0.05 * (t + 1)) if modulus else 1 / 0.05
        y = (y + ((1 + theta) * l_now - theta * l_before) / tau).clamp_min(0)
        slopes = problem.jacobian(x, full)[1]
        eta = modulus * (t + t0 + 1) / 2 if modulus else 1 / 0.1
        before, l_before = x, l_now
        x = problem.domain.project(x - (slopes[0] + y @ slopes[1:]) / eta)
        points.append(x)
        gammas.append(t + t0 + 2 if modulus else 1.0)
    state = run(config, problem, 40, sampling="full")
    weights = torch.tensor(gammas, dtype=torch.float64)
    mean = (weights.unsqueeze(1) * torch.stack(points)).sum(0) / weights.sum()
    assert torch.allclose(state.x, x, atol=1e-11) and torch.allclose(state.multipliers, y, atol=1e-11)
    assert torch.allclose(state.point, mean, atol=1e-11)


def test_the_strongly_convex_rule_and_its_mean():
    """Steps min(eta, 2 / (modulus (k + 2))), and the mean weighted k + 1 of the points whose step was on the objective."""
    problem = PROBLEMS["two_sided"]()
    config = SwitchingSubgradient(
        rule="strongly-convex",
        modulus=0.5,
        objective_step=0.3,
        constraint_step=0.2,
        tolerance=1e-3,
        tolerance_from=1000,
    )
    full, x = problem.sample((0,), "a", 0, 1, "full"), problem.start((0,))
    total, weight = torch.zeros_like(x), 0
    for k in range(60):
        e, slopes = problem.jacobian(x, full)
        inside = float(e.g.max()) <= 1e-3
        if inside:
            total, weight = total + (k + 1) * x, weight + k + 1
        size = min(0.3 if inside else 0.2, 2 / (0.5 * (k + 2)))
        x = x - size * (slopes[0] if inside else slopes[1 + int(e.g.argmax())])
    state = run(config, problem, 60, sampling="full")
    assert torch.allclose(state.x, x, atol=1e-12) and torch.allclose(state.point, total / weight, atol=1e-12)


def test_the_tolerance_of_ssg_falls_like_its_steps():
    config = algorithm("switching_subgradient:ssg", tolerance=1e-3)
    assert [config.tolerance_at(k) for k in (0, 3, 999)] == pytest.approx([1e-3, 5e-4, 1e-3 / 1000**0.5])


@pytest.mark.parametrize("preset", ["ssg", "conex"])
def test_centres_move_and_the_inner_method_begins_there(preset):
    """Of 3 centres of 20 steps each the inner run is the one that `run` gives on the problem with both proximal terms."""
    problem = PROBLEMS["weakly_convex_constraint"]()
    config = replace(algorithm(f"proximal_point:{preset}"), rho=0.4, inner_steps=20)
    state = run(config, problem, 60, sampling="full")
    full, centre, y = problem.sample((0,), "a", 0, 1, "full"), problem.start((0,)), torch.zeros(1, dtype=torch.float64)
    draws = Draws(problem, (0,), 8, "full")
    for _ in range(3):
        around = Around(problem, centre, 0.4)
        inner = config.inner.init(around, centre.clone(), draws)
        inner = replace(inner, multipliers=y)
        for _ in range(20):
            inner = config.inner.step(inner, around, draws)
        centre, y = inner.point, inner.multipliers
    assert torch.allclose(state.point, centre, atol=1e-12) and float(problem.values(centre, full).f) < 10


class Around:
    """f + rho/2 |x - c|^2 and g_i + rho/2 |x - c|^2, by hand, of a problem on all of R^n."""

    def __init__(self, inner, centre, rho):
        self.inner, self.centre, self.rho = inner, centre.clone(), rho
        self.m, self.domain, self.bounds = inner.m, inner.domain, 0.0

    def sample(self, *arguments):
        return self.inner.sample(*arguments)

    def values(self, x, batch, true=False):
        e, more = self.inner.values(x, batch), self.rho / 2 * (x - self.centre).square().sum()
        return e._replace(f=e.f + more, g=e.g + more)

    def gradient(self, x, batch, weights):
        e = self.values(x, batch)
        w0, w = weights(e) if callable(weights) else weights
        slopes = self.inner.jacobian(x, batch)[1] + self.rho * (x - self.centre)
        return e, w0 * slopes[0] + (0 if w is None else w @ slopes[1:])

    def jvp(self, x, batch, dx):
        return (self.inner.jacobian(x, batch)[1] + self.rho * (x - self.centre)) @ dx


def test_batches_go_on_over_the_centres():
    """On noisy batches no batch is drawn twice: `Draws.since` numbers those of a new centre on."""
    problem = PROBLEMS["two_sided"](noise=0.1)
    draws = Draws(problem, (0,), 8)
    assert torch.equal(draws.since(5)("xi", 2).value, draws("xi", 7).value)
    assert torch.equal(draws.since(5).since(1)("xi", 1).value, draws("xi", 7).value)
    seen = []
    sample = problem.sample
    problem.sample = lambda seeds, name, k, size, kind: seen.append((name, k)) or sample(seeds, name, k, size, kind)
    run(ProximalPoint(inner_steps=7), problem, 30)
    drawn = [k for name, k in seen if name == "xi"]
    assert drawn == list(range(30))


def fair():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(200, 3))
    race = rng.integers(0, 3, 200)
    y = (X[:, 0] + 0.8 * (race == 1) + rng.normal(size=200) > 0).astype(int)
    return (
        fb.FairProblem(MLP(3), X, y, {"race": race.astype(str)}, "demographic_parity <= 0.05", dtype=torch.float64),
        X,
        race,
    )


def test_descriptions_are_contrasts_of_the_groups_mean_features():
    """Of "a - b" the difference of the groups' mean rows, every column over its largest size."""
    problem, X, race = fair()
    means = {f"race: {g}": X[race == g].mean(0) for g in range(3)}
    expected = []
    for name in problem.names:
        one, _, other = name.partition(": ")[2].partition(" - ")
        expected.append(means[one] - means[other])
    expected = np.array(expected)
    assert np.allclose(problem.descriptions[:, :3].numpy(), expected / np.abs(expected).max(0))


def test_the_network_climbs_the_constraints():
    """One plain dual step is dual_step times the gradient of mean lambda_i g_i in its parameters, by autograd."""
    problem, *_ = fair()
    config = MultiplierModel(hidden=(5,), dual_optimizer="sgd", dual_step=0.7, dual_values="surrogate", margin=0.0)
    draws = Draws(problem, (0,), 8, "full")
    state = config.init(problem, problem.start((0,)), draws)
    w0, x0 = state.network.x.clone(), state.x.clone()
    g = problem.values(x0, draws("a", 0)).g
    w = w0.clone().requires_grad_(True)
    z = problem.descriptions.double()
    hidden = torch.relu(z @ w[: 5 * z.shape[1]].view(5, -1).T + w[5 * z.shape[1] : 5 * z.shape[1] + 5])
    scores = hidden @ w[-6:-1] + w[-1]
    lam = torch.nn.functional.softplus(scores + config.shift)
    (lam * g).mean().backward()
    after = config.step(state, problem, draws)
    assert torch.allclose(after.multipliers, lam.detach(), atol=1e-12)
    assert torch.allclose(after.network.x, w0 + 0.7 * w.grad, atol=1e-12)
    slope = problem.gradient(x0, draws("a", 0), (1.0, lam.detach()))[1]
    assert torch.allclose(after.x, x0 - 0.1 * slope, atol=1e-12)


def test_the_multiplier_model_meets_bounds():
    problem, *_ = fair()
    for sampling in ("full", "balanced"):
        assert fb.solve(problem, "multiplier_model", budget="300 steps", sampling=sampling).found


def test_descriptions_of_the_wrong_number():
    problem = PROBLEMS["two_sided"]()
    with pytest.raises(OptionError, match=r"must be \(2, p\)"):
        run(MultiplierModel(descriptions=((1.0,),)), problem, 1)
    many = PROBLEMS["two_sided"]()
    many.m = 5000
    with pytest.raises(OptionError, match="does not describe"):
        MultiplierModel().described(many, torch.zeros(2))


@pytest.mark.parametrize("wrong", [
    lambda: ConEx(step_size=0.0), lambda: ConEx(modulus=-1.0), lambda: ProximalPoint(rho=0.0),
    lambda: ProximalPoint(inner_steps=0), lambda: MultiplierModel(dual_values="x"), lambda: MultiplierModel(optimizer="none"),
])  # fmt: skip
def test_wrong_options(wrong):
    with pytest.raises(OptionError):
        wrong()
