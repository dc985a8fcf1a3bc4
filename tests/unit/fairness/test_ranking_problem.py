"""The ranking problem against its definitions: every pair, every place, every query, and its slopes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

import fairbound as fb
from fairbound.base.errors import DataError, EmptyGroupError, OptionError
from fairbound.fairness.ranking_problem import RankingProblem
from fairbound.fairness.rankings import batches
from fairbound.fairness.rankings.pair_objective import hinge_sums
from fairbound.methods import ALM, MultiplierModel
from fairbound.models.mlp import MLP
from fairbound.problems.problem import Draws
from fairbound.ranking import by_query
from fairbound.testing import check_gradient, check_repeatable, check_resume, check_stacked

BOUNDS = (
    "pairwise_parity[inter] <= 0.05",
    "pairwise_parity[intra] <= 0.05",
    "pairwise_parity[marginal] <= 0.05",
    "exposure_parity <= 0.02",
    "exposure_parity[merit] <= 0.02",
)


def some_rows(seed=0, queries=12, most=9, groups=2):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, most, queries)
    qid = np.repeat(np.arange(queries), sizes)
    n = len(qid)
    X = rng.normal(size=(n, 3))
    a = rng.integers(0, groups, n)
    y = np.clip(np.round(X[:, 0] + 0.5 * a + rng.normal(size=n) + 1), 0, 4)
    order = rng.permutation(n)
    return X[order], y[order], qid[order], a[order]


def problem(seed=0, stated=BOUNDS, dtype=torch.float64, loss="logistic", partners=2, hidden=(), **rows):
    X, y, qid, a = some_rows(seed, **rows)
    return RankingProblem(MLP(3, hidden), X, y, qid, a, stated, loss=loss, partners=partners, dtype=dtype)


def by_hand(X, y, qid, a, x, loss):
    """f, the pair accuracies A[a, b] (b = k for any), and the exposure gaps, from a loop over all pairs."""
    s, k = X @ x[:3] + x[3], int(a.max()) + 1
    f, won, pairs = [], np.zeros((k, k + 1)), np.zeros((k, k + 1))
    over: dict = {(g, m): [] for g in range(k) for m in (False, True)}
    for q in np.unique(qid):
        rows = np.flatnonzero(qid == q)
        own = []
        for i, j in itertools.permutations(rows, 2):
            if y[i] > y[j]:
                d = s[i] - s[j]
                own.append(np.log1p(np.exp(-d)) if loss == "logistic" else max(0.0, 1 - d))
                for b in (a[j], k):
                    pairs[a[i], b] += 1
                    won[a[i], b] += d > 0
        f += [np.mean(own)] if own else []
        rank = 1 + (s[rows][None] > s[rows][:, None]).sum(1)
        seen = 1 / np.log2(1 + rank)
        for g, merit in over:
            worth = y[rows] if merit else np.ones(len(rows))
            mine = a[rows] == g
            if mine.any() and not mine.all() and worth.sum() > 0:
                over[g, merit].append(seen[mine].sum() / seen.sum() - worth[mine].sum() / worth.sum())
    with np.errstate(invalid="ignore"):
        return np.mean(f), won / pairs, {key: np.mean(v) for key, v in over.items() if v}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("loss", ["logistic", "hinge"])
@pytest.mark.parametrize("groups", [2, 3])
def test_evaluate_is_the_definition(seed, loss, groups):
    rows = some_rows(seed, queries=25, groups=groups)
    made = problem(seed, loss=loss, queries=25, groups=groups)
    x = torch.randn(4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    f, accuracy, over = by_hand(*rows, x.numpy(), loss)
    k = groups
    expected = []
    for kind in ("inter", "intra", "marginal"):
        for a, b in itertools.combinations(range(k), 2):
            one, two = {
                "inter": (accuracy[a, b], accuracy[b, a]),
                "intra": (accuracy[a, a], accuracy[b, b]),
                "marginal": (accuracy[a, k], accuracy[b, k]),
            }[kind]
            expected += [one - two - 0.05, two - one - 0.05]
    for merit in (False, True):
        expected += [sign * over[g, merit] - 0.02 for g in range(k) for sign in (1, -1)]
    measured = made.evaluate(x)
    assert float(measured.f) == pytest.approx(f, abs=1e-12)
    np.testing.assert_allclose(measured.g.numpy(), expected, atol=1e-12)
    full = made.sample((0,), "any", 0, 1, "full")
    assert float(made.values(x, full).f) == pytest.approx(f, abs=1e-12)
    of_the_metric = made.values(x, full, true=True).g.numpy()
    np.testing.assert_allclose(of_the_metric, expected, atol=1e-12)
    steep = made.sharpened(1e7).values(x, full).g.numpy()
    np.testing.assert_allclose(steep, expected, atol=1e-6)
    ends = np.cumsum([k * (k - 1)] * 3 + [2 * k] * 2)
    largest = [part.max() for part in np.split(np.array(expected), ends[:-1])]
    np.testing.assert_allclose(measured.extra["stated"].numpy() - [0.05, 0.05, 0.05, 0.02, 0.02], largest, atol=1e-12)


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
@pytest.mark.parametrize("hidden", [(), (2,)])
def test_slopes_are_those_of_the_values(loss, hidden):
    stated = ("pairwise_parity[marginal] <= 0.05", "exposure_parity[merit] <= 0.02")
    made = problem(1, stated=stated, loss=loss, hidden=hidden, queries=6, most=5)
    check_gradient(made, points=1, batch_size=4, kinds=("uniform", "full"))


@pytest.mark.parametrize("seed", range(5))
def test_hinge_losses_from_one_sort_are_those_of_all_pairs(seed):
    X, y, qid, _ = some_rows(seed, queries=6)
    order = np.argsort(qid, kind="stable")
    s, y, qid = X[order, 0] * 1.5, y[order], qid[order]
    starts = np.searchsorted(qid, [*np.unique(qid), qid.max() + 1])
    total, slope = hinge_sums(s, y, starts)
    expected, slopes = np.zeros(len(starts) - 1), np.zeros(len(s))
    for q in range(len(starts) - 1):
        for i, j in itertools.permutations(range(starts[q], starts[q + 1]), 2):
            if y[i] > y[j] and 1 - s[i] + s[j] > 0:
                expected[q] += 1 - s[i] + s[j]
                slopes[i] -= 1
                slopes[j] += 1
    np.testing.assert_allclose(total, expected, atol=1e-12)
    assert np.array_equal(slope, slopes)


def test_a_large_batch_in_parts_is_the_batch(monkeypatch):
    made = problem(2, queries=20)
    x = torch.randn(4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    w = torch.linspace(0, 1, made.m, dtype=torch.float64)
    full = made.sample((0,), "any", 0, 1, "full")
    whole = made.values(x, full), made.gradient(x, full, (0.7, w))[1], made.evaluate(x).f
    monkeypatch.setattr(batches, "MOST_PAIRS", 40)
    fresh = problem(2, queries=20)
    full = fresh.sample((0,), "any", 0, 1, "full")
    assert len(list(fresh._parts(full))) > 4
    parts = fresh.values(x, full)
    np.testing.assert_allclose(parts.g, whole[0].g, atol=1e-12)
    np.testing.assert_allclose([parts.f, fresh.evaluate(x).f], [whole[0].f, whole[2]], atol=1e-12)
    np.testing.assert_allclose(fresh.gradient(x, full, (0.7, w))[1], whole[1], atol=1e-12)
    e, slope = fresh.gradient(x, full, lambda e: (0.7, w))
    np.testing.assert_allclose(slope, whole[1], atol=1e-12)
    np.testing.assert_allclose(e.g, whole[0].g, atol=1e-12)


def test_batches_of_one_query_have_the_whole_as_their_mean(monkeypatch):
    """But for the spread of scores, which a batch has of its own; here it is that of all queries."""
    monkeypatch.setattr(batches.QueryBatch, "scaled", lambda self, scores: scores / 0.7)
    made = problem(3)
    x = torch.randn(4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    full = made.values(x, made.sample((0,), "any", 0, 1, "full"))
    each = [made.values(x, made.batch(np.array([q]), None)) for q in range(made.rows)]
    np.testing.assert_allclose(torch.stack([e.f for e in each]).mean(), full.f, atol=1e-12)
    np.testing.assert_allclose(torch.stack([e.g for e in each]).mean(0), full.g, atol=1e-12)


def test_the_spread_of_a_batch_of_many_queries_is_nearly_that_of_all():
    made = problem(3, queries=60)
    x = torch.randn(4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    full = made.values(x, made.sample((0,), "any", 0, 1, "full")).g
    each = torch.stack([made.values(x, made.sample((0,), "any", k, 30, "uniform")).g for k in range(400)])
    assert float((each.mean(0) - full).abs().max()) < 0.02  # four standard errors; off by 0.001 in 3,000 batches


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_no_scale_of_the_scores_changes_what_stands_for_their_order(loss):
    stated = (*BOUNDS, "query_pairwise_parity <= 0.1")
    made = problem(4, stated=stated, loss=loss)
    x = torch.randn(4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    full = made.sample((0,), "any", 0, 1, "full")
    g, slopes = made.values(x, full).g, made.jacobian(x, full)[1][1:]
    assert float(slopes.abs().max()) > 0.01
    for scale in (1e-3, 1e3):
        np.testing.assert_allclose(made.values(scale * x, full).g, g, atol=1e-9)
        np.testing.assert_allclose(made.jacobian(scale * x, full)[1][1:], slopes / scale, atol=1e-9 / scale)
    np.testing.assert_allclose(slopes @ x, 0, atol=1e-9)
    np.testing.assert_allclose(made.jvp(x, full, x)[1:], 0, atol=1e-9)
    assert float(made.values(1e3 * x, full).f) > 10 * float(made.values(x, full).f)


def test_scores_that_are_all_equal_have_slopes():
    made = problem(5)
    x = torch.tensor([0.0, 0.0, 0.0, 1.0], dtype=torch.float64)
    e, slopes = made.jacobian(x, made.sample((0,), "any", 0, 1, "full"))
    np.testing.assert_allclose(e.g + made.bounds, made.evaluate(x).g + made.bounds, atol=1e-12)
    assert 0 < float(slopes[:, :3].abs().max()) < 10


def test_partners_stand_for_all_worse_documents_and_each_is_drawn_as_often():
    made = problem(4, queries=5, most=12, partners=3)
    all_queries = np.arange(made.rows)
    d = made.documents
    counts, runs = {}, 1000
    for seed in range(runs):
        (part,) = made._parts(made.batch(all_queries, seed * 1009))
        pairs = part.pairs
        if seed == 0:
            stands = np.bincount(pairs.better.numpy(), weights=pairs.weight.numpy(), minlength=len(d))
            np.testing.assert_allclose(stands, d.lower, rtol=1e-12)
            assert (d.relevance[pairs.better.numpy()] > d.relevance[pairs.worse.numpy()]).all()
            assert np.array_equal(d.queries.of_rows[pairs.better.numpy()], d.queries.of_rows[pairs.worse.numpy()])
            assert np.bincount(pairs.better.numpy()).max() <= 3
        for pair in zip(pairs.better.tolist(), pairs.worse.tolist(), pairs.weight.tolist(), strict=True):
            counts[pair[:2]] = counts.get(pair[:2], 0.0) + pair[2]
    assert len(counts) == d.pairs.sum()
    means = np.array(list(counts.values())) / runs
    spread = np.sqrt(d.lower.max() / 3 / runs)  # a weight w = lower / 3 comes with probability 1 / w: variance w - 1
    assert np.abs(means - 1).max() < 6 * spread


def test_the_order_in_which_rows_come_changes_nothing():
    X, y, qid, a = some_rows(5)
    x = torch.randn(4, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    order = np.random.default_rng(0).permutation(len(y))
    one = RankingProblem(MLP(3), X, y, qid, a, BOUNDS, dtype=torch.float64).evaluate(x)
    two = RankingProblem(MLP(3), X[order], y[order], qid[order], a[order], BOUNDS, dtype=torch.float64).evaluate(x)
    np.testing.assert_allclose(one.g, two.g, atol=1e-12)
    assert float(one.f) == pytest.approx(float(two.f), abs=1e-12)


@pytest.mark.parametrize("check", [check_repeatable, check_resume, check_stacked])
def test_a_method_runs_on_it_as_on_any_problem(check):
    check(ALM(dual_every=2), problem(6))


def test_a_batch_is_a_function_of_seed_name_and_number():
    made = problem(7)
    x = torch.randn(4, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    draws = Draws(made, (3,), 4, "uniform")
    one, again, other = draws("a", 5), draws("a", 5), draws("a", 6)
    assert torch.equal(made.values(x, one).g, made.values(x, again).g) and one.size == 4
    assert not torch.equal(made.values(x, one).g, made.values(x, other).g)


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"y": 0}, DataError, "no query has two documents of different relevance"),
        ({"y": np.nan}, DataError, "relevance of 1 of"),
        ({"y": -1.0}, DataError, "negative"),
        ({"a": 0}, EmptyGroupError, "at least two groups"),
        ({"X": np.nan}, DataError, "feature 0 is NaN"),
        ({"stated": "demographic_parity <= 0.1"}, OptionError, "a ranker makes none"),
        ({"a": None}, DataError, "needs sensitive features"),
        ({"loss": "squared"}, OptionError, "loss must be one of"),
        ({"partners": 0}, OptionError, "partners must be at least 1"),
    ],
)
def test_what_cannot_be_used_is_said(change, error, said):
    X, y, qid, a = some_rows(8)
    X, y, stated, more = X.copy(), y.copy(), BOUNDS, {}
    if "y" in change:
        if change["y"] == 0:
            y[:] = 1
        else:
            y[3] = change["y"]
    if "X" in change:
        X[2, 0] = np.nan
    if "a" in change:
        a = None if change["a"] is None else np.zeros(len(y), int)
    stated = change.get("stated", stated)
    more |= {key: change[key] for key in ("loss", "partners") if key in change}
    with pytest.raises(error, match=said):
        RankingProblem(MLP(3), X, y, qid, a, stated, **more)


def test_a_group_that_no_query_measures_is_an_error_or_dropped():
    X, y = np.ones((6, 1)), np.array([1.0, 0, 1, 0, 1, 0])
    qid, a = np.array([0, 0, 1, 1, 2, 2]), np.array(["a", "b", "b", "a", "c", "c"])
    with pytest.raises(EmptyGroupError, match="no query measures 'a above c'"):
        RankingProblem(MLP(1), X, y, qid, a, "pairwise_parity[inter] <= 0.1")
    made = RankingProblem(MLP(1), X, y, qid, a, "pairwise_parity[inter,empty=drop] <= 0.1")
    assert made.names == ["pairwise_parity: a above b - b above a", "pairwise_parity: b above a - a above b"]
    with pytest.raises(EmptyGroupError, match=r"no query measures 'c'.*'exposure_parity\[empty=drop\] <= 0\.1'"):
        RankingProblem(MLP(1), X, y, qid, a, "exposure_parity <= 0.1")


def test_methods_reach_the_bound_by_the_metric():
    made = problem(9, stated=("pairwise_parity[inter] <= 0.02",), queries=30, most=12)
    free = fb.solve(made, "sgd", budget="150 steps", batch_size=16)
    assert float(made.evaluate(free.last).extra["stated"][0]) > 0.05
    found = fb.solve(made, "full_batch_alm", budget="20 steps")
    assert bool(found.feasible) and int(found.best_step) > 0
    assert float(made.evaluate(found.x).extra["pair_error"]) < 0.4


EVERY = "query_pairwise_parity <= 0.1"


def of_every_query(X, y, qid, a, x):
    """(query, group) -> the excess of its share of wrong pairs, by a loop over all pairs."""
    s, out = X @ x[:3] + x[3], {}
    for q in np.unique(qid):
        rows = np.flatnonzero(qid == q)
        pairs = [(i, s[i] < s[j]) for i, j in itertools.permutations(rows, 2) if y[i] > y[j]]
        for g in np.unique(a[rows]):
            own = [lost for i, lost in pairs if a[i] == g]
            if own and len(own) < len(pairs):
                out[q, g] = np.mean(own) - np.mean([lost for _, lost in pairs])
    return out


@pytest.mark.parametrize("seed", range(4))
def test_a_bound_on_every_query_has_a_constraint_for_each_query_and_group(seed):
    rows = some_rows(seed, queries=15, groups=3)
    made = problem(seed, (EVERY, "exposure_parity <= 0.1"), queries=15, groups=3)
    x = torch.randn(4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    expected = of_every_query(*rows, x.numpy())
    measured = made.evaluate(x)
    assert made.partial and made.m == len(expected) + 6 == len(made.names)
    found = dict(zip(made.names[6:], measured.g[6:].tolist(), strict=True))
    assert found == pytest.approx(
        {f"query_pairwise_parity: query {q}, group: {g}": v - 0.1 for (q, g), v in expected.items()}
    )
    assert float(measured.extra["stated"][0]) == pytest.approx(max(expected.values()))
    full = made.values(x, made.sample((0,), "any", 0, 1, "full"), true=True)
    assert full.subset is None
    np.testing.assert_allclose(full.g, measured.g, atol=1e-12)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["uniform", "shuffled"])
def test_a_batch_speaks_of_its_own_queries_and_its_verbs_agree(seed, kind):
    made = problem(seed, (EVERY, "pairwise_parity[inter] <= 0.1"), queries=15, groups=3)
    x = torch.randn(4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    batch = made.sample((seed,), "any", seed, 9, kind)  # "uniform" draws some queries twice
    e = made.values(x, batch)
    assert len(e.subset) == len(e.g) == len(e.subset.unique())
    mine = {f"query {made.documents.queries.labels[q]}," for q in batch.numbers}
    names = [made.names[i] for i in e.subset[6:].tolist()]
    assert {" ".join(name.split()[1:3]) for name in names} <= mine
    of_all = {name for name in made.names[6:] if " ".join(name.split()[1:3]) in mine}
    assert of_all == set(names)
    _, rows = made.jacobian(x, batch)
    w = torch.rand(made.m, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    expected = 0.5 * rows[0] + w[e.subset] @ rows[1:]
    np.testing.assert_allclose(made.gradient(x, batch, (0.5, w))[1], expected, atol=1e-12)
    np.testing.assert_allclose(made.gradient(x, batch, lambda e: (0.5, e.of(w)))[1], expected, atol=1e-12)
    dx = torch.randn(4, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    np.testing.assert_allclose(made.jvp(x, batch, dx), rows @ dx, atol=1e-12)
    h = 6e-6
    slope = (made.values(x + h * dx, batch).g - made.values(x - h * dx, batch).g) / (2 * h)
    np.testing.assert_allclose(rows[1:] @ dx, slope, atol=1e-7)


def test_batches_in_parts_speak_of_the_same_cells(monkeypatch):
    stated = (EVERY, "pairwise_parity[inter] <= 0.1", "query_pairwise_parity[sharpness=1.0] <= 0.3")
    x = torch.randn(4, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    made = problem(3, stated, queries=15, groups=3, most=14)
    w = torch.rand(made.m, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    full = made.sample((0,), "any", 0, 1, "full")
    whole = made.values(x, full).g, made.gradient(x, full, (0.5, w))[1], made.jvp(x, full, x)
    monkeypatch.setattr(batches, "MOST_PAIRS", 60)
    fresh = problem(3, stated, queries=15, groups=3, most=14)
    full = fresh.sample((0,), "any", 0, 1, "full")
    assert len(list(fresh._parts(full))) > 3
    np.testing.assert_allclose(fresh.values(x, full).g, whole[0], atol=1e-12)
    np.testing.assert_allclose(fresh.gradient(x, full, (0.5, w))[1], whole[1], atol=1e-12)
    np.testing.assert_allclose(fresh.gradient(x, full, lambda e: (0.5, w))[1], whole[1], atol=1e-12)
    np.testing.assert_allclose(fresh.jvp(x, full, x), whole[2], atol=1e-12)


def test_cells_of_a_query_have_their_exact_shares_as_the_mean_over_partners():
    made = problem(5, (EVERY,), queries=4, most=14, groups=2, partners=2)
    x = torch.randn(4, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    exact = made.values(x, made.sample((0,), "any", 0, 1, "full")).g
    runs = [made.values(x, made.batch(np.arange(4), seed * 997)).g for seed in range(300)]
    each = torch.stack(runs)
    assert bool(((each.mean(0) - exact).abs() <= 5 * each.std(0) / 300**0.5 + 1e-12).all())


def test_a_constraint_of_a_query_is_described_by_how_its_documents_differ_from_the_others():
    X, y, qid, a = some_rows(3, queries=15, groups=3)
    made = problem(3, (EVERY,), queries=15, groups=3)
    expected = []
    for name in made.names:
        q, g = (word.split(" ")[-1] for word in name.removeprefix("query_pairwise_parity: ").split(", group: "))
        rows = np.flatnonzero(qid == type(qid[0])(q))
        better = [i for i in rows if str(a[i]) == g and (y[rows] < y[i]).any()]
        expected.append(X[better].mean(0) - X[rows].mean(0))
    expected = np.array(expected)
    np.testing.assert_allclose(made.descriptions.numpy(), expected / np.abs(expected).max(0), atol=1e-12)
    assert problem(3, (EVERY, "exposure_parity <= 0.1"), queries=15, groups=3).descriptions is None


def test_the_multiplier_model_climbs_the_constraints_of_its_batch():
    """By autograd, of the mean of lambda_i g_i over those; the multipliers are known of all of them."""
    made = problem(6, ("query_pairwise_parity <= 0.6",), queries=60, most=10)
    config = MultiplierModel(hidden=(), dual_optimizer="sgd", dual_step=0.7, dual_values="surrogate", margin=0.1)
    draws = Draws(made, (0,), 4, "shuffled")
    state = config.init(made, torch.ones(4, dtype=torch.float64), draws)
    w, x = state.network.x.clone().requires_grad_(True), state.x.clone()
    e = made.values(x, draws("dual", 0, 32))
    assert len(e.subset) < made.m
    lam = torch.nn.functional.softplus(made.descriptions.double() @ w[:-1] + w[-1] + config.shift)
    (lam[e.subset] * (e.g + 0.1 * 0.6)).mean().backward()
    before = w.detach().clone()
    after = config.step(state, made, draws)
    torch.testing.assert_close(after.multipliers, lam.detach())
    torch.testing.assert_close(after.network.x, before + 0.7 * w.grad)
    found = fb.solve(made, "multiplier_model", budget="60 steps", batch_size=8, sampling="shuffled")
    assert found.state.multipliers.shape == (made.m,)


def test_alm_touches_the_cells_of_its_batches_and_meets_what_can_be_met():
    made = problem(6, ("query_pairwise_parity <= 0.6",), queries=60, most=10)
    method = ALM(dual_every=1, dual_rows=8)
    found = fb.solve(made, method, budget="60 steps", batch_size=8, sampling="shuffled")
    assert found.state.multipliers.shape == (made.m,)
    with pytest.raises(OptionError, match="needs all constraints at every step"):
        fb.solve(made, "ssl_alm", budget="1 steps")
    with pytest.raises(OptionError, match="cannot be stacked"):
        made.start((0, 1))


def test_the_pairs_won_are_counted_once_for_a_point_of_every_query(monkeypatch):
    made = problem(stated=("query_pairwise_parity <= 0.3",))
    counted, wins = [], by_query.wins
    monkeypatch.setattr(by_query, "wins", lambda *args: counted.append(1) or wins(*args))
    made.evaluate(made.start((0,)))
    assert len(counted) == 1
