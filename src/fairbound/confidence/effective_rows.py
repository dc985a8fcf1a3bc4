"""How many independent rows tell as much as rows that come in clusters, such as all rows of one person.

Clusters are drawn independently; what is inside one is not. With d_q rows in cluster q, s_q of them successes, and the
rate p = sum s / sum d, the variance of p is

    V = Q / (Q - 1) sum_q z_q^2,   z_q = (s_q - p d_q) / sum d

and p (1 - p) / V independent rows tell as much, but at most as many as there are. Few clusters with the rarer outcome
say little about the variance. So V is mixed with p (1 - p) / K, that of clusters whose rows are all alike, K = (sum
d)^2 / sum d^2 the effective number of clusters: V has the weight of the clusters with the rarer outcome, the other one
(or V, if greater) the weight PRIOR. At a rate of 0 or 1 the clusters alone count. V itself is estimated, with (sum
d^2)^2 / sum d^4 - 1 degrees of freedom, so the number is multiplied by the squared ratio of the quantiles of the
normal law and of Student's t. Asymptotic; docs/intervals.md has the measured errors.

Cells that have clusters in common are not independent. What this adds to the variance of a contrast is taken off the
rows of its cells (`shared_clusters`); what it takes away is not used.

Sources: Korn, Graubard (1998), Survey Methodology 24, 193-201, for the number and the quantiles; Kish (1965) for K;
Bell, McCaffrey (2002), Survey Methodology 28, 169-181, for the degrees of freedom. Departs: the mixing is ours, and so
is the place of the covariances.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import special
from scipy.sparse import csr_array

from fairbound.confidence.contrasts import Contrasts

PRIOR = 3.0  # clusters with the rarer outcome that a variance of clusters all alike counts for
LEVEL = 0.025  # of the quantiles that the degrees of freedom change
BLOCK = 512


class ClusterSums(NamedTuple):
    """M pairs of a cell and a cluster with weight in it.

    cell, cluster: (M,). total: (M,) sums of weight times value. weight: (M,) sums of weights, > 0. cells, clusters:
    how many there are.
    """

    cell: np.ndarray
    cluster: np.ndarray
    total: np.ndarray
    weight: np.ndarray
    cells: int
    clusters: int

    @classmethod
    def of(
        cls, values: Any, weights: Any, cell: np.ndarray, cluster: np.ndarray, cells: int, clusters: int
    ) -> ClusterSums:
        """Of rows: values, weights (n,), cell (n,) in 0..cells-1 or -1 for none, cluster (n,) in 0..clusters-1."""
        w = np.asarray(weights, dtype=np.float64)
        used = (cell >= 0) & (w > 0)
        key = cell[used] * np.int64(clusters) + cluster[used]
        pairs, place = np.unique(key, return_inverse=True)
        x, w = np.asarray(values, dtype=np.float64)[used], w[used]
        total, weight = (np.bincount(place, weights=part, minlength=len(pairs)) for part in (w * x, w))
        return cls(pairs // clusters, pairs % clusters, total, weight, cells, clusters)

    def per_cell(self, values: np.ndarray) -> np.ndarray:
        """(k,) sums of values (M,)."""
        return np.bincount(self.cell, weights=values, minlength=self.cells)

    def moved(self) -> csr_array:
        """(k, Q) by how much each cluster moves the mean of each cell: z of the module's docstring."""
        weight = self.per_cell(self.weight)
        safe = np.where(weight > 0, weight, 1.0)
        mean = self.per_cell(self.total) / safe
        z = (self.total - mean[self.cell] * self.weight) / safe[self.cell]
        return csr_array((z, (self.cell, self.cluster)), shape=(self.cells, self.clusters))


def clustered_trials(sums: ClusterSums, most: Any) -> tuple[np.ndarray, np.ndarray]:
    """Successes and trials (k,) of a binomial sample as informative as clustered rows; reals, for Clopper-Pearson.

    sums: of values 0 and 1. most: (k,) trials if all rows were independent.
    """
    weight, square = sums.per_cell(sums.weight), sums.per_cell(sums.weight**2)
    count = sums.per_cell(np.ones(len(sums.weight)))
    some = weight > 0
    safe = np.where(some, weight, 1.0)
    p = np.clip(sums.per_cell(sums.total) / safe, 0, 1)
    mean = p[sums.cell]
    z = sums.per_cell(((sums.total - mean * sums.weight) / safe[sums.cell]) ** 2)
    variance = z * count / np.maximum(count - 1, 1)
    effective = np.divide(safe**2, square, out=np.ones_like(safe), where=some)
    alike = np.maximum(p * (1 - p) / effective, variance)
    rarer = np.where(mean <= 0.5, sums.total, sums.weight - sums.total) > 1e-9 * sums.weight
    seen = sums.per_cell(rarer.astype(float))
    mixed = (seen * variance + PRIOR * alike) / (seen + PRIOR)
    trials = np.divide(p * (1 - p), mixed, out=effective.copy(), where=(p > 0) & (p < 1) & (mixed > 0))
    fourth = sums.per_cell(sums.weight**4)
    freedom = np.divide(square**2, fourth, out=np.ones_like(safe), where=some) - 1
    ratio = special.ndtri(1 - LEVEL) / special.stdtrit(np.maximum(freedom, 1.0), 1 - LEVEL)
    trials = np.where(some, np.minimum(trials, most) * ratio**2, 0.0)
    return p * trials, trials


def shared_clusters(moved: csr_array, contrasts: Contrasts) -> np.ndarray:
    """(U,) by what factor, at least 1, the variances of cells must be multiplied so that no contrast of them, taken as
    of independent cells, has less than its own variance.

    moved: (U, Q) by how much each cluster moves each cell. contrasts: of the cells, with the slopes of what they
    compare as coefficients.
    """
    factor = np.ones(moved.shape[0])
    if not (np.bincount(moved.indices, minlength=moved.shape[1]) > 1).any():
        return factor
    own = np.asarray(moved.multiply(moved).sum(1)).ravel()
    for start in range(0, len(contrasts), BLOCK):
        index, c = contrasts.index[start : start + BLOCK], contrasts.coefficient[start : start + BLOCK]
        row = np.repeat(np.arange(len(index)), index.shape[1])
        joint = csr_array((c.ravel(), (row, index.ravel())), shape=(len(index), len(own))) @ moved
        together = np.asarray(joint.multiply(joint).sum(1)).ravel()
        apart = (c**2 * own[index]).sum(1)
        more = np.divide(together, apart, out=np.ones_like(apart), where=apart > 0)
        used = c != 0
        np.maximum.at(factor, index[used], np.broadcast_to(more[:, None], index.shape)[used])
    return factor
