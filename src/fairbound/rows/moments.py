"""Means and scatters of features by cell of rows, in one pass, which merge across slices, shards and streams.

Source: Chan, Golub, LeVeque (1983), The American Statistician 37, 242-247, for the merge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from fairbound.base.errors import DataError

SLICE_ROWS = 1 << 15


@dataclass(frozen=True)
class Moments:
    """Of K cells of rows with d features. weight: (K,) sum of the rows' weights. mean: (K, d), 0 for an empty cell.
    scatter:
    (K, d, d) sum of weight (x - mean) (x - mean)'."""

    weight: np.ndarray
    mean: np.ndarray
    scatter: np.ndarray

    @classmethod
    def none(cls, k: int, d: int) -> Moments:
        """Of no rows."""
        return cls(np.zeros(k), np.zeros((k, d)), np.zeros((k, d, d)))

    @classmethod
    def of(cls, features: Any, cells: Any, k: int, weight: Any = None) -> Moments:
        """features: (n, d), dense or a SciPy sparse matrix, which is not made dense. cells: (n,) below k, -1 for none.
        weight:
        (n,) >= 0, None for 1. Raises: DataError for shapes that do not fit and features that are not finite."""
        X = sparse.csr_matrix(features) if sparse.issparse(features) else np.asarray(features)
        c = np.asarray(cells)
        w = np.ones(len(c)) if weight is None else np.asarray(weight, dtype=np.float64)
        if X.ndim != 2 or c.shape != (X.shape[0],) or w.shape != c.shape or (len(c) and int(c.max()) >= k):
            raise DataError(
                f"features (n, d), cells (n,) below {k} and weights (n,) are needed; got {X.shape}, {c.shape}, {w.shape}."
            )
        if not np.isfinite(X.data if sparse.issparse(X) else X).all():
            raise DataError("some feature is NaN or infinite; impute or drop such values first.")
        made = cls.none(k, X.shape[1])
        for at in range(0, len(c), SLICE_ROWS):
            part = slice(at, at + SLICE_ROWS)
            made = made.merge(cls._of_slice(X[part], c[part], k, w[part]))
        return made

    @classmethod
    def _of_slice(cls, X: Any, c: np.ndarray, k: int, w: np.ndarray) -> Moments:
        made = cls.none(k, X.shape[1])
        for cell in np.unique(c[(c >= 0) & (w > 0)]).tolist():
            mine = (c == cell) & (w > 0)
            rows, own = X[mine], w[mine]
            total = own.sum()
            mean = np.asarray(own @ rows).ravel() / total
            if sparse.issparse(rows):
                square = (rows.T @ rows.multiply(own[:, None]).tocsr()).toarray()
                scatter = square - total * np.outer(mean, mean)
            else:
                away = rows.astype(np.float64) - mean
                scatter = away.T @ (own[:, None] * away)
            made.weight[cell], made.mean[cell], made.scatter[cell] = total, mean, scatter
        return made

    def merge(self, other: Moments) -> Moments:
        """Of the rows of both. Raises: DataError where cells or features differ in number."""
        if self.mean.shape != other.mean.shape:
            raise DataError(f"moments of {self.mean.shape} and {other.mean.shape} cells and features cannot be merged.")
        weight = self.weight + other.weight
        share = np.divide(other.weight, weight, out=np.zeros_like(weight), where=weight > 0)
        gap = other.mean - self.mean
        between = (self.weight * share)[:, None, None] * gap[:, :, None] * gap[:, None, :]
        return Moments(weight, self.mean + share[:, None] * gap, self.scatter + other.scatter + between)

    def of_sets(self, sets: np.ndarray) -> Moments:
        """Of S sets of cells, sets (S, K) bool: weight (S,), mean (S, d), scatter (S, d, d)."""
        member = np.asarray(sets, dtype=float) * self.weight
        weight = member.sum(1)
        share = np.divide(member, weight[:, None], out=np.zeros_like(member), where=weight[:, None] > 0)
        mean = share @ self.mean
        scatter = np.einsum("sk,kij->sij", np.asarray(sets, dtype=float), self.scatter)
        for s, own in enumerate(member):
            away = self.mean - mean[s]
            scatter[s] += away.T @ (own[:, None] * away)
        return Moments(weight, mean, scatter)

    @property
    def covariance(self) -> np.ndarray:
        """(K, d, d) scatter over weight; 0 for an empty cell."""
        return self.scatter / np.where(self.weight > 0, self.weight, 1.0)[:, None, None]


def second_moments(rows: Any, ones: bool) -> tuple[np.ndarray, float]:
    """Sums of the products (d, d) of every two features over rows (n, d), dense or a SciPy sparse matrix, and n. ones:
    with a feature more that is 1 everywhere, the last of d + 1."""
    second, total = rows.T @ rows, np.asarray(rows.sum(axis=0, dtype=np.float64)).reshape(1, -1)
    second = second.toarray() if sparse.issparse(rows) else second
    whole = np.block([[second, total.T], [total, np.full((1, 1), rows.shape[0])]]) if ones else second
    return whole.astype(np.float64), float(rows.shape[0])
