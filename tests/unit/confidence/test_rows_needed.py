"""The rows that decide at stated odds: audits of so many rows are simulated, and decide at least as often."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

import fairbound as fb
from fairbound.base.errors import OptionError
from fairbound.confidence import rows_needed
from fairbound.confidence.auc import Areas, area_rows_needed
from fairbound.confidence.contrasts import Contrasts
from fairbound.confidence.means import mean_rows_needed, welch_bounds
from fairbound.confidence.rates import (
    largest_lower,
    rate_rows_needed,
    rate_upper_bounds,
    share_bounds,
    share_rows_needed,
)

DRAWS = 1000


def every_pair(k):
    pairs = np.array(list(itertools.permutations(range(k), 2)))
    return Contrasts(pairs, np.tile([1.0, -1.0], (len(pairs), 1)))


def decided(rates, shares, contrasts, bound, n, seed=0):
    """Of DRAWS audits of n rows how many find what is true of the rates."""
    rng = np.random.default_rng(seed)
    trials = np.broadcast_to(np.rint(n * np.asarray(shares)), (DRAWS, len(rates)))
    s = rng.binomial(trials.astype(int), rates)
    if max(rates) - min(rates) > bound:
        return int((largest_lower(s, trials, contrasts) > bound).sum())
    each = rate_upper_bounds(s, trials, contrasts, min(0.05 * len(contrasts), 0.5)) if len(contrasts) <= 10 else None
    if each is None:  # as many limits, each with the whole error
        each = np.stack(
            [rate_upper_bounds(s, trials, contrasts.take(np.array([i])))[:, 0] for i in range(len(contrasts))], 1
        )
    return int((each <= bound).all(1).sum())


@pytest.mark.parametrize("power", [0.8, 0.95])
@pytest.mark.parametrize(
    ("rates", "shares", "bound"),
    [
        ([0.3, 0.3], [0.5, 0.5], 0.05),
        ([0.32, 0.28], [0.1, 0.9], 0.1),
        ([0.3, 0.15], [0.5, 0.5], 0.1),
        ([0.02, 0.02, 0.02], [0.6, 0.3, 0.1], 0.03),
        ([0.4] * 6, [1 / 6] * 6, 0.1),
        ([0.5, 0.4, 0.4, 0.3], [0.25] * 4, 0.15),
    ],
)
def test_so_many_rows_decide_at_least_so_often(rates, shares, bound, power):
    contrasts = every_pair(len(rates))
    n = rate_rows_needed(rates, shares, contrasts, bound, power=power)
    found = decided(rates, shares, contrasts, bound, n)
    assert found >= stats.binom.ppf(1e-4, DRAWS, power)
    even = rate_rows_needed(rates, shares, contrasts, bound)
    assert even == rate_rows_needed(rates, shares, contrasts, bound, power=0.5) < n
    if len(rates) == 2:  # with little more than half of the rows added too few decide
        less = decided(rates, shares, contrasts, bound, even + 0.6 * (n - even))
        assert less <= stats.binom.ppf(1 - 1e-4, DRAWS, power)


HALF = stats.binom.ppf([1e-4, 1 - 1e-4], DRAWS, [0.5, 0.6])
"""Fewest and most of DRAWS audits that decide with probability 0.5 to 0.6: limits are conservative by half a row, and by
counts that are whole, which is worth up to 0.1 where a group has ten positive decisions."""


@pytest.mark.parametrize(
    ("rates", "shares", "bound"),
    [
        ([0.5, 0.5], [0.5, 0.5], 0.1),
        ([0.5, 31 / 60], [0.7, 0.3], 0.1),
        ([15 / 17, 23 / 26], [17 / 43, 26 / 43], 0.1),
        ([0.1, 0.12], [6 / 7, 1 / 7], 0.1),
        ([0.5] * 3, [1 / 3] * 3, 0.1),
        ([0.4] * 6, [1 / 6] * 6, 0.1),
        ([0.5, 0.45, 0.4, 0.45], [0.4, 0.2, 0.2, 0.2], 0.15),
        ([0.5, 0.7], [0.5, 0.5], 0.1),
    ],
)
def test_at_even_odds_half_of_all_audits_decide(rates, shares, bound):
    """Of groups alike too, where new rows move one of the differences towards the bound whichever way they fall."""
    contrasts = every_pair(len(rates))
    n = rate_rows_needed(rates, shares, contrasts, bound)
    least, most = HALF
    assert least <= decided(rates, shares, contrasts, bound, n) <= most


def test_more_audits_decide_where_several_differences_are_as_far_beyond_the_bound():
    """Rows for one of them, never fewer than those that the same measurement would need."""
    contrasts, four = every_pair(4), [0.5, 0.5, 0.7, 0.7]
    n = rate_rows_needed(four, [0.25] * 4, contrasts, 0.1)
    assert decided(four, [0.25] * 4, contrasts, 0.1, n) > HALF[1]
    for rows, says in ((n, True), (n - 1, False)):
        trials = np.full(4, rows / 4)
        assert (largest_lower(np.array(four) * trials, trials, contrasts) > 0.1) == says


def test_of_two_groups_the_chances_of_both_differences_to_fail_add_up():
    contrasts, rates, shares = every_pair(2), np.array([0.5, 0.52]), np.array([0.7, 0.3])

    def chance(n):
        trials = n * shares
        reached = [rate_upper_bounds(rates * trials, trials, contrasts.take(np.array([i])))[0] for i in range(2)]
        error = (np.array(reached) - contrasts.of(rates)) / stats.norm.ppf(0.95)
        return stats.norm.cdf((0.1 - np.array(reached)) / error).sum() - 1

    for power in (0.5, 0.8):
        n = rate_rows_needed(rates, shares, contrasts, 0.1, power=power)
        assert chance(n) >= power > chance(n - 1)


def test_of_many_groups_few_draws_give_about_the_same(monkeypatch):
    """40 groups have 1,560 differences; 200 draws tell a probability to 0.035, and n to 8 % at most."""
    contrasts = every_pair(40)
    even = rate_rows_needed([0.4] * 40, [1 / 40] * 40, contrasts, 0.1)
    monkeypatch.setattr(rows_needed, "DRAWN_VALUES", 1)
    assert rate_rows_needed([0.4] * 40, [1 / 40] * 40, contrasts, 0.1) == pytest.approx(even, rel=0.08)


def test_of_two_differences_of_areas_that_move_as_one_the_rows_are_those_of_one():
    """Areas 0 and 2, and 1 and 3, are the same number nearly; 2,000 draws tell a probability to 0.011, and n to 1.6 % (one deviation)."""
    four = Contrasts(np.array([[0, 1], [1, 0], [2, 3], [3, 2]]), np.tile([1.0, -1.0], (4, 1)))

    def needed(r, contrasts=four):
        areas = Areas(np.full(4, 0.8), np.full(4, 1e-3), np.full(4, 100.0), np.array([2, 7]), np.full(2, r))
        return area_rows_needed(areas, contrasts, 300, 0.05)

    one = needed(0.0, four.take(np.arange(2)))
    assert needed(0.999) == pytest.approx(one, rel=0.05) and needed(0.0) > 1.1 * one


CASES = [
    ([50, 50], [100, 100], "demographic_parity <= 0.1"),
    ([50, 50], [100, 100], "demographic_parity_ratio >= 0.8"),
    ([50, 50, 50], [100, 100, 100], "demographic_parity <= 0.1"),
    ([15, 23], [17, 26], "equal_opportunity <= 0.1"),
    ([70, 31], [140, 60], "demographic_parity <= 0.1"),
    ([30, 6], [300, 50], "demographic_parity <= 0.1"),
    ([50, 70], [100, 100], "demographic_parity <= 0.1"),
]


@pytest.mark.long
@pytest.mark.parametrize("power", [0.5, 0.8])
@pytest.mark.parametrize(("hits", "rows", "text"), CASES)
def test_audits_of_so_many_rows_decide_as_often_as_stated(hits, rows, text, power):
    """Whole audits of 500 tables; the limits allow for 0.1 more than stated, as above."""
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(len(rows)), rows)
    decision = np.concatenate([np.arange(n) < h for h, n in zip(hits, rows, strict=True)])
    labels = (lambda n: np.ones(n, int)) if text.startswith("equal_opp") else (lambda n: np.arange(n) % 2)
    found = fb.audit(decision.astype(int), labels(len(group)), group, text, power=power)["constraints"][0]
    scale = found["rows_needed"] / len(group)
    group, decides = np.repeat(np.arange(len(rows)), [round(n * scale) for n in rows]), 0
    rate = (np.array(hits) / rows)[group]
    for _ in range(500):
        made = (rng.random(len(group)) < rate).astype(int)
        decides += fb.audit(made, labels(len(group)), group, text)["verdict"] != "insufficient"
    assert stats.binom.ppf(1e-4, 500, power) <= decides <= stats.binom.ppf(1 - 1e-4, 500, power + 0.1)


def test_so_many_rows_decide_on_one_rate_and_on_means():
    rng = np.random.default_rng(0)
    n = share_rows_needed(0.8, 0.5, 0.77, 0.05, power=0.8)
    lower = np.array([share_bounds(float(x), n / 2, 0.05).lower for x in rng.binomial(round(n / 2), 0.8, DRAWS)])
    assert stats.binom.ppf(1e-4, DRAWS, 0.8) <= (lower > 0.77).sum() <= stats.binom.ppf(1 - 1e-4, DRAWS, 0.9)
    means, variances, shares, pair = [0.5, 0.45], [0.04, 0.09], [0.5, 0.5], every_pair(2)
    n = mean_rows_needed(means, variances, shares, pair, 0.08, power=0.8)
    half, met = n // 2, 0
    for _ in range(DRAWS):
        x = [rng.normal(m, np.sqrt(v / half)) for m, v in zip(means, variances, strict=True)]
        met += welch_bounds(x, variances, [half, half], pair).upper <= 0.08
    assert stats.binom.ppf(1e-4, DRAWS, 0.8) <= met <= stats.binom.ppf(1 - 1e-4, DRAWS, 0.85)
    assert mean_rows_needed(means, variances, shares, pair, 0.05, low=0, high=1, power=0.8) is None  # it is the bound


def test_an_audit_states_its_rows_at_the_odds_asked_for():
    rng = np.random.default_rng(0)
    sex, y, score = rng.choice(["f", "m"], 400), rng.integers(0, 2, 400), rng.normal(size=400)
    for stated in ("demographic_parity <= 0.1", "loss_gap[largest=3] <= 0.2", "auc_parity[intra] <= 0.15"):
        even, sure = (fb.audit(score, y, sex, stated, threshold=0, power=power) for power in (0.5, 0.9))
        assert sure["constraints"][0]["rows_needed"] > even["constraints"][0]["rows_needed"] > 400
        assert any("90 % of such audits decide" in note for note in sure["notes"]) and "90 %" not in str(even["notes"])
    with pytest.raises(OptionError, match="power must lie"):
        fb.audit(score, y, sex, "demographic_parity <= 0.1", threshold=0, power=0.3)
    with pytest.raises(OptionError, match="even odds alone"):
        fb.audit(score, y, sex, "partial_statistical_parity[0.1:0.6] <= 0.1", threshold=0, power=0.8)


@pytest.mark.parametrize("bound", [0.05, 0.2])
def test_of_many_contrasts_those_that_matter_give_the_rows_of_all(bound, monkeypatch):
    rng, k = np.random.default_rng(2), 12
    rates, shares = rng.uniform(0.3, 0.45, k), np.full(k, 1 / k)
    looked, real = [], rows_needed._first_of_likeliest
    monkeypatch.setattr(
        rows_needed,
        "_first_of_likeliest",
        lambda chances, *rest: real(lambda which, n: (looked.append(len(which)), chances(which, n))[1], *rest),
    )
    whole = rate_rows_needed(rates, shares, every_pair(k), bound, power=0.9)
    monkeypatch.setattr(rows_needed, "MANY", 2)
    looked.clear()
    assert rate_rows_needed(rates, shares, every_pair(k), bound, power=0.9) == whole
    assert np.mean(np.array(looked) < k * (k - 1)) > 0.8
