"""Columns of a frame are taken by their names at prediction, whatever model they go to, and never by those of an older fit."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from torch import nn

import fairbound as fb
from fairbound.base.errors import DataError

LAX = "demographic_parity <= 0.9"
QUERY = np.repeat(np.arange(30), 10)


@pytest.fixture
def rows():
    """A frame of two numbers, of which the first tells the label, labels, and groups."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"pay": rng.normal(size=300), "age": rng.normal(size=300)})
    return X, (X.pay + 0.2 * rng.normal(size=300) > 0).astype(int), rng.choice(["a", "b"], 300)


def swapped(X):
    return X[X.columns[::-1]]


class KeepsNoNames(ClassifierMixin, BaseEstimator):
    """A classifier of one's own that takes any table as an array."""

    def fit(self, X, y, sample_weight=None):
        self.inner_ = LogisticRegression().fit(np.asarray(X), y, sample_weight)
        self.classes_ = self.inner_.classes_
        return self

    def predict_proba(self, X):
        return self.inner_.predict_proba(np.asarray(X))


MODULES = {
    "classifier": lambda: fb.FairClassifier(LAX, model=nn.Linear(2, 1), budget="100 steps"),
    "ranker": lambda: fb.FairRanker(model=nn.Linear(2, 1), budget="100 steps"),
}


@pytest.mark.parametrize("kind", MODULES)
def test_a_module_gets_the_columns_of_training_by_name(rows, kind, tmp_path):
    X, y, group = rows
    more = {"qid": QUERY} if kind == "ranker" else {}
    made = MODULES[kind]().fit(X, y, sensitive_features=group, **more)
    expected = made.predict(X)
    made.save(tmp_path / "model")
    loaded = type(made).load(tmp_path / "model", module=nn.Linear(2, 1))
    for model in (made, loaded):
        assert model.feature_names_in_.tolist() == ["pay", "age"]
        for table in (swapped(X), swapped(X.assign(city="x")), pl.from_pandas(swapped(X))):
            np.testing.assert_array_equal(model.predict(table), expected)
        with pytest.raises(DataError, match="lacks the column 'age' seen in training"):
            model.predict(X.rename(columns={"age": "years"}))
    if kind == "classifier":
        assert (made.encode(swapped(X))[0] == made.encode(X)[0]).all()


FORMS = {
    "names that are numbers": (LogisticRegression, lambda X: X.rename(columns={"pay": 0, "age": 1})),
    "no names kept": (KeepsNoNames, lambda X: X),
    "polars": (KeepsNoNames, pl.from_pandas),
    "pyarrow": (KeepsNoNames, lambda X: pa.Table.from_pandas(X, preserve_index=False)),
}


@pytest.mark.parametrize("folds", [0, 2])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("door", [fb.Reduction, fb.PostProcessor])
def test_a_model_that_keeps_no_names_gets_the_columns_of_fit_by_name(rows, door, form, folds):
    X, y, group = rows
    kind, form_of = FORMS[form]
    made = door(kind(), LAX, folds=folds).fit(form_of(X), y, group)
    groups = (group,) if door is fb.PostProcessor else ()
    expected = made.predict(form_of(X), *groups)
    for table in (swapped(X), swapped(X.assign(city="x"))):
        np.testing.assert_array_equal(made.predict(form_of(table), *groups), expected)
    if door is fb.PostProcessor:
        np.testing.assert_array_equal(made.predict_proba(form_of(swapped(X))), made.predict_proba(form_of(X)))
    with pytest.raises(DataError, match=r"the table lacks the column '(age|1)' seen in training"):
        made.predict(form_of(X.rename(columns={"age": "years"})), *groups)


def test_saved_thresholds_know_the_columns_of_fit(rows, tmp_path):
    X, y, group = rows
    made = fb.PostProcessor(KeepsNoNames().fit(X, y), LAX).fit(X, y, group)
    made.save(tmp_path / "thresholds.json")
    loaded = fb.PostProcessor.load(tmp_path / "thresholds.json", made.estimator_)
    np.testing.assert_array_equal(loaded.predict(swapped(X), group), made.predict(X, group))


def test_scores_given_as_they_are_or_by_a_function_need_no_other_columns_than_they_read(rows):
    X, y, group = rows
    given = fb.PostProcessor(None, LAX).fit(X[["pay"]], y, group)
    assert (given.predict(X[["pay"]].rename(columns={"pay": "score"}), group) == given.predict(X.pay, group)).all()
    read = fb.PostProcessor(None, LAX, scores=lambda _, table: table["pay"]).fit(X, y, group)
    assert (read.predict(X[["pay"]], group) == read.predict(swapped(X), group)).all()


ANY = {
    "classifier": lambda: fb.FairClassifier(LAX, budget="20 steps"),
    "module": lambda: fb.FairClassifier(LAX, model=nn.Linear(2, 1), budget="20 steps"),
    "regressor": lambda: fb.FairRegressor(),
    "certified": lambda: fb.FairClassifier(LAX, certify=0.6),
    "reduction": lambda: fb.Reduction(LogisticRegression(), LAX),
    "processor": lambda: fb.PostProcessor(LogisticRegression(), LAX),
}


@pytest.mark.parametrize("kind", ANY)
def test_a_fit_to_a_table_without_names_forgets_those_of_the_fit_before(rows, kind):
    X, y, group = rows
    made = ANY[kind]().fit(X, y, group)
    assert made.feature_names_in_.tolist() == ["pay", "age"]
    made.fit(X.to_numpy(), y, group)
    assert not hasattr(made, "feature_names_in_")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made.predict(X.to_numpy(), *([group] if kind == "processor" else []))


@pytest.mark.parametrize("kind", ["regressor", "ranker"])
def test_a_table_without_the_names_of_training_is_said_of_loaded_models_too(rows, kind, tmp_path):
    X, y, _ = rows
    made = fb.FairRegressor().fit(X, y) if kind == "regressor" else fb.FairRanker().fit(X, y, qid=QUERY)
    made.save(tmp_path / "model")
    for model in (made, type(made).load(tmp_path / "model")):
        assert model.feature_names_in_.tolist() == ["pay", "age"]
        with pytest.warns(UserWarning, match=f"X does not have valid feature names, but {type(made).__name__} was"):
            model.predict(X.to_numpy())
