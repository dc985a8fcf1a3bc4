"""Weights that are refused name a row; one of a great share of the weight is warned of in training and in audits."""

from __future__ import annotations

import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import fairbound as fb
from fairbound.base.errors import DataError, DataWarning
from fairbound.estimators.sharded import check_weighted
from fairbound.rows.reading import read_weights
from fairbound.rows.weighted import kish_size, uneven_words

PARITY = "demographic_parity <= 0.3"
RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 2))
Y = (X[:, 0] + RNG.normal(size=400) > 0).astype(int)
GROUP = RNG.choice(["a", "b"], 400)
ONE_LARGE = np.r_[np.ones(399), 1000.0]
FITS = {
    "classifier": lambda w: fb.FairClassifier(PARITY, budget="5 steps").fit(X, Y, GROUP, sample_weight=w),
    "certified": lambda w: fb.FairClassifier("demographic_parity <= 0.9", certify=True).fit(
        X, Y, GROUP, sample_weight=w
    ),
    "regressor": lambda w: fb.FairRegressor("residual_gap <= 5").fit(X, X[:, 0], GROUP, sample_weight=w),
    "reduction": lambda w: fb.Reduction(LogisticRegression(), PARITY).fit(X, Y, GROUP, sample_weight=w),
    "thresholds": lambda w: fb.PostProcessor(LogisticRegression(), PARITY).fit(X, Y, GROUP, sample_weight=w),
}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([1, 2, np.nan, -1], r"row 2 \(counting from 0\) has nan"),
        (np.array([1, -2, np.inf, 1]), r"row 1 \(counting from 0\) has -2"),
        ([1, None, 2, 3], r"row 1 \(counting from 0\) has nan"),
        (
            pd.Series([1, 2, 3, "heavy"], dtype=object),
            r"must be numbers, and row 3 \(counting from 0\) has 'heavy'\. Groups",
        ),
        (pd.Series([1, pd.NA, 3, 4], dtype=object), r"must be numbers, and row 1 \(counting from 0\) has <NA>"),
        (np.zeros(4), "all are 0"),
        ([3, 0, 1e-35, 4], r"too far apart: row 2 \(counting from 0\) has 1e-35 and row 3 has 4"),
    ],
)
def test_a_weight_that_is_none_is_named_by_its_row(given, said):
    with pytest.raises(DataError, match=f"sample_weight.*{said}"):
        read_weights(given, 4)
    with pytest.raises(DataError, match=f"sample_weight.*{said}"):
        fb.FairClassifier().fit(X[:4], [0, 1, 0, 1], sample_weight=given)


def test_an_audit_names_rows_whose_weights_lie_too_far_apart():
    """Over the largest the first was 0, so that the rows of group a seemed to be fewer than they are."""
    said = r"row 0 \(counting from 0\) has 1e-300 and row 1 has 1e\+300"
    given = [0, 1, 1, 0], [0, 1, 0, 0], list("abab")
    for ask in (lambda **w: fb.audit(*given, PARITY, **w), lambda **w: fb.measure(PARITY, *given, **w)):
        with pytest.raises(DataError, match=said):
            ask(sample_weight=[1e-300, 1e300, 1, 1])
    assert fb.audit(*given, PARITY, sample_weight=[1e-14, 1e15, 1, 0])


def test_processes_whose_weights_lie_too_far_apart_are_named():
    class Two:
        alone = False

        def gather(self, value):
            return [value, value] if isinstance(value, bool) else [value, (1e-20, 1e-35)]

    with pytest.raises(DataError, match=r"too far apart: 1e-35 in process 1 \(counting from 0\) and 2 in process 0"):
        check_weighted(np.array([0, 1.0, 2.0]), Two())


def test_kish_size_is_between_one_row_and_all():
    assert kish_size(np.full(7, 3.5)) == pytest.approx(7)
    assert kish_size(np.array([1e200, 1e200, 1.0])) == pytest.approx(2)
    weight = np.array([1.0, 2.0, 5.0])
    assert kish_size(weight) == pytest.approx(8**2 / 30)
    assert read_weights([Decimal(1), Decimal(2)], 2).tolist() == [1, 2]


def test_many_rows_of_which_one_or_a_few_hold_the_weight_are_told():
    (said,) = uneven_words(ONE_LARGE)
    assert said.startswith("One of 400 rows holds 71.5 % of all weight (its weight is 1000, the median 1)")
    assert f"as much as {kish_size(ONE_LARGE):.1f} rows of equal weight" in said
    few = np.r_[np.full(20, 1.0), np.full(380, 1e-6)]  # each has a twentieth
    assert len(uneven_words(few)) == 1 and few.max() / few.sum() < 0.1
    assert not uneven_words(np.where(np.arange(400) < 8, 25.0, 0.5))  # of class_weight="balanced", 2 % positive
    assert not uneven_words(np.r_[np.ones(50), 1000.0])


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("door", FITS)
def test_a_fit_warns_once(door):
    def said(weight):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            FITS[door](weight)
        return sum("holds 71.5 % of all weight" in str(w.message) and w.category is DataWarning for w in caught)

    assert said(ONE_LARGE) == 1 and said(np.linspace(1, 3, 400)) == said(None) == 0


@pytest.mark.parametrize("bound", [PARITY, "recall of class 1 >= 0.1", "residual_gap <= 5"])
def test_an_audit_says_how_many_rows_of_equal_weight_there_are(bound):
    found = fb.audit(Y, Y, GROUP, bound, sample_weight=ONE_LARGE)
    assert sum("holds 71.5 % of all weight" in said for said in found["warnings"]) == 1
    weight = np.linspace(1, 3, 400)
    even = fb.audit(Y, Y, GROUP, bound, sample_weight=weight)
    note = f"the 400 rows tell as much of a mean as {weight.sum() ** 2 / (weight**2).sum():.1f} rows of equal weight"
    assert not any("of all weight" in said for said in even["warnings"])
    assert sum(note in said for said in even["notes"]) == 1
    assert not any("rows of equal weight" in said for said in fb.audit(Y, Y, GROUP, bound)["notes"])
