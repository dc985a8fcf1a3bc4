"""fb.Reduction around classifiers without probabilities, judged by fits that had not seen the row, and around those that
give one answer for all rows, or know theirs by heart."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

import fairbound as fb
from fairbound.base.errors import DataWarning
from fairbound.estimators.reducing.reduction_fits import Told, TriedByOthers
from fairbound.estimators.reducing.sum_of_fits import SumOfFits
from fairbound.fairness.compiled.builder import compile_plan
from fairbound.fairness.notions import constraints
from fairbound.postprocessing.sweep import sweep_of
from fairbound.rows.groups import Groups

LAX = "demographic_parity <= 0.2"


def rows(seed, n):
    rng = np.random.default_rng(seed)
    sex = rng.choice(["F", "M"], n)
    X = np.column_stack([rng.normal(size=n) + 1.2 * (sex == "M"), rng.normal(size=n), rng.normal(size=n)])
    return X, np.where(X[:, 0] + 2 * X[:, 1] + 0.7 * rng.normal(size=n) > 0.6, "yes", "no"), sex


@pytest.mark.filterwarnings("ignore:Deciding every row the same way", "ignore:The classifier without the bound")
@pytest.mark.parametrize("seed", [1, pytest.param(0, marks=pytest.mark.long), pytest.param(2, marks=pytest.mark.long)])
def test_an_svc_that_knows_its_rows_by_heart_is_judged_by_fits_that_had_not_seen_them(seed):
    """A tenth of the labels is noise; the report of its own rows is far off, that of folds is not."""
    X, y, sex = rows(seed, n=2300)
    y = np.where(np.random.default_rng(seed).random(len(y)) < 0.1, np.where(y == "yes", "no", "yes"), y)
    train, new, found = np.arange(300), np.arange(300, 2300), {}
    for folds in (0, 5):
        fair = fb.Reduction(SVC(C=10, gamma=1), "demographic_parity <= 0.1", folds=folds, rounds=2)
        facts = fair.fit(X[train], y[train], sex[train]).fit_report_
        found[folds] = (fair.score(X[new], y[new]), facts["accuracy"])
    assert found[0][1] > found[0][0] + 0.1 and found[5][1] < found[5][0] + 0.08
    assert facts["feasible"] and "had not seen" in facts["message"] and facts["constraints"][0]["train_value"] <= 0.1
    assert facts["fits"] % 5 == 0 and isinstance(fair.estimator_, SumOfFits)
    assert (fair.classes_[fair.estimator_.predict(X[new])] == fair.predict(X[new])).all()
    assert (pickle.loads(pickle.dumps(fair)).predict(X[new]) == fair.predict(X[new])).all()


def test_no_row_is_scored_by_a_fit_that_has_seen_it():
    X, y, sex = rows(2, n=300)
    codes, groups = (y == "yes").astype(int), Groups.of({"sex": sex})
    plan = compile_plan(constraints([LAX]), groups, codes, ("no", "yes"))
    sweep = sweep_of(plan, groups.codes, codes, np.ones(300))
    tried = TriedByOthers(LinearSVC(), X, sweep, 3, Told(False))
    tried.fit(np.zeros(len(sweep.bounds)))
    (scores,), (model,) = tried.scores(), tried.models
    assert sorted(np.concatenate([own for _, own in tried.parts])) == list(range(300)) and tried.fits == 3
    each = []
    for seen, own in tried.parts:
        each.append(LinearSVC().fit(X[seen], codes[seen]).decision_function(X))
        np.testing.assert_allclose(scores[own], each[-1][own], atol=1e-4)
        assert np.abs(np.bincount(sweep.atom[own], minlength=4) - np.bincount(sweep.atom, minlength=4) / 3).max() <= 1
    np.testing.assert_allclose(model.decision_function(X), np.mean(each, axis=0), atol=1e-4)
    assert np.abs(scores - np.mean(each, axis=0)).max() > 0.01
    both = SumOfFits((model, model), (0.5, -0.25), threshold=0.0)
    np.testing.assert_allclose(tried._of_sum(both, [scores, 2 * scores]), np.zeros(300), atol=1e-12)


def test_a_fold_without_rows_of_both_labels_is_not_fitted():
    X, _, sex = rows(2, n=60)
    codes, groups = (np.arange(60) == 7).astype(int), Groups.of({"sex": sex})
    plan = compile_plan(constraints([LAX]), groups, codes, ("no", "yes"))
    sweep = sweep_of(plan, groups.codes, codes, np.ones(60))
    tried = TriedByOthers(LinearSVC(), X, sweep, 3, Told(False))
    assert (tried.fit(np.zeros(len(sweep.bounds))) == sweep.excess(codes.astype(float))).all() and tried.fits == 0


@pytest.mark.parametrize("stated", ["demographic_parity <= 0.01", "demographic_parity_ratio >= 0.99"])
def test_one_answer_for_all_rows_has_finite_scores(stated):
    """A stump has two scores; where only the same answer for all meets the bound, its threshold is infinite."""
    X, y, sex = rows(0, n=400)
    X, stump = (X[:, :1] > 0.5).astype(float), DecisionTreeClassifier(max_depth=1, random_state=0)
    with pytest.warns(ConvergenceWarning, match="no more accurate than the same one for all"):
        fair = fb.Reduction(stump, stated, rounds=2).fit(X, y, sex)
    scores = fair.decision_function(X)
    assert np.isinf(fair.threshold_) and np.isfinite(scores).all() and len(np.unique(scores)) == 2
    assert (np.where(scores > 0, "yes", "no") == fair.predict(X)).all() and len(set(fair.predict(X))) == 1
    fb.audit(scores, y, sex, stated, threshold=0)


def test_a_fit_that_is_right_on_nearly_all_its_rows_is_spoken_of_where_folds_were_not_asked_for():
    X, y, sex = rows(1, n=400)
    tree = DecisionTreeClassifier(random_state=0)
    with pytest.warns(DataWarning, match=r"right on nearly all training rows.*Take folds=5") as said:
        fair = fb.Reduction(tree, LAX, folds=0, rounds=2).fit(X, y, sex)
    assert fair.fit_report_["known_rows"] in [str(one.message) for one in said]
    for model, folds in ((tree, 5), (LogisticRegression(), 0)):
        assert fb.Reduction(model, LAX, folds=folds, rounds=2).fit(X, y, sex).fit_report_["known_rows"] is None
    X[:, 0] = 5 * (y == "yes") + X[:, 0] / 10  # by which all are told
    told = fb.Reduction(tree, "demographic_parity <= 0.9", rounds=2).fit(X, y, sex)
    assert told.folds_ == 0 and told.fit_report_["known_rows"] is None and told.score(X, y) > 0.99
