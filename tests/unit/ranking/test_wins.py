"""Wins between cells and areas of sets against all pairs one by one, and against scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from fairbound.base.errors import DataError
from fairbound.ranking import wins
from fairbound.ranking.packed import sorted_keys
from fairbound.ranking.wins import auc, cell_wins


def all_pairs(s, w, first, second):
    """AUC of two sets by the double sum, ties as one half."""
    won = (s[:, None] > s) + 0.5 * (s[:, None] == s)
    both = np.outer(w * first, w * second)
    return (won * both).sum() / both.sum()


def table(s, w, cells, k):
    return np.array([[((w * (cells == a))[:, None] * ((s[:, None] > s) + 0.5 * (s[:, None] == s))
                       * (w * (cells == b))).sum() for b in range(k)] for a in range(k)])  # fmt: skip


SCORES = {
    "different": lambda rng, n: rng.normal(size=n),
    "few values": lambda rng, n: rng.integers(-3, 3, n) / 7,
    "zeros of both signs": lambda rng, n: rng.choice([0.0, -0.0, 1.0, -1.0], n),
    "neighbours that differ in the last bits": lambda rng, n: 1 + rng.integers(0, 9, n) * 2.0**-52,
    "negative neighbours": lambda rng, n: -(1 + rng.integers(0, 9, n) * 2.0**-52),
    "with infinite ones": lambda rng, n: rng.choice([np.inf, -np.inf, 0.5, 1e-300, -1e-300], n),
    "single precision": lambda rng, n: rng.normal(size=n).astype(np.float32).round(2),
    "all equal": lambda rng, n: np.full(n, 0.3),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", SCORES)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_table_is_the_double_sum(kind, seed, weighted, monkeypatch):
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(1, 90)), int(rng.integers(1, 6))
    s, cells = SCORES[kind](rng, n), rng.integers(-1, k, n)
    w = rng.integers(0, 4, n) / 2 if weighted else np.ones(n)
    for numbers, packed, few in (
        (1, 0, 0),
        (20, 64, 0),
        (1 << 17, 64, 0),
        (1 << 17, 0, 0),
        (1, 0, 256),
    ):  # ways to one answer
        monkeypatch.setattr(wins, "MOST_COMPARED", few)
        monkeypatch.setattr(wins, "TABLE_NUMBERS", numbers)
        monkeypatch.setattr(wins, "MOST_PACKED", packed)
        monkeypatch.setattr(wins, "CHUNK", numbers if numbers > 20 else 16)
        found = cell_wins(s, cells, k, w if weighted else None)
        np.testing.assert_array_equal(found.above, table(s, w, cells, k))
        np.testing.assert_array_equal(found.totals, [w[cells == c].sum() for c in range(k)])


def test_many_rows_are_counted_exactly():
    rng = np.random.default_rng(5)
    n, k = 300_001, 3
    for s in (rng.normal(size=n), rng.normal(size=n).round(2), rng.integers(0, 3, n)):
        cells = rng.integers(0, k, n)
        found = cell_wins(s, cells, k)
        for a in range(k):
            mine = s[cells == a]
            for b in range(k):
                other = np.sort(s[cells == b])
                twice = np.searchsorted(other, mine) + np.searchsorted(other, mine, side="right")
                assert found.above[a, b] == twice.sum() / 2


@pytest.mark.parametrize("kind", ["different", "single precision", "zeros of both signs"])
def test_plain_integers_tell_scores_apart_where_few_bits_are_needed(kind):
    rng = np.random.default_rng(1)
    assert sorted_keys(SCORES[kind](rng, 5000).astype(float), rng.integers(0, 8, 5000), 8) is not None
    assert sorted_keys(np.repeat(1 + 2.0**-52, 2), np.zeros(2, dtype=np.int64), 8) is None


@pytest.mark.parametrize("seed", range(4))
def test_areas_of_overlapping_sets(seed):
    rng = np.random.default_rng(seed)
    n = 80
    s, w = rng.integers(0, 30, n) / 4, rng.random(n)
    first, second = rng.random(n) < 0.5, rng.random(n) < 0.6
    assert auc(s, first, second, w) == pytest.approx(all_pairs(s, w, first, second), abs=1e-14)
    assert auc(s, first, second) == pytest.approx(all_pairs(s, np.ones(n), first, second), abs=1e-15)
    assert auc(s, first, first) == 0.5
    assert auc(s, second, first, w) == pytest.approx(1 - auc(s, first, second, w), abs=1e-14)
    assert np.isnan(auc(s, first, np.zeros(n, dtype=bool)))


@pytest.mark.parametrize("seed", range(4))
def test_it_is_scikit_learn_s(seed):
    rng = np.random.default_rng(seed)
    y, w = rng.random(500) < 0.3, rng.random(500)
    s = (rng.normal(size=500) + y).round(1 + seed)
    assert auc(s, y, ~y) == pytest.approx(roc_auc_score(y, s), abs=1e-13)
    assert auc(s, y, ~y, w) == pytest.approx(roc_auc_score(y, s, sample_weight=w), abs=1e-12)


def test_all_pairs_of_sets_at_once():
    rng = np.random.default_rng(0)
    s, cells = rng.integers(0, 50, 200), rng.integers(0, 6, 200)
    sets = rng.random((5, 6)) < 0.5
    sets[4] = False
    found = cell_wins(s, cells, 6)
    for a in range(5):
        for b in range(5):
            one = found.areas(sets[a], sets[b])
            np.testing.assert_allclose(found.between(sets)[a, b], one, rtol=1e-14)
            if a < 4 and b < 4:
                assert float(one) == pytest.approx(auc(s, sets[a][cells], sets[b][cells]), abs=1e-15)
            else:
                assert np.isnan(one)


def test_no_rows_and_wrong_ones():
    assert np.isnan(auc([], [], []))
    assert cell_wins([], [], 2).totals.tolist() == [0, 0]
    with pytest.raises(DataError, match="1 of 2 scores are NaN"):
        cell_wins([0.0, np.nan], [0, 0], 1)
    with pytest.raises(DataError, match="numbered from 0 to 1, got 2"):
        cell_wins([0.0, 1.0], [0, 2], 2)
    with pytest.raises(DataError, match=r"must be \(n,\)"):
        cell_wins([0.0, 1.0], [0], 2)
    with pytest.raises(DataError, match="among the same rows"):
        auc([0.0, 1.0], [True, False], [True])
