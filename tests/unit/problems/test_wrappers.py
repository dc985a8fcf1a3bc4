"""Wrappers: each changes what it says and nothing else; the four verbs agree; wrappers nest."""

import pytest
import torch

from fairbound.base.errors import OptionError
from fairbound.methods import ALM, SGD
from fairbound.problems.penalised import Distance, Penalised, Proximal
from fairbound.problems.problem import Problem
from fairbound.problems.wrappers import Counted, DualRows, Rebounded, Surrogates, Watched, Wrapper, innermost
from fairbound.testing import PROBLEMS, check_gradient, run
from twelve_rows import tiny

X = torch.tensor([0.4, -0.7, 0.2], dtype=torch.float64)
CENTRE = torch.tensor([0.5, -1.0], dtype=torch.float64)


def two_sided(**options):
    return PROBLEMS["two_sided"](noise=0.1, **options)


WRAPPED = {
    "plain": Wrapper,
    "counted": Counted,
    "rebounded": lambda p: Rebounded(p, [0.05, -0.1]),
    "dual rows": lambda p: DualRows(p, two_sided()),
    "penalised": lambda p: Penalised(p, Distance(CENTRE), 0.7),
    "proximal": lambda p: Proximal(p, CENTRE, 3.0),
    "proximal constraints": lambda p: Proximal(p, CENTRE, 3.0, on_constraints=True),
    "surrogates": Surrogates,
    "watched": lambda p: Watched(p, lambda x, measured: {"norm": x.norm(dim=-1)}),
    "nested": lambda p: Counted(Rebounded(Proximal(Watched(p, lambda x, measured: {}), CENTRE, 2.0), [0.0, 0.3])),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_a_wrapped_problem_is_a_problem_whose_verbs_agree(name):
    made = WRAPPED[name](two_sided())
    assert isinstance(made, Problem) and innermost(made).name == "two_sided"
    check_gradient(made)
    check_gradient(made, seeds=(0, 1))


@pytest.mark.parametrize("name", WRAPPED)
def test_rows_of_the_jacobian_are_rows_of_the_whole_jacobian(name):
    made = WRAPPED[name](two_sided())
    x, batch = made.start((3,)), made.sample((3,), "a", 0, 4, "uniform")
    whole = made.jacobian(x, batch)[1]
    for which in ([2, 0], [1], []):
        if which:
            assert torch.equal(made.jacobian(x, batch, which)[1], whole[which])


def test_counts_are_the_calls_their_rows_and_what_batches_lack():
    problem = Counted(tiny("loss_gap <= 0.1"))
    full = problem.sample((0,), "a", 0, 1, "full")
    problem.values(X, full)
    problem.gradient(X, problem.sample((0,), "a", 0, 5, "uniform"), (1.0, None))
    problem.jvp(X, problem.sample((0,), "b", 0, 4, "balanced"), X)
    problem.jacobian(X, full)
    problem.evaluate(X)
    found = problem.counts
    assert (found.values, found.gradients, found.jvps, found.jacobians, found.samples) == (1, 1, 1, 1, 12 + 5 + 4 + 12)
    one = problem.sample((0,), "c", 0, 1, "uniform")  # a row shows one group, and both sides of the bound need two
    for verb in (problem.values, problem.jacobian):
        before = found.unseen
        verb(X, one)
        assert found.unseen - before == 2
    before = found.unseen
    problem.gradient(X, one, lambda e: (1.0, e.g))
    assert found.unseen - before == 2


def test_a_stack_counts_the_rows_of_each_run():
    problem = Counted(tiny("loss_gap <= 0.1"))
    run(SGD(), problem, 3, seeds=(0, 1, 2), batch_size=4)
    assert problem.counts.samples == 12


def test_a_batch_without_a_size_is_an_error_that_says_what_to_do():
    problem = Counted(PROBLEMS["active"]())
    with pytest.raises(OptionError, match=r"attribute `size`.*a Tensor does not.*NamedTuple"):
        problem.values(torch.zeros(3), torch.arange(4))  # whose `size` is a function


def test_other_bounds_shift_g_alone_and_replace_those_before():
    base = tiny("loss_gap <= 0.1")
    made = Rebounded(Rebounded(base, [0.5, 0.6]), [0.3, 0.2])
    full, new = base.full(), torch.tensor([0.3, 0.2], dtype=torch.float64)
    assert torch.allclose(made.values(X, full).g, base.values(X, full).g + 0.1 - new, rtol=0, atol=1e-15)
    assert torch.allclose(made.evaluate(X).g, base.evaluate(X).g + 0.1 - new, rtol=0, atol=1e-15)
    assert made.values(X, full).f == base.values(X, full).f and torch.equal(made.bounds, new)
    assert innermost(made) is base and made.inner is base
    lacking = base.sample((0,), "u", 0, 1, "uniform")
    assert torch.equal(made.values(X, lacking).g, torch.zeros(2, dtype=torch.float64))  # not seen: no information
    for wrong in ([0.1], [0.1, 0.2, 0.3], 0.1):
        with pytest.raises(OptionError, match="one per constraint"):
            base.with_bounds(wrong)


def test_every_run_of_a_stack_may_have_its_own_bounds_and_a_run_of_it_is_a_problem():
    base, bounds = tiny("loss_gap <= 0.1"), torch.tensor([[0.3, 0.2], [0.0, 0.1]], dtype=torch.float64)
    for stacked in (
        base.with_bounds(bounds),
        Counted(base.with_bounds(bounds)),
        base.with_bounds(bounds).with_bounds(bounds),
    ):
        xs = torch.stack([X, -X])
        together = stacked.evaluate(xs).g
        for r in (0, 1):
            one = stacked.of_run(r)
            assert torch.equal(one.bounds, bounds[r])
            assert torch.allclose(one.evaluate(xs[r]).g, together[r], rtol=0, atol=1e-15)
    shared = Counted(base.with_bounds([0.3, 0.2]))
    assert shared.of_run(1) is shared
    counted = Counted(base.with_bounds(bounds))
    counted.of_run(1).values(X, base.full())
    assert counted.counts.values == 1  # runs of a stack share its counts


def test_dual_rows_come_from_the_other_problem_and_no_others_do():
    mine, theirs = tiny("loss_gap <= 0.1", rows=[0, 1, 5, 6, 9]), tiny("loss_gap <= 0.1", rows=[2, 3, 4, 7, 8])
    both = DualRows(mine, theirs)
    for kind, size in (("uniform", 3), ("full", 1)):
        ours, other = both.sample((0,), "dual", 2, size, kind), theirs.sample((0,), "dual", 2, size, kind)
        assert ours.size == other.size
        w = torch.ones(2, dtype=torch.float64)
        assert torch.equal(both.values(X, ours).g, theirs.values(X, other).g)
        assert torch.equal(both.gradient(X, ours, (1.0, w))[1], theirs.gradient(X, other, (1.0, w))[1])
        assert torch.equal(both.jvp(X, ours, X), theirs.jvp(X, other, X))
        assert torch.equal(both.jacobian(X, ours, [1])[1], theirs.jacobian(X, other, [1])[1])
        assert torch.equal(
            both.sample((0,), "primal", 2, size, kind).features, mine.sample((0,), "primal", 2, size, kind).features
        )
    assert torch.equal(both.evaluate(X).g, mine.evaluate(X).g)
    counted = Counted(both)
    run(ALM(dual_every=1, dual_rows=0), counted, 2, batch_size=4)
    assert counted.counts.values == 2 and counted.counts.samples == 2 * (theirs.rows + 4)
    with pytest.raises(OptionError, match="n = 2 and m = 2"):
        DualRows(mine, two_sided())


def test_a_penalty_and_a_proximal_term_are_added_to_f_alone_and_not_to_what_is_measured():
    base = two_sided()
    x, full = base.start((0,)), base.sample((0,), "a", 0, 1, "full")
    made = Penalised(base, Distance(CENTRE), 0.7)
    own, e = base.values(x, full), made.values(x, full)
    assert float(e.f - own.f) == pytest.approx(0.35 * float((x - CENTRE).square().sum()), abs=1e-15)
    assert torch.equal(e.g, own.g) and torch.equal(made.evaluate(x).f, base.evaluate(x).f)
    near = Proximal(base, CENTRE, 3.0)
    assert float(near.values(x, full).f - own.f) == pytest.approx(1.5 * float((x - CENTRE).square().sum()), abs=1e-14)
    assert near.convex and near.unbiased and not made.convex and not made.unbiased
    assert Penalised(base, Distance(CENTRE), convex=True, unbiased=True).convex
    for wrong, words in (
        (lambda: Penalised(base, Distance(CENTRE), -1.0), "strength"),
        (lambda: Proximal(base, x, 0.0), "rho"),
    ):
        with pytest.raises(OptionError, match=words):
            wrong()


def test_a_proximal_term_moves_the_minimum_to_the_stated_place():
    """f = |x - a|^2 / 2 with rho/2 |x - c|^2 is least at (a + rho c) / (1 + rho); a stack has a centre each."""
    base, a = PROBLEMS["inactive"](), torch.tensor([0.5, -0.5], dtype=torch.float64)
    centres = torch.tensor([[1.0, 1.0], [-1.0, 0.0]], dtype=torch.float64)
    state = run(SGD(step_size=0.2), Proximal(base, centres, 2.0), 200, seeds=(0, 1))
    assert torch.allclose(state.x, (a + 2 * centres) / 3, rtol=0, atol=1e-12)
    one = run(SGD(step_size=0.2), Proximal(base, centres, 2.0).of_run(1), 200)
    assert torch.allclose(one.x, state.x[1], rtol=0, atol=1e-12)


def test_others_are_measured_along():
    """`watch` sees the stated problem's measurement, whatever wrapper around it moves the bounds."""
    other, base = tiny("loss_gap <= 0.2", rows=[2, 3, 4, 7, 8]), tiny("loss_gap <= 0.1")

    def watch(x, measured):
        return {"g": measured.g, "test_g": other.evaluate(x).g}

    found = Rebounded(Watched(base, watch), base.bounds + 1).evaluate(X).extra["watched"]
    assert torch.equal(found["g"], base.evaluate(X).g) and torch.equal(found["test_g"], other.evaluate(X).g)
