"""Decisions counted by groups, label and decision as they come, and what the counts were at earlier moments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fairbound.base.errors import DataError
from fairbound.confidence.sequences import checkpoint_rows
from fairbound.fairness.scored import Scored
from fairbound.rows.groups import MANY_VALUES, MISSING, Groups, columns_of, has_names, label_text, natural_order
from fairbound.rows.reading import column_values, is_missing

Key = tuple[Any, ...]
"""The group of each attribute (None where it is not known), and the numbers of the label and of the decision."""


@dataclass
class Tally:
    """How often each combination has occurred.

    classes: the labels that 0, 1, ... mean. attributes: their names, set by the first rows. counts: rows by combination. before:
    the counts when each checkpoint was passed, None for one that is not known. threshold: where decisions are given as scores.
    """

    classes: tuple[str, ...]
    threshold: float | None = None
    attributes: tuple[str, ...] | None = None
    counts: dict[Key, int] = field(default_factory=dict)
    before: list[dict[Key, int] | None] = field(default_factory=list)
    rows: int = 0

    def add(self, y_true: Any, y_pred: Any, sensitive_features: Any = None) -> int:
        """Count some rows, or one; their number. Raises: DataError where one cannot be used, and then counts none of them."""
        y, decided = _column("y_true", y_true), _column("y_pred", y_pred)
        if self.threshold is not None:
            decided = _decisions(decided, self.threshold)
        given = {} if sensitive_features is None else columns_of(_as_columns(sensitive_features))
        names = tuple(given) if self.attributes is None else self.attributes
        if len(names) == len(given) == 1 and not has_names(sensitive_features):
            given = {names[0]: next(iter(given.values()))}
        if set(names) != set(given):
            raise DataError(
                f"these rows have the sensitive features {sorted(given)}, the rows before {sorted(names)}. Give the same ones, "
                "or begin another monitor."
            )
        columns = [column_values(name, given[name]) for name in names]
        lengths = {"y_true": len(y), "y_pred": len(decided)} | dict(zip(names, map(len, columns), strict=True))
        if len(set(lengths.values())) > 1:
            raise DataError(f"the columns differ in length: {lengths}.")
        found: dict[Key, int] = {}
        for key, count in Counter(zip(*columns, y, decided, strict=True)).items():
            known = self._key(key)
            found[known] = found.get(known, 0) + count
        self._check_values(names, found)
        for key, count in found.items():
            self.counts[key] = self.counts.get(key, 0) + count
        self.attributes = names
        self.rows += len(y)
        self.pass_checkpoints()
        return len(y)

    def pass_checkpoints(self) -> None:
        """Remember the counts for every checkpoint that has been reached."""
        while self.rows >= checkpoint_rows(len(self.before) + 1):
            self.before.append(dict(self.counts))

    def _key(self, raw: Key) -> Key:
        *groups, y, decision = raw
        return (
            *map(label_text, groups),
            self._place("y_true", y),
            decision if self.threshold is not None else self._place("y_pred", decision),
        )

    def _place(self, what: str, value: Any) -> int:
        if is_missing(value):
            raise DataError(f"{what} is missing in some rows; leave these rows out until it is known.")
        text = label_text(value)
        text = {"True": "1", "False": "0"}.get(str(text), text) if self.classes == ("0", "1") else text
        if text not in self.classes:
            raise DataError(
                f"{what} holds {value!r}; it must be {' or '.join(map(repr, self.classes))} (classes=...), or a score "
                "with threshold=...."
            )
        return self.classes.index(str(text))

    def _check_values(self, names: Sequence[str], found: dict[Key, int]) -> None:
        for a, name in enumerate(names):
            values = {key[a] for keys in (self.counts, found) for key in keys}
            if len(values) > MANY_VALUES:
                raise DataError(
                    f"the sensitive feature {name!r} has more than {MANY_VALUES} values; it looks like a number or an "
                    "identifier. Bin it first."
                )

    def scored(self) -> tuple[Scored, list[np.ndarray | None]]:
        """The combinations as rows, each of which stands for as many as it has, and how many it had at each checkpoint."""
        names = self.attributes or ()
        keys = list(self.counts)
        labels = tuple(tuple(sorted({key[a] for key in keys} - {None}, key=natural_order)) for a in range(len(names)))
        places: list[dict[Any, int]] = [{g: i for i, g in enumerate(known)} | {None: MISSING} for known in labels]
        codes = np.array([[places[a][key[a]] for a in range(len(names))] for key in keys], dtype=np.int64)
        groups = Groups(codes.reshape(len(keys), len(names)), names, labels)
        target, decision = (np.array([key[i] for key in keys], dtype=np.int64) for i in (-2, -1))
        each = np.array([self.counts[key] for key in keys], dtype=np.int64)
        before = [None if b is None else np.array([b.get(key, 0) for key in keys], dtype=np.int64) for b in self.before]
        return Scored(target, decision, self.classes, groups=groups, each=each), before

    def merge(self, other: Tally) -> Tally:
        """The counts of both; a checkpoint that only one of them has passed is not known of the two."""
        if self.rows and other.rows and self.attributes != other.attributes:
            raise DataError(f"counts of {self.attributes} and of {other.attributes} cannot be merged.")
        before = [
            None if a is None or b is None else _sum(a, b) for a, b in zip(self.before, other.before, strict=False)
        ]
        before += [None] * abs(len(self.before) - len(other.before))
        attributes = self.attributes if self.rows else other.attributes
        counts, rows = _sum(self.counts, other.counts), self.rows + other.rows
        made = Tally(self.classes, self.threshold, attributes, counts, before, rows)
        made.pass_checkpoints()
        return made

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        keys = list(self.counts)
        return {
            "attributes": None if self.attributes is None else list(self.attributes),
            "cells": [list(key) for key in keys],
            "counts": [self.counts[key] for key in keys],
            "checkpoints": [None if b is None else [b.get(key, 0) for key in keys] for b in self.before],
        }

    @classmethod
    def from_dict(cls, plain: dict[str, Any], classes: tuple[str, ...], threshold: float | None) -> Tally:
        """Of what `to_dict` gave."""
        keys = [tuple(cell) for cell in plain["cells"]]
        counts = dict(zip(keys, plain["counts"], strict=True))
        before = [None if b is None else dict(zip(keys, b, strict=True)) for b in plain["checkpoints"]]
        names = plain["attributes"]
        return cls(classes, threshold, None if names is None else tuple(names), counts, before, sum(counts.values()))


def _column(name: str, values: Any) -> list[Any]:
    return column_values(name, [values] if np.ndim(values) == 0 else values)


def _as_columns(features: Any) -> Any:
    """Sensitive features, where those of a single row may be a value, or a dict of values."""
    if isinstance(features, dict):
        return {name: [v] if np.ndim(v) == 0 else v for name, v in features.items()}
    return [features] if isinstance(features, str) or np.ndim(features) == 0 else features


def _decisions(scores: list[Any], threshold: float) -> list[int]:
    try:
        s = np.array(scores, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError("y_pred holds values that are no numbers; with threshold= they must be scores.") from None
    if not np.isfinite(s).all():
        raise DataError(f"the score is missing or infinite in {int((~np.isfinite(s)).sum())} of {len(s)} rows.")
    return (s > threshold).astype(int).tolist()


def _sum(a: dict[Key, int], b: dict[Key, int]) -> dict[Key, int]:
    return {key: a.get(key, 0) + b.get(key, 0) for key in dict.fromkeys([*a, *b])}
