"""Bends that the bounds ask for: of a number that tells the group by its distance from the middle, and of the label nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import fairbound as fb
from fairbound.estimators import classifier, runs
from fairbound.estimators.linear import bent_for_bounds
from fairbound.estimators.linear.bent_for_bounds import KNOTS
from fairbound.tables import TableOptions

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore::fairbound.DataWarning"
)
BOUND = "demographic_parity <= 0.02"


def people(seed=0, n=1500, above=1.2):
    """y follows x, which is larger in group b; z lies at both ends there, and in the middle in group a."""
    rng = np.random.default_rng(seed)
    b = rng.random(n) < 0.4
    x = rng.normal(size=n) + 2.5 * b
    z = rng.normal(size=n, scale=0.5) + 2 * b * rng.choice([-1, 1], n)
    y = (x + 0.5 * rng.logistic(size=n) > above).astype(int)
    return pd.DataFrame({"x": x, "z": z}), y, np.where(b, "b", "a")


def bends(model):
    return any(" above " in name for name in model.encoder_.feature_names)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
def test_a_model_bends_where_bounds_cost_much_of_a_straight_one(seed, tmp_path):
    X, y, group = people(seed)
    straight = fb.FairClassifier(BOUND, options=TableOptions(knots=0)).fit(X, y, group)
    model = fb.FairClassifier(BOUND).fit(X, y, group)
    assert bends(model) and not bends(straight)
    assert model.score(X, y) > straight.score(X, y) + 0.03
    assert fb.measure("demographic_parity", model.decision_function(X), y, group) <= 0.02
    assert f"{KNOTS} values in every number" in model.fit_report_["notes"][0] and model.options is None
    model.save(tmp_path / "model")
    loaded = fb.FairClassifier.load(tmp_path / "model")
    assert (loaded.decision_function(X) == model.decision_function(X)).all()


@pytest.mark.parametrize(
    "said",
    [{"options": TableOptions(knots="auto")}, {"objective": "loss"}, {"constraint": None}, {"budget": "20 steps"}],
)
def test_it_bends_no_more_than_its_user_says_or_than_labels_ask_for_without_a_bound(said):
    X, y, group = people()
    assert not bends(fb.FairClassifier(**{"constraint": BOUND} | said).fit(X, y, group))


def test_bends_are_tried_without_jumps_and_pairs_where_these_are_switched_off():
    X, y, group = people()
    model = fb.FairClassifier(BOUND, options=TableOptions(jumps=0)).fit(X, y, group)
    assert bends(model) and not model.encoder_.jumping and not model.encoder_.pairs


def test_a_loose_bound_asks_for_no_bends():
    X, y, group = people()
    assert not bends(fb.FairClassifier("demographic_parity <= 0.6").fit(X, y, group))


@pytest.mark.parametrize(("above", "cells", "tried"), [(2.6, 72_000, 1), (2.9, 72_000, 0), (2.6, 71_999, 0)])
def test_it_is_not_tried_where_one_label_has_most_rows_or_the_table_is_large(monkeypatch, above, cells, tried):
    X, y, group = people(n=4000, above=above)
    asked = []
    monkeypatch.setattr(bent_for_bounds, "CELLS", cells)
    monkeypatch.setattr(classifier, "with_bends", lambda *given: asked.append(given))
    fb.FairClassifier(BOUND).fit(X, y, group)
    assert (y.mean() > 0.2) == (above == 2.6) and len(asked) == tried


def test_it_is_not_tried_with_more_classes(monkeypatch):
    X, y, group = people()
    asked = []
    monkeypatch.setattr(classifier, "with_bends", lambda *given: asked.append(given))
    fb.FairClassifier("class_demographic_parity <= 0.02").fit(X, y + (X.x > 2), group)
    assert asked == []
    fb.FairClassifier(BOUND).fit(X, y, group)
    assert len(asked) == 1


def test_it_is_not_tried_after_an_interruption(monkeypatch):
    X, y, group = people()
    solve, asked = runs.solve, []
    monkeypatch.setattr(runs, "solve", lambda *of, **how: replace(solve(*of, **how), stopped="interrupted"))
    monkeypatch.setattr(classifier, "with_bends", lambda *given: asked.append(given))
    fb.FairClassifier(BOUND).fit(X, y, group)
    assert not asked


def test_bends_that_gain_no_more_than_chance_gives_are_not_taken():
    X, y, group = people()
    X["z"] = np.random.default_rng(9).normal(size=len(X))
    model = fb.FairClassifier(BOUND).fit(X, y, group)
    assert not bends(model) and "straight in every number" in model.fit_report_["notes"][0]
