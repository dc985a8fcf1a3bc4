"""Variances, correlations and limits of areas: DeLong's components, derivatives in the rows' weights, and exact limits."""

import numpy as np
import pytest

from fairbound.base.errors import DataError
from fairbound.confidence.auc import Areas, area_bounds, area_limits, area_rows_needed, measure_areas
from fairbound.confidence.contrasts import Contrasts
from fairbound.ranking.wins import auc

SETS = np.array(
    [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 1, 1]], dtype=bool
)
TWO = Contrasts(np.array([[0, 1], [1, 0]]), np.array([[1.0, -1.0], [1.0, -1.0]]))


def rows(seed=0, n=160):
    rng = np.random.default_rng(seed)
    cells = rng.integers(0, 4, n)
    return rng.integers(0, 30, n) / 5 + 0.4 * (cells < 2), cells, rng.random(n) + 0.1


@pytest.mark.parametrize("seed", range(3))
def test_of_disjoint_sets_they_are_delong_s(seed):
    s, cells, _ = rows(seed)
    found = measure_areas(s, cells, SETS, np.array([[0, 2], [1, 3]]), TWO)
    for k, (a, b) in enumerate(((0, 2), (1, 3))):
        x, y = s[cells == a], s[cells == b]
        won = (x[:, None] > y) + 0.5 * (x[:, None] == y)
        assert found.estimates[k] == pytest.approx(won.mean(), abs=1e-14)
        delong = won.mean(1).var(ddof=1) / len(x) + won.mean(0).var(ddof=1) / len(y)
        assert found.variances[k] == pytest.approx(delong, rel=1e-12)
        assert found.rows[k] == min(len(x), len(y))
    assert not len(found.together)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("pairs", [[[4, 2], [0, 5]], [[4, 2], [4, 3]], [[0, 6], [4, 5]], [[0, 4], [1, 4]]])
def test_of_sets_with_rows_in_common_they_are_derivatives_in_the_weights(pairs, weighted):
    s, cells, w = rows(4)
    w = w if weighted else np.ones(len(s))
    found = measure_areas(s, cells, SETS, np.array(pairs), TWO, w)
    slopes = np.zeros((2, len(s)))
    for k, (a, b) in enumerate(pairs):
        first, second = SETS[a][cells], SETS[b][cells]
        assert found.estimates[k] == pytest.approx(auc(s, first, second, w), abs=1e-13)
        for i in range(len(s)):
            up, down = w.copy(), w.copy()
            up[i], down[i] = w[i] + 1e-6, w[i] - 1e-6
            slopes[k, i] = w[i] * (auc(s, first, second, up) - auc(s, first, second, down)) / 2e-6
    covariance = slopes @ slopes.T
    close = 1.5 / np.array(found.rows).min()  # divisors of rows - 1 in place of rows
    np.testing.assert_allclose(found.variances, np.diag(covariance), rtol=close)
    correlation = covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1])
    assert found.correlation(np.array(0), np.array(1)) == pytest.approx(correlation, abs=close)
    low, high = area_limits(found.estimates, found.variances, found.rows, 0.025)
    up, down = high[0] - found.estimates[0], found.estimates[1] - low[1]
    joined = np.sqrt(up**2 + down**2 - 2 * up * down * found.correlation(np.array(0), np.array(1)))
    expected = found.estimates[0] - found.estimates[1] + joined
    assert area_bounds(found, TWO, 0.05).uppers[0] == pytest.approx(expected, abs=1e-12)
    assert found.correlation(np.array([0, 1]), np.array([0, 1])).tolist() == [1, 1]


def test_a_set_against_itself_is_one_half_for_certain():
    s, cells, _ = rows()
    found = measure_areas(s, cells, SETS, np.array([[0, 2], [6, 6]]), TWO)
    assert found.estimates[1] == 0.5 and found.variances[1] == 0
    bounds = area_bounds(found, TWO, 0.05)
    low, high = area_limits(found.estimates, found.variances, found.rows, 0.025)
    assert (low[1], high[1]) == (0.5, 0.5)
    np.testing.assert_allclose(bounds.uppers, [high[0] - 0.5, 0.5 - low[0]])
    np.testing.assert_allclose(bounds.lowers, [low[0] - 0.5, 0.5 - high[0]])


@pytest.mark.parametrize("m", [1, 5, 40])
def test_where_every_pair_is_in_order_the_limit_is_exact(m):
    """All of m disjoint pairs are in order with probability theta^m."""
    low, high = area_limits(np.array([1.0]), np.array([0.0]), np.array([float(m)]), 0.05)
    assert low[0] == pytest.approx(0.05 ** (1 / m)) and high[0] == 1


def test_few_wrong_rows_do_not_narrow_the_limits_of_an_area_near_1():
    """However small the variance seems, limits shrink with the rows in the wrong order, not with all rows."""
    narrow = [
        np.diff(area_limits(np.array([t]), np.array([1e-9]), np.array([200.0]), 0.05), axis=0)[0]
        for t in (0.995, 0.9, 0.6)
    ]
    widest = [
        np.diff(area_limits(np.array([t]), np.array([1.0]), np.array([200.0]), 0.05), axis=0)[0]
        for t in (0.995, 0.9, 0.6)
    ]
    shares = np.ravel(narrow) / np.ravel(widest)
    assert shares[0] > 0.7 and (np.diff(shares) < 0).all() and shares[2] < 0.35


def test_more_rows_decide():
    areas = Areas(
        np.array([0.9, 0.7]), np.array([1e-3, 1e-3]), np.array([50.0, 50.0]), np.zeros(0, dtype=int), np.zeros(0)
    )
    bounds = area_bounds(areas, TWO, 0.05)
    assert bounds.value == pytest.approx(0.2) and bounds.verdict(0.25) == "insufficient"
    for bound, verdict in ((0.25, "met"), (0.15, "violated")):
        n = area_rows_needed(areas, TWO, 200, bound)
        grown = [Areas(areas.estimates, areas.variances * 200 / k, areas.rows * k / 200, areas.together, areas.correlations)
                 for k in (n, n - 1)]  # fmt: skip
        assert [area_bounds(a, TWO, 0.05).verdict(bound) for a in grown] == [verdict, "insufficient"]


def test_empty_sets_and_wrong_rows():
    s, cells, _ = rows()
    found = measure_areas(s, np.where(cells == 3, 2, cells), SETS, np.array([[0, 2], [1, 3]]), TWO)
    bounds = area_bounds(found, TWO)
    assert (
        np.isnan(bounds.value)
        and bounds.verdict(0.5) == "insufficient"
        and area_rows_needed(found, TWO, 9, 0.1) is None
    )
    assert bounds.uppers.tolist() == [1, 1]
    with pytest.raises(DataError, match="without NaN"):
        measure_areas(s * np.nan, cells, SETS, np.array([[0, 2], [1, 3]]), TWO)


def test_a_set_against_itself_is_correlated_with_nothing():
    """What its rows add to it is nothing but rounding, whose correlation with another area would be noise."""
    s, cells, weight = rows()
    for weighted in (None, weight):
        found = measure_areas(s, cells, SETS, np.array([[0, 2], [6, 6]]), TWO, weighted)
        assert not len(found.together)


@pytest.mark.parametrize("clustered", [False, True])
def test_areas_are_the_same_where_no_part_is_kept(monkeypatch, clustered):
    s, cells, weight = rows(3)
    clusters = np.arange(len(s)) // 3 if clustered else None
    pairs = np.array([[4, 2], [4, 3]])
    kept = measure_areas(s, cells, SETS, pairs, TWO, weight, clusters)
    monkeypatch.setattr("fairbound.confidence.auc.MOST_KEPT", 0)
    again = measure_areas(s, cells, SETS, pairs, TWO, weight, clusters)
    assert kept.correlations.tolist() == again.correlations.tolist() != [0.0]


def test_areas_of_many_groups_take_the_time_of_their_rows(monkeypatch):
    """Of 40 groups each row is placed among those of the 39 others, and not among all rows for every pair."""
    asked = []
    real = np.searchsorted
    monkeypatch.setattr(np, "searchsorted", lambda a, v, *rest: (asked.append(np.size(v)), real(a, v, *rest))[1])
    rng, n, k = np.random.default_rng(0), 2000, 40
    pairs = np.array([[a, b] for a in range(k) for b in range(k) if a != b])
    contrasts = Contrasts(np.arange(len(pairs))[:, None], np.ones((len(pairs), 1)))
    found = measure_areas(rng.normal(size=n), rng.integers(0, k, n), np.eye(k, dtype=bool), pairs, contrasts)
    assert len(found.estimates) == k * (k - 1)
    assert sum(asked) == 2 * 2 * n * (k - 1)
