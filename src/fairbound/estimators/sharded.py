"""What the processes of a distributed fit must agree on before they train: the classes,
and the groups of each attribute."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairbound.base.errors import DataError
from fairbound.estimators.parameter_checks import check_distributed
from fairbound.rows.groups import MISSING, Groups, check_whole, natural_order
from fairbound.rows.reading import column_values, factorised
from fairbound.rows.shards import ALONE, Processes, Shards


def shards_of(classifier: Any) -> Shards:
    """The processes that train together, where its `distributed` says so. Raises: OptionError for options that one
    process alone can follow."""
    shards: Shards = Processes() if classifier.distributed else ALONE
    check_distributed(shards, classifier)
    return shards


def with_labels_of_all(y: Any, shards: Shards) -> tuple[Any, int | None]:
    """y (n,) followed by every label that occurs in any process, and n, None for all of them: read
    together, the classes are the same everywhere."""
    if shards.alone:
        return y, None
    values = y if isinstance(y, np.ndarray) and y.ndim == 1 else np.array(column_values("the labels", y), dtype=object)
    numbers = values.dtype.kind in "biuf"
    own = np.unique(values).tolist() if numbers else factorised(values.tolist())[1]
    known = [v for part in shards.gather(own) for v in part]
    return np.concatenate([values, np.array(known, dtype=None if numbers else object)]), len(values)


def same_groups(groups: Groups, shards: Shards, checked: bool = False) -> Groups:
    """The groups of these rows, numbered among those that occur in any process. checked: whether they were looked at
    before, as those of a `Groups`.
    Raises: DataError for other attributes, and where `check_whole` refuses the groups of all rows."""
    if shards.alone:
        return groups
    parts = shards.gather((groups.attributes, groups.labels, len(groups)))
    if len({attributes for attributes, *_ in parts}) > 1:
        raise DataError(f"the processes name different sensitive attributes: {[a for a, *_ in parts]}.")
    codes, labels = [], []
    for j, own in enumerate(groups.labels):
        known = tuple(sorted({text for _, part, _ in parts for text in part[j]}, key=natural_order))
        place = np.array([*(known.index(text) for text in own), MISSING])
        codes.append(place[groups.codes[:, j]])
        labels.append(known)
    found = Groups(np.stack(codes, axis=1), groups.attributes, tuple(labels))
    if not checked:
        check_whole(found.names, sum(rows for *_, rows in parts))
    return found
