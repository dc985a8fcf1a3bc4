"""Rows that models are trained on and judged by: with labels, with numbers, or documents of queries.

Certificates and frontiers treat all kinds of rows alike. What differs by kind is here: which model is the better one,
how rows are divided, and what a model predicts for them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from fairbound.base.errors import CertificateError, DataError
from fairbound.estimators.sharded import check_weighted, same_groups, shards_of, with_labels_of_all
from fairbound.estimators.training_rows import checked_labels, class_codes, compares_groups
from fairbound.fairness.bound import Bound, groups_wanted
from fairbound.fairness.compiled.builder import compile_plan
from fairbound.fairness.notions import constraints
from fairbound.fairness.predictions import finite_numbers, read_numbers
from fairbound.fairness.scored import Scored
from fairbound.ranking import by_query
from fairbound.ranking.documents import Documents, read_relevance
from fairbound.ranking.wins import auc
from fairbound.rows.groups import Groups, check_lengths, label_text, no_groups
from fairbound.rows.queries import query_codes, split_by_query
from fairbound.rows.reading import warn_of_order
from fairbound.rows.shards import all_or_none
from fairbound.rows.split import stratified_split
from fairbound.rows.weighted import scaled_weights, weights_of_fit
from fairbound.tables.naming import named_features
from fairbound.tables.taking import rows_that_count, taken


class JudgedRows:
    """n rows with their table X, the truth, groups (of no attribute where none were given), and weights or None.

    measure: the number by which models are compared, named as in the certificate. gains: whether more of it is better.
    BY_ROW: the arrays that have an entry for each row.
    """

    X: Any
    groups: Groups
    measure: ClassVar[str]
    gains: ClassVar[bool]
    BY_ROW: ClassVar[tuple[str, ...]]

    def __len__(self) -> int:
        return len(getattr(self, self.BY_ROW[0]))

    def take(self, rows: np.ndarray) -> Self:
        """The rows numbered `rows` (k,), ascending. Raises: DataError where the table has another number of rows."""
        check_lengths(self.X, len(self), self.groups)
        own = {name: getattr(self, name) for name in self.BY_ROW}
        own = {name: None if values is None else values[rows] for name, values in own.items()}
        return replace(self, X=taken(self.X, rows), groups=self.groups.take(rows), **own)  # type: ignore[type-var]

    def smallest(self, bound: Bound) -> int:
        """The number of rows of the smallest group or class that the bound compares; of a ranking, of queries."""
        raise NotImplementedError

    def split(self, shares: Sequence[float], seed: int) -> list[np.ndarray]:
        """Numbers of the rows left over and of a random part for each share, with equal shares of every group."""
        raise NotImplementedError

    def check(self, train: Self) -> None:
        """Raises: DataError where the part `train` of these rows lacks something to train on."""

    def check_to_certify(self, stated: Sequence[Bound], alpha: float) -> None:
        """Raises: CertificateError where these rows, which are to certify,
        are known to be too few to confirm a bound of any model."""

    def settled(self, stated: tuple[Bound, ...]) -> tuple[Bound, ...]:
        """The bounds, with what they take from these rows filled in."""
        return stated

    def train(self, model: Any, table: Any, x0: Any) -> None:
        """Fit `model` on these rows, whose table is `table`, beginning at x0."""
        model._fit(table, self, x0)

    def scored(self, model: Any, confidence: float) -> Scored:
        """What the fitted `model` says of the rows."""
        raise NotImplementedError

    def cost(self, rows: Scored, objective: Any) -> float:
        """The cost of what a model says of its rows; lower is better."""
        raise NotImplementedError

    def measured(self, rows: Scored) -> float:
        """The measure."""
        raise NotImplementedError


class GroupedRows(JudgedRows):
    """Rows that are drawn independently of each other, so that the unit of evidence is the row."""

    weight: np.ndarray | None

    def split(self, shares: Sequence[float], seed: int) -> list[np.ndarray]:
        """Labels are not balanced between the parts: that would be a look at the labels of the rows to certify."""
        return stratified_split(self.groups.codes, shares, seed)


@dataclass(frozen=True, eq=False)
class LabelledRows(GroupedRows):
    """n rows: their table, labels (n,) as class numbers, groups or None, and weights (n,) or None.

    classes: the labels of the class numbers, of two the positive one last.
    """

    X: Any
    codes: np.ndarray
    classes: tuple[Any, ...]
    groups: Groups
    weight: np.ndarray | None

    measure: ClassVar[str] = "accuracy"
    gains: ClassVar[bool] = True
    BY_ROW: ClassVar[tuple[str, ...]] = ("codes", "weight")

    @classmethod
    def of(cls, classifier: Any, X: Any, y: Any, sensitive_features: Any, sample_weight: Any) -> LabelledRows:
        """The rows that `classifier`, a FairClassifier, is to be fitted on, those with a weight above 0.
        Raises: DataError as its `fit` does."""
        warn_of_order(X=X, y=y, sensitive_features=sensitive_features, sample_weight=sample_weight)
        stated, shards = constraints(classifier.constraint), shards_of(classifier)

        def read() -> tuple[Any, ...]:
            table, labels, named, weight = rows_that_count(X, y, sensitive_features, sample_weight)
            asking = compares_groups(stated, classifier.objective)
            groups = _groups(named, asking, whole=shards.alone)
            return table, checked_labels(table, labels), groups, weight

        table, labels, groups, weight = all_or_none(shards, read)
        groups = same_groups(groups, shards, isinstance(sensitive_features, Groups))
        labels, own = with_labels_of_all(labels, shards)
        check_weighted(weight, shards)
        two = [b.text for b in stated if "two classes" in b.needs]

        def numbered() -> tuple[Any, ...]:
            codes, classes = class_codes(labels, classifier.positive, classifier.loss, two)
            return codes[:own], classes, weights_of_fit(weight, len(codes[:own]))

        codes, classes, weight = all_or_none(shards, numbered)
        return cls(table, codes, classes, groups or no_groups(len(codes)), scaled_weights(weight, shards))

    def smallest(self, bound: Bound) -> int:
        return smallest_cell(bound, self.groups, self.codes, list(self.classes))

    def check(self, train: LabelledRows) -> None:
        sizes, seen = (np.bincount(part.codes, minlength=len(self.classes)) for part in (self, train))
        if not seen.all():
            rare = int(np.argmin(seen))
            raise DataError(
                f"the label {label_text(self.classes[rare])!r} has {sizes[rare]} of {len(self)} rows, and none of them is among the "
                f"{len(train)} to train on: too few for certify=True, which divides the rows into three parts. Add rows of it."
            )

    def check_to_certify(self, stated: Sequence[Bound], alpha: float) -> None:
        """Tries one decision for all rows: no decisions differ less by group, or vary less."""
        labels = tuple(str(label_text(v)) for v in self.classes)
        for bound in stated:
            if bound.judged_from != "counts" or "scores" in bound.needs or bound.about != "group":
                continue
            perfect, found = 1.0 if bound.sense == "at least" else 0.0, []
            for decision in range(len(labels)):
                same = np.full(len(self), decision)
                rows = Scored(self.codes, same, labels, groups=self.groups, weight=self.weight, confidence=1 - alpha)
                found.append(bound.judge(rows, alpha))
            found = [one for one in found if one["value"] == perfect]
            if found and all(one["verdict"] == "insufficient" for one in found):
                group, n = min(found[0]["groups"].items(), key=lambda item: item[1])
                few = f"Of {group!r}, {n:,} are among the {len(self):,} kept apart to certify, too few to confirm it even where "
                few = found[-1]["why"] or f"{few}everyone is given the same decision."
                raise CertificateError(
                    f"{bound.text!r} cannot be certified on these rows, whatever the model. {few} Merge small groups with others, leave "
                    "them out of the bound (fewest=30 in it, or their values marked missing), loosen the bound, or train without a certificate."
                )

    def scored(self, model: Any, confidence: float) -> Scored:
        labels = tuple(str(label_text(v)) for v in self.classes)
        if len(self.classes) > 2:
            guess = model.decision_function(self.X, self.groups).argmax(axis=1)
            return Scored(self.codes, guess, labels, groups=self.groups, weight=self.weight, confidence=confidence)
        scores = model.decision_function(self.X, self.groups)
        decided = (scores > 0).astype(np.int64)
        return Scored(self.codes, decided, labels, scores, self.groups, self.weight, confidence)

    def cost(self, rows: Scored, objective: Any) -> float:
        """The mean loss, one less the area under the ROC curve, or (objective "auto", "accuracy" and others) the share
        of wrong decisions."""
        weight = np.ones(len(rows)) if rows.weight is None else rows.weight
        if objective == "loss" and rows.scores is not None:
            return float(np.average(rows.loss, weights=weight))
        if objective == "auc" and rows.scores is not None:
            return 1 - float(auc(rows.scores, rows.target == 1, rows.target == 0, weight))
        return float(np.average(rows.wrong, weights=weight))

    def measured(self, rows: Scored) -> float:
        return 1 - self.cost(rows, "accuracy")


@dataclass(frozen=True, eq=False)
class NumberRows(GroupedRows):
    """n rows: their table, the numbers to predict (n,), groups or None, and weights (n,) or None."""

    X: Any
    y: np.ndarray
    groups: Groups
    weight: np.ndarray | None

    measure: ClassVar[str] = "root_mean_squared_error"
    gains: ClassVar[bool] = False
    BY_ROW: ClassVar[tuple[str, ...]] = ("y", "weight")

    @classmethod
    def of(cls, regressor: Any, X: Any, y: Any, sensitive_features: Any, sample_weight: Any) -> NumberRows:
        """The rows that `regressor`, a FairRegressor, is to be fitted on, those with a weight above 0.
        Raises: DataError as its `fit` does."""
        warn_of_order(X=X, y=y, sensitive_features=sensitive_features, sample_weight=sample_weight)
        X, y, sensitive_features, sample_weight = rows_that_count(X, y, sensitive_features, sample_weight)
        targets = finite_numbers("the labels y", checked_labels(X, y, "FairRegressor", "numbers"))
        groups = _groups(sensitive_features, [b.text for b in constraints(regressor.constraint)])
        n = len(targets)
        return cls(X, targets, groups or no_groups(n), scaled_weights(weights_of_fit(sample_weight, n)))

    def smallest(self, bound: Bound) -> int:
        return smallest_cell(self.settled((bound,))[0], self.groups, np.zeros(len(self), dtype=np.int64), [0])

    def settled(self, stated: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(bound.settled(self.y) for bound in stated)

    def scored(self, model: Any, confidence: float) -> Scored:
        made = read_numbers(model.predict(self.X), self.y)
        return replace(made, groups=self.groups, weight=self.weight, confidence=confidence)

    def cost(self, rows: Scored, objective: Any) -> float:
        """The mean squared error."""
        return float(np.average(rows.loss, weights=rows.weight))

    def measured(self, rows: Scored) -> float:
        return math.sqrt(self.cost(rows, None))


@dataclass(frozen=True, eq=False)
class DocumentRows(JudgedRows):
    """n documents: their table, relevance (n,), query (n,) as a number, and groups or None; the unit of evidence is the
    query.

    labels: (Q,) the queries as they are called.
    """

    X: Any
    relevance: np.ndarray
    query: np.ndarray
    labels: np.ndarray
    groups: Groups

    measure: ClassVar[str] = "ndcg"
    gains: ClassVar[bool] = True
    BY_ROW: ClassVar[tuple[str, ...]] = ("relevance", "query")
    weight: ClassVar[None] = None

    @classmethod
    def of(cls, ranker: Any, X: Any, y: Any, qid: Any, sensitive_features: Any) -> DocumentRows:
        """The documents that `ranker`, a FairRanker, is to be fitted on. Raises: DataError as its `fit` does."""
        if qid is None:
            raise DataError("a ranking needs queries: call fit(X, y, qid=...), the query of each row.")
        warn_of_order(X=X, y=y, qid=qid, sensitive_features=sensitive_features)
        relevance, (query, labels) = read_relevance(y), query_codes(qid)
        named = named_features(X, sensitive_features)
        groups = _groups(named, [b.text for b in constraints(ranker.constraint)], others="qid=..., ")
        if len(query) != len(relevance):
            raise DataError(f"y has {len(relevance)} rows, qid {len(query)}.")
        return cls(X, relevance, query, labels, groups or no_groups(len(query)))

    def smallest(self, bound: Bound) -> int:
        """The queries with a document of the group that is in the fewest of them."""
        codes = self.groups.codes.T
        pairs = [np.unique(np.column_stack([code, self.query])[code >= 0], axis=0)[:, 0] for code in codes]
        return min(int(np.bincount(column).min()) for column in pairs)

    def split(self, shares: Sequence[float], seed: int) -> list[np.ndarray]:
        """No query is in two parts."""
        return split_by_query(self.query, shares, seed)

    def scored(self, model: Any, confidence: float) -> Scored:
        documents = Documents.of(self.query, self.relevance, self.groups)
        none, order = np.zeros(len(self), dtype=np.int64), documents.queries.order
        scores = model.predict(self.X)[order]
        return Scored(none, none, ("", ""), scores, documents.groups, confidence=confidence, documents=documents)

    def cost(self, rows: Scored, objective: Any) -> float:
        """One less the mean NDCG."""
        return 1 - self.measured(rows)

    def measured(self, rows: Scored) -> float:
        assert rows.documents is not None and rows.scores is not None
        gained = by_query.ndcg(rows.scores, rows.documents.relevance, rows.documents.starts)
        return float(np.nanmean(gained))


def _groups(sensitive_features: Any, asking: Sequence[str], *, whole: bool = True, others: str = "") -> Groups | None:
    """The groups of the rows, None where none are given and nothing is `asking` for them, a bound or an objective as
    text.

    whole: as of `Groups.of`. others: further arguments of `fit`, for the message."""
    if sensitive_features is not None:
        return Groups.of(sensitive_features, whole=whole)
    if asking:
        raise groups_wanted(asking[0], others)
    return None


def smallest_cell(bound: Bound, groups: Groups, codes: np.ndarray, classes: list[Any]) -> int:
    """The number of rows of the smallest group or class that the bound compares; all where it compares none."""
    plan = compile_plan((bound,), groups, codes, classes)
    sizes = plan.counts(groups.codes, codes)
    return int(sizes[plan.used_cells(plan.rows_of(0))].min(initial=len(codes)))
