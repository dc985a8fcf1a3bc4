"""Bounds between many groups, which are thousands of constraints: a few gradients take no matrix of all of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fairbound.fairness.objectives import Accuracy
from fairbound.fairness.problem import FairProblem
from fairbound.models.mlp import MLP


class Largest(TorchDispatchMode):
    """Keeps the number of entries of the largest tensor that is made within."""

    numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        for one in made if isinstance(made, tuple | list) else (made,):
            if isinstance(one, torch.Tensor) and not one._is_view():
                self.numel = max(self.numel, one.numel())
        return made


def problem_of(stated, objective=None, groups=60, rows=1200):
    rng = np.random.default_rng(0)
    X, group = rng.normal(size=(rows, 3)), np.arange(rows) % groups
    y = (X[:, 0] + rng.normal(size=rows) > 0).astype(int)
    return FairProblem(MLP(3), X, y, group, stated, objective=objective, dtype=torch.float64)


@pytest.mark.parametrize(
    ("stated", "objective"),
    [("demographic_parity <= 0.1", Accuracy(0.5)), ("partial_statistical_parity[0:0.5] <= 0.1", None)],
)
def test_some_gradients_take_no_matrix_of_all_constraints(stated, objective):
    problem = problem_of(stated, objective)
    x, everything = problem.start((0,)), problem.sample((0,), "full", 0, 1, "full")
    which = [0, 7, problem.m]
    asked = problem.jacobian(x, everything, which)[1]
    with Largest() as made:
        problem.jacobian(x, everything, which)
    assert problem.m >= 1200 and made.numel < problem.m**2
    torch.testing.assert_close(asked, problem.jacobian(x, everything)[1][which], rtol=1e-12, atol=1e-14)


def test_a_derivative_along_a_line_takes_none_either():
    problem = problem_of("partial_statistical_parity[0:0.5] <= 0.1")
    x, everything = problem.start((0,)), problem.sample((0,), "full", 0, 1, "full")
    along = torch.randn(problem.n, generator=torch.Generator().manual_seed(0), dtype=x.dtype)
    with Largest() as made:
        found = problem.jvp(x, everything, along)
    assert made.numel < problem.m**2
    slopes = problem.jacobian(x, everything)[1] @ along
    torch.testing.assert_close(found, slopes, rtol=1e-10, atol=10 * math.ulp(1.0))
