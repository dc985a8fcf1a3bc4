"""Decisions judged alone, without outcomes: shares selected, which is all that can be said of people whose outcome nobody
knows, such as applicants who were turned down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fairbound.base.errors import OptionError
from fairbound.fairness.bound import Bound
from fairbound.fairness.predictions import read_decisions

SAID = "No outcomes were given: the decisions are judged by the shares selected alone."


def forget_outcomes(found: dict[str, Any]) -> None:
    """Take out of an audit whose labels are the decisions themselves what only outcomes can tell."""
    found["metrics"] = {"selection_rate": found["metrics"]["selection_rate"]}
    for group in found["groups"]:
        group["rates"] = {"selection_rate": group["rates"]["selection_rate"]}
        group["positives"] = group["mean_loss"] = None
    found["notes"].append(SAID)


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
    """The decisions of scores, or of a column of two words, for `audit`; its arguments. Raises: as `read_decisions`."""
    return Decided(*read_decisions(scores, threshold, classes, positive), {"label": "decision", **data})
