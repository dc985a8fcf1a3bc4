"""Rows that are not independent: which cluster (person, household, device) each one belongs to."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairbound.base.errors import DataError
from fairbound.rows.reading import column_values, factorised, is_missing


def cluster_codes(clusters: Any, n: int) -> np.ndarray | None:
    """(n,) numbers of the clusters, from 0 on; None where no two rows have the same one.

    clusters: (n,) numbers or texts; a row whose own is missing is by itself.
    Raises: DataError for another shape.
    """
    values = column_values("clusters", clusters)
    if len(values) != n:
        raise DataError(f"clusters must have shape ({n},), one cluster for each row, got ({len(values)},).")
    codes, labels = factorised([None if is_missing(v) else v for v in values])
    if None in labels:
        alone = codes == labels.index(None)
        codes = np.where(alone, len(labels) + np.cumsum(alone), codes)
    codes = np.unique(codes, return_inverse=True)[1].ravel().astype(np.int64)
    return codes if len(codes) and codes.max() + 1 < n else None


def facts_of_clusters(codes: np.ndarray | None, column: Any) -> dict[str, Any]:
    """What the data of an audit hold of clusters; {} where rows are independent. column: what names them, or None."""
    if codes is None:
        return {}
    sizes = np.bincount(codes)
    name = None if column is None else str(column)
    return {"clusters": {"column": name, "count": len(sizes), "largest": int(sizes.max())}}


def words_of_clusters(codes: np.ndarray | None) -> list[str]:
    """The sentence that says how many clusters the rows (n,) come in; none where they are independent."""
    if codes is None:
        return []
    sizes = np.bincount(codes)
    return [
        f"The {len(codes):,} rows come in {len(sizes):,} clusters of up to {int(sizes.max()):,}. Limits take clusters, not rows, for "
        "independent."
    ]
