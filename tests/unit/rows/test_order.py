"""Rows of columns that are in another order by their index: said, wherever such columns are taken."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import fairbound as fb

BOUND = "demographic_parity <= 0.2"


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
