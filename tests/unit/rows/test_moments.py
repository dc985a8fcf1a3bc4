"""Means and scatters of cells against numpy, however the rows are cut and stored."""

import numpy as np
import pytest
from scipy import sparse

from fairbound.base.errors import DataError
from fairbound.rows import moments
from fairbound.rows.moments import Moments


def rows(seed, n=200, d=4, k=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6) + (0 if seed % 2 else 1e4 * (rng.random(d) < 0.5))
    return X, rng.integers(-1, k, n), rng.random(n) * (rng.random(n) < 0.8)


@pytest.mark.parametrize("seed", range(4))
def test_they_are_numpy_s_and_merge(seed, monkeypatch):
    X, cells, w = rows(seed)
    monkeypatch.setattr(moments, "SLICE_ROWS", 33)
    found = Moments.of(X, cells, 4, w)
    parts = [
        Moments.of(sparse.csr_matrix(X[at]) if seed % 2 else X[at], cells[at], 4, w[at])
        for at in np.split(np.arange(200), [7, 90])
    ]
    merged = Moments.none(4, 4).merge(parts[2]).merge(parts[0]).merge(parts[1])
    size = np.abs(X).max() ** 2
    for made in (found, merged):
        for cell in range(3):
            mine = (cells == cell) & (w > 0)
            np.testing.assert_allclose(made.weight[cell], w[mine].sum(), rtol=1e-13)
            np.testing.assert_allclose(
                made.mean[cell], np.average(X[mine], axis=0, weights=w[mine]), rtol=1e-11, atol=1e-13
            )
            expected = np.cov(X[mine].T, aweights=w[mine], ddof=0)
            np.testing.assert_allclose(made.covariance[cell], expected, rtol=1e-9, atol=1e-14 * size)
        assert made.weight[3] == 0 and not made.scatter[3].any() and not made.covariance[3].any()


@pytest.mark.parametrize("seed", range(3))
def test_sets_of_cells_are_their_rows(seed):
    X, cells, w = rows(seed)
    sets = np.array([[True, True, False], [False, True, True], [False, False, False]])
    found = Moments.of(X, cells, 3, w).of_sets(sets)
    for s in range(2):
        mine = (cells >= 0) & sets[s][cells]
        np.testing.assert_allclose(found.mean[s], np.average(X[mine], axis=0, weights=w[mine]), rtol=1e-11, atol=1e-13)
        expected = np.cov(X[mine].T, aweights=w[mine], ddof=0)
        np.testing.assert_allclose(found.covariance[s], expected, rtol=1e-9, atol=1e-14 * np.abs(X).max() ** 2)
    assert found.weight[2] == 0


def test_what_does_not_fit_is_said():
    with pytest.raises(DataError, match="are needed; got"):
        Moments.of(np.zeros((3, 2)), [0, 1], 2)
    with pytest.raises(DataError, match="are needed; got"):
        Moments.of(np.zeros((2, 2)), [0, 2], 2)
    with pytest.raises(DataError, match="NaN or infinite"):
        Moments.of([[np.nan]], [0], 1)
    with pytest.raises(DataError, match="cannot be merged"):
        Moments.none(2, 3).merge(Moments.none(2, 4))
