"""Costs of errors, as stated or as class_weight says them, and what a fit of any classifier warns of."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fairbound as fb
from fairbound.base.errors import DataWarning, OptionError

FIVE = {0: 1, 1: 5}
LOOSE = "demographic_parity <= 0.5"
DOORS = [fb.Reduction, fb.PostProcessor]


def rows(n=1200, seed=0):
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b"], n)
    X = rng.normal(size=(n, 3)) + 0.6 * (group == "a")[:, None]
    y = (X[:, 0] + X[:, 1] + rng.normal(size=n) > 0.6).astype(int)
    return X, y, group


def decided(fair, X, group):
    return fair.predict(X) if isinstance(fair, fb.Reduction) else fair.predict(X, group)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("wrap", [lambda m: m, lambda m: make_pipeline(StandardScaler(), m)])
def test_class_weight_is_not_undone_and_is_the_same_as_stated_costs(door, wrap):
    X, y, group = rows()
    alone = wrap(LogisticRegression(class_weight=FIVE)).fit(X, y).predict(X)
    weighed = door(wrap(LogisticRegression(class_weight=FIVE)), LOOSE).fit(X, y, group)
    stated = door(wrap(LogisticRegression(class_weight=FIVE)), LOOSE, costs=(1, 5)).fit(X, y, group)
    alike = door(wrap(LogisticRegression(class_weight=FIVE)), LOOSE, costs=(1, 1)).fit(X, y, group)
    found = decided(weighed, X, group)
    assert abs(found.mean() - alone.mean()) < 0.1 < 0.13 < found.mean() - decided(alike, X, group).mean()
    assert (found == decided(stated, X, group)).all()
    facts = weighed.fit_report_
    assert facts["costs"] == [1, 5] and "class_weight={0: 1, 1: 5} of LogisticRegression" in facts["notes"][0]
    assert stated.fit_report_["notes"] == [] and alike.fit_report_["costs"] == [1, 1]
    cost = np.mean((found != y) * np.where(y == 1, 5, 1))
    assert facts["cost"] == pytest.approx(cost) and cost <= np.mean((alone != y) * np.where(y == 1, 5, 1)) + 1e-9


@pytest.mark.parametrize("door", DOORS)
def test_balanced_labels_count_alike_in_their_weights(door):
    X, y, group = rows()
    weight = np.where(y == 1, 1.0, 3.0)
    fair = door(LogisticRegression(class_weight="balanced"), LOOSE).fit(X, y, group, sample_weight=weight)
    one, other = fair.fit_report_["costs"]
    assert one * weight[y == 0].sum() == pytest.approx(other * weight[y == 1].sum())


@pytest.mark.parametrize("door", DOORS)
def test_class_weight_names_the_labels_of_y(door):
    X, y, group = rows()
    words = np.where(y == 1, "yes", "no")
    fair = door(LogisticRegression(class_weight={"yes": 4}), LOOSE).fit(X, words, group)
    assert fair.fit_report_["costs"] == [1, 4]
    turned = fb.Reduction(LogisticRegression(class_weight={"yes": 4}), LOOSE, positive="no").fit(X, words, group)
    assert turned.fit_report_["costs"] == [4, 1]
    assert fb.Reduction(LogisticRegression(class_weight=FIVE), LOOSE).fit(X, y == 1, group).fit_report_["costs"] == [
        1,
        5,
    ]
    with pytest.raises(OptionError, match=r"class_weight of LogisticRegression names \[0, 1\], .* \['no', 'yes'\]"):
        fb.Reduction(LogisticRegression(class_weight=FIVE), LOOSE).fit(X, words, group)


def test_fits_with_folds_and_in_a_search_are_made_without_class_weight():
    X, y, group = rows()
    forest = RandomForestClassifier(10, class_weight="balanced_subsample", random_state=0)
    fair = fb.Reduction(forest, LOOSE, folds=3).fit(X, y, group)
    assert fair.estimator_.models[0].models[0].class_weight is None and forest.class_weight is not None
    plain = fb.Reduction(RandomForestClassifier(10, random_state=0), LOOSE, folds=3, costs=fair.fit_report_["costs"])
    assert (plain.fit(X, y, group).predict(X) == fair.predict(X)).all()
    search = GridSearchCV(LogisticRegression(class_weight=FIVE), {"C": [0.1, 1]}, cv=2)
    fair = fb.Reduction(search, LOOSE, rounds=2).fit(X, y, group)
    assert fair.fit_report_["costs"] == [1, 5] and fair.estimator_.best_estimator_.class_weight is None


@pytest.mark.parametrize(
    ("costs", "folds"),
    [((1, 5), 0), ((4, 1), 3), *(pytest.param(*more, marks=pytest.mark.long) for more in (((4, 1), 0), ((1, 5), 3)))],
)
def test_under_a_tight_bound_stated_costs_are_lower_than_those_of_the_most_accurate_model(costs, folds):
    X, y, group = rows()
    each = np.where(y == 1, costs[1], costs[0])
    dear, alike = (
        fb.Reduction(LogisticRegression(), "demographic_parity <= 0.02", costs=c, folds=folds).fit(X, y, group)
        for c in (costs, None)
    )
    assert dear.fit_report_["feasible"] and dear.fit_report_["lottery_accuracy"] is None
    paid, other = (float(np.mean((fair.predict(X) != y) * each)) for fair in (dear, alike))
    assert paid < other - 0.05
    if not folds:
        assert dear.fit_report_["cost"] == pytest.approx(paid)
        assert dear.fit_report_["lottery_cost"] < paid + 0.01


@pytest.mark.parametrize("costs", [(1,), (-1, 2), (0, 0), "ab"])
def test_costs_that_are_none_are_refused(costs):
    with pytest.raises(OptionError, match="costs must be two numbers"):
        fb.Reduction(LogisticRegression(), LOOSE, costs=costs).fit(*rows(60))


# -- what is warned of -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("door", DOORS)
def test_rows_whose_group_is_missing_are_counted_with_a_warning(door):
    X, y, group = rows()
    holes = group.astype(object)
    holes[:100] = None
    with pytest.warns(DataWarning, match="group is missing in 100 "):
        fair = door(LogisticRegression(), LOOSE).fit(X, y, holes)
    assert fair.fit_report_["missing_group_rows"] == {"group": 100}


def test_a_group_with_too_few_rows_is_named_with_what_helps():
    X, y, group = rows()
    group = group.astype(object)
    group[0] = "z"
    with pytest.warns() as caught:
        fair = fb.Reduction(LogisticRegression(), "demographic_parity <= 0.05").fit(X, y, group)
    said = {one.category: str(one.message) for one in caught}
    assert "'z' (1)" in said[DataWarning] and "demographic_parity[fewest=30] <= 0.05" in said[DataWarning]
    assert "fewest=30" in said[ConvergenceWarning] and "FairClassifier" not in said[ConvergenceWarning]
    assert fair.fit_report_["small_groups"] and fair.fit_report_["small_groups"][0] == said[DataWarning]
    without = fb.Reduction(LogisticRegression(), "demographic_parity[fewest=30] <= 0.05")
    with pytest.warns(DataWarning, match="left out of the bounds"):
        assert without.fit(X, y, group).score(X, y) > fair.score(X, y) + 0.1


@pytest.mark.parametrize("door", DOORS)
def test_decisions_no_better_than_one_for_all_are_spoken_of(door):
    X, _, group = rows()
    noise = (np.random.default_rng(3).random(len(X)) < 0.1).astype(int)
    with pytest.warns(ConvergenceWarning, match="same"):
        fair = door(LogisticRegression(), "demographic_parity <= 0.05").fit(X, noise, group)
    facts = fair.fit_report_
    assert facts["no_better_than_constant"] and facts["accuracy"] <= 1 - noise.mean() + 0.5 / len(X)
    if door is fb.Reduction:
        assert "costs=" in facts["nothing_learnt"] and "no more accurate than the same one" in facts["nothing_learnt"]


def test_a_bound_on_a_class_may_cost_more_than_a_constant():
    X, y, group = rows()
    y = (X[:, 0] + X[:, 1] + np.random.default_rng(1).normal(size=len(X)) > 2.5).astype(int)
    fair = fb.Reduction(LogisticRegression(), "recall of class 1 >= 0.99").fit(X, y, group)
    assert fair.fit_report_["no_better_than_constant"] and fair.fit_report_["nothing_learnt"] is None
