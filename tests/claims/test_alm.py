"""The augmented Lagrangian: its steps by hand, an independent solver's optimum, silent multipliers, infeasibility."""

import numpy as np
import pytest
import torch

from fairbound.base.errors import OptionError
from fairbound.fairness.problem import FairProblem
from fairbound.methods import ALM, SGD
from fairbound.models.model import MLP
from fairbound.problems.domain import Box
from fairbound.problems.wrappers import Counted, Wrapper
from fairbound.solver.solve import solve
from fairbound.testing import PROBLEMS, run
from twelve_rows import convex_fair, tiny


@pytest.mark.parametrize("name", ["two_sided", "box", "weakly_convex", "infeasible"])
@pytest.mark.parametrize("dual_every", [1, 7])
def test_steps_equal_the_formulas_written_by_hand(name, dual_every):
    problem = PROBLEMS[name]()
    c = ALM(
        step_size=0.1,
        dual_step_size=0.5,
        penalty=0.7,
        dual_every=dual_every,
        decay_steps=50.0,
        multiplier_bound=1.6,
        clip=0.9,
    )
    state = run(c, problem, 150)
    x, y, w = (
        problem.start((0,)),
        torch.zeros(problem.m, dtype=torch.float64),
        torch.zeros(problem.m, dtype=torch.float64),
    )
    full, clipped = problem.sample((0,), "a", 0, 1, "full"), 0
    for k in range(150):
        slower = (1 + k / 50) ** -0.5
        e, jacobian = problem.jacobian(x, full)
        if k % dual_every == 0:
            y = (y + 0.5 * slower * e.g).clamp(0, 1.6)
            w = (y + 0.7 * e.g).clamp(0, 1.6)
        gradient = jacobian[0] + w @ jacobian[1:]
        norm = float(gradient.norm())
        clipped += norm > 0.9
        x = problem.domain.project(x - 0.1 * slower * gradient * min(1.0, 0.9 / norm))
    assert torch.allclose(state.x, x, rtol=0, atol=1e-12) and torch.allclose(state.multipliers, y, rtol=0, atol=1e-12)
    assert clipped > 0 or name in ("two_sided", "infeasible")


def test_two_satisfied_bounds_keep_their_multipliers_at_zero():
    """A bound that never binds must cost nothing: the iterates are those of gradient descent, bit for bit."""
    problem = PROBLEMS["inactive"](noise=0.01)
    seen = []
    options = {"step_size": 0.1, "decay": 0.5, "decay_steps": 1000.0}
    state = run(
        ALM(dual_every=1, **options), problem, 300, after=lambda s: seen.append((s.multipliers, s.w)), batch_size=32
    )
    assert all(not y.any() and not w.any() for y, w in seen)

    class SameRows(Wrapper):  # ALM names its stream "primal", SGD "objective"
        def sample(self, seeds, name, k, size, kind):
            return self.inner.sample(seeds, "primal", k, size, kind)

    plain = run(SGD(**options), SameRows(problem), 300, batch_size=32)
    assert torch.equal(state.x, plain.x)


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, 1])
def test_a_convex_fair_problem_reaches_the_optimum_of_a_cone_solver(seed):
    """Logistic regression with group means of scores at most 0.1 apart, against cvxpy with Clarabel.

    The clipped surrogate with sharpness 0.05 is linear while |score| < 10, so its bound of 0.005 says that mean scores
    differ by at most 0.1. Full batches: the run is deterministic, and the tolerance is the optimiser's, not luck.
    """
    cvxpy = pytest.importorskip("cvxpy")
    rng = np.random.default_rng(seed)
    n, d = 200, 4
    group = rng.random(n) < 0.4
    X = rng.normal(size=(n, d)) + 0.5 * group[:, None]
    y = (X @ np.array([1.0, -0.5, 0.3, 0.2]) + rng.logistic(size=n) > 0).astype(int)
    stated = "demographic_parity[surrogate=clipped,sharpness=0.05] <= 0.005"
    problem = FairProblem(MLP(d), X, y, np.where(group, "a", "b"), stated,
                          dtype=torch.float64)  # fmt: skip
    # g is twenty times flatter than f in the scores: large dual steps, which dual_scale (5 here) enlarges further
    config = ALM(
        step_size=0.5,
        dual_step_size=20.0,
        penalty=20.0,
        dual_every=1,
        dual_rows=0,
        dual_values="surrogate",
        decay=0.0,
        margin=0.0,
    )
    solution = solve(problem, config, budget="3000 steps", sampling="full", record_every=3000)

    Z = np.column_stack([X, np.ones(n)])
    v = cvxpy.Variable(d + 1)
    gap = 0.05 * (Z[group].mean(0) - Z[~group].mean(0)) @ v
    loss = cvxpy.sum(cvxpy.logistic(Z @ v) - cvxpy.multiply(y, Z @ v)) / n
    bounds = [gap <= 0.005, -gap <= 0.005]
    cvxpy.Problem(cvxpy.Minimize(loss), bounds).solve(solver=cvxpy.CLARABEL)
    assert np.abs(Z @ v.value).max() < 10
    final = problem.values(solution.last, problem.full())
    assert float(final.f) == pytest.approx(loss.value, abs=1e-6)
    assert float(final.g.max()) < 1e-6
    assert np.allclose(solution.last.numpy(), v.value, atol=1e-4)
    multipliers = solution.state.multipliers.numpy()
    assert np.allclose(multipliers, [float(b.dual_value) for b in bounds], atol=1e-3)
    assert multipliers.max() > 0.1 and multipliers.min() == 0  # one side of the bound is active, the other silent


def test_the_certified_optimum_and_multipliers_of_the_twelve_rows():
    problem = convex_fair()
    config = ALM(step_size=0.5, dual_every=1, dual_rows=0, dual_values="surrogate", decay=0.0, margin=0.0)
    solution = solve(problem, config, budget="1500 steps", sampling="full", record_every=1500)
    assert torch.allclose(solution.last, problem.optimum.x, atol=1e-6)
    assert torch.allclose(solution.state.multipliers, problem.optimum.multipliers, atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_an_infeasible_bound_is_said_with_the_smallest_violation(seed):
    problem = PROBLEMS["infeasible"](noise=0.1)
    solution = solve(problem, ALM(dual_every=5), budget="2000 steps", seed=seed, record_every=10)
    assert not bool(solution.feasible)
    # max(x_1 + 1, 1 - x_1) = 1 + |x_1|, and x_1 passes zero by at most a step of 0.1 / sqrt(1 + k / 1000)
    assert 1 <= float(solution.violation) < 1.05
    assert "no iterate met every bound" in solution.message and f"{float(solution.violation):.4g}" in solution.message


@pytest.mark.parametrize("method", ["alm", "ssl_alm", "switching_subgradient"])
def test_an_infeasible_fairness_bound_reports_the_least_gap_there_is(method):
    """One constant feature and an intercept kept at 1 or more: the loss gap is |p_a - p_b| b, least at b = 1."""
    rng = np.random.default_rng(0)
    group = np.repeat(["a", "b"], 60)
    y = (rng.random(120) < np.where(group == "a", 0.7, 0.2)).astype(int)
    domain = Box(torch.tensor([0.0, 1.0]), torch.tensor([0.0, 3.0]))
    problem = FairProblem(MLP(1), np.zeros((120, 1)), y, group, "loss_gap <= 0.01", domain=domain)
    least = abs(y[group == "a"].mean() - y[group == "b"].mean()) - 0.01
    solution = solve(problem, method, budget="800 steps", batch_size=32, x0=torch.tensor([0.0, 2.0]), record_every=10)
    assert not bool(solution.feasible)
    assert least - 1e-6 <= float(solution.violation) < least + 0.01
    assert "smallest excess" in solution.message and "infeasible" in solution.message


def test_multipliers_and_weights_stay_within_their_bound():
    seen = []
    run(
        ALM(dual_every=1, multiplier_bound=0.5),
        PROBLEMS["infeasible"](),
        200,
        after=lambda s: seen.append((s.multipliers, s.w)),
    )
    for y, w in seen:
        assert torch.equal(y, y.clamp(0, 0.5)) and torch.equal(w, w.clamp(0, 0.5))
    assert float(seen[-1][0].max()) == 0.5


def test_an_unseen_constraint_keeps_its_multiplier():
    problem = Counted(tiny("loss_gap <= 0.02"))
    config = ALM(dual_every=1, dual_rows=1, dual_values="surrogate")
    seen = []
    run(config, problem, 20, sampling="uniform", after=lambda s: seen.append((s.multipliers, s.w)))
    assert all(not y.any() and not w.any() for y, w in seen)  # one row never shows two groups
    assert problem.counts.unseen > 0


def test_the_true_metric_drives_the_multipliers_unless_told_otherwise():
    problem = tiny("demographic_parity <= 0.01")
    x = torch.tensor([2.0, 0.1, 0.0], dtype=torch.float64)
    full = problem.full()
    true, surrogate = problem.values(x, full, true=True).g, problem.values(x, full).g
    assert not torch.allclose(true, surrogate)
    for option, expected in (("true", true), ("surrogate", surrogate)):
        solution = solve(problem, ALM(dual_rows=0, dual_values=option), budget="1 steps", x0=x, sampling="full")
        aimed = expected + 0.05 * problem.bounds  # the default margin
        assert torch.allclose(solution.state.w, (aimed.clamp_min(0) + aimed).clamp_min(0) * problem.dual_scale)


def test_the_margin_is_a_share_of_the_stated_bound():
    """At g = -share * bound nothing moves with a smaller margin; with a larger one the multiplier grows by what is lacking."""
    problem = tiny("demographic_parity <= 0.9")
    x = torch.tensor([2.0, 0.1, 0.0], dtype=torch.float64)
    slack = problem.values(x, problem.full(), true=True).g
    share = float((-slack / problem.bounds).min())
    assert 0 < share < 1
    for margin, moves in ((0.9 * share, False), (1.1 * share, True)):
        solution = solve(problem, ALM(dual_rows=0, margin=margin), budget="1 steps", x0=x, sampling="full")
        expected = (slack + margin * problem.bounds).clamp_min(0)
        assert (
            torch.allclose(solution.state.multipliers, expected * problem.dual_scale) and bool(expected.any()) is moves
        )


def test_options_are_checked():
    for bad in (
        {"step_size": 0},
        {"penalty": -1},
        {"dual_every": 0},
        {"dual_values": "rate"},
        {"optimizer": "lion"},
        {"clip": 0},
    ):
        with pytest.raises(OptionError, match=next(iter(bad))):
            ALM(**bad)
