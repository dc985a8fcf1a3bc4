"""Measures of rankings against their definitions, pair by pair and place by place, and against scikit-learn."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, ndcg_score

from fairbound.ranking import by_query


def some(seed, queries=7, ties=False, levels=5):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 9, queries)
    n = int(sizes.sum())
    scores = rng.integers(0, 4, n).astype(float) if ties else rng.normal(size=n)
    relevance = rng.integers(0, levels, n).astype(float) if levels else rng.normal(size=n)
    return scores, relevance, np.concatenate([[0], np.cumsum(sizes)]), rng


def blocks(starts):
    return [slice(a, b) for a, b in itertools.pairwise(starts)]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("levels", [2, 5, 0])
def test_wins_count_every_pair_once(seed, ties, levels):
    s, y, starts, rng = some(seed, ties=ties, levels=levels)
    member = np.eye(3)[rng.integers(0, 3, len(s))]
    won, pairs = by_query.wins(s, y, starts, member)
    expected_won, expected = np.zeros_like(won), np.zeros_like(pairs)
    for block in blocks(starts):
        for i, j in itertools.permutations(range(block.start, block.stop), 2):
            if y[i] > y[j]:
                expected[i] += member[j]
                expected_won[i] += member[j] * ((s[i] > s[j]) + 0.5 * (s[i] == s[j]))
    assert np.array_equal(pairs, expected) and np.array_equal(won, expected_won)


@pytest.mark.parametrize("seed", range(6))
def test_ranks_are_places_and_ties_share_them(seed):
    s, _, starts, _ = some(seed, ties=True)
    for block in blocks(starts):
        own = s[block]
        expected = 1 + (own[None] > own[:, None]).sum(1) + ((own[None] == own[:, None]).sum(1) - 1) / 2
        assert np.array_equal(by_query.ranks(s, starts)[block], expected)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("k", [None, 1, 3])
def test_ndcg_is_scikit_learns_with_exponential_gains(seed, k):
    s, y, starts, _ = some(seed, ties=bool(seed % 2))
    found = by_query.ndcg(s, y, starts, k)
    for value, block in zip(found, blocks(starts), strict=True):
        if y[block].max() == 0:
            assert np.isnan(value)
        elif block.stop - block.start > 1:
            assert value == pytest.approx(ndcg_score([2 ** y[block] - 1], [s[block]], k=k), abs=1e-12)
        else:
            assert value == 1


def test_ndcg_of_a_relevance_however_large():
    s, starts = np.array([0.3, 0.9, 0.1, 0.8, 0.2]), np.array([0, 3, 5])
    discount = 1 / np.log2(3)
    for largest in (20.0, 1023.0, 1024.0, 1e6):
        found = by_query.ndcg(s, np.array([largest, 1.0, 0.0, 0.0, 0.0]), starts)
        expected = (discount + 2 / 2.0**20) / (1 + 2 / 2.0**20) if largest == 20 else discount
        assert found[0] == pytest.approx(expected, abs=1e-5) and np.isnan(found[1])
    close = by_query.ndcg(s, np.array([2000.0, 1999.0, 0.0, 0.0, 0.0]), starts)[0]  # the second gains half as much
    assert close == pytest.approx((0.5 + discount) / (1 + 0.5 * discount), abs=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_average_precision_is_scikit_learns(seed):
    s, y, starts, _ = some(seed)
    found = by_query.average_precision(s, y > 2, starts)
    for value, block in zip(found, blocks(starts), strict=True):
        if not (y[block] > 2).any():
            assert np.isnan(value)
        else:
            assert value == pytest.approx(average_precision_score(y[block] > 2, s[block]), abs=1e-12)


def test_average_precision_of_ties_is_that_of_the_worst_order():
    assert by_query.average_precision(np.zeros(2), np.array([True, False]), np.array([0, 2])) == [0.5]


@pytest.mark.parametrize("seed", range(6))
def test_exposures_are_discounts_over_their_sum_and_ties_share(seed):
    s, _, starts, _ = some(seed, ties=True)
    found = by_query.exposures(s, starts)
    for block in blocks(starts):
        own, m = s[block], block.stop - block.start
        orders = [p for p in itertools.permutations(range(m)) if (np.diff(own[list(p)]) <= 0).all()] if m < 6 else []
        if orders:
            at = np.zeros(m)
            for p in orders:
                at[list(p)] += 1 / np.log2(np.arange(m) + 2)
            np.testing.assert_allclose(found[block], at / at.sum(), rtol=1e-12)
        assert found[block].sum() == pytest.approx(1, abs=1e-12)
