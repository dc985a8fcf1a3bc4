"""Certified level sets: what a certificate promises, counted out; mixing; the level; the guarantee; what is refused."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy.optimize import linprog
from scipy.stats import binom

from fairbound.base.errors import OptionError
from fairbound.fairness.problem import FairProblem
from fairbound.instances import fair_ratio, instance, neyman_pearson
from fairbound.instances.linear_terms import Block, LinearTerms, Term
from fairbound.methods import certificates
from fairbound.methods.certified_level_set import CertifiedLevelSet
from fairbound.methods.failing import share_of_failure
from fairbound.models.model import model_of
from fairbound.problems.base import BaseProblem
from fairbound.problems.problem import Draws, Evaluation, Ranges
from fairbound.problems.wrappers import Counted
from fairbound.testing import PROBLEMS, run
from twelve_rows import convex_fair

POPULATIONS = {  # values of (g_1, g_2) in [0, 1], with their probabilities
    "even": ([(0.0, 1.0), (0.5, 0.5), (1.0, 0.0)], [0.3, 0.4, 0.3]),
    "rare": ([(0.0, 0.0), (1.0, 0.2), (1.0, 1.0)], [0.96, 0.02, 0.02]),
    "apart": ([(0.0, 0.1), (0.0, 0.9), (1.0, 0.5)], [0.45, 0.45, 0.1]),
}


def outcomes(n: int, p: list[float]):
    """Every count of n draws of three values, with its probability."""
    for a in range(n + 1):
        for b in range(n - a + 1):
            c = n - a - b
            yield (a, b, c), math.comb(n, a) * math.comb(n - a, b) * p[0] ** a * p[1] ** b * p[2] ** c


@pytest.mark.parametrize("name", POPULATIONS)
@pytest.mark.parametrize("delta", [0.5, 0.05])
def test_upper_bounds_hold_at_once_with_the_stated_probability(name, delta):
    values, p = np.array(POPULATIONS[name][0]), POPULATIONS[name][1]
    truth, n = np.array(p) @ values, 64
    missed, widest, total = 0.0, 0.0, 0.0
    for counts, probability in outcomes(n, p):
        bound = certificates.upper_bounds(np.repeat(values, counts, axis=0), np.zeros(2), np.ones(2), delta)
        missed += probability * bool((bound < truth - 1e-12).any())
        widest += probability * float((bound - truth).max())
        total += probability
    assert abs(total - 1) < 1e-9 and missed <= delta
    assert widest < 0.6  # of an interval of length 1: the bounds say something


class Batches(BaseProblem):
    """A problem of which certificates ask `values` and `ranges` alone."""

    m, n, rows = 1, 1, 10**9

    def start(self, seeds):
        raise NotImplementedError

    gradient = evaluate = start


class Coin(Batches):
    """g is 1 or -1, with mean `mean`, in every batch of one row; f is 0. For certificates alone."""

    def __init__(self, mean: float):
        self.mean = mean

    def ranges(self, x):
        return Ranges(torch.tensor([[0.0], [-1.0]]).double(), torch.tensor([[0.0], [1.0]]).double())

    def sample(self, seeds, name, k, size, kind):
        return np.random.default_rng([*seeds, *map(ord, name), k]).random()

    def values(self, x, batch, true=False):
        g = torch.tensor([1.0 if batch < (1 + self.mean) / 2 else -1.0], dtype=torch.float64)
        return Evaluation(torch.tensor(0.0, dtype=torch.float64), g)


def test_a_sampled_certificate_decides_and_is_wrong_no_oftener_than_stated():
    """At mean 0 the chance of U < 0 is at most delta over all rounds together, though the rounds end when it happens."""
    x, delta, runs = torch.zeros(1, dtype=torch.float64), 0.2, 30

    def found(mean, seed):
        return certificates.sampled(Coin(mean), x, Draws(Coin(mean), (seed,), 1), 0, 1, delta, 450)

    wrong = sum(bool((found(0.0, s).upper < 0).all()) for s in range(runs))
    assert wrong <= binom.ppf(1 - 1e-6, runs, delta)
    accepted, rejected = [found(-0.9, s) for s in range(3)], [found(0.9, s) for s in range(3)]
    assert all(bool(b.decided) and float(b.upper) < 0 for b in accepted)
    assert all(bool(b.decided) and float(b.upper) > 0 for b in rejected)


class Written(Batches):
    """Batch b has the b-th of the given values of g, so that what a certificate makes of them is known."""

    def __init__(self, g):
        self.g = g

    def ranges(self, x):
        return Ranges(torch.tensor([[0.0], [-1.0]]).double(), torch.tensor([[0.0], [1.0]]).double())

    def sample(self, seeds, name, k, size, kind):
        return k

    def values(self, x, batch, true=False):
        return Evaluation(torch.tensor(0.0, dtype=torch.float64), torch.tensor([self.g[batch]], dtype=torch.float64))


@pytest.mark.parametrize("delta", [0.5, 0.05])
def test_round_j_is_judged_at_delta_over_2_to_the_j_plus_1(delta):
    """Means between the widths at neighbouring levels: what round j accepts tells its level, within a factor 2."""

    def width(n, level):
        return float(certificates.upper_bounds(pattern(n), -np.ones(1), np.ones(1), level)[0])

    def pattern(n):
        return np.tile([0.1, -0.1], n // 2)[:, None]

    def sampled(*means):
        g = np.concatenate([pattern(n)[:, 0] + mean for n, mean in zip((64, 128, 256), means, strict=False)])
        problem = Written(g)
        x = torch.zeros(1, dtype=torch.float64)
        found = certificates.sampled(problem, x, Draws(problem, (0,), 1), 0, 1, delta, len(g))
        return bool(found.decided) and bool((found.upper < 0).all())

    undecided = []
    for n, level in ((64, delta / 2), (128, delta / 4), (256, delta / 8)):
        own, looser, stricter = width(n, level), width(n, 2 * level), width(n, level / 2)
        assert looser < own < stricter
        assert sampled(*undecided, -(own + stricter) / 2)
        undecided.append(-(own + looser) / 2)
        assert not sampled(*undecided)


def test_the_levels_that_a_run_spends_on_all_rounds_of_all_its_certificates_sum_to_at_most_delta(monkeypatch):
    """Asked of the inequality itself, at every call of it in a run: one level a round, and none twice."""
    asked, bounds = [], certificates.upper_bounds

    def watched(g, low, high, delta):
        asked.append(delta)
        return bounds(g, low, high, delta)

    monkeypatch.setattr(certificates, "upper_bounds", watched)
    config = CertifiedLevelSet(
        certificate="sampled", delta=0.04, first_call=0.1, oracle_rows=12, margin=4.0, growth=0.5
    )
    state = run(config, small_ratio(rows=400), 150)
    assert state.calls > 5 and len(asked) > state.calls  # several rounds in some
    assert asked[0] == 0.01 and sum(asked) <= 0.04
    first = [level for before, level in itertools.pairwise([0.0, *asked]) if level != before / 2]
    assert first == [0.04 / 2 ** (k + 2) for k in range(state.calls)]  # round 0 of call k: delta_k / 2


def test_the_chance_of_a_wrong_acceptance_over_all_rounds_is_enumerated():
    """Fair +-1 coins, rounds of 8, 16, 32, 64, 128 fresh draws at delta / 2^(j+1): the exact probability."""
    delta, undecided, wrong = 0.5, 1.0, 0.0
    for j in range(5):
        n = 8 * 2**j
        accepts = rejects = 0.0
        for heads in range(n + 1):
            g = np.repeat([1.0, -1.0], [heads, n - heads])[:, None]
            bound = float(certificates.upper_bounds(g, -np.ones(1), np.ones(1), share_of_failure(delta, j))[0])
            mean = float(g.mean())
            chance = binom.pmf(heads, n, 0.5)
            accepts += chance * (bound < 0)
            rejects += chance * (mean > 0 and 2 * mean > bound)
        wrong += undecided * accepts
        undecided *= 1 - accepts - rejects
    assert 0 < wrong <= delta


def test_a_point_where_rows_cannot_differ_is_certified_by_one_batch_with_a_row_of_every_block():
    X = np.random.default_rng(0).normal(size=(60, 3))
    problem = neyman_pearson(X, np.arange(60) % 6, bound=5.5)
    x = torch.zeros(problem.n, dtype=torch.float64)
    free = certificates.free(problem, x, Draws(problem, (0,), 2), 2)
    assert free is not None and torch.allclose(free.upper, torch.full((5,), -0.5).double(), atol=1e-12)
    assert torch.allclose(free.upper, problem.evaluate(x).g)
    assert certificates.free(problem, x + 0.1, Draws(problem, (0,), 2), 2) is None
    assert certificates.free(PROBLEMS["box"](), x[:3], Draws(PROBLEMS["box"](), (0,), 2), 2) is None


def test_a_constraint_of_rows_that_cannot_differ_is_bounded_by_its_value():
    bound = certificates.upper_bounds(np.full((64, 2), -0.1), np.array([0.0, -1.0]), np.array([0.0, 1.0]), 0.05)
    assert bound[0] == pytest.approx(-0.1, abs=1e-12) and bound[1] > -0.1


def test_levels_too_small_to_compute_with_bound_nothing():
    assert share_of_failure(0.05, 1100) < 1e-300
    assert np.isinf(certificates.upper_bounds(-np.ones((64, 1)), -np.ones(1), np.ones(1), 0.0)).all()


def test_ranges_that_are_not_numbers_certify_nothing():
    class Strange(Coin):
        def ranges(self, x):
            return Ranges(torch.full((2, 1), math.nan).double(), torch.full((2, 1), math.nan).double())

    x, problem = torch.zeros(1, dtype=torch.float64), Strange(-0.9)
    assert certificates.free(problem, x, Draws(problem, (0,), 1), 1) is None
    found = certificates.sampled(problem, x, Draws(problem, (0,), 1), 0, 1, 0.2, 450)
    assert not bool(found.decided) and not bool((found.upper < 0).any())


def test_a_constraint_that_batches_lack_is_not_certified_from_rows():
    class Lacking(Coin):
        def values(self, x, batch, true=False):
            found = super().values(x, batch)
            return found._replace(g=torch.zeros_like(found.g) - 1, seen=torch.tensor([batch < 0.9]))

    problem = Lacking(-0.9)
    found = certificates.sampled(problem, torch.zeros(1).double(), Draws(problem, (0,), 1), 0, 1, 0.2, 450)
    assert not bool(found.decided) and bool(torch.isinf(found.upper).all())


@pytest.mark.parametrize("certificate", ["exact", "sampled", "both"])
def test_without_constraints_every_candidate_is_feasible(certificate):
    rows = np.random.default_rng(0).normal(size=(500, 2))
    problem = LinearTerms([Block("all", rows, 1)], [Term(0, 0, "hinge")], [], radius=1.0)
    assert int(run(CertifiedLevelSet(certificate=certificate), problem, 200).outer) > 0


def test_a_module_with_dropout_is_certified_as_it_predicts():
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, 400)
    X = rng.normal(size=(400, 3)).astype(np.float32)
    X[:, 0] += group
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1))
    problem = FairProblem(model_of(module, 3, 1), X, (X[:, 0] > 0.5).astype(int), group, "demographic_parity <= 0.05")
    for seed in range(5):
        x = problem.start((seed,))
        found = certificates.exact(problem, x, Draws(problem, (seed,), 8), 0)
        assert torch.equal(found.upper, problem.evaluate(x).g)


@pytest.mark.parametrize("seed", range(20))
def test_mixing_takes_the_least_share_that_convexity_shows_feasible(seed):
    """g_i(x) = |x - c_i|^2 - r_i^2 around 0: bounds of the mixture hold, and any smaller share would not be shown."""
    rng = np.random.default_rng(seed)
    centre, radius = torch.tensor(rng.normal(size=(4, 3)) * 0.3), torch.tensor(rng.uniform(1.5, 2.0, 4))

    def g(x):
        return (x - centre).square().sum(-1) - radius**2

    a, b = torch.zeros(3, dtype=torch.float64), torch.tensor(rng.normal(size=3))
    b = b / b.norm() * 3
    assert bool((g(a) < 0).all()) and bool((g(b) > 0).any())
    f = torch.tensor([1.0, 0.2], dtype=torch.float64)
    mix = certificates.mixed(f[1], g(b), f[0], g(a), 1e-9)
    at = mix.share * a + (1 - mix.share) * b
    assert bool((g(at) <= mix.upper + 1e-12).all()) and math.isclose(float(mix.upper.max()), -1e-9, abs_tol=1e-13)
    assert 0 < float(mix.share) < 1 and math.isclose(float(mix.f), 0.2 + 0.8 * float(mix.share))
    less = 0.999 * mix.share
    assert bool((less * g(a) + (1 - less) * g(b) > -1e-9).any())
    nothing = certificates.mixed(f[1], g(b), torch.tensor(math.inf), torch.full((4,), math.inf), 1e-9)
    assert math.isinf(float(nothing.f))
    already = certificates.mixed(f[1], g(a), f[0], g(a), 1e-9)
    assert float(already.share) == 0


def test_the_level_may_move_by_all_of_a_certified_bound_and_stays_above_the_optimum():
    """min c.x over a box with A x <= b: at every level r and feasible x, f* <= r + P(r, x), and -(r - f*) <= H(r) <= P."""
    rng = np.random.default_rng(1)
    c, A, b = rng.normal(size=3), rng.normal(size=(4, 3)), rng.uniform(0.2, 1.0, 4)
    best = linprog(c, A_ub=A, b_ub=b, bounds=[(-1, 1)] * 3).fun
    moved = 0
    for x in itertools.product(np.linspace(-1, 1, 7), repeat=3):
        for r in best + np.array([0.05, 0.3, 1.0, 3.0]):
            P = max(c @ x - r, (A @ x - b).max())
            H = linprog(
                [0, 0, 0, 1],
                A_ub=np.c_[np.vstack([c, A]), -np.ones(5)],
                b_ub=np.r_[r, b],
                bounds=[(-1, 1)] * 3 + [(None, None)],
            ).fun if P < 0 else None  # fmt: skip
            if H is not None:
                moved += 1
                assert best <= r + P + 1e-9 and -(r - best) - 1e-9 <= H <= P + 1e-9
                assert best <= c @ x <= r + P + 1e-9
    assert moved > 100


@pytest.mark.parametrize("error", [0.3, 0.1, 0.01])
def test_a_candidate_within_an_error_gives_a_level_within_a_multiple_of_it(error):
    """f(c) <= f* + e, g(c) <= e and an anchor with slack s: r - f* <= e + (e / s) (f(a) - f*), on a linear program."""
    rng = np.random.default_rng(2)
    c, A, b = rng.normal(size=3), rng.normal(size=(4, 3)), rng.uniform(0.5, 1.0, 4)
    solved = linprog(c, A_ub=A, b_ub=b, bounds=[(-1, 1)] * 3)
    best, near = solved.fun, solved.x + error * rng.normal(size=(2000, 3))
    anchor, slack, tried = np.zeros(3), b.min(), 0
    for x in near.clip(-1, 1):
        g = A @ x - b
        if not (c @ x <= best + error and 0 < g.max() <= error):
            continue
        tried += 1
        f, upper, f_a, upper_a = (torch.as_tensor(v) for v in (c @ x, g, c @ anchor, A @ anchor - b))
        mix = certificates.mixed(f, upper, f_a, upper_a, 0.0)
        at = float(mix.share) * anchor + (1 - float(mix.share)) * x
        assert (A @ at - b).max() <= 1e-12 and best - 1e-9 <= c @ at <= float(mix.f) + 1e-12
        assert float(mix.f) - best <= error + error / slack * (c @ anchor - best) + 1e-12
    assert tried > 20


def outer_iterates(config, problem, seeds, steps, **options):
    """The largest g over all outer iterates of each run, -inf without any; the final state; levels in order."""
    worst, levels = torch.full((len(seeds),), -torch.inf, dtype=torch.float64), []

    def look(state):
        has = state.outer > 0
        g = problem.evaluate(state.output).g.amax(-1).double()
        worst.copy_(torch.where(has, torch.maximum(worst, g), worst))
        levels.append(state.level.clone())

    return worst, run(config, problem, steps, seeds=seeds, after=look, **options), levels


CONVEX = [name for name in PROBLEMS if PROBLEMS[name]().convex and name != "infeasible"]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.long] if name in ("box", "ball", "absolute") else []) for name in CONVEX],
)
def test_every_outer_iterate_is_feasible_and_the_level_bounds_its_objective(name):
    """Exact certificates cannot fail: all of 20 runs with large noise, and not only most."""
    problem = PROBLEMS[name](noise=3.0)
    worst, state, levels = outer_iterates(CertifiedLevelSet(), problem, tuple(range(20)), 600)
    assert bool((state.outer > 0).all()) and bool((worst <= 0).all())
    f, known = problem.evaluate(state.output).f, state.outer > 0
    assert bool((f[known] <= state.level[known] + 1e-9).all()) and bool((state.level >= problem.optimum.f - 1e-9).all())
    for before, after in itertools.pairwise(levels):
        assert bool((after <= before).all())


def test_outer_iterates_are_feasible_beyond_rounding_where_constraints_are_large():
    """10^4 costs of order 10^3: a mixture that only just meets its bound must not exceed it when computed anew."""
    problem = instance("inventory-2-10-10", constraints=1000)
    for sampling in ("uniform", "balanced"):
        for seed in range(5):
            worst, state, _ = outer_iterates(CertifiedLevelSet(), problem, (seed,), 40, sampling=sampling)
            assert float(worst) <= 0 and int(state.outer) > 3


def small_ratio(seed=0, rows=120):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 4)) / 2
    groups = rng.normal(size=(2, rows, 4)) / 2 + np.array([0.3, -0.3])[:, None, None]
    return fair_ratio(
        X, (X[:, 0] + X[:, 1] + rng.normal(size=rows) / 2 > 0).astype(int), *groups, kappa=0.6, radius=1.0
    )


def test_runs_with_sampled_certificates_stay_feasible_as_often_as_stated():
    """At most Binomial(60, delta)'s 1 - 1e-6 quantile of 20 runs has an infeasible outer iterate; rows decide some calls."""
    problem = small_ratio(rows=4000)
    config = CertifiedLevelSet(
        certificate="sampled", delta=0.05, first_call=0.1, oracle_rows=12, margin=4.0, growth=2.0
    )
    seeds = tuple(range(20))
    worst, state, _ = outer_iterates(config, problem, seeds, 120)
    assert int((worst > 0).sum()) <= binom.ppf(1 - 1e-6, len(seeds), 0.05)
    assert bool((state.outer > 0).any())


def test_both_kinds_of_certificate_end_with_a_decision():
    problem = small_ratio()
    config = CertifiedLevelSet(certificate="both", oracle_rows=12)
    worst, state, _ = outer_iterates(config, problem, (0, 1), 300)
    assert bool((worst <= 0).all()) and bool((state.outer > 0).all())


def test_a_rejected_candidate_is_mixed_only_where_the_problem_is_known_to_be_convex():
    """With no margin and a feasible start, some candidate fails; mixed, it still improves the level."""
    problem = small_ratio()
    config = CertifiedLevelSet(margin=0.0, most_margin=0.0, certificate="exact")
    mixing = run(config, problem, 200)
    problem.convex = False
    alone = run(config, problem, 200)
    assert int(mixing.outer) >= int(alone.outer) and float(mixing.level) <= float(alone.level)
    assert float(problem.evaluate(mixing.point).g.max()) <= 0


def test_without_an_outer_iterate_the_next_candidate_is_returned():
    problem = PROBLEMS["infeasible"]()
    state = run(CertifiedLevelSet(), problem, 500)
    assert int(state.outer) == 0 and torch.equal(state.point, state.average)
    assert bool(torch.isinf(state.output_bounds).all())


def test_what_is_certified_is_the_stated_metric_or_the_surrogate_on_request():
    """The clipped scores of convex_fair and its decisions differ: each is feasible in what was certified."""
    problem, seeds = convex_fair(), (0, 1, 2, 3, 4)
    full = problem.sample(seeds, "check", 0, 1, "full")
    for certify, true in (("metric", True), ("surrogate", False)):
        state = run(CertifiedLevelSet(certify=certify), problem, 400, seeds=seeds)
        has = state.outer > 0
        assert bool(has.any())
        assert bool((problem.values(state.output, full, true=true).g[has] <= 0).all())


def test_the_certificate_is_counted_as_rows():
    problem = Counted(small_ratio())
    config = CertifiedLevelSet(first_call=1.0, oracle_rows=12)
    draws = Draws(problem, (0,), 1)
    state = config.init(problem, problem.start((0,)), draws)
    before = problem.counts.samples
    for _ in range(state.due):
        state = config.step(state, problem, draws)
    assert problem.counts.samples - before == 12 * math.ceil(problem.rows / 12) + problem.rows and state.calls == 1


@pytest.mark.parametrize(("name", "passes"), [("fair-a9a", 3.6), ("np-pendigits", 2)])
def test_small_gap_within_a_few_passes(data_dir, name, passes):
    """Relative gap at most 0.1 with all outer iterates feasible; f* is at least 0.7108 (fair-a9a) and 0."""
    problem = Counted(instance(name, data_dir))
    start = problem.evaluate(problem.start((0,))).f
    least = {"fair-a9a": 0.7109, "np-pendigits": 0.0}[name]
    config = CertifiedLevelSet()
    draws = Draws(problem, (0,), 1)
    state = config.init(problem, problem.start((0,)), draws)
    while problem.counts.samples < passes * problem.rows:
        state = config.step(state, problem, draws)
    measured = problem.evaluate(state.point)
    assert bool((state.outer > 0).all()) and bool((measured.g <= 0).all())
    assert bool((measured.f - least <= 0.1 * (start - least)).all())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"delta": 1.5}, "below 1"),
        ({"delta": 0.0}, "delta must be positive"),
        ({"certificate": "hoped"}, "'exact', 'sampled', 'both'"),
        ({"certify": "both"}, "'metric', 'surrogate'"),
        ({"oracle_rows": 0}, "oracle_rows must be positive"),
        ({"margin": -1.0}, "margin must not be negative"),
        ({"margin": 5.0}, "at least margin"),
        ({"growth": -0.1}, "growth must not be negative"),
        ({"start_weight": 1.0}, "below 1"),
        ({"first_move": 0.0}, "first_move must be positive"),
    ],
)
def test_options_out_of_range_are_refused(options, words):
    with pytest.raises(OptionError, match=words):
        CertifiedLevelSet(**options)


def test_sampled_certificates_are_refused_without_ranges():
    with pytest.raises(OptionError, match="no `ranges`"):
        run(CertifiedLevelSet(certificate="sampled"), PROBLEMS["box"], 1)


def test_each_of_several_constraints_is_bounded_at_its_share_of_the_level():
    """m equal columns are bounded as one is at delta / m (Bonferroni)."""
    g = np.random.default_rng(0).uniform(-1, 1, (50, 1))
    low, high = np.array([-1.0]), np.array([1.0])
    for m in (1, 2, 7):
        wide = certificates.upper_bounds(np.repeat(g, m, axis=1), np.repeat(low, m), np.repeat(high, m), 0.05)
        assert np.allclose(wide, certificates.upper_bounds(g, low, high, 0.05 / m)[0], rtol=1e-12)
