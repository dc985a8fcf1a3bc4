"""Scores of a model that was moved have the scale at which probabilities are nearest those of the model without bounds."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import expit
from sklearn.metrics import log_loss

from fairbound import FairClassifier, FairProblem
from fairbound.estimators.linear.lowest_loss import lowest_loss
from fairbound.estimators.linear.scale_of_scores import scaled
from fairbound.fairness.objectives import Accuracy
from fairbound.models.mlp import MLP

RNG = np.random.default_rng(0)
X = RNG.normal(size=(800, 8))
GROUP = RNG.integers(0, 2, 800)
Y = (X[:, 0] + 0.5 * GROUP + 0.2 * X[:, 7] + RNG.normal(size=800) > 0).astype(int)


def made(bound="demographic_parity <= 0.02", **options):
    model = options.pop("model", MLP(8))
    return FairProblem(model, X, Y, GROUP, bound, objective=Accuracy(0.5), dtype=torch.float64, **options)


@pytest.mark.parametrize("by", [0.02, 20.0])
def test_probabilities_are_nearest_those_without_bounds_and_decisions_stay(by):
    problem = made("demographic_parity <= 1", sample_weight=RNG.uniform(0.5, 2, 800))
    x = by * torch.tensor([1.0, *[0.3] * 7, -0.4], dtype=torch.float64)
    other = scaled([problem], x, 0.1)
    before, after = problem.evaluate(x), problem.evaluate(other)
    assert before.extra["accuracy"] == after.extra["accuracy"] and torch.equal(before.g, after.g)
    near = problem.all_scores(lowest_loss(problem, 0.1)).sigmoid().numpy()
    weight = problem.weight_of_rows().numpy()

    def far(scale):
        p = expit(scale * problem.all_scores(other).numpy())
        return -np.average(near * np.log(p) + (1 - near) * np.log1p(-p), weights=weight)

    assert far(1.0) < min(far(0.9), far(1.1))


@pytest.mark.parametrize(("columns", "bias"), [(8, False), (3, True)])
def test_where_the_model_without_bounds_is_not_fitted_the_loss_is_lowest(columns, bias):
    """Without an intercept, and where rows are many beside the weights."""
    model, x = MLP(columns, bias=bias), 0.02 * torch.linspace(1.0, -0.4, columns + bias, dtype=torch.float64)
    problem = FairProblem(
        model,
        X[:, :columns],
        Y,
        GROUP,
        "demographic_parity <= 1",
        objective=Accuracy(0.5),
        dtype=torch.float64,
        sample_weight=RNG.uniform(0.5, 2, 800),
    )
    other, loss = scaled([problem], x, 0.1), problem.with_objective(Accuracy(0.0))
    nearby = [float(loss.evaluate(scale * other).f) for scale in (0.9, 1.1)]
    assert float(loss.evaluate(other).f) < min(nearby)
    assert torch.allclose(other / other.norm(), x / x.norm())


def test_a_scale_that_misses_a_bound_or_changes_little_is_not_taken():
    problem = made("loss_gap <= 0.01")
    x = 0.001 * torch.eye(9, dtype=torch.float64)[0]
    assert float(problem.evaluate(x).violation) <= 0
    assert scaled([problem], x, 0.0) is x
    assert scaled([made(), problem], x, 0.0) is x
    free = made("demographic_parity <= 1")
    best = scaled([free], x, 0.0)
    near = 1.01 * best
    assert best is not x and scaled([free], near, 0.0) is near


def rare(n, seed):
    """Rows of which 6 % are positive, and features of which one says anything."""
    rng = np.random.default_rng(seed)
    group, X = rng.integers(0, 2, n), rng.normal(size=(n, 20))
    return X, (X[:, 0] + group + 1.5 * rng.normal(size=n) > 3.5).astype(int), group


def test_with_the_fewest_wrong_decisions_probabilities_say_more_than_the_share_of_positive_rows():
    (X, y, group), (new, labels, _) = rare(1500, 0), rare(5000, 1)
    model = FairClassifier("demographic_parity <= 0.01", objective="accuracy").fit(X, y, sensitive_features=group)
    assert model.fit_report_["optimality"]["error_share"] > 0
    loss = log_loss(labels, model.predict_proba(new)[:, 1])
    assert loss < log_loss(labels, np.full(len(labels), y.mean())) - 0.003
    assert model.fit_report_["train_loss"] == pytest.approx(log_loss(y, model.predict_proba(X)[:, 1]), abs=1e-5)
