"""Metrics of groups over batches: counts are added up, so that parts, processes and days can be merged in any order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

import numpy as np

from fairbound.audits.counts import AuditCounts
from fairbound.base.errors import DataError
from fairbound.fairness.notions import Bound, constraint
from fairbound.fairness.scored import Scored
from fairbound.metrics.table import MetricTable, named_metrics, of_counts
from fairbound.rows.groups import Groups, check_whole

USUAL = ("selection_rate", "true_positive_rate", "false_positive_rate", "accuracy")


class Stream:
    """Rates of groups as batches come, in torchmetrics' shape: `update`, `compute`, `merge`, `reset`.

    metrics: names of rates. groups: attribute -> the groups that there are, or a `Groups`; they are listed whether rows
    of them came or not, in this order, and rows of other groups are counted as `unseen` and are in no group. Without it
    the groups are those that came. threshold: where a positive decision begins, 0.5 for probabilities and 0 for logits.
    Memory does not grow with the rows. Its numbers are those of `table` on all rows, to the last bit.
    """

    def __init__(
        self,
        metrics: str | Sequence[str] = USUAL,
        *,
        groups: Mapping[str, Sequence[Any]] | Groups | None = None,
        threshold: float = 0.5,
        confidence: float = 0.95,
    ):
        self.metrics, self.threshold, self.confidence = tuple(named_metrics(metrics)), threshold, confidence
        if isinstance(groups, Groups):
            self.groups: Groups | None = groups.take([])
        elif groups is not None:
            labels = tuple(tuple(str(g) for g in known) for known in groups.values())
            self.groups = Groups(np.zeros((0, len(groups)), dtype=np.int64), tuple(map(str, groups)), labels)
        else:
            self.groups = None
        self.reset()

    def reset(self) -> None:
        """Forget all rows."""
        self.counts: AuditCounts | None = None
        self.unseen: Counter[str] = Counter()

    def update(self, scores: Any, y: Any, sensitive_features: Any) -> None:
        """Count the rows of one batch: scores (b,), y (b,) in {0, 1}, and their groups; b may be 0.

        Raises: DataError for rows that cannot be used; nothing of the batch is counted then.
        """
        if y is None:
            raise DataError("a stream of metrics needs the labels y; of decisions alone count AuditCounts.")
        unseen: dict[str, int] = {}
        if self.groups is not None:
            sensitive_features, unseen = self.groups.encode(sensitive_features)
        counts = AuditCounts.of(scores, y, sensitive_features, threshold=self.threshold)
        self.counts = counts if self.counts is None else self.counts.merge(counts)
        self.unseen.update(unseen)

    def merge(self, other: Self) -> Self:
        """This stream with the rows of another counted too. Raises: DataError where they count different things."""
        mine, theirs = self._declared(), other._declared()
        if (self.metrics, self.threshold, mine) != (other.metrics, other.threshold, theirs):
            raise DataError("streams can be merged only where metrics, threshold and declared groups are the same.")
        if other.counts is not None:
            self.counts = other.counts if self.counts is None else self.counts.merge(other.counts)
        self.unseen.update(other.unseen)
        return self

    def _declared(self) -> Any:
        return None if self.groups is None else (self.groups.attributes, self.groups.labels)

    def __len__(self) -> int:
        return 0 if self.counts is None else len(self.counts)

    def compute(self, attributes: Literal["each", "crossed", "both"] = "each") -> MetricTable:
        """The table of all rows so far. Raises: DataError before the first, and for groups that `table` refuses."""
        rows = self._rows()
        found = of_counts(self.metrics, rows, attributes, self.confidence)
        said = [f"{a}: {n:,} of these rows have a group that was not declared." for a, n in self.unseen.items() if n]
        return MetricTable(**{**vars(found), "missing": (*found.missing, *said)})

    def measure(self, stated: str | Bound) -> float:
        """The exact value of a bound on rates, as `fairbound.measure` gives it of all rows so far."""
        bound = constraint(stated, bound=1.0)
        if bound.judged_from != "counts":
            raise DataError(f"{bound.statement!r} needs the rows themselves; pass them to fairbound.measure.")
        return bound.measure(self._rows())

    def audit(self, stated: str | Bound | Sequence[str | Bound] | None = None, **facts: Any) -> dict[str, Any]:
        """The audit of all rows so far; facts: as in `AuditCounts.audit`."""
        return self._counted().audit(stated, **{"confidence": self.confidence, **facts})

    def _counted(self) -> AuditCounts:
        if self.counts is None or not len(self.counts):
            raise DataError("no row has come yet; call update(scores, y, sensitive_features) first.")
        if self.groups is not None:
            return self.counts.under(self.groups.labels)
        if not self.counts.named:
            check_whole(self.counts.occurring, len(self.counts))
        return self.counts

    def _rows(self) -> Scored:
        counts = self._counted()
        groups = Groups(counts.cells[:, :-2], counts.attributes, counts.labels)
        return Scored(counts.cells[:, -2], counts.cells[:, -1], groups=groups, each=counts.counts)
