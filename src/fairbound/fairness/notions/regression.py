"""Notions on predicted numbers: shares predicted above thresholds, mean squared errors, and mean residuals of the
groups.

Source: Agarwal, Dudik, Wu (2019), Fair regression: quantitative definitions and reduction-based algorithms, for
statistical parity at every threshold (of which some are stated here) and bounded group loss; Calders, Karim, Kamiran,
Ali, Zhang (2013), Controlling attribute effect in linear regression, for mean residuals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar, Self

import numpy as np
import torch

from fairbound.base.checks import positive
from fairbound.base.errors import OptionError
from fairbound.fairness.comparing import Compared
from fairbound.fairness.compiled.builder import Builder
from fairbound.fairness.compiled.forms import Function
from fairbound.fairness.compiled.statistics import LOSS, Above
from fairbound.fairness.language import Key, Option, number_text, plain_number, without_against
from fairbound.fairness.notions.checks import check_largest, check_uncompared, without_largest
from fairbound.fairness.notions.groups import GroupBound
from fairbound.fairness.notions.registry import register
from fairbound.fairness.pointwise import Pointwise
from fairbound.fairness.scored import Scored
from fairbound.fairness.verdicts.values import Values, loss_values, share_values

RESIDUAL = Pointwise("residual", lambda s, y: s - y, lambda s, y: torch.ones_like(s))


@cache
def residual_within(largest: float | None) -> Pointwise:
    """Predicted minus true, where one beyond -largest or largest counts as that."""
    if largest is None:
        return RESIDUAL
    return Pointwise(
        f"residual, at most {largest}",
        lambda s, y: (s - y).clamp(-largest, largest),
        lambda s, y: ((s - y).abs() < largest).to(s.dtype),
    )


ROUNDED = 1e-6
"""Of the labels' standard deviation: differences of mean residuals up to this are equality."""


class PredictionBound(GroupBound):
    """A mean over the rows of every group of a function of the predicted number.
    A notion below it says of which functions."""

    needs = frozenset({"groups", "predictions"})
    most = math.inf
    clustered = True

    @property
    def range(self) -> tuple[float, float] | None:
        """The least and the largest that a row can count as; None where there are none."""
        return None

    def functions(self) -> tuple[Function, ...]:
        """The functions of a row whose means are compared, each by itself."""
        raise NotImplementedError

    def of_rows(self, rows: Scored) -> dict[str, np.ndarray]:
        """(n,) by name what the bound compares the groups' means of: truth values for shares, else numbers."""
        raise NotImplementedError

    def settled(self, targets: np.ndarray) -> Self:
        """The same bound with what it takes from the training labels (n,) filled in."""
        return self

    def unit(self, scale: float) -> float:
        """How large values are that labels of this standard deviation give: 1 for shares."""
        return 1.0

    def rescaled(self, shift: float, scale: float) -> Self:
        """The same bound on (numbers - shift) / scale."""
        raise NotImplementedError

    def rounding(self, scale: float) -> float:
        """How large a value is taken for the bound: 0 but for a bound of 0 on numbers, which no arithmetic meets. scale:
        the standard deviation of the labels."""
        return 0.0

    def step_of(self, rows: int) -> float:
        return 0.0

    @property
    def tails(self) -> tuple[str, ...]:
        return ("",)

    def conditions(self) -> tuple[int | None, ...]:
        return tuple(None for _ in self.tails)

    def _compile_best(self, builder: Builder, compared: Compared, numbers: np.ndarray) -> None:
        """The best-off group has the least value, so the largest difference from it is that of every two groups, whose
        differences have slopes that do not jump from group to group."""
        found = self.value_contrasts(compared)
        builder.contrasts(numbers.ravel()[found.index], found.coefficient, found.name)

    def quantities(self, builder: Builder, compared: Compared) -> np.ndarray:
        overall = self.against == "overall"
        return np.stack([builder.numbers(compared, f, (None,), None, overall) for f in self.functions()])


@register()
@dataclass(frozen=True, kw_only=True)
class PredictionParity(PredictionBound):
    """Shares of the groups predicted above each of the thresholds differ by at most `bound`.

    thresholds: (`at=` in text) in the units of the label; without any `FairRegressor` takes the deciles of its training
    labels; to measure and to audit name them.
    sharpness: of the sigmoid that training differentiates, on labels of standard deviation 1.
    """

    thresholds: tuple[float, ...] = ()
    sharpness: float = 4.0

    name = "prediction_parity"
    most = 1.0
    OPTIONS: ClassVar[Any] = {
        **GroupBound.OPTIONS,
        "at": Key(
            "thresholds",
            lambda text: tuple(float(t) for t in text.split(":")),
            lambda at: ":".join(number_text(t) for t in at),
        ),
        "sharpness": Key("sharpness", float, repr),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "thresholds", tuple(float(t) for t in self.thresholds))
        if not all(map(math.isfinite, self.thresholds)) or len(set(self.thresholds)) < len(self.thresholds):
            raise OptionError(f"at must be different finite thresholds, as in at=10:20:30, got {self.thresholds!r}.")
        positive(self, "sharpness")

    def step_of(self, rows: int) -> float:
        return 1 / rows

    @property
    def tails(self) -> tuple[str, ...]:
        if not self.thresholds:
            raise OptionError(
                f"{self.statement!r} names no threshold; say which, as in {self.name}[at=10:20:30]. Only FairRegressor's fit takes "
                "the deciles of its training labels, which the texts of its fit_report_['constraints'] name."
            )
        return tuple(f", above {number_text(t)}" for t in self.thresholds)

    def functions(self) -> tuple[Function, ...]:
        return tuple(Above(t, self.sharpness) for t in self.thresholds)

    def settled(self, targets: np.ndarray) -> Self:
        """Thresholds at the deciles of the labels, where none are stated."""
        if self.thresholds:
            return self
        deciles = np.quantile(targets, np.arange(1, 10) / 10)
        return replace(self, thresholds=tuple(dict.fromkeys(float(f"{decile:.12g}") for decile in deciles)))

    def rescaled(self, shift: float, scale: float) -> Self:
        return replace(self, thresholds=tuple((t - shift) / scale for t in self.thresholds))

    def of_rows(self, rows: Scored) -> dict[str, np.ndarray]:
        assert rows.scores is not None
        return {f"predicted above {number_text(t)}": rows.scores > t for t in self.thresholds}

    def values(self, rows: Scored, compared: Compared) -> Values:
        group, everyone = compared.of_rows(rows.groups), np.full(len(rows), True)
        made = [share_values(above, everyone, rows, group, len(compared)) for above in self.of_rows(rows).values()]
        return Values.of_shares(made)


@dataclass(frozen=True, kw_only=True)
class NumberLossBound(PredictionBound):
    """Mean losses of predicted numbers. largest: the largest that a loss counts as, in its units, so that the mean has
    a bound that holds for certain; None for losses as they are."""

    largest: float | None = None

    def __post_init__(self) -> None:
        check_largest(self.largest)
        super().__post_init__()

    @property
    def uncertain(self) -> str | None:
        return without_largest(self, number_text(20 * self.bound or 1.0)) if self.largest is None else None

    @property
    def fewest_rows(self) -> float:
        if self.largest is None:
            return super().fewest_rows
        return 0.25 / max(self.bound / self.largest, 0.01) ** 2

    @property
    def range(self) -> tuple[float, float] | None:
        return None if self.largest is None else (0.0, self.largest)

    def values(self, rows: Scored, compared: Compared) -> Values:
        ((_, numbers),) = self.of_rows(rows).items()
        least = 0.0 if self.range is None else self.range[0]
        group = compared.of_rows(rows.groups)
        return loss_values(numbers, [group], len(compared), rows, self.largest, least=least)

    def rescaled(self, shift: float, scale: float) -> Self:
        unit = self.unit(scale)
        return replace(self, bound=self.bound / unit, largest=None if self.largest is None else self.largest / unit)


@register()
class ResidualGap(NumberLossBound):
    """Mean residuals (predicted minus true) of the groups differ by at most `bound`, in the units of the label.

    largest: a residual beyond -largest or largest counts as that.
    """

    name = "residual_gap"
    averages = "residuals"
    example = "0.1"
    OPTIONS: ClassVar[Any] = {**GroupBound.OPTIONS, "largest": Key("largest", plain_number, number_text)}

    def functions(self) -> tuple[Function, ...]:
        return (residual_within(self.largest),)

    def unit(self, scale: float) -> float:
        return scale

    def rounding(self, scale: float) -> float:
        return ROUNDED * scale if self.stated == 0 else 0.0

    @property
    def range(self) -> tuple[float, float] | None:
        return None if self.largest is None else (-self.largest, self.largest)

    def of_rows(self, rows: Scored) -> dict[str, np.ndarray]:
        assert rows.residuals is not None
        if self.largest is None:
            return {"mean_residual": rows.residuals}
        most = self.largest
        return {f"mean residual, none beyond {number_text(most)}": np.clip(rows.residuals, -most, most)}


@register()
class GroupSquaredError(NumberLossBound):
    """The mean squared error of every group is at most `bound`, in squared units of the label (bounded group loss).

    largest: a squared error above it counts as it in the metric.
    """

    name = "group_squared_error"
    averages = "squared errors"
    example = "0.5"
    measures = "a mean squared error"
    compares = "values"
    OPTIONS: ClassVar[dict[str, Option]] = without_against(ResidualGap.OPTIONS)

    def __post_init__(self) -> None:
        check_uncompared(self)
        super().__post_init__()

    def functions(self) -> tuple[Function, ...]:
        return (replace(LOSS, largest=self.largest),)

    def unit(self, scale: float) -> float:
        return scale**2

    def of_rows(self, rows: Scored) -> dict[str, np.ndarray]:
        assert rows.residuals is not None
        if self.largest is None:
            return {"mean_squared_error": rows.residuals**2}
        return {
            f"mean squared error, none above {number_text(self.largest)}": np.minimum(rows.residuals**2, self.largest)
        }
