"""All rows in one pass: the same numbers as by sums over strata, and none where it does not apply."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch

from fairbound.fairness.evaluation import one_pass
from fairbound.fairness.objectives import Accuracy
from fairbound.fairness.pointwise import LOGISTIC
from fairbound.fairness.problem import FairProblem
from fairbound.models.mlp import MLP
from fairbound.solver.solve import solve
from fairbound.testing import check_gradient

ROWS = 300
RNG = np.random.default_rng(0)
X = RNG.normal(size=(ROWS, 14))
GROUP = RNG.integers(0, 3, ROWS)
Y = (X[:, 0] + 0.3 * GROUP + RNG.normal(size=ROWS) > 0).astype(int)
WEIGHT = RNG.uniform(0.5, 2, ROWS)
BOUNDS = [
    "demographic_parity <= 0.02",
    "equalized_odds <= 0.05",
    "equal_opportunity <= 0.01",
    "error_rate_parity <= 0.02",
]


def made(bound, objective=None, model=None, **options):
    options = {"dtype": torch.float64, **options}
    return FairProblem(model or MLP(14), X, Y, GROUP, bound, objective=objective, **options)


def taken(problem, x):
    return problem.one_pass(x, problem.full())


def both(problem, x):
    """Values, true values and a gradient, in one pass and by the strata's sums."""
    out = []
    for at_once in (True, False):
        batch = problem.full()
        weights_of_rows = batch.objective.clone()
        assert (taken(problem, x) is not None) == at_once
        weights = lambda e: (0.7, 3 * e.g + torch.linspace(0.1, 0.5, len(e.g), dtype=e.g.dtype))  # noqa: E731
        e, gradient = problem.gradient(x, batch, weights)
        true, values = problem.values(x, batch, true=True), problem.values(x, batch)
        measured = problem.evaluate(x)
        assert torch.equal(batch.objective, weights_of_rows)
        out.append([e.f, e.g, gradient, true.f, true.g, values.f, values.g, measured.f, measured.g])
        for key in list(batch.kept):
            batch.kept[key] = None
    return out


@pytest.mark.parametrize("objective", [None, Accuracy(0.0), Accuracy(0.65)])
@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_it_is_what_the_sums_of_strata_are(bound, objective, weight):
    x = torch.linspace(-0.5, 0.4, 15, dtype=torch.float64)
    for factor in (1.0, 8.0):
        one, other = both(made(bound, objective, sample_weight=weight).sharpened(factor), x)
        for a, b in zip(one, other, strict=True):
            torch.testing.assert_close(a, b, atol=1e-12, rtol=1e-10)


def test_gradients_are_those_of_differences():
    check_gradient(made("equalized_odds <= 0.05", Accuracy(0.5)))
    check_gradient(made("demographic_parity <= 0.05", model=MLP(14, bias=False)))


def test_a_point_that_moved_in_place_has_scores_of_its_own():
    problem, x = made(BOUNDS[0]), torch.zeros(15, dtype=torch.float64)
    first = problem.values(x, problem.full()).f
    x[0] += 0.1
    assert problem.values(x, problem.full()).f != first
    before = problem.values(x, problem.full(), true=True)
    x[-1] += 0.3
    after = problem.values(x, problem.full(), true=True)
    assert not torch.equal(after.g, before.g)
    torch.testing.assert_close(after.g, made(BOUNDS[0]).evaluate(x).g)


def test_what_no_objective_changes_is_computed_once_for_all(monkeypatch):
    asked, sums = [], one_pass.sums_of_decisions
    monkeypatch.setattr(one_pass, "sums_of_decisions", lambda *given: asked.append(given) or sums(*given))
    problem, x = (
        made(BOUNDS[1], Accuracy(0.0), sample_weight=WEIGHT),
        torch.linspace(-0.5, 0.4, 15, dtype=torch.float64),
    )
    assert problem.with_objective(Accuracy(0.0)) is problem is problem.sharpened(1.0)
    for share in (0.0, 0.3, 0.9):
        other, fresh = problem.with_objective(Accuracy(share)), made(BOUNDS[1], Accuracy(share), sample_weight=WEIGHT)
        found = other.evaluate(x)
        assert len(asked) == 1
        assert torch.equal(other.values(x, other.full()).f, fresh.values(x, fresh.full()).f)
        asked.pop()
        expected = fresh.evaluate(x)
        assert torch.equal(found.f, expected.f)
        assert torch.equal(found.g, expected.g)


def test_the_losses_of_a_point_are_computed_once():
    asked = []
    loss = replace(LOGISTIC, value=lambda s, y: asked.append(len(s)) or LOGISTIC.value(s, y))
    problem, x = made(BOUNDS[0], loss=loss), torch.linspace(-0.5, 0.4, 15, dtype=torch.float64)
    for _ in range(2):
        asked.clear()
        found = problem.gradient(x, problem.full(), lambda e: (1.0, e.g))[0].f
        problem.values(x, problem.full()), problem.values(x, problem.full(), true=True)
        assert problem.evaluate(x).f == found == made(BOUNDS[0]).evaluate(x).f
        assert asked == [ROWS]
        x += 0.1


def test_the_objective_keeps_more_digits_than_the_rows():
    problem = made(BOUNDS[0], Accuracy(0.5), dtype=torch.float32)
    x = problem.start((0,)) + 0.01
    e = problem.gradient(x, problem.full(), lambda e: (1.0, e.g))[0]
    exact = made(BOUNDS[0], Accuracy(0.5))
    assert abs(float(e.f) - float(exact.values(x.double(), exact.full()).f)) < 2e-8
    assert e.g.dtype == torch.float32


@pytest.mark.parametrize(
    ("bound", "options"),
    [
        ("predictive_parity <= 0.1", {}),
        ("demographic_parity[surrogate=hinge] <= 0.02", {}),
        (["demographic_parity[sharpness=2] <= 0.02", "equal_opportunity <= 0.1"], {}),
        ("loss_gap <= 0.1", {}),
        (BOUNDS[0], {"model": MLP(14, (4,))}),
    ],
)
def test_others_are_left_to_the_sums_of_strata(bound, options):
    problem = made(bound, **options)
    assert taken(problem, torch.zeros(problem.n, dtype=torch.float64)) is None


def test_large_tables_are_left_to_slices(monkeypatch):
    monkeypatch.setattr(one_pass, "MOST_ROWS", ROWS - 1)
    assert taken(made(BOUNDS[0]), torch.zeros(15, dtype=torch.float64)) is None


def test_a_search_along_a_line_asks_seldom():
    problem = made(BOUNDS[1], Accuracy(0.65), dtype=torch.float32)
    found = solve(problem, "full_batch_alm", budget="12 steps", x0=problem.start((0,)))
    assert found.counts.gradients < 12 * 16


def test_slice_by_slice_the_verbs_of_one_point_score_all_rows_once(monkeypatch):
    monkeypatch.setattr(one_pass, "MOST_ROWS", 0)
    model, asked = MLP(14), []
    forward = model.forward
    problem = made("demographic_parity <= 0.02", model=model)
    monkeypatch.setattr(model, "forward", lambda x, features: asked.append(x.clone()) or forward(x, features))
    batch, x = problem.full(), torch.linspace(-1, 1, model.n, dtype=torch.float64)

    def numbers():
        weights = lambda e: (1.0, e.g)  # noqa: E731
        found = problem.evaluate(x), problem.values(x, batch), problem.values(x, batch, true=True)
        return [*found, problem.gradient(x, batch, weights), problem.jacobian(x, batch)[1], problem.all_scores(x)]

    numbers()
    assert len(asked) == 1
    x.mul_(-2)  # moved in place, as optimisers do
    after = numbers()
    assert len(asked) == 2
    assert torch.allclose(after[-1], problem.features @ x[:-1] + x[-1])
    assert float(after[0].f) == float(made("demographic_parity <= 0.02").evaluate(x).f)


def test_threads_that_look_at_other_points_of_one_problem_do_not_meet():
    problem = made("demographic_parity <= 0.05")
    points = [torch.full((problem.n,), 0.1 * k, dtype=torch.float64) for k in range(4)]
    wanted = [problem.values(x, problem.full(), true=True).g for x in points]

    def look(k: int) -> bool:
        return all(
            torch.equal(problem.values(points[k], problem.full(), true=True).g, wanted[k])
            and bool(problem.values(points[k], problem.full()).f.isfinite())
            for _ in range(150)
        )

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(look, range(4)))
