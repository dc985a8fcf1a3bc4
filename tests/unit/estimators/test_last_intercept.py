"""The last intercept of a model: where it lies, and that it is moved to meet bounds that no iterate met."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import fairbound as fb
from fairbound.estimators.corrections.last_intercept import best_constant
from fairbound.estimators.trained import Trained
from fairbound.models.mlp import MLP
from fairbound.models.model import ModuleModel
from fairbound.models.scoring import last_intercept
from fairbound.solver.budget import Budget


class Twice(nn.Module):
    """Its last parameter of one number is added to the score twice, the one before it once."""

    def __init__(self):
        super().__init__()
        self.body, self.twice = nn.Linear(3, 1), nn.ParameterList([torch.zeros(1)])

    def forward(self, rows):
        return self.body(rows) + 2 * self.twice[0]


@pytest.mark.parametrize(
    ("model", "at"),
    [
        (MLP(3, (4,)), slice(20, 21)),
        (ModuleModel(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Dropout(), nn.Linear(4, 1))), slice(20, 21)),
        (ModuleModel(nn.Linear(3, 2), 2), slice(6, 8)),
        (ModuleModel(Twice()), slice(3, 4)),
        (ModuleModel(nn.Sequential(nn.Linear(3, 1), nn.ReLU())), None),
        (ModuleModel(nn.Sequential(nn.Linear(3, 1), nn.Linear(1, 1, bias=False))), None),
    ],
    ids=["mlp", "module", "two outputs", "added twice", "cut at 0", "no bias"],
)
def test_the_last_intercept_is_what_each_score_grows_by(model, at):
    torch.manual_seed(0)
    x = torch.randn(model.n)
    assert last_intercept(model, x, torch.randn(40, 3)) == at


def rows() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """600 rows of two groups and one of three rows."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 3)).astype("float32")
    y = (x[:, 0] + 0.5 * rng.normal(size=600) > 0).astype(int)
    group = np.where(x[:, 1] + 0.7 * x[:, 0] > 0, "a", "b").astype(object)
    group[:3] = "c"
    return x, y, group


def fit(module: nn.Module, bound: str = "demographic_parity <= 0.05", **options) -> fb.FairClassifier:
    x, y, group = rows()
    fair = fb.FairClassifier(bound, model=module, algorithm="sgd", budget="200 steps", random_state=0, **options)
    return fair.fit(x, y, sensitive_features=group)


def network(bias: bool = True) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1, bias=bias))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("validation", [0, 0.3])
def test_a_module_that_met_no_bound_has_its_intercept_moved_until_it_does(validation):
    x, y, group = rows()
    fair = fit(network(), validation=validation)
    assert fair.fit_report_["feasible"] and "last intercept was moved" in fair.fit_report_["message"]
    assert fb.measure("demographic_parity", fair.predict(x), y, group) <= 0.05 or validation
    start = network()
    assert not torch.equal(fair.x_[:24], start[0].weight.detach().ravel())  # the last iterate's layers, not the start's


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_of_the_ranks_that_meet_the_bound_the_one_of_lowest_loss_is_taken():
    x, y, group = rows()
    fair = fit(network(), "demographic_parity <= 0.3")
    scores, taken = fair.decision_function(x), fair.fit_report_["train_loss"]
    met = 0
    for move in np.linspace(-scores.max() - 1, -scores.min() + 1, 50):
        moved = scores + move
        if fb.measure("demographic_parity", (moved > 0).astype(int), y, group) <= 0.3:
            met += 1
            assert np.logaddexp(0, np.where(y == 1, -moved, moved)).mean() > taken - 0.02
    assert met > 2


@pytest.mark.filterwarnings("ignore::fairbound.DataWarning")
def test_a_module_without_last_intercept_is_not_told_that_a_bound_that_one_answer_meets_is_infeasible():
    with pytest.warns(match="same answer for every row meets the bounds.*A bias in the last layer"):
        fair = fit(network(bias=False))
    assert not fair.fit_report_["feasible"] and "may be infeasible" not in fair.fit_report_["message"]


@pytest.mark.parametrize("by_accuracy", [True, False])
def test_a_network_of_many_right_decisions_and_large_scores_gives_way_to_a_constant_by_its_loss_alone(by_accuracy):
    """Wrong rows of scores that large lose more than the same score for all rows does, and are a fifth of them."""
    rng = np.random.default_rng(0)
    X, group = rng.normal(size=(500, 1)).astype("float32"), rng.integers(0, 2, 500)
    y = ((X[:, 0] > 0) ^ (rng.random(500) < 0.2)).astype(int)
    problem = fb.FairProblem(MLP(1, (2,)), X, y, group, "demographic_parity <= 0.3")
    x = torch.tensor([1.0, -1.0, 0.0, 0.0, 50.0, -50.0, 0.0])
    solution = fb.solve(problem, "alm", budget="1 steps", seed=0)
    met = problem.evaluate(x)
    assert float(met.violation) <= 0 and float(met.extra["accuracy"]) > 0.75 and float(met.f) > np.log(2)
    solution = replace(solution, x=x, feasible=torch.tensor(True), best_step=torch.tensor(1))
    method, budget = fb.ALM(), Budget(steps=1)
    given = Trained(problem, None, solution, method, budget, [], [], automatic=True, by_accuracy=by_accuracy)
    kept = torch.equal(best_constant(given).solution.x, x)
    assert kept is by_accuracy
