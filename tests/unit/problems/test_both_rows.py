"""Bounds on the rows of two problems: f of the one, g of both, and a model that meets the bounds of both."""

import pytest
import torch

from fairbound.base.errors import OptionError
from fairbound.methods import FullBatchALM
from fairbound.problems.both_rows import BothRows
from fairbound.problems.problem import Problem
from fairbound.problems.wrappers import Counted
from fairbound.testing import PROBLEMS, check_gradient, run
from twelve_rows import tiny

X = torch.tensor([0.4, -0.7, 0.2], dtype=torch.float64)


def parts(bound="loss_gap <= 0.1"):
    return tiny(bound, rows=[0, 1, 5, 6, 9]), tiny(bound, rows=[2, 3, 4, 7, 8])


def test_verbs_agree_and_rows_of_the_jacobian_are_those_of_the_whole():
    made = BothRows(*(PROBLEMS["two_sided"](noise=0.1) for _ in range(2)))
    assert isinstance(made, Problem) and len(made.names) == made.m == 4
    check_gradient(made)
    check_gradient(made, seeds=(0, 1))
    x, batch = made.start((3,)), made.sample((3,), "a", 0, 4, "uniform")
    whole = made.jacobian(x, batch)[1]
    for which in ([4, 0], [1], [3, 2]):
        assert torch.equal(made.jacobian(x, batch, which)[1], whole[which])


@pytest.mark.parametrize("kind, size", [("uniform", 3), ("full", 1)])
def test_the_objective_is_of_the_one_and_the_bounds_are_of_both(kind, size):
    mine, theirs = parts()
    both = Counted(BothRows(mine, theirs))
    batch = both.sample((0,), "a", 2, size, kind)
    ours, others = (p.sample((0,), "a", 2, size, kind) for p in (mine, theirs))
    for true in (False, True):
        here, there, found = mine.values(X, ours, true), theirs.values(X, others, true), both.values(X, batch, true)
        assert found.f == here.f and torch.equal(found.g, torch.cat([here.g, there.g]))
    y = torch.tensor([0.3, 0.0, 0.5, 2.0], dtype=torch.float64)
    wanted = mine.gradient(X, ours, (0.7, y[:2]))[1] + theirs.gradient(X, others, (0.0, y[2:]))[1]
    assert torch.allclose(both.gradient(X, batch, (0.7, y))[1], wanted, rtol=1e-12, atol=1e-15)
    e, slope = both.gradient(X, batch, lambda e: (0.7, y + 0 * e.g))
    assert torch.allclose(slope, wanted, rtol=1e-12, atol=1e-15) and e.g.shape == (4,)
    assert torch.allclose(both.gradient(X, batch, (1.0, None))[1], mine.gradient(X, ours, (1.0, None))[1], rtol=1e-12)
    assert torch.allclose(both.jvp(X, batch, X), both.jacobian(X, batch)[1] @ X, rtol=1e-9, atol=1e-12)
    assert both.counts.samples >= batch.size == ours.size + others.size
    assert torch.equal(both.evaluate(X).g, mine.evaluate(X).g)  # what is reported is of the one


def test_what_differs_in_shape_is_refused():
    with pytest.raises(OptionError, match="n = 2 and m = 2"):
        BothRows(tiny("loss_gap <= 0.1"), PROBLEMS["two_sided"]())


def test_a_method_meets_the_bounds_of_both():
    mine, theirs = parts("loss_gap <= 0.02")
    alone = run(FullBatchALM(), mine, 30, sampling="full").x
    found = run(FullBatchALM(), BothRows(mine, theirs), 30, sampling="full").x
    over = [[float(p.evaluate(x).violation) for p in (mine, theirs)] for x in (alone, found)]
    assert over[0][1] > 0.01 and max(over[1]) <= 1e-6
