"""Monitors of so many rows as are said to be needed decide about as often as not."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import fairbound as fb

CASES = [
    ([100, 100], [0.5, 0.5], "demographic_parity <= 0.1"),
    ([100, 100, 100], [0.5, 0.5, 0.5], "demographic_parity <= 0.1"),
    ([140, 60], [0.5, 31 / 60], "demographic_parity <= 0.1"),
    ([100, 100], [0.5, 0.55], "demographic_parity <= 0.1"),
    ([100, 100], [0.5, 0.65], "demographic_parity <= 0.1"),
    ([100, 100], [0.5, 0.5], "demographic_parity_ratio >= 0.8"),
    ([100, 100], [0.5, 0.5], "demographic_parity[overall] <= 0.1"),
]


def watched(text, groups, decisions):
    monitor, labels = fb.Monitor(text), np.arange(len(groups)) % 2
    for part in np.split(np.arange(len(groups)), [n for n in (250, 2000, 16_000) if n < len(groups)]):
        monitor.update(labels[part], decisions[part], groups[part])
    return monitor


def decided(rows, rates, text, times, rng):
    """How many of `times` monitors of as many rows as are needed decide."""
    groups = np.repeat(np.arange(len(rows)), rows).astype(str)
    hits = np.concatenate([np.arange(n) < round(n * p) for n, p in zip(rows, rates, strict=True)])
    order = rng.permutation(len(groups))
    found = watched(text, groups[order], hits[order].astype(int)).look()["constraints"][0]
    n, count = found["rows_needed"], 0
    for _ in range(times):
        group = rng.choice(len(rows), n, p=np.array(rows) / sum(rows))
        made = rng.random(n) < np.array(rates)[group]
        count += watched(text, group.astype(str), made.astype(int)).verdicts()[text] != "insufficient"
    return count


@pytest.mark.parametrize(
    ("rows", "rates", "text", "times"),
    [(*CASES[0], 40), *(pytest.param(*case, 300, marks=pytest.mark.long) for case in CASES)],
)
def test_about_half_of_all_monitors_decide(rows, rates, text, times):
    """The number of rows is known to 10 %, which moves the share by 0.1; the rest is that of chance in `times`."""
    found = decided(rows, rates, text, times, np.random.default_rng(0))
    assert stats.binom.ppf(1e-4, times, 0.35) <= found <= stats.binom.ppf(1 - 1e-4, times, 0.65)
