"""From a data set to arrays for training: split, remove the sensitive feature, standardise on the training rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from fairbound.base.errors import OptionError
from fairbound.data.dataset import Dataset


@dataclass(frozen=True, eq=False)
class Prepared:
    """Training and test arrays. X_*: (n, d) float64; y_*: (n,) int64; group_*: (n,) text labels, None where missing."""

    X_train: np.ndarray
    X_test: np.ndarray
    y_train: np.ndarray
    y_test: np.ndarray
    group_train: np.ndarray
    group_test: np.ndarray
    feature_names: tuple[str, ...]


def prepare(dataset: Dataset, seed: int, *, group: str) -> Prepared:
    """80 % of the rows to train on and 20 % to test, stratified by the sensitive attribute `group`, without the
    features that reveal it, standardised by the training rows (a constant feature is 0). Missing numbers take the mean
    of the training rows, 0 where these have none.

    Raises: OptionError for sparse X, since centring would fill it.

    Source: Kliachkin, Lepšová, Bareilles, Mareček (2025), section 4.1.
    """
    labels, data = dataset.group(group), dataset.without(group)
    if sparse.issparse(data.X):
        raise OptionError(f"data set {dataset.name!r} is sparse and centring would fill it; make it dense first.")
    rows = dataset.split(seed, 0.2, "group", group=group)
    train, held = rows["train"], rows["test"]
    X = data.X
    if np.isnan(X).any():
        known = ~np.isnan(X[train])
        means = np.where(known, X[train], 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
        X = np.where(np.isnan(X), means, X)
    X_train = X[train]
    mean, scale = X_train.mean(axis=0), X_train.std(axis=0)
    scale[X_train.max(axis=0) == X_train.min(axis=0)] = 1.0
    return Prepared(
        X_train=(X_train - mean) / scale,
        X_test=(X[held] - mean) / scale,
        y_train=data.y[train],
        y_test=data.y[held],
        group_train=labels[train],
        group_test=labels[held],
        feature_names=data.feature_names,
    )
