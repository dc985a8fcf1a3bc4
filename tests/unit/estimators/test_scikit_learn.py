"""scikit-learn's own checks, of every estimator that claims to pass them."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.utils import estimator_checks as checks
from sklearn.utils.estimator_checks import parametrize_with_checks

import fairbound as fb


class NeedsGroups(fb.Reduction):
    """The reduction under scikit-learn's checks, which know of no groups: the first column's sign gives them."""

    def fit(self, X, y, sample_weight=None):
        groups = np.arange(X.shape[0] if hasattr(X, "shape") else len(np.asarray(X))) % 2
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return super().fit(X, y, groups, sample_weight)


class Thresholds(fb.PostProcessor):
    """Thresholds under scikit-learn's checks: groups by row number in `fit`, and one group for all rows to predict."""

    def fit(self, X, y, sample_weight=None):
        groups = np.arange(X.shape[0] if hasattr(X, "shape") else len(np.asarray(X))) % 2
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.filterwarnings("ignore", "Thresholds fitted to fewer than 50 rows")
            return super().fit(X, y, groups, sample_weight)

    def predict(self, X, sensitive_features=None):
        return super().predict(X, self._one(X))

    def decision_function(self, X):
        return super().decision_function(X, self._one(X))

    def _one(self, X):
        return np.zeros(X.shape[0] if hasattr(X, "shape") else len(np.asarray(X)), dtype=int)


WHY = {
    "FairClassifier": "batches are drawn row by row, so a row of weight 2 is not two rows in a stochastic run",
    "FairRegressor": "last digits differ where rows of weight 2 are written twice",
    "NeedsGroups": "the groups of this test follow row numbers",
    "Thresholds": "the groups of this test follow row numbers",
}
OF_THRESHOLDS = {
    "check_classifiers_train": "a threshold other than 0.5 leaves the estimator's probabilities, as FixedThresholdClassifier does",
    "check_complex_data": "said of the labels in other words",
}
SHARED = [
    checks.check_fit_idempotent, checks.check_estimators_pickle, checks.check_methods_subset_invariance,
    checks.check_methods_sample_order_invariance, checks.check_fit2d_1feature,
]  # fmt: skip
OWN = {
    fb.FairClassifier: [checks.check_classifiers_train, checks.check_decision_proba_consistency],
    fb.FairRegressor: [checks.check_regressors_train, checks.check_regressors_int],
}


@parametrize_with_checks(
    [
        fb.FairClassifier(budget="60 steps"),
        fb.FairRegressor(),
        NeedsGroups(LogisticRegression(), "demographic_parity <= 0.2", rounds=2),
        Thresholds(LogisticRegression(), "demographic_parity <= 0.2"),
    ],
    expected_failed_checks=lambda estimator: (
        (OF_THRESHOLDS if isinstance(estimator, Thresholds) else {})
        | {
            f"check_sample_weight_equivalence_on_{kind}_data": WHY[type(estimator).__name__]
            for kind in ("dense", "sparse")
        }
    ),
)
def test_scikit_learn_contract(estimator, check):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*SCIPY_ARRAY_API.*")
        check(estimator)


@pytest.mark.parametrize(
    ("kind", "check"),
    [pytest.param(kind, c, id=f"{kind.__name__}-{c.__name__}") for kind, own in OWN.items() for c in (*own, *SHARED)],
)
def test_scikit_learn_contract_of_random_batches(kind, check):
    """Of its checks those of what is drawn, computed and kept; input is read as for a linear model."""
    check(kind.__name__, kind(model="mlp:4", budget="150 steps"))
