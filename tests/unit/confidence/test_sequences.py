"""Limits that hold at all looks: exact error probabilities, and the extremes of the sets they come from by brute force."""

import itertools

import numpy as np
import pytest
from scipy import stats
from scipy.special import rel_entr

from fairbound.base.errors import DataError
from fairbound.confidence import sequences
from fairbound.confidence.contrasts import Contrasts
from fairbound.confidence.sequences import CountsInTime, anytime_bounds, anytime_ratio_bounds, checkpoint_weight

PAIR = Contrasts(np.array([[0, 1]]), np.array([[1.0, -1.0]]))
ALONE = Contrasts(np.zeros((1, 1), dtype=int), np.ones((1, 1)))


def forecasts(x, watched):
    """log of the forecaster's probabilities of the rows of x after the first `watched`, one row after another."""
    hits = np.concatenate([[0], np.cumsum(x)[:-1]])
    p = (hits + 0.5) / (np.arange(len(x)) + 1)
    return np.log(np.where(x == 1, p, 1 - p))[watched:].sum()


@pytest.mark.parametrize("seed", range(5))
def test_what_the_forecasts_lose_is_that_of_forecasting_row_by_row(seed):
    rng = np.random.default_rng(seed)
    x, watched = (rng.random(60) < rng.random()).astype(int), 20
    s, n, k = x.sum(), 60, x[:watched].sum()
    parts = CountsInTime.of([float(s)], [float(n)], [([float(k)], [float(watched)])]).scored()
    for part, first in zip(parts, (0, watched), strict=True):
        hits, rows = x[first:].sum(), n - first
        p = hits / rows
        best = stats.binom.logpmf(hits, rows, p) - stats.binom.logpmf(hits, rows, 0.5) + rows * np.log(0.5)
        np.testing.assert_allclose(part.lost, [best - forecasts(x, first)], rtol=1e-10, atol=1e-10)


def test_weights_of_the_forecasters_add_up_to_one():
    assert sum(checkpoint_weight(j) for j in range(200_000)) == pytest.approx(1, abs=1e-5)
    assert all(sequences.checkpoint_rows(j) < sequences.checkpoint_rows(j + 1) for j in range(10))


@pytest.mark.parametrize("p", [0.02, 0.3, 0.5, 0.95])
def test_the_chance_of_ever_being_wrong_is_within_its_level(p):
    """Exactly, by following every path of 150 rows; the first forecaster alone spends its weight of the error."""
    n, error = 150, 0.2
    alive, wrong = np.array([1.0]), 0.0
    for t in range(1, n + 1):
        alive = np.convolve(alive, [1 - p, p])
        s = np.arange(t + 1.0)[:, None]
        lower, upper = anytime_bounds(CountsInTime.of(s, np.full_like(s, t)), ALONE, error)
        out = (lower[:, 0] > p) | (upper[:, 0] < p)
        wrong += alive[out].sum()
        alive[out] = 0.0
    assert 0.05 * error * checkpoint_weight(0) < wrong < error * checkpoint_weight(0)


@pytest.mark.parametrize("p", [(0.5, 0.45), (0.1, 0.3)])
def test_contrasts_of_streams_with_checkpoints_err_within_their_level(p):
    """Looks every 100 rows until 4,000, with checkpoints at 0, 250 and 2,000 rows; 200 streams."""
    rng, streams, rows, error = np.random.default_rng(1), 200, 4000, 0.5
    of = rng.random((streams, rows)) < 0.3
    hit = rng.random((streams, rows)) < np.where(of, *p)
    n = np.stack([np.cumsum(of, 1), np.cumsum(~of, 1)], -1).astype(float)
    s = np.stack([np.cumsum(of & hit, 1), np.cumsum(~of & hit, 1)], -1).astype(float)
    wrong = np.zeros(streams, dtype=bool)
    for t in range(100, rows + 1, 100):
        before = [(s[:, k - 1], n[:, k - 1]) for k in (300, 2000) if k <= t]
        lower, upper = anytime_bounds(CountsInTime.of(s[:, t - 1], n[:, t - 1], before), PAIR, error)
        wrong |= (lower[:, 0] > p[0] - p[1]) | (upper[:, 0] < p[0] - p[1])
    assert 1 <= wrong.sum() <= stats.binom.ppf(1 - 1e-4, streams, error)


def divergence(p, q):
    return rel_entr(p, q) + rel_entr(1 - p, 1 - q)


CASES = [((30, 12), (60, 50)), ((0, 25), (40, 40)), ((40, 3), (40, 30)), ((500, 480), (1000, 900))]


@pytest.mark.parametrize(("s", "n"), CASES)
def test_bounds_are_the_extremes_of_the_set_by_brute_force(s, n):
    s, n = np.array(s, dtype=float), np.array(n, dtype=float)
    counts, error = CountsInTime.of(s, n), 0.05
    (part,) = counts.scored()
    room = np.log(1 / error) - part.log_weight + part.lost.sum()
    grid = np.linspace(0, 1, 2001)
    inside = (n[0] * divergence(s[0] / n[0], grid))[:, None] + n[1] * divergence(s[1] / n[1], grid) <= room
    first, second = np.nonzero(inside)
    gaps = grid[first] - grid[second]
    lower, upper = anytime_bounds(counts, PAIR, error)
    assert gaps.max() <= upper[0] <= gaps.max() + 2e-3
    assert gaps.min() - 2e-3 <= lower[0] <= gaps.min()
    ratios = grid[first] / np.maximum(grid[second], 1e-300)
    low, high = anytime_ratio_bounds(counts, np.array([[0, 1]]), error)
    assert low[0] <= ratios.min() + 1e-12
    assert low[0] >= ratios.min() * (1 - 0.02) - 1e-9
    if np.isfinite(high[0]) and ratios.max() < 1e3:
        assert ratios.max() <= high[0] * (1 + 1e-12)
        assert high[0] <= ratios.max() * 1.02


def test_three_cells_and_images_lie_outside_the_set_of_draws_from_it():
    s, n = np.array([20.0, 33.0, 8.0]), np.array([50.0, 60.0, 40.0])
    counts, error = CountsInTime.of(s, n), 0.05
    (part,) = counts.scored()
    which = Contrasts(np.array([[0, 1, 2]]), np.array([[1.0, -0.6, -0.4]]))
    rng = np.random.default_rng(0)
    q = np.clip(s / n + 0.3 * rng.normal(size=(200_000, 3)), 0, 1)
    spent = (n * divergence(s / n, q)).sum(1)
    sums = q @ which.coefficient[0]
    inside = spent <= np.log(1 / error) - part.log_weight + part.lost.sum()
    lower, upper = anytime_bounds(counts, which, error)
    assert lower[0] <= sums[inside].min() <= lower[0] + 0.02
    assert upper[0] - 0.02 <= sums[inside].max() <= upper[0]
    f1 = lambda p: 2 * p / (1 + p)  # noqa: E731
    low, high = anytime_bounds(counts, PAIR, error, f1)
    ends = [[float(v[0]) for v in anytime_bounds(CountsInTime.of(s[[i]], n[[i]]), ALONE, error / 2)] for i in (0, 1)]
    np.testing.assert_allclose(high, f1(ends[0][1]) - f1(ends[1][0]), atol=1e-9)
    np.testing.assert_allclose(low, f1(ends[0][0]) - f1(ends[1][1]), atol=1e-9)


def test_cells_without_rows_say_nothing_and_counts_must_grow():
    counts = CountsInTime.of([0.0, 5.0], [0.0, 10.0])
    lower, upper = anytime_bounds(counts, PAIR, 0.05)
    assert lower[0] < -0.8 and upper[0] > 0.8
    low, high = anytime_ratio_bounds(counts, np.array([[0, 1], [1, 0]]), 0.05)
    assert low.tolist() == [0, 0] and np.isinf(high).all()
    with pytest.raises(DataError, match="counts can only grow"):
        CountsInTime.of([3.0], [9.0], [([4.0], [9.0])])


def test_limits_shrink_as_rows_come_and_hold_their_rate():
    widths = []
    for rows in (100, 1000, 10_000, 100_000):
        before = [([0.3 * k], [float(k)]) for k in (250, 2000, 16_000) if k <= rows]
        lower, upper = anytime_bounds(CountsInTime.of([0.3 * rows], [float(rows)], before), ALONE, 0.05)
        assert lower[0] < 0.3 < upper[0]
        widths.append(upper[0] - lower[0])
    assert all(a > 2 * b for a, b in itertools.pairwise(widths))
