"""Notions on the mean losses of groups: their differences, and each by itself.

Source: Kliachkin et al. (2025), Table 1; Agarwal, Dudik, Wu (2019) for bounded group loss; Narasimhan et al. (2020) and
equation (18) of PLADA for losses of groups above that of all rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from fairbound.base.errors import EmptyGroupError, OptionError
from fairbound.fairness.builder import Builder
from fairbound.fairness.comparing import Compared, ValueContrasts
from fairbound.fairness.language import Key, Word, options_without
from fairbound.fairness.notions.checks import check_aggregated, check_uncompared
from fairbound.fairness.notions.groups import LossBound
from fairbound.fairness.notions.registry import register


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
    OPTIONS: ClassVar[Any] = options_without(LossBound.OPTIONS, "against")

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
    OPTIONS: ClassVar[Any] = {"skip": Key("skip"), **options_without(LossBound.OPTIONS, "against")}

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
