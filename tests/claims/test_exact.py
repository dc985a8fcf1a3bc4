"""Exact optima: lower bounds hold for any duals, the solvers meet them, and what is stored is solved again."""

import json
import sys

import numpy as np
import pytest
import torch
from scipy import sparse

from fairbound.base.errors import DataError, OptionError
from fairbound.instances import INSTANCES, exact, fair_ratio, instance, neyman_pearson, optimum
from fairbound.instances.exact import ExactOptimum, check, checksum, lp_lower_bound, solve_exactly
from fairbound.instances.hinge_program import Duals, HingeProgram
from fairbound.instances.inventory import Inventory
from fairbound.testing import PROBLEMS


def small_fair(seed=0, sparse_rows=False, **options):
    rng = np.random.default_rng(seed)
    X, M, F = (rng.standard_normal((rows, 4)) + shift for rows, shift in ((40, 0.0), (15, 0.5), (12, -0.5)))
    y = (X @ [1.0, -1.0, 0.5, 0.0] + rng.standard_normal(40) > 0).astype(int)
    if sparse_rows:
        X, M, F = (sparse.csr_matrix(np.where(np.abs(rows) > 0.5, rows, 0.0)) for rows in (X, M, F))
    return fair_ratio(X, y, M, F, **{"radius": 2.0, **options})


def small_np(seed=0, sparse_rows=False, **options):
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1, 2], (20, 14, 9))
    X = rng.standard_normal((len(y), 5)) + 0.7 * np.eye(5)[y]
    if sparse_rows:
        X = sparse.csr_matrix(np.where(np.abs(X) > 0.5, X, 0.0))
    return neyman_pearson(X, y, **{"radius": 2.0, "bound": 1.5, **options})


MAKERS = [small_fair, small_np]


def points(problem, seed=0, count=20):
    """(count, n) random points of the domain, from its centre to its boundary."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, problem.n, dtype=torch.float64, generator=generator)
    return problem.domain.project(x * torch.logspace(-2, 1, count, dtype=torch.float64).unsqueeze(-1))


def random_duals(program, seed, spread=1.0):
    rng = np.random.default_rng(seed)
    y = spread * rng.standard_normal(program.m)
    v = [spread * p.weight * rng.standard_normal((p.rows.shape[0], program.classes)) for p in program.parts]
    return Duals(y, v)


@pytest.mark.parametrize("sparse_rows", [False, True])
@pytest.mark.parametrize("make", MAKERS)
def test_the_hinges_are_the_problem(make, sparse_rows):
    problem = make(sparse_rows=sparse_rows)
    program = HingeProgram(problem)
    for x in points(problem, count=5):
        F = np.r_[0.0, -program.bounds]
        W = x.view(problem.classes, -1).numpy()
        for part in program.parts:
            scores = part.rows @ W.T
            if part.sign is not None:
                hinges = np.maximum(part.offset + part.sign * scores[:, 0], 0)
            else:
                own = scores[np.arange(len(scores)), part.own][:, None]
                hinges = np.maximum(part.offset + scores - own, 0).sum(1) - part.offset
            F[part.function] += part.weight * hinges.sum()
        measured = problem.evaluate(x)
        np.testing.assert_allclose(F, np.r_[float(measured.f), measured.g.numpy()], rtol=0, atol=1e-12)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("spread", [0.1, 1.0, 10.0])
def test_weak_duality_holds_for_any_duals(make, seed, spread):
    """The bound is below f + y . g, y clipped to be positive, at every point of the domain, feasible or not."""
    problem = make(seed)
    program = HingeProgram(problem)
    duals = random_duals(program, seed, spread)
    measured = problem.evaluate(points(problem, seed))
    lagrangian = measured.f + measured.g @ torch.as_tensor(np.maximum(duals.y, 0.0))
    assert program.lower_bound(duals) <= float(lagrangian.min()) + 1e-12 * spread
    assert program.lower_bound(Duals(duals.y * np.nan, duals.v)) == -np.inf


@pytest.mark.parametrize("make", MAKERS)
def test_the_bound_does_not_change_its_duals(make):
    program = HingeProgram(make())
    duals = random_duals(program, 0)
    kept = [v.copy() for v in duals.v]
    program.lower_bound(duals)
    for before, after in zip(kept, duals.v, strict=True):
        np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize("sparse_rows", [False, True])
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("make", MAKERS)
def test_the_cone_solver_closes_the_gap(make, seed, sparse_rows):
    pytest.importorskip("clarabel")
    problem = make(seed, sparse_rows)
    found = solve_exactly(problem)
    assert found.max_g <= 0
    assert -1e-9 <= found.gap <= 2e-6  # twice the first margin and tolerance, times multipliers below 100
    assert found.f <= float(found.x0_f) + 1e-9
    measured = problem.evaluate(points(problem, seed, 200))
    feasible = measured.g.amax(-1) <= 0
    assert bool((measured.f[feasible] >= found.lower - 1e-12).all())


@pytest.mark.parametrize("make", MAKERS)
def test_another_solver_agrees(make):
    pytest.importorskip("clarabel")
    cvxpy = pytest.importorskip("cvxpy")
    if "SCS" not in cvxpy.installed_solvers():
        pytest.skip("SCS is not installed")
    problem = make()
    program = HingeProgram(problem)
    W = cvxpy.Variable((problem.classes, problem.d))
    F = [0.0, *(-program.bounds)]
    for part in program.parts:
        scores = part.rows @ W.T
        if part.sign is not None:
            F[part.function] += part.weight * cvxpy.sum(
                cvxpy.pos(part.offset + cvxpy.multiply(part.sign, scores[:, 0]))
            )
            continue
        for r, own in enumerate(part.own):
            for other in set(range(problem.classes)) - {int(own)}:
                F[part.function] += part.weight * cvxpy.pos(part.offset + scores[r, other] - scores[r, int(own)])
    balls = [cvxpy.norm(W[c]) <= problem.radius for c in range(problem.classes)]
    reference = cvxpy.Problem(cvxpy.Minimize(F[0]), [f <= 0 for f in F[1:]] + balls)
    reference.solve(solver="SCS", eps=1e-8, max_iters=200_000)
    found = solve_exactly(problem)
    assert found.lower - 1e-5 <= reference.value <= found.upper + 1e-5


def test_a_point_of_objective_zero_is_found_without_a_solver(monkeypatch):
    monkeypatch.setitem(sys.modules, "clarabel", None)
    problem = neyman_pearson(np.repeat(np.eye(3), 4, axis=0), np.repeat([0, 1, 2], 4))
    found = solve_exactly(problem)
    assert found.lower == 0.0 and found.upper <= 1e-12 and found.max_g <= 0


def test_where_zero_is_out_of_reach_the_missing_solver_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "clarabel", None)
    with pytest.raises(ImportError, match=r"fairbound\[exact\]"):
        solve_exactly(small_fair())


def test_what_cannot_be_solved_exactly():
    with pytest.raises(OptionError, match="not piecewise linear"):
        HingeProgram(small_fair(loss="logistic"))
    with pytest.raises(OptionError, match="radius"):
        HingeProgram(small_np(radius=None))
    with pytest.raises(OptionError, match="not for KnownProblem"):
        solve_exactly(PROBLEMS["active"]())
    with pytest.raises(OptionError, match="no optimum is stored"):
        optimum("nothing")


def test_no_feasible_point_is_an_error():
    """Scores of one row cannot push its class's hinge below 1 - 2 radius |a|."""
    pytest.importorskip("clarabel")
    problem = neyman_pearson(np.array([[1.0], [1.0]]), [0, 1], radius=0.1, bound=0.5)
    with pytest.raises(DataError, match="no feasible point"):
        solve_exactly(problem)


# -- the inventory ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_weak_duality_of_the_linear_program(seed):
    problem = Inventory(constraints=300, seed=seed, box=50.0)
    A, b = (part.numpy() for part in problem.matrices())
    y = np.random.default_rng(seed).standard_normal(300)
    bound = lp_lower_bound(problem.objective.numpy(), A, b, 50.0, y)
    x = problem.domain.project(
        50 * torch.randn(50, 19, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    )
    measured = problem.evaluate(x)
    lagrangian = measured.f + measured.g @ torch.as_tensor(np.maximum(y, 0.0))
    assert bound <= float(lagrangian.min()) + 1e-9


@pytest.mark.parametrize("box", [5.0, 20.0, 100.0])
def test_linear_programs_have_no_gap(box):
    found = solve_exactly(Inventory(constraints=500, box=box))
    assert found.max_g <= 0
    assert -1e-9 <= found.gap <= 1e-7 * abs(found.f)  # HiGHS' feasibility tolerance times its multipliers
    assert found.x0_f == 0.0


INVENTORIES = [name for name in INSTANCES if name.startswith("inventory")]


@pytest.mark.parametrize("name", INVENTORIES)
def test_the_stored_inventory_optima_are_solved_again(name):
    problem, stored = instance(name), optimum(name)
    check(problem, stored)
    again = solve_exactly(problem)
    assert again.lower <= stored.upper + 1e-9 and stored.lower <= again.upper + 1e-9
    assert again.gap <= 1e-7 and again.max_g <= 0


# -- what is stored --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(INSTANCES))
def test_every_instance_has_an_optimum_with_a_small_gap(name):
    known = optimum(name)
    assert known.max_g <= 0
    assert known.f == known.upper
    assert -1e-9 <= known.gap <= 1e-4 * (known.x0_f - known.f)
    assert "lower bound" in known.certificate


QUICK = ["np-connect-4-head", "np-pendigits"]


@pytest.mark.parametrize(
    "name",
    [
        name if name in QUICK else pytest.param(name, marks=pytest.mark.long)
        for name in INSTANCES
        if name not in INVENTORIES
    ],
)
def test_the_stored_optima_are_solved_again(name, data_dir):
    pytest.importorskip("clarabel")
    problem, stored = instance(name, data_dir), optimum(name)
    check(problem, stored)
    again = solve_exactly(problem)
    assert again.lower <= stored.upper + 1e-12 and stored.lower <= again.upper + 1e-12
    assert (again.rows, again.m) == (stored.rows, stored.m) and again.x0_f == pytest.approx(stored.x0_f, rel=1e-12)


def test_an_optimum_of_other_data_is_refused():
    known = optimum("inventory-2-10-10")
    for other in (Inventory((2, 10, 10), seed=1), Inventory((2, 5, 10)), Inventory((2, 10, 10), box=20.0)):
        with pytest.raises(DataError, match="other data or settings"):
            check(other, known)
    assert checksum(small_fair()) == checksum(small_fair())
    different = {
        checksum(p)
        for p in (
            small_fair(),
            small_fair(1),
            small_fair(radius=3.0),
            small_fair(kappa=0.9),
            small_fair(loss="logistic"),
            small_np(),
        )
    }
    assert len(different) == 6


def test_the_command_prints_and_stores(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(exact, "STORED", tmp_path / "optima.json")
    exact._stored.cache_clear()
    try:
        exact.main(["inventory-2-5-10", "--write"])
        printed = json.loads(capsys.readouterr().out)
        assert printed["name"] == "inventory-2-5-10" and printed["stored"] is None
        assert isinstance(optimum("inventory-2-5-10"), ExactOptimum)
        assert optimum("inventory-2-5-10").f == printed["f"]
        exact.main(["inventory-2-5-10"])
        assert json.loads(capsys.readouterr().out)["stored"] == printed["f"]
    finally:
        exact._stored.cache_clear()
    for wrong in (["bogus"], []):
        with pytest.raises(SystemExit):
            exact.main(wrong)
    assert "unknown instance 'bogus'" in capsys.readouterr().err
