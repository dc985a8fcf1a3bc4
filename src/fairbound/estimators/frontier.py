"""Classifiers of the same rows under one bound after another, each begun where the one before ended, and what they reach."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from torch import nn

from fairbound.base.errors import DataError, DataWarning
from fairbound.estimators.training_rows import checked_labels, class_codes, without
from fairbound.fairness.bound import Bound
from fairbound.fairness.notions import constraints
from fairbound.fairness.scored import Scored
from fairbound.methods import FullBatchALM
from fairbound.ranking.wins import auc
from fairbound.rows.groups import Groups, label_text
from fairbound.rows.reading import frame_of, plain_array, read_weights, take_rows
from fairbound.tables import Chunks, Encoded


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """n rows: their table, labels (n,) as given and as class numbers, groups or None, and weights (n,) or None.

    classes: the labels of the class numbers, of two the positive one last.
    """

    X: Any
    y: np.ndarray
    codes: np.ndarray
    classes: tuple[Any, ...]
    groups: Groups | None
    weight: np.ndarray | None

    @classmethod
    def of(cls, classifier: Any, X: Any, y: Any, sensitive_features: Any, sample_weight: Any) -> LabelledRows:
        """The rows that `classifier`, a FairClassifier, is to be fitted on. Raises: DataError as its `fit` does."""
        compared = [b.text for b in constraints(classifier.constraint) if b.about == "group"]
        if compared and sensitive_features is None:
            raise DataError(f"{compared[0]!r} needs fit(X, y, sensitive_features=...).")
        labels = checked_labels(X, y)
        codes, classes = class_codes(labels, classifier.positive, classifier.loss, compared)
        groups = None if sensitive_features is None else Groups.of(sensitive_features)
        weight = None if sample_weight is None else read_weights(sample_weight, len(codes))
        n = len(X) if not hasattr(X, "shape") else X.shape[0]
        if n != len(codes) or (groups is not None and len(groups) != n):
            raise DataError(
                f"X has {n} rows, y {len(codes)}" + (f", sensitive_features {len(groups)}." if groups else ".")
            )
        return cls(X, plain_array(labels).reshape(-1), codes, classes, groups, weight)

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, rows: np.ndarray) -> LabelledRows:
        """The rows numbered `rows` (k,), ascending."""
        groups = None if self.groups is None else self.groups.take(rows)
        weight = None if self.weight is None else self.weight[rows]
        return LabelledRows(taken(self.X, rows), self.y[rows], self.codes[rows], self.classes, groups, weight)

    def scored(self, model: Any, confidence: float) -> Scored:
        """What the fitted `model` says of the rows."""
        labels = tuple(str(label_text(v)) for v in self.classes)
        if len(self.classes) > 2:
            guess = model.decision_function(self.X).argmax(axis=1)
            return Scored(self.codes, guess, labels, groups=self.groups, weight=self.weight, confidence=confidence)
        scores = model.decision_function(self.X, None if model.rule_ is None else self.groups)
        decided = (scores > 0).astype(np.int64)
        return Scored(self.codes, decided, labels, scores, self.groups, self.weight, confidence)


def taken(table: Any, rows: np.ndarray) -> Any:
    """The rows numbered `rows` of anything that FairClassifier takes as X."""
    if isinstance(table, Chunks):
        return table.take(rows)
    if isinstance(table, Encoded):
        return Encoded(table.features[rows], table.report, table.encoder)
    if frame_of(table) is None and not hasattr(table, "shape"):
        return [table[i] for i in rows.tolist()]
    return take_rows(table, rows)


def frontier(
    classifier: Any, rows: LabelledRows, stages: Sequence[Sequence[Bound]], before: Any = None
) -> Iterator[Any]:
    """A copy of `classifier` fitted on `rows` under each of the `stages`, bounds from loose to tight, each begun where the one
    before it ended.

    before: a classifier of the same rows to begin at, or None. Every copy reads the table as the first one did, and warns of
    nothing: its report says whether it met its bounds.
    """
    table = rows.X if before is None else _as_read(before, rows.X)
    for bounds in stages:
        made = clone(classifier).set_params(certify=False, constraint=list(bounds) or None)
        if not bounds:
            made.set_params(use_groups_at_prediction=False)
        at_once = before is not None and before.fit_report_["algorithm"] == FullBatchALM.name
        if at_once and before.constraint and classifier.algorithm == "auto":
            made.set_params(algorithm=FullBatchALM())  # random batches were tried under the first bounds, if at all
        with warnings.catch_warnings():
            for category in (ConvergenceWarning, DataWarning):  # the report of each model says it
                warnings.simplefilter("ignore", category)
            start = None if before is None else before.x_
            made._fit(table, rows.y, rows.groups, rows.weight, x0=start)
        if before is None:
            table = _as_read(made, rows.X)
        else:
            made.dropped_columns_, made.encoder_report_ = before.dropped_columns_, before.encoder_report_
        before = made
        yield made
        if made.solution_.stopped == "interrupted":
            return


def _as_read(fitted: Any, table: Any) -> Any:
    """The table as the fitted classifier reads it, once for all that follow."""
    if isinstance(fitted.model, nn.Module) or isinstance(table, Encoded):
        return table
    return Encoded.of(fitted.encoder_, without(table, fitted.dropped_columns_))


def cost(rows: Scored, objective: Any) -> float:
    """What the objective weighs, lower being better: the mean loss, one less the area under the ROC curve, or (objective "auto",
    "accuracy" and others) the share of wrong decisions."""
    weight = np.ones(len(rows)) if rows.weight is None else rows.weight
    if objective == "loss" and rows.scores is not None:
        return float(np.average(rows.loss, weights=weight))
    if objective == "auc" and rows.scores is not None:
        return 1 - float(auc(rows.scores, rows.target == 1, rows.target == 0, weight))
    return float(np.average(rows.wrong, weights=weight))


def accuracy(rows: Scored) -> float:
    """The share of right decisions."""
    return 1 - cost(rows, "accuracy")
