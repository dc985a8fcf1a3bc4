"""The measures of the study `partial-fairness`."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import fairbound as fb
from fairbound.base.errors import OptionError
from fairbound.estimators.linear.weight_decay import auto_decay
from fairbound.studies import digits
from fairbound.studies.digits import last_layer_solved, network, trained_layers
from fairbound.studies.library import load_spec
from fairbound.studies.partial_fairness import Options, parts_of, task
from fairbound.studies.rows import StudyRows

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


def test_records_know_the_data_by_its_checksum_whatever_the_seed():
    cell = next(iter(load_spec("partial-fairness").cells()))
    first, second = (task(replace(cell, task=ASKED, seed=seed), None).checksum for seed in (0, 1))
    other = task(replace(cell, task=ASKED | {"group": "sex"}), None).checksum
    assert len(first) == 64 and first == second != other


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


def test_weight_decay_is_that_of_the_classifier_and_moves_no_measure():
    cell = next(iter(load_spec("partial-fairness").cells()))
    plain, decayed = (task(replace(cell, task={**ASKED, "weight_decay": w}), None) for w in (False, True))
    x = torch.linspace(-1, 1, plain.problem.n)
    more = auto_decay(plain.problem) / 2 * x[:-1].square().sum()
    torch.testing.assert_close(decayed.problem.evaluate(x).f, plain.problem.evaluate(x).f + more)
    assert more > 0 and decayed.measure(x) == plain.measure(x)


@pytest.mark.parametrize("change", [{"interval": "0.7:0.2"}, {"interval": "all"}, {"shares": (0.5, 0.2, 0.2)}])
def test_wrong_options_are_refused(change):
    with pytest.raises(OptionError):
        Options(**{**ASKED, **change})


def test_the_first_score_of_every_picture_is_one_and_the_network_is_of_the_seed():
    rows = StudyRows(
        np.random.default_rng(0).random((40, 2, 14, 14), dtype=np.float32),
        np.arange(40) % 2,
        np.array(["red", "green"] * 20),
    )
    layers = trained_layers(rows, 3, 5)
    model = network(3)
    scores = model.scores(layers, torch.from_numpy(rows.x))
    assert torch.equal(scores, torch.zeros(40)) and len(layers) == model.n == 1385
    assert layers[:-65].abs().max() > 0
    assert torch.equal(model.start(None), network(3).start(None)) and not torch.equal(
        model.start(None), network(4).start(None)
    )


def test_the_last_layer_ends_within_the_bound_and_the_others_stay():
    rng = np.random.default_rng(1)
    x, y = rng.random((300, 2, 14, 14), dtype=np.float32), rng.integers(0, 2, 300)
    group = np.where(rng.random(300) < 0.3 + 0.4 * y, "red", "green")
    x[:, 0] += 0.5 * (group == "red")[:, None, None]
    x[:, 0, :7] += 0.3 * y[:, None, None]
    rows, model, bound = StudyRows(x, y, group), network(0), "partial_statistical_parity[0.2:0.4] <= 0.2"
    before = model.start(None)
    solved = last_layer_solved(model, rows, before, bound)
    assert torch.equal(solved[:-65], before[:-65])
    scores = model.scores(solved, torch.from_numpy(x)).double().numpy()
    assert fb.measure(bound, scores, y, group, threshold=0) <= 0.2
    assert fb.measure(bound, x[:, 0].mean((1, 2)), y, group, threshold=0) > 0.2
    assert np.mean((scores > 0) == y) > 0.6


def test_digits_are_in_the_colour_of_their_group(monkeypatch):
    rng = np.random.default_rng(0)
    given = SimpleNamespace(X=rng.random((400, 784)), y=rng.integers(0, 10, 400))
    monkeypatch.setattr(digits, "load", lambda name, data_dir: given)
    parts = digits.coloured_digits((0.6, 0.2, 0.2), 1, None)
    assert [len(parts[n].y) for n in ("train", "validation", "test")] == [240, 80, 80]
    every = [np.concatenate([getattr(p, f) for p in parts.values()]) for f in ("x", "y", "group")]
    x, y, group = every
    red = group == "red"
    assert (x[red, 1] == 0).all() and (x[~red, 0] == 0).all() and (x.sum((1, 2, 3)) > 0).all()
    assert x.sum() == pytest.approx(given.X.reshape(-1, 28, 28).sum() / 4, rel=1e-5)
    assert y.sum() == (given.y >= 5).sum()
    assert red[y == 1].mean() > 0.6 and red[y == 0].mean() < 0.4
