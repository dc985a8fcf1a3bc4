"""The rows that decide at stated odds: audits of so many rows are simulated, and decide at least as often."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

import fairbound as fb
from fairbound.base.errors import OptionError
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


def test_at_even_odds_rows_for_many_equal_groups_decide_less_often_than_by_half():
    """Why power is offered: what is needed if the same is measured again is too little where chance makes groups differ."""
    contrasts = every_pair(6)
    n = rate_rows_needed([0.4] * 6, [1 / 6] * 6, contrasts, 0.1)
    assert decided([0.4] * 6, [1 / 6] * 6, contrasts, 0.1, n) < stats.binom.ppf(1e-4, DRAWS, 0.5)


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
