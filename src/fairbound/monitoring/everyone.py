"""Limits for all looks of groups beside all rows, whose value depends on the shares of the groups too.

At the shares measured so far a comparison of group g with all rows is (1 - s_g) times the difference d of g and the
other rows. The sets of `confidence.sequences` bound it at these shares whatever they are. Other rows have other shares;
that g's share s_g lies within w of the measured one has limits of its own, as the rows of g among all rows are a stream
of successes. So the comparison lies within w |d| of its limits at the measured shares, for sums of several values
within the sum of these. The limits of w and of |d| take half of SHARES of the error each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairbound.confidence.contrasts import Contrasts
from fairbound.confidence.sequences import CountsInTime, anytime_bounds
from fairbound.fairness.verdicts.judging import Sets

SHARES = 0.1
"""The part of the error probability that is kept for the shares of the groups."""


@dataclass(frozen=True)
class Everyone:
    """Which comparisons are with all rows. block: (U,) the cells whose rows are counted together. contrast, cell,
    times: (p,) of each share that moves a contrast, the contrast, the cell of the group whose share it is, and the size
    of its coefficient."""

    block: np.ndarray
    contrast: np.ndarray
    cell: np.ndarray
    times: np.ndarray

    @classmethod
    def of(cls, sets: Sets) -> Everyone | None:
        """Of comparisons with all rows; None of others."""
        if sets.between is None:
            return None
        block, contrast, cell, times, cells, before = [], [], [], [], 0, 0
        for number, ((compared, of), made) in enumerate(zip(sets.values, sets.found, strict=True)):
            k, (r, _) = len(compared), of.trials.shape
            block += [(number, value) for value in range(r) for _ in range(k)]
            value, group = np.divmod(made.index, k + 1)
            for i, t in zip(*np.nonzero((group == k) & (made.coefficient != 0)), strict=True):
                own = (value[i] == value[i, t]) & (group[i] < k) & (made.coefficient[i] != 0)
                contrast.append(before + i)
                cell.append(cells + value[i, t] * k + group[i][own][0])
                times.append(abs(made.coefficient[i, t]))
            cells, before = cells + r * k, before + len(made.index)
        numbers = {one: i for i, one in enumerate(dict.fromkeys(block))}
        return cls(np.array([numbers[one] for one in block]), np.array(contrast), np.array(cell), np.array(times))

    def bounds(
        self, counts: CountsInTime, contrasts: Contrasts, error: np.ndarray | float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper bounds (..., m), as `anytime_bounds` has them, of the population's comparisons."""
        error = np.broadcast_to(np.asarray(error, dtype=np.float64), (len(contrasts),))
        lower, upper = anytime_bounds(counts, contrasts, (1 - SHARES) * error)
        each = SHARES / 2 * error / np.maximum((contrasts.coefficient != 0).sum(-1), 1)
        each = each[self.contrast]
        shares = CountsInTime(
            counts.trials,
            self._together(counts.trials),
            [None if b is None else (b[1], self._together(b[1])) for b in counts.before],
        )
        low, high = anytime_bounds(shares, Contrasts(self.cell[:, None], np.ones((len(self.cell), 1))), each)
        n = shares.trials[..., self.cell]
        share = np.divide(shares.successes[..., self.cell], n, out=np.ones(n.shape), where=n > 0)
        index, c = contrasts.index[self.contrast], contrasts.coefficient[self.contrast]
        alone = np.where(self.block[index] == self.block[self.cell][:, None], c, 0.0)
        farthest = np.maximum(*np.abs(anytime_bounds(counts, Contrasts(index, alone), each)))
        others = self.times * (1 - share)
        apart = np.minimum(np.divide(farthest, others, out=np.ones(n.shape), where=others > 0), 1.0)
        moved = self.times * apart * np.maximum(high - share, share - low) @ np.eye(len(contrasts))[self.contrast]
        most = np.bincount(self.contrast, weights=self.times, minlength=len(contrasts))
        return np.maximum(lower - moved, -most), np.minimum(upper + moved, most)

    def _together(self, trials: np.ndarray) -> np.ndarray:
        """(..., U) the rows of all groups that stand beside each cell."""
        return (trials @ np.eye(self.block.max() + 1)[self.block])[..., self.block]
