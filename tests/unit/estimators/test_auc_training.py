"""objective="auc" under bounds on areas: the true bound is met, from the quadratic loss's solution or by a nearer surrogate."""

import warnings

import numpy as np
import pytest

import fairbound as fb
from fairbound.base.errors import DataWarning
from fairbound.estimators import training
from fairbound.estimators.linear import auc_training
from fairbound.estimators.linear.auc_training import _threshold, auc_start, ranks_only
from fairbound.estimators.networks.last_layer import last_layer, with_last_layer_solved
from fairbound.fairness.problem import FairProblem
from fairbound.models.mlp import MLP
from fairbound.ranking.wins import auc
from fairbound.solver.budget import Budget
from fairbound.solver.solve import solve


def rows(n=400, seed=0, intra=False):
    """Scores of group b are noisier where `intra`, so that one group is ranked better within itself."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    group = np.where(rng.random(n) < 1 / (1 + np.exp(-2 * X[:, 1])), "a", "b")
    noise = np.where(group == "a", 0.3, 2.0) if intra else 0.5
    y = (X[:, 0] + 1.2 * X[:, 1] * ~np.bool_(intra) + noise * rng.normal(size=n) > 0.3).astype(int)
    return X, y, group


def areas(model, data, kind):
    X, y, group = data
    scores = model.decision_function(X)
    return auc(scores, y == 1, y == 0), fb.measure(f"auc_parity[{kind}]", scores, y, group, threshold=0)


@pytest.mark.parametrize("kind", ["group", pytest.param("inter", marks=pytest.mark.long), "intra"])
def test_the_true_bound_is_met_and_the_report_says_by_what(kind):
    data = rows(300, intra=kind == "intra")
    X, y, group = data
    free = fb.FairClassifier(f"auc_parity[{kind}] <= 1", objective="auc").fit(X, y, sensitive_features=group)
    bound = 0.4 * areas(free, data, kind)[1]
    made = fb.FairClassifier(f"auc_parity[{kind}] <= {bound}", objective="auc").fit(X, y, sensitive_features=group)
    found, value = areas(made, data, kind)
    assert made.fit_report_["feasible"] and value <= bound + 1e-9 and found <= areas(free, data, kind)[0] + 1e-3
    assert "surrogate that met the bound" in made.fit_report_["notes"][-1]
    problem = FairProblem(MLP(4), X, y, group, f"auc_parity[{kind}] <= {bound}", objective="auc")
    start = auc_start(problem)
    if start.met:  # no worse than the exact solution under the quadratic loss that the true areas chose
        assert found >= 1 - float(problem.evaluate(start.x).f) - 1e-6


@pytest.mark.parametrize("weighted", [False, True])
def test_scores_are_stretched_to_the_logits_of_the_lowest_log_loss(weighted):
    X, y, group = rows(300)
    weight = np.random.default_rng(1).uniform(0.1, 3, 300) if weighted else np.ones(300)
    made = fb.FairClassifier("auc_parity[group] <= 0.1", objective="auc")
    scores = made.fit(X, y, sensitive_features=group, sample_weight=weight if weighted else None).decision_function(X)
    losses = [float(weight @ np.logaddexp(0, -(2 * y - 1) * a * scores)) for a in (0.5, 1.0, 2.0)]
    assert losses[1] == min(losses) and losses[1] / weight.sum() < 0.65
    assert np.abs(made.predict_proba(X)[:, 1] - y).mean() < 0.5


def test_a_network_that_hardly_trained_ends_with_a_last_layer_that_ranks_and_decides():
    X, y, group = data = rows(300)
    made = fb.FairClassifier(
        "auc_parity[group] <= 0.3", model="mlp:8", objective="auc", budget="20 steps", random_state=0
    )
    scores = made.fit(X, y, sensitive_features=group).decision_function(X)
    found, value = areas(made, data, "group")
    assert value <= 0.3 + 1e-9 and found > 0.7
    assert (made.predict(X) == y).mean() > max(y.mean(), 1 - y.mean())
    losses = [float(np.logaddexp(0, -(2 * y - 1) * a * scores).sum()) for a in (0.5, 1.0, 2.0)]
    assert losses[1] == min(losses)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("steps", [1, 100])
def test_the_last_layer_begins_at_the_better_of_what_it_has_and_the_exact_solution(seed, steps):
    """It ends with no smaller area than either that meets the bound, and with the bound met."""
    X, y, group = rows(400, seed=seed)
    problem = FairProblem(MLP(4, (3,)), X, y, group, "auc_parity[group] <= 0.1", objective="auc")
    before = solve(problem, fb.ALM(), budget=f"{steps} steps", seed=seed)
    own = last_layer(problem, before.last, "no", problem.plan)
    start = auc_start(own)
    after, _ = with_last_layer_solved(problem, None, before, refined="no", budget=Budget(steps=1))
    found = problem.evaluate(after.x)
    assert start is not None and float(found.violation) <= 1e-6
    there = [own.evaluate(x) for x in (start.x, before.last[-own.model.n :])]
    assert all(float(found.f) <= float(e.f) + 1e-6 for e in there if float(e.violation) <= 0)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("strict", [0, 1])
def test_the_start_meets_the_bound_on_validation_rows_too(seed, strict):
    """The groups of one of the two parts lie further apart, so that the bound is harder to meet there."""
    X, y, group = rows(600, seed=seed)
    parts = [(X, y, group), (X, y, group)]
    parts[strict] = X, y, np.where(X[:, 1] > 0, "a", "b")
    made, held = (FairProblem(MLP(4), *part, "auc_parity[group] <= 0.1", objective="auc") for part in parts)
    alone, both = auc_start((made, held)[1 - strict]), auc_start(made, held)
    assert both.met and all(float(part.evaluate(both.x).violation) == 0 for part in (made, held))
    assert float((made, held)[strict].evaluate(alone.x).violation) > 0  # chosen by the other part alone


def test_the_start_nearest_to_a_bound_that_none_meets():
    made, loose = (FairProblem(MLP(4), *rows(), f"auc_parity[group] <= {b}", objective="auc") for b in ("0.0000001", 1))
    near, free = auc_start(made), auc_start(loose)
    missed = [float(made.evaluate(start.x).violation) for start in (near, free)]
    assert not near.met and free.met and missed[0] < 0.2 * missed[1]


def test_where_positive_begins_decides_most_rows_rightly():
    X, y, group = rows()
    made = fb.FairClassifier("auc_parity[group] <= 0.1", objective="auc").fit(X, y, sensitive_features=group)
    scores = made.decision_function(X)
    cuts = np.r_[-np.inf, np.sort(scores)]
    assert made.score(X, y) == pytest.approx(max(((scores > c) == y).mean() for c in cuts), abs=2e-3)
    assert not made.fit_report_["no_better_than_constant"]


@pytest.mark.parametrize("weighted", [False, True])
def test_the_threshold_against_trying_all(weighted):
    rng = np.random.default_rng(0)
    for _ in range(30):
        X, y = rng.integers(0, 4, (9, 1)).astype(float), rng.integers(0, 2, 9)
        w = rng.integers(1, 4, 9).astype(float) if weighted else None
        problem = FairProblem(MLP(1), X, y, sample_weight=w)
        order = problem.strata.order
        each = np.ones(9) if w is None else w
        cut = _threshold(problem, X[order, 0])
        right = [(each * ((X[:, 0] > c) == (y == 1))).sum() for c in (-1, 0.5, 1.5, 2.5, 9)]
        assert (each * ((X[:, 0] > cut) == (y == 1))).sum() == max(right)


def test_bounds_on_decisions_under_an_objective_of_ranks_are_warned_of():
    X, y, group = rows(200)
    fits = (
        ("demographic_parity <= 0.1", "auc"),
        ("auc_parity[group] <= 0.3", "auc"),
        ("demographic_parity <= 0.1", "loss"),
    )
    for bound, objective in fits:
        made = fb.FairClassifier(bound, objective=objective, budget="20 steps", random_state=0)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            made.fit(X, y, sensitive_features=group)
        right = f"in {100 * np.mean(made.predict(X) == y):.1f} % of the training rows"
        told = [w for w in made.fit_report_["warnings"] if "order of the scores alone" in w]
        assert [right in w for w in told] == ([True] if (bound, objective) == fits[0] else [])
        assert bool(told) == any("order of the scores alone" in str(w.message) for w in seen)


def test_other_objectives_and_bounds_go_their_own_way():
    X, y, group = rows(200)
    both = ["auc_parity[group] <= 0.1", "demographic_parity <= 0.1"]
    mixed = FairProblem(MLP(4), X, y, group, both, objective="auc")
    loss = FairProblem(MLP(4), X, y, group, both[0])
    network = FairProblem(MLP(4, (3,)), X, y, group, both[0], objective="auc")
    assert not any(ranks_only(p) for p in (mixed, loss, network))
    two = FairProblem(MLP(4), X, y, group, ["auc_parity[group] <= 0.1", "auc_parity[intra] <= 0.1"], objective="auc")
    assert ranks_only(two) and auc_start(two) is None


def test_many_pairs_of_groups_are_warned_of_at_once(monkeypatch):
    """Before training, which is kept from beginning here."""
    rng = np.random.default_rng(0)
    X, y, group = rng.normal(size=(960, 2)), rng.integers(0, 2, 960), np.arange(960) % 48
    monkeypatch.setattr(training, "_at_once", lambda *_: pytest.fail("training begins"))
    fair = fb.FairClassifier("auc_parity[group] <= 0.4", objective="auc")
    with (
        pytest.warns(DataWarning, match=r"auc_parity\[group\] <= 0.4 compares 1,128 pairs of groups.*fewest=50"),
        pytest.raises(pytest.fail.Exception, match="training begins"),
    ):
        fair.fit(X, y, group)
    with warnings.catch_warnings(record=True) as caught, pytest.raises(pytest.fail.Exception):
        warnings.simplefilter("always")
        fair.fit(X, y, group // 2)
    assert not any("pairs of groups" in str(w.message) for w in caught)


def test_the_exact_start_is_left_out_where_its_matrices_are_too_many(monkeypatch):
    X, y, group = rows(300)
    problem = FairProblem(MLP(4), X, y, group, "auc_parity[group] <= 0.1", objective="auc")
    assert auc_start(problem) is not None
    monkeypatch.setattr(auc_training, "MOST_NUMBERS", problem.m * problem.model.n**2 - 1)
    assert auc_start(problem) is None
