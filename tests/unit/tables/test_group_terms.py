"""Group terms: a linear model on them is a linear model of every group by itself."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

import fairbound as fb
from fairbound.base.errors import DataError
from fairbound.tables import GroupTerms


def rows(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X, group = rng.normal(size=(n, 2)), rng.choice(["a", "b", "c"], n)
    away = {"a": 1.0, "b": -1.0, "c": 0.0}
    y = (rng.random(n) < 1 / (1 + np.exp(-X[:, 0] * np.array([away[g] for g in group])))).astype(int)
    return X, y, group


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_features_are_those_of_the_table_and_of_each_group(kind):
    X, _, group = rows(50)
    terms = GroupTerms()
    made = terms.fit_transform(kind(X), group)
    assert sp.issparse(made) == sp.issparse(kind(X)) and made.shape == (50, 2 + 2 * 3) == (50, len(terms.feature_names))
    dense = made.toarray() if sp.issparse(made) else made
    for k, label in enumerate("bc"):
        at = 2 + 3 * k
        assert np.array_equal(dense[:, at], group == label)
        assert np.allclose(dense[:, at + 1 : at + 3], (group == label)[:, None] * dense[:, :2], atol=0)
    assert terms.feature_names[2] == "group=b" and terms.feature_names[3].startswith("group=b * ")


def test_a_linear_model_on_them_is_one_of_every_group():
    """Without a penalty the likelihood falls apart by group."""
    X, y, group = rows(600)
    terms = GroupTerms()
    both = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(terms.fit_transform(X, group), y)
    for label in "abc":
        m = group == label
        own = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(X[m], y[m])
        assert both.decision_function(terms.transform(X[m], group[m])) == pytest.approx(
            own.decision_function(X[m]), abs=1e-3
        )


def test_a_fair_classifier_takes_them_and_decides_by_group():
    X, y, group = rows(600)
    terms = GroupTerms()
    made = terms.fit_transform(X, group)
    fair = fb.FairClassifier("demographic_parity <= 0.05", random_state=0).fit(made, y, sensitive_features=group)
    straight = fb.FairClassifier("demographic_parity <= 0.05", weight_decay=0, random_state=0)  # with decay: a constant
    plain = straight.fit(X, y, sensitive_features=group)
    assert (fair.predict(made) == y).mean() > (plain.predict(X) == y).mean() + 0.05
    order = np.random.default_rng(1).permutation(600)
    again = fair.decision_function(terms.transform(X[order], group[order]))
    assert np.allclose(again, fair.decision_function(made)[order], atol=1e-6)


def test_missing_and_strange_groups():
    X, _, group = rows(60)
    terms = GroupTerms().fit(X, group)
    gone = group.astype(object)
    gone[:5] = None
    made = terms.transform(X, gone)
    assert (made[:5, 2:] == 0).all() and (made[5:, 2:] == terms.transform(X, group)[5:, 2:]).all()
    one = terms.transform(X[:3], np.array(["c"] * 3))
    assert (one[:, 5] == 1).all() and (one[:, 2] == 0).all()
    with pytest.raises(DataError, match="not among the training rows"):
        terms.transform(X, np.where(group == "a", "z", group))
    with pytest.raises(DataError, match="two or more groups"):
        GroupTerms().fit(X, np.array(["a"] * 60))
    with pytest.raises(DataError, match="60 rows"):
        terms.transform(X, group[:10])
    with pytest.raises(NotFittedError):
        GroupTerms().transform(X, group)
