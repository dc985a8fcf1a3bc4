"""Bounds on errors of classes, met by what is added to the scores of the model without bounds."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

import fairbound as fb
from fairbound.estimators import class_offsets, classifier
from fairbound.estimators.class_offsets import Rows, least_offsets
from fairbound.estimators.trained import Trained
from fairbound.fairness.notions.classes import ClassRisk

STRAIGHT = fb.TableOptions(knots=0)


def errors(scores, codes, weight, offsets):
    """The share of each class's weight that is not above all other classes."""
    moved = scores + offsets
    best = np.sort(moved, axis=1)
    wrong = ~((moved.argmax(1) == codes) & (best[:, -1] > best[:, -2]))
    return np.array([np.average(wrong[codes == c], weights=weight[codes == c]) for c in range(scores.shape[1])])


@pytest.mark.parametrize("seed", range(4))
def test_offsets_meet_the_bounds_and_none_can_be_lower(seed):
    """Scores lie so close that half the way to the next row is below 0.05; any two offsets that do are as large."""
    rng = np.random.default_rng(seed)
    codes, weight = rng.permutation(900) % 3, rng.uniform(0.5, 2, 900)
    scores = rng.uniform(-1, 1, size=(900, 3)) + np.eye(3)[codes]
    most = np.array([0.12, np.inf, 0.2]) if seed % 2 else np.array([np.inf, 0.02, np.inf])
    found = least_offsets([Rows(scores, codes, weight)], most)
    assert found is not None and (found >= 0).all() and (found[np.isinf(most)] == 0).all() and found.max() > 0.1
    assert (errors(scores, codes, weight, found) <= most).all()
    tried = [np.linspace(0, 2, 41) if np.isfinite(bound) else np.zeros(1) for bound in most]
    within = [t for t in itertools.product(*tried) if (errors(scores, codes, weight, np.array(t)) <= most).all()]
    assert within and (np.array(within) >= found - 0.05).all()


def test_bounds_that_hold_against_each_other_have_no_offsets():
    codes = np.arange(40) % 2
    scores = np.random.default_rng(0).normal(size=(40, 2))
    assert least_offsets([Rows(scores, codes, np.ones(40))], np.array([0.1, 0.1])) is None
    alike = np.zeros((40, 2))  # ties are errors, so a little is added
    assert least_offsets([Rows(alike, codes, np.ones(40))], np.array([np.inf, 0.0]))[1] > 0


def rows(seed=0, n=4000, classes=2, rarer=0.8):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    if classes == 2:
        return X, (X @ [1.0, -0.5, 0.3, 0.0] + rng.logistic(size=n) > rarer).astype(int)
    return X, (X @ rng.normal(size=(4, classes)) + rng.gumbel(size=(n, classes)) + np.linspace(0, 1, classes)).argmax(1)


@pytest.mark.parametrize(
    ("stated", "classes", "rarer"),
    [
        (["error of class 1 <= 0.1"], 2, 0.8),
        (["error of class 1 <= 0.1"], 2, 6.0),
        (["recall of class 0 >= 0.95"], 2, 0.8),
        (["error of class 0 <= 0.2"], 4, 0.8),
        (["error of class 0 <= 0.4", "recall of class 2 >= 0.7"], 4, 0.8),
    ],
)
def test_the_order_of_the_model_without_bounds_is_kept_and_the_bound_just_met(stated, classes, rarer):
    X, y = rows(classes=classes, rarer=rarer)
    free = fb.FairClassifier(objective="loss", options=STRAIGHT).fit(X, y)
    fair = fb.FairClassifier(stated, options=STRAIGHT).fit(X, y)
    report = fair.fit_report_
    assert report["feasible"] and report["validation_rows"] == 0 and report["algorithm"] == "full_batch_alm"
    assert any("the one without bounds, with the least added to the scores" in note for note in report["notes"])
    moved = fair.decision_function(X) - free.decision_function(X)
    assert np.ptp(moved, axis=0).max() < 0.02 * np.ptp(free.decision_function(X))
    for bound in map(fb.constraint, stated):
        assert isinstance(bound, ClassRisk)
        own = y == int(bound.class_)
        error = (fair.predict(X[own]) != y[own]).mean()
        assert bound.bound - 1.5 / own.sum() < error <= bound.bound
    within = [(y == int(b.class_), b.bound) for b in map(fb.constraint, stated)]
    if classes == 2:  # no threshold on the scores is more accurate by more than a hundredth
        scores = fair.decision_function(X)
        decided = ((scores > t).astype(int) for t in np.r_[scores, scores.min() - 1])
        best = max((d == y).mean() for d in decided if all((d != y)[own].mean() <= most for own, most in within))
        assert best - 0.01 < fair.score(X, y) <= best


def test_a_tight_bound_on_one_of_three_classes_leaves_an_order_among_the_others():
    X, y = rows(seed=2, n=1500, classes=3)
    fair = fb.FairClassifier("error of class 1 <= 0.01", options=STRAIGHT).fit(X, y)
    assert fair.fit_report_["feasible"] and len(set(fair.predict(X))) == 3
    assert fair.score(X, y) > (y == 1).mean() + 0.05


def test_an_interrupt_while_the_model_without_bounds_is_trained_is_kept(monkeypatch):
    X, y = rows(classes=3)
    whole = class_offsets.linear_with_offsets

    def interrupted(trained, without_bounds, classes):
        return whole(trained, lambda: replace(without_bounds(), stopped="interrupted"), classes)

    monkeypatch.setattr(classifier, "linear_with_offsets", interrupted)
    fair = fb.FairClassifier("error of class 0 <= 0.1").fit(X, y)
    assert fair.solution_.interrupted
    monkeypatch.undo()
    assert fb.FairClassifier("error of class 0 <= 0.1").fit(X, y).fit_report_["steps"] == fair.fit_report_["steps"]


@pytest.mark.parametrize("options", [{"validation": 0.2}, {"distributed": True}])
def test_rows_held_back_and_those_of_other_processes_are_not_passed_over(options, monkeypatch):
    X, y = rows(n=1500)
    if "distributed" in options:
        monkeypatch.setattr(Trained, "single", False)
        options = {}
    fair = fb.FairClassifier("error of class 1 <= 0.1", random_state=0, **options).fit(X, y)
    assert not any("the one without bounds" in note for note in fair.fit_report_["notes"])


def test_scores_are_left_where_the_loss_weights_of_classes_or_other_bounds_are_asked_for():
    X, y = rows(n=600)
    group = np.random.default_rng(1).choice(["a", "b"], 600)
    for stated, options in (
        ("error of class 1 <= 0.1", {"objective": "loss"}),
        ("error of class 1 <= 0.1", {"class_weight": "balanced"}),
        ("error of class 1 <= 0.1", {"budget": "50 steps"}),
        (["error of class 1 <= 0.1", "demographic_parity <= 0.1"], {}),
    ):
        fair = fb.FairClassifier(stated, random_state=0, **options).fit(X, y, sensitive_features=group)
        assert not any("the one without bounds" in note for note in fair.fit_report_["notes"])
