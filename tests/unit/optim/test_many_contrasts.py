"""Bounds of very many contrasts: what each moves where many are broken at once, and a report that names a collapse."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

from fairbound.methods.alm import ALM
from fairbound.optim import Dual
from fairbound.optim.multipliers import CROWD, moved
from fairbound.optim.state import fresh_state

pytestmark = pytest.mark.filterwarnings("ignore:.*too few training rows")  # what is tested here is not the data


def after(g, fresh=None, room=None):
    """The state after an update from y = 0, with eta = 1 and rho = 2."""
    m = len(g)
    state = fresh_state(m, 1) | {"k": 20}
    return moved(state, ALM(decay=0.0, penalty=2.0), np.ones(m), np.array(g), fresh, room, np.full(m, 0.1))


def test_up_to_four_broken_contrasts_move_as_one_does():
    found = after([0.3] * CROWD + [-0.2] * 50)
    assert found["multipliers"].tolist() == [0.3] * CROWD + [0.0] * 50
    assert found["w"].tolist() == [0.3 + 2 * 0.3] * CROWD + [0.0] * 50


def test_more_share_what_these_would_move():
    g = np.r_[np.full(10, 0.3), np.full(50, -0.2)]
    found = after(g)
    assert found["multipliers"] == pytest.approx(np.maximum(CROWD / 10 * g, 0))
    assert found["w"] == pytest.approx(np.maximum(3 * CROWD / 10 * g, 0))
    assert found["g"].tolist() == g.tolist()


def test_those_without_rows_and_those_with_a_room_do_not_count_nor_share():
    fresh = np.arange(10) < CROWD
    assert after([0.3] * 10, fresh)["multipliers"].tolist() == [0.3] * CROWD + [0.0] * 6
    room = np.where(np.arange(10) < CROWD, np.inf, 5.0)
    few = after([0.3] * 10, room=room)["multipliers"]
    assert few[:CROWD].tolist() == [0.3] * CROWD
    room[-1] = np.inf  # one more
    more = after([0.3] * 10, room=room)["multipliers"]
    assert more[:CROWD] == pytest.approx(CROWD / (CROWD + 1) * few[:CROWD]) and more[4:9].tolist() == few[4:9].tolist()


@pytest.mark.long
def test_a_network_keeps_its_accuracy_under_200_contrasts():
    """Digits, of which those of group 1 are noisy. Whole steps for every broken contrast end at an accuracy of 0.28 and
    a gap of 0.98, with weights of 60 together; without a bound they are 0.88 and 0.33."""
    digits, rng = load_digits(), np.random.default_rng(0)
    y = digits.target
    group = (rng.random(len(y)) < np.where(y >= 5, 0.65, 0.35)).astype(int)
    x = torch.tensor(digits.images[:, None] / 16, dtype=torch.float32)
    x[group == 1] += 0.6 * torch.randn(int(group.sum()), 1, 8, 8, generator=torch.Generator().manual_seed(0))
    targets, codes = torch.tensor(y), torch.tensor(group)
    torch.manual_seed(2)
    layers = nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 10)
    network, epochs = nn.Sequential(*layers), 60
    made = Dual("class_equalized_odds <= 0.1", groups=group, targets=y, classes=10)
    optimizer = torch.optim.AdamW(network.parameters(), 1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * 8)
    for _ in range(epochs):
        for i in torch.randperm(len(y)).split(256):
            optimizer.zero_grad()
            made.loss(network(x[i]), targets[i], codes[i]).backward()
            optimizer.step()
            schedule.step()
            made.step()
    with torch.no_grad():
        scores = network(x)
    (gap,) = made.measure([(scores, targets, codes)]).values()
    assert float((scores.argmax(1) == targets).float().mean()) > 0.75
    assert gap < 0.3 and float(made.weights.sum()) < 6


@pytest.mark.parametrize("bound", ["class_equalized_odds <= 0.1", "class_recall_parity <= 0.1"])
def test_the_report_names_the_class_that_all_rows_are_decided_for(bound):
    y, group = torch.arange(60) % 3, torch.arange(60) // 30
    mixed = torch.nn.functional.one_hot(y, 3).float()
    for scores, alike in ((torch.tensor([0.0, 2.0, 1.0]).expand(60, 3), "class b"), (mixed, None)):
        made = Dual(bound, group_names=["f", "m"], classes=["a", "b", "c"])
        made.loss(scores, y, group)
        assert made.report().alike == alike
        assert ("every row seen lately is decided class b, so" in str(made.report())) == (alike is not None)


def test_one_class_that_is_always_found_is_no_collapse():
    made = Dual(["recall of class b >= 0.9"], classes=["a", "b", "c"])
    made.loss(torch.eye(3), torch.arange(3))
    assert made.report().alike is None


def test_the_report_says_where_all_numbers_are_predicted_alike():
    y, group = torch.linspace(0, 10, 100), torch.arange(100) % 2
    for scores, alike in ((torch.full((100,), 5.2), True), (y, False)):
        made = Dual("prediction_parity <= 0.1", groups=group, targets=y)
        made.loss(scores, y, group)
        assert (made.report().alike is not None) == alike
        assert ("predicted on the same side of every threshold" in str(made.report())) == alike
