"""A problem of one's own whose functions have other shapes than it states is refused by what is wrong with them: one
constraint fewer than stated would pass for met."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch

import fairbound as fb
from fairbound.base.errors import OptionError
from fairbound.problems.base import BaseProblem
from fairbound.problems.domain import Box, Simplex
from fairbound.problems.problem import Evaluation, Measured
from fairbound.problems.wrappers import Counted
from fairbound.testing import check_gradient, conformance


class Rows(NamedTuple):
    size: int


class Bowl(BaseProblem):
    """min |x|^2 subject to 1 - x_1 <= 0."""

    n, m = 2, 1

    def start(self, seeds):
        return torch.zeros(2, dtype=torch.float64)

    def sample(self, seeds, name, k, size, kind):
        return Rows(1)

    def values(self, x, batch, true=False):
        return Evaluation(x.square().sum(-1), 1 - x[..., :1])

    def gradient(self, x, batch, weights):
        evaluation = self.values(x, batch) if callable(weights) else None
        w0, w = weights(evaluation) if callable(weights) else weights
        slope = 2 * x * w0
        if w is not None:
            slope = slope - torch.cat([w, torch.zeros_like(w)], -1)
        return evaluation, slope

    def evaluate(self, x):
        found = self.values(x, Rows(1))
        return Measured(found.f, found.g, {})


class Flat(Bowl):
    def values(self, x, batch, true=False):
        return Evaluation(x.square().sum(-1), 1 - x[..., 0])


class FlatInTraining(Flat):
    def evaluate(self, x):
        found = Bowl.values(self, x, Rows(1))
        return Measured(found.f, found.g, {})


class Two(Bowl):
    m = 2


class Loose(Bowl):
    def evaluate(self, x):
        return self.values(x, Rows(1))


class Short(Bowl):
    def start(self, seeds):
        return torch.zeros(3, dtype=torch.float64)


def test_the_problem_as_it_should_be_is_solved():
    solution = fb.solve(Bowl(), "alm", budget="600 steps")
    assert float(solution.violation) < 1e-3 and float(solution.x[0]) == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        (Flat, r"evaluate of the problem gave .* g of shape \(\). .* m = 1 they must be \(\) and \(1,\)"),
        (FlatInTraining, r"(values|gradient) of the problem gave .* g of shape \(\)"),
        (Two, r"g of shape \(1,\). .* m = 2 they must be \(\) and \(2,\)"),
        (Loose, r"evaluate must return a fairbound.problems.problem.Measured"),
        (Short, r"the problem's start must have shape \(2,\), got \(3,\)"),
    ],
)
def test_other_shapes_than_stated_are_refused_by_name(problem, said):
    with pytest.raises(OptionError, match=said):
        fb.solve(problem(), "alm", budget="600 steps")


ZERO = torch.zeros((), dtype=torch.float64)


def bowl(**said):
    """Bowl with other members."""
    return type("Mine", (Bowl,), said)()


STATED = [
    ({"m": -1}, r"m of Mine, the number of constraints, must be a whole number of at least 0; it is -1"),
    ({"n": 2.0}, r"n of Mine, the number of parameters, must be a whole number.* it is 2.0 \(float\)"),
    ({"n": None}, r"n of Mine.* it is not said. Set it in the class"),
    ({"rows": 0}, r"rows of Mine.* at least 1; it is 0"),
    ({"names": ("a", "b")}, r"m = 1 constraints and 2 names \(a, b\). Give one for each"),
    ({"names": "budget"}, r"names of Mine must be a sequence of texts"),
    ({"bounds": (0.05,)}, r"bounds of Mine must be a number, or a torch tensor .* it is \(0.05,\) \(tuple\)"),
    ({"bounds": torch.zeros(3)}, r"bounds of Mine .* of shape \(1,\).* a tensor of shape \(3,\)"),
    ({"dual_scale": [1.0]}, r"dual_scale of Mine must be a number"),
    ({"domain": Simplex}, r"domain of Mine must be a set .* the class Simplex: write Simplex\(...\)"),
    ({"domain": None}, r"domain of Mine must be a set .* it is None"),
    ({"dual_set": "simplex"}, r"dual_set of Mine must be a set"),
    ({"strata": (1, 2)}, r"strata of Mine must be a Strata or None"),
    ({"blocks": None}, r"blocks of Mine must be a mapping"),
]


@pytest.mark.parametrize(("said", "error"), STATED)
def test_what_a_problem_says_of_itself_is_checked_before_it_is_solved_or_tested(said, error):
    for use in (fb.solve, lambda problem: conformance(fb.ALM(), problem), check_gradient):
        with pytest.raises(OptionError, match=error):
            use(bowl(**said))


def test_a_class_in_place_of_a_problem_is_refused():
    with pytest.raises(OptionError, match=r"Bowl is a class; pass a problem made of it, Bowl\(...\)"):
        fb.solve(Bowl)


def test_bounds_for_each_constraint_and_a_set_are_taken():
    problem = bowl(bounds=torch.tensor([0.5], dtype=torch.float64), dual_scale=2, domain=Box(-2.0, 2.0), names=["a"])
    assert fb.solve(problem, budget="20 steps").steps == 20


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (
            {"evaluate": lambda s, x: Measured(0.1, x[:1], {})},
            "evaluate .* gave a float as f; it must be a torch tensor",
        ),
        ({"evaluate": lambda s, x: Measured(x.sum(), x[:1], None)}, "Measured.*, not one with NoneType as the last"),
        ({"gradient": lambda s, x, b, w: x}, r"gradient .* a pair \(evaluation, gradient\), not a Tensor"),
        (
            {"gradient": lambda s, x, b, w: (s.values(x, b), x[:1])},
            r"gradient .* shape \(1,\). .* a tensor of shape \(2,\)",
        ),
        (
            {"gradient": lambda s, x, b, w: (s.values(x, b), ZERO)},
            r"gradient .* shape \(\). .* a tensor of shape \(2,\)",
        ),
        (
            {"gradient": lambda s, x, b, w: ((x.sum(), x[:1]), x)},
            r"gradient .* must give a .*Evaluation\(f, g\), not a tuple",
        ),
    ],
)
def test_answers_of_another_kind_are_refused_by_name(said, error):
    with pytest.raises(OptionError, match=error):
        fb.solve(bowl(**said), "alm", budget="600 steps")


def test_a_nearer_point_of_another_shape_is_refused_by_name():
    with pytest.raises(OptionError, match=r"nearer .* shape \(1,\). .* a tensor of shape \(2,\)"):
        Counted(bowl(nearer=lambda s, x: x[:1])).nearer(torch.zeros(2))


def test_the_check_of_slopes_names_an_answer_of_another_kind():
    with pytest.raises(AssertionError, match=r"jvp .* a tensor of shape \(2,\)"):
        check_gradient(bowl(jvp=lambda s, x, b, dx: ZERO))
    with pytest.raises(AssertionError, match=r"values .* must give a .*Evaluation\(f, g\), not a tuple"):
        check_gradient(
            bowl(
                values=lambda s, x, b, true=False: (x.sum(), x[:1]),
                jacobian=lambda s, x, b, w=None: Bowl.jacobian(Bowl(), x, b),
            )
        )
