"""Quadratics under quadratic bounds: optimal by their own certificate, infeasible ones found so."""

import numpy as np
import pytest

from fairbound.base.errors import DataError
from fairbound.subproblems import SubproblemError, quadratics
from fairbound.subproblems.quadratics import QuadraticProgram, _Matrices, _multiples, _OneMatrix, newton_direction


def program(seed, d=5, m=3, rank=4):
    """Random, with 0 strictly feasible; column 0 is a copy of column 1, along whose difference nothing moves."""
    rng = np.random.default_rng(seed)
    same = np.eye(d)
    same[0] = same[1]
    A = np.stack([(B := rng.normal(size=(d, d if i == 0 else rank))) @ B.T for i in range(1 + m)])
    A, b = same.T @ A @ same, rng.normal(size=(1 + m, d)) @ same
    return A, 3 * b, np.r_[rng.normal(), -rng.random(m) * 0.2 - 0.01]


@pytest.mark.parametrize("seed", range(30))
def test_it_is_optimal_by_its_certificate(seed):
    A, b, c = program(seed, d=4 + seed % 5, m=1 + seed % 4)
    made = QuadraticProgram(A, b, c)
    found = made.solve()
    value = lambda i, x: x @ A[i] @ x + b[i] @ x + c[i]  # noqa: E731
    x, y = found.x, found.multipliers
    assert found.f == pytest.approx(value(0, x), abs=1e-9)
    np.testing.assert_allclose(found.g, [value(i, x) for i in range(1, len(A))], atol=1e-9)
    assert found.g.max() <= 1e-10 and (y >= 0).all() and abs(found.gap) <= 1e-9
    H, gradient = A[0] + np.tensordot(y, A[1:], 1), b[0] + y @ b[1:]
    np.testing.assert_allclose(2 * H @ x + gradient, 0, atol=1e-7 * (1 + y.sum()))
    looser = c - np.r_[0.0, np.full(len(y), 0.3)]
    assert made.solve(looser, start=y).f == pytest.approx(made.solve(looser).f, abs=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_multiples_of_one_matrix_need_no_factorisation_and_have_the_same_optimum(seed):
    """As a bound in both directions has; a change below the optimum's own tolerance takes the way of any matrices."""
    A, b, c = program(seed, m=3)
    A[2], A[3] = A[1], 0.5 * A[1]
    apart, other_sign = A.copy(), A.copy()
    other_sign[3] *= -1
    assert _multiples(other_sign[1:]) is None and np.allclose(_multiples(A[1:]), [1, 1, 0.5])
    tiny = np.stack([np.diag([1e8, 0.0]), np.diag([0.0, 1e-5])])
    assert _multiples(tiny) is None and (_multiples(np.stack([tiny[0], 0 * tiny[0]])) == [1, 0]).all()
    apart[3] *= 1 + 1e-9 * np.eye(len(A[0]))
    one, any_other = QuadraticProgram(A, b, c), QuadraticProgram(apart, b, c)
    assert (type(one._curved), type(any_other._curved)) == (_OneMatrix, _Matrices)
    found, other = one.solve(), any_other.solve()
    assert found.multipliers.any() and abs(found.gap) <= 1e-9 and found.g.max() <= 1e-10
    np.testing.assert_allclose([found.f, *found.g], [other.f, *other.g], atol=1e-7)
    np.testing.assert_allclose(found.multipliers, other.multipliers, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(
        found.g, np.einsum("d,mde,e->m", found.x, A[1:], found.x) + b[1:] @ found.x + c[1:], atol=1e-9
    )


def test_no_search_is_stopped_by_rounding():
    """Begun near the optimum, a step may raise the dual by less than the rounding of its terms."""
    for seed in range(300):
        A, b, c = program(seed, d=4 + seed % 5, m=1 + seed % 4)
        made = QuadraticProgram(A, b, c)
        start = made.solve().multipliers
        looser = c - np.r_[0.0, np.full(len(start), 0.3)]
        assert made.solve(looser, start=start).steps <= 50


def test_bounds_that_do_not_bind_leave_the_least_value():
    A, b, c = program(1)
    c[1:] = -1e6
    found = QuadraticProgram(A, b, c).solve()
    assert found.steps == 0 and not found.multipliers.any()
    least = c[0] - b[0] @ np.linalg.pinv(A[0]) @ b[0] / 4
    assert found.f == pytest.approx(least, rel=1e-9)


def test_contradictions_and_wrong_numbers_are_said():
    A, b = np.stack([np.eye(2)] * 3), np.array([[0.0, 0.0], [-4.0, 0.0], [4.0, 0.0]])
    with pytest.raises(SubproblemError, match="no point meets all constraints"):
        QuadraticProgram(A, b, np.array([0.0, 3.9, 3.9])).solve()
    with pytest.raises(DataError, match="not finite"):
        QuadraticProgram(A * np.nan, b, np.zeros(3))
    A[1] *= 1 + 1e-9  # no multiples of one matrix
    A[1, 0, 1] = A[1, 1, 0] = 1e-9
    with pytest.raises(SubproblemError, match="no point meets all constraints"):
        QuadraticProgram(A, b, np.array([0.0, 3.9, 3.9])).solve()
    A[0, 1, 1] = 0.0
    with pytest.raises(DataError, match="in which the objective is constant"):
        QuadraticProgram(A, b, np.zeros(3))


@pytest.mark.parametrize(("m", "d", "near"), [(400, 3, 1e-9), (400, 8, 1e-9), (60, 40, 0.01)])
def test_the_direction_of_many_constraints_is_that_of_their_whole_matrix(m, d, near, monkeypatch):
    """Of few columns singular values of the diagonal alone count as 0; of many, the diagonal's rounding is what there is."""
    rng = np.random.default_rng(d)
    J, g, B = rng.normal(size=(m, d)), rng.normal(size=m), rng.normal(size=(d, d))
    J[m // 2 :] = -J[: m // 2]  # a comparison in both directions
    H = B @ B.T + np.eye(d)
    whole = newton_direction(J, lambda v: np.linalg.solve(H, v), g)
    monkeypatch.setattr(quadratics, "MANY", 0)
    factored = newton_direction(J, lambda v: np.linalg.solve(H, v), g)
    assert np.abs(factored - whole).max() <= near * np.abs(whole).max()


@pytest.mark.parametrize("seed", range(5))
def test_programs_of_more_constraints_than_columns_have_one_optimum_by_either_way(seed, monkeypatch):
    A, b, c = program(seed, m=40)
    found = QuadraticProgram(A, b, c).solve()
    monkeypatch.setattr(quadratics, "MANY", 0)
    again = QuadraticProgram(A, b, c).solve()
    assert again.f == pytest.approx(found.f, abs=1e-9) and again.g.max() <= 1e-9 and abs(again.gap) <= 1e-9
