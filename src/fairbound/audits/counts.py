"""Audits of rows that come in parts: what each part counts is added up, and audited as if all rows were at hand.

Rates need no more of a row than its groups, label and decision, so the numbers of bounds on rates, and of bounds on the
two classes, are those of the audit of all rows to the last bit. Bounds on losses need the rows, and the area under the
ROC curve their order: neither can be had from counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import expit

from fairbound.audits.assembling import assembled, facts_of_data
from fairbound.audits.decisions import SAID, check_decisions_alone
from fairbound.audits.groups import BINS, claim_no_probability, distribution, group_rows, histograms, one_decision
from fairbound.audits.impact import impact_tables
from fairbound.audits.power import check_power, words_of_power
from fairbound.base.checks import check_confidence
from fairbound.base.errors import DataError
from fairbound.fairness.bound import check_groups
from fairbound.fairness.notions import Bound, constraints
from fairbound.fairness.scored import Scored
from fairbound.rows.groups import MISSING, Groups, check_whole, natural_order
from fairbound.rows.labels import read_targets
from fairbound.rows.reading import plain_column
from fairbound.rows.scores import check_some, decided_scores, tell_probabilities
from fairbound.rows.strata import Strata


@dataclass(frozen=True, eq=False)
class AuditCounts:
    """An audit of rows that are read in parts: `AuditCounts.of(...)` of each part, `merge`, then `.audit(bounds)`.

    attributes: A names. labels: the group names of each, sorted.
    cells: (u, A + 2) groups, label and decision of the combinations that occur; MISSING (-1) for a group that is not
        known.
    counts: (u,) rows. losses: (u,) sums of their logistic losses.
    bins: for each attribute (groups, 40) rows by predicted probability. read_as: how scores were read, "" of no rows.
    outcomes: whether labels were given; else the decision stands in their place, and only shares selected are judged.
    named: whether the groups were given as a `Groups`, which is taken as it is.
    """

    attributes: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    cells: np.ndarray
    counts: np.ndarray
    losses: np.ndarray
    bins: tuple[np.ndarray, ...]
    read_as: str
    outcomes: bool = True
    named: bool = False

    @classmethod
    def of(cls, scores: Any, y: Any, sensitive_features: Any = None, *, threshold: float | None = None) -> AuditCounts:
        """The counts of some rows; scores, y in {0, 1}, sensitive_features and threshold as in `audit`. y: None where
        nobody knows the outcomes; bounds on the shares selected can be judged then.

        A part may have no rows, and no known group: what is asked of groups is asked of all rows, in `.audit`.
        Raises: DataError for other unusable input, as `audit`.
        """
        if len(plain_column(scores)):
            logits, decided, words = decided_scores(scores, threshold)
        else:
            logits, decided, words = np.zeros(0), np.zeros(0, dtype=np.int64), ""
        return cls.of_read(
            logits, decided, words, None if y is None else read_targets(y, len(logits)), sensitive_features
        )

    @classmethod
    def of_read(
        cls, logits: np.ndarray, decided: np.ndarray, read_as: str, y: np.ndarray | None, sensitive_features: Any
    ) -> AuditCounts:
        """The counts of some rows whose scores were read: (n,) logits, decisions 0 and 1, how they were read, as by
        `fairbound.rows.scores.decided_scores`, and (n,) labels 0 and 1, None where nobody knows them."""
        target = decided if y is None else y
        groups = Groups.of_rows(sensitive_features, len(logits), whole=False)
        cells = np.column_stack([groups.codes, target, decided])
        sizes, losses = np.zeros(0, dtype=np.int64), np.zeros(0)
        if len(cells):
            alike = Strata.of(cells)
            losses = np.add.reduceat(Scored(target, decided, scores=logits).loss[alike.order], alike.starts)
            cells, sizes = cells[alike.order[alike.starts]], alike.sizes
        p = expit(logits)
        bins = [histograms(p, code, len(known)) for _, known, code in groups.by_attribute]
        named = isinstance(sensitive_features, Groups)
        return cls(groups.attributes, groups.labels, cells, sizes, losses, tuple(bins), read_as, y is not None, named)

    def __len__(self) -> int:
        return int(self.counts.sum())

    def merge(self, other: AuditCounts) -> AuditCounts:
        """The counts of both parts; a group may occur in one of them only, and one of them may have no rows.

        Raises: DataError where their attributes differ, their scores were read in different ways, or one of them alone
            has labels.
        """
        if self.attributes != other.attributes:
            raise DataError(f"counts of {list(self.attributes)} and of {list(other.attributes)} cannot be merged.")
        if self.read_as != other.read_as and len(self) and len(other):
            raise DataError(
                f"the scores of the parts were read in two ways ({self.read_as} {other.read_as}) Pass the same threshold= to "
                "every part; 0 for logits."
            )
        if self.outcomes != other.outcomes:
            raise DataError(
                "counts of rows with labels and of rows without cannot be merged: give y of every part, or of none."
            )
        labels = tuple(
            tuple(sorted({*mine, *theirs}, key=natural_order))
            for mine, theirs in zip(self.labels, other.labels, strict=True)
        )
        parts = [part.under(labels) for part in (self, other)]
        cells, place = np.unique(np.concatenate([part.cells for part in parts]), axis=0, return_inverse=True)
        counts, losses = (
            np.bincount(place.ravel(), weights=np.concatenate([getattr(part, name) for part in parts]))
            for name in ("counts", "losses")
        )
        bins = tuple(a + b for a, b in zip(parts[0].bins, parts[1].bins, strict=True))
        return AuditCounts(
            self.attributes,
            labels,
            cells,
            counts.astype(np.int64),
            losses,
            bins,
            self.read_as or other.read_as,
            self.outcomes,
            self.named and other.named,
        )

    __add__ = merge

    def __radd__(self, other: Any) -> AuditCounts:
        """For `sum`, which begins with 0."""
        return self if other == 0 else NotImplemented

    def under(self, labels: tuple[tuple[str, ...], ...]) -> AuditCounts:
        """The same counts in codes of more group names."""
        cells, bins = self.cells.copy(), []
        for a, (mine, every) in enumerate(zip(self.labels, labels, strict=True)):
            places = {name: j for j, name in enumerate(every)}
            place = np.array([*map(places.__getitem__, mine), MISSING], dtype=np.int64)
            cells[:, a] = place[cells[:, a]]
            wide = np.zeros((len(every), BINS), dtype=np.int64)
            wide[place[:-1]] = self.bins[a]
            bins.append(wide)
        return replace(self, labels=labels, cells=cells, bins=tuple(bins))

    @property
    def occurring(self) -> dict[str, list[str]]:
        """By attribute, the groups that have a row."""
        codes = [np.unique(self.cells[:, a]) for a in range(len(self.attributes))]
        known = [[names[j] for j in code[code >= 0]] for names, code in zip(self.labels, codes, strict=True)]
        return dict(zip(self.attributes, known, strict=True))

    def audit(
        self,
        constraint: str | Bound | Sequence[str | Bound] | None = None,
        *,
        classes: Sequence[Any] = ("0", "1"),
        confidence: float = 0.95,
        power: float = 0.5,
        title: str | None = None,
        data: Mapping[str, Any] | None = None,
        model: Mapping[str, Any] | None = None,
        warnings: Sequence[str] = (),
        notes: Sequence[str] = (),
    ) -> dict[str, Any]:
        """The audit of all rows counted, as `fairbound.audit` returns it: every rate, interval and verdict is the same;
        mean losses are to rounding, "auc" and the scoring rates of "impact" are None and nothing is compared. classes: the labels that 0 and 1 mean.
        power: as of `fairbound.audit`.

        Raises: DataError for no rows, for groups that `audit` refuses, and for a bound that needs the rows themselves;
            OptionError for options out of range, and for a bound that needs outcomes where the rows have none.
        """
        check_some(len(self))
        if not self.named:
            check_whole(self.occurring, len(self))
        check_confidence(confidence)
        bounds = constraints(constraint)
        check_power(power, bounds)
        if not self.outcomes:
            check_decisions_alone(bounds)
            data, notes = {"label": "decision", **(data or {})}, [*notes, SAID]
        for bound in bounds:
            if bound.judged_from != "counts":
                raise DataError(
                    f"{bound.text!r} cannot be judged from counts: pass the rows themselves to fairbound.audit."
                )
        check_groups(bounds, self.attributes or None)
        groups = Groups(self.cells[:, :-2], self.attributes, self.labels)
        target, decision = self.cells[:, -2], self.cells[:, -1]
        rows = Scored(
            target,
            decision,
            tuple(map(str, classes)),
            groups=groups,
            confidence=confidence,
            power=power,
            losses=self.losses / self.counts,
            each=self.counts,
        )
        alpha = (1 - confidence) / max(len(bounds), 1)
        facts: dict[str, Any] = {
            "data": facts_of_data(groups, data or {}, self.counts),
            "metrics": self._metrics(target, decision),
            "groups": group_rows(rows, bounds, self.outcomes),
            "constraints": [bound.judge(rows, alpha) for bound in bounds],
            "comparison": [],
            "distributions": list(map(distribution, self.attributes, self.labels, self.bins)),
            "impact": impact_tables(rows),
            "warnings": one_decision(decision),
        }
        if not tell_probabilities(self.read_as):
            claim_no_probability(facts)
        notes = [*notes, *words_of_power(power)]
        return assembled(facts, title, bounds, model=model, warnings=warnings, notes=notes)

    def _metrics(self, target: np.ndarray, decision: np.ndarray) -> dict[str, float | None]:
        share = lambda hit: float(self.counts[hit].sum() / len(self))  # noqa: E731
        if not self.outcomes:
            return {"selection_rate": share(decision == 1)}
        return {
            "accuracy": share(target == decision),
            "auc": None,
            "log_loss": float(self.losses.sum() / len(self)),
            "selection_rate": share(decision == 1),
            "base_rate": share(target == 1),
        }
