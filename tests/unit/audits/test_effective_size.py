"""Weighted rows count as their effective number in every interval of an audit: fewer where weights go with outcomes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta

import fairbound as fb
from fairbound.confidence.single import effective_trials

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


def size_by_itself(hit: np.ndarray, among: np.ndarray, w: np.ndarray) -> tuple[float, float]:
    """p (1 - p) over the linearised variance of the weighted rate p, at most Kish's size (Korn and Graubard)."""
    p = w[among & hit].sum() / w[among].sum()
    variance = (w[among] ** 2 * (hit[among] - p) ** 2).sum() / w[among].sum() ** 2
    return min(p * (1 - p) / variance, w[among].sum() ** 2 / (w[among] ** 2).sum()), p


def sizes_and_rates(hit: np.ndarray, each: list[np.ndarray], w: np.ndarray) -> list[tuple[float, float]]:
    """The sizes and rates of the rows of `each`, mixed as of three rows of the rarer outcome that are as heavy as in all."""
    found, heavier = [size_by_itself(hit, among, w) for among in each], {}

    def heavy(rows: np.ndarray) -> float:
        return (w[rows] ** 2).sum() / w[rows].sum()

    def kish(rows: np.ndarray) -> float:
        return w[rows].sum() ** 2 / (w[rows] ** 2).sum()

    for rare in (True, False):
        halves = [(among & (hit == rare), among & (hit != rare)) for among in each]
        shown = [min(kish(a), kish(b)) for a, b in halves]
        heavier[rare] = np.average([heavy(a) / heavy(b) for a, b in halves], weights=shown)
    out = []
    for among, (n, p) in zip(each, found, strict=True):
        rare = p <= 0.5
        a, b, q = among & (hit == rare), among & (hit != rare), min(p, 1 - p)
        learnt = w[among].sum() / heavy(b) / (heavier[rare] * (1 - q) + q)
        mixed = (kish(a) + 3) / (kish(a) / n + 3 / learnt)
        out.append((min(n, mixed) if heavier[rare] > 1 else n, p))
    return out


@pytest.mark.parametrize("seed", range(3))
def test_a_bound_between_two_groups(seed):
    """Two contrasts share the chance of error, but for the bound of the larger one, each with MOVER's distances and half a row of the smaller group."""
    s, y, group, w = weighted_rows(seed)
    (judged,) = fb.audit(s, y, group, "demographic_parity <= 0.1", sample_weight=w, confidence=CONFIDENCE)[
        "constraints"
    ]
    (n, p), (m, q) = sizes_and_rates(s > 0, [group == g for g in "ab"], w)
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
    for name, among in (("selection_rate", y >= 0), ("true_positive_rate", y == 1)):
        each = sizes_and_rates(s > 0, [among & (group == row["group"]) for row in found["groups"]], w)
        for row, (size, rate) in zip(found["groups"], each, strict=True):
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
    size, rate = size_by_itself(s > 0, y == 1, w)
    assert (judged["lower"], judged["upper"]) == pytest.approx(limits(rate, size, 1 - CONFIDENCE), abs=1e-10)


def test_a_group_without_the_heavy_outcome_learns_its_weight_from_the_other():
    """Selected rows weigh 4, others 1. Of 100 rows of the small group 2 % are selected, so that the weighted gap is about 0.073,
    above the bound; with its own weights alone, which are all 1 where none is seen, 14 % of audits say that it is met."""
    rng, groups, met = np.random.default_rng(0), np.repeat(["a", "b"], [100, 3000]), 0
    for _ in range(200):
        selected = (rng.random(3100) < np.where(groups == "a", 0.02, 0.0005)).astype(int)
        audit = fb.audit(selected, None, groups, "demographic_parity <= 0.05", sample_weight=1.0 + 3 * selected)
        met += audit["constraints"][0]["verdict"] == "met"
    assert met <= 18  # of 200 with 5 %, more with a probability below 0.01


def test_equal_weights_of_any_size_and_weights_that_differ_between_groups_alone_count_rows():
    hits, rows = np.array([0, 3, 40, 100]), np.full(4, 100)
    for weight in (1.0, 0.3, 7.0, np.array([0.1, 1.0, 3.0, 10.0])):
        _, trials = effective_trials(weight * hits, weight * rows, weight**2 * hits, weight**2 * rows)
        assert trials == pytest.approx(rows, rel=1e-12)
    one, same = (
        effective_trials(*(w**k * part for k, part in ((1, hits), (1, rows), (2, hits), (2, rows)))) for w in (1.0, 2.0)
    )
    assert np.array_equal(one[1], rows) and np.array_equal(same[1], rows)
