"""Bounds on errors of classes, met by what is added to the scores of the model without bounds."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import sparse
from torch import nn

import fairbound as fb
from fairbound.estimators import classifier_training
from fairbound.estimators.corrections import class_offsets
from fairbound.estimators.corrections.class_offsets import Rows, held_for_classes, least_offsets, within
from fairbound.estimators.trained import Trained
from fairbound.fairness.notions import constraints
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
    kept = [t for t in itertools.product(*tried) if (errors(scores, codes, weight, np.array(t)) <= most).all()]
    assert kept and (np.array(kept) >= found - 0.05).all()


def test_bounds_that_hold_against_each_other_have_no_offsets():
    codes = np.arange(40) % 2
    scores = np.random.default_rng(0).normal(size=(40, 2))
    assert least_offsets([Rows(scores, codes, np.ones(40))], np.array([0.1, 0.1])) is None
    alike = np.zeros((40, 2))  # ties are errors, so a little is added
    assert least_offsets([Rows(alike, codes, np.ones(40))], np.array([np.inf, 0.0]))[1] > 0


@pytest.mark.parametrize("share", [0.29, 0.57, 0.58])
def test_whole_rows_that_may_err_are_not_lost_to_rounding(share):
    """0.29 of 100 rows is 28.999999999999996 in binary numbers."""
    codes = np.arange(200) % 2
    scores = np.column_stack([np.zeros(200), np.random.default_rng(0).permutation(200) - 250.0])
    most = np.array([np.inf, share])
    found = least_offsets([Rows(scores, codes, np.ones(200))], most)
    assert round(100 * errors(scores, codes, np.ones(200), found)[1]) == round(100 * share)
    assert within(Rows(scores + found, codes, np.ones(200)), most)
    assert not within(Rows(scores + found, codes, np.ones(200)), most - 1e-6)


def test_equal_scores_are_errors_of_the_class():
    assert not within(Rows(np.zeros((4, 2)), np.array([0, 0, 1, 1]), np.ones(4)), np.array([0.4, np.inf]))


def test_the_larger_offset_of_two_parts_is_taken():
    rng = np.random.default_rng(1)
    parts = [Rows(rng.normal(size=(300, 3)), rng.permutation(300) % 3, np.ones(300)) for _ in range(2)]
    most = np.array([np.inf, 0.1, np.inf])
    alone = [least_offsets([part], most)[1] for part in parts]
    assert least_offsets(parts, most)[1] == max(alone) > min(alone)


@pytest.mark.parametrize(
    ("asked", "stated", "share"),
    [
        ("auto", ["error of class a <= 0.1"], 0.2),
        ("auto", ["error of class b <= 0.1"], 0.0),  # a fifth of 90 rows
        ("auto", ["error of class a <= 0.001"], 0.0),  # a fifth of 400 rows does not show a hundredth
        (0.1, ["error of class b <= 0.1"], 0.1),
        (0.0, ["error of class a <= 0.1"], 0.0),
    ],
)
def test_rows_are_held_back_where_they_are_enough_of_each_bounded_class(asked, stated, share):
    codes = np.repeat([0, 1], [400, 90])
    assert held_for_classes(asked, constraints(stated), codes, ["a", "b"]) == share


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
    bounded = [(y == int(b.class_), b.bound) for b in map(fb.constraint, stated)]
    if classes == 2:  # no threshold on the scores is more accurate by more than a hundredth
        scores = fair.decision_function(X)
        decided = ((scores > t).astype(int) for t in np.r_[scores, scores.min() - 1])
        best = max((d == y).mean() for d in decided if all((d != y)[own].mean() <= most for own, most in bounded))
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

    monkeypatch.setattr(classifier_training, "linear_with_offsets", interrupted)
    fair = fb.FairClassifier("error of class 0 <= 0.1").fit(X, y)
    assert fair.solution_.interrupted and "interrupted" in fair.fit_report_["notes"][0]
    monkeypatch.undo()
    whole = fb.FairClassifier("error of class 0 <= 0.1").fit(X, y).fit_report_
    assert whole["steps"] == fair.fit_report_["steps"] and "interrupted" not in " ".join(whole["notes"])


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


@pytest.mark.parametrize("recall", [0.55, 0.6, 0.65, 0.8, 0.9])
def test_recalls_that_float32_rounds_are_just_met_too(recall):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(2000, 3)), np.where(np.arange(2000) < 240, "b", "a")
    X[:, 0] += y == "b"
    fair = fb.FairClassifier(f"recall of class b >= {recall}", options=STRAIGHT).fit(X, y)
    assert any("the one without bounds" in note for note in fair.fit_report_["notes"]) and fair.fit_report_["feasible"]
    assert (fair.predict(X[:240]) == "b").sum() == round(240 * recall)


def module(outputs, bias=True):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, outputs, bias=bias))


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize(("stated", "classes"), [("recall of class 1 >= 0.9", 2), ("error of class 0 <= 0.2", 4)])
def test_a_network_keeps_the_scores_of_the_one_without_bounds(stated, classes, own):
    X, y = rows(classes=classes, n=2000)

    def fitted(constraint, **more):
        model = module(1 if classes == 2 else classes) if own else "mlp:8"
        return fb.FairClassifier(constraint, model=model, random_state=0, **more).fit(X.astype("float32"), y)

    fair, free = fitted(stated), fitted(None, validation=0.2)
    report = fair.fit_report_
    assert report["feasible"] and report["validation_rows"] == 400 and report["steps"] == free.fit_report_["steps"]
    assert any("the one without bounds, with the least added to the scores" in note for note in report["notes"])
    moved = fair.decision_function(X) - free.decision_function(X)
    assert np.ptp(moved, axis=0).max() < 1e-4 and np.abs(moved).max() > 0.1
    bound = fb.constraint(stated)
    error = (fair.predict(X)[y == int(bound.class_)] != int(bound.class_)).mean()
    assert bound.bound - 0.1 < error <= bound.bound
    assert fair.trajectory_["constraints"] == {} and len(fair.trajectory_["steps"]) > 1


def test_the_bound_of_a_network_is_met_on_the_rows_held_back_too(monkeypatch):
    X, y = rows(n=1000, rarer=0.4)
    seen, whole = {}, classifier_training.network_with_offsets

    def looked_at(found, made, classes):
        seen.update(made=made, moved=whole(found, made, classes))
        return seen["moved"]

    monkeypatch.setattr(classifier_training, "network_with_offsets", looked_at)
    for seed in range(3):
        fb.FairClassifier("recall of class 1 >= 0.9", model="mlp:32", random_state=seed).fit(X, y)
        assert seen["made"].held.rows == 200
        for part in (seen["made"].problem, seen["made"].held):
            assert float(part.evaluate(seen["moved"].solution.x).violation) <= 1e-6


def test_a_network_whose_scores_no_intercept_moves_is_trained_under_the_bound():
    X, y = rows(n=600)
    fair = fb.FairClassifier("error of class 1 <= 0.2", model=module(1, bias=False), random_state=0)
    assert not any("the one without bounds" in note for note in fair.fit(X.astype("float32"), y).fit_report_["notes"])


def test_a_module_that_no_offset_moves_inside_is_trained_from_its_own_start(monkeypatch):
    """As it is where offsets are never tried."""
    X, y = rows(n=600)
    fits = []
    for name, value in (("with_offsets", lambda *_: None), ("takes_free_model", lambda *_: False)):
        with monkeypatch.context() as patch:
            patch.setattr(class_offsets if name == "with_offsets" else classifier_training, name, value)
            fits.append(fb.FairClassifier("error of class 1 <= 0.2", model=module(1), random_state=0))
            fits[-1].fit(X.astype("float32"), y)
    assert np.array_equal(*(fit.decision_function(X.astype("float32")) for fit in fits))


@pytest.mark.parametrize("stated", [["error of class 1 <= 0.2"], ["error of class 1 <= 0", "error of class 0 <= 0"]])
def test_an_interrupted_network_has_its_bounds_met_where_offsets_can(stated, monkeypatch):
    X, y = rows(n=600)
    whole = classifier_training.trained_by

    def interrupted(*given, **named):
        found = whole(*given, **named)
        return found._replace(solution=replace(found.solution, stopped="interrupted"))

    monkeypatch.setattr(classifier_training, "trained_by", interrupted)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fair = fb.FairClassifier(stated, model="mlp:4", random_state=0).fit(X, y)
    assert fair.solution_.interrupted and fair.fit_report_["feasible"] == (len(stated) == 1)
    assert len(fair.fit_report_["constraints"]) == len(stated)


@pytest.mark.parametrize("form", [sparse.csr_matrix, torch.as_tensor, np.float64])
def test_tables_of_any_form_are_taken(form):
    X, y = rows(n=600)
    model = module(1) if form is not sparse.csr_matrix else "mlp:4"
    fair = fb.FairClassifier("recall of class 1 >= 0.8", model=model, random_state=0).fit(form(X), y)
    assert fair.fit_report_["feasible"]
    assert any("the one without bounds" in note for note in fair.fit_report_["notes"])
