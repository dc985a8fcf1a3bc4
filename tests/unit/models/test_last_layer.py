"""The last layer of a network: found where the scores are a linear layer's own, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import fairbound as fb
from fairbound.models.mlp import MLP
from fairbound.models.model import ModuleModel
from fairbound.models.scoring import has_last_layer, last_inputs


class Own(nn.Module):
    """A body and a head, whose scores `made` makes of both and the rows."""

    def __init__(self, made, bias=True, head_first=False):
        super().__init__()
        parts = {"body": nn.Sequential(nn.Linear(3, 4), nn.Tanh()), "head": nn.Linear(4, 1, bias=bias)}
        for name in reversed(parts) if head_first else parts:
            setattr(self, name, parts[name])
        self.made = made

    def forward(self, rows):
        return self.made(self, self.body(rows))


def sequential(*last):
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1), *last)


def shared():
    """Its head's weights are also those of a part registered after it."""
    module = Own(lambda net, h: net.head(h))
    module.after = nn.Module()
    module.after.weight = module.head.weight
    return module


FOUND = {
    "mlp": MLP(3, (5, 4)),
    "sequential": ModuleModel(sequential()),
    "dropout": ModuleModel(nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 1))),
    "squeezed": ModuleModel(Own(lambda net, h: net.head(h).squeeze(-1))),
    "linear alone": ModuleModel(nn.Linear(3, 1)),
    "two scores": ModuleModel(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)), 2),
}
NONE = {
    "linear mlp": MLP(3),
    "cut at 0": ModuleModel(sequential(nn.ReLU())),
    "cut in place": ModuleModel(sequential(nn.ReLU(inplace=True))),
    "clamped beyond all scores": ModuleModel(Own(lambda net, h: net.head(h).clamp(-1e6, 1e6))),
    "scaled": ModuleModel(Own(lambda net, h: 2 * net.head(h))),
    "without intercept": ModuleModel(Own(lambda net, h: net.head(h), bias=False)),
    "no layer of its own": ModuleModel(Own(lambda net, h: functional.linear(h, net.head.weight, net.head.bias))),
    "not the last parameters": ModuleModel(Own(lambda net, h: net.head(h), head_first=True)),
    "run twice": ModuleModel(Own(lambda net, h: (net.head(-h), net.head(h))[1])),
    "shared weights": ModuleModel(shared()),
    "several inputs a row": ModuleModel(Own(lambda net, h: net.head(h.unsqueeze(1)))),
}


@pytest.mark.parametrize("model", FOUND.values(), ids=FOUND)
def test_scores_are_the_last_parameters_of_what_it_finds(model):
    torch.manual_seed(0)
    x, rows = torch.randn(model.n), torch.randn(5000, 3)
    inputs = last_inputs(model, x, rows)
    weights, intercepts = x[-model.outputs * (inputs.shape[1] + 1) :].split(
        [model.outputs * inputs.shape[1], model.outputs]
    )
    if isinstance(model, ModuleModel):
        assert all(part.training for part in model.module.modules())
        model.module.eval()
    wanted = model.scores(x, rows).reshape(5000, -1)
    torch.testing.assert_close(inputs @ weights.view(model.outputs, -1).T + intercepts, wanted, atol=1e-5, rtol=1e-5)
    assert has_last_layer(model, rows)


@pytest.mark.parametrize("model", NONE.values(), ids=NONE)
def test_none_is_found_where_scores_are_more_than_that(model):
    torch.manual_seed(0)
    rows = np.random.default_rng(0).normal(size=(40, 3)).astype("float32")
    assert last_inputs(model, torch.randn(model.n), torch.from_numpy(rows)) is None
    assert not has_last_layer(model, rows)


def test_a_modules_last_layer_is_solved_as_a_linear_model_of_its_inputs():
    """The bound is met within a step of the rates, with no more wrong decisions than a linear fit on the same inputs."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, 2000)
    rows = (rng.normal(size=(2000, 3)) + 0.6 * group[:, None]).astype("float32")
    labels = (rows @ [1.0, -0.5, 0.7] + rows[:, 0] * rows[:, 1] + rng.normal(size=2000) > 0.5).astype(int)
    torch.manual_seed(0)
    module, bound = sequential(), "demographic_parity <= 0.05"
    fair = fb.FairClassifier(bound, model=module).fit(rows, labels, sensitive_features=group)
    decided = fair.predict(rows)
    assert abs(decided[group == 0].mean() - decided[group == 1].mean()) <= 0.05
    assert "its last layer then on all rows at once" in fair.fit_report_["notes"][0]
    inputs = last_inputs(fair.model_, fair.x_, torch.from_numpy(rows)).numpy()
    options = fb.TableOptions(knots=0, jumps=0)
    line = fb.FairClassifier(bound, options=options).fit(inputs, labels, sensitive_features=group)
    assert (decided == labels).mean() >= (line.predict(inputs) == labels).mean() - 0.005
