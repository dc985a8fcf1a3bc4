"""The measures of the study `partial-fairness`."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import fairbound as fb
from fairbound.base.errors import OptionError
from fairbound.studies.library import load_spec
from fairbound.studies.partial_fairness import Options, parts_of, task

ASKED = {"dataset": "loanapp", "group": "race", "interval": "0.2:0.7"}


def test_the_study_states_bounds_that_can_be_read():
    study = load_spec("partial-fairness")
    for method in study.methods.values():
        if bound := method.task.get("bound"):
            fb.constraint(bound.format("0.05:0.3"))
    assert {item.key for item in study.items} >= {"a9a", "bank", "law-school"}


def test_parts_are_disjoint_standardised_and_have_group_terms():
    parts = parts_of(Options(**ASKED), 0, None)
    train, test = parts["train"], parts["test"]
    assert len(train.y) == pytest.approx(3 * len(test.y), abs=3)
    d = (train.x.shape[1] - 1) // 2
    assert train.x[:, :d].mean(0) == pytest.approx(0, abs=1e-3)
    gamma = train.x[:, d]
    assert np.array_equal(gamma == 1, train.group == np.unique(train.group)[0])
    assert np.allclose(train.x[:, d + 1 :], gamma[:, None] * train.x[:, :d])
    assert not np.array_equal(parts_of(Options(**ASKED), 1, None)["test"].y, test.y)


def test_what_is_measured_is_the_metric():
    study = load_spec("partial-fairness")
    cell = next(iter(study.cells()))
    made = task(replace(cell, task={**ASKED, "bound": "partial_statistical_parity[{}] <= 0.2"}), None)
    x = made.problem.start([0]) + 0.1 * torch.randn(made.problem.n, generator=torch.Generator().manual_seed(0))
    found = made.measure(x)
    part = parts_of(Options(**ASKED), cell.seed, None)["test"]
    s = made.problem.model.scores(made.problem.split(x)[0], torch.from_numpy(part.x)).numpy()
    text = "partial_statistical_parity[0.2:0.7]"
    assert found["test interval pSP"] == pytest.approx(fb.measure(text, s, part.y, part.group, threshold=0), abs=1e-6)
    assert found["test accuracy"] == pytest.approx(((s > 0) == part.y).mean())


@pytest.mark.parametrize("change", [{"interval": "0.7:0.2"}, {"interval": "all"}, {"shares": (0.5, 0.2, 0.2)}])
def test_wrong_options_are_refused(change):
    with pytest.raises(OptionError):
        Options(**{**ASKED, **change})
