"""`score` reads labels and weights as `fit` does, in every form, and refuses what `fit` refuses."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, r2_score

import fairbound as fb
from fairbound.base.errors import DataError

PARITY = "demographic_parity <= 0.2"
RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 2))
Y = (X[:, 0] + RNG.normal(size=300) > 0).astype(int)
GROUP = RNG.integers(0, 2, 300)
DOORS = {
    "classifier": fb.FairClassifier(PARITY, budget="5 steps"),
    "reduction": fb.Reduction(LogisticRegression(), PARITY, rounds=2),
    "thresholds": fb.PostProcessor(LogisticRegression(), PARITY),
}
DECIMALS = np.array([Decimal(int(v)) for v in Y], dtype=object)


def needed(name):
    """What `predict` needs besides the rows."""
    return {"sensitive_features": GROUP} if name == "thresholds" else {}


@pytest.mark.parametrize("name", DOORS)
def test_labels_are_read_in_the_words_of_the_model(name):
    made, weight = DOORS[name].fit(X, Y, GROUP), RNG.uniform(0, 2, 300)
    found = made.predict(X, **needed(name))
    forms = (
        Y.astype(object),
        Y.astype(bool).astype(object),
        Y.astype(str),
        DECIMALS,
        pd.Series(Y),
        Y.tolist(),
        Y.astype(bool),
    )
    for form in forms:
        assert made.score(X, form, **needed(name)) == accuracy_score(Y, found)
        weighted = made.score(X, form, sample_weight=weight, **needed(name))
        assert weighted == pytest.approx(accuracy_score(Y, found, sample_weight=weight), rel=1e-12)
    with pytest.raises(DataError, match="hold 'no', and those of the model are 0, 1"):
        made.score(X, np.where(Y, "yes", "no"), **needed(name))
    assert made.score(X, np.full(300, 2), **needed(name)) == 0


@pytest.mark.parametrize("name", DOORS)
def test_decimals_and_bools_in_arrays_of_objects_are_trained_on(name):
    plain = DOORS[name].fit(X, Y, GROUP).predict(X, **needed(name))
    for form in (DECIMALS, Y.astype(bool).astype(object)):
        made = DOORS[name].fit(X, form, GROUP)
        assert (made.predict(X, **needed(name)) == plain).all() and 0.5 < made.score(X, form, **needed(name)) < 1


@pytest.mark.parametrize("name", DOORS)
def test_missing_labels_are_refused_unless_their_weight_is_0(name):
    made, weight = DOORS[name].fit(X, Y, GROUP), np.ones(300)
    found = made.predict(X, **needed(name))
    for gone in (None, float("nan")):
        holes = Y.astype(object)
        holes[7] = gone
        with pytest.raises(DataError, match=r"1 of 300 labels are missing, the first in row 7"):
            made.score(X, holes, **needed(name))
        weight[7] = 0
        assert made.score(X, holes, sample_weight=weight, **needed(name)) == pytest.approx(
            accuracy_score(Y, found, sample_weight=weight), rel=1e-12
        )
    with pytest.raises(DataError, match=r"\(300,\), got \(299,\)"):
        made.score(X, Y[1:], **needed(name))


def test_the_score_of_numbers_refuses_the_weights_that_fit_refuses():
    y, weight = X[:, 0] + 1, RNG.uniform(0, 2, 300)
    made = fb.FairRegressor().fit(X[:, 1:], y)
    found = made.predict(X[:, 1:])
    assert made.score(X[:, 1:], y, weight) == pytest.approx(r2_score(y, found, sample_weight=weight), rel=1e-12)
    assert made.score(X[:, 1:], [*map(Decimal, y.tolist())]) == pytest.approx(r2_score(y, found), rel=1e-12)
    for wrong in (-weight, np.full(300, np.nan), np.zeros(300)):
        with pytest.raises(DataError, match="sample_weight"):
            made.score(X[:, 1:], y, wrong)
    with pytest.raises(DataError, match="the labels y are missing"):
        made.score(X[:, 1:], [None, *y[1:]])
