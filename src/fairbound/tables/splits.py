"""The columns of a table as the search for pairs sees them: each splits the rows in two in some ways.

A number splits them beyond a value, a category from all others. Neighbouring numbers of two values, of which no row has
two at their greater value, are taken for one column of categories: they are its dummies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fairbound.tables.features import CategoryFeature, Feature
from fairbound.tables.jumping import Binned
from fairbound.tables.pairs import Side

BINS = 16
"""Bins of a number, at most."""


class Divided(NamedTuple):
    """A column. bins: (n,) of each row, 0 to b - 1; splits: (s, b) the bins on one side of each, 1 there and else 0;
    sides: of a row of a table, in the order of the splits; features: the places of its features; dummies: whether it is
    made of numbers of two values."""

    bins: np.ndarray
    splits: np.ndarray
    sides: list[Side]
    features: slice
    dummies: bool = False

    def of_rows(self, split: int) -> np.ndarray:
        """(n,) whether a row lies on the side of a split that counts."""
        return self.splits[split].astype(bool)[self.bins]  # type: ignore[no-any-return]


def divided(learnt: Sequence[Feature], features: np.ndarray, numbers: Mapping[str, Binned]) -> list[Divided]:
    """The columns that can be split. learnt: of all columns; features: (m, d) of these; numbers: those that vary, by their
    names."""
    columns, end = list[Divided](), 0
    for spec in learnt:
        start, end = end, end + len(spec.feature_names)
        places = slice(start, end)
        if isinstance(spec, CategoryFeature):
            own = features[:, places]
            bins = np.where(own.any(axis=1), own.argmax(axis=1), len(spec.texts))
            columns.append(_categories(bins, [Side(spec.name, value=value) for value in spec.texts], places))
        elif spec.name in numbers and spec.sd is not None:
            edges, bins = numbers[spec.name].coarser(BINS)
            sides = [Side(spec.name, spec.mean + spec.sd * edge) for edge in edges.tolist()]
            if len(edges) > 1:
                beyond = np.arange(len(edges) + 1) > np.arange(len(edges))[:, None]
                columns.append(Divided(bins, beyond.astype(float), sides, places))
            elif columns and len(edges) and (together := _together(columns[-1], bins == 1, sides[0], end)) is not None:
                columns[-1] = together
            elif len(edges):
                columns.append(_categories(1 - bins, sides, places, dummies=True))
    return columns


def _categories(bins: np.ndarray, sides: list[Side], places: slice, dummies: bool = False) -> Divided:
    """A column each side of which is a bin; the rows that lie on none share the bin behind them. Of two sides on one of
    which every row lies the second tells what the first does."""
    k = len(sides)
    twice = k == 2 and not (bins == k).any()
    return Divided(bins, np.eye(k, k + 1)[: k - twice], sides, places, dummies)


def _together(dummies: Divided, high: np.ndarray, side: Side, end: int) -> Divided | None:
    """The column of some dummies and of the number beside them, whose rows `high` (n,) lie on a side; None where one of
    these lies on a side of the others, or these are no dummies. end: behind the feature of the number."""
    k = len(dummies.sides)
    taken = dummies.bins < k
    if not dummies.dummies or (taken & high).any():
        return None
    bins = np.where(high, k, np.where(taken, dummies.bins, k + 1))
    return _categories(bins, [*dummies.sides, side], slice(dummies.features.start, end), dummies=True)
