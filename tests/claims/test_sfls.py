"""SFLS against Lin, Nadarajah, Soheili, Yang (2020): lemmas, online bounds by enumeration, calls, estimates, options.

H(r) of the small linear program comes from HiGHS. Its noise here takes two values, +-1 in given directions, so that all
2^T sample paths of T iterations are one stack of runs and every expectation is a plain mean.
"""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.optimize import linprog

from fairbound.base.errors import FairboundError, NonFiniteError, OptionError
from fairbound.methods import SFLS, SMD, algorithm, estimate_level, ovsmd
from fairbound.methods.failing import share_of_failure
from fairbound.methods.level_estimate import LevelEstimate, halve
from fairbound.methods.ovsmd import LightTails
from fairbound.problems.problem import Draws
from fairbound.problems.wrappers import Counted, Wrapper
from fairbound.testing import LEVEL_SETS, PROBLEMS, check_stacked, differences, linear_program, run
from fairbound.testing.known import Noise
from fairbound.testing.level_sets import LP_BOUNDS, LP_CONSTRAINTS, LP_OBJECTIVE
from twelve_rows import convex_fair

C, A, B = np.array(LP_OBJECTIVE), np.array(LP_CONSTRAINTS), np.array(LP_BOUNDS)
F_STAR = -0.875
STEPS, N, M = 5, 3, 3
RATE = (3.0, 2 * math.log(4))  # 2 D_x^2 of [-1, 1]^3, 2 D_y^2 of the simplex of 4


def level_function(r):
    """H(r) and a minimiser, by linear programming: min s with c.x - r <= s and A x - b <= s."""
    rows = np.hstack([np.vstack([C, A]), -np.ones((4, 1))])
    found = linprog([0, 0, 0, 1], A_ub=rows, b_ub=[r, *B], bounds=[(-1, 1)] * 3 + [(None, None)])
    return found.fun, found.x[:3]


def exact(x):
    """(..., 4) values (f, g) of the linear program."""
    return torch.as_tensor(x @ np.vstack([C, A]).T - np.array([0, *B]))


def paths(seed=0):
    """Noise of each of STEPS iterations for all sign paths: mean zero, independent between iterations."""
    rng = np.random.default_rng(seed)
    signs = torch.tensor(list(itertools.product((-1.0, 1.0), repeat=STEPS)), dtype=torch.float64)
    out = []
    for t in range(STEPS):
        value, slope = torch.tensor(rng.normal(0, 0.5, 1 + M)), torch.tensor(rng.normal(0, 0.5, (1 + M, N)))
        out.append(Noise(signs[:, t, None] * value, signs[:, t, None, None] * slope, 1, ("paths", t)))
    return out


def enumerated(r, c=0.2):
    """The call after STEPS iterations over all paths, and what a reader of (12) and (13) writes down on the way."""
    problem, batches = linear_program(), paths()
    level = torch.full((2**STEPS,), r, dtype=torch.float64)
    call = ovsmd.fresh(problem, torch.zeros(2**STEPS, N, dtype=torch.float64))
    shift = torch.tensor([r, 0, 0, 0], dtype=torch.float64)
    total, G_y, g_y, pieces, true_pieces = 0.0, 0.0, 0.0, [], []
    for t, batch in enumerate(batches):
        x, y, gamma = call.x.clone(), call.y.clone(), c / math.sqrt(t + 1)
        noisy = exact(x.numpy()) - shift + batch.value + (batch.slope * x.unsqueeze(-2)).sum(-1)
        slopes = torch.tensor(np.vstack([C, A])) + batch.slope
        G_x, g_x = (y.unsqueeze(-1) * slopes).sum(-2), y @ torch.tensor(np.vstack([C, A]))
        G_y, g_y = G_y + gamma * noisy, g_y + gamma * (exact(x.numpy()) - shift)
        Phi, phi = (y * noisy).sum(-1), (y * (exact(x.numpy()) - shift)).sum(-1)
        pieces.append((gamma, Phi - (G_x * x).sum(-1), G_x))
        true_pieces.append((gamma, phi - (g_x * x).sum(-1), g_x))
        total += gamma
        call = ovsmd.iterate(call, problem, batch, level, c, RATE)
        next_x = (x - RATE[0] * gamma * G_x).clamp(-1, 1)
        next_y = y * (RATE[1] * gamma * noisy).exp()
        assert torch.allclose(call.x, next_x, rtol=0, atol=1e-13)
        assert torch.allclose(call.y, next_y / next_y.sum(-1, keepdim=True), rtol=0, atol=1e-13)

    def averaged(rows):
        return sum(g * o for g, o, _ in rows) / total, sum(g * s for g, _, s in rows) / total

    return problem, call, level, G_y / total, g_y / total, averaged(pieces), averaged(true_pieces)


def test_lemma_1_on_the_small_linear_program():
    """(a) convex and non-increasing, (b) zero at f*, (c) its signs; the program's stated optimum is HiGHS's."""
    found = linprog(C, A_ub=A, b_ub=B, bounds=[(-1, 1)] * 3)
    assert found.fun == pytest.approx(F_STAR, abs=1e-12)
    assert np.allclose(found.x, linear_program().optimum.x.numpy(), atol=1e-12)
    grid = np.linspace(F_STAR - 1, F_STAR + 1, 81)
    H = np.array([level_function(r)[0] for r in grid])
    assert (np.diff(H) <= 1e-12).all() and (np.diff(H, 2) >= -1e-12).all()
    assert (np.diff(H) >= -np.diff(grid) - 1e-12).all()  # slopes in [-1, 0]
    assert abs(level_function(F_STAR)[0]) < 1e-12
    assert (H[grid < F_STAR - 1e-9] > 0).all() and (H[grid > F_STAR + 1e-9] < 0).all()


@pytest.mark.parametrize("r", [F_STAR - 0.5, F_STAR, F_STAR + 0.3])
def test_11_12_and_13_over_every_sample_path(r):
    problem, call, level, G_y, g_y, (offset, slope), (true_offset, true_slope) = enumerated(r)
    H = level_function(r)[0]
    # the running averages are the sums of (12) and (13)
    assert torch.allclose(call.mean, G_y, rtol=0, atol=1e-13)
    assert torch.allclose(call.offset, offset, rtol=0, atol=1e-13)
    assert torch.allclose(call.slope, slope, rtol=0, atol=1e-13)
    # (12) is a maximum over the simplex, (13) a minimum over the box: both are at vertices
    assert torch.equal(ovsmd.upper_bound(call.mean, level, problem.dual_set), call.mean.amax(-1))
    corners = torch.tensor(list(itertools.product((-1.0, 1.0), repeat=3)), dtype=torch.float64)
    lowest = (offset.unsqueeze(-1) + slope @ corners.T).amin(-1)
    assert torch.allclose(ovsmd.lower_bound(call, problem.domain), lowest, rtol=0, atol=1e-13)
    # (11) u_* >= U(x_bar) >= H and l_* <= L(y_bar) <= H on every path
    u_star, U = g_y.amax(-1), (exact(call.average.numpy()) - torch.tensor([r, 0, 0, 0])).amax(-1)
    l_star = (true_offset.unsqueeze(-1) + true_slope @ corners.T).amin(-1)
    assert bool((u_star >= U - 1e-12).all()) and bool((U >= H - 1e-12).all()) and bool((l_star <= H + 1e-12).all())
    # every affine piece of the online bounds is an unbiased estimate of the exact one
    for estimate, truth in ((G_y, g_y), (offset, true_offset), (slope, true_slope)):
        assert torch.allclose(estimate.mean(0), truth.mean(0), rtol=0, atol=1e-13)
    # so, by Jensen, the bounds are on the safe side in expectation
    assert float(G_y.amax(-1).mean()) >= float(g_y.mean(0).amax()) - 1e-12


def test_the_printed_13_with_G_y_is_no_lower_bound():
    """x and G_y have different lengths in general; where they agree (here n = m = 3, without the objective) it fails."""
    _, call, _, G_y, *_ = enumerated(F_STAR)
    wrong = call.offset - G_y[..., 1:].abs().sum(-1)
    assert float((wrong - ovsmd.lower_bound(call, linear_program().domain)).abs().max()) > 0.1


def test_the_online_bounds_close_in_on_H():
    """Without noise u_hat - l_hat is the gap of Proposition 2 (i), O(log t / sqrt t): under 0.05 after 2,000 iterations."""
    problem, level = linear_program(), torch.tensor(F_STAR + 0.3, dtype=torch.float64)
    call, full = ovsmd.fresh(problem, torch.zeros(N, dtype=torch.float64)), problem.sample((0,), "a", 0, 1, "full")
    for _ in range(2000):
        call = ovsmd.iterate(call, problem, full, level, 0.2, RATE)
    upper, lower, H = (
        ovsmd.upper_bound(call.mean, level, problem.dual_set),
        ovsmd.lower_bound(call, problem.domain),
        level_function(float(level))[0],
    )
    assert float(lower) <= H <= float(upper) and float(upper - lower) < 0.05


@pytest.mark.parametrize("theta", [1.1, 2.0, 10.0])
@pytest.mark.parametrize("above", [0.01, 0.3, 2.0])
def test_lemma_2_and_that_its_tolerance_matters(theta, above):
    """The worst x with P(r, x) <= H + eps is feasible for eps = -(theta - 1) / (theta + 1) H; for eps = -1.5 H not."""
    r = F_STAR + above
    H = level_function(r)[0]

    def worst(eps):
        reach = [
            -linprog(-row, A_ub=np.vstack([C, A]), b_ub=np.array([r, *B]) + H + eps, bounds=[(-1, 1)] * 3).fun - b
            for row, b in zip(A[:2], B[:2], strict=True)
        ]
        return max(reach)

    assert worst(-(theta - 1) / (theta + 1) * H) < 0 < worst(-1.5 * H)


@pytest.mark.parametrize("theta", [1.2, 2.0])
@pytest.mark.parametrize("eps", [0.5, 0.1])
@pytest.mark.parametrize("error", [-1.0, 0.0, 1.0])
def test_theorem_1_bounds_the_calls_of_an_exact_oracle(theta, eps, error):
    """U = H(r) + error * eps_A with the worst point allowed: feasible at each call, relative eps-optimal at the end."""
    problem, r0 = linear_program(), 0.0
    H0 = level_function(r0)[0]
    beta, eps_A = -H0 / (r0 - F_STAR), -(theta - 1) / (2 * theta**2 * (theta + 1)) * H0 * eps
    most = 2 * theta**2 / beta * math.log(theta**2 / (beta * eps))
    config = SFLS(theta=theta, level=r0, optimality_tolerance=-H0 * eps / theta)
    draws, x = Draws(problem, (0,), 1), torch.zeros(N, dtype=torch.float64)
    state, calls = config.init(problem, x, draws), 0
    while not bool(state.halted):
        r = float(state.level)
        H, _ = level_function(r)
        # the point of P <= H + eps_A that violates row 1 most
        far = linprog(-A[0], A_ub=np.vstack([C, A]), b_ub=np.array([r, *B]) + H + eps_A, bounds=[(-1, 1)] * 3).x
        call = replace(state.call, average=torch.tensor(far))
        state = replace(state, upper=torch.tensor(H + error * eps_A), call=call)
        state = config._outer(state, problem, draws, torch.tensor(True))
        calls += 1
        assert calls <= most
        assert float(problem.evaluate(state.output).g.max()) <= 0
        assert float(state.level) > F_STAR
    f0 = r0  # f at the start, the level
    assert float(problem.evaluate(state.output).f) - F_STAR <= eps * (f0 - F_STAR) + 1e-12
    assert int(state.outer) == calls


def test_the_failure_probabilities_sum_to_delta():
    each = share_of_failure(0.05, torch.arange(200))
    assert float(each.sum()) == pytest.approx(0.05, rel=1e-14) and float(each[0]) == 0.025


@pytest.mark.parametrize(
    ("level", "name"),
    [
        pytest.param(
            level, name, marks=[] if (level, name) in {(None, "simplex"), (1.0, "ball")} else [pytest.mark.long]
        )
        for level in (None, 1.0)
        for name in LEVEL_SETS
    ],
)
def test_exact_batches_give_feasible_outer_iterates_above_the_optimum(name, level):
    problem, seen = LEVEL_SETS[name](), []
    f_star = problem.optimum.f

    def look(state):
        if int(state.outer) > len(seen):
            seen.append((float(state.level), problem.evaluate(state.output)))

    config = SFLS(level=(level + f_star if level else None), restart="last")
    state = run(config, problem, 700 if level else 1500, sampling="full", after=look)
    assert len(seen) > 5
    for r, measured in seen:
        assert float(measured.g.max()) <= 0 and r > f_star and float(measured.f) >= f_star
    levels = [r for r, _ in seen]
    assert levels == sorted(levels, reverse=True)
    assert torch.equal(state.point, state.output)


@pytest.mark.parametrize(("oracle", "restart"), [("ovsmd", "centre"), ("smd", "last")])
def test_runs_of_a_stack_stop_their_calls_each_in_its_time(oracle, restart):
    for make in (LEVEL_SETS["simplex"], PROBLEMS["two_sided"]):
        config = SFLS(oracle=oracle, restart=restart, step_size=0.2)

        def noisy(make=make, **options):
            return make(noise=0.5, **options)

        check_stacked(config, noisy, steps=60)
        state = run(config, noisy, 120, seeds=(0, 1, 2))
        assert int(state.outer.min()) >= 1 and len(set(state.call.t.tolist())) > 1


def test_smd_moves_the_level_by_the_exact_bound():
    problem = linear_program(noise=0.5)
    config = SFLS(oracle="smd", level=0.0)
    before = None
    state = config.init(problem, problem.start((0,)), Draws(problem, (0,), 8))
    for _ in range(400):
        after = config.step(state, problem, Draws(problem, (0,), 8))
        if int(after.outer) > int(state.outer):
            measured = problem.evaluate(after.output)
            U = max(float(measured.f) - float(state.level), float(measured.g.max()))
            assert U < 0 and float(after.upper) == pytest.approx(U, abs=1e-14)
            assert float(after.level) == pytest.approx(float(state.level) + U / 4, abs=1e-14)
            before = U
        state = after
    assert before is not None


def test_a_run_without_a_level_begins_with_the_constraints_alone():
    """From an infeasible start: y_0 stays 0 until a strictly feasible point is found; then f there is at most r_0."""
    problem = PROBLEMS["two_sided"](noise=0.3)
    draws = Draws(problem, (0, 1, 2, 3), 8)
    x = torch.full((4, 2), 1.0, dtype=torch.float64)
    assert bool((problem.evaluate(x).g.amax(-1) > 0).all())
    config = SFLS(restart="last", step_size=0.3)
    state = config.init(problem, x, draws)
    for _ in range(1200):
        old, state = state, config.step(state, problem, draws)
        seeking = torch.isinf(state.level)
        assert bool((state.call.y[seeking, 0] == 0).all()) and bool((state.call.y[~seeking, 0] > 0).all())
        assert bool((state.multipliers[seeking] == 0).all())
        found = torch.isinf(old.level) & ~seeking
        measured = problem.evaluate(state.output)
        assert bool((measured.g.amax(-1)[found] < 0).all()) and bool((measured.f <= state.level)[found].all())
        assert torch.equal(state.outer > 0, ~seeking)
    assert not bool(seeking.any())


def test_a_halted_run_stays_as_it_is():
    problem = Counted(linear_program(noise=0.2))
    config = SFLS(level=0.0, optimality_tolerance=0.2)
    draws, seeds = Draws(problem, (0, 1, 2), 64), (0, 1, 2)
    state = config.init(problem, problem.start(seeds), draws)
    while not bool(state.halted.any()):
        state = config.step(state, problem, draws)
    frozen, done = replace(state, x=state.x.clone()), state.halted
    for _ in range(3000):
        state = config.step(state, problem, draws)
        if bool(state.halted.all()):
            break
    for name in ("x", "output", "level", "upper", "outer", "multipliers"):
        assert torch.equal(getattr(state, name)[done], getattr(frozen, name)[done])
    for name in ("t", "y", "average"):
        assert torch.equal(getattr(state.call, name)[done], getattr(frozen.call, name)[done])
    assert bool(state.halted.all())
    calls = problem.counts.gradients
    again = config.step(state, problem, draws)
    assert problem.counts.gradients == calls and again.k == state.k + 1
    assert bool((problem.evaluate(state.output).g <= 0).all())


def test_algorithm_4_ends_in_time_with_a_bound_within_theta():
    """Lemma EC.7: at most 1 + log2(2 theta alpha / ((theta - 1) |H|)) calls with |u - H| <= alpha, worst case included."""
    for H, theta, alpha, sign in itertools.product((-2.0, -0.3, -1e-3), (1.1, 2.0, 5.0), (0.1, 4.0), (-1.0, 0.0, 1.0)):
        asked = []

        def oracle(delta, error, H=H, sign=sign, asked=asked):
            asked.append((delta, error))
            return torch.tensor([H + sign * error, H], dtype=torch.float64)

        found = halve(oracle, alpha, 0.05, theta, most_calls=60)
        most = 1 + max(0, math.ceil(math.log2(2 * theta * alpha / ((theta - 1) * -H)) + 1e-9))
        assert int(found.calls.max()) <= most
        assert bool((found.bound + 1e-12 >= H).all()) and bool((found.bound < 0).all())
        assert bool((H / found.bound <= theta + 1e-9).all())
        assert bool((found.bound - 2 * found.error <= H + 1e-12).all())
        assert sum(d for d, _ in asked) < 0.05 and asked[0] == (0.025, alpha)
    with pytest.raises(FairboundError, match="larger level"):
        halve(lambda delta, error: torch.tensor(0.1), 1.0, 0.05, 2.0, 5)
    with pytest.raises(OptionError, match="theta"):
        halve(oracle, 1.0, 0.05, 1.0)
    with pytest.raises(OptionError, match="accuracy"):
        halve(oracle, 0.0, 0.05, 2.0)


@pytest.mark.long
def test_algorithm_4_on_the_noisy_linear_program():
    """With 15 / alpha^2 iterations a call, five seeds as a stack: H(r_0) <= U < 0 and |H| / |U| <= theta."""
    found = estimate_level(
        linear_program(noise=0.3), 0.0, accuracy=0.5, iterations=lambda delta, error: int(15 / error**2), step_size=0.2,
        batch_size=8, seeds=range(5),
    )  # fmt: skip
    H = level_function(0.0)[0]
    assert bool((found.bound >= H).all()) and bool((found.bound < 0).all()) and bool((H / found.bound <= 2).all())


def test_the_level_is_estimated_by_steps_of_the_theory_and_refused_without_what_it_needs():
    """M_x and M_y so small that T of Theorem 2 is its least, 6: one step more is made in every call."""
    problem, moments = Counted(linear_program()), LightTails(M_x=1e-9, M_y=1e-9, Q=0.0)
    assert int(ovsmd.ovsmd_limit(0.025, 10.0, moments.M(problem), 0.0)) == 6
    with pytest.raises(FairboundError, match="larger level"):
        estimate_level(problem, 0.0, light_tails=moments, step_size=0.2, accuracy=10.0, most_calls=2)
    assert problem.counts.gradients == 14
    found = estimate_level(problem, 0.0, light_tails=moments, step_size=1.0, iterations=lambda delta, error: 399.5)
    assert level_function(0.0)[0] <= float(found.bound) < 0 and problem.counts.gradients % 400 == 14
    unsound = (
        ({"level": None}, "level must be a number"),
        ({"level": "0"}, "level must be a number"),
        ({"theta": 1.0}, "theta must be greater than 1"),
        ({"delta": 2}, "delta is a probability"),
        ({"accuracy": 0.0}, "accuracy must be positive"),
        ({"step_size": 0}, "step_size must be positive"),
        ({"diameter": -1}, "diameter must be positive"),
        ({"batch_size": 0}, "batch_size must be positive"),
        ({"most_calls": 2.5}, "most_calls must be a whole number"),
        ({"seeds": ()}, "seed holds no seed"),
        ({"iterations": 1000}, "iterations must be a function"),
        ({"iterations": lambda delta, error: 0}, "iterations must give a finite number above 0"),
    )
    for wrong, says in (
        ({"level": math.inf}, "level must be finite"),
        ({}, "give light_tails"),
        ({"step_size": 0.2}, "give light_tails"),
        ({"light_tails": moments, "scaling": "both"}, "scaling"),
        ({"light_tails": (1, 1, 1)}, "light_tails must be LightTails"),
        *(({"light_tails": moments} | one, says) for one, says in unsound),
    ):
        with pytest.raises(OptionError, match=says):
            estimate_level(problem, **({"level": 0.0} | wrong))


@pytest.mark.parametrize("sign", (-1, 1))
@pytest.mark.parametrize("theta", (1.5, 2.0, 4.0))
def test_with_the_tolerances_of_the_estimate_the_method_ends_within_the_gap(theta, sign):
    """Algorithm 1 with an oracle as far off as it may be, from a bound on H(r_0) as far off as it may be; and the
    tolerances of Theorem 3 for U = -1 and theta = 2 by hand."""
    found = LevelEstimate(torch.tensor(-1.0), torch.zeros(()), torch.ones(()), 2.0).tolerances(0.24)
    assert found == pytest.approx({"optimality_tolerance": 0.12, "oracle_error": 0.01})
    start, gap = 0.0, 0.1
    bound = torch.tensor([level_function(start)[0], level_function(start)[0] / theta], dtype=torch.float64)
    asked = LevelEstimate(bound, torch.zeros(2), torch.ones(2), theta).tolerances(gap)
    assert asked == LevelEstimate(bound[1], torch.zeros(()), torch.ones(()), theta).tolerances(gap)
    assert SFLS(stopping="theory", theta=theta, level=start, light_tails=LightTails(M_x=1.0, M_y=1.0, Q=1.0), **asked)
    level = start
    while (U := level_function(level)[0] + sign * asked["oracle_error"]) < -asked["optimality_tolerance"]:
        assert level > F_STAR
        level += U / (2 * theta)
    assert 0 <= level - F_STAR <= gap * (start - F_STAR)
    with pytest.raises(OptionError, match=r"\(0, 1\]"):
        LevelEstimate(bound, torch.zeros(2), torch.ones(2), theta).tolerances(0.0)


def test_the_constants_and_iteration_limits():
    """(9), (10), Proposition 1 and Theorem 2, written out again."""
    problem, moments = linear_program(), LightTails(M_x=2.0, M_y=3.0, Q=0.5)
    M_hand = math.sqrt(2 * 1.5 * 4 + 2 * math.log(4) * 9)
    assert moments.M(problem) == pytest.approx(M_hand, rel=1e-12)
    for delta, eps in ((0.05, 0.1), (1e-9, 3.0)):
        Omega = max(math.sqrt(12 * math.log(24 / delta)), 4 / 3 * math.log(24 / delta))
        assert float(ovsmd.omega(delta)) == pytest.approx(Omega, rel=1e-12)
        k = 10 * M_hand * Omega + 4.5 * M_hand
        W = max(6, (8 * k / eps * math.log(4 * k / eps)) ** 2 - 2)
        q = k + 0.5 * Omega
        T = max(6, (16 * q / eps * math.log(8 * q / eps)) ** 2 - 2)
        assert float(ovsmd.smd_limit(delta, eps, M_hand)) == math.ceil(W)
        assert float(ovsmd.ovsmd_limit(delta, eps, M_hand, 0.5)) == math.ceil(T)


@pytest.mark.parametrize("oracle", ["ovsmd", "smd"])
def test_theoretical_stopping_takes_the_stated_number_of_iterations(oracle):
    """Constants so small that the limit is its least value 6: iterations 0, ..., 6 make a call."""
    problem = linear_program()
    config = SFLS(oracle=oracle, stopping="theory", level=0.0, oracle_error=1.0, optimality_tolerance=1e-9,
                  step_size=0.05, light_tails=LightTails(M_x=1e-4, M_y=1e-4, Q=0.0))  # fmt: skip
    ends = []
    run(config, problem, 21, sampling="full", after=lambda s: ends.append(int(s.outer)))
    assert [k + 1 for k in range(21) if k and ends[k] > ends[k - 1]] == [7, 14, 21]
    own = replace(config, step_size=None)
    assert own.step_scale(problem) == pytest.approx(1 / own.light_tails.M(problem))
    with pytest.raises(OptionError, match="bounded domain"):
        run(config, PROBLEMS["two_sided"], 1)


def test_student_quantiles_and_the_margin():
    freedom = torch.tensor([1.0, 2.0, 5.5, 10.0, 40.0, 1e6], dtype=torch.float64)
    for level in (0.5, 0.1, 1e-3, 1e-9, 1e-40):
        found = ovsmd.student_quantile(torch.tensor(level, dtype=torch.float64), freedom).numpy()
        assert np.allclose(found, stats.t.isf(level, freedom.numpy()), rtol=1e-9, atol=1e-12)
        assert np.allclose(stats.t.sf(found, freedom.numpy()), level, rtol=1e-7)  # what it is, not only what SciPy says
    problem, level = linear_program(noise=0.4), torch.tensor(0.0, dtype=torch.float64)
    call, values = ovsmd.fresh(problem, torch.zeros(N, dtype=torch.float64)), []
    assert bool(torch.isinf(ovsmd.margin(call, torch.tensor(0.05))).all())  # nothing seen: no division by zero
    for t in range(30):
        batch = problem.sample((0,), "xi", t, 4, "uniform")
        e = problem.values(call.x, batch)
        values.append(torch.cat([e.f[None], e.g]).numpy())
        call = ovsmd.iterate(call, problem, batch, level, 0.1, RATE)
        if t == 0:
            assert bool(torch.isinf(ovsmd.margin(call, torch.tensor(0.05))).all())
    gamma = 0.1 / np.sqrt(np.arange(1, 31))
    mean = gamma @ values / gamma.sum()
    effective = gamma.sum() ** 2 / (gamma**2).sum()
    error = np.sqrt(gamma @ (values - mean) ** 2 / gamma.sum() / (effective - 1))
    hand = stats.t.isf(0.05 / 4 / 30 / 31, effective - 1) * error
    assert np.allclose(ovsmd.margin(call, torch.tensor(0.05, dtype=torch.float64)).numpy(), hand, rtol=1e-9)
    still = replace(call, spread=torch.zeros_like(call.spread))
    assert bool((ovsmd.margin(still, torch.tensor(0.05)) == 0).all())


@pytest.mark.parametrize("oracle", ["ovsmd", "smd"])
@pytest.mark.parametrize("entry", [0, 2])
def test_a_call_ends_once_every_average_lies_below_0_by_its_whole_margin(oracle, entry):
    """One entry a hundredth of its margin too high keeps the call open, however low the others are: half would not do."""
    problem = linear_program(noise=0.4)
    config, draws = SFLS(oracle=oracle, level=0.0), Draws(problem, (0,), 8)
    state = config.init(problem, problem.start((0,)), draws)
    for _ in range(30):
        state = config.step(state, problem, draws)
    call = state.call
    assert int(call.t) == 30
    delta = share_of_failure(0.05, state.outer)
    looks, freedom = 4 * 30 * 31, float(call.weights[0] ** 2 / call.squares[0]) - 1
    error = (call.spread / call.weights / freedom).sqrt()
    whole = stats.t.isf(float(delta) / looks, freedom) * error
    for share, ends in ((1.01, True), (0.99, False)):
        mean = -2 * whole
        mean[entry] = -share * whole[entry]
        tried = replace(state, call=replace(call, mean=mean), upper=mean.amax())
        assert bool(config._ended(tried, problem)) is ends


class Partial(Wrapper):
    """The linear program whose constraint 2 is absent from the batches `lacks` says."""

    def __init__(self, problem, lacks):
        super().__init__(problem)
        self.lacks = lacks

    def gradient(self, x, batch, weights):
        e, gradient = self.inner.gradient(x, batch, weights)
        if not self.lacks(batch.key[1]):
            return e, gradient
        seen = torch.ones_like(e.g, dtype=torch.bool)
        seen[..., 1] = False
        return e._replace(g=torch.where(seen, e.g, 0.0), seen=seen), gradient


def test_a_constraint_absent_from_batches():
    """Its average is over the batches that saw it, its dual moves by that average, and unseen it ends no call."""
    whole, level = linear_program(noise=0.2), torch.tensor(0.0, dtype=torch.float64)
    problem = Partial(whole, lambda k: k % 2 == 1)
    call = ovsmd.fresh(problem, torch.zeros(N, dtype=torch.float64))
    gammas, values = [], []
    for t in range(8):
        batch = whole.sample((0,), "xi", t, 4, "uniform")
        if t % 2 == 0:
            gammas.append(0.1 / math.sqrt(t + 1))
            values.append(float(whole.values(call.x, batch).g[1]))
        old, call = call, ovsmd.iterate(call, problem, batch, level, 0.1, RATE)
        if t % 2:
            assert torch.equal(call.mean[2], old.mean[2]) and torch.equal(call.spread[2], old.spread[2])
            g = whole.values(old.x, batch).g
            ratio = math.log(float(call.y[2] / call.y[1] * old.y[1] / old.y[2]))
            assert ratio == pytest.approx(RATE[1] * 0.1 / math.sqrt(t + 1) * float(old.mean[2] - g[0]), abs=1e-12)
    assert float(call.mean[2]) == pytest.approx(np.average(values, weights=gammas), abs=1e-14)
    never = run(SFLS(level=0.0), Partial(linear_program(), lambda k: True), 200)
    assert int(never.outer) == 0 and bool(torch.isfinite(never.x).all())
    assert int(run(SFLS(level=0.0), linear_program(), 200).outer) > 0


def test_a_nan_is_an_error_that_leaves_the_state():
    problem = linear_program()
    config, draws = SFLS(level=0.0), Draws(problem, (0,), 4)
    state = config.init(problem, problem.start((0,)), draws)
    broken = Wrapper(problem)

    def gradient(x, batch, weights):
        e, slope = problem.gradient(x, batch, weights)
        return e._replace(g=e.g * torch.nan), slope

    broken.gradient = gradient
    before = state.x.clone()
    with pytest.raises(NonFiniteError, match="lower step_size"):
        config.step(state, broken, Draws(broken, (0,), 4))
    assert torch.equal(state.x, before)


def test_without_constraints_the_level_falls_to_the_free_minimum():
    whole = linear_program()
    problem = Wrapper(whole)
    problem.m, problem.names = 0, ()

    def gradient(x, batch, weights):
        e, slope = whole.gradient(x, batch, lambda e: (weights(e)[0], None))
        return e._replace(g=e.g[..., :0]), slope

    problem.gradient = gradient
    state = run(SFLS(restart="last"), problem, 600)
    assert float(whole.evaluate(state.output).f) == pytest.approx(-1.75, abs=0.05) and float(state.level) > -1.75


def test_centre_and_last_begin_where_they_say():
    problem = linear_program(noise=0.3)
    for restart in ("centre", "last"):
        config, draws = SFLS(restart=restart, level=0.0), Draws(problem, (0,), 8)
        state = config.init(problem, problem.start((0,)), draws)
        assert bool((state.x == 0).all()) == (restart == "centre")
        for _ in range(300):
            here = state.x.clone()
            old, state = state, config.step(state, problem, draws)
            if int(state.outer) > int(old.outer):
                assert bool((state.x == 0).all()) == (restart == "centre")
                assert int(state.call.t) == 0 and float(state.call.weight) == 0
                if restart == "centre":
                    assert torch.equal(state.call.y, torch.full_like(state.call.y, 0.25))
                    assert torch.equal(state.multipliers, torch.ones_like(state.multipliers))
                else:  # from where the call ended, with a hundredth of the centre
                    rates = ovsmd.rates(problem, "diameters")
                    before = ovsmd.iterate(
                        replace(old.call, x=here), problem, draws("xi", old.k), old.level, 0.05, rates
                    )
                    assert torch.allclose(state.call.y, 0.99 * before.y + 0.0025, atol=1e-12)
        assert int(state.outer) > 1


def test_a_call_after_the_one_for_the_constraints_alone_begins_at_the_centre_of_the_dual_set():
    problem, config = linear_program(noise=0.1), SFLS(restart="last", step_size=0.2)
    draws = Draws(problem, (0,), 8)
    state = config.init(problem, problem.start((0,)), draws)
    while int(state.outer) == 0:
        state = config.step(state, problem, draws)
    assert torch.equal(state.call.y, torch.full_like(state.call.y, 0.25))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"theta": 1.0}, "theta"),
        ({"delta": 0.0}, "delta"),
        ({"delta": 1.0}, "delta"),
        ({"oracle": "sgd"}, "oracle"),
        ({"stopping": "never"}, "stopping"),
        ({"scaling": "x"}, "scaling"),
        ({"restart": "best"}, "restart"),
        ({"step_size": 0.0}, "step_size"),
        ({"step_size": None}, "step_size=None"),
        ({"diameter": -1.0}, "diameter"),
        ({"min_steps": 0}, "min_steps"),
        ({"level": float("inf")}, "level"),
        ({"level": float("nan")}, "level"),
        ({"optimality_tolerance": -1.0}, "optimality_tolerance"),
        ({"stopping": "theory"}, "needs oracle_error"),
        ({"oracle_error": 0.1}, "leave them out"),
        (
            {
                "stopping": "theory",
                "oracle_error": 0.1,
                "level": 1.0,
                "light_tails": LightTails(M_x=1.0, M_y=1.0, Q=1.0),
            },
            "optimality_tolerance",
        ),
    ],
)
def test_bad_options(options, words):
    with pytest.raises(OptionError, match=words):
        SFLS(**options)
    with pytest.raises(OptionError, match="M_x"):
        LightTails(M_x=0.0, M_y=1.0, Q=1.0)
    with pytest.raises(OptionError, match="Q"):
        LightTails(M_x=1.0, M_y=1.0, Q=-1.0)


def test_presets_are_the_papers_settings():
    for name, level, c in (("inventory", 5.0, 2.0), ("neyman-pearson", 3.0, 0.05), ("fair", 1.0, 0.05)):
        assert algorithm(f"sfls:{name}") == SFLS(level=level, theta=2.0, step_size=c, scaling="none")


def test_the_state_is_the_shared_one():
    state = run(SFLS(level=0.0), linear_program(noise=0.3), 50, seeds=(0, 1))
    assert state.x.shape == state.call.average.shape == state.output.shape == (2, 3)
    assert state.outer.dtype == torch.int64 and state.level.shape == state.upper.shape == state.outer.shape == (2,)
    assert state.multipliers.shape == (2, 3) and state.call.y.shape == (2, 4)
    assert state.call.x is state.x and not differences(state.point[0], state.output[0])


@pytest.mark.long
@pytest.mark.parametrize("options", [{}, {"level": True}, {"oracle": "smd"}, {"restart": "last"}])
@pytest.mark.parametrize("name", LEVEL_SETS)
def test_every_outer_iterate_is_feasible_in_95_percent_of_200_runs(name, options):
    """delta = 0.05, exact constraints, 200 seeds as one stack (benchmarks/level_set_guarantee.py prints the same)."""
    problem, feasible = LEVEL_SETS[name](noise=1.0), torch.ones(200, dtype=torch.bool)
    if "level" in options:
        options = {"level": problem.optimum.f + 1.0}
    last = torch.zeros(200, dtype=torch.int64)

    def look(state):
        nonlocal feasible, last
        inside = problem.evaluate(state.output).g.amax(-1) <= 0
        feasible, last = feasible & (inside | (state.outer == last)), state.outer

    state = run(SFLS(**options), problem, 3000, seeds=tuple(range(200)), after=look)
    assert int(state.outer.min()) >= 1
    assert float(feasible.double().mean()) >= 0.95


def test_the_oracle_alone_without_a_level_is_the_first_call():
    """`SMD()` leaves the objective out as the first call of `SFLS` does while it seeks a feasible point."""
    same = {"step_size": 0.05, "scaling": "dual"}
    alone = run(SMD(**same), convex_fair(), 30, seeds=(0, 1))
    first = run(SFLS(**same, min_steps=1000), convex_fair(), 30, seeds=(0, 1))
    assert torch.equal(alone.x, first.x) and torch.equal(alone.upper, first.upper)
    assert torch.equal(alone.call.average, first.call.average) and not alone.multipliers.any()
    assert not torch.equal(alone.x, run(SMD(level=1.0, **same), convex_fair(), 30, seeds=(0, 1)).x)
    with pytest.raises(OptionError, match="level must be finite, got inf; None states none"):
        SMD(level=math.inf)
