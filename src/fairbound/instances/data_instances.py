"""The instances of LNSY20's section 6 from data files, with its settings, and where the data had to be other data."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from fairbound.data import load
from fairbound.instances.fair_ratio import fair_ratio
from fairbound.instances.linear_terms import LinearTerms
from fairbound.instances.neyman_pearson import neyman_pearson

Folder = str | os.PathLike[str] | None


def _inventory(costs: tuple[int, int, int], data_dir: Folder, **options: Any) -> Any:
    """The approximate linear program of section 6.2; needs no data."""
    from fairbound.instances.inventory import Inventory

    return Inventory(costs, **options)


def _whole(source: str, data_dir: Folder, **options: Any) -> LinearTerms:
    """All rows of a data set as it is loaded.

    connect-4 has 67,557 positions of two classes: not lost (the objective) and lost; connect-4-head 2,345 of three:
    loss (the objective), draw, win. Of mnist-test grey values are divided by 255: the paper took the 60,000 training
    images of LIBSVM's `mnist`, which are integers up to 255, and does not say whether it scaled them; its radius and
    step size fit scaled ones.
    """
    data = load(source, data_dir)
    return neyman_pearson(data.X, data.y, **options)


def _pendigits(data_dir: Folder, **options: Any) -> LinearTerms:
    """The 7,494 training rows of pendigits, ten classes, pen positions divided by 100; not in the paper."""
    data = load("pendigits", data_dir)
    train = data.splits["train"]
    return neyman_pearson(data.X[train] / 100.0, data.y[train], **{"name": "np-pendigits", **options})


def _a9a(group: str, ones: str, data_dir: Folder, **options: Any) -> LinearTerms:
    """a9a's training file in the objective, its test file in the constraints; `ones` is the group called M."""
    data = load("a9a", data_dir, group=group)
    train, test = data.splits["train"], data.splits["test"]
    is_m = data.group(group)[test] == ones
    return fair_ratio(data.X[train], data.y[train], data.X[test[is_m]], data.X[test[~is_m]], **options)


def _acs(data_dir: Folder, *, seed: int = 0, **options: Any) -> LinearTerms:
    """A random half of the ACS extract of the United States in the objective, the other in the constraints, by sex.

    In place of LoanStats, which the paper halves at random in this way. Categories are 0/1 columns, age and hours are
    centred and scaled by their mean and standard deviation in the objective's half. seed: of the halves.
    """
    data = load("acs-income-us-46pct", data_dir, encoding="one-hot")
    halves = data.split(seed, test=0.5)
    train, test = halves["train"], halves["test"]
    X = data.X.copy()
    for column, source in enumerate(data.feature_sources):
        if data.feature_names[column] == source:
            values = data.X[:, [column]].toarray().ravel()
            _scale(X, column, values[train].mean(), values[train].std())
    male = data.group("sex")[test] == "Male"
    return fair_ratio(X[train], data.y[train], X[test[male]], X[test[~male]], **{"name": "fair-acs", **options})


def _scale(X: Any, column: int, mean: float, deviation: float) -> None:
    """(value - mean) / deviation in place, in a column of a CSR matrix that stores a value in every row."""
    at = np.flatnonzero(X.indices == column)
    if len(at) != X.shape[0]:
        raise ValueError(
            f"column {column} has {X.shape[0] - len(at)} entries that are not stored and cannot be centred."
        )
    X.data[at] = (X.data[at] - mean) / deviation


INSTANCES: dict[str, Callable[..., Any]] = {
    "inventory-2-10-10": partial(_inventory, (2, 10, 10)),
    "inventory-5-10-8": partial(_inventory, (5, 10, 8)),
    "inventory-2-5-10": partial(_inventory, (2, 5, 10)),
    "np-connect-4-binary": partial(_whole, "connect-4", name="np-connect-4-binary"),
    "np-connect-4-head": partial(_whole, "connect-4-head", name="np-connect-4-head"),
    "np-mnist-test": partial(_whole, "mnist-test", name="np-mnist-test"),
    "np-pendigits": _pendigits,
    "fair-a9a": partial(_a9a, "sex", "Male", name="fair-a9a"),
    "fair-a9a-paper-column": partial(_a9a, "paper-column-71", "column 71 = 0", name="fair-a9a-paper-column"),
    "fair-acs": _acs,
}
"""name -> builder(data_dir, **options); see also `DATA`. The names of files and their sources: `fairbound datasets`."""

DATA = {
    "np-connect-4-binary": "connect-4",
    "np-connect-4-head": "connect-4-head",
    "np-mnist-test": "mnist-test",
    "np-pendigits": "pendigits",
    "fair-a9a": "a9a",
    "fair-a9a-paper-column": "a9a",
    "fair-acs": "acs-income-us-46pct",
}
"""The data set that an instance is made of; the others need none."""
