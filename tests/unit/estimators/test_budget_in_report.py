"""The budget in a report is the one that was stated, and the seconds are those of the whole fit, whatever runs it made."""

from __future__ import annotations

import time
import warnings

import numpy as np
import pytest

import fairbound as fb


@pytest.mark.parametrize(
    "kind, options, bound",
    [
        (fb.FairClassifier, {"model": "mlp:4"}, "demographic_parity <= 0.1"),
        (fb.FairClassifier, {}, "demographic_parity <= 0.1"),
        (fb.FairRegressor, {"model": "mlp:4"}, "residual_gap <= 0.2"),
        (fb.FairRanker, {}, "exposure_parity <= 0.1"),
    ],
    ids=["network", "linear", "numbers", "ranking"],
)
def test_the_report_has_the_stated_budget_and_the_time_of_the_whole_fit(kind, options, bound):
    rng = np.random.default_rng(0)
    X, group = rng.normal(size=(400, 3)), rng.choice(["a", "b"], 400)
    y = (X[:, 0] + 0.5 * (group == "a") + rng.normal(size=400) > 0).astype(int)
    more = {"qid": np.arange(400) // 10} if kind is fb.FairRanker else {}
    begun = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = kind(bound, budget="0.2s", random_state=0, **options).fit(X, y, sensitive_features=group, **more)
    whole = time.perf_counter() - begun
    report = fitted.fit_report_
    assert report["budget"] == "0.2 seconds" and fitted.solution_.seconds < report["seconds"] <= whole
    assert report["seconds"] > 0.7 * whole - 0.05
