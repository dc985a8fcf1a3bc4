"""Fits between many groups: what a fitted model keeps does not grow with the pairs of groups."""

from __future__ import annotations

import pickle

import numpy as np

import fairbound as fb
from fairbound.estimators.facts import trajectory

RNG = np.random.default_rng(0)
GROUP = np.arange(600) % 12
X = RNG.normal(size=(600, 3)) + 0.1 * GROUP[:, None]
Y = (X[:, 0] + RNG.normal(size=600) > 0.5).astype(int)


def fitted():
    names = np.array(list("abcdefghijkl"))[GROUP]
    return fb.FairClassifier("demographic_parity <= 0.3", budget="12 steps").fit(X, Y, sensitive_features=names)


def test_a_fitted_model_keeps_no_number_of_each_of_very_many_constraints(monkeypatch):
    whole = fitted()
    assert len(whole.solution_.records[0]["train"]["g"]) == 12 * 11
    monkeypatch.setattr(trajectory, "MOST_KEPT", 12 * 11 - 1)
    short = fitted()
    for row, before in zip(short.solution_.records, whole.solution_.records, strict=True):
        assert "multipliers" not in row and "g" not in row["train"]
        assert row["train"]["stated"] == before["train"]["stated"] and row["step"] == before["step"]
    assert short.solution_.state.multipliers.numel() == 0
    assert short.trajectory_["multipliers"] == whole.trajectory_["multipliers"] != {}
    assert short.fit_report_["advice"] == whole.fit_report_["advice"]
    assert len(pickle.dumps(short.solution_)) < len(pickle.dumps(whole.solution_)) / 2
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(short)).predict(X), whole.predict(X))
