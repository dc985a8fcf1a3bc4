"""The logistic regression behind searches for bends, jumps and weight decay."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from fairbound.estimators.linear.weight_decay import leave_one_out
from fairbound.tables.shapes.regressions import NUMBERS, TWO_CLASSES, Curved, fitted, second, times


@pytest.mark.parametrize("seed", range(12))
def test_a_table_of_float32_is_fitted_as_one_of_float64(seed: int) -> None:
    """Columns that add up to the intercept, several times, and codes of few rows: second derivatives are singular but
    for the penalty, which rounding of float32 exceeds."""
    rng = np.random.default_rng(seed)
    n = 20_000
    codes = [rng.choice(k, n, p=rng.dirichlet(np.full(k, 0.3))) for k in (3, 12, 40)]
    A = np.column_stack([np.ones(n), *(c[:, None] == np.arange(c.max() + 1) for c in codes), rng.normal(size=(n, 3))])
    y = (rng.random(n) < 1 / (1 + np.exp(2 - codes[0] - A[:, -1]))).astype(float)
    penalty, mass = np.r_[0.0, np.full(A.shape[1] - 1, 1e-4)], np.ones(n)
    losses = []
    for table in (A, A.astype(np.float32)):
        x = fitted(table, y, mass, penalty, np.zeros(A.shape[1]), settled=1e-5).x
        losses.append(TWO_CLASSES.total(times(A, x), y, mass))
    exact = TWO_CLASSES.total(times(A, fitted(A, y, mass, penalty, x).x), y, mass)
    assert abs(losses[0] - exact) < 1e-5 * n
    assert abs(losses[1] - exact) < 1e-5 * n


def test_second_derivatives_of_float32_stay_above_zero_where_columns_are_alike() -> None:
    """However a machine rounds: an eigenvalue that is 0 has a share of the diagonal added."""
    column = np.random.default_rng(0).normal(size=(500, 1))
    Q = second(np.hstack([column, column]).astype(np.float32), np.full(500, 0.25))
    assert np.linalg.eigvalsh(Q)[0] > 0.9e-5 * Q[0, 0]


def test_second_derivatives_of_more_columns_are_those_of_all_at_once() -> None:
    rng = np.random.default_rng(4)
    A, weight = rng.normal(size=(400, 9)).astype(np.float32), rng.uniform(0, 0.25, 400)
    whole, wider = Curved.of(A, weight), Curved.of(A[:, :6], weight).widened(A)
    np.testing.assert_allclose(wider.Q, whole.Q, rtol=1e-6, atol=1e-5)
    alike = np.hstack([A[:, :1], A[:, :1]])
    assert np.linalg.eigvalsh(Curved.of(A[:, :1], weight).widened(alike).Q)[0] > 0


def test_a_fit_that_goes_on_with_more_columns_ends_where_one_from_nothing_does() -> None:
    rng = np.random.default_rng(5)
    A = np.column_stack([np.ones(2000), rng.normal(size=(2000, 5))]).astype(np.float32)
    y = (rng.random(2000) < 1 / (1 + np.exp(1 - A[:, 1] - 2 * A[:, 5]))).astype(float)
    penalty, mass = np.full(6, 0.1), np.ones(2000)
    few = fitted(A[:, :4], y, mass, penalty[:4], np.zeros(4))
    more = fitted(A, y, mass, penalty, np.r_[few.x, 0.0, 0.0], few.near.widened(A))
    np.testing.assert_allclose(more.x, fitted(A, y, mass, penalty, np.zeros(6)).x, atol=1e-3)
    np.testing.assert_allclose(more.scores, A @ more.x, atol=1e-4)


def test_a_fit_makes_no_copy_of_the_table() -> None:
    rng = np.random.default_rng(0)
    A = rng.normal(size=(50_000, 30))
    y, penalty, mass = (A[:, 0] > rng.logistic(size=len(A))).astype(float), np.ones(30), np.ones(len(A))
    fitted(A[:100], y[:100], mass[:100], penalty, np.zeros(30))
    tracemalloc.start()
    leave_one_out(A, y, mass, penalty, fitted(A, y, mass, penalty, np.zeros(30)).scores)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.4 * A.nbytes, "a few numbers of each row"


def test_least_squares_of_either_precision_end_where_the_normal_equations_do() -> None:
    rng = np.random.default_rng(3)
    A = np.column_stack([np.ones(3000), rng.normal(size=(3000, 6))])
    y, mass, penalty = A @ rng.normal(size=7) + rng.normal(size=3000), rng.uniform(0.5, 2, 3000), np.full(7, 5.0)
    exact = np.linalg.solve(A.T @ (mass[:, None] * A) + np.diag(penalty), A.T @ (mass * y))
    for table, error in ((A, 1e-12), (A.astype(np.float32), 1e-5)):
        x = fitted(table, y, mass, penalty, np.zeros(7), settled=1e-16, loss=NUMBERS).x
        assert np.abs(x - exact).max() < error
    left = y - A @ exact
    assert NUMBERS.dispersion(left, 7) == pytest.approx(left @ left / 2993)
    assert NUMBERS.total(A @ exact, y, mass) == pytest.approx(mass @ (left**2 - y**2) / 2)
