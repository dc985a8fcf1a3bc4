"""Where each column of an encoder has its features, and what is made once of all its columns of numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fairbound.tables.columns import Column
from fairbound.tables.features import CategoryFeature, Feature, converted, placed
from fairbound.tables.numbers import NumberFeature
from fairbound.tables.pairs import Pair, PairColumns
from fairbound.tables.ranges import Ranges
from fairbound.tables.sums import Block, NumberSums

OfNumber = tuple[NumberFeature, int, Column]
OfCategory = tuple[CategoryFeature, int, Column]
"""What was learnt of a column, the first place of its features, and the column of a table."""


class Layout:
    """The features of the columns that were learnt, one column after another, and then those of pairs of columns.

    starts: the first place of each column's features; width: how many features there are.
    numbers, ranges: the weighted sums and the ranges of training of the columns of numbers. pairs: the features of pairs.
    at: the place of each column in the training table where all are plain numbers, else None.
    """

    def __init__(self, learnt: tuple[Feature, ...], pairs: tuple[Pair, ...], inputs: Sequence[str]) -> None:
        self.learnt, spans = learnt, [own for _, own in placed(learnt)]
        self.starts, end = [own.start for own in spans], spans[-1].stop if spans else 0
        self.width, self.pairs = end + len(pairs), PairColumns(pairs, learnt, end)
        numbers = [(s, at) for s, at in zip(learnt, self.starts, strict=True) if isinstance(s, NumberFeature)]
        self.numbers, self.ranges = NumberSums(numbers), Ranges([feature for feature, _ in numbers])
        place = {name: at for at, name in enumerate(inputs)}
        plain = len(numbers) == len(learnt) and all(feature.kind == "number" for feature, _ in numbers)
        self.at = np.array([place[feature.name] for feature, _ in numbers], dtype=np.intp) if plain else None

    def places(self, given: Mapping[str, Column]) -> tuple[list[OfNumber], list[OfCategory]]:
        """The columns of numbers and those of categories. given: the columns of a table by their names in training."""
        numbers: list[OfNumber] = []
        categories: list[OfCategory] = []
        for spec, at in zip(self.learnt, self.starts, strict=True):
            column = converted(given[spec.name], spec)
            if isinstance(spec, NumberFeature):
                numbers.append((spec, at, column))
            else:
                categories.append((spec, at, column))
        return numbers, categories

    def by_name(
        self, numbers: Sequence[OfNumber], categories: Sequence[OfCategory], block: Block | None = None
    ) -> dict[str, Any]:
        """The columns that pairs look at. block: of numbers, where the table has no other columns."""
        if not self.pairs.pairs:
            return {}
        if block is not None:
            return {spec.name: column for spec, column in zip(self.numbers.features, block.columns, strict=True)}
        return {spec.name: c for spec, _, c in numbers} | {spec.name: c for spec, _, c in categories}
