"""The baselines of the partial-fairness experiments: quadratic bounds on areas with exact projections, and the largest violation as a
penalty."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

import fairbound as fb
from fairbound.base.errors import OptionError
from fairbound.fairness.area_problems.linear_auc import quadratic_set
from fairbound.fairness.problem import FairProblem
from fairbound.methods import ProjectedGradient, SGDMaxPenalty
from fairbound.models.mlp import MLP
from fairbound.problems.problem import Draws
from fairbound.subproblems.qp import SubproblemError
from fairbound.subproblems.quadratic_set import QuadraticSet


def rows(n=90, seed=0):
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b"], n)
    X = np.column_stack([rng.normal(size=(n, 2)), group == "a"]).astype(float)
    y = (rng.random(n) < 1 / (1 + np.exp(-X[:, 0] - 1.5 * X[:, 2]))).astype(int)
    return X, y, group


def ellipsoids(seed, m=2, d=4):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(m, d, d))
    return QuadraticSet(root @ root.transpose(0, 2, 1) / d, 0.5 * rng.normal(size=(m, d)), -rng.uniform(0.2, 1, m))


# -- projections ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
def test_the_projection_is_the_nearest_point_of_the_set(seed):
    made, rng = ellipsoids(seed), np.random.default_rng(seed)
    for scale in (0.1, 1.0, 30.0):
        v = scale * rng.normal(size=5)
        p = made.project(torch.from_numpy(v)).numpy()
        assert made.values(p[:4]).max() <= 1e-9 and p[4] == v[4]  # what follows is free
        assert np.allclose(made.project(torch.from_numpy(p)).numpy(), p, atol=1e-9)
        known = minimize(
            lambda x, v=v: ((x - v[:4]) ** 2).sum(), np.zeros(4), method="SLSQP", options={"ftol": 1e-14, "maxiter": 500},
            constraints=[{"type": "ineq", "fun": lambda x: -made.values(x)}],
        ).x  # fmt: skip
        assert ((p[:4] - v[:4]) ** 2).sum() <= ((known - v[:4]) ** 2).sum() * (1 + 1e-6) + 1e-7
        for _ in range(50):  # <v - p, z - p> <= 0 for every z in the set
            z = rng.normal(size=4)
            z = z if made.values(z).max() <= 0 else made.project(torch.from_numpy(np.r_[z, 0.0])).numpy()[:4]
            assert (v[:4] - p[:4]) @ (z - p[:4]) <= 1e-7 * (1 + scale)
    both = torch.from_numpy(rng.normal(size=(2, 5)) * 5)
    assert torch.allclose(made.project(both), torch.stack([made.project(x) for x in both]), atol=1e-8)


def test_an_empty_set_and_shapes_that_do_not_fit_are_named():
    with pytest.raises(SubproblemError):
        QuadraticSet(np.eye(2)[None], np.zeros((1, 2)), np.ones(1)).project(torch.ones(2, dtype=torch.float64))
    with pytest.raises(OptionError, match="quadratic set needs"):
        QuadraticSet(np.eye(2)[None], np.zeros((2, 2)), np.ones(2))


@pytest.mark.parametrize("kind", ["group", "inter", "intra"])
def test_the_bounds_are_those_of_the_source_over_all_pairs(kind):
    """(102), (105), (107) with sigma(x) = (1 + x)^2 / 2, by listing all pairs."""
    X, y, group = rows()
    kappa, w = 0.7, np.array([0.4, -0.8, 0.5])
    s = X @ w

    def mean(first, second):
        return (0.5 * (1 + s[first][:, None] - s[second]) ** 2).mean()

    a, b, up = group == "a", group == "b", y == 1
    expected = {
        "group": [mean(a, b) - 0.5, mean(b, a) - 0.5],
        "inter": [mean(a & up, b & ~up) + mean(a & ~up, b & up) - 1, mean(b & up, a & ~up) + mean(b & ~up, a & up) - 1],
        "intra": [mean(a & up, a & ~up) + mean(b & ~up, b & up) - 1, mean(b & up, b & ~up) + mean(a & ~up, a & up) - 1],
    }[kind]  # fmt: skip
    made = quadratic_set(f"auc_parity[{kind},surrogate=quadratic]", X, y, group, kappa)
    assert np.sort(made.values(w)) == pytest.approx(np.sort(np.array(expected)) - kappa, abs=1e-12)


# -- projected gradient ---------------------------------------------------------------------------------------------------


def test_projected_gradient_ends_at_the_constrained_optimum():
    X, y, group = rows(200)
    kappa = 0.3
    made = quadratic_set("auc_parity[group,surrogate=quadratic]", X, y, group, kappa)
    p = FairProblem(MLP(3), X, y, group, [], domain=made, dtype=torch.float64)

    def f(x):
        h = X @ x[:3] + x[3]
        return np.mean(np.logaddexp(0, h) - y * h)

    known = minimize(
        f, np.zeros(4), method="SLSQP", options={"ftol": 1e-12, "maxiter": 300},
        constraints=[{"type": "ineq", "fun": lambda x: -made.values(x[:3])}],
    )  # fmt: skip
    found = fb.solve(p, ProjectedGradient(tolerance=1e-10), budget="400 steps", sampling="full", seed=0)
    x = found.last.double().numpy()
    assert made.values(x[:3]).max() <= 1e-8
    assert f(x) == pytest.approx(known.fun, abs=1e-6)
    assert f(x) > f(fb.solve(FairProblem(MLP(3), X, y, group, [], dtype=torch.float64), ProjectedGradient(),
                             budget="200 steps", sampling="full", seed=0).last.numpy()) + 1e-3  # fmt: skip


def test_a_step_too_long_is_shortened_and_the_objective_falls():
    X, y, group = rows()
    p = FairProblem(MLP(3), X, y, group, [], dtype=torch.float64)
    draws, method = Draws(p, (0,), 1, "full"), ProjectedGradient(step_size=1e6)
    state, seen = method.init(p, p.start([0]), draws), []
    for _ in range(20):
        seen.append(float(p.values(state.x, p.full()).f))
        state = method.step(state, p, draws)
    assert all(b <= a + 1e-12 for a, b in pairwise(seen)) and seen[-1] < seen[0] - 0.05
    assert state.length < 1e3


# -- the largest violation as a penalty -----------------------------------------------------------------------------------


def test_the_penalty_on_an_interval_is_that_of_the_source():
    """(114) and (119), written out in numpy."""
    X, y, group = rows(150)
    alpha, beta, strength = 0.1, 0.5, 0.7
    sigma = lambda v: np.clip(v + 0.5, 0, 1)  # noqa: E731
    for name, points in (("partial_statistical_parity", "points=10,"), ("partial_demographic_parity", "")):
        text = f"{name}[{alpha}:{beta},{points}surrogate=clip,sharpness=1] <= 0"
        p = FairProblem(MLP(3), X, y, group, text, dtype=torch.float64)
        levels = alpha + (beta - alpha) * np.arange(1, 11) / 11

        def written(x, name=name, levels=levels):
            h = X @ x[:3] + x[3]
            f = np.mean(np.logaddexp(0, h) - y * h)
            if name == "partial_demographic_parity":
                q = np.array([sigma(h[group == g]).mean() for g in "ab"])
                T = (np.minimum(q, beta) - np.minimum(q, alpha)) / (beta - alpha)
                return f + strength * abs(T[0] - T[1])
            away = [abs(sigma(h[group == g][:, None] - x[4:]).mean(0) - levels).max() for g in "ab"]
            return f + strength * 2 / (beta - alpha) * max(away)

        method, draws = SGDMaxPenalty(strength=strength, step_size=1e-3), Draws(p, (0,), 1, "full")
        for seed in range(3):
            x = p.start([0]) + 0.3 * torch.randn(p.n, generator=torch.Generator().manual_seed(seed), dtype=p.dtype)
            e = p.values(x, p.full())
            at = x.numpy().copy()
            assert float(e.f + strength * e.g.max().clamp_min(0)) == pytest.approx(written(at), abs=1e-10)
            moved = method.step(method.init(p, x.clone(), draws), p, draws).x.numpy()
            slope = np.array([(written(at + d) - written(at - d)) / 2e-7 for d in 1e-7 * np.eye(p.n)])
            assert (at - moved) / 1e-3 == pytest.approx(slope, abs=1e-4)


def test_more_strength_less_disparity():
    X, y, group = rows(300)
    text = "partial_demographic_parity[0.1:0.9] <= 0"
    p = FairProblem(MLP(3), X, y, group, text, dtype=torch.float64)
    found = []
    for strength in (0.0, 0.2, 2.0):
        method = SGDMaxPenalty(strength=strength, step_size=0.1)
        x = fb.solve(p, method, budget="150 steps", sampling="full", seed=0).last
        found.append(float(p.values(x, p.full()).g.max()))
    assert found[0] > found[1] + 0.02 > found[2] + 0.02
    with pytest.raises(OptionError):
        SGDMaxPenalty(strength=-1.0)
