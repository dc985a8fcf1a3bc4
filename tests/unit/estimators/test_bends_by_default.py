"""Where numbers bend though nothing is said of knots, and where they do not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import fairbound as fb
from fairbound.base.errors import OptionError
from fairbound.estimators import training_rows
from fairbound.tables import Chunks, Encoded, TableOptions
from fairbound.tables.shapes.shapes import MOST_CLASSES

BOUND = "demographic_parity <= 0.05"
STRAIGHT = TableOptions(knots=0)


def rows(n: int = 600, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Rows whose label is 1 in the middle of x, wider with z, but for one in ten."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"x": rng.uniform(-3, 3, n), "z": rng.normal(size=n), "c": rng.choice(list("ab"), n)})
    return X, ((X.z + 1.5 > X.x.abs()) ^ (rng.random(n) < 0.1)).to_numpy().astype(int), rng.choice(["f", "m"], n)


def fitted(X, y, group, bound=BOUND, **options):
    return fb.FairClassifier(bound, **options).fit(X, y, sensitive_features=group)


@pytest.mark.parametrize("options", [None, TableOptions(min_count=3)], ids=["none", "others"])
def test_a_linear_model_bends_where_the_labels_ask_for_it(options: TableOptions | None) -> None:
    X, y, group = rows()
    new, labels, _ = rows(seed=1)
    model = fitted(X, y, group, "demographic_parity <= 0.2", options=options)
    straight = fitted(X, y, group, "demographic_parity <= 0.2", options=STRAIGHT)
    assert model.encoder_.bent == ("x",)
    assert model.score(new, labels) > 0.85 > 0.75 > straight.score(new, labels)
    assert sum("bends at up to 3 values in these columns" in note for note in model.fit_report_["notes"]) == 1
    assert model.coef_.shape == (1, len(model.encoder_.feature_names))
    array = fitted(X[["x", "z"]].to_numpy(), y, group)
    assert array.encoder_.bent == ("x0",)


def test_straight_numbers_give_the_model_without_knots_to_the_last_bit() -> None:
    X, _, group = rows()
    y = (X.x + np.random.default_rng(2).normal(size=len(X)) > 0).astype(int)
    default, straight = fitted(X, y, group), fitted(X, y, group, options=STRAIGHT)
    assert default.encoder_.bent == ()
    assert default.x_.equal(straight.x_)
    assert (
        "The model is straight in every number: the labels ask for no bend or jump, or are too few to tell."
        in default.fit_report_["notes"]
    )


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # so few steps learn nothing
@pytest.mark.filterwarnings("ignore:All labels y are 2")
def test_nothing_bends_by_default_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, group = rows()
    quick = {"algorithm": "alm", "budget": "20 steps"}
    numbers = X[["x", "z"]]
    many = np.arange(len(X)) % (MOST_CLASSES + 1)
    for model in (
        fitted(X, y, group, model="mlp:4", budget="20 steps"),
        fitted(X, many, group, bound="class_demographic_parity <= 0.5", budget="20 steps"),
        fitted(sp.csr_array(numbers.to_numpy()), y, group, **quick),
        fitted(Chunks(lambda: [X[:300], X[300:]]), y, group, **quick),
        fitted(Encoded.of(fb.TableEncoder(), X), y, group, **quick),
        fitted(X, y, group, group_terms=True, **quick),
        fb.FairRegressor("residual_gap <= 1", model="mlp:4", budget="20 steps").fit(X, X.x, sensitive_features=group),
        fb.FairRegressor().fit(X, np.full(len(X), 2.0)),
    ):
        assert model.encoder_.bent == ()
        assert not any("straight" in note or "bends" in note for note in model.fit_report_["notes"])
    assert fb.TableEncoder().fit(X, y).bent == ()
    few = fitted(X[:49], y[:49], group[:49], bound="demographic_parity <= 0.5")  # of four features and the intercept
    assert few.encoder_.bent == ()
    monkeypatch.setattr(training_rows, "MOST_BENT", len(X) - 1)
    assert fitted(X, y, group, **quick).encoder_.bent == ()
    assert fitted(X, y, group, options=TableOptions(knots="auto"), **quick).encoder_.bent == ("x",)


def test_predicted_numbers_and_classes_bend_and_jump_where_their_labels_ask() -> None:
    rng = np.random.default_rng(7)
    X, _, group = rows(3000)
    X["code"] = rng.integers(0, 30, len(X))
    rule = X.x.abs() + 2.0 * X.code.between(8, 12) + X.z
    amount = (10 * rule + 3 * rng.normal(size=len(X))).to_numpy()
    number = fb.FairRegressor("residual_gap <= 0.2").fit(X, amount, sensitive_features=group)
    assert "x" in number.encoder_.bent and number.encoder_.jumping == {"code": (7.5, 12.5)}
    assert np.mean((number.predict(X) - amount) ** 2) < 1.1 * 9
    line = fb.FairRegressor("residual_gap <= 0.2", options=STRAIGHT).fit(X, amount, sensitive_features=group)
    assert np.mean((line.predict(X) - amount) ** 2) > 10 * 9
    assert fb.measure("residual_gap <= 0.2", number.predict(X), amount, group) <= 0.2
    classes = np.digitize(rule + 0.3 * rng.normal(size=len(X)), [1.0, 2.0])
    bound = "class_demographic_parity <= 0.05"
    three = fitted(X, classes, group, bound=bound)
    assert "x" in three.encoder_.bent and three.encoder_.jumping["code"] == (7.5, 12.5)
    assert (
        three.score(X, classes) > 0.8 > 0.7 > fitted(X, classes, group, bound=bound, options=STRAIGHT).score(X, classes)
    )
    for model in (number, three):
        assert sum("bends at up to 3 values" in note for note in model.fit_report_["notes"]) == 1


def test_a_certificate_and_a_frontier_read_all_rows_by_one_encoder() -> None:
    X, y, group = rows(2000)
    model = fitted(
        X,
        y,
        group,
        bound="demographic_parity <= 0.3",
        certify=True,
        algorithm="alm",
        budget="60 steps",
        options=TableOptions(min_count=3),
    )
    assert model.encoder_.bent == ("x",)
    assert model.unconstrained_.encoder_ is model.encoder_
    found = fb.feasibility(
        "demographic_parity <= 0.3", X, y, group, options=TableOptions(min_count=3), budget="20 steps"
    )
    assert min(one["accuracy"] for one in found["curve"]) > 0.7


def test_a_model_that_bends_is_saved_cloned_and_fitted_anew(tmp_path) -> None:
    X, y, group = rows()
    model = fitted(X, y, group)
    model.save(tmp_path / "model")
    again = fb.FairClassifier.load(tmp_path / "model")
    assert np.array_equal(again.decision_function(X), model.decision_function(X))
    assert again.options is None
    assert np.array_equal(clone(again).fit(X, y, sensitive_features=group).coef_, model.coef_)
    assert again.set_params(options=STRAIGHT).fit(X, y, sensitive_features=group).coef_.shape == (1, 4)


def test_options_beside_an_encoded_table_say_what_its_encoder_says() -> None:
    X, y, group = rows()
    plain = Encoded.of(fb.TableEncoder(), X)
    five = Encoded.of(fb.TableEncoder(TableOptions(knots=5)), X)
    for table, options in (
        (plain, STRAIGHT),
        (plain, TableOptions()),
        (five, TableOptions()),
        (five, five.encoder.options),
    ):
        fitted(table, y, group, options=options)
    for table, options in ((plain, five.encoder.options), (five, STRAIGHT), (five, TableOptions(min_count=3))):
        with pytest.raises(OptionError, match="encoded already"):
            fitted(table, y, group, options=options)
