"""Notions on the mean losses of groups: their differences, and each by itself.

Source: Kliachkin et al. (2025), Table 1; Agarwal, Dudik, Wu (2019) for bounded group loss; Narasimhan et al. (2020) and
equation (18) of PLADA for losses of groups above that of all rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from fairbound.base.errors import EmptyGroupError, OptionError
from fairbound.fairness.comparing import Compared, ValueContrasts
from fairbound.fairness.compiled.builder import CONDITION, Builder
from fairbound.fairness.compiled.statistics import LOSS, RowFunction
from fairbound.fairness.language import Key, Word, number_text, plain_number, without_against
from fairbound.fairness.notions.checks import check_aggregated, check_largest, check_uncompared, without_largest
from fairbound.fairness.notions.groups import GroupBound
from fairbound.fairness.notions.registry import register
from fairbound.fairness.scored import Scored
from fairbound.fairness.verdicts.judging import measured_contrasts
from fairbound.fairness.verdicts.values import Values, loss_values


@dataclass(frozen=True, kw_only=True)
class LossBound(GroupBound):
    """Mean losses of every group, compared or bounded.

    given: rows with this label only, 1 or 0; "both" for each in turn; None for all rows.
    largest: a loss above it counts as it, so that the mean has a bound that holds for certain; None for losses as they
    are.
    """

    given: Literal[0, 1, "both"] | None = None
    largest: float | None = None

    averages = "losses"
    contrasts = measured_contrasts
    needs = frozenset({"groups", "scores"})
    judged_from = "losses"
    clustered = True
    most = math.inf
    OPTIONS: ClassVar[Any] = {
        **GroupBound.OPTIONS,
        "y": Key("given", lambda text: int(text) if text in ("0", "1") else text),
        "largest": Key("largest", plain_number, number_text),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.given not in (None, 0, 1, "both"):
            raise OptionError(f"given (y=...) must be 0, 1 or 'both', or left out, got {self.given!r}.")
        check_largest(self.largest)

    @property
    def uncertain(self) -> str | None:
        return without_largest(self, "5") if self.largest is None else None

    def step_of(self, rows: int) -> float:
        return 0.0

    @property
    def tails(self) -> tuple[str, ...]:
        return tuple(CONDITION[c] for c in self.conditions())

    def conditions(self) -> tuple[int | None, ...]:
        return (1, 0) if self.given == "both" else (self.given,)

    def check_model(self, outputs: int, y: np.ndarray) -> None:
        if self.given is not None:
            self.check_two_classes(outputs, y)

    @property
    def _function(self) -> RowFunction:
        return replace(LOSS, largest=self.largest)

    def row_functions(self) -> tuple[tuple[RowFunction, int | None], ...]:
        return tuple((self._function, c) for c in self.conditions()) if self.against_everyone else ()

    def quantities(self, builder: Builder, compared: Compared) -> np.ndarray:
        conditions = self.conditions()
        overall = self.against == "overall"
        return np.stack([builder.numbers(compared, self._function, conditions, c, overall) for c in conditions])

    def values(self, rows: Scored, compared: Compared) -> Values:
        group = compared.of_rows(rows.groups)
        loss = rows.loss if self.largest is None else np.minimum(rows.loss, self.largest)
        inside = [(group >= 0) & (True if c is None else rows.target == c) for c in self.conditions()]
        return loss_values(loss, [np.where(i, group, -1) for i in inside], len(compared), rows, self.largest)


@register()
@dataclass(frozen=True, kw_only=True)
class LossGap(LossBound):
    """Mean losses differ by at most `bound`; `given` 1 or 0 restricts to rows with that label, "both" to each in turn.

    aggregated: with given="both", the larger of the two differences is bounded ("max"), or their "sum".
    Kliachkin et al. (2025), Table 1, state on losses: demographic parity (given=None), equal opportunity (given=1) and
    equalised odds (given="both", aggregated="sum").
    """

    aggregated: Literal["max", "sum"] = "max"

    name = "loss_gap"
    OPTIONS: ClassVar[Any] = {
        **LossBound.OPTIONS, "max": Word("aggregated", "max"), "sum": Word("aggregated", "sum")
    }  # fmt: skip

    def __post_init__(self) -> None:
        check_aggregated(self)
        if self.summed and self.given != "both":
            raise OptionError("loss_gap[sum] adds the differences of both labels; say y=both with it.")
        super().__post_init__()

    @property
    def summed(self) -> bool:
        return self.aggregated == "sum"


@register()
class GroupLoss(LossBound):
    """The mean loss of every group is at most `bound` (bounded group loss)."""

    name = "group_loss"
    example = "0.4"
    measures = "a mean loss"
    compares = "values"
    OPTIONS: ClassVar[Any] = without_against(LossBound.OPTIONS)

    def __post_init__(self) -> None:
        check_uncompared(self)
        super().__post_init__()


@register()
@dataclass(frozen=True, kw_only=True)
class ExcessLoss(LossBound):
    """The mean loss of every group is at most `bound` above that of all rows whose group is known.

    skip: the label of groups that are not bounded; None for none. With skip=out, every attribute may be one subgroup
    whose other rows are labelled "out": one constraint each, also where subgroups overlap.
    """

    against: Literal["overall"] = "overall"  # type: ignore[assignment]
    skip: str | None = None

    name = "excess_loss"
    OPTIONS: ClassVar[Any] = {"skip": Key("skip"), **without_against(LossBound.OPTIONS)}

    def __post_init__(self) -> None:
        if self.against != "overall":
            raise OptionError(f"{self.name} compares every group with all rows, got against={self.against!r}.")
        super().__post_init__()

    @property
    def against_everyone(self) -> bool:
        return False

    def value_contrasts(self, compared: Compared) -> ValueContrasts:
        """A group's loss less that of all rows: every other contrast, of the groups not called `skip`."""
        found, units = super().value_contrasts(compared), len(compared) + 1
        first = range(0, len(found.index), 2)
        kept = [i for i in first if compared.plain_name(int(found.index[i, 0]) % units) != self.skip]
        return found.take(np.array(kept, dtype=np.int64))

    def compile(self, builder: Builder) -> None:
        """Raises: EmptyGroupError where every group is skipped."""
        if all(label == self.skip for labels in builder.occurring.labels for label in labels):
            raise EmptyGroupError(f"{self.text!r}: every group is called {self.skip!r}; correct skip=.")
        super().compile(builder)
