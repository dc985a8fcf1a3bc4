"""Survey weights: they come with the data, stay with their rows, and rates under them are those of the people."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import fairbound as fb
from fairbound.base.errors import DataError
from fairbound.data import Dataset
from fairbound.data.acs import FEATURES, _build


def small(**more):
    y = np.array([0, 1, 1])
    return Dataset("small", np.eye(3), y, {"sex": np.array(["F", "M", "F"], dtype=object)}, ("a", "b", "c"), **more)


def test_weights_stay_with_their_rows():
    data = small(weight=np.array([1.0, 2.0, 3.0]))
    assert data.take([2, 0]).weight.tolist() == [3, 1] and data.without("a").weight.tolist() == [1, 2, 3]
    assert small().weight is None and small().take([1]).weight is None
    for wrong in ([1.0, 2.0], [1.0, 0.0, 2.0], [1.0, np.nan, 2.0]):
        with pytest.raises(DataError, match="weight must be 3 positive numbers"):
            small(weight=np.array(wrong))


def test_the_census_weight_comes_with_its_rows():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({c: rng.integers(1, 3, 20) for c in FEATURES})
    frame["PWGTP"] = np.arange(1, 21)
    features = list(FEATURES)
    data = _build("acs", frame, features, np.arange(20) % 2, "numeric", "", {})
    assert data.weight.tolist() == list(range(1, 21)) and "PWGTP" not in data.feature_names
    assert _build("acs", frame.drop(columns="PWGTP"), features, np.arange(20) % 2, "numeric", "", {}).weight is None


def test_the_census_file_of_oklahoma(data_dir):
    data = fb.data.load("acs-pums-ok-2024", data_dir)
    assert len(data.weight) == len(data) and data.weight.min() >= 1
    assert 1.5e6 < data.weight.sum() < 2.5e6  # people at work in a state of four million


@pytest.mark.parametrize("stated", ["demographic_parity <= 0.03", "equalized_odds <= 0.05"])
def test_a_bound_under_weights_is_met_for_the_people(stated):
    """Trained with weights, the weighted rates meet it, which are those of rows written as often as they count."""
    rng = np.random.default_rng(1)
    sex = rng.choice(["F", "M"], 1500)
    x = np.column_stack([rng.normal(size=1500) + (sex == "M"), rng.normal(size=1500)])
    y = (x.sum(1) + 0.5 * rng.normal(size=1500) > 0.5).astype(int)
    people = np.where((sex == "F") & (x[:, 0] > 0), 4, 1)
    fair = fb.FairClassifier(stated).fit(x, y, sex, sample_weight=people)
    scores = fair.decision_function(x)
    value = fb.measure(stated, scores, y, sex, sample_weight=people, threshold=0)
    written = [np.repeat(part, people) for part in (scores, y, sex)]
    assert value == pytest.approx(fb.measure(stated, *written, threshold=0), abs=1e-12)
    assert value <= float(stated.split()[-1]) + 1e-5
    assert fb.measure(stated, scores, y, sex, threshold=0) != pytest.approx(value, abs=1e-3)
