"""scikit-learn's habits in FairClassifier: random states, named columns, coefficients, class weights, warnings, parameters."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.metadata_routing import get_routing_for_object

import fairbound as fb
from fairbound.base.errors import DataError, DataWarning, OptionError
from fairbound.estimators.conventions import seed_of
from fairbound.estimators.saving.folder import ModelFolderError
from fairbound.estimators.saving.saved import arguments_of, check_manifest, manifest_of
from fairbound.postprocessing import GroupRule

PARITY = "demographic_parity <= 0.2"


def rows(n=400, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {"pay": 30 + 5 * rng.normal(size=n), "skill": rng.normal(size=n), "sex": rng.choice(["F", "M"], n)}
    )
    return X, (X.skill + 0.1 * (X.pay - 30) + rng.normal(size=n) > 0.3).astype(int).to_numpy()


def fitted(X, y, stated=PARITY, groups="sex", **options):
    return fb.FairClassifier(stated, budget="20 steps", **options).fit(X, y, groups if stated else None)


# -- random states ---------------------------------------------------------------------------------------------------


def test_a_random_state_is_a_seed_or_draws_one():
    assert seed_of(7) == seed_of(np.int64(7)) == 7
    drawn = {seed_of(None) for _ in range(4)}
    assert len(drawn) == 4 and all(0 <= s < 2**31 for s in drawn)
    for make in (np.random.RandomState, np.random.default_rng):
        assert seed_of(make(3)) == seed_of(make(3)) != seed_of(make(4))
    for wrong in (-1, 1.5, "0", [1]):
        with pytest.raises(OptionError, match="random_state must be"):
            seed_of(wrong)


def test_the_report_says_which_seed_was_drawn_and_it_gives_the_model_again():
    X, y = rows()
    options = {"model": "mlp:3", "algorithm": "sgd", "stated": None}
    one = fitted(X, y, random_state=np.random.RandomState(5), **options)
    again = fitted(X, y, random_state=one.fit_report_["seed"], **options)
    other = fitted(X, y, random_state=None, **options)
    assert one.x_.equal(again.x_) and not one.x_.equal(other.x_)


# -- columns of X as sensitive features ------------------------------------------------------------------------------


def test_sensitive_features_may_be_names_of_columns():
    X, y = rows()
    by_value = fitted(X, y, groups=X[["sex"]])
    for names in ("sex", ["sex"], ("sex",)):
        assert fitted(X, y, groups=names).x_.equal(by_value.x_)
    two = fitted(
        X.assign(town=np.where(X.pay > 30, "a", "b")), y, groups=["sex", "town"], stated="demographic_parity <= 1"
    )
    assert two.groups_.attributes == ("sex", "town")
    with pytest.raises(DataError, match="'age', which is no column of X"):
        fitted(X, y, groups="age")
    with pytest.raises(DataError, match="sensitive_features='sex' names columns, but X is no data frame"):
        fitted(X[["pay", "skill"]].to_numpy(), y, groups=np.str_("sex"))


def test_a_list_of_values_is_never_taken_for_names():
    X = pd.DataFrame({"F": [0.0, 1.0, 2.0, 3.0], "M": [1.0, 0.0, 3.0, 2.0]})
    made = fitted(X, [0, 1, 0, 1], stated="demographic_parity <= 1", groups=["F", "M", "F", "M"])
    assert made.groups_.labels == (("F", "M"),)


def test_groups_at_prediction_may_be_a_name_too():
    X, y = rows()
    made = fitted(X, y, use_groups_at_prediction=True)
    assert np.array_equal(made.predict(X, "sex"), made.predict(X, X.sex))


@pytest.mark.parametrize(
    "estimator",
    [
        fb.FairClassifier(PARITY, use_groups_at_prediction=True, budget="20 steps"),
        fb.Reduction(LogisticRegression(), PARITY, rounds=2),
        fb.PostProcessor(LogisticRegression(), PARITY),
        fb.FairRegressor("residual_gap <= 5", budget="20 steps"),
    ],
    ids=lambda e: type(e).__name__,
)
def test_metadata_routing_passes_the_sensitive_features_without_being_asked_to(estimator):
    X, y = rows()
    with config_context(enable_metadata_routing=True):
        params = {"sensitive_features": X.sex}
        scores = cross_val_score(estimator, X[["pay", "skill"]], y, cv=2, params=params, error_score="raise")
        pipe = make_pipeline(StandardScaler(), estimator).fit(X[["pay", "skill"]], y, sensitive_features=X.sex)
        needed = {"sensitive_features": X.sex} if "predict" in _asking(estimator) else {}
        assert len(pipe.predict(X[["pay", "skill"]], **needed)) == len(y)
    assert (scores > 0).all()


def _asking(estimator):
    """The methods of an estimator that ask for sensitive features by themselves."""
    asked = get_routing_for_object(estimator)
    return [m for m in ("fit", "predict", "score") if getattr(asked, m).requests.get("sensitive_features") is True]


# -- coefficients ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "form", [np.asarray, lambda X: sparse.csr_array(np.abs(np.asarray(X)))], ids=["dense", "sparse"]
)
def test_coefficients_are_in_the_units_of_the_table(form):
    X, y = rows()
    table = form(X[["pay", "skill"]])
    made = fitted(table, y, groups=X.sex)
    assert made.coef_.shape == (1, 2) and made.intercept_.shape == (1,)
    assert np.allclose(table @ made.coef_[0] + made.intercept_[0], made.decision_function(table), rtol=1e-5, atol=1e-5)


def test_coefficients_of_categories_and_of_classes():
    X, y = rows()
    made = fitted(X, y)
    assert made.coef_.shape == (1, len(made.encoder_.feature_names))
    hot = np.column_stack([X.pay, X.skill, X.sex == "F", X.sex == "M"])
    assert made.encoder_.feature_names == ("pay", "skill", "sex=F", "sex=M")
    assert np.allclose(hot @ made.coef_[0] + made.intercept_[0], made.decision_function(X))
    three = fitted(
        X[["pay", "skill"]], y + (X.skill > 1), stated=None, algorithm="sgd", options=fb.TableOptions(knots=0)
    )
    assert three.coef_.shape == (3, 2)
    assert np.allclose(
        X[["pay", "skill"]] @ three.coef_.T + three.intercept_, three.decision_function(X[["pay", "skill"]])
    )
    assert not hasattr(fitted(X, y, model="mlp:2"), "coef_") and not hasattr(fb.FairClassifier(), "coef_")


# -- class weights ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("decay", [0.0, 0.05])
@pytest.mark.parametrize("weight", ["balanced", {0: 1.0, 1: 3.0}, {1: 0.2}])
def test_class_weights_are_those_of_logistic_regression(weight, decay):
    """The unconstrained optimum is scikit-learn's with the same penalty; our L-BFGS ends within 1e-3 of it in the score."""
    X, y = rows(1000)
    X = X[["pay", "skill"]]
    straight = fb.TableOptions(knots=0)
    ours = fb.FairClassifier(objective="loss", class_weight=weight, weight_decay=decay, options=straight).fit(X, y)
    assert ours.fit_report_["algorithm"] == "full_batch_alm"
    scaled = (X - X.mean()) / X.std(ddof=0)
    mass = compute_sample_weight(weight, y).sum()
    theirs = LogisticRegression(C=1 / (decay * mass) if decay else np.inf, class_weight=weight, tol=1e-8).fit(scaled, y)
    assert np.allclose(ours.decision_function(X), theirs.decision_function(scaled), atol=5e-3)


def test_class_weights_leave_bounds_as_they_are():
    """The value of a bound is that of unweighted decisions."""
    X, y = rows()
    made = fitted(X, y, class_weight={1: 1.5})
    decided = made.predict(X)
    gap = abs(decided[X.sex == "F"].mean() - decided[X.sex == "M"].mean())
    assert made.fit_report_["constraints"][0]["train_value"] == pytest.approx(gap, abs=1e-6)


@pytest.mark.parametrize(
    "options, said",
    [
        ({"class_weight": "even"}, "'balanced' or a dict"),
        ({"class_weight": {1: -1.0}}, "must be a number >= 0"),
        ({"class_weight": {7: 1.0}}, "there is no class '7'"),
        ({"class_weight": {0: 0, 1: 0}}, "every row the weight 0"),
        ({"class_weight": "balanced", "objective": "accuracy"}, "leave objective"),
    ],
)
def test_class_weights_that_cannot_be_meant(options, said):
    X, y = rows(60)
    with pytest.raises(OptionError, match=said):
        fitted(X, y, stated=None, **options)


# -- what is said ----------------------------------------------------------------------------------------------------


def test_names_of_features_are_watched_as_scikit_learn_does():
    X, y = rows()
    X = X[["pay", "skill"]]
    named, bare = fitted(X, y, stated=None), fitted(X.to_numpy(), y, stated=None)
    assert named.feature_names_in_.tolist() == ["pay", "skill"]
    with pytest.warns(UserWarning, match="X does not have valid feature names, but FairClassifier was fitted with"):
        named.predict(X.to_numpy())
    with pytest.warns(UserWarning, match="X has feature names, but FairClassifier was fitted without"):
        bare.predict(X)


def test_columns_and_groups_left_out_are_warned_of():
    X, y = rows()
    X = X.assign(**{f"same{i}": i for i in range(7)})
    group = X.sex.where(np.arange(len(X)) > 0, "X")
    with pytest.warns(DataWarning) as said:
        fitted(X, np.where(group == "X", 0, y), stated="equal_opportunity[empty=drop] <= 0.3", groups=group)
    texts = [str(w.message) for w in said]
    assert "Column 'same0' was dropped: constant (0)." in texts
    assert "Further columns were dropped, 2 in all: same5, same6." in texts
    assert any(t.startswith("groups left out of the bounds for want of rows: X") for t in texts)
    assert all(w.filename == __file__ for w in said)


def test_each_run_of_a_fit_has_a_heading_that_says_which_it_is(capsys):
    X, y = rows()
    fitted(X, y, verbose=1, objective="accuracy", options=fb.TableOptions(knots=0))
    lines = capsys.readouterr().err.splitlines()
    headings = [line for line in lines if not line.startswith("step ")]
    begins = [i for i, line in enumerate(lines) if line.startswith("step        0 ")]
    assert len(headings) == len(begins) == len(set(headings)) > 1, (
        "every run restarts at step 0, under a line of its own"
    )
    assert [lines[i - 1] for i in begins] == headings
    assert headings[0] == f"full_batch_alm: all rows at once, under the bounds, minimising the loss, {len(X):,} rows"


@pytest.mark.parametrize("shown", ["progress", "verbose"])
def test_every_estimator_that_trains_tells_its_progress(shown, capsys, tmp_path):
    X, y = rows(60)
    pay, sex, qid = X[["pay", "skill"]], X.sex, np.repeat(np.arange(12), 5)
    for kind, given in (
        (fb.FairClassifier, (pay, y, sex)),
        (fb.FairRegressor, (pay, y, sex)),
        (fb.FairRanker, (pay, y, qid, sex)),
    ):
        assert kind().verbose == 0 and kind().progress is False
        made = kind(budget="3 steps", **{shown: 1}).fit(*given)
        assert "step        0 " in capsys.readouterr().err, kind
        if kind is fb.FairRanker:
            made.save(tmp_path / "m")
            assert getattr(kind.load(tmp_path / "m"), shown) == 1


def test_wrong_options_are_said_before_the_table_is_read():
    class Unread:
        shape = (2, 1)  # how large it is may be asked

        def __getattr__(self, name):
            raise AssertionError("the table was read")

    for options in ({"algorithm": "foo"}, {"model": "mlp:x"}, {"model": f"mlp:{'9' * 5000}"}, {"budget": "a while"}):
        with pytest.raises(OptionError):
            fb.FairClassifier(PARITY, **options).fit(Unread(), [0, 1], [0, 1])
    X, y = rows(60)
    with pytest.raises(OptionError, match="parameters"):
        fb.FairClassifier(model="mlp:1000000000").fit(X, y)


def test_a_value_that_no_float_can_score_is_refused():
    X, y = rows()
    made = fitted(X[["pay", "skill"]], y, stated=None, model="mlp:3", algorithm="sgd")
    made.x_[:] = made.x_.sign()  # weights of both signs: an infinity minus another
    far = X[["pay", "skill"]].copy()
    far.iloc[3] = [1.7e308, 1.7e308]
    with pytest.raises(DataError, match="in row 3"):
        made.predict(far)


def test_huge_weights_are_taken_in_units_of_the_largest():
    X, y = rows()
    w = np.random.default_rng(0).uniform(1, 2, len(y))
    groups = X.pop("sex")
    made = [fb.FairClassifier(PARITY, budget="20 steps").fit(X, y, groups, scale * w) for scale in (1.0, 1e300, 1e-300)]
    assert np.allclose(made[0].coef_, made[1].coef_, rtol=1e-2) and np.allclose(made[1].coef_, made[2].coef_, rtol=1e-6)
    s = made[0].decision_function(X)
    values = [fb.audit(s, y, groups, PARITY, sample_weight=k * w)["constraints"][0] for k in (1.0, 1e300)]
    assert values[0]["upper"] == pytest.approx(values[1]["upper"], rel=1e-9)


# -- a loaded model --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def manifest():
    return manifest_of(fitted(*rows(60)))


def test_a_loaded_model_knows_its_parameters(tmp_path):
    X, y = rows()
    given = {
        "algorithm": fb.ALM(step_size=0.02, dual_every=7), "budget": fb.Budget(steps=30), "batch_size": 32, "validation": 0.25,
        "objective": "loss", "class_weight": {1: 2.0}, "random_state": 11, "positive": 0, "verbose": 0,
        "options": fb.TableOptions(min_count=3), "sampling": "uniform", "sensitive_columns": "drop",
    }  # fmt: skip
    fb.FairClassifier(PARITY, **given).fit(X, y, "sex").save(tmp_path / "m")
    found = fb.FairClassifier.load(tmp_path / "m").get_params()
    assert found.pop("budget") == "30 steps" and found["constraint"] == PARITY
    assert {k: v for k, v in given.items() if k != "budget"}.items() <= found.items()
    again = fb.FairClassifier.load(tmp_path / "m").fit(X, y, "sex")
    assert again.x_.equal(fb.FairClassifier.load(tmp_path / "m").x_)


@pytest.mark.parametrize(
    "field, value",
    [
        ("classes", [0]), ("classes", [0, 0]), ("classes", [0, "1"]), ("classes", [[0], [1]]), ("model", {"kind": "tree"}),
        ("model", {"kind": "linear", "features": -1, "hidden": []}), ("features", 0), ("features", True), ("fit", {}),
        ("constraints", "demographic_parity <= 0.2"), ("groups", {"attributes": ["sex"], "labels": []}), ("loss", None),
        ("dropped_columns", [1]), ("parameters", {"unknown": 1}), ("parameters", {"algorithm": {"name": "os:system"}}),
        ("parameters", {"options": {"min_count": -1}}), ("rule", []), ("rule", {"attributes": []}),
    ],
)  # fmt: skip
def test_a_manifest_with_an_odd_field_is_refused_by_name(manifest, field, value):
    check_manifest(json.loads(json.dumps(manifest)), "here")
    changed = {**manifest, field: value}
    if field == "parameters" and "algorithm" in value:  # code of another module is never imported
        assert "algorithm" not in arguments_of(changed, None, "here")
        return
    with pytest.raises((ModelFolderError, DataError), match=r"'?\w+'?"):
        arguments_of(changed, None, "here")
        GroupRule.from_dict(changed["rule"])


@pytest.mark.parametrize(
    "field", ["model", "classes", "constraints", "groups", "loss", "dropped_columns", "features", "fit"]
)
def test_a_manifest_that_lacks_a_field_is_refused_by_name(manifest, field):
    rest = {name: value for name, value in manifest.items() if name != field}
    with pytest.raises(ModelFolderError, match=f"its '{field}' is not what was saved there \\(it is missing"):
        check_manifest(rest, "here")


@pytest.mark.parametrize(
    "estimator", [fb.FairClassifier(), fb.FairRegressor(), fb.FairRanker()], ids=lambda e: type(e).__name__
)
def test_scikit_learn_is_told_what_tables_are_taken(estimator):
    tags = get_tags(estimator)
    assert tags.input_tags.allow_nan and tags.input_tags.sparse and tags.input_tags.string
    assert tags.target_tags.required and tags.estimator_type == {
        "FairClassifier": "classifier",
        "FairRegressor": "regressor",
    }.get(type(estimator).__name__)


@pytest.mark.parametrize("model", ["linear", "mlp:3"])
def test_predicting_rows_that_are_written_in_another_way_warns(model):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=200), "city": rng.choice(["a", "b"], 200)})
    fair = fb.FairClassifier(model=model, budget="5 steps").fit(X, (X.x + rng.normal(size=200) > 0).astype(int))
    upper = X.assign(city=X.city.str.upper())
    with pytest.warns(fb.DataWarning, match="city: 200 of 200 rows have a value that training did not know"):
        fair.predict(upper)
    with warnings.catch_warnings():
        warnings.simplefilter("error", fb.DataWarning)
        fair.predict(X)
        fair.predict(upper[:19])  # single rows with a rare value are no other table


def test_groups_given_as_weights_and_groups_that_do_not_arrive_are_told_from_each_other():
    X, y, g = np.random.default_rng(0).normal(size=(200, 2)), np.arange(200) // 2 % 2, np.array(["a", "b"] * 100)[::-1]
    fair = fb.FairClassifier(budget="5 steps").fit(X, y)
    thresholds = fb.PostProcessor(LogisticRegression(), PARITY)
    for fitted, given in ((fair, (g,)), (thresholds.fit(X, y, g), (g, g))):
        with pytest.raises(
            DataError, match=r"sample_weight must be numbers.*Groups are passed by name, as sensitive_features="
        ):
            fitted.score(X, y, *given)
    with pytest.raises(DataError, match=r"set_config\(enable_metadata_routing=True\).*set_score_request"):
        cross_val_score(thresholds, X, y, params={"sensitive_features": g}, error_score="raise")
    with config_context(enable_metadata_routing=True):
        assert np.isfinite(cross_val_score(thresholds, X, y, params={"sensitive_features": g})).all()
        with pytest.raises(DataError) as raised:
            thresholds.predict(X)
        assert "set_config" not in str(raised.value)


@pytest.mark.parametrize("made", [fb.FairClassifier, fb.PostProcessor, fb.Reduction])
def test_cross_validation_without_groups_names_the_words_that_pass_them(made):
    """The line of docs/metrics.md, and the error that scikit-learn prints below "All the 2 fits failed"."""
    X, y = rows()
    model = made(PARITY, budget="20 steps") if made is fb.FairClassifier else made(LogisticRegression(), PARITY)
    features = X[["pay", "skill"]]
    with pytest.raises(ValueError, match=r'All the 2 fits failed[\s\S]*params={"sensitive_features": ...}'):
        cross_val_score(model, features, y, cv=2)
    if made is fb.FairClassifier:
        assert (cross_val_score(model, features, y, cv=2, params={"sensitive_features": X.sex}) > 0.5).all()


def test_weight_decay_is_an_option_of_classifiers():
    """As docs/training.md says; a method of a regressor has a decay of its own."""
    for made in (fb.FairRegressor, fb.FairRanker):
        assert "weight_decay" not in made().get_params()
    X, y = rows()
    bare, decayed = (
        fb.FairRegressor(algorithm=fb.ALM(weight_decay=decay), budget="200 steps").fit(X[["pay", "skill"]], y)
        for decay in (0.0, 10.0)
    )
    assert np.var(decayed.predict(X[["pay", "skill"]])) < np.var(bare.predict(X[["pay", "skill"]])) / 2


def test_what_is_no_table_is_refused_without_a_word_on_names():
    X, y = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 2)), columns=["a", "b"]), np.arange(60) % 2
    fair = fb.FairClassifier().fit(X, y)
    for given in (X.iloc[0], X.iloc[0].to_dict(), X.iloc[:2].to_dict("records")):
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            with pytest.raises(ValueError, match="table"):
                fair.predict(given)


def test_a_table_without_rows_is_said_to_have_none():
    with pytest.raises(DataError, match="the table has no rows"):
        fb.FairClassifier("demographic_parity <= 0.1").fit(np.zeros((0, 2)), np.zeros(0), sensitive_features=[])
