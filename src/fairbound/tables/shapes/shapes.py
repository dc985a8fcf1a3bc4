"""Gives the numbers of a table the knots and the jumps for which its labels ask, and finds which of its columns should
act together: `TableOptions(knots="auto")`.

Labels of more than two classes are asked once for each class against the rest; for pairs only where these are stated,
since what adds up in a model of all classes need not add up so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairbound.base.errors import DataError, OptionError
from fairbound.tables.features import Feature, placed
from fairbound.tables.numbers import NumberFeature
from fairbound.tables.options import TableOptions
from fairbound.tables.pairs import Pair
from fairbound.tables.shapes.bending import looked_at, useful
from fairbound.tables.shapes.growing import Growing
from fairbound.tables.shapes.jumping import CELLS, Binned, jumps_of
from fairbound.tables.shapes.jumping import MOST as MOST_JUMPS
from fairbound.tables.shapes.pairing import MOST as MOST_PAIRS
from fairbound.tables.shapes.pairing import pairs_of
from fairbound.tables.shapes.regressions import NUMBERS, TWO_CLASSES
from fairbound.tables.shapes.splits import Divided, divided

MOST_CLASSES = 10
"""Classes whose labels are asked, at most."""

NEEDS_LABELS = (
    '"auto" chooses knots, jumps and pairs by the labels of all rows: numbers, as floats, or 2 to '
    f"{MOST_CLASSES} classes. Give them, or a number of knots, as in knots=5, and jumps=0 and pairs=0."
)

Encode = Callable[[tuple[Feature, ...], np.ndarray], np.ndarray]
"""What was learnt of the columns, and numbers of rows (m,) -> features (m, d) of these rows."""


def may_be_asked(labels: np.ndarray) -> bool:
    """Whether labels (n,), class numbers or floats, are numbers or classes of which the tests can ask."""
    count = len(np.unique(labels))
    return count >= 2 and (labels.dtype.kind == "f" or count <= MOST_CLASSES)


@dataclass(frozen=True)
class Asked:
    """What the tests look at. labels: (n,) each, of one regression each; loss: of TWO_CLASSES or of NUMBERS."""

    labels: tuple[np.ndarray, ...]
    loss: Any

    @classmethod
    def of(cls, y: Any, rows: int) -> Asked:
        """Of the labels y (n,): numbers, centred and scaled, where they are floats of more than two values, else
        classes.

        Raises: OptionError without labels, with numbers that are not finite, or with too many classes; DataError where
        they are not one for each row.
        """
        if y is None:
            raise OptionError(NEEDS_LABELS)
        given = np.asarray(y).ravel()
        if len(given) != rows:
            raise DataError(f"X has {rows} rows, y {len(given)}.")
        if given.dtype.kind == "f" and not np.isfinite(given).all():
            raise DataError("labels must be finite. Leave out the rows that have none.")
        values = np.unique(given)
        if given.dtype.kind == "f" and len(values) > 2:
            numbers = given.astype(float) / np.abs(given).max()  # whose squares do not overflow
            return cls(((numbers - numbers.mean()) / numbers.std(),), NUMBERS)
        if not 2 <= len(values) <= MOST_CLASSES:
            raise OptionError(f"{NEEDS_LABELS} These are of {len(values)}.")
        return cls(
            tuple((given == value).astype(np.int8) for value in values[1 if len(values) == 2 else 0 :]), TWO_CLASSES
        )

    def take(self, rows: np.ndarray) -> Asked:
        """Of some rows; labels that are the same in all of these tell nothing and are left out."""
        some = (labels[rows] for labels in self.labels)
        return replace(self, labels=tuple(labels for labels in some if np.ptp(labels) > 0))


def shaped(
    learnt: tuple[Feature, ...], options: TableOptions, asked: Asked, encode: Encode
) -> tuple[tuple[Feature, ...], tuple[Pair, ...]]:
    """What was learnt of the columns, each number with the knots and jumps that the labels ask for, and the pairs of
    columns for which they ask.

    learnt: with the knots that numbers may have, which are kept as they are unless options.knots is "auto".
    """
    chosen, n = options.knots == "auto", len(asked.labels[0])
    straight = tuple(replace(s, knots=()) if chosen and isinstance(s, NumberFeature) else s for s in learnt)
    rows = looked_at(n, sum(len(spec.feature_names) for spec in straight))
    if rows is None or not (some := asked.take(rows)).labels:
        return straight, ()
    found, starts = _bent(learnt, straight, some, encode(straight, rows)) if chosen else (learnt, [])
    more = looked_at(n, sum(len(spec.feature_names) for spec in found), CELLS)
    if more is None or not options.jumps_by_labels or not (asked := asked.take(more)).labels:
        return found, ()
    if len(starts) != len(asked.labels):  # a class has no row in one of the parts
        starts = []
    return _grown(found, options, asked, encode(found, more), starts)


def _numbers(learnt: Sequence[Feature]) -> list[tuple[NumberFeature, int]]:
    """The numbers that vary, each with the place of its feature."""
    return [(s, own.start) for s, own in placed(learnt) if isinstance(s, NumberFeature) and s.sd is not None]


def _bent(
    learnt: tuple[Feature, ...], straight: tuple[Feature, ...], asked: Asked, features: np.ndarray
) -> tuple[tuple[Feature, ...], list[np.ndarray]]:
    """`learnt`, with no knots where the labels (m,) do not ask for them; and for each labels an intercept and weights of
    its features nearby. features: (m, d) of `straight`."""
    bent = {spec.name: spec for spec in learnt if isinstance(spec, NumberFeature) and spec.knots}
    may = [(bent[spec.name], at) for spec, at in _numbers(straight) if spec.name in bent]
    if not may:
        return straight, []
    names, weights = set[str](), list[np.ndarray]()
    for labels in asked.labels:
        above = (spec.above(features[:, at]) for spec, at in may)
        kept, x = useful(features, labels, above, asked.loss, 1 / len(asked.labels))
        names |= {spec.name for (spec, _), keep in zip(may, kept, strict=True) if keep}
        weights.append(x)
    found = tuple(bent[spec.name] if spec.name in names else spec for spec in straight)
    knots = np.concatenate([_is_knot(spec) for spec in found])
    starts = [np.zeros(1 + len(knots)) for _ in weights]
    for start, x in zip(starts, weights, strict=True):
        start[0], start[1:][~knots] = x[-1], x[:-1]
    return found, starts


def _is_knot(spec: Feature) -> np.ndarray:
    """(k,) which of the features of a column are those of knots."""
    out = np.zeros(len(spec.feature_names), dtype=bool)
    if isinstance(spec, NumberFeature):
        out[1 : 1 + len(spec.knots)] = True
    return out


def _grown(
    learnt: tuple[Feature, ...],
    options: TableOptions,
    asked: Asked,
    features: np.ndarray,
    starts: Sequence[np.ndarray],
) -> tuple[tuple[Feature, ...], tuple[Pair, ...]]:
    """`learnt`, with the jumps for which the labels (m,) ask, and the pairs. features: (m, d). starts: for each labels as
    of `Growing`, or none."""
    numbers = {spec.name: (spec, Binned.of(features[:, at])) for spec, at in _numbers(learnt)}
    place = {name: n for n, name in enumerate(numbers)}
    binned, share = [own for _, own in numbers.values()], 1 / len(asked.labels)
    found: list[set[float]] = [set() for _ in numbers]
    columns, pairs = list[Divided](), dict[Pair, None]()
    if options.pairs == "auto" or (options.pairs_by_labels and len(asked.labels) == 1):
        columns = divided(learnt, features, dict(zip(numbers, binned, strict=True)))
    edges = {c: (place[column.sides[0].name], column.number.edges) for c, column in enumerate(columns) if column.number}
    for number, labels in enumerate(asked.labels):
        start = starts[number] if starts else None
        regression = Growing(features, labels, MOST_JUMPS + 3 * MOST_PAIRS, asked.loss, start)
        jumps = jumps_of(regression, binned, share)
        known = {(c, s) for c, (n, ends) in edges.items() for s, edge in enumerate(ends) if edge in jumps[n]}
        together = pairs_of(regression, columns, known, share)
        for c, s in together.jumps:
            n, ends = edges[c]
            jumps[n].append(float(ends[s]))
        for c, s, d, t in together.pairs:
            pairs[Pair(columns[c].sides[s], columns[d].sides[t])] = None
        found = [all_of | set(new) for all_of, new in zip(found, jumps, strict=True)]
    jumping = {
        name: replace(spec, jumps=spec.in_units(tuple(jumps)))
        for (name, (spec, _)), jumps in zip(numbers.items(), found, strict=True)
    }
    return tuple(jumping.get(spec.name, spec) for spec in learnt), tuple(pairs)
