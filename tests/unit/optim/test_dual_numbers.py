"""Bounds on predicted numbers in a loop of one's own, and how many rows the estimates of a report rest on."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch

import fairbound as fb
from fairbound.base.errors import CheckpointError, DataError, OptionError
from fairbound.optim import Dual

pytestmark = pytest.mark.filterwarnings("ignore:.*too few training rows")  # what is tested here is not the data

N = 2000


def table(unit=1.0, seed=0):
    """Features (N, 2), numbers (N,) in `unit`s of which a group has 6 more, which the second feature tells in part, and groups."""
    rng = np.random.default_rng(seed)
    sex = rng.choice(["F", "M"], N)
    x = np.column_stack([rng.gamma(4, 2, N), 5 * (sex == "M") + 4 * rng.normal(size=N)])
    y = unit * (20 + 2 * x[:, 0] + 6 * (sex == "M") + (3 + 2 * (sex == "F")) * rng.normal(size=N))
    return (x - x.mean(0)) / x.std(0), y, sex


def trained(text, unit=1.0, steps=1500):
    x, y, sex = table(unit)
    torch.manual_seed(0)
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.2 * unit)
    dual = Dual(text, groups=sex, targets=y)
    X, Y, codes = torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32), dual.encode(sex)
    for _ in range(steps):
        rows = torch.randint(N, (128,))
        optimizer.zero_grad()
        dual.loss(model(X[rows]).squeeze(1), Y[rows], codes[rows]).backward()
        optimizer.step()
        dual.step()
    return dual, model(X).squeeze(1).detach().double().numpy(), y, sex


@pytest.mark.parametrize(
    ("text", "slack"),
    [
        ("residual_gap <= 1", 0.4),
        pytest.param("group_squared_error <= 29", 0.9, marks=pytest.mark.long),
        pytest.param("prediction_parity[at=30:36:42] <= 0.05", 0.03, marks=pytest.mark.long),
    ],
)
def test_a_loop_meets_bounds_on_numbers_that_it_breaks_without(text, slack):
    """slack: what estimates of some 2,000 rows may be off by, about three standard errors."""
    dual, predicted, y, sex = trained(text)
    bound = fb.constraint(text)
    x, *_ = table()
    best = np.column_stack([x, np.ones(N)])
    plain = best @ np.linalg.lstsq(best, y, rcond=None)[0]
    assert fb.measure(text, plain, y, sex) > bound.stated + 1.5 * slack
    found = fb.measure(text, predicted, y, sex)
    assert found <= bound.stated + slack
    assert dual.values()[text] == pytest.approx(found, abs=3 * slack)
    fitted = fb.FairRegressor(text, random_state=0).fit(x, y, sensitive_features=sex)
    assert np.mean((predicted - y) ** 2) <= 1.1 * np.mean((fitted.predict(x) - y) ** 2)


def test_units_of_the_label_change_nothing_but_units():
    """Numbers a thousand times as large, with bound and learning rate of that size, give the same run."""
    (dual, predicted, *_), (large, far, *_) = (
        trained("residual_gap <= 1", 1, 400),
        trained("residual_gap <= 1000", 1000, 400),
    )
    np.testing.assert_allclose(far / 1000, predicted, atol=0.3)
    np.testing.assert_allclose(large.multipliers, dual.multipliers, atol=0.05)
    assert large.values()["residual_gap <= 1000"] == pytest.approx(1000 * dual.values()["residual_gap <= 1"], rel=0.1)


@pytest.mark.parametrize(
    "text", ["residual_gap <= 0.5", "group_squared_error[largest=40] <= 9", "prediction_parity <= 0.1"]
)
@pytest.mark.parametrize("weighted", [False, True])
def test_estimates_are_those_of_the_rows_seen(text, weighted):
    """After one batch of all rows the running estimate is what `fb.measure` says, in the units of the label."""
    x, y, sex = table(50.0)
    dual = Dual(text, groups=sex, targets=y, memory=1e12)
    scores = torch.tensor(y + 40 * x[:, 1], requires_grad=True)
    weight = np.random.default_rng(1).integers(1, 4, N).astype(float) if weighted else None
    loss = dual.loss(scores, y, dual.encode(sex), weight=weight)
    asked = fb.measure(dual.stated[0], scores.detach().numpy(), y, sex, sample_weight=weight)
    assert dual.values() == {dual.stated[0].text: pytest.approx(asked, rel=1e-9)}
    squared = (scores.detach().numpy() - y) ** 2
    assert loss.item() == pytest.approx((squared * (1 if weight is None else weight)).mean(), rel=1e-9)
    loss.backward()
    np.testing.assert_allclose(
        scores.grad, 2 * (scores.detach().numpy() - y) * (1 if weight is None else weight) / N, rtol=1e-9
    )


def test_the_loss_carries_the_multipliers_in_label_units():
    """After an update the gradient is sd^2 times that of the squared error and w . g in standard units."""
    _, y, sex = table(10.0)
    dual = Dual("residual_gap <= 1", groups=sex, targets=y, dual_every=1, memory=1e12)
    code, scores = dual.encode(sex), torch.tensor(y + 30 * (sex == "M"), requires_grad=True)
    dual.observe(scores, y, code)
    dual.step()
    w, men, sd = dual.weights.numpy(), sex == "M", y.std()
    assert w.max() > 0 and w.min() == 0
    dual.loss(scores, y, code, observe=False).backward()
    of_residuals = w.max() * sd * np.where(men, 1 / men.sum(), -1 / (~men).sum())
    np.testing.assert_allclose(scores.grad, 2 * (scores.detach().numpy() - y) / N + of_residuals, rtol=1e-9)


def test_states_are_saved_and_resumed_and_belong_to_their_units():
    x, y, sex = table()
    dual = Dual("prediction_parity <= 0.1", groups=sex, targets=y)
    code = dual.encode(sex)
    for k in range(30):
        rows = np.arange(60 * k, 60 * k + 60)
        dual.observe(torch.tensor(y[rows] + x[rows, 1]), y[rows], code[rows])
        dual.step()
    again = copy.deepcopy(dual)
    assert str(again.report()) == str(dual.report()) and again.names == dual.names
    assert all(f"above {t:.6g}"[:9] in " ".join(dual.names) for t in dual.stated[0].thresholds)
    for one in (dual, again):
        one.observe(torch.tensor(y[:50]), y[:50], code[:50])
        one.step()
    assert again.values() == dual.values()
    with pytest.raises(CheckpointError, match="units"):
        Dual(dual.stated, groups=sex, targets=10 * y).load_state_dict(dual.state_dict())


@pytest.mark.parametrize(
    ("stated", "options", "error", "words"),
    [
        (
            ["residual_gap <= 1", "demographic_parity <= 0.1"],
            {},
            OptionError,
            "on predicted numbers, 'demographic_parity <= 0.1' on classes",
        ),
        (
            "residual_gap <= 1",
            {"loss": "hinge"},
            OptionError,
            r"least squared error; leave loss= out\. For a loss of your own take fb\.formulate\(",
        ),
        ("residual_gap <= 1", {"classes": 3}, OptionError, "leave classes= out"),
        ("residual_gap <= 1", {"soft_targets": True}, OptionError, "leave soft_targets= out"),
        ("residual_gap <= 1", {"targets": ["a", "b"]}, DataError, "finite numbers"),
        ("residual_gap <= 1", {"targets": [1.0, math.nan]}, DataError, "finite numbers"),
        ("demographic_parity <= 0.1", {"targets": [14.5, 3]}, DataError, "state bounds on them: residual_gap"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_to_do(stated, options, error, words):
    with pytest.raises(error, match=words):
        Dual(stated, **{"groups": [0, 1], "targets": [1.0, 3.0], **options})


def test_batches_of_numbers_that_cannot_be_are_refused():
    dual = Dual("residual_gap <= 1", groups=[0, 1], targets=[1.0, 3.0])
    scores = torch.zeros(2, requires_grad=True)
    for targets, error in (
        ([1.0, math.inf], DataError),
        ([1.0], OptionError),
        (torch.zeros(2, dtype=torch.complex64), OptionError),
    ):
        with pytest.raises(error, match="targets must be"):
            dual.loss(scores, targets, torch.tensor([0, 1]))


def test_a_report_says_how_many_rows_of_each_group_its_estimates_rest_on():
    """Rows fade by exp(-rows later / memory), which no batch of its own step does."""
    sex, y = np.array([0, 0, 0, 1]), np.array([0, 1, 1, 0])
    dual = Dual("demographic_parity <= 0.1", groups=sex, targets=y, group_names=["F", "M"], memory=100.0, dual_every=20)
    assert dual.report().rests_on == {} and "rest on" not in str(dual.report())
    for _ in range(50):
        dual.loss(torch.zeros(4, requires_grad=True), y, torch.tensor(sex))
        dual.step()
    left = sum(math.exp(-4 * k / 100) for k in range(50))
    assert dual.report().rests_on == {"F": round(3 * left), "M": round(left)}
    assert f"rest on the latest rows of each group: {round(left)} of" in str(dual.report())
