"""The last intercept of a model: where it lies, and that it is moved to meet bounds that no iterate met."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import fairbound as fb
from fairbound.models.mlp import MLP
from fairbound.models.model import ModuleModel
from fairbound.models.scoring import last_intercept


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


@pytest.mark.parametrize(
    ("bound", "most", "rarer"),
    [
        ("error of class 1 <= 0.1", 0.1, 0.8),
        ("recall of class 0 >= 0.95", 0.05, 0.8),
        ("error of class 1 <= 0.1", 0.1, 6.0),
    ],
)
def test_bounds_on_two_classes_are_met_by_the_best_threshold_of_the_model_without_them(bound, most, rarer):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 4))
    y = (X @ [1.0, -0.5, 0.3, 0.0] + rng.logistic(size=4000) > rarer).astype(int)
    straight = fb.TableOptions(knots=0)
    free = fb.FairClassifier(objective="loss", options=straight).fit(X, y)
    fair = fb.FairClassifier(bound, options=straight).fit(X, y)
    report = fair.fit_report_
    assert report["feasible"] and report["validation_rows"] == 0 and "threshold" in report["notes"][0]
    scores, label = fair.decision_function(X), int(bound[bound.index("class") + 6])
    assert np.corrcoef(free.decision_function(X), scores)[0, 1] > 1 - 1e-4
    accuracies = [
        (decided == y).mean()
        for decided in ((scores > t).astype(int) for t in np.r_[scores, scores.min() - 1])
        if (decided != y)[y == label].mean() <= most
    ]
    error = (fair.predict(X) != y)[y == label].mean()
    assert error <= most < (free.predict(X) != y)[y == label].mean()
    # the best threshold lies next to a row of the label; of more than 200 the move may pass over a 200th
    assert (
        max(accuracies) - (len(y) / 200 / len(y) if (y == label).sum() > 200 else 0)
        <= fair.score(X, y)
        <= max(accuracies)
    )


def test_a_threshold_for_classes_is_left_where_the_loss_or_other_bounds_are_asked_for():
    rng = np.random.default_rng(1)
    X, group = rng.normal(size=(600, 3)), rng.choice(["a", "b"], 600)
    y = (X[:, 0] + rng.logistic(size=600) > 0.5).astype(int)
    for stated, options in (
        ("error of class 1 <= 0.1", {"objective": "loss"}),
        ("error of class 1 <= 0.1", {"class_weight": "balanced"}),
        (["error of class 1 <= 0.1", "demographic_parity <= 0.1"], {}),
    ):
        fair = fb.FairClassifier(stated, random_state=0, **options).fit(X, y, sensitive_features=group)
        assert not any("threshold on the score" in note for note in fair.fit_report_["notes"])
