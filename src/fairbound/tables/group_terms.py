"""Features with group terms, so that a linear model has weights of its own for every group: (xi, gamma, gamma xi).

gamma is 1 in one group and 0 elsewhere, one for every group but the first by name. The groups must be known at
prediction too, and whether they may be used is a question of law: see the page on groups at prediction.

Source: He, Huang, Yao, Lin (2026), section 7.1, of two groups.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

from fairbound.base.errors import DataError
from fairbound.base.undoing import undone_on_failure
from fairbound.rows.groups import Groups
from fairbound.tables.encoder import TableEncoder
from fairbound.tables.options import TableOptions


def with_terms(features: Any, codes: np.ndarray, groups: int) -> Any:
    """(n, `width_with_terms`) of features (n, d), dense or sparse, and codes (n,) in 0 .. groups - 1; a row with
    code -1 has the terms of no group."""
    parts = [features]
    for code in range(1, groups):
        gamma = (codes == code).astype(features.dtype)
        if sp.issparse(features):
            parts += [sp.csr_array(gamma[:, None]), sp.diags_array(gamma) @ features]
        else:
            parts += [gamma[:, None], gamma[:, None] * features]
    return sp.csr_array(sp.hstack(parts)) if sp.issparse(features) else np.hstack(parts)


def width_with_terms(features: int, groups: int) -> int:
    """How many features `with_terms` makes of so many of so many groups."""
    return features + (groups - 1) * (1 + features)


def check_terms(groups: Groups) -> None:
    """Raises: DataError where the groups are not those of one attribute, or fewer than two."""
    if len(groups.attributes) != 1 or len(groups.labels[0]) < 2:
        raise DataError("group terms need one sensitive attribute with two or more groups.")


def codes_of(trained: Groups, sensitive_features: Any, n: int) -> np.ndarray:
    """(n,) the number of each row's group in training, -1 where it is missing; such a row has the weights of the first.

    Raises: DataError where the groups are not given, are not n, or are not all among those of training.
    """
    name = trained.attributes[0]
    found, unseen = trained.encode_needed(sensitive_features, n, "score")
    if new := np.count_nonzero(unseen):
        raise DataError(
            f"{new} of {n} rows have a {name} that was not among the training rows, and so no weights of their own: "
            f"correct it to one of {', '.join(trained.labels[0])}, or leave it empty for the weights of {trained.labels[0][0]}."
        )
    return found.codes[:, 0]


class GroupTerms:
    """A table and its groups into features with group terms, learnt on the training rows as by `TableEncoder`.

    options: how the table is read. After `fit`: `encoder`, `attribute`, `labels` (groups in the order of their terms,
    the first without), `feature_names`.
    """

    def __init__(self, options: TableOptions | None = None) -> None:
        self.options = options
        self.encoder: TableEncoder | None = None

    @undone_on_failure
    def fit(self, table: Any, sensitive_features: Any) -> GroupTerms:
        """Learn of n rows. table: as `TableEncoder` takes it. sensitive_features: (n,) one attribute, as in `audit`.

        Raises: DataError for several attributes, or fewer than two groups.
        """
        groups = Groups.of(sensitive_features)
        check_terms(groups)
        self.encoder = TableEncoder(self.options).fit(table)
        self.groups = groups.take([])
        self.attribute, self.labels = groups.attributes[0], groups.labels[0]
        return self

    def transform(self, table: Any, sensitive_features: Any) -> Any:
        """(n, d) float64 features, sparse where the table of `fit` was. A missing group has the terms of no group.

        Raises: DataError for a group that `fit` did not see, or columns that do not fit.
        """
        if self.encoder is None:
            raise NotFittedError(
                "these GroupTerms are not fitted yet. Call fit(table, groups) with the training rows first."
            )
        features = self.encoder.encode(table)[0]
        return with_terms(features, codes_of(self.groups, sensitive_features, features.shape[0]), len(self.labels))

    def fit_transform(self, table: Any, sensitive_features: Any) -> Any:
        """`fit`, and `transform` of the same rows."""
        return self.fit(table, sensitive_features).transform(table, sensitive_features)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features that `transform` returns."""
        if self.encoder is None:
            raise NotFittedError("these GroupTerms are not fitted yet.")
        own = self.encoder.feature_names
        terms = (
            [f"{self.attribute}={label}", *(f"{self.attribute}={label} * {name}" for name in own)]
            for label in self.labels[1:]
        )
        return (*own, *(name for term in terms for name in term))
