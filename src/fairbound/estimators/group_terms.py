"""`FairClassifier(group_terms=True)`: the features of `fairbound.tables.GroupTerms`, by groups that prediction needs too."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import nn

from fairbound.base.errors import DataError, OptionError
from fairbound.estimators.folder import ModelFolderError
from fairbound.rows.groups import Groups
from fairbound.tables.group_terms import with_terms


def with_terms_of(features: Any, groups: Groups | None, model: Any) -> Any:
    """The training features (n, d) with terms of every group but the first by name.

    Raises: DataError or OptionError where there is not one attribute with two groups or more, or the model is an nn.Module.
    """
    if isinstance(model, nn.Module):
        raise OptionError("group_terms=True extends the features of an encoded table; an nn.Module takes X as it is.")
    if groups is None or len(groups.attributes) != 1 or len(groups.labels[0]) < 2:
        raise DataError("group_terms=True needs one sensitive attribute with two or more groups.")
    return with_terms(features, groups.codes[:, 0], len(groups.labels[0]))


def check_terms(estimator: Any, where: str) -> None:
    """Raises: ModelFolderError where a loaded estimator's model has not the features that its groups and encoder make."""
    known, encoder = estimator.groups_, estimator.encoder_
    if not estimator.group_terms:
        return
    if encoder is not None and known is not None and len(known.attributes) == 1:
        d, k = len(encoder.feature_names), len(known.labels[0])
        if estimator.model_.spec()["features"] == d + (k - 1) * (1 + d):
            return
    raise ModelFolderError(f"the model in {where!r} does not fit its groups and its encoder. Save the model again.")


def codes_of(trained: Groups, sensitive_features: Any, n: int) -> np.ndarray:
    """(n,) the number of each row's group in training, -1 where it is missing; such a row has the weights of the first.

    Raises: DataError where the groups are not given, are not n, or are not all among those of training.
    """
    name = trained.attributes[0]
    found, unseen = trained.encode_needed(sensitive_features, n, "score")
    if unseen[name]:
        raise DataError(
            f"{unseen[name]} of {n} rows have a {name} that was not among the training rows, and so no weights of their own: "
            f"correct it to one of {', '.join(trained.labels[0])}, or leave it empty for the weights of {trained.labels[0][0]}."
        )
    return found.codes[:, 0]
