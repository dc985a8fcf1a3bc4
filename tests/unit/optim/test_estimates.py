"""How sure a Dual is of its estimates, how far they lag, and what it measures exactly."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import fairbound as fb
from fairbound.base.errors import NonFiniteError
from fairbound.optim import Dual

pytestmark = pytest.mark.filterwarnings("ignore:.*too few training rows")  # what is tested here is not the data

STATED = ["demographic_parity <= 0.05", "equal_opportunity[overall] <= 0.05", "loss_gap <= 0.02"]


def test_what_has_no_rows_or_is_a_ratio_of_sums_has_no_standard_error():
    for stated, known in ((STATED, True), (["predictive_parity <= 0.1"], False)):
        made = Dual(stated, group_names=["a", "b"])
        assert all(np.isnan(v) for v in made.report().standard_errors.values())
        made.loss(torch.tensor([1.0, 2.0, -1.0, 1.0]), torch.tensor([0, 1, 0, 1]), torch.tensor([0, 0, 1, 1]))
        assert all(np.isnan(v) != known for v in made.report().standard_errors.values())
        assert str(made.report()).count("±") == known * len(stated)


def test_an_estimate_of_losses_has_the_standard_error_of_a_difference_of_means():
    rng = np.random.default_rng(0)
    s, y, group = (
        torch.tensor(rng.normal(size=300)),
        torch.tensor(rng.integers(0, 2, 300)),
        torch.tensor(rng.integers(0, 2, 300)),
    )
    made = Dual("loss_gap <= 0.1", group_names=["a", "b"], memory=math.inf)
    made.loss(s, y, group)
    losses = torch.nn.functional.binary_cross_entropy_with_logits(s, y.double(), reduction="none")
    each = [losses[group == k] for k in (0, 1)]
    by_hand = math.sqrt(sum(float(v.var(correction=0)) / len(v) for v in each))
    assert made.report().standard_errors == {"loss_gap <= 0.1": pytest.approx(by_hand, rel=1e-9)}


@pytest.mark.parametrize("batch", [8, 64, 400])
def test_the_drift_of_a_steadily_moving_estimate_is_its_lag(batch):
    """Group a's loss rises by the same in every row: at updates the estimate lags by memory times that, to the half of
    a batch, as rows of a batch are taken to be of one age."""
    made = Dual(
        "loss_gap[overall] <= 0.1", group_names=["a", "b"], loss=lambda s, y: s + 0 * y, dual_every=5, memory=1000
    )
    per_row, seen = 1e-5, 0
    group = torch.arange(batch) % 2
    for _ in range(20_000 // batch // 5 * 5):
        seen += batch
        made.observe(torch.where(group == 0, 2 * per_row * seen, 0.0), torch.zeros(batch), group)
        made.step()
    report = made.report()
    now = per_row * seen  # half of the gap between the groups
    lag = now - report.values["loss_gap[overall] <= 0.1"]
    assert report.drifts["loss_gap[overall] <= 0.1"] == pytest.approx(1000 * per_row, rel=0.01)
    assert lag == pytest.approx(1000 * per_row, abs=0.6 * batch * per_row)


@pytest.mark.parametrize("split", [1, 7])
def test_measure_is_exact_on_the_rows_it_is_given_and_changes_nothing(split):
    rng = np.random.default_rng(1)
    s, y, group = torch.tensor(rng.normal(size=300)), torch.tensor(rng.integers(0, 2, 300)), rng.choice(["a", "b"], 300)
    made = Dual(STATED, groups=group, targets=y)
    codes = made.encode(group)
    made.loss(s[:50], y[:50], codes[:50])
    made.step()
    before = made.state_dict()
    parts = [(s[i], y[i], codes[i]) for i in torch.arange(300).tensor_split(split)]
    found = made.measure(parts)
    for text in STATED:
        scores = {} if "loss" in text else {"threshold": 0}
        assert found[text] == pytest.approx(fb.measure(text, s.numpy(), y.numpy(), group, **scores), abs=1e-12)
    after = made.state_dict()
    assert str(before) == str(after) and made.measure([*parts, *parts]) == pytest.approx(found, abs=1e-12)
    heavy = torch.where(torch.arange(300) < 100, 1.0, 0.0)
    some = made.measure([(s, y, codes, heavy)])
    assert some == pytest.approx(made.measure([(s[:100], y[:100], codes[:100])]), abs=1e-12)
    with pytest.raises(NonFiniteError, match="batch 2"):
        made.measure([parts[0], (torch.full((2,), math.nan), y[:2], codes[:2])])
    assert all(np.isnan(v) for v in made.measure([]).values())
