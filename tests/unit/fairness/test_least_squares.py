"""Least squares under bounds on mean residuals and mean squared errors, solved exactly."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import optimize

from fairbound.fairness import least_squares
from fairbound.fairness.least_squares import BoundedSquares, lowest_within
from fairbound.fairness.problem import FairProblem
from fairbound.models.mlp import MLP

RNG = np.random.default_rng(0)
GROUP = RNG.choice(3, 500, p=[0.5, 0.3, 0.2])
OTHER = RNG.integers(0, 2, 500)
X = RNG.normal(size=(500, 3)) + [5.0, 0.0, 0.0] + 0.9 * np.eye(3)[GROUP]
Y = X @ [0.5, 0.3, 0.0] + (GROUP == 1) * X[:, 2] + 0.4 * (GROUP == 2) + 0.4 * RNG.normal(size=500)
Y = (Y - Y.mean()) / Y.std()
WEIGHT = np.where(np.arange(500) % 7 == 0, 0.0, RNG.uniform(0.5, 2, 500))
DESIGN = np.column_stack([X, np.ones(500)])
GAP, ERRORS = "residual_gap <= 0.05", "group_squared_error <= 0.6"


def made(stated, groups=GROUP, loss="squared", model=None, weight=None, rows=X):
    return FairProblem(model or MLP(3), rows, Y, groups, stated, loss=loss, sample_weight=weight, dtype=torch.float64)


def least(stated, weight):
    """The lowest squared error by a solver of another kind, on the rows themselves."""
    w = np.ones(500) if weight is None else weight
    parts = [np.where(g == GROUP, w, 0.0) / (w * (g == GROUP)).sum() for g in range(3)]
    over_all, bounds = w / w.sum(), []
    for text in stated:
        name, bound = text.split(" <= ")
        if name == "group_squared_error":
            bounds += [lambda x, p=p, b=float(bound): b - p @ (DESIGN @ x - Y) ** 2 for p in parts]
            continue
        pairs = [(p, over_all) for p in parts] if "overall" in name else [(p, q) for p in parts for q in parts]
        for p, q in pairs:
            for sign in (1.0, -1.0):
                bounds.append(lambda x, d=sign * (p - q), b=float(bound): b - d @ (DESIGN @ x - Y))
    start = np.linalg.lstsq(DESIGN, Y, rcond=None)[0]
    found = optimize.minimize(
        lambda x: over_all @ (DESIGN @ x - Y) ** 2, start, jac=lambda x: 2 * DESIGN.T @ (over_all * (DESIGN @ x - Y)),
        constraints=[{"type": "ineq", "fun": one} for one in bounds], options={"ftol": 1e-14, "maxiter": 1000},
    )  # fmt: skip
    assert found.success and min(one(found.x) for one in bounds) > -1e-9
    return found.fun


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["even", "weighted"])
@pytest.mark.parametrize("stated", [[GAP], ["residual_gap[overall] <= 0.03"], ["residual_gap[best] <= 0.05"], [ERRORS],
                                    [GAP, ERRORS]], ids=str)  # fmt: skip
def test_the_optimum_is_that_of_another_solver(stated, weight):
    problem = made(stated, weight=weight)
    start = problem.evaluate(torch.from_numpy(np.linalg.lstsq(DESIGN, Y, rcond=None)[0]))
    found = problem.evaluate(lowest_within(problem))
    assert float(start.violation) > 0 >= float(found.violation)
    assert float(found.f) == pytest.approx(least(stated, weight), rel=1e-6)


def test_the_values_are_those_of_the_rows():
    """Also where groups are crossed, left out, and not known for some rows."""
    other = np.where(np.arange(500) % 5 == 0, None, np.array(["u", "v"], dtype=object)[OTHER])
    few = np.where(np.arange(500) < 3, "few", GROUP.astype(str))
    stated = [GAP, ERRORS, "residual_gap[overall] <= 1", "group_squared_error[crossed,fewest=20] <= 2",
              "residual_gap[both,fewest=20,overall] <= 0.1"]  # fmt: skip
    for groups, bounds in ((GROUP, stated[:3]), ({"a": few, "b": other}, stated)):
        for weight in (None, WEIGHT):
            problem, x = made(bounds, groups, weight=weight), torch.tensor([0.3, -0.2, 0.1, -1.0], dtype=torch.float64)
            program = BoundedSquares.of(problem, lambda: False)
            values = program.values(x.numpy()) - program.bounds
            np.testing.assert_allclose(values, problem.evaluate(x).g.numpy(), atol=1e-12)
            assert not program.allowed.any()


def test_room_is_kept_and_costs():
    problem = made([GAP, ERRORS])
    room = torch.full((problem.m,), 0.01, dtype=torch.float64)
    plain, inside = (problem.evaluate(lowest_within(problem, r)) for r in (None, room))
    assert float(inside.g.max()) <= -0.01 < float(plain.g.max()) <= 0
    assert float(inside.f) > float(plain.f)


def test_a_bound_of_0_is_met_within_a_millionth():
    problem = made("residual_gap <= 0")
    near = made("residual_gap <= 1e-6")
    found, other = (one.evaluate(lowest_within(one)) for one in (problem, near))
    assert 1e-7 < float(found.g.max()) <= 5e-7 and float(other.g.max()) <= 0
    assert float(found.f) == pytest.approx(float(other.f), rel=1e-5)


def test_bounds_of_many_groups_are_added_as_they_are_broken():
    """Of 6 crossed groups 30 differences in both directions are bounded, and few of them hold the optimum."""
    groups = {"a": GROUP, "b": OTHER}
    problem = made("residual_gap[crossed] <= 0.15", groups=groups)
    x = lowest_within(problem)
    loose = made("residual_gap[crossed] <= 0.2", groups=groups)
    assert problem.m == 30 and float(problem.evaluate(x).violation) <= 0
    assert float(problem.evaluate(x).f) > float(problem.evaluate(lowest_within(loose)).f)


def test_other_problems_have_no_such_optimum(monkeypatch):
    others = [
        made("prediction_parity[at=0] <= 0.1"), made([GAP, "prediction_parity[at=0] <= 0.1"]), made(None),
        made("loss_gap <= 0.1"), made("residual_gap[largest=2] <= 0.1"), made("group_squared_error[largest=2] <= 0.8"),
        made(GAP, model=MLP(3, (4,))), made(GAP, model=MLP(3, bias=False)),
    ]  # fmt: skip
    for problem in others:
        assert lowest_within(problem) is None
    assert lowest_within(made("group_squared_error <= 0.01")) is None, "no model meets it"
    problem = made(GAP)
    monkeypatch.setattr(least_squares, "MOST_MOMENTS", 10)
    assert lowest_within(problem) is None


def test_bounds_of_many_groups_take_no_room_for_groups_that_they_do_not_compare():
    """Of 40 groups, 1560 bounds of two groups each."""
    rng = np.random.default_rng(3)
    groups = rng.permutation(np.arange(500) % 40).astype(str)
    problem, x = made([GAP, ERRORS], groups, weight=WEIGHT), torch.tensor([0.3, -0.2, 0.1, -1.0], dtype=torch.float64)
    program = BoundedSquares.of(problem, lambda: False)
    assert program.linear.nnz == 2 * 40 * 39 and program.squared.nnz == 40
    np.testing.assert_allclose(program.values(x.numpy()) - program.bounds, problem.evaluate(x).g.numpy(), atol=1e-12)


def test_past_its_deadline_nothing_is_taken_and_moments_only_once(monkeypatch):
    problem, of, taken = made(GAP), least_squares._moments, []
    monkeypatch.setattr(least_squares, "_moments", lambda *given: taken.append(given) or of(*given))
    assert lowest_within(problem, late=lambda: True) is None and len(taken) == 1
    assert lowest_within(problem) is not None and len(taken) == 2, "what was broken off is taken again"
    room = torch.full((problem.m,), 0.01, dtype=torch.float64)
    assert lowest_within(problem, room) is not None and len(taken) == 2
    assert lowest_within(problem, room, lambda: True) is None
