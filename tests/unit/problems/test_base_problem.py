"""What the base class derives: the Jacobian from gradients, the directional derivatives from the Jacobian, and names."""

import pytest
import torch

from fairbound.problems.base import BaseProblem, Numbered
from fairbound.problems.problem import Problem
from fairbound.testing import PROBLEMS, check_gradient
from twelve_rows import tiny


class Least(BaseProblem):
    """Another problem by its required members alone."""

    def __init__(self, of):
        self.of, self.n, self.m = of, of.n, of.m

    def start(self, seeds):
        return self.of.start(seeds)

    def sample(self, *which):
        return self.of.sample(*which)

    def values(self, x, batch, true=False):
        return self.of.values(x, batch, true)

    def gradient(self, x, batch, weights):
        return self.of.gradient(x, batch, weights)

    def evaluate(self, x):
        return self.of.evaluate(x)


@pytest.mark.parametrize(
    "make", [PROBLEMS["two_sided"], PROBLEMS["largest"], lambda: tiny("loss_gap <= 0.1"), lambda: tiny(None)]
)
@pytest.mark.parametrize("seeds", [(0,), (0, 1)])
def test_derived_slopes_are_those_written_by_hand(make, seeds):
    whole = make()
    least = Least(whole)
    assert isinstance(least, Problem)
    x, batch = whole.start(seeds) + 0.1, whole.sample(seeds, "a", 0, 4, "uniform")
    e, jacobian = whole.jacobian(x, batch)
    derived = least.jacobian(x, batch)
    assert torch.equal(derived[0].g, e.g) and torch.allclose(derived[1], jacobian, rtol=0, atol=1e-14)
    dx = torch.randn(x.shape, generator=torch.Generator().manual_seed(1), dtype=x.dtype)
    assert torch.allclose(least.jvp(x, batch, dx), whole.jvp(x, batch, dx), rtol=0, atol=1e-13)
    if whole.m:
        assert torch.equal(least.jacobian(x, batch, [1, 0])[1], derived[1][..., [1, 0], :])
        assert torch.allclose(whole.jacobian(x, batch, [1, 0])[1], jacobian[..., [1, 0], :], rtol=0, atol=1e-15)
    check_gradient(least, seeds=seeds)


def test_the_mirrored_row_of_a_two_sided_bound_is_right_alone_and_in_any_order():
    problem = tiny("loss_gap <= 0.1")
    x, full = problem.start((0,)) + 0.3, problem.full()
    whole = problem.jacobian(x, full)[1]
    for which in ([2], [2, 1], [1, 2], [2, 2, 0]):
        assert torch.allclose(problem.jacobian(x, full, which)[1], whole[which], rtol=0, atol=1e-15)


def test_names_are_made_when_asked_for():
    names = Numbered(500_000)
    assert len(names) == 500_000 and names[0] == "g1" and names[-1] == "g500000" and names[1:3] == ["g2", "g3"]
    assert list(Numbered(3)) == ["g1", "g2", "g3"]
    with pytest.raises(IndexError):
        names[500_000]
    assert list(Least(PROBLEMS["two_sided"]()).names) == ["g1", "g2"]
