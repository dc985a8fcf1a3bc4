"""Baselines for bounds on areas: proxy-Lagrangian, correlation penalty, scale and shift."""

import numpy as np
import pytest
import torch

import fairbound as fb
from fairbound.base.errors import DataError, OptionError
from fairbound.fairness.correlation import Correlation
from fairbound.fairness.problem import FairProblem
from fairbound.methods import SGDCorrelation
from fairbound.methods.proxy_lagrangian import stationary
from fairbound.models.mlp import MLP
from fairbound.problems.problem import Draws
from fairbound.problems.wrappers import Rebounded
from fairbound.ranking.wins import auc
from fairbound.solver.solve import solve


def rows(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    group = np.where(rng.random(n) < 1 / (1 + np.exp(-2 * X[:, 1])), "a", "b")
    y = (X[:, 0] + X[:, 1] + 0.5 * rng.normal(size=n) > 0.2).astype(int)
    return X, y, group


def problem(data, objective="auc", bound="auc_parity[group] <= 0.05", **options):
    X, y, group = data
    return FairProblem(MLP(3), X, y, group, bound, objective=objective, dtype=torch.float64, **options)


@pytest.mark.parametrize("seed", range(5))
def test_the_stationary_distribution(seed):
    matrix = torch.rand(3, 5, 5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) + 0.01
    matrix = matrix / matrix.sum(-2, keepdim=True)
    found = stationary(matrix)
    assert torch.allclose((matrix @ found.unsqueeze(-1)).squeeze(-1), found, atol=1e-12)
    assert torch.allclose(found, torch.linalg.matrix_power(matrix, 200)[..., 0], atol=1e-9)


def test_one_step_of_the_proxy_lagrangian_by_hand():
    made = problem(rows())
    method = fb.ProxyLagrangian(step_size=0.3, dual_step_size=0.7)
    start = torch.tensor([0.4, 0.6, -0.1, 0.0], dtype=torch.float64)
    found = solve(made, method, budget="1 steps", sampling="full", x0=start, seed=0).state
    full = made.full()
    _, J = made.jacobian(start, full)
    assert torch.allclose(found.x, start - 0.3 * J.mean(0), atol=1e-12)  # of the surrogates, all multipliers alike
    D = torch.cat([torch.zeros(1), made.values(start, full, true=True).g * made.dual_scale]).double()
    raised = torch.exp(0.7 * torch.outer(D, torch.full((3,), 1 / 3, dtype=torch.float64)))
    assert torch.allclose(found.matrix, raised / raised.sum(0), atol=1e-12)


def test_a_multiplier_that_all_but_vanished_rises_again():
    """In single precision 15 long steps inside the bound, then far outside it: the multiplier comes back."""
    made = FairProblem(MLP(3), *rows(), "auc_parity[group] <= 0.05", objective="auc")
    method = fb.ProxyLagrangian(step_size=1e-9, dual_step_size=20.0)
    fair, unfair = torch.tensor([1.0, 0.0, 0.0, 0.0]), torch.tensor([0.0, 3.0, 0.0, 0.0])
    made_inside = Rebounded(made, torch.full((2,), 0.9))
    draws = Draws(made, (0,), 50, "full")
    state = method.init(made_inside, fair.clone(), draws)
    for _ in range(15):
        state = method.step(state, made_inside, draws)
    assert float(state.multipliers.max()) < 1e-6
    state.x.copy_(unfair)
    for _ in range(25):
        state = method.step(state, made, draws)
    assert float(state.multipliers.max()) > 1


def test_the_proxy_lagrangian_without_bounds_is_gradient_descent():
    made = problem(rows(), bound=())
    x, batch = made.start((0,)).clone(), Draws(made, (0,), 10, "full")("proxy", 0)
    run = solve(made, fb.ProxyLagrangian(step_size=0.5), budget="3 steps", sampling="full", x0=x.clone())
    for _ in range(3):
        x -= 0.5 * made.gradient(x, batch, lambda e: (1.0, None))[1]
    torch.testing.assert_close(run.last, x.reshape(run.last.shape))


def test_the_proxy_lagrangian_meets_a_bound_on_areas():
    made = problem(rows())
    found = solve(
        made, fb.ProxyLagrangian(step_size=0.5, dual_step_size=0.5), budget="200 steps", sampling="full", seed=0
    )
    free = solve(problem(rows(), bound=None), fb.SGD(step_size=0.5), budget="200 steps", sampling="full", seed=0)
    assert found.found and float(made.evaluate(free.last).g.max()) > 0.1
    assert float(made.evaluate(found.x).f) < 0.35


def test_the_correlation_and_its_slope():
    for weight in (None, np.random.default_rng(1).uniform(0.5, 2, 300)):
        made = problem(rows(), sample_weight=weight)
        penalty, full = Correlation(made), made.full()
        x = torch.tensor([0.4, -0.6, 0.1, 0.3], dtype=torch.float64)
        value, slope = penalty.gradient(x, full)
        s, g = made.all_scores(x).numpy(), made.groups.take(made.strata.order).codes[:, 0]
        w = np.ones(300) if weight is None else made.row_weight.numpy()
        cov = np.cov(s, g, aweights=w)
        assert float(value) == pytest.approx(abs(cov[0, 1]) / np.sqrt(cov[0, 0] * cov[1, 1]), abs=1e-12)
        for i in range(4):
            step = torch.zeros(4, dtype=torch.float64)
            step[i] = 1e-6
            near = (penalty.value(x + step, full) - penalty.value(x - step, full)) / 2e-6
            assert float(slope[i]) == pytest.approx(float(near), abs=1e-7)
    assert float(Correlation(made).value(torch.zeros(4, dtype=torch.float64), full)) == 0.0  # a constant score


def test_more_of_the_penalty_less_correlation():
    made = problem(rows(), objective=None, bound=None)
    found = [
        solve(made, SGDCorrelation(strength=strength, step_size=0.2), budget="300 steps", sampling="full", seed=0).last
        for strength in (0.0, 1.0)
    ]
    low = [float(Correlation(made).value(x, made.full())) for x in found]
    assert low[1] < 0.5 * low[0]


def test_scale_and_shift_meets_the_bound_and_is_the_best_of_the_grid():
    X, y, group = rows(400)
    scores = X[:, 0] + X[:, 1]
    scales, shifts = (0.5, 1.0, 1.5), tuple(np.arange(-1.5, 1.6, 0.25))
    made = fb.ScaleAndShift("auc_parity[group] <= 0.05", scales=scales, shifts=shifts).fit(scores, y, group)
    moved = made.transform(scores, group)
    assert made.met_ and fb.measure("auc_parity[group]", moved, y, group, threshold=0) <= 0.05
    assert fb.measure("auc_parity[group]", scores, y, group, threshold=0) > 0.1
    assert np.array_equal(moved[group != made.group_], scores[group != made.group_])
    best = 0.0
    for w1 in scales:
        for w2 in shifts:
            tried = np.where(group == made.group_, w1 * scores + w2 * scores.std(), scores)
            if fb.measure("auc_parity[group]", tried, y, group, threshold=0) <= 0.05:
                best = max(best, auc(tried, y == 1, y == 0))
    assert auc(moved, y == 1, y == 0) == pytest.approx(best, abs=1e-12)
    assert made.auc_ == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize("kind", ["group", "inter", "bpsn"])
@pytest.mark.parametrize(("scale", "shift"), [(0.0, 0.2), (0.7, 0.2), (1.0, 0.0)])
@pytest.mark.parametrize("which", ["a", "b"])
def test_areas_of_moved_scores_are_those_of_the_scores_moved(kind, scale, shift, which):
    """Counted in scores sorted once against scores that are moved and sorted, with ties."""
    X, y, group = rows(200, seed=3)
    scores = (X[:, 0] + X[:, 1]).round(1)
    made = fb.ScaleAndShift(f"auc_parity[{kind}] <= 0.001", group=which, scales=(scale,), shifts=(shift,))
    moved = made.fit(scores, y, group).transform(scores, group)
    assert made.value_ == pytest.approx(fb.measure(f"auc_parity[{kind}]", moved, y, group, threshold=0), abs=1e-12)
    assert made.auc_ == pytest.approx(auc(moved, y == 1, y == 0), abs=1e-12)


@pytest.mark.parametrize("kind", ["group", "inter"])
@pytest.mark.parametrize(("scale", "shift"), [(0.5, 0.3), (2.0, -0.7), (1.25, 0.0)])
def test_either_group_is_moved_to_the_same_orders(kind, scale, shift):
    """w1 h + w2 for one group, (h - w2) / w1 for the other."""
    X, y, group = rows(200, seed=3)
    moved = {"a": (scale, shift), "b": (1 / scale, -shift / scale)}
    one, other = (
        fb.ScaleAndShift(f"auc_parity[{kind}] <= 0.1", group=which, scales=(w1,), shifts=(w2,)).fit(
            X[:, 0] + X[:, 1], y, group
        )
        for which, (w1, w2) in moved.items()
    )
    assert one.value_ == pytest.approx(other.value_, abs=1e-12) and one.auc_ == pytest.approx(other.auc_, abs=1e-12)


@pytest.mark.parametrize("sampling", ["full", "balanced"])
def test_the_slope_of_the_objective_alone_is_its_row_of_the_jacobian(sampling):
    """Statistics that only bounds look at are left out of it."""
    made = problem(rows(), bound=["auc_parity[inter] <= 0.05", "demographic_parity <= 0.1"])
    x = torch.tensor([0.4, 0.6, -0.1, 0.2], dtype=torch.float64)
    batch = made.sample((0,), "any", 0, 60, sampling)
    assert torch.allclose(made.gradient(x, batch, (1.0, None))[1], made.jacobian(x, batch)[1][0], atol=1e-14)
    bounds = made.plan.statistics[0]
    object.__setattr__(bounds, "value", None)  # not asked
    made.gradient(x, batch, (1.0, None))


def test_what_is_refused():
    X, y, group = rows(40)
    with pytest.raises(OptionError, match="order within"):
        fb.ScaleAndShift("auc_parity[intra] <= 0.1").fit(X[:, 0], y, group)
    with pytest.raises(OptionError, match="takes one auc_parity"):
        fb.ScaleAndShift("demographic_parity <= 0.1").fit(X[:, 0], y, group)
    with pytest.raises(DataError, match="two groups"):
        fb.ScaleAndShift("auc_parity[group] <= 0.1").fit(X[:, 0], y, np.arange(40) % 3)
    with pytest.raises(DataError, match="finite"):
        fb.ScaleAndShift("auc_parity[group] <= 0.1").fit(X[:, 0] * np.nan, y, group)
    with pytest.raises(DataError, match="no row is in group"):
        fb.ScaleAndShift("auc_parity[group] <= 0.1", group="c").fit(X[:, 0], y, group)
    with pytest.raises(DataError, match="both labels"):
        fb.ScaleAndShift("auc_parity[group] <= 0.1").fit(X[:, 0], np.ones(40, dtype=int), group)
    for wrong in ({"scales": ()}, {"scales": (-1.0,)}, {"shifts": (float("nan"),)}):
        with pytest.raises(OptionError, match="finite numbers"):
            fb.ScaleAndShift("auc_parity[group] <= 0.1", **wrong).fit(X[:, 0], y, group)
    for method in (fb.ProxyLagrangian, fb.SGDCorrelation):
        with pytest.raises(OptionError):
            method(step_size=0.0)
