"""L-BFGS that keeps its curvature from one function to the next."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize, rosen, rosen_der
from scipy.special import expit

from fairbound.subproblems.descent import FALL, PAIRS, SLOPE, descended, no_pairs

RNG = np.random.default_rng(0)
H = RNG.normal(size=(6, 6))
H = H @ H.T + 0.1 * np.eye(6)


def quadratic(at, seen=None):
    """(z - at)' H (z - at) / 2, and its slope; seen: a list of the points asked for."""

    def of(z):
        if seen is not None:
            seen.append(z.copy())
        return float((z - at) @ H @ (z - at) / 2), H @ (z - at)

    return of


def test_it_ends_where_scipy_ends():
    start = np.array([-1.2, 1.0, 0.5])
    z, _ = descended(lambda z: (rosen(z), rosen_der(z)), start, no_pairs(3), 200)
    found = minimize(rosen, start, jac=rosen_der, method="L-BFGS-B").x
    np.testing.assert_allclose(z, found, atol=2e-3)
    assert rosen(z) < 1e-6


def test_what_was_learnt_of_one_function_spares_points_of_the_next():
    """Logistic losses of the same rows, in columns of unlike spread, with other labels of a tenth of them."""
    rows = RNG.normal(size=(200, 6)) * [1, 2, 4, 8, 16, 32]
    y = (rows @ [1, -1, 0.5, 0.1, -0.1, 0.02] + RNG.logistic(size=200) > 0).astype(float)

    def loss(labels, seen):
        def of(z):
            seen.append(z)
            s = rows @ z
            return float((np.logaddexp(0, s) - labels * s).mean()), rows.T @ (expit(s) - labels) / 200

        return of

    z, pairs = descended(loss(y, []), np.zeros(6), no_pairs(6), 100)
    other, known, unknown = np.where(np.arange(200) % 10, y, 1 - y), [], []
    ends = [descended(loss(other, seen), z, given, 100)[0] for seen, given in ((known, pairs), (unknown, no_pairs(6)))]
    np.testing.assert_allclose(*ends, atol=5e-3)
    assert len(known) <= 0.7 * len(unknown)


def test_pairs_are_the_last_moves_and_the_turns_of_the_slope():
    seen = []
    z, pairs = descended(quadratic(np.ones(6), seen), np.zeros(6), no_pairs(6), 3)
    assert not pairs[:, : PAIRS - 3].any()
    moves, turns = pairs[:, PAIRS - 3 :]
    np.testing.assert_allclose(moves.sum(0), z, atol=1e-14)  # from 0
    np.testing.assert_allclose(turns, moves @ H, atol=1e-12)
    _, more = descended(quadratic(np.zeros(6)), z, pairs, 1)
    np.testing.assert_array_equal(more[:, :-1], pairs[:, 1:])


def test_the_direction_is_that_of_the_matrix_that_is_updated():
    """The two loops give -B slope, B the inverse curvature by the formula for one pair after another (Nocedal and Wright, 6.17)."""
    _, pairs = descended(quadratic(np.ones(6)), np.zeros(6), no_pairs(6), 4)
    kept = [(s, t) for s, t in zip(*pairs, strict=True) if s.any()]
    s, t = kept[-1]
    B = np.eye(6) * (s @ t) / (t @ t)
    for s, t in kept:
        V = np.eye(6) - np.outer(t, s) / (s @ t)
        B = V.T @ B @ V + np.outer(s, s) / (s @ t)
    seen, slope = [], H @ (z := RNG.normal(size=6))
    descended(quadratic(np.zeros(6), seen), z, pairs, 1)
    np.testing.assert_allclose(seen[1] - z, -B @ slope, rtol=1e-9)


@pytest.mark.parametrize("steepness", [0.01, 1.0, 100.0])
def test_steps_fall_enough_and_leave_a_slope_less_steep(steepness):
    of = lambda z: (steepness * float(np.cosh(z).sum()), steepness * np.sinh(z))  # noqa: E731
    z, pairs = np.array([3.0, -1.0]), no_pairs(2)
    for _ in range(5):
        after, pairs = descended(of, z, pairs, 1)
        move = after - z
        if not move.any():
            break
        assert of(after)[0] <= of(z)[0] + FALL * (of(z)[1] @ move)
        assert of(after)[1] @ move >= SLOPE * (of(z)[1] @ move)
        z = after
    assert abs(z).max() < 0.5


def test_a_first_step_that_hardly_falls_is_shortened_and_one_that_is_short_lengthened():
    for steepness, z in (
        (4.0, np.array([0.50001])),
        (1e-4, np.array([3.0])),
    ):  # the first steps lead to -0.49999 and 2.9988
        of = lambda z, steepness=steepness: (steepness / 2 * float(z @ z), steepness * z)  # noqa: E731
        after, _ = descended(of, z, no_pairs(1), 1)
        assert of(after)[0] <= of(z)[0] + FALL * (of(z)[1] @ (after - z))
        assert of(after)[1] @ (after - z) >= SLOPE * (of(z)[1] @ (after - z))


def test_nothing_is_asked_for_where_nothing_can_be_won():
    seen = []
    z, _ = descended(quadratic(np.ones(6), seen), np.ones(6) + 1e-6, no_pairs(6), 50)
    assert len(seen) == 1
    np.testing.assert_array_equal(z, np.ones(6) + 1e-6)


def test_where_the_function_bends_it_goes_on_from_the_lowest_point_seen():
    """-t + 500 max(t - 0.01, 0) + t^2 / 2 in t = x_1 + x_2 bends at its lowest point, t = 0.01."""

    def of(x):
        t = x.sum()
        return -t + 500 * max(t - 0.01, 0) + t**2 / 2, (-1 + 500 * (t > 0.01) + t) * np.ones(2)

    z, _ = descended(of, np.zeros(2), no_pairs(2), 30)
    assert z.sum() == pytest.approx(0.01, abs=2e-5)


def test_a_slope_that_is_wrong_ends_it():
    seen = []

    def of(z):
        seen.append(z)
        return float(z @ z), -2 * z

    start = np.ones(2)
    z, _ = descended(of, start, no_pairs(2), 10)
    assert float(z @ z) <= 2 and len(seen) < 50
