"""Rates of groups that are equal to the last row meet a bound of 0, however their sums are rounded."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import log_loss

import fairbound as fb
from fairbound.estimators.linear.swept_intercept import SWEPT
from fairbound.fairness.problem import FairProblem
from fairbound.models.mlp import MLP
from fairbound.optim import finish
from fairbound.rows.groups import Groups

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore::fairbound.base.errors.DataWarning"
)
STATED = [
    "demographic_parity <= 0",
    "equalized_odds <= 0",
    "demographic_parity[overall] <= 0",
    "demographic_parity_ratio >= 1",
]


def rows(seed, n=1003):
    rng = np.random.default_rng(seed)
    race = rng.choice(["a", "b", "c"], n, p=[0.6, 0.3, 0.1])
    X = rng.normal(size=(n, 3)) + 0.6 * (race == "a")[:, None]
    return X, (X.sum(1) + rng.logistic(size=n) > 0.9).astype(int), race


@pytest.mark.parametrize("hidden", [(), (4,)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("stated", STATED)
@pytest.mark.parametrize("seed", range(3))
def test_one_decision_for_all_meets_a_bound_of_0(stated, seed, dtype, hidden):
    X, y, race = rows(seed, n=997 + 331 * seed)
    made = FairProblem(MLP(3, hidden), torch.as_tensor(X, dtype=dtype), y, Groups.of(race), stated, dtype=dtype)
    x, value = torch.zeros(made.n, dtype=dtype), float("ratio" in stated)
    for intercept in (1.0, -1.0):
        x[-1] = intercept
        found = made.evaluate(x)
        assert float(found.violation) == 0
        assert float(found.extra["stated"]) == pytest.approx(value, abs=1e-6)
        assert float(made.reported(x).extra["stated"]) == pytest.approx(value, abs=1e-12 * value)


@pytest.mark.parametrize("bound", [0.0, 1e-9])
def test_rates_that_differ_by_less_than_float32_tells_are_not_equal_in_all_rows_at_once(bound):
    """46,341 rows of one group and 46,342 of another: k / n of either never lie closer than 1 / n^2 = 4.7e-10."""
    n = 46_341
    x = np.r_[np.arange(n) < n // 2, np.arange(n + 1) < n // 2].astype(float) - 0.5
    race = np.repeat(["a", "b"], [n, n + 1])
    made = FairProblem(MLP(1, ()), torch.as_tensor(x[:, None], dtype=torch.float32), x > 0, Groups.of(race), f"demographic_parity <= {bound}")  # fmt: skip
    apart = n // 2 / n - n // 2 / (n + 1)
    found = made.evaluate(torch.tensor([1.0, 0.0]))
    assert float(found.violation) == pytest.approx(apart - bound, rel=1e-4) and apart > 1e-5


def test_means_of_numbers_are_not_rounded_away():
    """Residuals of 1e-9, far below the rounding of rates."""
    X, _, race = rows(0)
    tiny = 1e-9 * X[:, 0]
    made = FairProblem(MLP(3, ()), torch.as_tensor(X, dtype=torch.float32), tiny, Groups.of(race), "residual_gap <= 1e-10", loss="squared")  # fmt: skip
    means = [tiny[race == g].mean() for g in "abc"]
    assert float(made.evaluate(torch.zeros(made.n)).violation) == pytest.approx(
        max(means) - min(means) - 1e-10, rel=1e-4
    )


@pytest.mark.parametrize("notion", ["demographic_parity", "equalized_odds", "equal_opportunity"])
def test_of_the_models_that_meet_a_bound_of_0_the_most_accurate_is_taken(notion):
    """Of loanapp 88 % of the applications were approved: to refuse all is no model."""
    data = fb.data.load("loanapp")
    fair = fb.FairClassifier(f"{notion} <= 0").fit(data.X, data.y, sensitive_features=data.group("race"))
    assert fair.score(data.X, data.y) >= data.y.mean() and SWEPT in fair.fit_report_["notes"]
    assert fair.fit_report_["feasible"] and fair.fit_report_["constraints"][0]["train_value"] == 0
    assert fair.fit_report_["train_loss"] < log_loss(data.y, np.full(len(data.y), data.y.mean())) - 0.05


@pytest.mark.parametrize("seed", range(5))
def test_a_perfect_model_of_equal_rates_meets_a_bound_of_0(seed):
    """The label is the sign of the feature, and as large a share of both groups is positive."""
    rng = np.random.default_rng(seed)
    tenths, (a, b) = rng.integers(1, 10), 10 * rng.integers(2, 200, 2)
    x = np.concatenate([np.where(np.arange(n) < n * tenths // 10, 1.0, -1.0) for n in (a, b)])
    fair = fb.FairClassifier("demographic_parity <= 0")
    assert fair.fit(x[:, None], x > 0, sensitive_features=np.repeat(["a", "b"], [a, b])).score(x[:, None], x > 0) == 1


def test_the_end_of_a_loop_under_a_bound_of_0_is_no_worse_than_the_better_answer_for_all():
    X, y, race = rows(1)
    assert y.mean() > 0.5
    x, net = torch.tensor(X, dtype=torch.float32), torch.nn.Sequential(torch.nn.Linear(3, 1))
    with torch.no_grad():
        net[0].weight.fill_(1.0)
        net[0].bias.fill_(-0.9)
    assert finish(net, "demographic_parity <= 0", x, y, race).feasible
    with torch.no_grad():
        assert ((net(x).squeeze(1) > 0).numpy() == y).mean() >= y.mean()
