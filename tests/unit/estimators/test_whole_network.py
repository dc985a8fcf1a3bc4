"""A network trained further on all rows: how many rounds, on which rows, and what stays as it was."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sparse
import torch

import fairbound as fb
from fairbound.estimators import whole_network
from fairbound.models.mlp import MLP
from fairbound.problems.problem import Draws


def table(n, seed, labels="learnable"):
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b"], n)
    X = rng.normal(size=(n, 4)) + (group == "b")[:, None]
    score = X[:, 0] * X[:, 1] + X[:, 2] if labels == "learnable" else np.zeros(n)
    return X.astype(np.float32), (score + rng.normal(size=n) > 0.5).astype(int), group


def begun(X, y, group, *, bounds="demographic_parity <= 0.05", steps=100, hidden=(8,)):
    problem = fb.FairProblem(MLP(4, hidden), X, y, group, bounds)
    return problem, fb.solve(problem, "alm", budget=f"{steps} steps", seed=0)


def test_the_cheapest_record_prices_what_is_exceeded():
    """y = (2, 1): 0.50 + 2 * 0.02 = 0.54, 0.51 + 0.02 = 0.53, 0.52 with room (0.52), and 0.60 with a bound that nobody can tell."""
    at = [(0.50, [0.02, -1.0]), (0.51, [-1.0, 0.02]), (0.52, [-0.5, -0.5]), (0.60, [float("nan"), -1.0])]
    records = [{"step": k, "validation": {"f": f, "g": g}} for k, (f, g) in enumerate(at)]
    prices = torch.tensor([2.0, 1.0])
    assert whole_network.cheapest(records, prices) == 2
    assert (
        whole_network.cheapest(records[:2], prices) == 1
        and whole_network.cheapest(records[:1] + records[3:], prices) == 0
    )
    assert whole_network.cheapest(records[:2], torch.zeros(2)) == 0


@pytest.mark.parametrize("thin", [False, True])
def test_two_parts_hold_every_row_once(thin):
    """The weighted mean of their losses is that of all rows, at any point, and each has its share of every group."""
    X, y, group = table(500, 0)
    weight = np.random.default_rng(1).random(500)
    problem = fb.FairProblem(
        MLP(4, (5,)), sparse.csr_matrix(X) if thin else X, y, group, "loss_gap <= 0.1", sample_weight=weight,
        dtype=torch.float64,
    )  # fmt: skip
    x = problem.start((0,)) + 0.1
    parts = whole_network._parts(problem, 0)
    assert [part.rows for part in parts] == [400, 100]
    total = sum(part.row_weight.sum() * part.evaluate(x).f for part in parts)
    assert float(total) == pytest.approx(float(weight.sum() * problem.evaluate(x).f), rel=1e-9)
    for name in ("a", "b"):
        counts = [np.sum(np.array(part.groups.labels[0])[part.groups.codes[:, 0]] == name) for part in parts]
        assert sum(counts) == (group == name).sum() and abs(counts[1] - 0.2 * sum(counts)) <= 2


@pytest.mark.parametrize("seed", range(2))
def test_the_rounds_are_those_of_the_method_and_the_best_model_stays(seed):
    X, y, group = table(1500, seed)
    problem, before = begun(X, y, group)
    after, rounds = whole_network.trained_further(problem, before, seed, False)
    assert rounds > 0 and after.steps == before.steps + rounds
    method = fb.FullBatchALM(sharpness=(8.0,))
    draws = Draws(problem, (0,), 64, "full")
    state = method.init(problem, before.last.clone(), draws)
    for _ in range(rounds):
        state = method.step(state, problem, draws)
    assert torch.equal(after.last, state.x) and not torch.equal(after.last, before.last)
    assert (
        torch.equal(after.x, before.x)
        and torch.equal(after.feasible, before.feasible)
        and after.message == before.message
    )
    assert float(problem.evaluate(after.last).f) < float(problem.evaluate(before.last).f)


@pytest.mark.parametrize("seed", range(3))
def test_labels_by_chance_are_not_learnt_by_heart(seed):
    """A network that has begun to learn 200 labels by chance gains nothing on other rows."""
    X, y, group = table(200, seed, labels="chance")
    problem, before = begun(X, y, group, steps=800, hidden=(32,))
    assert whole_network.trained_further(problem, before, seed, False) == (before, 0)


def test_where_no_rounds_are_made(monkeypatch):
    X, y, group = table(300, 0)
    problem, before = begun(X, y, group)
    free = begun(X, y, group, bounds=None)
    alone = begun(X, y, np.where(np.arange(300) == 7, "z", group), bounds="demographic_parity <= 0.5")
    ranked = fb.FairProblem(MLP(4, (8,)), X, y, group, "auc_parity[inter] <= 0.1", objective="auc")
    interrupted = replace(before, stopped="interrupted")
    for on, given in (free, alone, (ranked, before), (problem, interrupted)):
        assert whole_network.trained_further(on, given, 0, False) == (given, 0)
    rounds = whole_network._rounds
    monkeypatch.setattr(whole_network, "_rounds", lambda *a: replace(rounds(*a), stopped="interrupted"))
    stopped, made = whole_network.trained_further(problem, before, 0, False)
    assert stopped.stopped == "interrupted" and made == 0 and torch.equal(stopped.last, before.last)
    monkeypatch.setattr(whole_network, "MOST_ROWS", 299)
    assert whole_network.trained_further(problem, before, 0, False) == (before, 0)


def test_the_classifier_says_so_and_meets_its_bound():
    X, y, group = table(1500, 0)
    model = fb.FairClassifier("demographic_parity <= 0.05", model="mlp:8", budget="100 steps", random_state=0)
    positive = model.fit(X, y, sensitive_features=group).predict(X)
    assert abs(positive[group == "a"].mean() - positive[group == "b"].mean()) <= 0.05 + 1e-12
    assert any("all rows at once (rounds: " in note for note in model.fit_report_["notes"])
