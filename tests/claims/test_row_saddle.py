"""AUC under AUC bounds from single rows: the tensors' mirror steps, the plain numbers', the stream and the exact optimum agree."""

import numpy as np
import pytest
import torch
from torch import nn

from fairbound.base.errors import OptionError
from fairbound.fairness.area_problems.linear_auc import LinearAUC, cells_of, pair_sums
from fairbound.fairness.area_problems.row_saddle import RowSaddle, SaddleOptions
from fairbound.fairness.area_problems.saddle_problem import PairSaddleProblem
from fairbound.fairness.problem import FairProblem
from fairbound.methods import ALM, SFLS, SMD, ovsmd
from fairbound.models.mlp import MLP
from fairbound.models.model import ModuleModel
from fairbound.problems.domain import Ball, Space
from fairbound.problems.dual_sets import LiftedSimplex
from fairbound.problems.penalised import Proximal
from fairbound.problems.problem import Draws
from fairbound.rows.groups import Groups
from fairbound.rows.occurring import Occurring
from fairbound.solver.solve import solve

KAPPA = 0.15


def rows(n=400, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    group = np.where(rng.random(n) < 1 / (1 + np.exp(-X[:, 1])), "a", "b")
    y = (X[:, 0] + 0.8 * (group == "a") + 0.5 * rng.normal(size=n) > 0.4).astype(int)
    return X, y, group


def problem(data, kind="group", kappa=KAPPA, domain=None, reach=None, c1=0.5):
    X, y, group = data
    stated = f"auc_parity[{kind},surrogate=quadratic,c1={c1}] <= {kappa}"
    made = FairProblem(
        MLP(X.shape[1], bias=False), X, y, group, stated, objective=f"auc[surrogate=quadratic,c1={c1}]",
        domain=domain or Ball(4.0), dtype=torch.float64,
    )  # fmt: skip
    return PairSaddleProblem(made, reach)


def optimum(data, kind="group", kappa=KAPPA, c1=0.5):
    return LinearAUC.of(f"auc_parity[{kind},surrogate=quadratic,c1={c1}]", *data).solve(kappa)


@pytest.mark.parametrize("c1", [0.25, 0.5, 0.7])
@pytest.mark.parametrize("kind", ["group", "intra"])
def test_the_saddle_at_the_exact_optimum(kind, c1):
    """At the optimum of the cone program, with the best a, b and alpha: H(f*) = 0, and no multipliers of the set do better."""
    data = rows()
    best, made = optimum(data, kind, 1.2 * c1, c1), problem(data, kind, 1.2 * c1, reach=10.0, c1=c1)
    x = made.best(torch.cat([torch.as_tensor(best.weights), torch.zeros(made.n - 4)]).double())
    full = made.sample((0,), "a", 0, 1, "full")
    e = made.values(x, full)
    measured = made.evaluate(x)
    assert float(measured.f) == pytest.approx(best.loss, abs=1e-9)
    assert measured.g.tolist() == pytest.approx((best.differences - 1.2 * c1).tolist(), abs=1e-8)
    G = torch.cat([(e.f - best.loss).reshape(1), e.g])
    assert float(made.dual_set.support(G).value) == pytest.approx(0.0, abs=1e-8)
    assert float(ovsmd.objective_alone(G, made)) == pytest.approx(0.0, abs=1e-8)
    y = torch.as_tensor(np.r_[1.0, best.multipliers] / (1 + best.multipliers.sum()))
    members = made.dual_set._lifted(y, torch.as_tensor([*_alphas(made, x)]))
    _, slope = made.gradient(x, full, lambda _: (members[0], members[1:]))
    assert float(slope.abs().max()) < 1e-7  # stationary: the multipliers of the cone program make it a saddle point


def _alphas(made, x):
    e = made.values(x, made.sample((0,), "a", 0, 1, "full"))
    v = e.g[-made.lifted :]
    return (v / (2 * made.dual_set.curvature)).tolist()


def test_the_four_verbs_against_differences():
    made = problem(rows(60))
    rng = torch.Generator().manual_seed(0)
    x = 0.3 * torch.randn(made.n, generator=rng, dtype=torch.float64)
    batch = made.sample((0,), "a", 0, 7, "uniform")
    _, jacobian = made.jacobian(x, batch)
    for i in range(made.n):
        step = torch.zeros_like(x)
        step[i] = 1e-6
        up, down = made.values(x + step, batch), made.values(x - step, batch)
        slope = torch.cat([(up.f - down.f).reshape(1), up.g - down.g]) / 2e-6
        assert torch.allclose(jacobian[:, i], slope, atol=1e-6)


@pytest.mark.parametrize("weights", [None, "drawn"])
def test_single_rows_are_unbiased(weights):
    data = rows(40)
    made = problem(data)
    if weights:
        X, y, group = data
        w = np.random.default_rng(1).uniform(0.2, 3, len(y))
        stated = f"auc_parity[group,surrogate=quadratic] <= {KAPPA}"
        made = PairSaddleProblem(
            FairProblem(MLP(4, bias=False), X, y, group, stated, objective="auc[surrogate=quadratic]",
                        domain=Ball(4.0), dtype=torch.float64, sample_weight=w)
        )  # fmt: skip
    x = 0.3 * torch.randn(made.n, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    whole = made.values(x, made.sample((0,), "a", 0, 1, "full"))
    seen, total = {}, 0.0
    for k in range(4000):
        batch = made.sample((0,), "a", k, 1, "uniform")
        row = int(batch.rows)
        if row not in seen:
            e = made.values(x, batch)
            seen[row] = torch.cat([e.f.reshape(1), e.g])
    assert len(seen) == 40
    total = torch.stack(list(seen.values())).mean(0)
    assert torch.allclose(total, torch.cat([whole.f.reshape(1), whole.g]), atol=1e-10)


def test_plain_numbers_are_the_tensors_steps():
    """The same rows in the same order through `methods/smd.py` and through `RowSaddle`: equal x, y, alpha and bound."""
    X, y, group = data = rows(50)
    made = problem(data, domain=Space(), reach=1.0)
    c, level = 0.02, 0.45
    method = SMD(level=level, step_size=c, scaling="none")
    draws = Draws(made, (0,), 1, "uniform")
    state = method.init(made, made.start((0,)), draws)
    order = made.problem.strata.order
    options = SaddleOptions(
        step_size=c,
        dual_step=c,
        inertia=made.dual_set.entropy_weight,
        reach=1.0,
        horizon=float("inf"),
        decay=0.5,
        least=10**9,
    )
    groups = Groups.of(group)
    cells = cells_of(groups, y, (0,))
    run = RowSaddle.start(
        pair_sums("auc_parity[group,surrogate=quadratic]", Occurring.of(groups, y), KAPPA), 4, options, level
    )
    run.counts = np.bincount(cells, minlength=6).astype(float).tolist()
    for k in range(80):
        i = order[int(draws("xi", k).rows)]
        state = method.step(state, made, draws)
        run.feed(X[i : i + 1], cells[i : i + 1], known=True)
        assert run.w.tolist() == pytest.approx(state.x[:4].tolist(), abs=1e-11)
    _, a0, b0, a, b = made.split(state.x)
    assert run.a == pytest.approx([float(a0), *a.flatten().tolist()], abs=1e-11)
    assert run.b == pytest.approx([float(b0), *b.flatten().tolist()], abs=1e-11)
    assert run.y == pytest.approx(state.call.y[:3].tolist(), abs=1e-11)
    assert run.alpha == pytest.approx(made.dual_set.alphas(state.call.y).tolist(), abs=1e-11)
    assert run.upper == pytest.approx(float(state.upper), abs=1e-11)
    assert run.point == pytest.approx(state.call.average[:4].numpy(), abs=1e-11)


def test_an_interval_that_is_too_short_grows():
    """Features of large means: a and b follow the sets' means out of the interval first given, and the bound is judged anew."""
    X, y, group = rows(1000)
    X = np.c_[X, np.full(1000, 3.0)]
    groups = Groups.of(group)
    asked = pair_sums("auc_parity[group,surrogate=quadratic]", Occurring.of(groups, y), KAPPA)
    run = RowSaddle.start(asked, 5, SaddleOptions(step_size=2e-3, reach=0.01, least=500))
    run.w[:] = [0.0, 0.0, 0.0, 0.0, 0.5]
    for _ in range(10):
        run.feed(X, cells_of(groups, y, (0,)))
    assert run.reach > max(map(abs, (*run.a, *run.b, *run.alpha))) and run.reach > 0.05


@pytest.mark.parametrize("seed", range(3))
def test_single_rows_reach_the_exact_optimum(seed):
    """Relative gap at most 0.05 and a violation of at most 0.01 after 20 passes over 1,000 rows."""
    X, y, group = data = rows(1000, seed=seed)
    best = optimum(data)
    groups = Groups.of(group)
    cells = cells_of(groups, y, (0,))
    asked = pair_sums("auc_parity[group,surrogate=quadratic]", Occurring.of(groups, y), KAPPA)
    run = RowSaddle.start(asked, 4, SaddleOptions(step_size=2e-3, least=1000))
    rng = np.random.default_rng(seed)
    for _ in range(20):
        order = rng.permutation(len(y))
        for part in np.array_split(order, 10):
            run.feed(X[part], cells[part])
    made = problem(data, reach=10.0)
    found = made.evaluate(torch.cat([torch.as_tensor(run.point), torch.zeros(made.n - 4)]).double())
    assert abs(float(found.f) - best.loss) <= 0.05 * (0.5 - best.loss) and float(found.g.max()) < 0.01 and run.outer > 3


def test_sfls_runs_on_the_lifted_set_unchanged():
    """Outer iterates are feasible, and the gap falls to less than half of the start's."""
    data = rows(1000)
    best, made = optimum(data), problem(data, reach=1.5)
    config = SFLS(
        level=0.5,
        theta=1.01,
        step_size=0.02,
        scaling="diameters",
        diameter=2.0,
        restart="last",
        margin="none",
        min_steps=30,
    )
    found = solve(made, config, budget="300 steps", batch_size=100, seed=0, sampling="balanced")
    assert bool(found.feasible) and int(found.state.outer) > 3
    assert float(made.evaluate(found.x).f) - best.loss < 0.5 * (0.5 - best.loss)


def test_confidence_on_the_lifted_set():
    """`highest` is the largest support over the box, against its corners."""
    dual, rng = LiftedSimplex((0, 1, 1), 0.7, 0.5), torch.Generator().manual_seed(0)
    for _ in range(20):
        G = torch.randn(5, generator=rng, dtype=torch.float64)
        margin = torch.rand(5, generator=rng, dtype=torch.float64)
        corners = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0], dtype=torch.float64)] * 5)
        largest = float(dual.support(G + corners * margin).value.max())
        assert float(dual.support(dual.highest(G, margin)).value) == pytest.approx(largest, abs=1e-12)


def test_what_is_refused():
    data = rows()
    with pytest.raises(OptionError, match="inner maximisations"):
        solve(problem(data), ALM(), budget="1 steps")
    X, y, group = data
    sigmoid = FairProblem(MLP(4, bias=False), X, y, group, "auc_parity[group] <= 0.1", objective="auc")
    with pytest.raises(OptionError, match="surrogate=quadratic"):
        PairSaddleProblem(sigmoid, 1.0)
    plain = FairProblem(MLP(4, bias=False), X, y, group, "auc_parity[group,surrogate=quadratic] <= 0.1")
    with pytest.raises(OptionError, match="objective"):
        PairSaddleProblem(plain, 1.0)
    with pytest.raises(OptionError, match="give reach"):
        problem(data, domain=Space())
    for wrong in ({"theta": 1.0}, {"step_size": 0.0}, {"decay": 1.0}):
        with pytest.raises(OptionError):
            SaddleOptions(**wrong)


def sigmoids():
    torch.manual_seed(0)
    return ModuleModel(nn.Sequential(nn.Linear(4, 10), nn.Sigmoid(), nn.Linear(10, 1)))


@pytest.mark.parametrize(
    "net",
    [
        pytest.param(lambda: MLP(4, (10,)), id="relu", marks=pytest.mark.long),
        pytest.param(sigmoids, id="sigmoids of the source"),
    ],
)
def test_iqrc_takes_networks_and_meets_the_surrogate_s_bound(net):
    """Algorithm 3 with SFLS inside, on the min-max form of two networks with one hidden layer; more than half of the
    way to the best linear score's loss."""
    X, y, group = data = rows(500)
    stated = f"auc_parity[group,surrogate=quadratic] <= {KAPPA}"
    inner = FairProblem(net(), X, y, group, stated, objective="auc[surrogate=quadratic]", dtype=torch.float64)
    made = PairSaddleProblem(inner, reach=1.5)
    found = solve(made, "proximal_point:iqrc", budget="600 steps", batch_size=100, seed=0)
    measured = made.evaluate(found.x)
    assert found.found and float(measured.g.max()) <= 0
    start = float(made.evaluate(made.start((0,))).f)
    assert start > 0.45 and float(measured.f) - optimum(data).loss < 0.5 * (start - optimum(data).loss)
    assert int(found.state.centres) == 2


def test_proximal_terms_leave_inner_maximisations_alone():
    made = problem(rows(60))
    rng = torch.Generator().manual_seed(0)
    x, centre = (0.3 * torch.randn(made.n, generator=rng, dtype=torch.float64) for _ in range(2))
    near, full = Proximal(made, centre, 0.7, on_constraints=True), made.sample((0,), "a", 0, 1, "full")
    added = 0.35 * float((x - centre).square().sum())
    plain, more = made.values(x, full), near.values(x, full)
    assert torch.allclose(more.g - plain.g, torch.tensor([added] * 2 + [0.0] * 5, dtype=torch.float64))
    _, J = near.jacobian(x, full)
    w = torch.randn(made.m, generator=rng, dtype=torch.float64)
    _, slope = near.gradient(x, full, lambda e: (0.4, w))
    assert torch.allclose(slope, 0.4 * J[0] + w @ J[1:], atol=1e-12)
