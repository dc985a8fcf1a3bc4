"""From a data set to arrays for training: split, remove the sensitive feature, standardise on the training rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from fairbound.base.errors import OptionError
from fairbound.data.dataset import Dataset


@dataclass(frozen=True, eq=False)
class Prepared:
    """Training and test arrays. X_*: (n, d) float64; y_*: (n,) int64; group_*: (n,) text labels, None where missing.

    mean, scale: (d,) what was subtracted and divided by, from the training rows (0 and 1 where not standardised).
    rows_*: positions in the data set.
    """

    X_train: np.ndarray
    X_test: np.ndarray
    y_train: np.ndarray
    y_test: np.ndarray
    group_train: np.ndarray
    group_test: np.ndarray
    rows_train: np.ndarray
    rows_test: np.ndarray
    feature_names: tuple[str, ...]
    mean: np.ndarray
    scale: np.ndarray


def prepare(
    dataset: Dataset,
    seed: int,
    *,
    group: str,
    test: float = 0.2,
    stratify: str | None = "group",
    drop_group: bool = True,
    standardize: bool = True,
    rows: dict[str, np.ndarray] | None = None,
) -> Prepared:
    """Split `dataset` and make arrays. seed, test, stratify: see `Dataset.split`.

    group: the sensitive attribute. drop_group: remove the features that reveal it from X.
    standardize: subtract the training mean and divide by the training standard deviation (1 for a constant feature).
    rows: parts "train" and "test" to use instead of a random split, e.g. `dataset.splits`.
    Raises: OptionError for sparse X with `standardize`, since centring would fill it.
    """
    labels = dataset.group(group)
    data = dataset.without(group) if drop_group else dataset
    if standardize and sparse.issparse(data.X):
        raise OptionError(f"data set {dataset.name!r} is sparse and centring would fill it: pass standardize=False.")
    if rows is None:
        rows = dataset.split(seed, test, stratify, group=group if stratify and "group" in stratify else None)
    train, held = rows["train"], rows["test"]
    X_train, X_test = data.X[train], data.X[held]
    mean, scale = np.zeros(data.X.shape[1]), np.ones(data.X.shape[1])
    if standardize:
        mean, scale = X_train.mean(axis=0), X_train.std(axis=0)
        scale[X_train.max(axis=0) == X_train.min(axis=0)] = 1.0
        X_train, X_test = (X_train - mean) / scale, (X_test - mean) / scale
    return Prepared(
        X_train=X_train,
        X_test=X_test,
        y_train=data.y[train],
        y_test=data.y[held],
        group_train=labels[train],
        group_test=labels[held],
        rows_train=train,
        rows_test=held,
        feature_names=data.feature_names,
        mean=mean,
        scale=scale,
    )


def klbm25_split(dataset: Dataset, seed: int) -> Prepared:
    """An ACSIncome set as in KLBM25: race white / non-white and not a feature (9 remain), 80/20 split stratified by
    race, features standardised by the training rows.

    Source: Kliachkin, Lepšová, Bareilles, Mareček (2025), section 4.1.
    """
    return prepare(dataset, seed, group="race_binary")
