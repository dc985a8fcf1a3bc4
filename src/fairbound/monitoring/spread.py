"""How far limits may reach if the same is measured, so that new rows of the same rates decide as often as not.

Limits that hold at all looks lie about r standard deviations e from the estimates, with one r for all contrasts that
matter. New rows move estimates by e Z. All contrasts are within the bound with probability one half where r is the
median of the least of (bound - estimate) / e - Z; at the measured rates the limits must then lie within
estimate + r e. Contrasts that are never near the bound may reach further.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from fairbound.confidence.contrasts import Contrasts
from fairbound.confidence.rates import Transform
from fairbound.confidence.rows_needed import Together, deviations_of
from fairbound.confidence.sequences import CountsInTime

SELDOM = 0.02
"""The chance at most that one of the contrasts which may reach further lies beyond the bound."""


@dataclass(frozen=True)
class Spread:
    """estimates, bound: (m,). deviation: (m,) of the estimates of one row. together: how they move together."""

    estimates: np.ndarray
    bound: np.ndarray
    deviation: np.ndarray
    together: Together

    @classmethod
    def of(
        cls,
        counts: CountsInTime,
        rows: int,
        contrasts: Contrasts,
        bound: float | np.ndarray,
        transform: Transform | None = None,
    ) -> Spread:
        """From counts with trials in every cell, of so many rows. Half a success and half a failure are added to each
        cell for its deviation, so that a rate of 0 has one."""
        image = (lambda p: p) if transform is None else transform
        p = (counts.successes + 0.5) / (counts.trials + 1)
        error = np.sqrt(p * (1 - p) / (counts.trials + 1))
        with np.errstate(divide="ignore", invalid="ignore"):
            each = (image(np.minimum(p + error, 1.0)) - image(np.maximum(p - error, 0.0))) / 2
            estimates = contrasts.of(np.asarray(image(counts.successes / counts.trials), dtype=np.float64))
        each = np.where(np.isfinite(each), each, 0.0) * np.sqrt(rows)
        limits = np.broadcast_to(np.asarray(bound, dtype=np.float64), estimates.shape)
        return cls(estimates, limits, deviations_of(contrasts, each), Together(contrasts, each))

    def reached(self, rows: np.ndarray) -> np.ndarray:
        """(G, m) how far limits of so many rows (G,) may reach if the same is measured."""
        if len(self.bound) == 1:
            return np.broadcast_to(self.bound, (len(rows), 1))
        error = np.maximum(self.deviation / np.sqrt(rows)[:, None], 1e-300)
        room = np.where(np.isnan(self.estimates), np.inf, self.bound - self.estimates) / error
        times = np.array([np.median((one - self.together.draws).min(1)) for one in room])
        far = -special.ndtri(SELDOM / len(self.bound))
        inside = np.fmax(self.estimates + times[:, None] * error, self.bound - far * error)
        return np.where(np.isfinite(inside), np.minimum(inside, self.bound), self.bound)
