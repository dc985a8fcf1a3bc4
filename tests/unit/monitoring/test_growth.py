"""A gap that grows is warned of before all rows together break the bound; one that stays is not."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import fairbound as fb
from fairbound.confidence.contrasts import Contrasts
from fairbound.confidence.rates import rate_upper_bounds
from fairbound.confidence.sequences import CountsInTime, checkpoint_rows
from fairbound.fairness.notions import constraint
from fairbound.monitoring.growth import grown, said_of
from fairbound.report import schema

BOUND = constraint("demographic_parity <= 0.15")
GAP = Contrasts(np.array([[0, 1], [1, 0]]), np.array([[1.0, -1.0], [1.0, -1.0]]))


def decided(monitor, rates, each):
    """Rows of two groups in turn, of which each thousand holds as many positive decisions as the rates say."""
    for _ in range(each):
        sex = np.repeat(["f", "m"], 500)
        y = np.concatenate([np.arange(500) < round(500 * p) for p in rates]).astype(int)
        monitor.update(y, y, {"sex": sex})
    return monitor


def grown_in(monitor):
    found = monitor.look()
    schema.validate(found)
    return [said for said in found["warnings"] if "has grown" in said], found["verdict"]


def test_growth_is_warned_of_while_the_bound_is_still_met():
    monitor = decided(fb.Monitor("demographic_parity <= 0.15"), (0.41, 0.40), 16)
    assert grown_in(monitor) == ([], "met")
    (said,), verdict = grown_in(decided(monitor, (0.50, 0.40), 6))
    assert verdict == "met" and "f - m has grown: it was 0.0100 in the first 16,000 rows" in said and "0.1000" in said
    (found,) = monitor.look()["monitoring"]["growth"]
    assert found["text"] == "demographic_parity <= 0.15" and found["comparison"] == "f - m"
    assert (found["rows_before"], found["rows_since"], found["violated_since"]) == (16000, 6000, False)
    assert grown_in(decided(fb.Monitor("demographic_parity <= 0.15"), (0.45, 0.40), 22))[0] == []


def test_it_is_said_of_a_gap_that_has_grown_past_the_bound():
    """0.01 in 16,000 rows and 0.15 in 4,000: 0.038 of all, for certain more than 0.05 since."""
    monitor = decided(decided(fb.Monitor("demographic_parity <= 0.05"), (0.41, 0.40), 16), (0.55, 0.40), 4)
    found = monitor.look()
    (grew,) = found["monitoring"]["growth"]
    assert found["verdict"] != "violated" and grew["violated_since"] and 0.14 < grew["since"] < 0.16
    monitor_of_more = decided(decided(fb.Monitor("demographic_parity <= 0.14"), (0.41, 0.40), 16), (0.55, 0.40), 4)
    (grew,) = monitor_of_more.look()["monitoring"]["growth"]  # measured above the bound, but not for certain
    assert grew["since"] > 0.14 and not grew["violated_since"]
    assert not fb.Monitor.from_dict(monitor.to_dict()).look()["monitoring"]["alarms"]


def test_a_gap_that_shrinks_or_changes_sides_within_what_was_is_no_growth():
    monitor = decided(fb.Monitor("demographic_parity <= 0.15"), (0.50, 0.40), 16)
    assert grown_in(decided(monitor, (0.41, 0.40), 10))[0] == []
    assert grown_in(decided(monitor, (0.40, 0.49), 20))[0] == []


def streams(seed, runs, p, rows, step):
    """The first warning of each of `runs` streams of constant rates p, looked at every `step` rows; None for none."""
    rng, error = np.random.default_rng(seed), np.full(2, 0.05)
    for _ in range(runs):
        s, n, before, first = np.zeros(2), np.zeros(2), [], None
        for seen in range(step, rows + 1, step):
            trials = rng.multinomial(step, [0.5, 0.5])
            s, n = s + rng.binomial(trials, p), n + trials
            while seen >= checkpoint_rows(len(before) + 1):
                before.append((s.copy(), n.copy()))
            if first is None and grown(BOUND, CountsInTime.of(s, n, before), GAP, error, str):
                first = seen
        yield first


@pytest.mark.parametrize(("runs", "rate"), [(40, 0.48), pytest.param(100, 0.45, marks=pytest.mark.long)])
def test_constant_rates_seldom_bring_a_warning(runs, rate):
    """Streams with 12 looks each at an error of 5 %: more than 6 of 40 with a warning, or 11 of 100, have a chance of 0.4 %."""
    warned = sum(first is not None for first in streams(0, runs, [rate, 0.40], 6000, 500))
    assert warned <= stats.binom.ppf(0.996, runs, 0.05)


def test_the_limit_before_is_that_of_the_size_of_the_difference_at_its_part_of_the_error():
    """2,000 rows are the first to compare with: half of the pair's error, half of that for the limit before."""
    s, n = np.array([410.0, 400.0]), np.array([1000.0, 1000.0])
    limit = rate_upper_bounds(s, n, GAP.take(np.array([0])), 0.04 / 4)[0]
    more = np.array([6000.0, 4000.0])
    counts = CountsInTime.of(s + more, n + 10000, [(s / 8, n / 8), (s, n)])
    found = grown(BOUND, counts, GAP, np.full(2, 0.04), lambda i: f"pair {i}")
    said = said_of(found)
    assert found["violated_since"] and "for certain more than the bound" in said  # 0.15
    assert (
        f"pair 0 has grown: it was 0.0100 in the first 2,000 rows of the two (at most {limit:.4f}) and is 0.2000"
        in said
    )
    assert grown(BOUND, counts, Contrasts(np.array([[0]]), np.array([[1.0]])), np.full(1, 0.04), str) is None
