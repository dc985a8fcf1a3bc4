"""Rows of columns that are in another order by their index: said, wherever such columns are taken."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import fairbound as fb

BOUND, AREAS = "demographic_parity <= 0.2", "auc_parity[group] <= 0.9"


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=200), "g": rng.choice(["a", "b"], 200)})
    return frame[["x"]], (frame.x + rng.normal(size=200) > 0).astype(int), frame.g


def takers():
    return {
        "classifier": lambda X, y, g: fb.FairClassifier(BOUND).fit(X, y, g),
        "regressor": lambda X, y, g: fb.FairRegressor("residual_gap <= 1").fit(X, X.x + y, g),
        "reduction": lambda X, y, g: fb.Reduction(LogisticRegression(), BOUND).fit(X, y, g),
        "processor": lambda X, y, g: fb.PostProcessor(LogisticRegression(), constraint=BOUND).fit(X, y, g),
        "audit": lambda X, y, g: fb.audit(X.x, y, g, BOUND, threshold=0),
        "measure": lambda X, y, g: fb.measure("demographic_parity", X.x, y, g, threshold=0),
    }


@pytest.mark.parametrize("taker", takers())
def test_the_same_labels_in_another_order_are_said_and_nothing_else_is(rows, taker):
    X, y, group = rows
    take = takers()[taker]
    shuffled = group.sample(frac=1, random_state=1)
    with pytest.warns(fb.DataWarning, match="sensitive_features have the same index labels in another order"):
        take(X, y, shuffled)
    aligned = (X.sample(frac=1, random_state=1), y.sample(frac=1, random_state=1), shuffled)
    other = (X, y, group.set_axis(range(500, 700)))
    with warnings.catch_warnings():
        warnings.simplefilter("error", fb.DataWarning)
        for given in (aligned, other, (X, y.to_numpy(), group.tolist())):
            take(*given)


@pytest.mark.parametrize("taker", takers())
def test_an_index_of_two_levels_is_not_compared_with_one_of_one_level(rows, taker):
    X, y, group = rows
    levels = pd.MultiIndex.from_arrays([group, range(len(group))])
    with warnings.catch_warnings():
        warnings.simplefilter("error", fb.DataWarning)
        takers()[taker](X.set_axis(levels), y, group)
        takers()[taker](X, y.set_axis(levels), group)
    with pytest.warns(fb.DataWarning, match="y have the same index labels in another order"):
        takers()[taker](X.set_axis(levels), y.set_axis(levels[::-1]), group)


def takers_of_more():
    """What takes rows further than `takers`, each with what is in another order where the last argument is shuffled."""
    model, dicts = LogisticRegression(), "sensitive_features['g']"
    return {
        "audit of a dict": (dicts, lambda X, y, g, o: fb.audit(X.x, y, {"g": o(g)}, BOUND, threshold=0)),
        "classifier of a dict": (dicts, lambda X, y, g, o: fb.FairClassifier(BOUND).fit(X, y, {"g": o(g)})),
        "processor of a dict": (dicts, lambda X, y, g, o: fb.PostProcessor(model, BOUND).fit(X, y, {"g": o(g)})),
        "audit of other models": (
            "compare['b']",
            lambda X, y, g, o: fb.audit(X.x, y, threshold=0, compare={"b": o(X.x)}),
        ),
        "audit of clusters": ("clusters", lambda X, y, g, o: fb.audit(X.x, y, threshold=0, clusters=o(g))),
        "first and second": ("second", lambda X, y, g, o: fb.compare(X.x, o(X.x), y, threshold=0)),
        "compared labels": ("y", lambda X, y, g, o: fb.compare(X.x, X.x, o(y), threshold=0)),
        "compared groups": ("sensitive_features", lambda X, y, g, o: fb.compare(X.x, X.x, y, o(g), threshold=0)),
        "score": ("y", lambda X, y, g, o: fb.FairClassifier().fit(X, y).score(X, o(y))),
        "stream": ("sensitive_features", lambda X, y, g, o: fb.StreamingAUC(AREAS).partial_fit(X, y, o(g))),
    }


@pytest.mark.parametrize("taker", takers_of_more())
def test_another_order_is_said_wherever_rows_are_paired(rows, taker):
    name, take = takers_of_more()[taker]
    with pytest.warns(
        fb.DataWarning, match=re.escape(f"and {name} have the same index labels in another order")
    ) as said:
        take(*rows, lambda column: column.sample(frac=1, random_state=1))
    assert all(w.filename == __file__ for w in said)
    with warnings.catch_warnings():
        warnings.simplefilter("error", fb.DataWarning)
        take(*rows, lambda column: column)


def takers_of_weights():
    model = LogisticRegression()
    return {
        "classifier": lambda X, y, g, w: fb.FairClassifier(BOUND).fit(X, y, g, sample_weight=w),
        "regressor": lambda X, y, g, w: fb.FairRegressor().fit(X, X.x + y, sample_weight=w),
        "reduction": lambda X, y, g, w: fb.Reduction(model, BOUND).fit(X, y, g, sample_weight=w),
        "processor": lambda X, y, g, w: fb.PostProcessor(model, BOUND).fit(X, y, g, sample_weight=w),
        "audit": lambda X, y, g, w: fb.audit(X.x, y, g, BOUND, threshold=0, sample_weight=w),
        "measure": lambda X, y, g, w: fb.measure(BOUND, X.x, y, g, threshold=0, sample_weight=w),
        "compare": lambda X, y, g, w: fb.compare(X.x, -X.x, y, threshold=0, sample_weight=w),
        "score": lambda X, y, g, w: fb.FairClassifier().fit(X, y).score(X, y, sample_weight=w),
    }


@pytest.mark.parametrize("taker", takers_of_weights())
def test_weights_in_another_order_are_said_also_where_some_are_0(rows, taker):
    weight = pd.Series(np.arange(len(rows[0])) % 5)
    with pytest.warns(fb.DataWarning, match="sample_weight have the same index labels in another order"):
        takers_of_weights()[taker](*rows, weight.sample(frac=1, random_state=1))
    with warnings.catch_warnings():
        warnings.simplefilter("error", fb.DataWarning)
        takers_of_weights()[taker](*rows, weight)


DECIDE_BY_GROUP = {
    "processor": lambda: fb.PostProcessor(LogisticRegression(), BOUND),
    "thresholds": lambda: fb.FairClassifier(BOUND, use_groups_at_prediction=True),
    "terms": lambda: fb.FairClassifier(BOUND, group_terms=True),
}


@pytest.mark.parametrize("form", [lambda group: group, lambda group: {"g": group}], ids=["series", "dict"])
@pytest.mark.parametrize("kind", DECIDE_BY_GROUP)
def test_groups_in_another_order_are_said_where_they_decide(rows, kind, form):
    X, y, group = rows
    made, shuffled = DECIDE_BY_GROUP[kind]().fit(X, y, group), form(group.sample(frac=1, random_state=1))
    ways = [made.predict, made.decision_function]
    ways += [made.predict_proba] if kind == "terms" else []
    for decide in ways:
        with pytest.warns(fb.DataWarning, match=r"X and sensitive_features.* in another order"):
            decide(X, shuffled)
        with warnings.catch_warnings():
            warnings.simplefilter("error", fb.DataWarning)
            decide(X, form(group))


def test_identifiers_of_rows_in_another_order_are_said(rows):
    X, y, group = rows
    ids = pd.Series(np.arange(len(X)))
    made = fb.PostProcessor(LogisticRegression(), BOUND, randomised=True).fit(X, y, group)
    with pytest.warns(fb.DataWarning, match="X and row_ids have the same index labels in another order"):
        made.predict(X, group, row_ids=ids[::-1])
