"""The most accurate lottery over fitted models under bounds, each with any threshold: what draws could reach on these
rows.

Every pair of a fit and a threshold selects some weight of each group and label, and a lottery over pairs the mean of
that. The best lottery is a linear program in the shares of the pairs. It begins with few pairs. With its multipliers
y the Lagrangian, error + y . excess, of every other pair is known, and pairs that lower it are added until none does.

Source: Dantzig, Wolfe (1960), Decomposition principle for linear programs. It is the best of the lotteries of Agarwal,
    Beygelzimer, Dudik, Langford, Wallach (2018), A reductions approach to fair classification.
Departs: thresholds of each fit are at most GRID quantiles of its scores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from fairbound.base.errors import FairboundError
from fairbound.postprocessing.sweep import Sweep

GRID = 512
MISSED = 100.0
"""Penalty of an excess over a bound, where no lottery meets them all."""
NEGLIGIBLE = 1e-7
SHORT = 0.01
"""Where a rule is wrong on this share of rows more than the best lottery, the loss is said."""
NEAR = 0.003
"""Where a rule is wrong on this share of rows more than the best lottery, another is looked for."""
ROUNDS = 100
FURTHER = 20
CHANGED = 8
FACTORS = (0.5, 2.0)
"""By what each of the CHANGED greatest multipliers of the best lottery is changed, one at a time,
for more fits near to it."""


@dataclass(frozen=True)
class Lottery:
    """error: share of wrong decisions in the mean, in their costs (`sweep_of`). excess: over the bounds. multipliers: (m,) >= 0. shares: (fits,) of
    each fit, without that of constants."""

    error: float
    excess: float
    multipliers: np.ndarray
    shares: np.ndarray

    @property
    def meets(self) -> bool:
        """Whether it meets the bounds, in the mean of its draws."""
        return self.excess <= NEGLIGIBLE

    @property
    def penalty(self) -> float:
        """A penalty of the largest excess at which a rule gains nothing by missing the bounds."""
        return 2 * float(self.multipliers.sum()) + 0.1

    def ahead(self, error: float | None, by: float) -> bool:
        """Whether it is wrong on a share of rows less by more than `by` than rules with this share of wrong decisions;
        None where no rule meets the bounds."""
        return self.meets and (error is None or error > self.error + by)


class Pairs:
    """Fits with their thresholds, and those that the program holds: the two constants at first."""

    def __init__(self, sweep: Sweep):
        self.sweep = sweep
        total = np.concatenate([c.total for c in sweep.program.curves])
        self._of, self._selected = [-1, -1], [np.zeros(len(total)), total]
        self._curves: list[np.ndarray] = []

    def add(self, scores: np.ndarray) -> None:
        """A fit by its scores (n,)."""
        self._curves.append(self.sweep.selected(scores, GRID))

    def best(self) -> Lottery:
        """The best lottery over all fits so far."""
        for _ in range(ROUNDS):
            found, shares = self._solved()
            if not self._grown(found, MISSED * found.excess + found.error):
                break
        of = np.array(self._of[: len(shares)])
        np.add.at(found.shares, of[of >= 0], shares[of >= 0])
        return found

    def near(self, fit: Callable[[np.ndarray], Any], lottery: Lottery) -> Lottery:
        """The best lottery after more fits at its multipliers, and near to them. fit: makes one at multipliers (m,),
        and adds it."""
        for _ in range(FURTHER):
            before, known = lottery, len(self._curves)
            fit(before.multipliers)
            lottery = self.best()
            if len(self._curves) == known or lottery.error > before.error - NEGLIGIBLE:
                break
        for multipliers in _around(lottery.multipliers):
            fit(multipliers)
        return self.best()

    def nearest(self, lottery: Lottery, most: int) -> np.ndarray:
        """Numbers of the fits that the lottery draws, and of the `most` fits of lowest penalised error."""
        curves, penalty = self._curves, lottery.penalty
        best = [(self.sweep.errors(c) + penalty * np.maximum(self.sweep.largest(c), 0)).min() for c in curves]
        return np.union1d(np.argsort(best, kind="stable")[:most], np.flatnonzero(lottery.shares > NEGLIGIBLE))

    def _grown(self, found: Lottery, value: float) -> bool:
        """Take the pair of each fit that lowers the Lagrangian below the program's value most, if one does."""
        before, program = len(self._of), self.sweep.program
        fixed, worth = program.fixed_cost + found.multipliers @ program.fixed, self.sweep.worth(found.multipliers)
        for number, curve in enumerate(self._curves):
            lagrangian = fixed - curve @ worth
            if lagrangian.min() < value - NEGLIGIBLE:
                self._of.append(number)
                self._selected.append(curve[lagrangian.argmin()])
        return len(self._of) > before

    def _solved(self) -> tuple[Lottery, np.ndarray]:
        """The best lottery over the pairs held, whose shares of fits are still 0, and the shares of the pairs."""
        program, columns = self.sweep.program, np.array(self._selected).T
        width, cells, m = columns.shape[1], len(program.cells), len(program.bounds)
        cost = np.concatenate([self.sweep.errors(columns.T), np.zeros(cells), [MISSED]])
        found = linprog(
            cost,
            A_ub=sparse.hstack([sparse.csr_array((m, width)), program.contrasts, -np.ones((m, 1))], format="csc"),
            b_ub=program.bounds,
            A_eq=sparse.block_array(
                [[np.ones((1, width)), None, None], [program.slope @ columns, -sparse.eye_array(cells), sparse.csr_array((cells, 1))]],
                format="csc",
            ),
            b_eq=np.concatenate([[1.0], -program.base]),
            bounds=[(0, None)] * width + [(None, None)] * cells + [(0, None)],
            method="highs",
        )  # fmt: skip
        if found.status != 0:
            raise FairboundError(f"the linear program of the lottery was not solved: {found.message}")
        excess = float(found.x[-1])
        multipliers = np.maximum(-found.ineqlin.marginals, 0.0)
        return Lottery(float(found.fun) - MISSED * excess, excess, multipliers, np.zeros(len(self._curves))), found.x[
            :width
        ]


def _around(multipliers: np.ndarray) -> list[np.ndarray]:
    greatest = [i for i in np.argsort(-multipliers, kind="stable")[:CHANGED] if multipliers[i] > NEGLIGIBLE]
    out = []
    for i, factor in [(i, factor) for i in greatest for factor in FACTORS]:
        other = multipliers.copy()
        other[i] *= factor
        out.append(other)
    return out
