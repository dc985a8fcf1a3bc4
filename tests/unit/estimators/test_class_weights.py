"""Class weights beyond the loss: thresholds of groups, what a report says, and what is warned of."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import balanced_accuracy_score

import fairbound as fb
from fairbound.base.errors import OptionError
from fairbound.estimators.class_weights import class_costs, one_objective

PARITY = "demographic_parity <= 0.05"


@pytest.fixture(scope="module")
def rows():
    """(X, y, group), of whom 14 % are positive."""
    rng = np.random.default_rng(0)
    group = rng.choice(["a", "b"], 2000)
    X = rng.normal(size=(2000, 3))
    X[:, 0] += group == "a"
    return X, (X.sum(1) + rng.normal(size=2000) > 2.8).astype(int), group


def test_errors_cost_what_their_class_weighs_with_mean_1():
    """Of 4 rows one is positive: balanced, (4 / 6, 2); with the weight 3 for positives, 3 : 1 over a mean of 6 / 4."""
    y = np.array([0, 0, 0, 1])
    for weight, costs in (("balanced", (2 / 3, 2.0)), ({1: 3}, (2 / 3, 2.0)), ({0: 0}, (0.0, 4.0))):
        objective = one_objective("auto", None, weight, (0, 1), y, None)
        assert class_costs(objective, y, None) == pytest.approx(costs)
    assert class_costs("auto", y, None) == (1.0, 1.0)
    weighted = one_objective("auto", None, {1: 3}, (0, 1), y, np.array([1.0, 1.0, 1.0, 3.0]))
    assert class_costs(weighted, y, np.array([1.0, 1.0, 1.0, 3.0])) == pytest.approx((0.5, 1.5))


@pytest.mark.parametrize("kind", ["numpy", "list", "bool", "boolean", "object"])
def test_numbers_are_weights_of_boolean_labels_and_the_other_way_round(rows, kind):
    """As dict keys 0 is False, in scikit-learn too."""
    X, y, group = rows
    X, y, group = X[:300], y[:300], group[:300]
    yes = y == 1
    given = {"numpy": yes, "list": yes.tolist()}.get(kind)
    given = pd.Series(yes, dtype=kind) if given is None else given
    options = {"algorithm": "alm", "budget": "5 steps", "validation": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        expected = fb.FairClassifier(PARITY, class_weight={0: 1, 1: 5}, **options).fit(X, y, group)
        for weights, labels in (({0: 1, 1: 5}, given), ({False: 1, True: 5}, y)):
            made = fb.FairClassifier(PARITY, class_weight=weights, **options).fit(X, labels, group)
            assert made.x_.equal(expected.x_)
    with pytest.raises(OptionError, match="no class '2'"):
        fb.FairClassifier(PARITY, class_weight={2: 1}).fit(X, given, group)


def test_thresholds_of_groups_count_errors_by_class_weights(rows):
    X, y, group = rows
    right = {}
    for weight in (None, "balanced"):
        fair = fb.FairClassifier(PARITY, use_groups_at_prediction=True, class_weight=weight).fit(X, y, group)
        decided = fair.predict(X, sensitive_features=group)
        right[weight] = balanced_accuracy_score(y, decided)
        assert fb.measure("demographic_parity", decided, y, group) <= 0.05 + 1e-12
    assert fair.fit_report_["group_thresholds"]["cost"] == pytest.approx(1 - right["balanced"], abs=1e-9)
    assert right["balanced"] > right[None] + 0.05


def test_the_report_has_the_accuracy_in_class_weights(rows):
    X, y, group = rows
    fair = fb.FairClassifier(PARITY, class_weight="balanced").fit(X, y, group)
    counted = f"counted so, {balanced_accuracy_score(y, fair.predict(X)):.3f} of the training rows"
    assert any(counted in note for note in fair.fit_report_["notes"])
    assert not any("Classes count" in note for note in fb.FairClassifier(PARITY).fit(X, y, group).fit_report_["notes"])


def test_a_model_that_learnt_nothing_in_class_weights_is_warned_of(rows):
    _, y, group = rows
    with pytest.warns(ConvergenceWarning, match="With classes counted by their weights, the model is no more accurate"):
        fb.FairClassifier(PARITY, class_weight={1: 1000}).fit(
            np.zeros((len(y), 1)) + np.arange(len(y))[:, None] % 2, y, group
        )
