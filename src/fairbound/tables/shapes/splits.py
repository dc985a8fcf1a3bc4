"""The columns of a table as the search for pairs sees them: each splits the rows in two in some ways.

A number splits them beyond a value, a category from all others. Rows without a value lie beyond none and are a category.
Neighbouring numbers of two values, of which no row has two at their greater value, are taken for one column of
categories: they are its dummies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fairbound.tables.cells import MISSING
from fairbound.tables.features import CategoryFeature, Feature, placed
from fairbound.tables.numbers import NumberFeature
from fairbound.tables.pairs import Side
from fairbound.tables.shapes.jumping import Binned

BINS = 16
"""Bins of a number, for which `Binned.coarser` is asked."""


class Divided(NamedTuple):
    """A column. bins: (n,) of each row, 0 to b - 1; splits: (s, b) the bins on one side of each, 1 there and else 0;
    sides: of a row of a table, in the order of the splits; features: the places of its features; dummies: whether it is
    made of numbers of two values. number: of a number of more values its own bins, whose edges are the first splits."""

    bins: np.ndarray
    splits: np.ndarray
    sides: list[Side]
    features: slice
    dummies: bool = False
    number: Binned | None = None

    def of_rows(self, split: int) -> np.ndarray:
        """(n,) whether a row lies on the side of a split that counts."""
        return self.splits[split].astype(bool)[self.bins]  # type: ignore[no-any-return]

    def jump(self, split: int) -> np.ndarray | None:
        """(n,) the feature of a number that jumps there, None where the side of a split is a feature already."""
        if self.number is None or split >= len(self.number.edges):
            return None
        return self.number.bins > split  # type: ignore[no-any-return]


def divided(learnt: Sequence[Feature], features: np.ndarray, numbers: Mapping[str, Binned]) -> list[Divided]:
    """The columns that can be split. learnt: of all columns; features: (m, d) of these; numbers: those that vary, by their
    names."""
    columns = list[Divided]()
    for spec, places in placed(learnt):
        own = features[:, places]
        if isinstance(spec, CategoryFeature):
            bins = np.where(own.any(axis=1), own.argmax(axis=1), len(spec.texts))
            columns.append(_categories(bins, [Side(spec.name, value=value) for value in spec.texts], places))
            continue
        missing = own[:, -1] > 0 if spec.indicator else None
        number = numbers[spec.name].coarser(BINS) if spec.name in numbers else Binned(np.empty(0), np.empty(0))
        if len(number.edges) == 1 and missing is None:
            side, high = _sides(spec, number)[0], number.bins == 1
            if columns and (together := _together(columns[-1], high, side, places.stop)) is not None:
                columns[-1] = together
            else:
                columns.append(_categories(np.where(high, 0, 1), [side], places, dummies=True))
        elif missing is not None or len(number.edges):
            columns.append(_number(spec, number, missing, places))
    return columns


def _sides(spec: NumberFeature, number: Binned) -> list[Side]:
    """Beyond each edge, in the units of the table."""
    return [Side(spec.name, spec.in_units([edge])[0]) for edge in number.edges.tolist()] if spec.sd else []


def _number(spec: NumberFeature, number: Binned, missing: np.ndarray | None, places: slice) -> Divided:
    """A number, and the rows that lack it, whose bin comes last."""
    k, sides = len(number.edges), _sides(spec, number)
    splits = np.arange(k + 1) > np.arange(k)[:, None]
    more = number if k > 1 else None
    if missing is None:
        return Divided(number.bins, splits.astype(float), sides, places, number=more)
    splits = np.block([[splits, np.zeros((k, 1), bool)], [np.zeros((1, k + 1), bool), np.ones((1, 1), bool)]])
    bins = np.where(missing, k + 1, number.bins if k else 0)
    return Divided(bins, splits.astype(float), [*sides, Side(spec.name, value=MISSING)], places, number=more)


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
