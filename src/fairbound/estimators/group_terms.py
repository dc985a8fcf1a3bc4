"""`FairClassifier(group_terms=True)`: the features of `fairbound.tables.GroupTerms`,
by groups that prediction needs too."""

from __future__ import annotations

from typing import Any

from torch import nn

from fairbound.base.errors import DataError, OptionError
from fairbound.estimators.saving.folder import ModelFolderError
from fairbound.rows.groups import Groups
from fairbound.tables.group_terms import with_terms


def with_terms_of(features: Any, groups: Groups, model: Any) -> Any:
    """The training features (n, d) with terms of every group but the first by name.

    Raises: DataError or OptionError where there is not one attribute with two groups or more, or the model is an
    nn.Module.
    """
    if isinstance(model, nn.Module):
        raise OptionError("group_terms=True extends the features of an encoded table; an nn.Module takes X as it is.")
    if len(groups.attributes) != 1 or len(groups.labels[0]) < 2:
        raise DataError("group_terms=True needs one sensitive attribute with two or more groups.")
    return with_terms(features, groups.codes[:, 0], len(groups.labels[0]))


def check_terms(estimator: Any, where: str) -> None:
    """Raises: ModelFolderError where a loaded estimator's model has not the
    features that its groups and encoder make."""
    known, encoder = estimator.groups_, estimator.encoder_
    if not estimator.group_terms:
        return
    if encoder is not None and len(known.attributes) == 1:
        d, k = len(encoder.feature_names), len(known.labels[0])
        if estimator.model_.spec()["features"] == d + (k - 1) * (1 + d):
            return
    raise ModelFolderError(f"the model in {where!r} does not fit its groups and its encoder. Save the model again.")
