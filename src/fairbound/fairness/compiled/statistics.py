"""What bounds are made of: rates of a group's decisions, and the functions of single rows whose means they need.

Decisions are counted by label and decision, [[true negatives, false positives], [false negatives, true positives]]. A
`Rate` says which of these counts are successes and which failures; all else follows from it: its value, the means of
row functions that it is a ratio of, and the binomial share behind it that intervals need.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairbound.base.errors import OptionError
from fairbound.fairness.compiled.forms import Sharpened
from fairbound.fairness.pointwise import SURROGATES, WRONG_CLASS, Pointwise, class_error, class_share

Table = tuple[tuple[float, float], tuple[float, float]]
"""A weight for each label (rows) and decision (columns): [[TN, FP], [FN, TP]]."""

SELECTED: Table = ((0, 1), (0, 1))


@dataclass(frozen=True)
class Rate:
    """value = a S / (b S + c F) with S successes and F failures among a group's rows, (a, b, c) = scale.

    successes, failures: tables of 0 and 1. higher_is_better: what "best" means in comparisons with the best-off group.
    With p = S / (S + F), a binomial share given S + F, the value is the increasing function a p / (b p + c (1 - p)).
    """

    name: str
    successes: Table
    failures: Table
    scale: tuple[float, float, float] = (1, 1, 1)
    higher_is_better: bool = True

    def __post_init__(self) -> None:
        tables = [np.asarray(t) for t in (self.successes, self.failures)]
        if any(t.shape != (2, 2) or not np.isin(t, (0, 1)).all() for t in tables) or (tables[0] * tables[1]).any():
            raise OptionError(
                f"the rate {self.name!r} needs successes and failures as tables of 0 and 1, [[TN, FP], [FN, TP]], with no 1 in "
                f"common, got {self.successes} and {self.failures}."
            )

    @cached_property
    def counted(self) -> np.ndarray:
        """(2, 2) weights of the numerator."""
        return self.scale[0] * np.array(self.successes, dtype=float)

    @cached_property
    def among(self) -> np.ndarray:
        """(2, 2) weights of the denominator."""
        return self.scale[1] * np.array(self.successes, dtype=float) + self.scale[2] * np.array(
            self.failures, dtype=float
        )

    @property
    def is_mean(self) -> bool:
        """Whether the value is a mean over rows that the label alone picks; else it is a ratio of two means."""
        rows = self.among
        return bool((rows[:, 0] == rows[:, 1]).all() and np.isin(rows, (0, 1)).all())

    @property
    def condition(self) -> int | None:
        """The label of the rows that a mean is over; None for all rows."""
        rows = self.among[:, 0]
        return None if rows.all() else int(rows[1] == 1)

    def of_share(self, p: Any) -> np.ndarray:
        """The value at the share p = S / (S + F) in [0, 1]; infinite where it divides by 0."""
        a, b, c = self.scale
        p = np.asarray(p, dtype=float)
        below = b * p + c * (1 - p)
        return np.divide(a * p, below, out=np.full(p.shape, np.inf), where=below > 0)

    @property
    def is_share(self) -> bool:
        """Whether the value is the share p itself."""
        return self.scale == (1, 1, 1)


RATES: Mapping[str, Rate] = MappingProxyType(
    {
        r.name: r
        for r in (
            Rate("selection_rate", SELECTED, ((1, 0), (1, 0))),
            Rate("true_positive_rate", ((0, 0), (0, 1)), ((0, 0), (1, 0))),
            Rate("false_positive_rate", ((0, 1), (0, 0)), ((1, 0), (0, 0)), higher_is_better=False),
            Rate("false_negative_rate", ((0, 0), (1, 0)), ((0, 0), (0, 1)), higher_is_better=False),
            Rate("positive_predictive_value", ((0, 0), (0, 1)), ((0, 1), (0, 0))),
            Rate("false_omission_rate", ((0, 0), (1, 0)), ((1, 0), (0, 0)), higher_is_better=False),
            Rate("base_rate", ((0, 0), (1, 1)), ((1, 1), (0, 0))),
            Rate("error_rate", ((0, 1), (1, 0)), ((1, 0), (0, 1)), higher_is_better=False),
            Rate("accuracy", ((1, 0), (0, 1)), ((0, 1), (1, 0))),
            Rate("f1", ((0, 0), (0, 1)), ((0, 1), (1, 0)), (2, 2, 1)),
            Rate("false_negatives_per_false_positive", ((0, 0), (1, 0)), ((0, 1), (0, 0)), (1, 0, 1), False),
        )
    }
)


@dataclass(frozen=True)
class RowFunction(Sharpened):
    """A function of one row's scores and label, exactly and as training differentiates it.

    table: weights by label and decision; None for the loss, and for "another class than its own" (per_class).
    surrogate, sharpness: what replaces the decision in training; "loss" for the problem's loss itself. largest: a loss
    above it counts as it in the metric.
    """

    table: Table | None = SELECTED
    surrogate: str = "sigmoid"
    sharpness: float = 1.0
    per_class: bool = False
    largest: float | None = None

    def sharpened(self, factor: float) -> RowFunction:
        """With a surrogate that is `factor` times as steep; a loss stays as it is."""
        return self if self.surrogate == "loss" else super().sharpened(factor)

    def trained(self, loss: Pointwise) -> Pointwise:
        """The differentiable function; `loss`: the problem's."""
        if self.surrogate == "loss":
            return loss
        if self.per_class:
            return class_error(self.surrogate, self.sharpness, loss)
        assert self.table is not None
        return _weighted(self.table, SURROGATES[self.surrogate](self.sharpness))

    def exact(self, loss: Pointwise) -> Pointwise:
        """The function that the stated metric averages."""
        if self.per_class:
            return WRONG_CLASS if loss.per_class else _weighted(((0, 1), (1, 0)), DECISION)
        if self.table is not None:
            return _weighted(self.table, DECISION)
        return loss if self.largest is None else _at_most(loss, self.largest)


@dataclass(frozen=True)
class ClassShare(Sharpened):
    """Whether a row is predicted as the class number `code`, exactly and as training differentiates it.

    surrogate, sharpness: what replaces the decision in training, as in RowFunction; "sigmoid" is the probability of the
    class.
    """

    code: int
    surrogate: str = "sigmoid"
    sharpness: float = 1.0

    def trained(self, loss: Pointwise) -> Pointwise:
        """The differentiable function; `loss`: the problem's."""
        return class_share(self.code, self.surrogate, self.sharpness, loss)

    def exact(self, loss: Pointwise) -> Pointwise:
        """The function that the stated metric averages."""
        if loss.per_class:
            chosen = lambda s, y: (s.argmax(-1) == self.code).to(s.dtype)  # noqa: E731
            return Pointwise(f"class {self.code}", chosen, lambda s, y: torch.zeros_like(s), per_class=True)
        return _weighted(((0, 1), (0, 1)) if self.code == 1 else ((1, 0), (1, 0)), DECISION)


@dataclass(frozen=True)
class Above(Sharpened):
    """Whether a predicted number is above `at`; in training the sigmoid of `sharpness` times the distance."""

    at: float
    sharpness: float = 1.0

    def trained(self, loss: Pointwise) -> Pointwise:
        """The differentiable function."""
        step, at = SURROGATES["sigmoid"](self.sharpness), self.at
        return Pointwise(
            f"above {at}", lambda s, y: step.value(s - at, y), lambda s, y: step.slope(s - at, y), step.lipschitz
        )

    def exact(self, loss: Pointwise) -> Pointwise:
        """The function that the stated metric averages."""
        at = self.at
        return Pointwise(f"above {at}", lambda s, y: (s > at).to(s.dtype), lambda s, y: torch.zeros_like(s))


LOSS = RowFunction(None, "loss")

DECISION = Pointwise(
    "decision", lambda s, y: (s > 0).to(s.dtype), lambda s, y: torch.zeros_like(s), odd=True
)  # a score of 0 is one decision, not two


def _at_most(loss: Pointwise, largest: float) -> Pointwise:
    def slope(s: Tensor, y: Tensor) -> Tensor:
        below = loss.value(s, y) < largest
        return loss.slope(s, y) * (below.unsqueeze(-1) if loss.per_class else below)

    return Pointwise(f"{loss.name}, at most {largest}", lambda s, y: loss.value(s, y).clamp_max(largest), slope,
                     loss.lipschitz, loss.per_class)  # fmt: skip


def _weighted(table: Table, rate: Pointwise) -> Pointwise:
    """The row function with weights `table`, where `rate` (of the score, of minus the score) replaces the decision
    "positive" ("negative")."""
    if table == SELECTED:
        return rate
    negative, positive = [torch.tensor(column, dtype=torch.float64) for column in zip(*table, strict=True)]

    def of(weights: Tensor, y: Tensor) -> Tensor | float:
        first, second = weights.tolist()
        return first if first == second else first + (second - first) * y

    def value(s: Tensor, y: Tensor) -> Tensor:
        yes = rate.value(s, y)
        if rate.odd:
            return of(negative, y) + of(positive - negative, y) * yes
        return of(positive, y) * yes + of(negative, y) * rate.value(-s, y)

    def slope(s: Tensor, y: Tensor) -> Tensor:
        if rate.odd:
            return of(positive - negative, y) * rate.slope(s, y)
        return of(positive, y) * rate.slope(s, y) - of(negative, y) * rate.slope(-s, y)

    lipschitz = rate.lipschitz * float((positive - negative).abs().max())
    return Pointwise(f"{rate.name}{table}", value, slope, lipschitz)


def row_table(rate: Rate, of: str = "counted") -> Table:
    """The weights of a rate's numerator ("counted") or denominator ("among") as a row function takes them.

    For a mean over the rows of one label, both labels get the weights of that label: no other row is in its cells.
    """
    table = getattr(rate, of)
    if of == "counted" and rate.condition is not None and rate.is_mean:
        table = np.stack([table[rate.condition]] * 2)
    return tuple(tuple(float(v) for v in row) for row in table)  # type: ignore[return-value]


def behind(counted: Table, among: Table) -> tuple[float, float, float]:
    """The `scale` of a rate by the weights of its numerator and denominator (`row_table`)."""
    above, below = np.array(counted), np.array(among)
    failures = below[above == 0].max(initial=0.0)
    return float(above.max()), float(below[above > 0].max(initial=0.0)), float(failures)
