"""Sharper limits of a difference at all looks: a martingale by enumeration, its least value by another search, errors by simulation."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import optimize, stats
from scipy.special import betaln, xlog1py, xlogy

from fairbound.confidence.contrasts import Contrasts
from fairbound.confidence.sequences import CountsInTime, anytime_bounds, checkpoint_rows, checkpoint_weight
from fairbound.confidence.tilted import BETS, LINE, WEIGHTS, Pairs, difference_bounds, exceeds, lowest_differences

BOTH = np.array([[0, 1], [1, 0]])


def stream(seed, rows, share=0.4, rates=(0.5, 0.42)):
    """Successes and trials (2,) now, and those at the checkpoints."""
    rng = np.random.default_rng(seed)
    passed = [k for k in map(checkpoint_rows, range(1, 9)) if k <= rows]
    s, n, before, last = np.zeros(2), np.zeros(2), [], 0
    for upto in [*passed, rows]:
        first = rng.binomial(upto - last, share)
        new = np.array([first, upto - last - first])
        s, n, last = s + rng.binomial(new, rates), n + new, upto
        before.append((s.copy(), n.copy()))
    return s, n, before[: len(passed)]


def log_martingale(p, s, n, before):
    """The logarithm of M at rates p (2,), written down from the definition."""
    start = next((b for b in before if b[1].min() >= 10), None)
    parts = [np.log(LINE)]
    if start is not None:
        x = np.array([1.0, -1.0]) * start[1].sum() / start[1]
        hits, rows = s - start[0], n - start[1]
        parts = [
            np.log(LINE * w) + (hits * t * x - rows * np.log(1 - p + p * np.exp(t * x))).sum()
            for t, w in zip(BETS, WEIGHTS, strict=True)
        ]
    for j, (s0, n0) in enumerate([(0 * s, 0 * n), *before]):
        likelihood = (xlogy(s - s0, p) + xlog1py(n - n0 - s + s0, -p)).sum()
        forecast = (betaln(s + 0.5, n - s + 0.5) - betaln(s0 + 0.5, n0 - s0 + 0.5)).sum()
        parts.append(np.log((1 - LINE) * checkpoint_weight(j)) + forecast - likelihood)
    return np.logaddexp.reduce(parts)


@pytest.mark.parametrize("p", [(0.3, 0.25), (0.6, 0.1)])
def test_the_mean_over_all_outcomes_of_the_next_rows_is_the_value_before_them(p):
    rates, s0, n0 = np.array(p), np.array([60.0, 40.0]), np.array([150.0, 100.0])
    more = np.array([5, 4])
    after = 0.0
    for hits in product(range(6), range(5)):
        chance = np.prod(stats.binom.pmf(hits, more, rates))
        after += chance * np.exp(log_martingale(rates, s0 + hits, n0 + more, [(s0, n0)]))
    assert after == pytest.approx(np.exp(log_martingale(rates, s0, n0, [(s0, n0)])), rel=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_the_least_value_at_a_difference_is_that_of_another_search(seed):
    rng = np.random.default_rng(seed)
    rows = int(10 ** rng.uniform(2.3, 4.5))
    s, n, before = stream(seed, rows, rng.uniform(0.02, 0.98), (p := rng.uniform(0.02, 0.98, 2)))
    pair = Pairs(CountsInTime.of(s, n, before), np.array([[0, 1]]))
    for d in (0.05, float(p[0] - p[1]), 0.01 - (p[0] > 0.5) * 0.02):

        def value(m, d=d):
            return log_martingale(np.array([m + d / 2, m - d / 2]), s, n, before)

        centre, half = s.sum() / n.sum(), 6 / np.sqrt(rows)
        low, high = max(abs(d) / 2, centre - half) + 1e-9, min(1 - abs(d) / 2, centre + half) - 1e-9
        if low >= high:
            continue
        found = optimize.minimize_scalar(value, bounds=(low, high), method="bounded", options={"xatol": 1e-10})
        if low + 1e-6 < found.x < high - 1e-6:
            assert pair.log_martingale(np.array([d]))[0] == pytest.approx(found.fun, abs=1e-5, rel=1e-6)


@pytest.mark.parametrize("rows", [200, 3000, 20_000, 10**6])
def test_a_bound_is_where_the_martingale_reaches_the_error(rows):
    counts = CountsInTime.of(*stream(3, rows))
    lower = lowest_differences(counts, BOTH, 0.05)
    pairs = Pairs(counts, BOTH)
    at = pairs.log_martingale(lower)
    step = 1e-4 * (pairs.estimate - lower)
    assert (at >= np.log(20)).all() and (pairs.log_martingale(lower + step) < np.log(20) + 0.01).all()
    shared, upper = difference_bounds(counts, BOTH, 0.05)
    assert (lower >= shared - 1e-9).all() and (shared <= pairs.estimate).all() and (pairs.estimate <= upper).all()
    for bound in (0.0, 0.03, 0.06):
        assert (exceeds(counts, BOTH, 0.05, bound) == (lower > bound)).all()
        assert (exceeds(counts, BOTH, 0.05, bound, shared=True) == (shared > bound)).all()


def test_it_is_sharper_than_the_forecasters_once_bets_are_placed():
    for seed, rows in product(range(3), (5000, 10_000, 20_000)):
        counts = CountsInTime.of(*stream(seed, rows))
        difference = Contrasts(np.array([[0, 1]]), np.array([[1.0, -1.0]]))
        wide = anytime_bounds(counts, difference, 0.05)[0][0]
        estimate = Pairs(counts, BOTH).estimate[0]
        sharp = lowest_differences(counts, BOTH, 0.05)[0]
        assert estimate - sharp < 0.9 * (estimate - wide)


def test_without_a_checkpoint_or_without_rows_of_a_cell_nothing_is_claimed():
    few = CountsInTime.of([30.0, 20.0], [60.0, 60.0])
    assert (lowest_differences(few, BOTH, 0.05) >= -1).all()
    empty = CountsInTime.of([300.0, 0.0], [600.0, 0.0], [(np.array([130.0, 0.0]), np.array([250.0, 0.0]))])
    lower, upper = difference_bounds(empty, BOTH, 0.05)
    assert lower[0] < 0 < upper[0] and lower[1] < -0.5
    lost = CountsInTime.of(
        [2000.0, 1500.0], [4000.0, 4000.0], [None, (np.array([500.0, 380.0]), np.array([1000.0, 1000.0]))]
    )
    assert 0 < lowest_differences(lost, BOTH, 0.05)[0] < 0.125  # the first checkpoint was lost in a merge


@pytest.mark.parametrize("share", [0.5, 0.1])
def test_limits_fail_no_more_often_than_promised(share):
    """1,000 streams of 1,500 rows whose difference is 0.05, looked at every 50 rows at error 0.3; a wrong limit is counted once."""
    rng = np.random.default_rng(1)
    number, error = 1000, 0.3
    s, n, before = np.zeros((number, 2)), np.zeros((number, 2)), []
    ever, two = np.zeros(number, bool), np.zeros(number, bool)
    for look in range(1, 31):
        first = rng.binomial(50, share, number)
        new = np.stack([first, 50 - first], -1)
        n, s = n + new, s + rng.binomial(new, (0.4, 0.35))
        if 50 * look == checkpoint_rows(len(before) + 1):
            before.append((s.copy(), n.copy()))
        counts = CountsInTime.of(s, n, before)
        ever |= exceeds(counts, BOTH[:1], error, 0.05)[:, 0]
        two |= exceeds(counts, BOTH, error, 0.05, shared=True).any(-1)
    for wrong in (ever, two):
        assert stats.binomtest(int(wrong.sum()), number, error, "greater").pvalue > 1e-4
    assert ever.mean() > 0.02  # the claim could fail


def test_of_many_pairs_the_least_bound_is_that_of_each_by_itself(monkeypatch):
    rng, k = np.random.default_rng(0), 14
    n = rng.integers(200, 900, k).astype(float)
    hits = np.rint(n * rng.uniform(0.3, 0.6, k))
    counts = CountsInTime.of(hits, n, [(np.rint(hits / 3), np.rint(n / 3))] * 2)
    pairs = np.array([[a, b] for a in range(k) for b in range(k) if a != b])
    each = np.array([lowest_differences(counts, pair[None], 0.05)[0] for pair in pairs])
    sharpened, real = [], Pairs.take
    monkeypatch.setattr(Pairs, "take", lambda self, which: (sharpened.append(which.sum()), real(self, which))[1])
    found = lowest_differences(counts, pairs, 0.05)
    assert found.min() == each.min() and (found <= each).all()
    assert sum(sharpened) < len(pairs) / 2
