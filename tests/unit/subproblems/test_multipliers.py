"""`fb.kkt`: what it says at points whose multipliers are known, and how it grows away from them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import expit

import fairbound as fb
from fairbound.base.errors import OptionError
from fairbound.methods import METHODS
from fairbound.models.model import MLP
from fairbound.testing import PROBLEMS
from fairbound.testing.known import KnownProblem
from twelve_rows import convex_fair

KNOWN = [name for name, make in PROBLEMS.items() if make().optimum.multipliers is not None]
KINKS = ("largest", "absolute")


@pytest.mark.parametrize("name", [n for n in KNOWN if n not in KINKS])
def test_at_an_optimum_every_residual_is_nothing(name):
    problem = PROBLEMS[name]()
    near = fb.kkt(problem, problem.optimum.x)
    assert near.stationarity < 1e-12 and near.complementarity < 1e-12
    assert near.violation == pytest.approx(max(problem.optimum.violation, 0.0), abs=1e-12)
    assert torch.allclose(near.multipliers, problem.optimum.multipliers, atol=1e-10)


@pytest.mark.parametrize("name", [n for n in KNOWN if n not in KINKS and not PROBLEMS[n]().bounds])
@pytest.mark.parametrize("step", [1e-8, 1e-6, 1e-3])
def test_beside_an_optimum_whose_bounds_are_0_all_residuals_are_as_small_as_the_step(name, step):
    """An interior iterate is g < 0 by some of the step: the bound keeps its multiplier, and the domain's sides theirs."""
    problem, generator = PROBLEMS[name](), torch.Generator().manual_seed(0)
    for away in torch.randn(8, problem.n, generator=generator, dtype=torch.float64):
        near = fb.kkt(problem, problem.domain.project(problem.optimum.x + step * away / away.norm()))
        slope = problem.optimum.slope
        assert near.stationarity < 10 * slope * step and near.complementarity < 10 * slope**2 * step
        assert torch.allclose(near.multipliers, problem.optimum.multipliers, atol=20 * step)
        assert near.duality_gap is None or near.duality_gap < 100 * slope**2 * step


def test_a_bound_of_0_has_a_multiplier_where_a_tenth_of_the_entries_would_use_it_up():
    """min x subject to x >= 1, scaled: at 1.05 the bound is near, at 1.3 it is not, in whatever unit it is stated."""
    for unit in (1e-6, 1.0, 1e6):
        functions = lambda x, unit=unit: [x[..., 0], unit * (1 - x[..., 0])]  # noqa: E731
        slopes = lambda x, unit=unit: [torch.ones_like(x), -unit * torch.ones_like(x)]  # noqa: E731
        problem = KnownProblem("line", functions, slopes, [0.0], convex_fair().optimum, 1)
        near, far = (fb.kkt(problem, torch.tensor([at], dtype=torch.float64)) for at in (1.05, 1.3))
        assert float(near.multipliers) == pytest.approx(1 / unit) and near.stationarity == pytest.approx(0, abs=1e-12)
        assert near.complementarity == pytest.approx(0.05) == near.duality_gap
        assert float(far.multipliers) == 0 and far.stationarity == 1


def test_away_from_it_the_residual_is_the_distance_to_the_cone_of_the_gradients():
    """With one active constraint: |a + y b| over y >= 0 is |a| where a . b >= 0, else the part of a orthogonal to b."""
    problem = convex_fair()
    for step in (0.01, 0.1):
        x = problem.optimum.x + step * torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)
        everything = problem.full()
        g = problem.values(x, everything, true=True).g
        a, *rows = problem.jacobian(x, everything)[1]
        b = rows[int(g.argmax())]
        best = a if a @ b >= 0 or float(g.max()) <= -0.1 * 0.05 else a - (a @ b) / (b @ b) * b
        assert fb.kkt(problem, x).stationarity == pytest.approx(float(best.norm()), rel=1e-9)


@pytest.mark.parametrize("name", [n for n, make in PROBLEMS.items() if make().convex])
def test_no_point_that_meets_the_bounds_and_is_no_longer_lies_lower_by_more_than_the_gap(name):
    problem, generator = PROBLEMS[name](), torch.Generator().manual_seed(0)
    points = (
        torch.randn(400, problem.n, generator=generator, dtype=torch.float64)
        * torch.rand(400, 1, generator=generator).double()
        * 2
    )
    points = problem.domain.project(torch.cat([problem.optimum.x[None], points]))
    everything = problem.sample((0,), "full", 0, 1, "full")
    e = problem.values(points, everything)
    for x in [x for x in points[:60] if x.any()]:
        gap = fb.kkt(problem, x).duality_gap
        below = (points.norm(dim=1) <= x.norm() + 1e-12) & (e.g <= 0).all(-1)
        own = problem.values(x, everything).f
        assert not below.any() or float(own - e.f[below].min()) <= gap + 1e-12


def test_the_gap_of_a_linear_objective_is_that_to_the_opposite_point():
    """c . x - c . (-x) = 2 |c| |x| for x along c, and nothing smaller is true of all points as long."""
    c = torch.tensor([3.0, -1.0, 2.0], dtype=torch.float64)
    problem = KnownProblem("plane", lambda x: [x @ c], lambda x: [c.expand_as(x)], [0.0] * 3, convex_fair().optimum, 0)
    assert fb.kkt(problem, 0.7 * c).duality_gap == pytest.approx(2 * 0.7 * float(c @ c), rel=1e-12)
    assert fb.kkt(problem, 0 * c).duality_gap is None, "no other point is as short, wherever the optimum lies"
    with pytest.raises(OptionError, match=r"float64, as the problem's start is, got torch\.float32"):
        fb.kkt(problem, c.float())


def test_a_point_outside_lies_lower_by_multiplier_times_excess():
    """min -x subject to x <= 1, at x = 3: the multiplier is 1 and the gap is f(3) - f(1) = -2."""
    functions, slopes = (lambda x: [-x[..., 0], x[..., 0] - 1.0]), (lambda x: [-torch.ones_like(x), torch.ones_like(x)])
    problem = KnownProblem("line", functions, slopes, [0.0], convex_fair().optimum, 1)
    assert fb.kkt(problem, torch.tensor([3.0], dtype=torch.float64)).duality_gap == pytest.approx(-2.0, abs=1e-12)


def test_losses_of_groups_have_a_gap_that_closes_and_differences_have_none():
    rng = np.random.default_rng(0)
    X, group = rng.normal(size=(2000, 3)), rng.choice(["a", "b"], 2000, p=[0.8, 0.2])
    y = (X[:, 0] + np.where(group == "a", 0.7, -0.7) * X[:, 1] + rng.logistic(size=2000) > 0.3).astype(int)
    model = fb.FairClassifier("group_loss <= 0.62", objective="loss").fit(X, y, group)
    found = model.fit_report_["optimality"]
    assert found["multipliers"]["group_loss: b"] > 0.05
    assert 0 <= found["duality_gap"] < 0.001
    for bound in ("loss_gap <= 0.05", "excess_loss <= 0.05", "demographic_parity <= 0.05"):
        problem = fb.FairProblem(MLP(3), X, y, {"g": group}, bound)
        assert fb.kkt(problem, problem.start((0,)) + 0.1).duality_gap is None  # at zeros none has one
    free = fb.FairClassifier(objective="loss").fit(X, y).fit_report_["optimality"]
    assert 0 <= free["duality_gap"] < 0.001


@pytest.mark.filterwarnings("ignore:Column .* is the sensitive attribute")  # the group is a feature on purpose
def test_the_report_of_a_linear_fit_holds_them():
    rng = np.random.default_rng(0)
    X, group = rng.normal(size=(2000, 3)), rng.choice(["a", "b"], 2000)
    X[:, 1] = group == "a"
    y = (X[:, 0] + X[:, 1] + rng.logistic(size=2000) > 0.5).astype(int)
    found = fb.FairClassifier("demographic_parity <= 0.05", objective="loss").fit(X, y, group).fit_report_["optimality"]
    assert found["stationarity"] < 0.02 and found["violation"] == 0 and found["error_share"] == 0
    assert (
        list(found["multipliers"]) == ["demographic_parity: a - b"]
        and found["multipliers"]["demographic_parity: a - b"] > 0.1
    )
    free = fb.FairClassifier(objective="loss").fit(X, y).fit_report_["optimality"]
    assert free["multipliers"] == {} and free["stationarity"] < 0.001
    assert fb.kkt(fb.FairProblem(MLP(3), X, y), torch.zeros(4)).violation == 0


def test_the_report_of_a_fit_on_batches_holds_them_up_to_a_number_of_rows(monkeypatch):
    """Without bounds the residual is the length of the mean of (p - y) (z, 1), z being the standardised features."""
    rng = np.random.default_rng(0)
    X, group = rng.normal(size=(400, 3)), rng.choice(["a", "b"], 400)
    y = (X[:, 0] + rng.logistic(size=400) > 0.5).astype(int)
    free = fb.FairClassifier(algorithm="sgd", objective="loss", budget="30 steps", random_state=0).fit(X, y)
    z = np.column_stack([(X - X.mean(0)) / X.std(0), np.ones(400)])
    slope = ((expit(free.decision_function(X)) - y)[:, None] * z).mean(0)
    assert free.fit_report_["optimality"]["stationarity"] == pytest.approx(np.linalg.norm(slope), rel=1e-3)
    bounded = fb.FairClassifier("demographic_parity <= 0.05", algorithm="plada", budget="100 steps", random_state=0)
    found = bounded.fit(X, y, group).fit_report_["optimality"]
    assert (
        set(found) == {"stationarity", "violation", "complementarity", "multipliers", "duality_gap"}
        and found["violation"] == 0
    )
    monkeypatch.setattr("fairbound.estimators.optimality.NEAR_ROWS", 399)
    assert bounded.fit(X, y, group).fit_report_["optimality"] == {}


def test_the_point_of_every_method_has_residuals():
    """`fb.kkt` asks the problem alone, so it takes what any method returns: its own point, and the best iterate of `solve`."""
    rng = np.random.default_rng(0)
    X, y, group = rng.normal(size=(120, 3)), rng.integers(0, 2, 120), rng.integers(0, 2, 120)
    problem = fb.FairProblem(MLP(3), X, y, {"g": group.astype(str)}, "loss_gap <= 0.1", dtype=torch.float64)
    for name, kind in METHODS.items():
        try:
            solution = fb.solve(problem, name, budget="2 steps", batch_size=8)
        except fb.FairboundError as error:
            assert "needs" in str(error) or "cannot" in str(error), (name, error)
            continue
        for x in (solution.state.point, solution.x):
            near = fb.kkt(problem, x)
            assert np.isfinite(near.stationarity) and near.multipliers.shape == (problem.m,), kind


def test_what_is_no_point_is_named():
    problem = convex_fair()
    for x in (torch.zeros(problem.n + 1), torch.zeros(2, problem.n), np.zeros(problem.n)):
        with pytest.raises(OptionError, match=f"tensor of shape .{problem.n},."):
            fb.kkt(problem, x)
    with pytest.raises(OptionError, match="beta must be a number, got 'a'"):
        fb.PLADA(beta="a")
