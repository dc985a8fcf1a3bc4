"""The dual solvers of (8) and of kappa against independent solvers in n variables, and against their certificates.

Clarabel is asked for a relative gap of 1e-11 in the objective f; f is tau-strongly convex, so its minimiser is
within sqrt(2e-11 |f| / tau) of the exact one. HiGHS keeps rows to 1e-7. The KKT conditions need no solver: 1e-10.
"""

import numpy as np
import pytest
from scipy.optimize import linprog

from fairbound.subproblems import SubproblemError, direction_qp, least_violation, row_factor
from fairbound.subproblems.qp import least_distance


def rows_of(rng, m, n, kind):
    """m rows of different lengths: general, two-sided (negatives of each other), repeated, sparse or one zero."""
    jacobian = rng.normal(size=(m, n)) * 10 ** rng.uniform(-2, 1, size=(m, 1))
    if kind == "two-sided":
        half = m // 2
        jacobian[half : 2 * half] = -jacobian[:half]
    elif kind == "repeated":
        jacobian[-1] = jacobian[0]
    elif kind == "sparse":
        jacobian *= rng.random((m, n)) < 0.3
    elif kind == "zero row":
        jacobian[-1] = 0
    return jacobian


def highs(c, jacobian, radius):
    m, n = jacobian.shape
    result = linprog(
        np.append(1.0, np.zeros(n)),
        A_ub=np.hstack([-np.ones((m, 1)), jacobian]),
        b_ub=-c,
        bounds=[(0, None), *[(-radius, radius)] * n],
        method="highs",
    )
    assert result.status == 0
    return result.fun


def clarabel(g, c, jacobian, kappa, tau, beta):
    cp = pytest.importorskip("cvxpy")
    d = cp.Variable(len(g))
    problem = cp.Problem(
        cp.Minimize(g @ d + tau / 2 * cp.sum_squares(d)), [c + jacobian @ d <= kappa, cp.norm_inf(d) <= beta]
    )
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    assert problem.status == "optimal"
    return d.value


def assert_kkt(solution, g, c, jacobian, kappa, tau, beta):
    y, d = solution.multipliers, solution.d
    excess = c + jacobian @ d - kappa
    scale = max(np.abs(c).max(), kappa, np.abs(jacobian @ g).max() / tau)
    assert (y >= 0).all() and excess.max() <= 1e-10 * scale
    np.testing.assert_array_equal(d, np.clip((g + y @ jacobian) / -tau, -beta, beta))  # stationarity, by construction
    assert np.abs(y * excess).sum() <= 1e-9 * (g @ g / tau + tau * d @ d)
    assert solution.violation == pytest.approx(max(0.0, excess.max()), abs=1e-12 * scale)


KINDS = ["general", "two-sided", "repeated", "sparse", "zero row"]


@pytest.mark.parametrize("beta", [10.0, 0.8], ids=["box inactive", "box active"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("m", "n"), [(1, 1), (2, 5), (3, 40), (5, 20), (8, 200), (2, 3000), (8, 3000)])
def test_the_qp_agrees_with_a_cone_solver(m, n, kind, beta):
    rng = np.random.default_rng([m, n, KINDS.index(kind)])
    jacobian, c, g = rows_of(rng, m, n, kind), rng.normal(size=m), rng.normal(size=n)
    c[0] = abs(c[0]) + 0.1
    kappa = 0.5 * max(c.max(), 0) + 0.5 * least_violation(c, jacobian, 0.8).value
    tau = 0.5 if beta == 0.8 else 1.0
    solution = direction_qp(g, c, jacobian, kappa, tau, beta)
    assert_kkt(solution, g, c, jacobian, kappa, tau, beta)
    if beta == 0.8:
        assert (np.abs(solution.d) == beta).any() or n == 1
    else:
        assert solution.newton_steps == 0
    reference = clarabel(g, c, jacobian, kappa, tau, beta)
    value = g @ reference + tau / 2 * reference @ reference
    assert np.sum((solution.d - reference) ** 2) <= 2e-10 * (1 + abs(value)) / tau  # ten times what was asked


@pytest.mark.parametrize("seed", range(60))
def test_the_qp_is_solved_however_tight_the_box(seed):
    """kappa = V leaves no interior and beta just above rho leaves hardly a point: the KKT conditions still hold."""
    rng = np.random.default_rng(seed)
    m, n = int(rng.integers(1, 9)), int(rng.choice([1, 2, 5, 20, 100, 600]))
    jacobian, c = rows_of(rng, m, n, KINDS[seed % 5]), rng.normal(size=m)
    g = rng.normal(size=n) * 10 ** rng.uniform(-1, 1)
    weight, tau, beta = rng.choice([0.5, 0.9, 1.0]), 10 ** rng.uniform(-1, 1), rng.choice([0.81, 1.0])
    kappa = (1 - weight) * max(c.max(), 0) + weight * least_violation(c, jacobian, 0.8).value
    assert_kkt(direction_qp(g, c, jacobian, kappa, tau, beta), g, c, jacobian, kappa, tau, beta)


def test_the_qp_with_one_row_is_a_projection():
    """d = -g/tau moved along J by the multiplier (c - kappa - J.g/tau)_+ tau / |J|^2."""
    rng = np.random.default_rng(0)
    g, row, tau = rng.normal(size=6), rng.normal(size=6), 2.0
    for c in (-3.0, 0.4, 5.0):
        y = max(0.0, (c - 0.1 - row @ g / tau) * tau / (row @ row))
        solution = direction_qp(g, np.array([c]), row[None], 0.1, tau, np.inf)
        np.testing.assert_allclose(solution.multipliers, [y], atol=1e-10)
        np.testing.assert_allclose(solution.d, -(g + y * row) / tau, atol=1e-10)


def test_the_qp_without_rows_clips_the_gradient():
    solution = direction_qp(np.array([3.0, -1.0]), np.zeros(0), np.zeros((0, 2)), 0.0, 0.5, 4.0)
    np.testing.assert_array_equal(solution.d, [-4.0, 2.0])


def test_opposite_rows_and_a_zero_row_on_their_bound_are_no_contradiction():
    """c = kappa with J = 0 holds with equality; b - c of rounding size must not read as infeasible."""
    c = np.array([0.3, 0.1 + 0.2])  # the second is 0.30000000000000004
    solution = direction_qp(np.ones(2), c, np.zeros((2, 2)), 0.3, 1.0, 10.0)
    np.testing.assert_array_equal(solution.d, [-1.0, -1.0])
    thin = direction_qp(np.ones(2), np.array([1.0, -1.0]), np.array([[2.0, 0], [-2.0, 0]]), 0.0, 1.0, 10.0)
    np.testing.assert_allclose(thin.d, [-0.5, -1.0], atol=1e-10)  # -2 d_1 <= 1 and 2 d_1 <= -1


def test_an_infeasible_qp_is_refused_with_its_reason():
    contradicting = np.array([[1.0, 0.0], [-1.0, 0.0]])
    with pytest.raises(SubproblemError, match="cannot all hold"):
        direction_qp(np.ones(2), np.array([1.0, 1.0]), contradicting, 0.5, 1.0, 10.0)
    with pytest.raises(SubproblemError, match="cannot all hold"):  # each row reaches 0 only outside the box
        direction_qp(np.ones(2), np.array([3.0]), np.array([[1.0, 1.0]]), 0.0, 1.0, 1.0)
    with pytest.raises(SubproblemError, match="Raise"):
        direction_qp(np.ones(2), np.array([1.0]), np.zeros((1, 2)), 0.0, 1.0, 1.0)


def test_least_distance_finds_the_nearest_point_or_none():
    rng = np.random.default_rng(1)
    jacobian = rng.normal(size=(3, 7))
    y = least_distance(row_factor(jacobian), np.array([-1.0, 2.0, -0.5]))
    z = -y @ jacobian
    assert (y >= 0).all() and (jacobian @ z <= np.array([-1.0, 2.0, -0.5]) + 1e-12).all()
    assert abs(y @ (jacobian @ z - [-1.0, 2.0, -0.5])) < 1e-12
    assert least_distance(row_factor(np.array([[1.0, 2.0], [-1.0, -2.0]])), np.array([-1.0, -1.0])) is None
    assert least_distance(row_factor(np.zeros((1, 3))), np.array([-1.0])) is None
    np.testing.assert_array_equal(least_distance(row_factor(np.zeros((1, 3))), np.array([1.0])), [0.0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("m", "n"), [(1, 4), (2, 1), (2, 6), (2, 800), (3, 30), (5, 12), (8, 60)])
@pytest.mark.parametrize("reach", ["beyond", "at the edge", "inside"])
def test_the_least_violation_agrees_with_an_lp_in_n_variables(m, n, kind, reach):
    """c is moved so that V is positive (the dual's maximum at a mixture of the rows), near zero, and zero."""
    rng = np.random.default_rng([m, n, KINDS.index(kind)])
    jacobian, radius = rows_of(rng, m, n, kind), 0.8
    mixture = rng.dirichlet(np.ones(m))
    c = (
        0.3 * rng.normal(size=m)
        + {"beyond": 1.5, "at the edge": 1.0, "inside": 0.2}[reach] * radius * np.abs(mixture @ jacobian).sum()
    )
    solution = least_violation(c, jacobian, radius)
    scale = np.abs(c).max()
    assert solution.value == pytest.approx(highs(c, jacobian, radius), abs=2e-7 * scale)
    y, d = solution.multipliers, solution.d
    assert np.abs(d).max() <= radius * (1 + 1e-12) and (y >= 0).all() and y.sum() <= 1 + 1e-9
    assert max(0.0, (c + jacobian @ d).max()) - solution.value <= 1e-9 * scale + 1e-15
    assert c @ y - radius * np.abs(y @ jacobian).sum() == pytest.approx(solution.value, abs=1e-12 * scale)


def test_the_least_violation_with_one_row_is_closed_form():
    row = np.array([[1.0, -2.0, 0.5]])
    for c in (-1.0, 2.0, 5.0):
        assert least_violation(np.array([c]), row, 0.8).value == pytest.approx(max(0.0, c - 0.8 * 3.5), abs=1e-12)


def test_two_rows_whose_breakpoints_coincide():
    """Two-sided rows turn everywhere at t = 1/2, where the dual is (c_0 + c_1) / 2."""
    row = np.array([0.3, -0.1, 0.7])
    solution = least_violation(np.array([1.0, 0.6]), np.stack([row, -row]), 5.0)
    assert solution.value == pytest.approx(0.8, abs=1e-12)
    np.testing.assert_allclose(solution.multipliers, [0.5, 0.5], atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_rows_dependent_up_to_float32_rounding_still_get_an_answer(seed):
    """J_12 + J_23 - J_13 is 1e-8, not 0, where gradients were computed in float32: no cut closes the last of the gap."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, 300)).astype(np.float32)
    third = (a + b) + np.float32(1e-8) * rng.normal(size=300).astype(np.float32)
    J = np.stack([a, -a, b, -b, third, -third]).astype(np.float64)
    gaps, radius = np.array([0.02, -0.02, 0.01, -0.01, 0.03, -0.03]), 1e-5
    found = least_violation(gaps, J, radius)
    V = linprog(
        np.append(np.zeros(300), 1.0),
        A_ub=np.hstack([J, -np.ones((6, 1))]),
        b_ub=-gaps,
        bounds=[(-radius, radius)] * 300 + [(0, None)],
        method="highs",
    ).fun
    assert found.gap <= 1e-4 * 0.03 and V - 1e-9 <= found.value <= V + found.gap + 1e-9
    assert np.abs(found.d).max() <= radius and found.value == pytest.approx(
        max(0, (gaps + J @ found.d).max()), abs=1e-12
    )
