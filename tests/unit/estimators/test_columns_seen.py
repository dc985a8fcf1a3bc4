"""The columns that an estimator has seen are those of its table, as in scikit-learn, also where an encoder drops some."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import fairbound as fb
from fairbound.base.errors import DataError, DataWarning
from fairbound.tables import Chunks, Encoded, TableEncoder

RNG = np.random.default_rng(0)
X = pd.DataFrame({"pay": RNG.normal(size=300), "age": RNG.normal(size=300), "same": 1.0})
Y = (X.pay + RNG.normal(size=300) > 0).astype(int).to_numpy()
SEEN = ["pay", "age", "same"]


def parts():
    return Chunks([X[:100], X[100:]])


@pytest.mark.filterwarnings("ignore:Column .* was dropped")
@pytest.mark.parametrize("make", [fb.FairClassifier, fb.FairRegressor])
def test_columns_that_an_encoder_drops_are_counted(make, tmp_path):
    for given in (X, Encoded.of(TableEncoder(), X), parts()):
        model = make(budget="20 steps").fit(given, Y)
        model.save(tmp_path / "model")
        for one in (model, fb.load(tmp_path / "model")):
            assert one.n_features_in_ == 3 and one.feature_names_in_.tolist() == SEEN
    plain = make(budget="20 steps").fit(X.to_numpy(), Y)
    assert not hasattr(plain, "feature_names_in_")
    with pytest.raises(
        DataError, match=f"X has 2 features, but TableEncoder is expecting {plain.n_features_in_} features"
    ):
        plain.predict(X.to_numpy()[:, :2])


def test_an_encoder_knows_the_columns_as_other_transformers_do():
    with pytest.warns(DataWarning, match="'same' was dropped"):
        pipe = make_pipeline(TableEncoder(), LogisticRegression()).fit(X, Y)
    for one in (pipe, pipe[0], TableEncoder.from_json(pipe[0].to_json())):
        assert one.n_features_in_ == 3 and one.feature_names_in_.tolist() == SEEN
    assert not hasattr(TableEncoder(), "n_features_in_") and not hasattr(TableEncoder(), "feature_names_in_")
    unnamed = TableEncoder().fit(X[["pay", "age"]].to_numpy())
    assert unnamed.n_features_in_ == 2 and not hasattr(unnamed, "feature_names_in_")


@pytest.mark.parametrize("make", [fb.Reduction, fb.PostProcessor])
def test_models_of_other_libraries_take_no_tables_in_parts(make):
    for given, said in (
        (parts(), "needs a table in memory, and X is read in parts"),
        (Encoded.of(TableEncoder(), X), "needs a table, and X is Encoded"),
    ):
        with pytest.raises(DataError, match=f"{make.__name__} {said}"):
            make(LogisticRegression(), "demographic_parity <= 0.1").fit(given, Y, np.arange(300) % 2)
