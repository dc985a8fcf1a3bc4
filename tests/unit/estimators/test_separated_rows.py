"""Rows that a plane tells apart: the weights keep a limit without weight decay too, so that new rows are decided as well as by scikit-learn's default."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.preprocessing import StandardScaler

import fairbound as fb

TOLD = "training rows right. If that is a surprise, look for a column that is made from the label"


@pytest.fixture(scope="module")
def tumours():
    X, y = load_breast_cancer(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(y))
    return X, y, np.where(X[:, 1] > np.median(X[:, 1]), "rough", "smooth"), rows[:300], rows[300:]


@pytest.mark.parametrize("decay", ["auto", 0.0])
@pytest.mark.parametrize("bound", [None, "equalized_odds <= 0.2"])
def test_new_rows_are_decided_as_well_as_by_logistic_regression(tumours, bound, decay):
    X, y, group, train, held = tumours
    scaled = StandardScaler().fit(X[train])
    plain = LogisticRegression(max_iter=1000).fit(scaled.transform(X[train]), y[train])
    fair = fb.FairClassifier(bound, weight_decay=decay).fit(X[train], y[train], sensitive_features=group[train])
    other = plain.predict_proba(scaled.transform(X[held]))[:, 1]
    assert fair.score(X[held], y[held]) >= np.mean((other > 0.5) == y[held]) - 0.01
    assert log_loss(y[held], fair.predict_proba(X[held])[:, 1]) <= log_loss(y[held], other) + 0.02
    assert all(c["train_value"] <= c["bound"] for c in fair.fit_report_["constraints"])


def test_the_loss_with_squared_weights_is_scikit_learns(tumours):
    X, y, _, train, _ = tumours
    scaled = StandardScaler().fit_transform(X[train])
    plain = LogisticRegression(max_iter=5000, tol=1e-8).fit(scaled, y[train])
    ours = fb.FairClassifier(objective="loss", weight_decay=0).fit(X[train], y[train])

    def penalised(model, rows, weights):
        return log_loss(y[train], model.predict_proba(rows)[:, 1]) + np.square(weights).sum() / (2 * len(train))

    own = ours.x_[:-1].numpy()
    assert penalised(ours, X[train], own) == pytest.approx(penalised(plain, scaled, plain.coef_), rel=0.02)


def test_rows_that_no_plane_tells_apart_are_fitted_to_the_loss_as_it_is():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3))
    y = (X[:, 0] + rng.logistic(size=500) > 0).astype(int)
    ours = fb.FairClassifier(objective="loss", weight_decay=0).fit(X, y)
    assert not any(TOLD in said for said in ours.fit_report_["warnings"])
    plain = LogisticRegression(C=np.inf, tol=1e-8).fit(X, y)
    np.testing.assert_allclose(ours.coef_, plain.coef_, rtol=0.01)


def test_a_column_made_from_the_label_is_said_to_be_one_to_look_for():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3))
    y = (X[:, 0] + rng.logistic(size=500) > 0).astype(int)
    noise = rng.normal(size=500)
    found = fb.FairClassifier().fit(np.column_stack([X, noise + y, noise]), y)  # neither column tells by itself
    assert sum(TOLD in said for said in found.fit_report_["warnings"]) == 1


def test_few_rows_are_told_apart_without_surprise():
    X, y = np.random.default_rng(0).normal(size=(20, 30)), np.arange(20) % 2
    found = fb.FairClassifier(weight_decay=0).fit(X, y)
    assert any("Weight decay: 0.05 / 2 times" in note for note in found.fit_report_["notes"])
    assert found.fit_report_["warnings"] == []
