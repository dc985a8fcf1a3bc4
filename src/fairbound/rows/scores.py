"""Scores as people have them: decisions, probabilities or real scores as logits, and scores of a metric as they are."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairbound.base.errors import DataError, OptionError
from fairbound.rows.reading import column_array, column_values, is_missing, plain_column, reads_as_number

DECISIONS = "The scores are decisions, 1 or not."
TURNED = "The scores are labels, of which 0 is the positive one."
PROBABILITIES = "The scores are probabilities; positive where above {:g}."
REAL = "The scores are real numbers; positive where above {:g}."

FEW = 0.05
"""Share of the cells of a column up to which those that are no numbers are taken for mistakes."""


def check_finite_scores(scores: np.ndarray) -> None:
    """Raises: DataError that counts the scores (n,) that are missing or infinite."""
    gone = ~np.isfinite(scores)
    if gone.any():
        raise DataError(
            f"the score is missing or infinite in {gone.sum()} of {len(scores)} rows, the first in row {gone.argmax()} (counting from 0). "
            "Drop these rows or fill them."
        )


def check_some(n: int) -> None:
    """Raises: DataError where there are no n scores."""
    if n == 0:
        raise DataError("there are no scores; at least one row is needed.")


@dataclass(frozen=True)
class Strays:
    """The cells of a column that are no numbers: how many of those that are not missing, and the first with its row."""

    number: int
    known: int
    row: int
    cell: Any

    @property
    def few(self) -> bool:
        """Whether nearly all cells are numbers, so that these may be mistakes."""
        return self.number <= FEW * self.known

    def said(self, what: str) -> str:
        """A sentence. what: the column."""
        cells = "cell is no number" if self.number == 1 else "cells are no numbers"
        return (
            f"{self.number:,} {cells} among the {self.known:,} of {what}: {self.cell!r} in row {self.row} (counting from 0)"
            f"{'.' if self.number == 1 else ' is the first.'}"
        )


def strays_of(values: Any) -> Strays | None:
    """The cells (n,) of a column that are no numbers; None where all are."""
    known = [(row, cell) for row, cell in enumerate(column_values("the values", values)) if not is_missing(cell)]
    odd = [(row, cell) for row, cell in known if not reads_as_number(cell)]
    return Strays(len(odd), len(known), *odd[0]) if odd else None


def as_logits(scores: Any, threshold: float | None = None) -> tuple[np.ndarray, str]:
    """Scores of any kind as logits whose sign is the decision, and a sentence that says what was done.

    Without a threshold: values all in {0, 1} or {-1, 1} are decisions; all in [0, 1], probabilities, decided at 0.5;
    else real scores, decided at 0. A threshold moves the point of decision, in the units given; 0 takes the scores as
    logits whatever their range.
    Raises: DataError where scores are missing, or where no threshold is given and none can be guessed: none below 0 and
        some beyond 1.
    """
    values = plain_column(scores)
    if threshold is not None and (
        isinstance(threshold, bool) or not isinstance(threshold, numbers.Real) or not math.isfinite(threshold)
    ):
        raise OptionError(f"the threshold must be a finite number, got {threshold!r}.")
    if values.dtype.kind == "c":
        raise DataError("the scores are complex numbers; pass real ones.")
    if values.ndim == 2 and values.shape[1] == 2:
        raise DataError(
            "the scores have two columns, like predict_proba's; pass the one of the positive class, [:, 1]."
        )
    try:
        s = values.astype(np.float64)
    except (TypeError, ValueError):
        first = values.ravel().tolist()[0]
        raise DataError(
            f"the scores are not numbers ({first!r}); pass 1 for positive and 0 for negative, as by y_pred == {first!r}."
        ) from None
    if s.ndim != 1:
        raise DataError(f"the scores must have one value for each row, got shape {s.shape}.")
    check_some(len(s))
    check_finite_scores(s)
    if threshold is None and (np.isin(s, (0, 1)).all() or np.isin(s, (-1, 1)).all()):
        return np.where(s > 0, 1.0, -1.0), DECISIONS
    if usual_threshold(s) == 0.5 and threshold != 0:
        at = 0.5 if threshold is None else threshold
        if not 0 < at < 1:
            raise OptionError(
                f"the scores are probabilities, so the threshold must lie in (0, 1), got {at}; 0 means logits."
            )
        p = np.clip(s, 1e-12, 1 - 1e-12)
        return np.log(p / (1 - p)) - _logit(at), PROBABILITIES.format(at)
    if threshold is None and s.min() >= 0:
        some, rows = ("above 0", "every row") if s.min() > 0 else ("0 or above", "every row above 0")
        raise DataError(
            f"all {len(s):,} scores are {some} (from {s.min():g} to {s.max():g}), so {rows} would count as positive. Say "
            "where positive begins with threshold= (--threshold): 0 if they are logits, 50 if they are percentages."
        )
    at = 0.0 if threshold is None else threshold
    return s - at, REAL.format(at)


def _logit(p: float) -> float:
    return math.log(p / (1 - p))


def decided_scores(scores: Any, threshold: float | None = None) -> tuple[np.ndarray, np.ndarray, str]:
    """Scores of any kind as logits (n,), the decisions (n,) as 0 and 1, and a sentence that says how they were read.
    Raises: as `as_logits`. A threshold of probabilities decides, and leaves their logits as they are."""
    logits, read_as = as_logits(scores, threshold)
    decided = (logits > 0).astype(np.int64)
    if threshold is not None and read_as == PROBABILITIES.format(threshold):
        logits = logits + _logit(threshold)
    return logits, decided, read_as


def said_of_scores(read_as: str, positive: Any) -> str:
    """What is said of scores that `as_logits` read so, where `positive` is the label of positive decisions."""
    return TURNED if read_as == DECISIONS and positive == 0 else read_as


def tell_probabilities(read_as: str) -> bool:
    """Whether scores that `as_logits` read so say how probable the positive label is: probabilities, and real scores
    decided at 0, which are taken for logits."""
    return read_as == REAL.format(0) or not read_as.startswith((DECISIONS, REAL.partition("{")[0]))


ALIKE = 0.8
"""Share of the rows of the other labels that are decided as one label, too, where nearly all rows are decided alike."""


def nearly_all_alike(decided: float, labelled: float) -> bool:
    """Whether the share of rows that are decided as one label is far more than the share that has this label."""
    return decided >= labelled + ALIKE * (1 - labelled)


def usual_threshold(scores: np.ndarray) -> float:
    """Where a positive decision begins if nobody says so: 0.5 where all scores are in [0, 1],
    as probabilities are, else 0."""
    return 0.5 if scores.min() >= 0 and scores.max() <= 1 else 0.0


def refuse_decisions(read_as: str, what: str = "these", on_losses: bool = False) -> None:
    """Raises: DataError where `as_logits` took the scores for decisions, of which neither loss nor rank can be measured,
    and, of bounds on losses, for scores that tell no probability."""
    if on_losses and read_as != DECISIONS and not tell_probabilities(read_as):
        raise DataError(
            f"a bound on losses needs probabilities or logits, and {what} are neither: they are decided at a threshold other than 0. "
            "Divide percentages by 100."
        )
    if read_as == DECISIONS:
        raise DataError(
            f"a bound on losses or ranks needs scores or probabilities, and {what} are decisions, which have no loss."
        )


def read_scores(scores: Any) -> tuple[np.ndarray, bool]:
    """(n,) float64 scores of a metric, taken as logits or decisions by their type, and whether these are decisions.

    Raises: DataError for no rows, for NaN, and for integers that are no decisions.
    """
    column = column_array("scores", scores)
    if len(column) == 0:
        raise DataError("scores is empty; a metric needs at least one row.")
    decisions = column.dtype.kind in "biu"
    if decisions and column.dtype.kind != "b" and not np.isin(column, (-1, 0, 1)).all():
        raise DataError("scores are integers other than -1, 0, 1; pass logits as floats, or decisions.")
    column = column.astype(np.float64)
    if np.isnan(column).any():
        rows = np.flatnonzero(np.isnan(column))
        raise DataError(f"scores is NaN in {len(rows)} of {len(column)} rows, first in row {rows[0]}.")
    return column, decisions
