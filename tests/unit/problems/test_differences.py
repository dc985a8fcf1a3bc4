"""Differences of convex functions: the split, the convex model at a point, and the steps it gives."""

import pytest
import torch

from double_well import double_well
from fairbound.base.errors import OptionError
from fairbound.methods import SGD
from fairbound.problems.differences import Difference, Linearised
from fairbound.testing import PROBLEMS, check_gradient, check_subgradient, run

POINTS = torch.tensor([[0.3, -0.8], [1.4, 0.1], [-1.0, 0.0], [0.0, 0.0]], dtype=torch.float64)


def test_the_double_well_has_the_values_written_out():
    problem = double_well()
    found = problem.evaluate(POINTS)
    a, b = POINTS[:, 0], POINTS[:, 1]
    assert torch.allclose(found.f, a**4 / 4 + b**2 / 2 - a**2 / 2, rtol=0, atol=1e-15)
    assert torch.allclose(found.g[:, 0], 0.36 - (a - 1) ** 2 - b**2, rtol=0, atol=1e-15)
    assert float(found.f[2]) == -0.25 and float(found.g[2]) < 0 < float(problem.evaluate(-POINTS[2]).g)
    assert not problem.convex and problem.plus.convex and problem.minus.convex
    for made in (problem, problem.plus, problem.minus):
        check_gradient(made)
        check_gradient(made, seeds=(0, 1))
    for part in (problem.plus, problem.minus):
        check_subgradient(part)


@pytest.mark.parametrize("c", POINTS)
def test_the_model_is_convex_above_the_problem_and_touches_it_at_its_centre(c):
    problem = double_well()
    model, full = Linearised(problem, c), problem.sample((0,), "a", 0, 1, "full")
    assert model.convex and model.plus is None
    check_gradient(model)
    check_subgradient(model)
    at, own = model.values(c, full), problem.values(c, full)
    assert torch.allclose(at.f, own.f, rtol=0, atol=1e-15) and torch.allclose(at.g, own.g, rtol=0, atol=1e-15)
    w = torch.tensor([0.7], dtype=torch.float64)
    assert torch.allclose(
        model.gradient(c, full, (1.0, w))[1], problem.gradient(c, full, (1.0, w))[1], rtol=0, atol=1e-15
    )
    x = c + torch.randn(200, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    over, under = model.values(x, full), problem.values(x, full)
    away = (x - c).square()
    assert torch.allclose(over.f - under.f, away[:, 0] / 2, rtol=0, atol=1e-13)  # the tangent's error, exactly
    assert torch.allclose(over.g[:, 0] - under.g[:, 0], away.sum(-1), rtol=0, atol=1e-13)
    assert torch.equal(model.evaluate(x).f, problem.evaluate(x).f)  # what is measured is the problem


def test_the_model_s_minimum_is_the_cube_root_of_the_centre():
    """Its slope is x_1^3 - c_1 and x_2; a stack has a centre each, and models repeated lead to the well."""
    centres = torch.tensor([[0.3, 0.5], [-0.5, 0.5]], dtype=torch.float64)
    model = Linearised(double_well(), centres)
    state = run(SGD(step_size=0.2), model, 400, seeds=(0, 1))
    expected = torch.stack([centres[:, 0].sign() * centres[:, 0].abs() ** (1 / 3), torch.zeros(2)], -1)
    assert torch.allclose(state.x, expected, rtol=0, atol=1e-9)
    assert torch.allclose(run(SGD(step_size=0.2), model.of_run(1), 400).x, state.x[1], rtol=0, atol=1e-12)
    x = centres[1]
    for _ in range(12):
        x = run(SGD(step_size=0.2), Linearised(double_well(), x), 200).x
    assert torch.allclose(x, double_well().plus.optimum.x, rtol=0, atol=1e-4)


def test_a_problem_without_a_split_is_refused_and_parts_must_agree():
    with pytest.raises(OptionError, match="no `plus` and `minus`"):
        Linearised(PROBLEMS["active"](), torch.zeros(3))
    with pytest.raises(OptionError, match="both must agree"):
        Difference(PROBLEMS["active"](), PROBLEMS["two_sided"]())


def test_tangents_of_a_batch_are_kept_only_where_it_comes_again():
    """A random batch is seen once by most methods: the Jacobian of the minus part, a row for each constraint, is not for it."""
    problem = double_well()
    model, batch = Linearised(problem, POINTS[0]), problem.sample((0,), "a", 1, 1, "uniform")
    asked = []
    lower = model.lower.jacobian
    model.lower.jacobian = lambda *args: asked.append(1) or lower(*args)
    w = torch.tensor([0.7], dtype=torch.float64)
    first = model.gradient(POINTS[1], batch, lambda e: (1.0, w))
    assert not asked
    again = model.gradient(POINTS[1], batch, lambda e: (1.0, w))
    assert len(asked) == 1
    assert torch.allclose(first[1], again[1], atol=1e-12) and torch.allclose(first[0].g, again[0].g, atol=1e-12)
