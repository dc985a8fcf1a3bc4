"""Bounds between many groups, which are thousands of constraints: a few gradients take no matrix of all of them."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fairbound.base.errors import OptionError
from fairbound.fairness import problem as fair
from fairbound.fairness.evaluation import one_pass
from fairbound.fairness.lines import counted_rows, fewer_wrong
from fairbound.fairness.lines.counted_rows import CountedRows
from fairbound.fairness.lines.part_way import part_way
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


def problem_of(stated, objective=None, groups=60, rows=1200, features=3):
    rng = np.random.default_rng(0)
    X, group = rng.normal(size=(rows, features)), np.arange(rows) % groups
    y = (X[:, 0] + rng.normal(size=rows) > 0).astype(int)
    return FairProblem(MLP(features), X, y, group, stated, objective=objective, dtype=torch.float64)


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


@pytest.mark.parametrize("of", [lambda problem, x: fewer_wrong.fewer_wrong(problem, x), CountedRows.of])
def test_rows_are_counted_without_a_number_of_each_for_every_pair_of_groups(of):
    problem = problem_of("demographic_parity <= 0.1", Accuracy(1.0), groups=120, rows=3600)
    x, each = problem.start((0,)) + 1.0, problem.m * problem.rows
    tracemalloc.start()
    with Largest() as made:
        of(problem, x)
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert made.numel < each / 20 and taken < 8 * each / 2


def test_a_line_between_two_models_takes_none_of_them_either():
    problem = problem_of("demographic_parity <= 1.0", Accuracy(0.5), groups=120, rows=3600)
    start, end = torch.tensor([0.0, 0.0, 1.0, 5.0]).double(), torch.tensor([1.0, 0.0, 0.0, 0.0]).double()
    tracemalloc.start()
    with Largest() as made:
        x, t = part_way(problem, start, end, lambda at: float(at[0]) <= 0.7)
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert made.numel < problem.m * problem.rows / 20 and taken < 8 * problem.m * problem.rows / 2
    assert 0.69 < t <= 0.7 and float(problem.evaluate(x).extra["accuracy"]) > 0.6


@pytest.mark.parametrize("bound", ["demographic_parity <= 0.2", "equalized_odds <= 0.3"])
def test_lines_lead_to_the_same_model_where_bounds_are_taken_from_the_rates_of_groups(bound, monkeypatch):
    problem = problem_of(bound, Accuracy(0.5), groups=6, rows=300)
    starts = [torch.tensor(x).double() for x in ([1.0, 0.5, 0.0, 0.0], [0.1, 1.0, 0.0, 2.0])]
    other = torch.tensor([1.0, 0.0, 0.0, 0.0]).double()

    def found():
        lines = [fewer_wrong.fewer_wrong(problem, x) for x in starts]
        return [*lines, *(part_way(problem, x, other, lambda at: True)[0] for x in lines)]

    before = found()
    monkeypatch.setattr(counted_rows, "MOST_CELLS", problem.m * problem.rows - 1)
    monkeypatch.setattr(fewer_wrong, "JUDGED", 100)
    assert len(CountedRows.of(problem.with_objective(Accuracy(1.0)), other).turns) == problem.plan.n_cells
    assert all(map(torch.equal, before, found()))
    assert not torch.equal(before[0], starts[0])


def test_all_rows_in_one_pass_take_no_number_of_each_for_every_pair_of_groups():
    problem = problem_of("demographic_parity <= 0.1", Accuracy(0.5), features=70)
    x = problem.start((0,))
    with Largest() as made:
        assert problem.one_pass(x, problem.full()) is not None
    assert made.numel < problem.m * problem.rows / 4


def test_no_matrix_of_pairs_times_groups_is_made_where_it_would_be_too_large(monkeypatch):
    problem = problem_of("demographic_parity <= 0.1", Accuracy(0.5), features=70)
    x = problem.start((0,)) + 0.1
    whole = problem.one_pass(x, problem.full()).values(x)
    monkeypatch.setattr(one_pass, "MOST_CONTRASTS", problem.m * problem.plan.n_cells)
    other = problem_of("demographic_parity <= 0.1", Accuracy(0.5), features=70)
    assert other.one_pass(x, other.full()) is None
    torch.testing.assert_close(other.values(x, other.full()).g, whole.g, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("stated", "other"),
    [("demographic_parity[fewest=5] <= 0.1", "demographic_parity[overall,fewest=5] <= 0.1"), ("f1_parity <= 0.1", "")],
)
def test_more_constraints_than_can_be_held_are_refused_with_what_to_state_in_their_place(stated, other, monkeypatch):
    assert fair.MOST_CONSTRAINTS >= 1000 * 999
    monkeypatch.setattr(fair, "MOST_CONSTRAINTS", 20 * 19 - 1)
    with pytest.raises(OptionError, match=r"makes 380 comparisons .* at most 379 .*merge groups") as refused:
        problem_of(stated, groups=20)
    assert repr(stated) in str(refused.value) and ("all rows" in str(refused.value)) is bool(other)
    if other:
        assert repr(other) in str(refused.value) and problem_of(other, groups=20).m == 40
