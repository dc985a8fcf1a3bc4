"""What rows say of groups: successes and trials behind rates, and moments of losses,
with effective numbers for weights and for rows that come in clusters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, vstack

from fairbound.confidence.effective_rows import ClusterSums, clustered_trials
from fairbound.confidence.means import moments
from fairbound.confidence.single import effective_trials
from fairbound.fairness.compiled.statistics import Rate
from fairbound.fairness.scored import Scored


def quotient(above: np.ndarray, below: np.ndarray, otherwise: float = 0.0) -> np.ndarray:
    """above / below, arrays of one shape; `otherwise` where below is 0, as the share of a group without trials."""
    return np.divide(above, below, out=np.full(below.shape, otherwise), where=below > 0)


class Shares(NamedTuple):
    """A share in each of k groups. successes, trials: (k,), effective numbers where rows have weights or come in
    clusters. rows, totals: (k,) rows behind them, and their weight. moved: (k, Q) by how much each of Q clusters moves
    each share; None where rows are independent."""

    successes: np.ndarray
    trials: np.ndarray
    rows: np.ndarray
    totals: np.ndarray
    moved: csr_array | None = None


@dataclass(frozen=True)
class Values:
    """R values of k groups.

    successes, trials: (R, k) of binomial shares, effective numbers where rows have weights or come in clusters; rows,
    totals: (R, k) rows behind them, and their weight.
    transform: the increasing function of the share that is the value; None for the share itself. means, variances: (R,
    k) of losses, whose (effective) numbers are trials. losses, cells, weights: (N,) the losses of all rows (of clusters
    their means), for one value after another, with their cell r * k + group, -1 for none; weights None for equal ones.
    least, largest: between which the losses lie; largest is None where nothing is stated.
    moved: (R * k, Q) by how much each cluster moves each share or mean; None where rows are independent.
    """

    successes: np.ndarray
    trials: np.ndarray
    rows: np.ndarray
    totals: np.ndarray
    transform: Callable[[Any], np.ndarray] | None = None
    means: np.ndarray | None = None
    variances: np.ndarray | None = None
    losses: np.ndarray | None = None
    cells: np.ndarray | None = None
    weights: np.ndarray | None = None
    largest: float | None = None
    least: float = 0.0
    moved: csr_array | None = None

    @classmethod
    def of_shares(cls, made: Sequence[Shares], transform: Callable[[Any], np.ndarray] | None = None) -> Values:
        """The values of R shares, each as `share_values` returns it."""
        *counted, moved = zip(*made, strict=True)
        successes, trials, rows, totals = (np.stack(part) for part in counted)
        return cls(successes, trials, rows, totals, transform, moved=None if moved[0] is None else vstack(moved, "csr"))

    @property
    def estimates(self) -> np.ndarray:
        """(R, k) the values, NaN where there is no trial."""
        if self.means is not None:
            return np.where(self.trials > 0, self.means, np.nan)
        share = quotient(self.successes, self.trials, np.nan)
        return (
            share if self.transform is None else np.where(np.isnan(share), np.nan, self.transform(np.nan_to_num(share)))
        )


def share_values(hit: np.ndarray, among: np.ndarray, rows: Scored, group: np.ndarray, k: int) -> Shares:
    """The share of the rows `among` (n,) that are `hit` (n,), in each group. group: (n,), -1 for none."""
    each, w, square = rows.mass
    trial = among & (group >= 0)
    of, w, square = group[trial], w[trial], square[trial]
    hit = hit[trial]
    sums = [np.bincount(of, weights=part, minlength=k) for part in (w * hit, w, square * hit, square)]
    successes, trials = effective_trials(*sums)
    count = np.bincount(of, weights=each[trial], minlength=k).astype(np.int64)
    if rows.clusters is None:
        return Shares(successes, trials, count, sums[1])
    clustered = ClusterSums.of(hit, w, of, rows.clusters[trial], k, int(rows.clusters.max()) + 1)
    return Shares(*clustered_trials(clustered, trials), count, sums[1], clustered.moved())


def rate_values(rate: Rate, rows: Scored, group: np.ndarray, k: int) -> Shares:
    """A rate's share in each group; group: (n,), -1 for none."""
    hit = np.array(rate.successes, dtype=bool)[rows.target, rows.predicted]
    among = hit | np.array(rate.failures, dtype=bool)[rows.target, rows.predicted]
    return share_values(hit, among, rows, group, k)


def loss_values(
    loss: np.ndarray,
    groups: list[np.ndarray],
    k: int,
    rows: Scored,
    largest: float | None,
    least: float = 0.0,
) -> Values:
    """The mean losses of the rows in each of several codings (n,) of groups, -1 for none."""
    w = np.ones(len(loss)) if rows.weight is None else rows.weight
    each = [mean_rows(loss, cell, k, rows) for cell in groups]
    of_cells = [moments(x, cell, k, weight) for x, cell, weight, _ in each]
    means, variances, counts = (np.stack(part) for part in zip(*of_cells, strict=True))
    count, totals = (
        np.stack([np.bincount(c[c >= 0], weights=x[c >= 0], minlength=k) for c in groups]) for x in (np.ones(len(w)), w)
    )
    cells = np.concatenate([np.where(one.cell >= 0, one.cell + r * k, -1) for r, one in enumerate(each)])
    return Values(
        np.zeros_like(counts),
        counts,
        count,
        totals,
        means=means,
        variances=variances,
        losses=np.concatenate([one.values for one in each]),
        cells=cells,
        weights=None if each[0].weights is None else np.concatenate([one.weights for one in each]),
        largest=largest,
        least=least,
        moved=None if each[0].moved is None else vstack([one.moved for one in each], "csr"),
    )


class MeanRows(NamedTuple):
    """Independent values behind means: values, cell (N,), weights (N,) or None, and `moved` as in Shares."""

    values: np.ndarray
    cell: np.ndarray
    weights: np.ndarray | None
    moved: csr_array | None


def mean_rows(values: np.ndarray, cell: np.ndarray, k: int, rows: Scored) -> MeanRows:
    """The rows as they are; of rows in clusters, the weighted mean of each cluster in each cell, which weighs as much
    as its rows."""
    if rows.clusters is None:
        return MeanRows(values, cell, rows.weight, None)
    sums = ClusterSums.of(values, rows.mass[1], cell, rows.clusters, k, int(rows.clusters.max()) + 1)
    return MeanRows(sums.total / sums.weight, sums.cell, sums.weight, sums.moved())


def share_of(hit: np.ndarray, among: np.ndarray, rows: Scored) -> tuple[np.ndarray, np.ndarray]:
    """Successes and trials behind the share of the rows `among` (n,) that are `hit`; effective numbers for weights and
    clusters."""
    found = share_values(hit, among, rows, np.zeros(len(rows), dtype=np.int64), 1)
    return found.successes[0], found.trials[0]
