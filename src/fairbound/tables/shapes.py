"""Gives the numbers of a table the knots and the jumps for which its labels ask: `TableOptions(knots="auto")`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fairbound.base.errors import DataError, OptionError
from fairbound.tables.bending import looked_at, useful
from fairbound.tables.features import Feature
from fairbound.tables.jumping import CELLS, jumps_of
from fairbound.tables.numbers import NumberFeature
from fairbound.tables.options import TableOptions

Encode = Callable[[tuple[Feature, ...], np.ndarray], np.ndarray]
"""What was learnt of the columns, and numbers of rows (m,) -> features (m, d) of these rows."""


def labels_of_two(y: Any, rows: int) -> np.ndarray:
    """(n,) 0 or 1. Raises: OptionError without labels of two values, DataError where they are not one for each row."""
    given = None if y is None else np.asarray(y).ravel()
    if given is not None and len(given) != rows:
        raise DataError(f"X has {rows} rows, y {len(given)}.")
    values = None if given is None else np.unique(given)
    if values is None or len(values) != 2:
        raise OptionError(
            '"auto" chooses knots and jumps by the labels of two classes, one for each row; give a number of knots, as in '
            "knots=5, and jumps=0."
        )
    return (given != values[0]).astype(np.int8)


def shaped(
    learnt: tuple[Feature, ...], options: TableOptions, labels: np.ndarray, encode: Encode
) -> tuple[Feature, ...]:
    """What was learnt of the columns, each number with the knots and jumps that the labels (n,) ask for.

    learnt: with the knots that numbers may have, which are kept as they are unless options.knots is "auto".
    """
    chosen = options.knots == "auto"
    straight = tuple(replace(s, knots=()) if chosen and isinstance(s, NumberFeature) else s for s in learnt)
    rows = looked_at(len(labels), sum(len(spec.feature_names) for spec in straight))
    if rows is None or np.ptp(labels[rows]) == 0:
        return straight
    found = _bent(learnt, straight, labels[rows], encode(straight, rows)) if chosen else learnt
    more = looked_at(len(labels), sum(len(spec.feature_names) for spec in found), CELLS)
    if not options.jumps_by_labels or more is None:
        return found
    return _jumping(found, labels[more], encode(found, more))


def _numbers(learnt: Sequence[Feature]) -> list[tuple[NumberFeature, int]]:
    """The numbers that vary, each with the place of its feature."""
    starts = np.cumsum([0, *(len(spec.feature_names) for spec in learnt)]).tolist()
    placed = zip(learnt, starts, strict=False)
    return [(s, at) for s, at in placed if isinstance(s, NumberFeature) and s.sd is not None]


def _bent(
    learnt: tuple[Feature, ...], straight: tuple[Feature, ...], labels: np.ndarray, features: np.ndarray
) -> tuple[Feature, ...]:
    """`learnt`, with no knots where the labels (m,) do not ask for them. features: (m, d) of `straight`."""
    bent = {spec.name: spec for spec in learnt if isinstance(spec, NumberFeature) and spec.knots}
    asked = [(bent[spec.name], at) for spec, at in _numbers(straight) if spec.name in bent]
    if not asked:
        return straight
    kept = useful(features, labels, (spec.above(features[:, at]) for spec, at in asked))
    names = {spec.name for (spec, _), keep in zip(asked, kept, strict=True) if keep}
    return tuple(bent[spec.name] if spec.name in names else spec for spec in straight)


def _jumping(learnt: tuple[Feature, ...], labels: np.ndarray, features: np.ndarray) -> tuple[Feature, ...]:
    """`learnt`, with the jumps for which the labels (m,) ask. features: (m, d)."""
    numbers = _numbers(learnt)
    found = jumps_of(features, labels, [at for _, at in numbers])
    jumping = {
        spec.name: replace(spec, jumps=spec.in_units(jumps)) for (spec, _), jumps in zip(numbers, found, strict=True)
    }
    return tuple(jumping.get(spec.name, spec) for spec in learnt)
