"""What rows say of groups: successes and trials behind rates, and moments of losses,
with effective numbers for weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairbound.confidence.means import moments
from fairbound.confidence.single import effective_trials
from fairbound.fairness.scored import Scored
from fairbound.fairness.statistics import Rate


@dataclass(frozen=True)
class Values:
    """R values of k groups.

    successes, trials: (R, k) of binomial shares, effective numbers where rows have weights; rows, totals: (R, k) rows
    behind them, and their weight.
    transform: the increasing function of the share that is the value; None for the share itself. means, variances: (R,
    k) of losses, whose (effective) numbers are trials. losses, cells: (R, n) each row's loss and its group, -1 for
    none.
    least, largest: between which the losses lie; largest is None where nothing is stated.
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
    largest: float | None = None
    least: float = 0.0

    @classmethod
    def of_shares(
        cls, made: Sequence[tuple[np.ndarray, ...]], transform: Callable[[Any], np.ndarray] | None = None
    ) -> Values:
        """The values of R shares, each as `share_values` returns it."""
        successes, trials, rows, totals = (np.stack(part) for part in zip(*made, strict=True))
        return cls(successes, trials, rows, totals, transform)

    @property
    def estimates(self) -> np.ndarray:
        """(R, k) the values, NaN where there is no trial."""
        if self.means is not None:
            return np.where(self.trials > 0, self.means, np.nan)
        share = np.divide(self.successes, self.trials, out=np.full(self.trials.shape, np.nan), where=self.trials > 0)
        return (
            share if self.transform is None else np.where(np.isnan(share), np.nan, self.transform(np.nan_to_num(share)))
        )


def share_values(hit: np.ndarray, among: np.ndarray, rows: Scored, group: np.ndarray, k: int) -> tuple[np.ndarray, ...]:
    """(k,) successes, trials, rows and weight of the share of the rows `among` (n,) that are `hit` (n,), in each group.

    group: (n,), -1 for none.
    """
    each, w, square = rows.mass
    trial = among & (group >= 0)
    of, w, square = group[trial], w[trial], square[trial]
    hit = hit[trial]
    sums = [np.bincount(of, weights=part, minlength=k) for part in (w * hit, w, square * hit, square)]
    successes, trials = effective_trials(*sums)
    return successes, trials, np.bincount(of, weights=each[trial], minlength=k).astype(np.int64), sums[1]


def rate_values(rate: Rate, rows: Scored, group: np.ndarray, k: int) -> tuple[np.ndarray, ...]:
    """(k,) successes, trials, rows and weight of a rate in each group; group: (n,), -1 for none."""
    hit = np.array(rate.successes, dtype=bool)[rows.target, rows.predicted]
    among = hit | np.array(rate.failures, dtype=bool)[rows.target, rows.predicted]
    return share_values(hit, among, rows, group, k)


def loss_values(
    loss: np.ndarray,
    groups: list[np.ndarray],
    k: int,
    weight: np.ndarray | None,
    largest: float | None,
    least: float = 0.0,
) -> Values:
    """The mean losses of the rows in each of several codings (n,) of groups, -1 for none."""
    w = np.ones(len(loss)) if weight is None else weight
    cells = np.stack(groups)
    of_cells = [moments(loss, cell, k, weight) for cell in cells]
    means, variances, counts = (np.stack(part) for part in zip(*of_cells, strict=True))
    rows, totals = (
        np.stack([np.bincount(c[c >= 0], weights=x[c >= 0], minlength=k) for c in cells]) for x in (np.ones(len(w)), w)
    )
    losses = np.broadcast_to(loss, cells.shape)
    return Values(np.zeros_like(counts), counts, rows, totals, None, means, variances, losses, cells, largest, least)


def share_of(hit: np.ndarray, among: np.ndarray, rows: Scored) -> tuple[np.ndarray, np.ndarray]:
    """Successes and trials behind the share of the rows `among` (n,) that are `hit`; effective numbers for weights."""
    both, (_, w, square) = among & hit, rows.mass
    return effective_trials(w[both].sum(), w[among].sum(), square[both].sum(), square[among].sum())
