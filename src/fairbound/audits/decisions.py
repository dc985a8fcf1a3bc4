"""Decisions judged alone, without outcomes: shares selected, which is all that can be said of people whose outcome nobody
knows, such as applicants who were turned down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fairbound.base.errors import OptionError
from fairbound.fairness.bound import Bound
from fairbound.rows.labels import two_valued
from fairbound.rows.reading import column_values, plain_array
from fairbound.rows.scores import as_logits

SAID = "No outcomes were given: the decisions are judged by the shares selected alone."


class Decided(NamedTuple):
    """scores: (n,) numbers. y: (n,) the decisions, 0 or 1, in place of labels. classes: what these mean, if it is known.
    data: facts of the data for the report."""

    scores: np.ndarray
    y: np.ndarray
    classes: Sequence[Any] | None
    data: dict[str, Any]


def check_decisions_alone(bounds: Sequence[Bound], qid: Any = None) -> None:
    """Raises: OptionError where an audit without outcomes is asked for what needs them."""
    if qid is not None:
        raise OptionError("an audit of a ranking needs the relevance of every row; pass it as y.")
    for bound in bounds:
        if bound.reads_labels:
            raise OptionError(
                f"{bound.text!r} needs the outcomes of the rows (y; --label), and none are given. Without them state demographic_parity, "
                "demographic_parity_ratio or conditional_demographic_parity, which look at decisions alone."
            )


def decisions_alone(
    scores: Any, threshold: float | None, classes: Sequence[Any] | None, positive: Any, data: Mapping[str, Any]
) -> Decided:
    """The decisions of scores, or of a column of two values such as approved and denied, for `audit`; its arguments.
    Raises: OptionError where `positive` is named of numbers; DataError for unusable scores."""
    values = plain_array(scores)
    label = {"label": "decision", **data}
    if values.dtype.kind in "biufc" or not any(isinstance(v, str) for v in column_values("scores", scores)):
        if positive is not None:
            raise OptionError(
                "positive= (--positive) names one of two words, and the scores are numbers; say where positive begins with threshold= "
                "(--threshold)."
            )
        logits = as_logits(scores, threshold)[0]
        return Decided(np.asarray(scores), (logits > 0).astype(np.int64), classes, label)
    if threshold is not None:
        raise OptionError("threshold= (--threshold) is of scores, and these are words; leave it out.")
    y, meant = two_valued(scores, len(values), classes, positive)
    return Decided(y, y, meant, label)
