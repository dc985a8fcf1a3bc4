"""Rows of two models drawn again with replacement: the contrasts of bounds in every draw.

Where decisions alone count, a draw is how many rows, or how much weight, each combination of groups, label and the two
decisions has. Those draws in which the same groups and labels occur as among the rows are measured together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from fairbound.base.errors import EmptyGroupError
from fairbound.fairness.judging import Standing, compares_groups, contrasts_of_draws
from fairbound.fairness.notions import Bound
from fairbound.fairness.scored import Scored


class DrawnAgain:
    """both: n rows as each of two models decides them. draws: how often n of them are drawn, by the random numbers of
    `seed`, which are the same for every bound."""

    def __init__(self, both: list[Scored], draws: int, seed: int):
        self.both, self.draws, self.seed = both, draws, seed
        groups, (first, second) = both[0].groups, both
        table = np.column_stack([groups.codes, first.target, first.predicted, second.predicted])
        kinds, at, place, counts = np.unique(table, axis=0, return_index=True, return_inverse=True, return_counts=True)
        self._counts, self._place = counts, place.ravel()
        self._first = np.flatnonzero(np.r_[True, np.any(kinds[1:, :-2] != kinds[:-1, :-2], axis=1)])
        self._cells = [
            replace(rows, target=kinds[:, -3], predicted=kinds[:, k], scores=None, weight=None, groups=groups.take(at))
            for rows, k in zip(both, (-2, -1), strict=True)
        ]

    def measured(self, bound: Bound) -> np.ndarray:
        """Of the rows themselves the contrasts (2, m) of both models, as of `contrasts`."""
        if bound.judged_from == "counts" and self.both[0].weight is None:
            return contrasts(bound, self._cells, self._counts, "each")
        return contrasts(bound, self.both, self.both[0].mass[1], "weight")

    def contrasts(self, bound: Bound) -> list[np.ndarray]:
        """Of every draw the contrasts (2, m) of both models, as of `contrasts`."""
        counted, weighted = bound.judged_from == "counts", self.both[0].weight is not None
        if counted and not weighted:
            return self._of_cells(bound, self._rows_of_cells, "each")
        if counted and compares_groups(bound):
            return self._of_cells(bound, self._weight_of_cells, "weight")
        weight = self.both[0].mass[1]
        times = (np.bincount(rows, minlength=len(weight)) for rows in self._numbers())
        return [contrasts(bound, self.both, each * weight, "weight") for each in times]

    def _of_cells(self, bound: Bound, masses: np.ndarray, standing: Standing) -> list[np.ndarray]:
        """Of the draws in which cells have these masses (draws, C)."""
        whole = np.asarray((np.add.reduceat(masses, self._first, axis=1) > 0).all(1))
        whole &= compares_groups(bound)
        together: Iterator[np.ndarray] = iter(())
        if whole.any():
            each = [contrasts_of_draws(bound, rows, masses[whole], standing) for rows in self._cells]
            together = iter(np.stack(each, axis=1))
        found = [
            next(together) if one else contrasts(bound, self._cells, mass, standing)
            for one, mass in zip(whole, masses, strict=True)
        ]
        return [one if np.isfinite(one).all() else np.zeros((2, 0)) for one in found]

    @cached_property
    def _rows_of_cells(self) -> np.ndarray:
        """(draws, C) how many rows of every cell are drawn."""
        shares = self._counts / len(self._place)
        return np.random.default_rng(self.seed).multinomial(len(self._place), shares, size=self.draws)

    @cached_property
    def _weight_of_cells(self) -> np.ndarray:
        """(draws, C) how much the drawn rows of every cell weigh."""
        weight, cells = self.both[0].mass[1], len(self._counts)
        return np.array([np.bincount(self._place[rows], weight[rows], cells) for rows in self._numbers()])

    def _numbers(self) -> Iterator[np.ndarray]:
        """(n,) numbers of the rows of every draw."""
        rng, n = np.random.default_rng(self.seed), len(self._place)
        return (rng.integers(0, n, n) for _ in range(self.draws))


def contrasts(bound: Bound, both: Sequence[Scored], mass: np.ndarray, standing: Standing) -> np.ndarray:
    """(2, m) the contrasts of both models where each entry stands for so many rows, or weighs so much, mass (n,); the
    value itself of a bound that is no largest contrast of groups, and (2, 0) where one is not defined."""
    some = np.flatnonzero(mass)
    own: dict[str, Any] = {standing: mass[some]}
    try:
        found = np.array([bound.contrasts(replace(one.take(some), **own)) for one in both])
    except EmptyGroupError:
        return np.zeros((2, 0))
    return found if np.isfinite(found).all() else np.zeros((2, 0))
