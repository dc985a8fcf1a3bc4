"""Least squares with y >= 0: exact where the first method ends, and where it gives up."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import nnls

from fairbound.subproblems import nonnegative
from fairbound.subproblems.nonnegative import nonnegative_least_squares


@pytest.fixture(params=[None, 1], ids=["enough changes", "given up"])
def changes(request, monkeypatch):
    """The first method with as many changes as it is allowed, or with one only."""
    if request.param:
        monkeypatch.setattr(nonnegative, "nnls", lambda system, target, maxiter: nnls(system, target, maxiter=1))


@pytest.mark.usefixtures("changes")
def test_the_answer_is_exact_though_the_first_method_gives_up():
    """Nearly parallel columns of lengths from 1e-4 to 1e4: the gradients of thresholds close together are such."""
    rng = np.random.default_rng(0)
    parallel = rng.normal(size=(44, 1)) + 0.1 * rng.normal(size=(44, 64))
    for system in (parallel, parallel * 10.0 ** rng.uniform(-4, 4, size=64)):
        target = system @ rng.random(64) + rng.normal(size=44)
        y, residual = nonnegative_least_squares(system, target)
        lengths = np.linalg.norm(system, axis=0)
        slope = system.T @ (system @ y - target) / lengths
        assert (y >= 0).all() and residual == pytest.approx(np.linalg.norm(system @ y - target))
        assert slope.min() > -1e-8 * np.linalg.norm(target)
        assert np.abs(slope * lengths * y).max() < 1e-8 * float(target @ target)


@pytest.mark.usefixtures("changes")
def test_a_column_of_zeros_has_no_multiplier():
    y, residual = nonnegative_least_squares(np.array([[1.0, 0.0, 1.0], [0.0, 0.0, 1.0]]), np.array([2.0, 1.0]))
    assert y == pytest.approx([1, 0, 1]) and residual == pytest.approx(0, abs=1e-12)
