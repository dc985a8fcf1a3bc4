"""A problem of one's own whose functions have other shapes than it states is refused by what is wrong with them: one
constraint fewer than stated would pass for met."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch

import fairbound as fb
from fairbound.base.errors import OptionError
from fairbound.problems.base import BaseProblem
from fairbound.problems.problem import Evaluation, Measured


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
