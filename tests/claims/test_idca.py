"""IDCA: feasible iterates, descent, the convex model's solution, a residual that falls, and the inner methods that it may hold."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

import fairbound as fb
from fairbound.base.errors import OptionError
from fairbound.fairness.problem import FairProblem
from fairbound.methods import IDCA, SSG, YNW, FullBatchALM, algorithm
from fairbound.methods.idca import HALVINGS
from fairbound.models.mlp import MLP
from fairbound.problems.differences import Linearised
from fairbound.problems.penalised import Proximal
from fairbound.problems.problem import Draws
from fairbound.testing import KnownProblem, Optimum, check_gradient

TEXT = "partial_statistical_parity[0.1:0.6,surrogate=clip,sharpness=1,points=5] <= 0.1"


def problem(hidden=(), text=TEXT, n=500, **options):
    rng = np.random.default_rng(0)
    group = rng.choice(["a", "b"], n)
    X = np.column_stack([rng.normal(size=(n, 3)), group == "a"]).astype(float)
    y = (rng.random(n) < 1 / (1 + np.exp(-1.5 * X[:, 0] - 1.5 * X[:, 3] + 0.5))).astype(int)
    return FairProblem(MLP(4, hidden), X, y, group, text, **({"dtype": torch.float64} | options))


def path(p, method, steps, **options):
    """The iterates of a run."""
    draws = Draws(p, (0,), options.get("batch", 1), options.get("sampling", "full"))
    state = method.init(p, p.start([0]), draws)
    out = [state.x.clone()]
    for _ in range(steps):
        state = method.step(state, p, draws)
        out.append(state.point.clone())
    return out, state


def test_parts_have_their_own_jacobian_after_that_of_the_problem():
    """The two sides of a bound are each other's negatives in the problem, and not in its parts."""
    p = problem((4,), "partial_demographic_parity[0.1:0.7] <= 0.05", 60)
    x = p.start([0])
    rows = p.jacobian(x, p.full())[1]
    assert torch.allclose(rows[1], -rows[2], rtol=0, atol=1e-12)
    plus, minus = (part.jacobian(x, part.full())[1] for part in (p.plus, p.minus))
    assert torch.allclose(plus - minus, rows, rtol=0, atol=1e-12)
    for part in (p.plus, p.minus):
        check_gradient(lambda part=part: part, seeds=(0,), kinds=("full",), points=1)


@pytest.mark.parametrize(
    "text", [TEXT, TEXT.replace("clip", "logistic"), "partial_demographic_parity[0.1:0.7] <= 0.05"]
)
def test_every_iterate_is_feasible_and_no_worse(text):
    p = problem(text=text)
    points, _ = path(p, IDCA(), 6)
    values = [p.values(x, p.full()) for x in points]
    assert all(v.g.max() <= 1e-12 for v in values)
    f = [float(v.f) for v in values]
    assert all(after <= before for before, after in pairwise(f))
    assert f[-1] < f[0] - 0.05
    free = path(problem(text=[]), FullBatchALM(), 10)[0][-1]
    assert f[-1] >= float(problem(text=[]).values(free, problem(text=[]).full()).f) - 1e-6


@pytest.mark.parametrize(
    ("w", "v", "share"),
    [(0.0, 0.8, 1.0), (0.0, 1.5, 2 / 3), (0.5, 3.5, 1 / 6), (0.9, -1.0, 0.0), (1.6, 1.2, 1.0), (1.2, 1.6, 0.0)],
)
def test_an_iterate_goes_as_far_as_the_bound_is_met_and_the_objective_no_higher(w, v, share):
    """(x - 2)^2 under x <= 1, from w towards v; a w that misses the bound takes a v that misses it by less."""
    best = Optimum(torch.ones(1).double(), 1.0, None, torch.ones(1).double(), 0.0, 4.0, "x = 1")
    p = KnownProblem(
        "line", lambda x: [(x[..., 0] - 2) ** 2, x[..., 0] - 1], lambda x: [2 * (x - 2), x * 0 + 1], [0.0], best, m=1
    )
    found = IDCA()._feasible_share(
        p, torch.tensor([w]).double(), torch.tensor([v]).double(), p.sample((0,), "all", 0, 1, "full")
    )
    assert share - 2**-HALVINGS <= float(found) <= share + 1e-12 and w + float(found) * (v - w) <= max(1.0, w)


@pytest.mark.parametrize(
    ("interval", "kappa", "points"), [("0.1:0.6", 0.1, 5), ("0.7:1", 0.15, 20), ("0.7:1", 0.02, 20)]
)
def test_it_leaves_a_start_beside_which_steep_surrogates_bend(interval, kappa, points):
    """A first step of length 1 lies a hundred times too far there, and no search along a line of 20 points ends."""
    p = problem(text=f"partial_statistical_parity[{interval},surrogate=clip,sharpness=10,points={points}] <= {kappa}")
    values = [p.values(x, p.full()) for x in path(p, IDCA(residuals=False), 3)[0]]
    assert all(after.f < before.f and after.g.max() <= 1e-12 for before, after in pairwise(values))


def test_a_run_ends_where_its_iterate_no_longer_moves():
    p = problem()
    found = fb.solve(p, IDCA(residuals=False), budget="60 steps", record_every=1)
    assert found.stopped == "halted" and found.steps < 60
    points, state = path(p, IDCA(residuals=False), found.steps + 1)
    assert all(torch.equal(points[-1], x) for x in points[-5:]) and not torch.equal(points[-1], points[-6])
    assert int(state.idle) == 4


def test_areas_of_intervals_are_held_too():
    p = problem(text="partial_group_auc[0.1:0.7,sharpness=2] <= 0.05", n=150)
    points, _ = path(p, IDCA(residuals=False), 3)
    values = [p.values(x, p.full()) for x in points]
    assert all(v.g.max() <= 1e-9 for v in values)
    assert all(after.f <= before.f for before, after in pairwise(values)) and values[-1].f < values[0].f - 0.03


def test_the_default_solves_the_model_as_the_switching_subgradient_does():
    p = problem()
    x = p.start([0])
    model, full = Linearised(p, x), p.full()
    found = []
    for inner, steps in ((IDCA().inner, 12), (SSG(tolerance=2e-3), 600)):
        draws = Draws(model, (0,), 1, "full")
        state = inner.init(model, x.clone(), draws)
        for _ in range(steps):
            state = inner.step(state, model, draws)
        e = model.values(state.point, full)
        assert e.g.max() <= 5e-3
        found.append(float(e.f))
    assert found[0] <= found[1] + 2e-3
    assert model.values(x, full).f == pytest.approx(float(p.values(x, full).f), abs=1e-12)


def test_the_residual_falls_and_says_what_it_says():
    p = problem(text=TEXT.replace("clip", "logistic"))
    _, early = path(p, IDCA(inner_steps=6), 2)
    _, late = path(p, IDCA(inner_steps=6), 8)
    assert late.residual < 0.25 * early.residual
    assert late.residual < 0.1


@pytest.mark.long
def test_the_source_s_preset_goes_on_within_its_tolerance_where_moved_back_it_would_end():
    """Near-feasible solutions lie outside, and on the way to them from a point on the bound none lies inside."""
    p = problem()
    method = algorithm("idca:paper", inner_steps=60, residuals=False)
    values = [p.values(x, p.full()) for x in path(p, method, 15)[0]]
    assert all(v.g.max() <= method.inner.tolerance for v in values)
    back = path(p, replace(method, descent=True, most_steps=60), 15)[0]
    assert float(values[-1].f) < float(p.values(back[-1], p.full()).f) - 0.02
    ours = path(p, IDCA(residuals=False), 10)[0][-1]
    assert float(p.values(ours, p.full()).f) < float(values[-1].f) + 0.01


def test_networks_need_a_proximal_term_and_take_random_batches():
    p = problem((4,), text=TEXT.replace("points=5", "points=2"), dtype=torch.float32)
    stochastic = IDCA(inner=YNW(horizon=100), inner_steps=8, most_steps=8, proximal=0.5, residuals=False)
    with pytest.raises(OptionError, match="proximal"):
        path(p, IDCA(inner=YNW()), 1)
    with pytest.raises(OptionError, match="convex"):
        path(p, IDCA(inner=algorithm("sfls"), proximal=0.0), 1)
    points, state = path(p, stochastic, 2, batch=64, sampling="balanced")
    e = p.values(points[-1], p.full())
    assert torch.isfinite(points[-1]).all() and e.f < p.values(points[0], p.full()).f
    assert bool(torch.isinf(state.residual))  # not asked for


def test_a_stack_is_its_runs_and_calls_are_counted():
    p, method = problem(n=120), IDCA()
    draws = Draws(p, (0, 1), 1, "full")
    both = method.init(p, p.start([0, 1]) + torch.tensor([[0.0], [0.01]]), draws)
    alone = method.init(p, both.x[1].clone(), Draws(p, (1,), 1, "full"))
    for _ in range(2):
        both, alone = method.step(both, p, draws), method.step(alone, p, Draws(p, (1,), 1, "full"))
    assert torch.allclose(both.x[1], alone.x, atol=1e-4)
    solution = fb.solve(p, method, budget="2 steps")
    assert solution.counts.gradients > 10
    assert solution.records[-1]["residual"] < np.inf


def test_what_has_no_parts_is_refused():
    p = problem(text="demographic_parity <= 0.1")
    with pytest.raises(OptionError, match="difference of convex"):
        fb.solve(p, "idca", budget="1 steps")
    with pytest.raises(OptionError, match="inner must be a method"):
        IDCA(inner="ssg")


def test_the_switching_subgradient_takes_polyaks_steps():
    p = problem()
    x, draws = p.start([0]) + 0.5, Draws(problem(), (0,), 1, "full")
    method = SSG(tolerance=1e-3)
    state = method.init(p, x.clone(), draws)
    e, slopes = p.jacobian(x, p.full())
    after = method.step(state, p, draws).x
    worst = int(e.g.argmax())
    s = slopes[1 + worst] if e.g[worst] > 1e-3 else slopes[0]
    length = float(e.g[worst]) if e.g[worst] > 1e-3 else 1e-3
    assert torch.allclose(after, x - length * s / s.square().sum(), atol=1e-12)
    fading = SSG(fading=0.5)
    points, end = path(p, fading, 200)
    assert p.values(end.point, p.full()).g.max() <= 0.5 and end.lowest < p.values(points[0], p.full()).f


def test_without_descent_a_model_s_solution_is_taken_as_it_is_and_its_multipliers_go_on():
    """Steps of the inner method on the model, proximal term in every function, are written out here."""
    p = problem((4,), text=TEXT.replace("points=5", "points=2"), dtype=torch.float32)
    inner = YNW(objective_weight=50.0, proximal=500.0)
    method = IDCA(inner=inner, inner_steps=3, most_steps=9, room=0.0, proximal=0.7, residuals=False, descent=False)
    draws = Draws(p, (0,), 32, "balanced")
    state = method.init(p, p.start([0]), draws)
    x, multipliers, seen = state.x.clone(), None, 0
    for _ in range(3):
        model = Proximal(Linearised(p, x.clone()), x.clone(), 0.7, on_constraints=True)
        by_hand = inner.init(model, x.clone(), draws)
        if multipliers is not None:
            by_hand = replace(by_hand, multipliers=multipliers)
        for _ in range(3):
            by_hand = inner.step(replace(by_hand, k=seen), model, draws)
            seen += 1
        x, multipliers = by_hand.x.clone(), by_hand.multipliers.clone()
        state = method.step(state, p, draws)
        assert torch.allclose(state.x, x, atol=1e-5) and torch.allclose(state.multipliers, multipliers, atol=1e-4)
    assert multipliers.max() > 0


def test_parts_that_are_not_convex_need_the_proximal_term_in_the_bounds_too():
    """A network's model lies below its bounds at some points; proximal in the bounds too, it lies above them at all of these."""
    p = problem((4,), text=TEXT.replace("points=5", "points=2"))
    centre, full = p.start([0]), p.full()
    away = torch.randn(40, p.n, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    points = [centre + 0.3 * d / d.norm() for d in away]
    model = Linearised(p, centre)
    over = IDCA(inner=YNW(), proximal=20.0, room=0.0)._model(p, centre)
    below = [float((model.values(x, full).g - p.values(x, full).g).min()) for x in points]
    above = [float((over.values(x, full).g - p.values(x, full).g).min()) for x in points]
    assert min(below) < -1e-3 and min(above) > 0
