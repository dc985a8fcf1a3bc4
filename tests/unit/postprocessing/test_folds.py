"""fb.PostProcessor around a model that it fits itself: thresholds by scores of fits that had not seen the row."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.sparse import coo_matrix
from scipy.stats import permutation_test
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC, LinearSVC

import fairbound as fb
from fairbound.base.errors import DataError, DataWarning, OptionError
from fairbound.postprocessing.folds import _larger_by_chance, nearly_all_right, parts_of, scores_own_rows_better
from fairbound.postprocessing.scoring import CODES

FOREST, BOUND = RandomForestClassifier(30, random_state=0), "demographic_parity <= 0.02"


def table(n=1500, seed=0):
    rng = np.random.default_rng(seed)
    sex = rng.choice(["F", "M"], n)
    X = rng.normal(size=(n, 4)) + 0.6 * (sex == "M")[:, None]
    return X, np.where(X.sum(1) + 2 * rng.normal(size=n) > 1.2, "yes", "no"), sex


@pytest.mark.filterwarnings("ignore:The model's scores are right")
def test_a_forest_that_is_fitted_here_keeps_its_bound_on_new_rows():
    X, y, sex = table(4500)
    train, new, found = np.arange(1000), np.arange(1000, 4500), {}
    for folds in ("auto", 0):
        fair = fb.PostProcessor(FOREST, BOUND, folds=folds).fit(X[train], y[train], sex[train])
        decided = fair.predict(X[new], sex[new])
        found[folds] = (np.mean(decided == y[new]), fb.measure(BOUND, decided == "yes", y[new] == "yes", sex[new]))
        assert (fair.estimator_.predict(X) == clone(FOREST).fit(X[train], y[train]).predict(X)).all()
        assert fair.folds_ == fair.fit_report_["folds"] == (5 if folds == "auto" else 0)
        assert ("had not seen it" in fair.fit_report_["judged_on"]) == (folds == "auto")
        if folds == "auto":
            assert abs(fair.fit_report_["accuracy"] - found[folds][0]) < 0.03
    assert found["auto"][0] > found[0][0] + 0.02 and found["auto"][1] < min(found[0][1], 0.08)


def test_folds_are_left_out_where_a_model_does_not_know_its_rows():
    X, y, sex = table()
    own, none = (fb.PostProcessor(LogisticRegression(), BOUND, folds=k).fit(X, y, sex) for k in ("auto", 0))
    assert own.folds_ == 0 and (own.predict(X, sex) == none.predict(X, sex)).all()


def test_rows_of_weight_0_have_no_part_in_any_fit():
    X, y, sex = table(900)
    y, sex = y.astype(object), sex.astype(object)
    weight = np.random.default_rng(1).integers(0, 3, 900).astype(float)
    kept = weight > 0
    forest = fb.PostProcessor(RandomForestClassifier(30, random_state=1), BOUND, folds=2)
    alone = clone(forest).fit(X[kept], y[kept], sex[kept], sample_weight=weight[kept])
    X[~kept], y[~kept], sex[~kept] = np.nan, "perhaps", "ghost"
    found = forest.fit(X, y, sex, sample_weight=weight)
    assert found.fit_report_ == alone.fit_report_ and found.fit_report_["rows"] == kept.sum()
    assert (found.predict(X[kept], sex[kept]) == alone.predict(X[kept], sex[kept])).all()


def test_folds_hold_all_kinds_of_rows_alike():
    kind = np.repeat([0, 1, 2], [50, 20, 10])
    for others, own in parts_of(kind, 5):
        assert np.bincount(kind[own]).tolist() == [10, 4, 2] and len(np.intersect1d(others, own)) == 0
    assert sorted(np.concatenate([own for _, own in parts_of(np.arange(9), 5)])) == list(range(9))


def test_a_fitted_model_that_knows_the_rows_by_heart_is_spoken_of():
    X, y, sex = table()
    fitted = clone(FOREST).fit(X, y)
    with pytest.warns(DataWarning, match="right on nearly all rows of fit") as said:
        fair = fb.PostProcessor(fitted, BOUND).fit(X, y, sex)
    assert str(said[0].message) in fair.fit_report_["warnings"]
    new, labels, of = table(seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        fb.PostProcessor(fitted, BOUND).fit(new, labels, of)
        fb.PostProcessor(FOREST, BOUND).fit(X, y, sex)
        plain = (X[:, 0] > 0).astype(int)  # which is easily told of new rows too
        assert fb.PostProcessor(LogisticRegression(C=100), BOUND).fit(X, plain, sex).folds_ == 0


def test_nearly_all_right_is_more_than_a_rare_label():
    codes = (np.arange(1000) < 8).astype(int)
    assert not nearly_all_right(np.zeros(1000), codes, None)
    assert nearly_all_right(codes + 0.0, codes, None)
    assert not nearly_all_right(codes[:29] + 0.0, codes[:29], None)
    assert nearly_all_right(codes[:90] + 0.0, codes[:90], np.linspace(1, 3, 90))


class Counted(RandomForestClassifier):
    """Counts its fits, of clones too."""

    fits = 0

    def fit(self, *args, **options):
        Counted.fits += 1
        return super().fit(*args, **options)


@pytest.mark.parametrize(("rare", "fits"), [(60, 5), (350, 3), (1000, 1)])
def test_rows_of_a_rare_label_tell_whether_known_rows_are_scored_better_and_more_fits_hold_enough_of_them_out(
    rare, fits
):
    """A share of the rows, which nothing tells: right on all of the known ones, on hardly one of the others."""
    X, _, _ = table(2000)
    target = (np.random.default_rng(0).permutation(2000) < rare).astype(int)
    Counted.fits, forest = 0, Counted(10, random_state=0)
    assert scores_own_rows_better(forest, "auto", X, target, CODES, None)
    assert Counted.fits == fits
    assert scores_own_rows_better(LogisticRegression(), "auto", X, target, CODES, np.ones(2000)) is False


def test_where_it_cannot_be_told_whether_known_rows_are_scored_better():
    X, y, _ = table(1000)
    codes = (y == "yes").astype(int)
    assert scores_own_rows_better(FOREST, "auto", X, codes, CODES, None)
    assert scores_own_rows_better(FOREST, "auto", X[:29], codes[:29], CODES, None) is None
    assert scores_own_rows_better(FOREST, "auto", X, (np.arange(1000) < 4).astype(int), CODES, None) is None


def test_ranks_of_known_rows_are_higher_by_chance_as_often_as_draws_of_these_rows_are():
    rng = np.random.default_rng(0)
    for ties in (1, 12):
        a, b = rng.normal(0.3, size=40).round(ties), rng.normal(size=25).round(ties)
        mean_rank = lambda x, y: (x[:, None] > y).mean() + 0.5 * (x[:, None] == y).mean()  # noqa: E731
        drawn = permutation_test((a, b), mean_rank, alternative="greater", n_resamples=4000, rng=1).pvalue
        gaps = np.full(70, np.nan)
        found = _larger_by_chance(np.append(a, gaps), np.append(gaps, b))
        assert abs(found - drawn) < 4 * (drawn * (1 - drawn) / 4000) ** 0.5 + 0.002
    assert _larger_by_chance(np.ones(30), np.ones(20)) == 0.5


def test_labels_that_nothing_tells_are_scored_better_by_a_forest_alone():
    """Both labels are looked at: scores of known rows are higher where the label is 1, and lower where it is 0."""
    rng, told = np.random.default_rng(0), []
    for _ in range(100):
        X, y = rng.normal(size=(200, 1)), rng.integers(0, 2, 200)
        told.append(scores_own_rows_better(LogisticRegression(), "auto", X, y, CODES, None))
    assert np.mean(told) <= 0.06  # 1 column of 200 rows is known better by next to nothing
    names = np.where(y == 1, "a", "b")  # the positive label is first
    for labels, classes in ((y, CODES), (1 - y, CODES), (names, np.array(["b", "a"]))):
        for model in (FOREST, RandomForestClassifier(30, min_samples_leaf=8, random_state=0)):
            assert scores_own_rows_better(model, "auto", X, labels, classes, None)


@pytest.mark.filterwarnings("ignore:The model's scores are right")
def test_a_forest_that_is_as_often_right_on_new_rows_takes_folds_as_it_scores_its_own_better():
    """Nearly all labels are told by the first column; thresholds among scores of known rows cut groups apart."""
    rng = np.random.default_rng(3)
    sex = rng.choice(["F", "M"], 4000)
    X = rng.normal(size=(4000, 12)) + 0.5 * (sex == "M")[:, None]
    y = (X[:, 0] + 0.1 * rng.normal(size=4000) > 0.4).astype(int)
    train, new, found = np.arange(600), np.arange(600, 4000), {}
    for folds in ("auto", 0):
        fair = fb.PostProcessor(FOREST, BOUND, folds=folds).fit(X[train], y[train], sex[train])
        decided = fair.predict(X[new], sex[new])
        assert fair.folds_ == (5 if folds == "auto" else 0)
        found[folds] = np.mean(decided == y[new]), fb.measure(BOUND, decided, y[new], sex[new])
    assert found["auto"][0] > found[0][0] and found["auto"][1] < 0.5 * found[0][1]


def test_a_rare_label_that_a_forest_knows_by_heart_takes_folds():
    """1.5 % of the labels, which hardly anything tells: of all rows known ones are right more often by less than 0.02."""
    rng = np.random.default_rng(0)
    X, sex = rng.normal(size=(2000, 4)), rng.choice(["F", "M"], 2000)
    tells = X[:, 0] + 2 * rng.normal(size=2000)
    y = (tells > np.sort(tells)[-31]).astype(int)
    fair = fb.PostProcessor(FOREST, BOUND, costs=(1, 30)).fit(X, y, sex)
    assert y.mean() == 0.015 and fair.folds_ == 5 and fair.fit_report_["cost"] > 0.1


@pytest.mark.parametrize("seed", range(3))
def test_small_tables_take_folds_too_and_smaller_ones_are_spoken_of(seed):
    X, y, sex = table(90, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", ".*too few training rows|Thresholds fitted to fewer", DataWarning)
        assert fb.PostProcessor(FOREST, "demographic_parity <= 0.1").fit(X, y, sex).folds_ == 5
        rare = np.arange(90) % 23 == 0  # 4 rows, of which nothing can be told
        with pytest.warns(DataWarning, match="right on nearly all rows of fit"):
            assert fb.PostProcessor(FOREST, "demographic_parity <= 0.1").fit(X, rare.astype(int), sex).folds_ == 0


def test_folds_keep_rows_of_a_rare_label_in_every_fit():
    """Its 5 rows are each the last of its group: one fold had them all where kinds were the groups and labels alone."""
    sex = np.repeat([f"g{k}" for k in range(5)], 20)
    y = (np.arange(100) % 20 == 19).astype(int)
    X = np.random.default_rng(0).normal(size=(100, 2)) + y[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert fb.PostProcessor(LogisticRegression(), "demographic_parity <= 0.3", folds=5).fit(X, y, sex).folds_ == 5


def test_folds_that_cannot_be_are_refused():
    X, y, sex = table(200)
    fitted = LogisticRegression().fit(X, y)
    for model, folds, error, words in (
        (fitted, 5, OptionError, "is fitted already"),
        (fitted, 1, OptionError, 'folds must be "auto", 0 or'),
        (None, 5, OptionError, "is fitted already"),
    ):
        with pytest.raises(error, match=words):
            fb.PostProcessor(model, BOUND, folds=folds).fit(X, y, sex)
    few = np.where(np.arange(200) == 0, "yes", "no")
    with pytest.raises(DataError, match="too few rows of a label"):
        fb.PostProcessor(LogisticRegression(), BOUND, folds=5).fit(X, few, sex)


@pytest.mark.parametrize("kind", [fb.Reduction, fb.PostProcessor])
def test_numbers_of_every_two_rows_take_no_folds_and_sparse_tables_of_any_form_do(kind):
    rng = np.random.default_rng(0)
    X, group = rng.normal(size=(120, 3)), rng.integers(0, 2, 120)
    y = (X[:, 0] + 0.5 * group + rng.normal(size=120) > 0).astype(int)
    pairwise, bound = SVC(kernel="precomputed"), "demographic_parity <= 0.2"
    assert kind(pairwise, bound).fit(X @ X.T, y, sensitive_features=group).folds_ == 0
    with pytest.raises(OptionError, match="say folds=0"):
        kind(pairwise, bound, folds=5).fit(X @ X.T, y, sensitive_features=group)
    made = [kind(LinearSVC(), bound, folds=5).fit(table, y, sensitive_features=group) for table in (X, coo_matrix(X))]
    np.testing.assert_array_equal(*(one.fit_report_["accuracy"] for one in made))
