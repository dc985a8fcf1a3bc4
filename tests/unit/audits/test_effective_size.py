"""Weighted rows count as their effective number in every interval of an audit: fewer where weights go with outcomes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta

import fairbound as fb

N = 300
CONFIDENCE = 0.9


def limits(rate: float, n: float, level: float) -> tuple[float, float]:
    """Clopper and Pearson's limits of `rate` seen on n rows, each missed with probability `level`."""
    hits = rate * n
    return beta.ppf(level, hits, n - hits + 1), beta.ppf(1 - level, hits + 1, n - hits)


def weighted_rows(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Scores, labels, groups and weights; the weights are far from equal, and of another spread in each group."""
    rng = np.random.default_rng(seed)
    group = np.where(np.arange(N) < 120, "a", "b")
    y = rng.integers(0, 2, N)
    weights = np.where(group == "a", rng.choice([1.0, 9.0], N), rng.choice([0.5, 1.0, 2.0], N))
    return np.where(rng.random(N) < 0.3 + 0.3 * y, 1.0, -1.0), y, group, weights


def size_and_rate(hit: np.ndarray, among: np.ndarray, w: np.ndarray) -> tuple[float, float]:
    """p (1 - p) over the linearised variance of the weighted rate p, at most Kish's size (Korn and Graubard)."""
    p = w[among & hit].sum() / w[among].sum()
    variance = (w[among] ** 2 * (hit[among] - p) ** 2).sum() / w[among].sum() ** 2
    return min(p * (1 - p) / variance, w[among].sum() ** 2 / (w[among] ** 2).sum()), p


@pytest.mark.parametrize("seed", range(3))
def test_a_bound_between_two_groups(seed):
    """Two contrasts share the chance of error, but for the bound of the larger one, each with MOVER's distances and half a row of the smaller group."""
    s, y, group, w = weighted_rows(seed)
    (judged,) = fb.audit(s, y, group, "demographic_parity <= 0.1", sample_weight=w, confidence=CONFIDENCE)[
        "constraints"
    ]
    (n, p), (m, q) = (size_and_rate(s > 0, group == g, w) for g in "ab")
    assert n < 0.7 * (group == "a").sum()  # raw counts would give narrower bounds
    half_row = 1 / (2 * min(n, m))

    def uppers(level: float) -> dict[str, float]:
        (low_p, high_p), (low_q, high_q) = limits(p, n, level), limits(q, m, level)
        return {
            "a - b": p - q + np.hypot(high_p - p, q - low_q) + half_row,
            "b - a": q - p + np.hypot(high_q - q, p - low_p) + half_row,
        }

    both = uppers((1 - CONFIDENCE) / 2)
    assert {c["name"]: c["upper"] for c in judged["contrasts"]} == pytest.approx(both, abs=1e-10)
    assert judged["upper"] == pytest.approx(max(uppers(1 - CONFIDENCE).values()), abs=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_the_rates_of_each_group(seed):
    s, y, group, w = weighted_rows(seed)
    found = fb.audit(s, y, group, sample_weight=w, confidence=CONFIDENCE)
    for row in found["groups"]:
        mine = group == row["group"]
        for name, among in (("selection_rate", mine), ("true_positive_rate", mine & (y == 1))):
            size, rate = size_and_rate(s > 0, among, w)
            shown = row["rates"][name]
            assert (shown["lower"], shown["upper"]) == pytest.approx(
                limits(rate, size, (1 - CONFIDENCE) / 2), abs=1e-10
            )
            assert (shown["value"], shown["count"]) == (pytest.approx(rate, abs=1e-12), round(size))


@pytest.mark.parametrize("seed", range(3))
def test_a_bound_on_a_class(seed):
    s, y, _, w = weighted_rows(seed)
    (judged,) = fb.audit(s, y, constraint="recall of class 1 >= 0.5", sample_weight=w, confidence=CONFIDENCE)[
        "constraints"
    ]
    size, rate = size_and_rate(s > 0, y == 1, w)
    assert (judged["lower"], judged["upper"]) == pytest.approx(limits(rate, size, 1 - CONFIDENCE), abs=1e-10)
