"""Where training begins besides zeros: under bounds through percentile intervals, and on the order of scores."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

import fairbound as fb
from fairbound.estimators import training
from fairbound.estimators.corrections.last_intercept import accurate_within_bounds
from fairbound.estimators.linear import other_starts
from fairbound.estimators.linear.other_starts import NEARLY, SPREAD, OtherStart, other_start
from fairbound.estimators.trained import Trained
from fairbound.fairness.objectives import Accuracy
from fairbound.fairness.problem import FairProblem
from fairbound.methods import FullBatchALM, algorithm
from fairbound.models.mlp import MLP
from fairbound.solver.solve import solve

STRAIGHT = fb.TableOptions(knots=0)
OPTIONS = {"budget": "40 steps", "seed": 0}


def groups_apart(seed, n=600):
    """Three groups that differ in both features."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 3, n)
    X = rng.normal(size=(n, 2)) + np.column_stack([0.8 * group, -0.5 * (group == 1)])
    return X, (X[:, 0] + X[:, 1] - 0.8 + 0.6 * rng.logistic(size=n) > 0).astype(int), group


@pytest.mark.parametrize("seed", range(4))
def test_a_bound_through_an_interval_gives_the_more_accurate_of_two_starts(seed, monkeypatch):
    X, y, group = groups_apart(seed)

    def fitted():
        model = fb.FairClassifier("partial_demographic_parity[0.2:0.6] <= 0.1", options=STRAIGHT, random_state=0)
        return model.fit(X, y, sensitive_features=group).fit_report_

    both = fitted()
    monkeypatch.setattr(training, "other_start", lambda *args, **options: None)
    one = fitted()
    assert both["feasible"] and both["accuracy"] >= one["accuracy"]
    taken = any("Begun at the model without bounds" in note for note in both["notes"])
    assert taken == (both["accuracy"] > one["accuracy"])


def test_it_begins_where_the_loss_without_bounds_is_lowest():
    """With the weight decay of 1 / n."""
    X, y, group = groups_apart(0)
    bound = "partial_equalized_odds[0.2:0.6] <= 0.1"
    problem = FairProblem(MLP(2), X, y, group, bound, objective=Accuracy(0.0), dtype=torch.float64)
    found = other_start(problem, FullBatchALM(), 0.0, **OPTIONS)
    slope = problem.jacobian(found.x, problem.full(), [0])[1][0]
    slope[:2] += found.x[:2] / len(y)
    assert float(slope.abs().max()) < 1e-5
    plain = FairProblem(MLP(2), X, y, group, "demographic_parity <= 0.1", objective=Accuracy(0.0))
    assert other_start(plain, FullBatchALM(), 0.0, **OPTIONS) is None


@pytest.mark.parametrize("bound", [0.03, 0.9])
def test_quotients_begin_without_bounds_too_where_they_cost_accuracy(bound, monkeypatch):
    """Of skewed features one is larger in one group; at 0.9 the bound costs nothing."""
    rng = np.random.default_rng(121)
    group = (rng.random(600) < 0.3).astype(int)
    X = np.exp(0.8 * rng.normal(size=(600, 2)))
    X[:, 0] *= 1 + group
    y = (X[:, 0] - X[:, 1] - 0.3 + 0.6 * rng.logistic(size=600) > 0).astype(int)
    stated, begun = f"predictive_parity <= {bound}", []
    problem = FairProblem(MLP(2), X, y, group, stated, objective=Accuracy(0.0), dtype=torch.float64)
    found = other_start(problem, FullBatchALM(), 0.0, **OPTIONS)
    free = ((X @ found.x[:2].numpy() + float(found.x[2]) > 0) == y).mean()
    assert abs(found.enough - (free - NEARLY)) < 1e-9
    usual = training._at_once

    def at_once(made, choice, options, *more):
        begun.append(usual(made, choice, options, *more))
        return begun[-1]

    monkeypatch.setattr(training, "_at_once", at_once)
    fb.FairClassifier(stated, options=STRAIGHT, random_state=0).fit(X, y, sensitive_features=group)
    assert len(begun) == (2 if bound < 0.1 else 1)
    assert bound > 0.1 or begun[1].accuracy() > begun[0].accuracy() + 0.02
    near = found._replace(enough=begun[0].accuracy())
    monkeypatch.setattr(training, "other_start", lambda *args, **options: near)
    begun.clear()
    fb.FairClassifier(stated, options=STRAIGHT, random_state=0).fit(X, y, sensitive_features=group)
    assert len(begun) == 1


@pytest.mark.parametrize("bound", ["partial_statistical_parity <= 0.3", "loss_gap <= 0.3"])
def test_an_area_begins_at_the_lowest_loss_under_its_bounds(bound):
    X, y, group = groups_apart(1)
    area, loss = (FairProblem(MLP(2), X, y, group, bound, objective=o, dtype=torch.float64) for o in ("auc", None))
    method = algorithm("full_batch_alm:thresholds")
    found = other_start(area, method, 0.0, **OPTIONS)
    scores = area.all_scores(found.x)
    assert abs(float(scores.std()) - SPREAD) < 1e-9
    own = fb.solve(loss, method, sampling="full", **OPTIONS).x
    assert torch.allclose(own / own.norm(), found.x / found.x.norm(), atol=1e-9)
    assert found.method.penalty > method.penalty and found.method.sharpness == method.sharpness[:1]
    areas = FairProblem(MLP(2), X, y, group, "auc_parity[group] <= 0.1", objective="auc")
    assert other_start(areas, method, 0.0, **OPTIONS) is None


@pytest.mark.parametrize("seed", range(3))
def test_the_largest_area_under_a_bound_on_distributions_is_not_left_for_flat_scores(seed):
    """The area is not below that of the lowest loss under the same bound, which it begins at; as many rows are decided
    rightly as by the best of 200 ranks, and scores are logits."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, 600)
    X = rng.normal(size=(600, 3)) + 0.5 * group[:, None] * [1, 0, -1]
    y = (X[:, 0] + 0.7 * X[:, 1] + rng.logistic(size=600) > 0.5).astype(int)
    bound = "partial_statistical_parity <= 0.2"

    def fitted(objective):
        model = fb.FairClassifier(bound, objective=objective, options=STRAIGHT, random_state=0)
        model.fit(X, y, sensitive_features=group)
        assert model.fit_report_["feasible"] and model.solution_.found
        return model.decision_function(X)

    scores, others = fitted("auc"), fitted("loss")
    area = lambda s: (s[y == 1][:, None] > s[y == 0]).mean()  # noqa: E731
    assert area(scores) >= area(others) - 0.002
    ends = np.sort(scores)[np.linspace(0, len(y) - 1, 201).astype(int)]
    best = max(((scores > end) == y).mean() for end in ends)
    assert ((scores > 0) == y).mean() >= best - 1 / 200
    loss = lambda s: np.logaddexp(0, np.where(y == 1, -s, s)).mean()  # noqa: E731
    assert loss(scores) <= min(loss(2 * scores), loss(scores / 2)) + 1e-9


def test_thresholds_move_with_the_scores_to_where_decisions_are_right():
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, 600)
    X = rng.normal(size=(600, 2))
    y = (X[:, 0] + rng.logistic(size=600) > 0).astype(int)
    bound = "partial_statistical_parity <= 0.3"
    problem = FairProblem(MLP(2), X, y, group, bound, objective="auc", dtype=torch.float64)
    method = algorithm("full_batch_alm:thresholds")
    x = other_start(problem, method, 0.0, **OPTIONS).x.clone()
    x[2:] += 20.0
    solution = fb.solve(problem, method, sampling="full", budget="1 steps", x0=x)
    before = Trained(problem, None, replace(solution, x=x), method, fb.Budget(steps=1), [], [])
    after = accurate_within_bounds(before)
    assert float(after.measured().violation) <= 0
    assert before.accuracy() < 0.6 and after.accuracy() > 0.65
    apart = (after.solution.x[3:] - after.solution.x[2]) / (x[3:] - x[2])
    assert torch.allclose(apart, apart[:1].expand_as(apart))


@pytest.mark.filterwarnings("ignore")
def test_a_run_before_counts_and_its_interruption_ends_training(monkeypatch):
    X, y, group = groups_apart(0)
    before, runs, whole, at_once = [], [], other_starts.solve, training._at_once

    def first(*given, stopped=None, **options):
        before.append(whole(*given, **options))
        return replace(before[-1], stopped=stopped or before[-1].stopped)

    def fitted(bound, steps=3):
        model = fb.FairClassifier(bound, objective="auc", options=STRAIGHT, random_state=0, budget=f"{steps} steps")
        return model.fit(X, y, sensitive_features=group)

    monkeypatch.setattr(training, "_at_once", lambda *given: runs.append(at_once(*given)) or runs[-1])
    monkeypatch.setattr(other_starts, "solve", first)
    fair = fitted("partial_statistical_parity <= 0.1")
    assert len(runs) == 1  # from zeros nothing begins where thresholds are trained too
    assert fair.fit_report_["steps"] == before[0].steps + runs[0].solution.steps > before[0].steps
    steps = [row["step"] for row in fair.solution_.records]
    assert steps == sorted(steps) and steps[-1] == fair.fit_report_["steps"]
    monkeypatch.setattr(other_starts, "solve", partial(first, stopped="interrupted"))
    for bound, usual in (("partial_statistical_parity <= 0.1", 0), ("loss_gap <= 0.01", 1)):
        runs.clear()
        fair = fitted(bound, steps=40)
        assert len(runs) == usual and fair.solution_.interrupted
        assert "interrupted" in " ".join(fair.fit_report_["notes"])


def test_a_start_that_meets_the_bounds_is_a_model_that_was_found():
    X, y, group = groups_apart(0)
    problem = FairProblem(MLP(2), X, y, group, "demographic_parity <= 0.9")
    start = OtherStart(problem.start((0,)), FullBatchALM(), "said")
    solution = solve(problem, FullBatchALM(), budget="1 steps", sampling="full")
    at_start = replace(solution, best_step=torch.zeros_like(solution.best_step), feasible=torch.tensor(True))
    assert start.counted(at_start).found and not at_start.found
    missed = replace(at_start, feasible=torch.tensor(False))
    assert not start.counted(missed).found and int(start.counted(missed).best_step) == 0
    before = replace(solution, feasible=torch.tensor(True), best_step=torch.tensor(0))
    assert not start._replace(before=before).counted(at_start).found
    assert start._replace(before=replace(before, best_step=torch.tensor(1))).counted(at_start).found
