"""Masked arrays, scalars, complex and dated columns, parameters of the wrong type: said at the door, in words of the library."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import fairbound as fb
from fairbound.base.errors import DataError, OptionError
from fairbound.rows.labels import class_labels
from fairbound.rows.reading import frame_of, plain_array, read_weights
from fairbound.tables import TableEncoder

N = 40
X = np.random.default_rng(0).normal(size=(N, 2))
Y, GROUP = (X[:, 0] > 0).astype(int), np.array(["a", "b"] * (N // 2))
PARITY = "demographic_parity <= 0.2"


def test_what_numpy_masks_is_missing():
    floats = plain_array(np.ma.masked_greater(X, 0.5))
    assert (np.isnan(floats) == (X > 0.5)).all() and (floats[X <= 0.5] == X[X <= 0.5]).all()
    for filled in (0, 7):  # a masked array has a number that stands in for what it masks
        labels = np.ma.array(Y, mask=np.arange(N) < 3, fill_value=filled)
        with pytest.raises(DataError, match="3 of 40 labels are missing"):
            class_labels(labels)
        with pytest.raises(DataError, match="3 of 40 labels are missing"):
            fb.audit(X[:, 0], labels, GROUP, PARITY)
    hidden = np.ma.masked_greater(X, 0.5)
    plain = np.where(X > 0.5, np.nan, X)
    made = [TableEncoder().fit(table).transform(table) for table in (hidden, plain)]
    assert np.array_equal(*made, equal_nan=True) and len(plain_array(np.ma.array(Y))) == N


@pytest.mark.parametrize("weight", [np.ones(N) + 0j, pd.date_range("2020", periods=N)])
def test_weights_are_real_numbers(weight):
    with pytest.raises(DataError, match="sample_weight must be numbers"):
        read_weights(weight, N)


@pytest.mark.parametrize(
    ("y", "said"),
    [(pd.date_range("2020", periods=N), "must be numbers, got datetime"), (X[:, 0] * 1e300, "whose squares overflow")],
)
def test_numbers_to_predict_are_numbers(y, said):
    with pytest.raises(DataError, match=said):
        fb.FairRegressor("residual_gap <= 0.5").fit(X, y, sensitive_features=GROUP)


def test_one_label_for_all_rows_is_refused():
    with pytest.raises(DataError, match="one value for each row, got int"):
        fb.FairClassifier(PARITY).fit(X, 1, sensitive_features=GROUP)


def test_integers_of_sixteen_bytes_are_read():
    pl = pytest.importorskip("polars")
    table = pl.DataFrame({"x": pl.Series(range(N)).cast(pl.Int128)})
    plain = pl.DataFrame({"x": range(N)})
    assert np.array_equal(*(TableEncoder().fit(t).transform(t) for t in (table, plain)))


WRONG = [
    ("model", None), ("model", 3), ("model", fb.FairClassifier), ("batch_size", "a"), ("batch_size", 1.5), ("batch_size", None),
    ("validation", "x"), ("validation", None), ("budget", True), ("budget", [3]), ("certify", "x"), ("certify", 0.3), ("options", 3),
    ("on_insufficient", "x"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_parameter_of_the_wrong_kind_is_refused_before_training(name, value):
    for kind, bound in ((fb.FairClassifier, PARITY), (fb.FairRegressor, "residual_gap <= 1")):
        with pytest.raises(OptionError, match=name):
            kind(bound, **{name: value}).fit(X, Y, sensitive_features=GROUP)
    with pytest.raises(OptionError, match=name):
        fb.FairRanker("exposure_parity <= 0.5", **{name: value}).fit(X, Y, np.repeat(np.arange(10), 4), GROUP)


def test_bounds_and_objectives_that_do_not_fit_are_refused():
    with pytest.raises(OptionError, match="an objective is a text"):
        fb.FairClassifier(PARITY, objective=3).fit(X, Y, sensitive_features=GROUP)
    with pytest.raises(OptionError, match=r"speaks of predicted numbers; train them with fairbound\.FairRegressor"):
        fb.FairClassifier("residual_gap <= 0.1").fit(X, Y, sensitive_features=GROUP)
    for twice in ([PARITY, PARITY], [PARITY, fb.DemographicParity(bound=0.2)]):
        with pytest.raises(OptionError, match="stated twice"):
            fb.audit(X[:, 0], Y, GROUP, twice)
    for wrong, said in (
        ({"bogus": 1}, "no parameter 'bogus'"),
        ({"confidence": "x"}, "confidence"),
        ({"batch_size": 0}, "batch"),
    ):
        with pytest.raises(OptionError, match=said):
            fb.feasibility(PARITY, X, Y, GROUP, **wrong)
    with pytest.raises(OptionError, match=r"as in LogisticRegression\(\)"):
        fb.Reduction(fb.FairClassifier, PARITY).fit(X, Y, GROUP)


def test_random_states_and_names_of_columns_are_taken_by_the_ranker_too():
    frame, query = pd.DataFrame(X, columns=["p", "q"]).assign(g=GROUP), np.repeat(np.arange(10), 4)
    states = (np.random.RandomState(0), np.random.default_rng(0), None)
    made = [
        fb.FairRanker("exposure_parity <= 0.9", budget="2 steps", random_state=s).fit(frame, Y, query, "g")
        for s in states
    ]
    assert len({m.fit_report_["seed"] for m in made}) == 3 and made[0].groups_.attributes == ("g",)


def test_a_function_is_a_metric_by_its_name():
    def agreement(y, scores):
        return float((y == scores).mean())

    alone, several = (fb.metrics.table(m, Y, Y, GROUP) for m in (agreement, [agreement, "selection_rate"]))
    assert alone.overall["agreement"] == 1.0 and set(several.overall) == {"agreement", "selection_rate"}


def test_feasibility_on_too_few_rows_says_what_is_not_known():
    said = fb.feasibility(PARITY, X[:4], [0, 1, 0, 1], ["a", "a", "a", "b"], budget="2 steps")["said"]
    assert "smallest value reached is not known" in said


def test_an_opened_frame_is_an_array_without_a_warning():
    """narwhals warns of six types where it looks whether its own frame is a Series of any library."""
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        array = plain_array(frame_of(frame))
    np.testing.assert_array_equal(array, frame.to_numpy())
