"""fb.PostProcessor: models of any kind, every kind of group at prediction, random decisions that repeat, bad input, the file."""

from __future__ import annotations

import json
import pickle
import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn import config_context
from sklearn.base import BaseEstimator, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import get_scorer, log_loss
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import fairbound as fb
from fairbound.base.errors import DataError, DataWarning, EmptyGroupError, OptionError
from fairbound.base.names import Names
from fairbound.postprocessing import GroupRule, UnknownGroupError
from fairbound.postprocessing.rule import draws


def table(n=400, seed=0):
    rng = np.random.default_rng(seed)
    sex = rng.choice(["F", "M"], n)
    X = rng.normal(size=(n, 3)) + 0.8 * (sex == "M")[:, None]
    return X, (X.sum(1) + rng.normal(size=n) > 1).astype(int), sex


def gap(decisions, sex):
    return abs((decisions[sex == "F"] == 1).mean() - (decisions[sex == "M"] == 1).mean())


@pytest.mark.parametrize(
    "model",
    [LogisticRegression(), LinearSVC(), HistGradientBoostingClassifier(max_iter=20), LinearRegression(),
     make_pipeline(StandardScaler(), LogisticRegression())],
    ids=lambda m: type(m).__name__,
)  # fmt: skip
def test_any_model_fitted_or_not(model):
    X, y, sex = table()
    free = fb.PostProcessor(model, "demographic_parity <= 0.03", folds=0).fit(X, y, sensitive_features=sex)
    assert free.estimator_ is not model and not hasattr(model, "n_features_in_")
    fitted = clone(model).fit(X, y)
    held = fb.PostProcessor(fitted, "demographic_parity <= 0.03").fit(X, y, sensitive_features=sex)
    assert held.estimator_ is fitted
    for made in (free, held):
        decisions = made.predict(X, sensitive_features=sex)
        assert gap(decisions, sex) <= 0.03 + 1e-12
        assert made.fit_report_["accuracy"] == pytest.approx(made.score(X, y, sex), abs=1e-12)
        assert made.fit_report_["constraints"][0]["train_value"] == pytest.approx(gap(decisions, sex), abs=1e-12)
        assert ((made.decision_function(X, sex) > 0) == (decisions == 1)).all()


def test_scores_of_every_origin_give_the_same_decisions():
    X, y, sex = table()
    model = LogisticRegression().fit(X, y)
    s = model.decision_function(X)
    bound = "equalized_odds <= 0.1"
    expected = fb.PostProcessor(model, bound).fit(X, y, sex).predict(X, sex)
    for scores, made_of in (
        (s, fb.PostProcessor(None, bound)),
        (s[:, None], fb.PostProcessor(None, bound)),
        (pd.Series(s), fb.PostProcessor(None, bound)),
        (X, fb.PostProcessor(model, bound, scores="predict_proba")),
        (X, fb.PostProcessor(model, bound, scores=lambda m, X: np.exp(m.decision_function(X)))),
        (X, fb.PostProcessor(OnlyProbabilities(model), bound)),
    ):
        assert (made_of.fit(scores, y, sex).predict(scores, sex) == expected).all()


class OnlyProbabilities:
    """A model of no library: no fit, no classes_, (n, 2) probabilities."""

    def __init__(self, model):
        self.predict_proba = model.predict_proba


def test_labels_may_be_any_two_and_the_positive_one_is_named():
    X, y, sex = table()
    words = np.where(y == 1, "approve", "deny")
    model = LogisticRegression().fit(X, words)  # its class 1 is "deny"
    for scores in ("auto", "decision_function", "predict_proba"):
        made = fb.PostProcessor(model, "equal_opportunity <= 0.05", positive="approve", scores=scores)
        made.fit(X, words, sensitive_features=sex)
        assert made.classes_.tolist() == ["deny", "approve"]
        d = made.predict(X, sex)
        assert (d == words).mean() > 0.75
        rates = [(d[(words == "approve") & (sex == s)] == "approve").mean() for s in "FM"]
        assert abs(rates[0] - rates[1]) <= 0.05 + 1e-12
    hard = fb.PostProcessor(model, "demographic_parity <= 0.9", positive="approve", scores="predict").fit(X, words, sex)
    assert (hard.predict(X, sex) == words).mean() > 0.7
    assert hard.fit_report_["groups"][0]["thresholds"][0] == 0.5


def test_tables_of_any_kind_name_the_groups():
    X, y, sex = table()
    race = np.random.default_rng(1).choice(["a", "b", "c"], len(y))
    model = LogisticRegression().fit(X, y)
    frame = pd.DataFrame({"race": race, "sex": sex})
    made = fb.PostProcessor(model, "demographic_parity[crossed] <= 0.1").fit(X, y, frame)
    assert len(made.rule_.codes) == 6 and made.rule_.name(0) == "a & F"
    expected = made.predict(X, frame)
    wider = pd.DataFrame({"age": 1, "sex": sex, "race": race})
    for groups in (pl.DataFrame({"race": race, "sex": sex}), {"sex": sex, "race": race}, wider, fb.Groups.of(frame),
                   fb.Groups.of(wider)):  # fmt: skip
        assert (made.predict(X, groups) == expected).all()
    assert (made.predict(X[:7], fb.Groups.of(frame).take(np.arange(7))) == expected[:7]).all()
    each = fb.PostProcessor(model, "demographic_parity <= 0.1").fit(X, y, frame)  # each attribute by itself
    assert len(each.rule_.codes) == 6
    only = fb.PostProcessor(model, "demographic_parity[by=sex] <= 0.1").fit(X, y, frame)
    assert only.rule_.attributes == ("sex",) and len(only.rule_.codes) == 2
    assert (only.predict(X, sex) == only.predict(X, frame)).all()


def test_a_group_never_seen_is_decided_by_the_pooled_threshold_or_refused():
    X, y, sex = table()
    model = LogisticRegression().fit(X, y)
    made = fb.PostProcessor(model, "demographic_parity <= 0.03").fit(X, y, sex)
    other = np.where(np.arange(len(y)) < 5, "X", sex).astype(object)
    other[5] = None
    with pytest.warns(
        UserWarning, match="6 of 400 rows have a value of 'group' that the thresholds were not fitted to"
    ):
        decisions = made.predict(X, other)
    scores = model.decision_function(X)
    cuts = np.append(-np.inf, np.sort(scores))
    best = max(((scores > c) == y).mean() for c in cuts)
    assert ((scores > made.rule_.pooled) == y).mean() == pytest.approx(best)
    assert (decisions[:6] == (scores[:6] > made.rule_.pooled)).all()
    assert (decisions[6:] == made.predict(X, sex)[6:]).all()
    strict = fb.PostProcessor(model, "demographic_parity <= 0.03", unknown="raise").fit(X, y, sex)
    with pytest.raises(UnknownGroupError, match="Correct their groups"):
        strict.predict(X, other)
    with pytest.raises(DataError, match="pass them by name, as sensitive_features=, with group"):
        made.predict(X)
    with pytest.raises(DataError, match="400 rows to decide but 3 rows of sensitive features"):
        made.predict(X, sex[:3])
    with pytest.raises(DataError, match=r"lacks \['group'\]"):
        made.predict(X, {"a": sex, "b": sex})


def test_a_missing_group_in_fit_is_a_group_of_its_own_in_no_bound():
    X, y, sex = table(600)
    holes = sex.astype(object)
    holes[::4] = None
    with pytest.warns(DataWarning, match="group is missing in 150 of the rows of fit; these are a group of their own"):
        made = fb.PostProcessor(LogisticRegression(), "demographic_parity <= 0.02").fit(X, y, holes)
    assert made.fit_report_["missing_group_rows"] == {"group": 150}
    decisions = made.predict(X, holes)  # without a warning
    assert [made.rule_.name(c) for c in range(3)] == ["missing", "F", "M"]
    known = holes != None  # noqa: E711
    assert gap(decisions[known], sex[known]) <= 0.02 + 1e-12
    scores, gone = made.estimator_.decision_function(X), ~known
    best = max(((scores[gone] > c) == y[gone]).mean() for c in np.append(-np.inf, scores[gone]))
    assert (decisions[gone] == y[gone]).mean() == pytest.approx(best)


@pytest.mark.filterwarnings("ignore:group is missing", "ignore:sex is missing", "ignore:Thresholds fitted")
@pytest.mark.parametrize("bound", ["demographic_parity <= 0.1", "demographic_parity[crossed] <= 0.1"])
def test_a_group_never_seen_is_not_taken_for_a_missing_one(bound, tmp_path):
    X, y, sex = table(600)
    race = np.resize(["a", "b", "b"], 600)
    for given, strange in (
        ({"group": sex}, {"group": np.full(5, "X")}),
        ({"sex": sex, "race": race}, {"sex": np.full(5, "X"), "race": race[:5]}),
        ({"sex": sex, "race": race}, {"sex": [None] * 5, "race": np.full(5, "c")}),
    ):
        first = next(iter(given))
        holes = given | {first: np.where(np.arange(600) % 4, given[first].astype(object), None)}
        scorer = LogisticRegression().fit(X, y)
        made = fb.PostProcessor(scorer, bound, unknown="raise").fit(X, y, holes)
        made.save(tmp_path / "rule.json")
        for one in (made, fb.PostProcessor.load(tmp_path / "rule.json", scorer)):
            one.predict(X, holes)
            with pytest.raises(UnknownGroupError, match="5 of 5 rows"):
                one.predict(X[:5], strange)
            one.set_params(unknown="pooled")
            with pytest.warns(DataWarning, match="5 of 5 rows have a value of .* the threshold of all rows together"):
                decisions = one.predict(X[:5], strange)
            assert (decisions == (scorer.decision_function(X[:5]) > one.rule_.pooled)).all()
            assert one.rule_.outside(strange, 5) == 5


@pytest.mark.parametrize("of_whole", ["", ",overall"])
def test_few_rows_under_no_bound_are_told_and_decided_by_the_threshold_of_all(of_whole):
    X, y, sex = table(600)
    scores = X.sum(1)
    group = sex.astype(object)
    group[:10], group[10:15] = "X", None
    y[:15] = 0  # by these rows alone nobody of them would ever be selected
    fair = fb.PostProcessor(constraint=f"demographic_parity[fewest=30{of_whole}] <= 0.05")
    with pytest.warns(DataWarning) as told:
        fair.fit(scores, y, group)
    named = "Groups of fewer than 50 rows that no bound holds for are decided by the best threshold of all rows together: 'missing' (5), 'X' (10)."
    assert [str(one.message) for one in told] == [
        "group is missing in 5 of the rows of fit; these are a group of their own, and no bound on group holds for them.",
        "groups left out of the bounds for want of rows: X (10).",
        named,
    ]
    found = fair.fit_report_
    assert found["warnings"] == [named] and found["dropped_rows"] == {"X": 10}
    by_name = dict(zip([one["group"] for one in found["groups"]], fair.rule_.thresholds, strict=True))
    assert by_name["missing"] == by_name["X"] == (fair.rule_.pooled,) != by_name["F"]
    decided = fair.predict(scores, group)  # as a group that was fitted: without a warning
    assert (decided[:15] == (scores[:15] > fair.rule_.pooled)).all() and decided[:15].any()
    assert found["accuracy"] == pytest.approx((decided == y).mean(), abs=1e-12)
    assert found["accuracy"] <= found["accuracy_bound"] + 1e-12
    assert [one["selection_rate"] for one in found["groups"]] == pytest.approx(
        [decided[group == g].mean() for g in (None, "F", "M", "X")], abs=1e-12
    )
    with pytest.warns(DataWarning) as told:  # X is under this one
        fair.set_params(constraint="demographic_parity <= 0.5").fit(scores, y, group)
    assert [str(one.message).split(": ")[-1] for one in told][-2:] == ["'X' (10).", "'missing' (5)."]


def test_groups_of_one_class_and_of_one_row():
    X, y, sex = table()
    group = sex.astype(object)
    group[0] = "alone"
    model = LogisticRegression().fit(X, y)
    few = r"too few training rows for a difference this small in 'alone' \(1\)"
    with (
        pytest.warns(ConvergenceWarning, match="One threshold for each group costs much"),
        pytest.warns(DataWarning, match=few),
        pytest.warns(DataWarning, match=r"fewer than 50 rows follow these rows .*'alone' \(1\)"),
    ):
        made = fb.PostProcessor(model, "demographic_parity <= 0.05").fit(X, y, group)
    assert len(made.fit_report_["small_groups"]) == 1
    assert any("'alone' (1)" in w for w in made.fit_report_["warnings"])
    rates = [(made.predict(X, group)[group == g] == 1).mean() for g in ("alone", "F", "M")]
    assert max(rates) - min(rates) <= 0.05 + 1e-12
    missing = "positive" if y[0] == 0 else "negative"
    notion = "equal_opportunity" if y[0] == 0 else "predictive_equality"
    with pytest.raises(EmptyGroupError, match=f"'alone' has no {missing} row"):
        fb.PostProcessor(model, f"{notion} <= 0.05").fit(X, y, group)
    with (
        pytest.warns(DataWarning, match=r"groups left out of the bounds for want of rows: alone"),
        pytest.warns(DataWarning, match=r"decided by the best threshold of all rows together: 'alone' \(1\)"),
    ):
        left_out = fb.PostProcessor(model, f"{notion}[empty=drop] <= 0.05").fit(X, y, group)
    assert left_out.fit_report_["dropped_groups"] == ["alone"]
    assert left_out.predict(X, group)[0] == (model.decision_function(X)[0] > left_out.rule_.pooled)


def test_a_named_group_without_a_row_is_no_group():
    X, y, sex = table()
    three = np.append(sex[:-1].astype(object), "X")
    groups = fb.Groups.of(three)
    without = groups.take(np.arange(len(y) - 1))
    made = fb.PostProcessor(LogisticRegression(), "demographic_parity <= 0.03").fit(X[:-1], y[:-1], without)
    assert [made.rule_.name(c) for c in range(2)] == ["F", "M"]
    with pytest.warns(UserWarning, match="1 of 400 rows"):
        made.predict(X, groups)


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_boosters_of_other_libraries_as_they_are(library):
    module = pytest.importorskip(library, reason=f"{library} is not installed (the extra 'boosting')")
    X, y, sex = table()
    bound = "equalized_odds <= 0.05"
    if library == "xgboost":
        model = module.XGBClassifier(n_estimators=10, max_depth=2, n_jobs=1)
        native = module.train({"max_depth": 2, "nthread": 1}, module.DMatrix(X, y), 10)
        scores = lambda booster, X: booster.predict(module.DMatrix(X))  # noqa: E731
    else:
        model = module.LGBMClassifier(n_estimators=10, max_depth=2, n_jobs=1, verbose=-1)
        native = module.train({"objective": "binary", "num_threads": 1, "verbose": -1}, module.Dataset(X, y), 10)
        scores = "auto"
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    fitted = clone(model).fit(frame, y)
    held = fb.PostProcessor(fitted, bound).fit(frame, y, sex)
    free = fb.PostProcessor(model, bound, folds=0).fit(frame, y, sex)
    assert held.estimator_ is fitted and (held.predict(frame, sex) == free.predict(frame, sex)).all()
    for made, rows in ((held, frame), (fb.PostProcessor(native, bound, scores=scores).fit(X, y, sex), X)):
        assert fb.measure(bound, made.predict(rows, sex), y, sex) <= 0.05 + 1e-12
        assert made.score(rows, y, sex) > 0.65


def test_random_decisions_repeat_and_have_the_rates_that_are_promised():
    X, y, sex = table(3000, seed=2)
    model = LogisticRegression().fit(X, y)
    made = fb.PostProcessor(model, "equalized_odds <= 0", randomised=True).fit(X, y, sex)
    assert made.rule_.randomised and not hasattr(made, "decision_function")
    chance = made.selection_probability(X, sex)
    open_ = (chance > 0) & (chance < 1)
    assert open_.sum() > 20
    first = made.predict(X, sex)
    assert (made.predict(X, sex) == first).all()
    assert (made.predict(X[:9], sex[:9]) == first[:9]).all()  # by the place of the row
    other = clone(made).set_params(random_state=1).fit(X, y, sex)
    assert (other.selection_probability(X, sex) == chance).all()
    assert (other.predict(X, sex)[open_] != first[open_]).any()
    assert (other.predict(X, sex)[~open_] == first[~open_]).all()
    ids = np.array([f"person {i}" for i in range(len(y))])
    by_id = made.predict(X, sex, row_ids=ids)
    order = np.random.default_rng(0).permutation(len(y))
    assert (made.predict(X[order], sex[order], row_ids=ids[order]) == by_id[order]).all()
    selected = np.mean(
        [clone(made).set_params(random_state=r).fit(X, y, sex).predict(X, sex) for r in range(30)], axis=0
    )
    spread = np.sqrt((chance * (1 - chance)).sum() / 30)
    assert abs(selected.sum() - chance.sum()) <= 5 * spread
    rates = [[chance[(sex == s) & (y == v)].mean() for s in "FM"] for v in (0, 1)]
    assert np.ptp(rates, axis=1).max() <= 1e-9
    one, sure = np.flatnonzero(open_)[:1], np.flatnonzero(~open_)[:1]
    with pytest.warns(UserWarning, match="all rows that are scored one by one get the same draw"):
        made.predict(X[one], sex[one])
    assert made.predict(X[one], sex[one], row_ids=ids[one]) == by_id[one]  # without a warning, and so
    assert made.predict(X[sure], sex[sure]) == first[sure]
    with pytest.raises(DataError, match="row_ids must have shape"):
        made.predict(X, sex, row_ids=[1, 2])


def test_draws_are_uniform_and_depend_on_seed_and_identifier_alone():
    u = draws(0, np.arange(20000))
    counts = np.histogram(u, bins=20, range=(0, 1))[0]
    assert ((counts - 1000) ** 2 / 1000).sum() < 52  # chi squared, 19 degrees of freedom: 1e-4
    assert (draws(0, [5, 17]) == u[[5, 17]]).all() and (draws(1, [5, 17]) != u[[5, 17]]).all()


def test_scikit_learn_habits():
    X, y, sex = table()
    made = fb.PostProcessor(LogisticRegression(C=0.5), "demographic_parity <= 0.05", costs=(1, 2))
    assert made.get_params()["estimator__C"] == 0.5 and "PostProcessor" in repr(made)
    copied = clone(made).set_params(estimator__C=2.0)
    assert copied.estimator.C == 2.0 and made.estimator.C == 0.5
    pipe = make_pipeline(StandardScaler(), copied).fit(X, y, postprocessor__sensitive_features=sex)
    assert gap(pipe.predict(X, sensitive_features=sex), sex) <= 0.05 + 1e-12
    again = pickle.loads(pickle.dumps(pipe))
    assert (again.predict(X, sensitive_features=sex) == pipe.predict(X, sensitive_features=sex)).all()
    with config_context(enable_metadata_routing=True):
        routed = made.set_fit_request(sensitive_features=True).set_score_request(sensitive_features=True)
        found = cross_validate(routed, X, y, params={"sensitive_features": sex}, cv=3, error_score="raise")
    assert (found["test_score"] > 0.6).all()


def test_weights_reach_the_thresholds_and_the_estimator():
    X, y, sex = table()
    w = np.random.default_rng(0).choice([0.0, 1.0, 3.0], len(y))
    made = fb.PostProcessor(LogisticRegression(), "demographic_parity <= 0.03").fit(X, y, sex, sample_weight=w)
    direct = LogisticRegression().fit(X, y, sample_weight=w / w[w > 0].mean())
    assert np.allclose(made.estimator_.coef_, direct.coef_)
    d = made.predict(X, sex) == 1
    rates = [np.average(d[sex == s], weights=w[sex == s]) for s in "FM"]
    assert abs(rates[0] - rates[1]) <= 0.03 + 1e-12
    assert made.fit_report_["rows"] == (w > 0).sum()
    assert made.score(X, y, sex, w) == pytest.approx(made.fit_report_["accuracy"])


@pytest.mark.filterwarnings("ignore:equalized_odds <= 0. the rates of")
def test_a_constant_score_leaves_only_constant_decisions_and_says_so():
    X, y, sex = table()
    with pytest.warns(ConvergenceWarning, match="Every row gets the same decision"):
        made = fb.PostProcessor(DummyClassifier(), "demographic_parity <= 0.03").fit(X, y, sex)
    assert len(np.unique(made.predict(X, sex))) == 1
    X2, y2, sex2 = table(401)
    with pytest.warns(ConvergenceWarning, match=r"Every row gets the same decision.*Take randomised=True"):
        none = fb.PostProcessor(LogisticRegression(), "equalized_odds <= 0").fit(X2, y2, sex2)
    assert len(np.unique(none.predict(X2, sex2))) == 1
    mixed = fb.PostProcessor(LogisticRegression(), "equalized_odds <= 0", randomised=True).fit(X2, y2, sex2)
    assert f"have {mixed.fit_report_['accuracy']:.3f}" in none.fit_report_["shortfall"]
    assert mixed.fit_report_["shortfall"] is None
    assert none.fit_report_["gap"] > 0.05
    always = none.predict(X2, sex2)[0] == 1
    for scores in (
        none.decision_function(X2, sex2),
        none.rule_.margins(np.array([-1e4, -800, 0, 1e4]), np.zeros(4, int)),
    ):
        assert ((scores > 0) == always).all() and np.isfinite(scores).all()
    audit = fb.audit(none.decision_function(X2, sex2), y2, sex2, "loss_gap <= 0.1", threshold=0)
    assert audit["metrics"]["log_loss"] < 10
    order = np.argsort(none.estimator_.decision_function(X2))
    assert (np.diff(none.decision_function(X2, sex2)[order]) >= 0).all()


def test_a_group_of_few_rows_is_warned_of_where_thresholds_move_in_steps():
    rng = np.random.default_rng(0)
    sex = np.array(["F", "M"] * 500 + ["t"] * 3)
    scores = rng.normal(size=len(sex))
    y = (scores + rng.normal(size=len(sex)) > 0).astype(int)
    with (
        pytest.warns(DataWarning, match=r"too few training rows for a difference this small in 't' \(3\)"),
        pytest.warns(DataWarning, match=r"Thresholds fitted to fewer than 50 rows .*'t' \(3\)"),
    ):
        made = fb.PostProcessor(constraint="demographic_parity <= 0.3").fit(scores, y, sex)
    assert made.fit_report_["shortfall"] is None
    with pytest.warns(DataWarning) as told:
        fb.PostProcessor(constraint="demographic_parity <= 0.3", randomised=True).fit(scores, y, sex)
    (said,) = (str(one.message) for one in told)  # and nothing of steps
    assert said.startswith("Thresholds fitted to fewer than 50 rows follow these rows") and said.endswith("'t' (3).")


def test_groups_that_no_bound_compares_are_not_looked_at_and_the_report_says_so():
    X, y, sex = table()
    model = LogisticRegression().fit(X, y)
    made = fb.PostProcessor(model, "recall of class 1 >= 0.74").fit(X, y, sex)
    assert len(made.fit_report_["groups"]) == 1 and (made.predict(X, sex) == made.predict(X)).all()
    assert any("do not look at 'group'" in said and "accuracy_bound" in said for said in made.fit_report_["notes"])
    both = {"sex": sex, "race": np.roll(sex, 1)}
    part = fb.PostProcessor(model, "demographic_parity[by=sex] <= 0.1").fit(X, y, both)
    assert any("do not look at 'race'" in said for said in part.fit_report_["notes"])
    assert fb.PostProcessor(model, "demographic_parity <= 0.1").fit(X, y, sex).fit_report_["notes"] == []


@pytest.mark.filterwarnings("ignore:One threshold for each group costs much")
@pytest.mark.parametrize(
    ("of_classes", "of_two"),
    [("class_demographic_parity", "demographic_parity"), ("class_equalized_odds", "equalized_odds"),
     ("class_demographic_parity[overall]", "demographic_parity[overall]")],
)  # fmt: skip
def test_of_two_classes_bounds_on_the_shares_of_classes_are_those_on_rates(of_classes, of_two):
    X, y, sex = table()
    y = np.where((sex == "F") & (np.random.default_rng(1).random(400) < 0.3), 1 - y, y)  # more errors for one group
    model = LogisticRegression().fit(X, y)
    first, second = (fb.PostProcessor(model, f"{name} <= 0.04").fit(X, y, sex) for name in (of_classes, of_two))
    assert (first.predict(X, sex) == second.predict(X, sex)).all()
    ours, theirs = (made.fit_report_["constraints"][0]["train_value"] for made in (first, second))
    assert ours == pytest.approx(theirs) == pytest.approx(fb.measure(of_classes, first.predict(X, sex), y, sex))


def test_a_whole_number_as_a_fraction_is_the_same_row():
    ids = np.arange(50)
    assert (draws(3, ids) == draws(3, ids.astype(float))).all()
    assert (draws(3, ids) == draws(3, np.array([*ids[:-1].astype(float), 49], dtype=object))).all()
    assert (draws(3, np.array([1.0, np.nan, 2.5])) != draws(3, np.array([2.0, 1.5, np.nan]))).all()


def test_three_labels_are_sent_to_what_takes_them():
    X, _, sex = table()
    labels = np.arange(400) % 3
    for door in (fb.PostProcessor, fb.Reduction):
        with pytest.raises(
            DataError, match=r"labels have 3 values.*with fb\.FairClassifier bound the rates of every class"
        ):
            door(LogisticRegression(), "demographic_parity <= 0.1").fit(X, labels, sex)


@pytest.mark.filterwarnings("ignore:.*too few training rows")  # of steps of 1/1500
def test_that_every_row_gets_the_same_decision_is_said_where_nothing_is_better_in_three_digits():
    """The row of the highest score is positive: a mixture may take 15 % of it, which of 3,000 rows three digits do not show."""
    rng = np.random.default_rng(0)
    scores, sex = rng.normal(size=3000), np.array(["F", "M"] * 1500)
    y = (rng.random(3000) < 0.02).astype(int)
    scores[0], y[0] = 9.0, 1
    with pytest.warns(ConvergenceWarning, match=r"nothing is better .* costs=\(of") as caught:
        made = fb.PostProcessor(constraint="demographic_parity <= 1e-4").fit(scores, y, sex)
    assert (
        [w.category for w in caught].count(ConvergenceWarning) == 1
        and not made.predict(scores, sex).any()
        and made.fit_report_["shortfall"] is None
    )
    assert any("nothing is better" in said for said in made.fit_report_["warnings"])
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        warnings.simplefilter("ignore", DataWarning)
        paid = fb.PostProcessor(constraint="demographic_parity <= 1e-4", costs=(1, 49)).fit(scores, y, sex)
    assert 0 < paid.predict(scores, sex).mean() < 1


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"constraint": None}, OptionError, r"needs at least one bound, .*0\.02'\.$"),
        ({"estimator": "loss_gap <= 0.1", "constraint": None}, OptionError, "bound, .* first argument is the model"),
        ({"random_state": np.random.RandomState(0)}, OptionError, "random_state must be a whole number or None"),
        ({"constraint": "predictive_parity <= 0.1"}, OptionError, "no weighted sum"),
        ({"prefit": "maybe"}, OptionError, "prefit must be"),
        ({"scores": "logits"}, OptionError, "scores must be"),
        ({"unknown": "guess"}, OptionError, "unknown must be one of"),
        ({"costs": (0, 0)}, OptionError, "costs must be two numbers"),
        ({"costs": (1, -1)}, OptionError, "costs must be two numbers"),
        ({"costs": 3}, OptionError, "costs must be two numbers"),
        ({"costs": {0: 1, 1: 5}}, OptionError, "costs must be two numbers"),
        ({"costs": "15"}, OptionError, "costs must be two numbers"),
        ({"estimator": object()}, OptionError, "has none of the methods"),
        ({"estimator": object(), "prefit": False}, OptionError, "has no fit method"),
        ({"positive": 7}, DataError, "positive=7 is not among"),
    ],
)
def test_bad_options(change, error, words):
    X, y, sex = table(60)
    options = {"estimator": LogisticRegression(), "constraint": "demographic_parity <= 0.2", **change}
    with pytest.raises(error, match=words):
        fb.PostProcessor(**options).fit(X, y, sex)


def test_bad_rows():
    X, y, sex = table(60)
    made = fb.PostProcessor(None, "demographic_parity <= 0.2")
    s = X[:, 0].copy()
    with pytest.raises(DataError, match=r"needs fit\(X, y, sensitive_features=...\)"):
        made.fit(s, y)
    with pytest.raises(DataError, match="X has 60 rows, y 60, sensitive_features 59"):
        made.fit(s, y, sex[:59])
    with pytest.raises(DataError, match="the target y is None"):
        made.fit(s, None, sex)
    with pytest.raises(DataError, match="one class"):
        made.fit(s, np.zeros(60), sex)
    with pytest.raises(DataError, match="all 34 labels have one class, 1"):
        made.fit(s, y, sex, sample_weight=(y == 1).astype(float))
    with pytest.raises(DataError, match="must have shape"):
        made.fit(X, y, sex)
    with pytest.raises(DataError, match="must be numbers"):
        made.fit(np.array(["a"] * 60), y, sex)
    for bad in (np.nan, np.inf):
        s[3] = bad
        with pytest.raises(DataError, match="missing or infinite in 1 of 60 rows"):
            made.fit(s, y, sex)
    with pytest.raises(DataError, match="labels"):
        fb.PostProcessor(LogisticRegression().fit(X, np.where(y, "p", "q")), "demographic_parity <= 0.2").fit(X, y, sex)
    three = LogisticRegression().fit(X, np.arange(60) % 3)
    with pytest.raises(DataError, match="3 classes"):
        fb.PostProcessor(three, "demographic_parity <= 0.2").fit(X, y, sex)


@pytest.mark.filterwarnings("ignore:group is missing in 30", "ignore:Groups of fewer than 50 rows")
def test_the_file_brings_the_decisions_back(tmp_path):
    X, y, sex = table()
    sex = sex.astype(object)
    sex[:30] = None
    model = LogisticRegression().fit(X, y)
    path = tmp_path / "rule.json"
    for options in ({}, {"randomised": True, "random_state": 4}, {"constraint": "recall of class 1 >= 0.9"}):
        made = fb.PostProcessor(model, **{"constraint": "equalized_odds <= 0.02", **options}).fit(X, y, sex)
        made.save(path)
        json.loads(path.read_text(), parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
        again = fb.PostProcessor.load(path, model)
        assert (again.predict(X, sex) == made.predict(X, sex)).all()
        assert again.folds_ == made.folds_ == 0
        assert again.fit_report_ == made.fit_report_ and (again.classes_ == made.classes_).all()
        assert (again.rule_.codes == made.rule_.codes).all() and again.get_params()["prefit"] is True
    own = fb.PostProcessor(model, "demographic_parity <= 0.1", scores=lambda m, X: m.decision_function(X)).fit(
        X, y, sex
    )
    own.save(path)
    with pytest.raises(OptionError, match="pass it as scores="):
        fb.PostProcessor.load(path, model)
    assert (fb.PostProcessor.load(path, model, scores=own.scores).predict(X, sex) == own.predict(X, sex)).all()
    whole = json.loads(path.read_text())
    for name, other in (("classes", [0, 0]), ("rule", whole["rule"] | {"thresholds": [[9.0]] * 2}), ("checksum", "0")):
        path.write_text(json.dumps(whole | {name: other}))
        with pytest.raises(DataError, match="its content differs from its own sha256"):
            fb.PostProcessor.load(path, model, scores=own.scores)
    with pytest.raises(DataError, match=r"thresholds of a fb\.PostProcessor and no model; fb\.PostProcessor\.load\("):
        fb.load(path)
    path.write_text("{}")
    with pytest.raises(DataError, match="holds no thresholds"):
        fb.PostProcessor.load(path, model)
    with pytest.raises(DataError, match="cannot be read"):
        GroupRule.from_dict(
            {"attributes": [], "labels": [], "codes": [[]], "thresholds": [], "shares": [], "pooled": 0}
        )


def test_nothing_is_predicted_before_fit():
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        fb.PostProcessor(LogisticRegression(), "demographic_parity <= 0.1").predict(np.zeros((2, 1)), ["a", "b"])


def test_a_model_that_scikit_learn_does_not_know_is_taken_as_it_is():
    class Stranger:
        def fit(self, X, y):
            raise AssertionError("fitted again")

        def predict(self, X):
            return X[:, 0]

    X, y, sex = table()
    stranger = Stranger()
    assert fb.PostProcessor(stranger, "demographic_parity <= 0.1").fit(X, y, sex).estimator_ is stranger

    class Unfitted(BaseEstimator):
        def fit(self, X, y):
            self.mean_ = X.mean(0)
            return self

        def predict(self, X):
            return X @ self.mean_

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fb.PostProcessor(Unfitted(), "demographic_parity <= 0.1").fit(X, y, sex).score(X, y, sex) > 0.6


@pytest.mark.filterwarnings("ignore:group is missing in 1 of the rows", "ignore:Groups of fewer than 50 rows")
def test_the_page_s_example_runs_and_names_what_the_report_holds(tmp_path, monkeypatch, capsys):
    page = (Path(__file__).parents[3] / "docs" / "postprocessing.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```$", page, flags=re.M | re.S)
    monkeypatch.chdir(tmp_path)
    names: dict = {"__name__": "__main__"}
    exec(code, names)
    accuracy, bound = map(float, capsys.readouterr().out.split())
    assert accuracy <= bound + 1e-9 and (tmp_path / "thresholds.json").exists()
    for key in set(names["fair"].fit_report_) - {"rows", "randomised"}:
        assert f"`{key}`" in page, key


# -- probabilities, and columns as groups ------------------------------------------------------------------------------


@pytest.mark.parametrize("positive", [None, "no"])
def test_probabilities_are_those_of_the_estimator_in_the_order_of_the_classes(positive):
    X, y, sex = table()
    model = LogisticRegression().fit(X, np.array(["no", "yes"])[y])
    made = fb.PostProcessor(model, "demographic_parity <= 0.03", positive=positive).fit(
        X, np.array(["no", "yes"])[y], sex
    )
    found, own = made.predict_proba(X), model.predict_proba(X)
    np.testing.assert_allclose(found, own if positive is None else own[:, ::-1], atol=1e-15)
    assert list(made.classes_) == (["no", "yes"] if positive is None else ["yes", "no"])
    one_threshold = made.classes_[(found[:, 1] > 0.5).astype(int)]
    assert (made.predict(X, sex) != one_threshold).any()  # which the docstring says


def test_without_probabilities_there_are_none():
    X, y, sex = table()
    made = fb.PostProcessor(LinearSVC(), "demographic_parity <= 0.03")
    assert not hasattr(made, "predict_proba") and not hasattr(made.fit(X, y, sex), "predict_proba")
    alone = fb.PostProcessor(None, "demographic_parity <= 0.03").fit(X.sum(1), y, sex)
    with pytest.raises(AttributeError, match="predict_proba"):
        alone.predict_proba(X.sum(1))
    with pytest.raises(NotFittedError):
        fb.PostProcessor(LogisticRegression(), "demographic_parity <= 0.03").predict_proba(X)


def test_probabilities_in_pipelines_scorers_and_beside_calibration():
    X, y, sex = table(900)
    fair = fb.PostProcessor(CalibratedClassifierCV(LinearSVC()), "demographic_parity <= 0.03")
    with config_context(enable_metadata_routing=True):
        whole = make_pipeline(StandardScaler(), fair).fit(X, y, sensitive_features=sex)
        assert whole.predict_proba(X).shape == (900, 2)
        margins = whole.decision_function(X, sensitive_features=sex)
        assert ((margins > 0) == (whole.predict(X, sensitive_features=sex) == 1)).all()
    scored = get_scorer("neg_log_loss")(whole, X, y)
    assert scored == pytest.approx(-log_loss(y, whole[-1].estimator_.predict_proba(whole[0].transform(X))))


def test_columns_of_the_table_may_be_named_as_groups():
    X, y, sex = table()
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(woman=(sex == "F").astype(int))
    for named in ("woman", ["woman"]):
        by_name = fb.PostProcessor(LogisticRegression(), "demographic_parity <= 0.03").fit(frame, y, named)
        by_value = fb.PostProcessor(LogisticRegression(), "demographic_parity <= 0.03").fit(frame, y, frame[["woman"]])
        assert (by_name.predict(frame, named) == by_value.predict(frame, frame[["woman"]])).all()
    with pytest.raises(DataError, match="no column of X"):
        by_name.predict(frame, "man")


@pytest.mark.parametrize("fitted", [int, float, bool, np.bool_])
@pytest.mark.parametrize("asked", [int, float, bool, object])
def test_booleans_are_the_groups_0_and_1(fitted, asked):
    X, y, sex = table()
    is_f = sex == "F"
    made = fb.PostProcessor(LogisticRegression(), "demographic_parity <= 0.02").fit(X, y, is_f.astype(fitted))
    assert (made.predict(X, is_f.astype(asked)) == made.predict(X, is_f.astype(fitted))).all()  # without a warning
    one_unknown = [None if i == 3 else bool(v) for i, v in enumerate(is_f)]
    with pytest.warns(UserWarning, match="^1 of"):
        made.predict(X, one_unknown)


def test_booleans_are_no_words_of_other_groups():
    X, y, sex = table()
    three = np.where(sex == "F", 0, np.arange(len(sex)) % 2 + 1)
    made = fb.PostProcessor(LogisticRegression(), "demographic_parity <= 0.1").fit(X, y, three)
    with pytest.warns(UserWarning, match=f"{len(y)} of {len(y)} rows"):
        made.predict(X, sex == "F")


def test_scorers_by_name_are_told_from_those_that_can_pass_groups():
    X, y, sex = table()
    with config_context(enable_metadata_routing=True):
        routed = fb.PostProcessor(LogisticRegression(), "demographic_parity <= 0.05")
        routed.set_fit_request(sensitive_features=True).set_score_request(sensitive_features=True)
        given = {"params": {"sensitive_features": sex}, "cv": 3, "error_score": "raise"}
        with pytest.raises(
            DataError, match=r"scoring='accuracy', cannot pass groups to predict: leave scoring out.*fb\.scorer"
        ):
            cross_validate(routed, X, y, scoring="accuracy", **given)
        assert (cross_validate(routed, X, y, **given)["test_score"] > 0.6).all()
        parity = cross_validate(routed, X, y, scoring=fb.scorer("demographic_parity"), **given)["test_score"]
    assert (parity > -0.3).all()
    with pytest.raises(DataError, match=r"enable_metadata_routing=True\).*not through scorers by name"):
        routed.fit(X, y, sex).predict(X)


def test_the_report_names_only_the_comparisons_that_hold_the_rule_back(monkeypatch):
    rng = np.random.default_rng(0)
    which = np.repeat(np.arange(30), 60)
    X = rng.normal(size=(len(which), 1)) + rng.normal(size=30)[which, None]
    y = (X[:, 0] + rng.normal(size=len(which)) > 0).astype(int)
    read, wrote = [], []
    one, plain = Names.__getitem__, GroupRule.to_dict
    monkeypatch.setattr(Names, "__getitem__", lambda self, i: read.append(i) or one(self, i))
    monkeypatch.setattr(GroupRule, "to_dict", lambda self: wrote.append(1) or plain(self))
    made = fb.PostProcessor(LogisticRegression(), "demographic_parity <= 0.1", randomised=True)
    made.fit(X, y, [f"g{c}" for c in which])
    report = made.fit_report_
    assert 0 < len(report["multipliers"]) == len(read) < 30 * 29 and len(wrote) == 1
    assert [g["thresholds"] for g in report["groups"]] == plain(made.rule_)["thresholds"]
