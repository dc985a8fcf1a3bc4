"""How sure a Dual is of its estimates, how far they lag, and what it measures exactly."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import fairbound as fb
from fairbound.base.errors import DataWarning, NonFiniteError, OptionError
from fairbound.optim import Dual

pytestmark = pytest.mark.filterwarnings("ignore:.*too few training rows")  # what is tested here is not the data

STATED = ["demographic_parity <= 0.05", "equal_opportunity[overall] <= 0.05", "loss_gap <= 0.02"]


def test_what_has_no_rows_has_no_standard_error():
    for stated in (STATED, ["predictive_parity <= 0.1"]):
        made = Dual(stated, group_names=["a", "b"])
        assert all(np.isnan(v) for v in made.report().standard_errors.values())
        made.loss(torch.tensor([1.0, 2.0, -1.0, 1.0]), torch.tensor([0, 1, 0, 1]), torch.tensor([0, 0, 1, 1]))
        assert not any(np.isnan(v) for v in made.report().standard_errors.values())
        assert str(made.report()).count("±") == len(stated)


@pytest.mark.parametrize(
    "stated",
    [
        "predictive_parity <= 0.1",
        "predictive_parity[best] <= 0.1",
        "false_omission_rate_parity <= 0.1",
        "f1_parity <= 0.1",
        "treatment_equality <= 1",
    ],
)
def test_a_ratio_of_counts_has_the_spread_of_new_draws_of_the_rows(stated):
    """Counts of (label, decision) by group, drawn anew 4,000 times; all rows of one draw weigh the same."""
    chances, n = np.array([[0.4, 0.1, 0.15, 0.35], [0.3, 0.25, 0.15, 0.3]]), 800  # TN, FP, FN, TP
    rng = np.random.default_rng(0)
    tn, fp, fn, tp = np.moveaxis(np.stack([rng.multinomial(n, p, 4000) for p in chances], 1), -1, 0)
    value = {
        "pre": tp / (tp + fp),
        "fal": fn / (fn + tn),
        "f1_": 2 * tp / (2 * tp + fp + fn),
        "tre": fn / fp,
    }[stated[:3]]
    made = Dual(stated, group_names=["a", "b"], memory=math.inf)
    for code, counts in enumerate((chances * n).round().astype(int)):
        y, s = np.repeat([0, 0, 1, 1], counts), np.repeat([-1.0, 1.0, -1.0, 1.0], counts)
        made.loss(torch.tensor(s), torch.tensor(y), torch.full((n,), code))
    (error,) = made.report().standard_errors.values()
    assert error == pytest.approx(float((value[:, 0] - value[:, 1]).std()), rel=0.05)


@pytest.mark.parametrize("rare", [0, 1])
def test_the_error_is_that_of_the_contrast_which_may_be_largest_not_of_the_one_that_is(rare):
    """All decided negative: both differences are 0, and the one that rests on 3 % of the rows may be far from it."""
    y, group = torch.tensor([rare] * 30 + [1 - rare] * 970).repeat(2), torch.arange(2000) // 1000
    texts, error = ("predictive_equality <= 0.02", "equal_opportunity <= 0.02", "equalized_odds <= 0.02"), []
    for stated in texts:
        made = Dual(stated, group_names=["a", "b"], memory=math.inf)
        made.loss(-torch.ones(2000), y, group)
        error += made.report().standard_errors.values()
        assert ("too close" in str(made.report())) == (stated != texts[1 - rare])
    assert error[2] == error[rare] > 10 * error[1 - rare]
    made = Dual("equalized_odds <= 0.09", group_names=["a", "b"], memory=math.inf)  # another one is surely above
    s = torch.where((y != rare) & (group == 0) & (torch.arange(2000) % 8 == 0), 1.0, -1.0)
    made.loss(s, y, group)
    (off,), (value,) = made.report().standard_errors.values(), made.report().values.values()
    assert off < 0.02 and value - 0.09 > off and "above the bound" in str(made.report())


def test_a_ratio_of_rates_of_zero_is_not_sure():
    made = Dual("demographic_parity_ratio >= 0.8", group_names=["a", "b"])
    made.loss(-torch.ones(100), torch.arange(100) % 2, torch.arange(100) // 50)
    assert 0.5 < made.report().standard_errors["demographic_parity_ratio >= 0.8"] < 2
    assert "too close" in str(made.report())


@pytest.mark.parametrize(
    ("batches", "words"),
    [
        (lambda s, y, g: (s, y, g), r"batch 1 is a Tensor; .*measure\(\[\(scores, targets, group\)\]\)"),
        (lambda s, y, g: [(s, y, g), {"x": s, "y": y}], "batch 2 is a dict; take them out of it"),
        (lambda s, y, g: {"x": s, "y": y}, "batch 1 is a str"),
        (lambda s, y, g: [(s,)], "batch 1 is 1 values"),
        (lambda s, y, g: [(s, y, g, s, s)], "batch 1 is 5 values"),
    ],
)
def test_what_is_no_batch_is_refused_with_what_to_pass(batches, words):
    made = Dual(STATED, group_names=["a", "b"])
    rows = torch.randn(6), torch.arange(6) % 2, torch.arange(6) // 3
    with pytest.raises(OptionError, match=words):
        made.measure(batches(*rows))


def test_advice_about_nan_in_measure_is_not_to_skip():
    made = Dual(STATED, group_names=["a", "b"], nonfinite="skip")
    with pytest.raises(NonFiniteError, match="measure leaves no row out") as said:
        made.measure([(torch.full((2,), math.nan), torch.tensor([0, 1]), torch.tensor([0, 1]))])
    assert "skip and count" not in str(said.value)


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
    with pytest.warns(DataWarning, match="no row of these batches tells the value of .*neither met nor missed"):
        assert all(np.isnan(v) for v in made.measure([]).values())
