"""Models of few score levels: shares of rows at or below a level, and the scale and shift of the lowest loss."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))
import partial_levels as levels


def test_columns_are_told_as_the_whole_numbers_that_they_are():
    like = np.array([[-0.5, 3.0], [0.25, 1.0], [1.0, 1.0]])
    assert levels.whole(np.array([[1.0, 5.0], [-0.5, 1.0]]), like).tolist() == [[2, 2], [0, 0]]


def test_shares_are_counted():
    rng = np.random.default_rng(0)
    rows, weights = rng.integers(0, 3, (200, 2)), np.array([[1, 0], [1, -2], [2, 1]])
    for made, w in zip(levels.shares(rows, weights), weights, strict=True):
        scores = rows @ w - (rows @ w).min()
        counted = [min(np.mean(scores <= level), levels.LENGTH) for level in range(levels.LEVELS)]
        assert made == pytest.approx(counted)


def test_two_levels_are_fitted_to_their_shares_of_positive_rows():
    y, scores = np.repeat([1.0, 0.0, 1.0, 0.0], [30, 10, 20, 40]), np.repeat([2.0, 0.0], [40, 60])
    loss, (scale, shift) = levels.fitted(scores, y)
    assert (shift, shift + 2 * scale) == pytest.approx((np.log(20 / 40), np.log(30 / 10)), abs=1e-4)
    shares = np.repeat([0.75, 1 / 3], [40, 60])
    assert loss == pytest.approx(-np.mean(y * np.log(shares) + (1 - y) * np.log(1 - shares)))
