"""DFLS and YNW against steps written out in numpy, linear programs solved by HiGHS, and what their authors prove."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.optimize import linprog

from fairbound.base.errors import OptionError
from fairbound.methods import DFLS, YNW, ynw
from fairbound.problems.domain import Box, Space
from fairbound.problems.problem import Draws
from fairbound.problems.wrappers import Counted
from fairbound.testing import KnownProblem, Optimum, run
from twelve_rows import convex_fair

WIDE = ynw.JACOBIAN_UP_TO + 24


def linear(seed, n=4, m=3, noise=0.0, domain=None):
    """min c.x subject to A x <= b over a box, b > 0 so that 0 is strictly feasible; its optimum by HiGHS. The first
    constraint opposes the objective."""
    rng = np.random.default_rng(seed)
    c, A, b = rng.normal(size=n), rng.normal(size=(m, n)), rng.uniform(0.05, 0.4, size=m)
    A[:1] = 0.2 * A[:1] - c
    solved = linprog(c, A_ub=A if m else None, b_ub=b if m else None, bounds=[(-1, 1)] * n, method="highs")
    dual = (
        (solved.ineqlin.marginals @ b if m else 0.0)
        - np.abs(solved.lower.marginals).sum()
        - np.abs(solved.upper.marginals).sum()
    )
    assert abs(solved.fun - dual) < 1e-9  # certified: primal and dual values agree
    rows, bound = torch.tensor(np.vstack([c, A])), torch.tensor(np.append(0.0, b))
    optimum = Optimum(
        torch.tensor(solved.x),
        solved.fun,
        None,
        torch.tensor(solved.x),
        solved.fun,
        float(rows.norm(dim=1).max()),
        "HiGHS",
    )
    return KnownProblem(
        "linear program",
        lambda x: list((x @ rows.mT - bound).unbind(-1)),
        lambda x: [row.expand_as(x) for row in rows],
        [0.0] * n,
        optimum,
        m,
        domain=domain or Box(-1.0, 1.0),
        noise=noise,
    )


def rows_of(problem, x):
    """c (m,), gradients (1 + m, n) and f of the noiseless problem, as numpy."""
    full = problem.sample((0,), "all", 0, 1, "full")
    e, jacobian = problem.jacobian(torch.tensor(x), full)
    return float(e.f), e.g.numpy(), jacobian.numpy()


# -- DFLS -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [None, 2.0])
@pytest.mark.parametrize("seed", range(5))
def test_dfls_is_the_method_written_out_in_numpy(seed, level):
    problem, config = linear(seed), DFLS(step_size=0.3, relative_error=2.0, level=level)
    x = problem.start((seed,)).numpy().copy()
    r, t, origin, weight, spread = np.inf if level is None else level, 0, x, 0.0, 0.0
    best, least, outer, output = x, np.inf, 0, x
    path = []
    run(config, problem, 60, seeds=(seed,), after=lambda s: path.append((s.x.clone(), s.output, s.level, s.outer)))
    for theirs in path:
        f, g, rows = rows_of(problem, x)
        if (value := max(f - r, g.max())) < least:
            best, least = x, value
        error = (np.sum((x - origin) ** 2) + spread) / (2 * weight) if weight else np.inf
        if least < 0 and (np.isinf(r) or error <= -2.0 * least):  # the call ends
            outer, output, elsewhere = outer + 1, best, best is not x
            r = f if np.isinf(r) else r + least / 2
            t, origin, weight, spread = 0, best, 0.0, 0.0
            least = np.inf if elsewhere else max(f - r, g.max())
        else:
            elsewhere = False
        if elsewhere:
            x = best
        else:
            s = rows[np.argmax(np.append(f - r, g))]
            gamma = 0.3 / np.sqrt(t + 1)
            x = np.clip(x - gamma * s, -1, 1)
            t, weight, spread = t + 1, weight + gamma, spread + gamma**2 * (s @ s)
        assert np.abs(theirs[0].numpy() - x).max() < 1e-12
        assert np.abs(theirs[1].numpy() - output).max() < 1e-12
        assert float(theirs[2]) == pytest.approx(r, abs=1e-12) and int(theirs[3]) == outer
    assert outer >= 2


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
def test_dfls_reaches_the_optimum_of_linear_programs_through_feasible_points(seed):
    """P(r, x_k) <= H(r) + error and H(r) <= -beta (r - f*): the level falls towards f* and never below it. The error of a
    call of t steps is of the order step * slope^2 / sqrt(t): 0.3 * slope^2 / sqrt(STEPS / outer iterations)."""
    problem, steps = linear(seed), 1000
    f_star, levels, outer = problem.optimum.f, [], []

    def look(state):
        again = outer and (levels[-1], outer[-1]) == (float(state.level), int(state.outer))
        levels.append(float(state.level))
        outer.append(int(state.outer))
        if state.outer and not again:
            e = problem.evaluate(state.output)
            assert float(e.g.max()) < 0
            assert f_star - 1e-12 <= float(e.f) <= levels[-1] + 1e-12
            assert (
                np.isinf(float(state.upper)) or float(state.upper) >= f_star - levels[-1] - 1e-12
            )  # H(r) >= -(r - f*)

    state = run(DFLS(step_size=0.3), problem, steps, seeds=(seed,), after=look)
    assert all(b <= a for a, b in pairwise(levels)) and levels[-1] >= f_star - 1e-12
    gap = float(problem.evaluate(state.point).f) - f_star
    assert gap <= 0.3 * problem.optimum.slope**2 / (steps / outer[-1]) ** 0.5
    assert torch.equal(state.point, state.output)


def test_dfls_finds_a_feasible_point_first_and_without_constraints_it_descends():
    problem = linear(0)
    draws = Draws(problem, (0,), 8)
    state = DFLS(step_size=0.3).init(problem, problem.slopes(torch.zeros(4))[1].sign(), draws)
    assert float(problem.evaluate(state.x).g.max()) > 0
    worst = []
    while not state.outer:
        assert torch.equal(state.point, state.best)
        worst.append(float(problem.evaluate(state.x).g.max()))
        state = DFLS(step_size=0.3).step(state, problem, draws)
        assert state.k < 200
    e = problem.evaluate(state.output)
    assert min(worst[:-1]) >= 0 > worst[-1] == float(e.g.max()) and float(state.level) == float(e.f)
    free = linear(1, m=0)
    state = run(DFLS(step_size=0.3), free, 200)
    assert state.multipliers.shape == (0,)
    assert float(free.evaluate(state.point).f) == pytest.approx(free.optimum.f, abs=1e-9)


def test_dfls_takes_full_batches_whatever_the_sampling():
    problem = Counted(convex_fair())
    state = run(DFLS(), problem, 4, batch_size=3, sampling="uniform")
    assert problem.counts.gradients == 4 and problem.counts.samples == 4 * problem.rows
    assert state.multipliers.shape == (2,) and state.multipliers.sum() in (0, 1)


# -- YNW ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("m", [3, WIDE])
@pytest.mark.parametrize("seed", range(5))
def test_ynw_is_the_method_written_out_in_numpy(seed, m, normalised):
    """Both ways to s_k . (x+ - x), the few subgradients and the directional derivative."""
    problem, T = linear(seed, m=m, noise=0.1), 9
    x = problem.start((seed,)).numpy().copy()
    queues, mean, path = np.zeros(m), x.copy(), []
    method = YNW(horizon=T, output="average", normalised=normalised)
    run(method, problem, 40, seeds=(seed,), after=lambda s: path.append((s, s.x.clone())))
    for k, (state, theirs) in enumerate(path):
        e, rows = problem.jacobian(torch.tensor(x), problem.sample((seed,), "xi", k, 8, "balanced"))
        c, rows = e.g.numpy(), rows.numpy()
        shorter = 1 + queues.sum() / 3.0 if normalised else 1.0
        new = np.clip(x - (3.0 * rows[0] + queues @ rows[1:]) / (2 * 9.0) / shorter, -1, 1)
        queues = np.maximum(0, queues + c + rows[1:] @ (new - x))
        x = new
        mean = mean + (x - mean) / (k + 2)
        assert np.abs(theirs.numpy() - x).max() < 1e-12
        assert np.abs(state.multipliers.numpy() - queues).max() < 1e-11
        assert np.abs(state.point.numpy() - mean).max() < 1e-12
    assert queues.max() > 0


@pytest.mark.parametrize("seed", range(5))
def test_the_queues_bound_the_sum_of_the_linearised_constraints(seed):
    """Q_{k+1} >= Q_k + c_k + s_k . (x+ - x), so sum of the right sides <= Q_T; for affine g that sum is sum g(x_1..x_T)."""
    problem, T, total = linear(seed), 100, torch.zeros(3, dtype=torch.float64)

    def look(state):
        total.add_(problem.evaluate(state.x).g)
        assert bool((total <= state.multipliers + 1e-9).all()) and bool((state.multipliers >= 0).all())

    run(YNW(horizon=T), problem, T, seeds=(seed,), after=look)


@pytest.mark.parametrize("seed", range(5))
def test_the_mean_of_ynws_iterates_is_within_the_proved_bound_of_optimal(seed):
    """Yu, Neely and Wei, Theorem 1 (no noise): sum f(x_k) <= T f* + O(sqrt(T)), by their drift inequality
    V (f(mean) - f*) <= alpha |x_0 - x*|^2 / T + V^2 G^2 / (4 alpha) + sum_k (c_k + s_k . d)^2 / 2, each c_k bounded on the
    box by C = max |g|; at V = sqrt(T), alpha = T all three are O(1) before the division by V."""
    problem, T = linear(seed), 400
    state = run(YNW(horizon=T, output="average"), problem, T, seeds=(seed,))
    x0, slope = problem.start((seed,)), problem.optimum.slope
    _, g, rows = rows_of(problem, np.zeros(4))
    C = np.abs(g) + np.abs(rows[1:]).sum(1)
    start = float((x0 - problem.optimum.x).square().sum())
    bound = (start + slope**2 / 4 + float((C**2).sum()) / 2) / T**0.5
    assert float(problem.evaluate(state.point).f) - problem.optimum.f <= bound
    assert float(problem.evaluate(state.point).violation) <= float(state.multipliers.max()) / T + slope / T


def test_ynw_never_forms_the_jacobian_of_many_constraints():
    plain = linear(0, m=10_000)
    plain.jacobian = None
    problem = Counted(plain)
    state = run(YNW(), problem, 3)
    assert state.multipliers.shape == (10_000,)
    assert problem.counts.as_dict() | {"samples": 0} == {
        "values": 0, "gradients": 3, "jvps": 3, "jacobians": 0, "samples": 0, "unseen": 0, "nonfinite": 0,
    }  # fmt: skip


def test_moves_of_many_violated_constraints_are_too_long_unless_normalised():
    """400 times 1 <= x, from 0: the sum of their queues throws x far beyond 1; a normalised move is at most V / (2 alpha) = 1/20."""
    at_one = torch.ones(1, dtype=torch.float64)
    problem = KnownProblem(
        "1 <= x, 400 times", lambda x: [x[..., 0]] + [1 - x[..., 0]] * 400, lambda x: [at_one] + [-at_one] * 400, [0.0],
        Optimum(at_one, 1.0, None, None, 1.0, 1.0, "x is least at 1"), m=400,
    )  # fmt: skip

    def moves(method):
        at = [problem.start((0,))]
        run(method, problem, 300, after=lambda s: at.append(s.x.clone()))
        return float(torch.cat([b - a for a, b in pairwise(at)]).abs().max()), float(at[-1])

    longest, end = moves(YNW(normalised=True))
    assert longest <= 1 / 20 + 1e-12 and end == pytest.approx(1, abs=0.1)
    assert moves(YNW())[0] > 1


def test_ynws_weights_follow_the_horizon_unless_given():
    assert YNW(horizon=49).V == 7 and YNW(horizon=49).alpha == 49
    assert YNW(objective_weight=3.0, proximal=5.0).V == 3 and YNW(objective_weight=3.0, proximal=5.0).alpha == 5
    free = linear(0, m=0, domain=Space())
    moved = free.start((0,)) - run(YNW(horizon=4), free, 1).x
    assert torch.allclose(moved, free.slopes(moved)[0] * 2 / 8)


@pytest.mark.parametrize(
    "make",
    [
        lambda: DFLS(step_size=0.0),
        lambda: DFLS(relative_error=-1.0),
        lambda: DFLS(level=float("inf")),
        lambda: DFLS(level=float("nan")),
        lambda: YNW(horizon=0),
        lambda: YNW(horizon=-3),
        lambda: YNW(objective_weight=0.0),
        lambda: YNW(proximal=-1.0),
        lambda: YNW(output="best"),
    ],
)
def test_bad_options_are_refused(make):
    with pytest.raises(OptionError, match="must be"):
        make()
