"""Where each column of an encoder has its features, and what is made once of all its columns of numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairbound.tables.features import Feature
from fairbound.tables.numbers import NumberFeature
from fairbound.tables.ranges import Ranges
from fairbound.tables.sums import NumberSums


class Layout:
    """The features of the columns that were learnt, one column after another.

    starts: the first place of each column's features; width: how many features there are.
    numbers, ranges: the weighted sums and the ranges of training of the columns of numbers.
    at: the place of each column in the training table where all are plain numbers, else None.
    """

    def __init__(self, learnt: tuple[Feature, ...], inputs: Sequence[str]) -> None:
        ends = np.cumsum([0, *(len(spec.feature_names) for spec in learnt)]).tolist()
        self.learnt, self.starts, self.width = learnt, ends[:-1], ends[-1]
        numbers = [(s, at) for s, at in zip(learnt, self.starts, strict=True) if isinstance(s, NumberFeature)]
        self.numbers, self.ranges = NumberSums(numbers), Ranges([feature for feature, _ in numbers])
        place = {name: at for at, name in enumerate(inputs)}
        plain = len(numbers) == len(learnt) and all(feature.kind == "number" for feature, _ in numbers)
        self.at = np.array([place[feature.name] for feature, _ in numbers], dtype=np.intp) if plain else None
