"""What a fit says of groups whose rates in new rows are uncertain, or whose names are nearly the same."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import log_loss

import fairbound as fb
from fairbound.estimators import classifier_training
from fairbound.estimators.linear.swept_intercept import swept_intercept
from fairbound.estimators.trained import Trained, meeting
from fairbound.fairness.few_rows import bounds_below_a_step
from fairbound.fairness.problem import FairProblem
from fairbound.models.model import model_of
from fairbound.rows.doubtful import doubtful_groups
from fairbound.rows.groups import Groups

pytestmark = pytest.mark.filterwarnings("ignore:.*by itself tells the labels")  # made from one column here


def fitted(bound: float, names=("a", "b"), rows: int = 400) -> fb.FairClassifier:
    rng = np.random.default_rng(0)
    X, group = rng.normal(size=(rows, 2)), np.array(names, object)[np.arange(rows) % 4 // 3]
    return fb.FairClassifier(f"demographic_parity <= {bound}").fit(
        X, (X[:, 0] > 0).astype(int), sensitive_features=group
    )


@pytest.mark.parametrize(("bound", "said"), [(0.0499, True), (0.0501, False)])
def test_a_bound_below_the_standard_error_of_the_smallest_group_is_noted(bound, said):
    """Group b has 100 rows, whose share has a standard error of at most 0.5 / sqrt(100)."""
    notes = " ".join(fitted(bound).fit_report_["notes"])
    assert ("a share of 100 rows, as many as 'b' has, has a standard error of up to 0.05" in notes) == said


@pytest.mark.parametrize("n", [49, 98, 103])  # n * (1 / n) rounds to less than 1
def test_the_note_does_not_depend_on_how_a_share_is_rounded(n):
    assert f"a share of {n} rows" in " ".join(fitted(0.03, rows=4 * n).fit_report_["notes"])


def test_groups_whose_names_differ_in_capitals_are_warned_of():
    with pytest.warns(fb.DataWarning, match="'Yes' and 'yes' differ only in capitals or blanks"):
        fitted(0.2, ("Yes", "yes"))


def test_a_quantity_taken_for_groups_is_warned_of():
    numbers = [str(k) for k in range(20)]
    assert doubtful_groups({"age": numbers}) == []
    (said,) = doubtful_groups({"age": [*numbers, "20.5"]})
    assert said.startswith("age has 21 groups, each a number, such as 0.") and "pandas.cut" in said
    assert doubtful_groups({"age": [*numbers, "older"]}) == []


@pytest.mark.parametrize(
    ("notion", "loss", "step"),
    [
        ("demographic_parity", "logistic", 0.1),
        ("equal_opportunity", "logistic", 0.2),  # five of its ten rows are positive
        ("prediction_parity[at=0]", "squared", 0.1),
        ("loss_gap", "logistic", 0.0),
        ("residual_gap", "squared", 0.0),
    ],
)
def test_bounds_below_the_step_of_the_smallest_group_are_found(notion, loss, step):
    X, group = np.random.default_rng(0).normal(size=(200, 2)), np.array(["a"] * 190 + ["b"] * 10)
    for bound in (step - 1e-4, step + 1e-4) if step else (1e-4,):
        stated = [f"{notion} <= {bound:.4f}"]
        problem = FairProblem(model_of("linear", 2, 1), X, np.arange(200) % 2, Groups.of(group), stated, loss=loss)
        said = [found.said for found in bounds_below_a_step(problem.plan, problem.counts_of_cells())]
        assert len(said) == (bound < step) and all("in 'b" in text for text in said), said


def test_a_group_of_one_row_is_kept_as_stated_and_missing_it_is_under_no_bound():
    """All other rates must be within 0.1 of the one row's 0 or 1, where the labels are even: most of the accuracy is lost."""
    rng = np.random.default_rng(0)
    X, group = rng.normal(size=(120, 2)), np.array(["a", "b"], object)[np.arange(120) % 2]
    y, found = (X[:, 0] > 0).astype(int), []
    for first in ("alone", None):
        group[0] = first
        with pytest.warns(UserWarning, match="mark its values missing" if first else "missing in 1 training rows"):
            fair = fb.FairClassifier("demographic_parity <= 0.1", budget="60 steps", random_state=0).fit(
                X, y, sensitive_features=group
            )
        rates = [fair.predict(X)[group == g].mean() for g in ("a", "b", *([first] if first else []))]
        assert max(rates) - min(rates) <= 0.1
        found.append(fair.score(X, y))
    assert found[0] < 0.75 < 0.9 < found[1]


def test_of_many_groups_too_small_for_a_bound_the_smallest_are_named():
    rng, group = np.random.default_rng(0), np.repeat(list("abcdef"), [290, 290, 4, 5, 6, 7])
    X, y = rng.normal(size=(602, 2)), rng.integers(0, 2, 602)
    problem = FairProblem(model_of("linear", 2, 1), X, y, Groups.of(group), "demographic_parity <= 0.05")
    assert (
        "in 'c' (4), 'd' (5), 'e' (6) and 1 more. A rate"
        in bounds_below_a_step(problem.plan, problem.counts_of_cells())[0].said
    )


def alone_at(place: float, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of two groups of 400 and one of a single row, which has this place in the order of the scores."""
    rng = np.random.default_rng(seed)
    X, group = rng.normal(size=(800, 3)), np.array(["a", "b"], object)[np.arange(800) % 2]
    score = 2 * X[:, 0] + X[:, 1]
    group[np.argsort(score)[int(place * 800)]] = "alone"
    return X, (rng.random(800) < 1 / (1 + np.exp(-score))).astype(int), group


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("place", "seed", "gain"),
    [
        pytest.param(0.9, 0, 0.02, marks=pytest.mark.long),
        (0.98, 0, 0.004),
        pytest.param(0.3, 2, 0.002, marks=pytest.mark.long),
    ],
)
def test_where_a_row_alone_would_leave_a_constant_a_model_that_meets_the_bound_on_it_is_found(
    place, seed, gain, monkeypatch
):
    """A group of one row: training from the middle ends at a constant, and 40 of 800 rows may yet be told apart."""
    (X, y, group), bound = alone_at(place, seed), "demographic_parity <= 0.05"
    fair = fb.FairClassifier(bound, budget="60 steps", random_state=0).fit(X, y, sensitive_features=group)
    assert fb.measure("demographic_parity", fair.predict(X), y, group) <= 0.05 and fair.fit_report_["feasible"]
    assert any("'alone' (1)" in said for said in fair.fit_report_["warnings"])
    assert "with the intercept that is best within them" in fair.fit_report_["message"]
    others = [step for step in classifier_training.CORRECTIONS if step is not swept_intercept]
    monkeypatch.setattr(classifier_training, "CORRECTIONS", others)
    before = fb.FairClassifier(bound, budget="60 steps", random_state=0).fit(X, y, sensitive_features=group)
    assert fair.score(X, y) > before.score(X, y) + gain


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_model_of_a_named_method_stays_that_method_s():
    X, y, group = alone_at(0.9, 0)
    fair = fb.FairClassifier("demographic_parity <= 0.05", algorithm="full_batch_alm", random_state=0)
    assert "its intercept moved" not in fair.fit(X, y, sensitive_features=group).fit_report_["message"]


def fitted_with_intercept(monkeypatch, move: float, **options) -> tuple[fb.FairClassifier, np.ndarray, np.ndarray]:
    """A fit of 400 rows, 40 of them positive, and its table, where what training found had its intercept moved at the end."""
    rng = np.random.default_rng(0)
    X, y, group = rng.normal(size=(400, 3)), (np.arange(400) % 10 == 0).astype(int), np.arange(400) // 10 % 2

    def moved(trained: Trained) -> Trained:
        x = trained.solution.x.clone()
        x[-1] += move
        return trained._replace(solution=meeting(trained, x, ""))

    monkeypatch.setattr(classifier_training, "CORRECTIONS", (moved, *classifier_training.CORRECTIONS[1:]))
    fair = fb.FairClassifier("demographic_parity <= 0.3", weight_decay=0.0, random_state=0, **options)
    return fair.fit(X, y, sensitive_features=group), X, y


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_model_far_less_accurate_than_one_that_decides_all_rows_alike_becomes_such_a_one_in_the_same_order(
    monkeypatch,
):
    fair, X, y = fitted_with_intercept(monkeypatch, 2.2, options=fb.TableOptions(knots=0))
    lowest = fitted_with_intercept(monkeypatch, 0.0, options=fb.TableOptions(knots=0))[0]
    assert fair.score(X, y) == 0.9 and "decides all rows alike" in fair.fit_report_["message"]
    assert "decides all rows alike" in " ".join(fair.fit_report_["notes"])
    scores, odds = fair.decision_function(X), np.log(40 / 360)
    assert scores.mean() == pytest.approx(odds, abs=1e-5) and scores.std() > 0
    assert np.corrcoef(scores, X @ lowest.coef_[0])[0, 1] == pytest.approx(1, abs=1e-5)
    assert np.abs(scores - odds).max() <= 0.9 * -odds + 1e-5


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_of_the_lowest_loss_a_worse_model_becomes_the_share_of_positive_rows(monkeypatch):
    fair, X, y = fitted_with_intercept(monkeypatch, 8.0, objective="loss")
    lowest = fitted_with_intercept(monkeypatch, 0.0, objective="loss")[0]
    assert log_loss(y, fair.predict_proba(X)[:, 1]) <= log_loss(y, np.full(400, 0.1)) + 1e-6
    assert "decides all rows alike" not in lowest.fit_report_["message"]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("move", "options"), [(1.5, {}), (8.0, {"algorithm": "full_batch_alm"})])
def test_a_little_less_accuracy_or_a_method_by_name_leaves_the_model(move, options, monkeypatch):
    fair, X, y = fitted_with_intercept(monkeypatch, move, **options)
    assert "decides all rows alike" not in fair.fit_report_["message"] and fair.score(X, y) < 0.9
