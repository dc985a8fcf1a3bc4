"""Held-out rows with a model's predictions: all that the exact value of a bound and its verdict need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from fairbound.base.errors import DataError
from fairbound.ranking.documents import Documents
from fairbound.rows.groups import Groups, no_groups
from fairbound.rows.occurring import Occurring
from fairbound.rows.reading import column_array

BY_ROW = ("target", "predicted", "scores", "weight", "losses", "residuals", "each", "clusters")
"""The fields of `Scored` that hold a number for each row."""

Finding = dict[str, Any]
"""What is found of one bound, as plain data: an entry of the audit's "constraints" (docs/audit-schema.md)."""


@dataclass(frozen=True)
class Scored:
    """n rows, their labels and predictions.

    target, predicted: (n,) class numbers; classes: their labels as text. scores: (n,) logits of class 1 where there are
    two classes, else None. groups: of the rows. weight: (n,) >= 0, or None for equal ones. confidence: what is promised
    of all verdicts together, for the records. power: with what probability `rows_needed` rows are to decide. losses: (n,) of a user's own loss, None for the logistic loss of the
    scores.
    residuals: (n,) predicted minus true, where numbers are predicted: scores are those numbers then, and all target are
    0.
    each: (n,) how many equal rows each one stands for, where rows were counted; None for one. Then there is no weight.
    clusters: (n,) which rows belong together, as all those of one person, numbers from 0 on; None where rows are
    independent.
    documents: of a ranking, the queries and relevance of the rows, which are in its order; else None.
    """

    target: np.ndarray
    predicted: np.ndarray
    classes: tuple[str, ...] = ("0", "1")
    scores: np.ndarray | None = None
    groups: Groups = None  # type: ignore[assignment]  # given as None they are of no attribute
    weight: np.ndarray | None = None
    confidence: float = 0.95
    losses: np.ndarray | None = None
    residuals: np.ndarray | None = None
    each: np.ndarray | None = None
    clusters: np.ndarray | None = None
    documents: Documents | None = None
    power: float = 0.5

    def __post_init__(self) -> None:
        if self.groups is None:
            object.__setattr__(self, "groups", no_groups(len(self)))

    def __len__(self) -> int:
        return len(self.target)

    @classmethod
    def of_documents(cls, scores: Any, documents: Documents, confidence: float = 0.95, what: str = "scores") -> Scored:
        """Documents with the scores (n,) of their rows as given. Raises: DataError for scores that are missing or
        infinite."""
        s = column_array(what, scores, len(documents)).astype(np.float64)
        if not np.isfinite(s).all():
            raise DataError(
                f"{what}: {int((~np.isfinite(s)).sum())} of {len(s)} are missing or infinite; drop these rows."
            )
        none = np.zeros(len(s), dtype=np.int64)
        own = s[documents.queries.order]
        return cls(none, none, ("", ""), own, documents.groups, confidence=confidence, documents=documents)

    def take(self, rows: np.ndarray) -> Scored:
        """The rows numbered `rows` (k,). Not for the rows of a ranking."""
        own: dict[str, Any] = {name: getattr(self, name) for name in BY_ROW}
        own = {name: None if v is None else v[rows] for name, v in own.items()}
        return replace(self, groups=self.groups.take(rows), **own)

    @classmethod
    def joined(cls, parts: Sequence[Scored]) -> Scored:
        """The rows of all parts, which have the same classes and names of groups,
        and of rankings no query in common."""
        first, documents = parts[0], None
        own: dict[str, Any] = {
            name: None if getattr(first, name) is None else np.concatenate([getattr(part, name) for part in parts])
            for name in BY_ROW
        }
        if first.documents is not None:
            documents = Documents.joined([part.documents for part in parts if part.documents is not None])
        return replace(first, groups=Groups.joined([part.groups for part in parts]), documents=documents, **own)

    @cached_property
    def mass(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(n,) rows that each entry stands for, their weight, and the sum of the squares of their weights."""
        rows = np.ones(len(self)) if self.each is None else self.each.astype(np.float64)
        return (rows, rows, rows) if self.weight is None else (rows, self.weight, self.weight**2)

    @property
    def total(self) -> int:
        """Number of rows."""
        return len(self) if self.each is None else int(self.each.sum())

    @cached_property
    def occurring(self) -> Occurring:
        """The groups and labels that occur among the rows of positive weight."""
        if self.weight is None:
            return Occurring.of(self.groups, self.target, self.each)
        some = np.flatnonzero(np.asarray(self.weight) > 0)
        return Occurring.of(self.groups.take(some), self.target[some])

    @property
    def wrong(self) -> np.ndarray:
        """(n,) rows that are given another label than their own."""
        return self.target != self.predicted

    @cached_property
    def loss(self) -> np.ndarray:
        """(n,) loss of each row; the logistic loss of the scores where no other was given."""
        if self.losses is not None:
            return self.losses
        assert self.scores is not None
        return np.logaddexp(0.0, np.where(self.target == 1, -self.scores, self.scores))
