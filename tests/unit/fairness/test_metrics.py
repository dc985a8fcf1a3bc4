"""What the exact metrics say on small tables done by hand, on absent groups and labels, and on wrong input."""

import numpy as np
import pytest

import fairbound as fb
from fairbound.base.errors import DataError, EmptyGroupError, OptionError
from fairbound.fairness import metrics as fm
from fairbound.fairness.distances import binned_squared_wasserstein, wasserstein

# group a: TP 2, FN 1, FP 1, TN 1; group b: TP 1, FN 2, FP 0, TN 3; two rows without a group
Y = np.array([1, 1, 1, 0, 0, 1, 1, 1, 0, 0, 0, 1, 0])
YHAT = np.array([1, 1, 0, 1, 0, 1, 0, 0, 0, 0, 0, 1, 1])
GROUPS = np.array(["a"] * 5 + ["b"] * 6 + [None, None], dtype=object)
SCORES = np.where(YHAT == 1, 1.5, -0.5)


def test_values_by_hand():
    for name, value in {
        "demographic_parity": 3 / 5 - 1 / 6,
        "demographic_parity_ratio": (1 / 6) / (3 / 5),
        "demographic_parity[overall]": 3 / 5 - 4 / 11,
        "demographic_parity[best]": 3 / 5 - 1 / 6,
        "equal_opportunity": 1 / 3,
        "predictive_equality": 1 / 2,
        "equalized_odds": 1 / 2,
        "equalized_odds[sum]": 1 / 3 + 1 / 2,
        "predictive_parity": 1 - 2 / 3,
        "false_omission_rate_parity": 1 / 2 - 2 / 5,
        "error_rate_parity": 2 / 5 - 1 / 3,
        "f1_parity": 4 / 6 - 2 / 4,
    }.items():
        assert fb.measure(name, SCORES, Y, GROUPS) == pytest.approx(value), name


def test_a_sum_is_of_one_pair_at_a_time():
    """Three groups whose largest differences lie in different pairs: the sum of the two ranges would be too large."""
    y, yhat, groups = [], [], []
    for g, (tpr, fpr) in enumerate([(0.9, 0.1), (0.5, 0.1), (0.7, 0.5)]):
        for label, rate in ((1, tpr), (0, fpr)):
            y += [label] * 10
            yhat += [1] * round(10 * rate) + [0] * round(10 - 10 * rate)
            groups += [g] * 10
    assert fb.measure("equalized_odds[sum]", np.array(yhat), np.array(y), groups) == pytest.approx(0.2 + 0.4)


def test_wasserstein_of_a_shift_and_of_weights_as_copies():
    values = np.array([0.0, 1.0, 1.0, 5.0])
    for order in (1, 2, 3):
        assert wasserstein(values, values + 0.25, order=order) == pytest.approx(0.25)
    assert wasserstein([0.0, 1.0], [2.0], [3.0, 1.0], [7.0]) == pytest.approx((3 * 2 + 1) / 4)
    assert wasserstein([0.0, 1.0], [2.0], [3.0, 1.0], order=2) == pytest.approx(np.sqrt((3 * 4 + 1) / 4))
    assert wasserstein([0.0, 9.0], [0.0], [1.0, 0.0]) == 0.0
    with pytest.raises(EmptyGroupError, match="second"):
        wasserstein([1.0], [])
    with pytest.raises(OptionError, match="order"):
        wasserstein([1.0], [2.0], order=0.5)
    with pytest.raises(DataError, match="finite"):
        wasserstein([np.inf], [2.0])
    with pytest.raises(DataError, match="shape"):
        wasserstein([1.0, 2.0], [2.0], [1.0])


def test_binned_squared_wasserstein_is_a_square_over_the_reference_range():
    rng = np.random.default_rng(0)
    reference, other = rng.uniform(0, 1, 200_000), rng.uniform(0.1, 0.9, 200_000)
    exact = wasserstein(reference, other, order=2) ** 2
    assert binned_squared_wasserstein(reference, other) == pytest.approx(exact, abs=2 * np.sqrt(exact) / 50)
    inside = binned_squared_wasserstein(reference, np.concatenate([other, np.full(10**5, 7.0)]))
    assert inside == pytest.approx(binned_squared_wasserstein(reference, other), rel=1e-12)
    with pytest.raises(EmptyGroupError, match="range"):
        binned_squared_wasserstein(reference, other + 5)


def test_benchmark_metrics_have_the_papers_columns():
    found = fm.benchmark_metrics(SCORES, Y, GROUPS)
    assert list(found) == ["Ind", "Sp", "Ina", "Sf", "Wd", "AUC"]
    assert found["Ind"] == pytest.approx(3 / 5 - 1 / 6)
    assert found["Sp"] == pytest.approx(1 / 3 + 1 / 2)
    assert found["Sf"] == pytest.approx((1 - 2 / 3) + (1 / 2 - 2 / 5))
    assert found["Ina"] == pytest.approx(5 / 13)  # with the rows that have no group
    assert np.isnan(fm.benchmark_metrics(np.ones(13), Y, GROUPS)["Sf"])
    assert np.isnan(fm.benchmark_metrics(SCORES, Y, np.zeros(13))["Wd"])


def test_auc_and_its_absence():
    assert fm.auc([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1]) == 0.75
    assert fm.auc([1, 1, 1, 1], [0, 0, 1, 1]) == 0.5
    assert np.isnan(fm.auc([0.1, 0.2], [1, 1]))
    with pytest.raises(DataError, match="decisions"):
        fm.wasserstein_distance([1, 0, 1], ["a", "b", "a"])
