"""Bounds that compare groups: the family below which most notions are a few lines.

A notion says which values of a group it compares (`RateBound`: rates of decisions; `LossBound` in `losses`: mean
losses), and inherits the comparison: every two groups, each group and all rows, or each group and the best-off one, by
differences or by ratios.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from torch import Tensor

from fairbound.base.checks import check_choice
from fairbound.base.errors import EmptyGroupError, OptionError
from fairbound.fairness.bound import Bound
from fairbound.fairness.comparing import Compared, ValueContrasts, attribute_sets, differences, singles
from fairbound.fairness.compiled.builder import CONDITION, Builder
from fairbound.fairness.compiled.statistics import Rate, RowFunction, row_table
from fairbound.fairness.language import Key, Word, plain_number
from fairbound.fairness.notions.checks import SMOOTHING, check_fewest, check_smoothing
from fairbound.fairness.scored import Finding, Scored
from fairbound.fairness.verdicts.judging import judge_groups, measured_contrasts, measured_groups
from fairbound.fairness.verdicts.leaving_out import enough, nothing_left
from fairbound.fairness.verdicts.values import Shares, Values, rate_values
from fairbound.rows.occurring import Occurring

ROWS = {None: "row", 1: "positive row (y = 1)", 0: "negative row (y = 0)"}


@dataclass(frozen=True, kw_only=True)
class GroupBound(Bound):
    """A bound on how far the value of a group may lie from the value that it is compared with.

    bound: in the metric's units, from 0 to `most`; of ratios, from 0 to 1.
    against: "pairwise" every two groups; "overall" each group and all rows whose group is known; "best" each group
        and the best-off one.
    attributes: "each" sensitive attribute by itself, "crossed" for their combinations, "both" for each and crossed, or
        a tuple of names to cross.
    empty: a group without a row to measure "raise"s EmptyGroupError, or is "drop"ped from the bound and reported.
    fewest: rows that a group must have behind each of its values; a group of fewer is left out of the bound and
        reported, whatever `empty` says. A whole number from 1 on; None leaves none out.
    only: of each set of attributes the codes of the groups that are not left out, filled in by `settled_on`.
    measures_rest: whether the values measured are the rest to 1 of those that the notion is about, as misses are of
        recalls: a difference of the ones is minus that of the others, and is named so.
    """

    bound: float
    against: Literal["pairwise", "overall", "best"] = "pairwise"
    attributes: Literal["each", "crossed", "both"] | tuple[str, ...] = "each"
    empty: Literal["raise", "drop"] = "raise"
    fewest: int | None = None
    only: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] | None = field(default=None, repr=False, compare=False)

    needs = frozenset({"groups"})
    most: ClassVar[float] = 1.0
    compares: ClassVar[Literal["differences", "ratios", "values"]] = "differences"
    measures_rest: ClassVar[bool] = False
    OPTIONS: ClassVar[Any] = {
        "pairwise": Word("against", "pairwise"),
        "overall": Word("against", "overall"),
        "best": Word("against", "best"),
        "each": Word("attributes", "each"),
        "crossed": Word("attributes", "crossed"),
        "both": Word("attributes", "both"),
        "by": Key("attributes", lambda text: tuple(text.split("+")), "+".join),
        "empty": Key("empty"),
        "fewest": Key("fewest", plain_number),
    }

    def __post_init__(self) -> None:
        most = self.largest_bound
        if not (isinstance(self.bound, Real) and 0 <= self.bound <= most and math.isfinite(self.bound)):
            what = "smallest ratio" if self.compares == "ratios" else "largest " + self.measures.removeprefix("a ")
            raise OptionError(
                f"the bound of {self.name} must lie in [0, {most:g}], got {self.bound!r}; it is the {what} you accept, in the "
                "units of the metric."
            )
        check_choice("against", self.against, ("pairwise", "overall", "best"))
        check_choice("empty", self.empty, ("raise", "drop"))
        check_fewest(self)
        if self.attributes not in ("each", "crossed", "both"):
            names = (self.attributes,) if isinstance(self.attributes, str) else tuple(self.attributes)
            if not names or not all(names) or len(set(names)) < len(names):
                raise OptionError(
                    f"attributes must be 'each', 'crossed', 'both' or different names, got {self.attributes!r}."
                )
            object.__setattr__(self, "attributes", names)

    @property
    def largest_bound(self) -> float:
        """The largest bound that says anything."""
        return self.most

    @property
    def summed(self) -> bool:
        """Whether the differences of two values are added under one bound."""
        return False

    @property
    def averaged(self) -> bool:
        """Whether the mean of all values of a group is compared."""
        return False

    @property
    def within(self) -> str | None:
        """The attribute inside whose groups the other attributes are compared; None for none."""
        return None

    @property
    def compares_alone(self) -> bool:
        """Whether one group suffices: it is compared with all rows, or bounded by itself."""
        return self.against == "overall" or self.compares == "values"

    @property
    def leaves_out(self) -> bool:
        """Whether groups without enough rows are left out, and said to be."""
        return self.fewest is not None or self.empty == "drop"

    def over(self, attributes: str) -> Self:
        return replace(self, attributes=attributes) if self.attributes == "each" else self  # type: ignore[arg-type]

    # -- what is compared ---------------------------------------------------------------------------------------

    @property
    def tails(self) -> tuple[str, ...]:
        """What is said after a comparison, for each of the values compared."""
        raise NotImplementedError

    @property
    def higher_is_better(self) -> tuple[bool, ...]:
        """For each of the values, whether the best-off group has the highest."""
        return tuple(False for _ in self.tails)

    def conditions(self) -> tuple[int | None, ...]:
        """For each of the values, the label of the rows it needs; None for any."""
        raise NotImplementedError

    def row_words(self, condition: int | None) -> str:
        """A row of the label `condition`, in words."""
        return ROWS.get(condition, "row")

    def quantities(self, builder: Builder, compared: Compared) -> np.ndarray:
        """(R, k + 1) numbers of the quantities that train each value of each group, and of all rows."""
        raise NotImplementedError

    def counted(self, occurring: Occurring) -> list[tuple[Compared, np.ndarray]]:
        """The groups that occur, of each set of attributes, and (R, k) the rows behind each of their values."""
        out = []
        for attributes in attribute_sets(self.attributes, occurring.attributes, self.text, self.within):
            found = Compared.of(occurring, attributes, 0 if self.within is None else 1)
            rows = np.stack([occurring.per_group(attributes, c)[found.codes] for c in self.conditions()])
            out.append((found, rows))
        return out

    def settled_on(self, occurring: Occurring) -> Self:
        if self.fewest is None:
            return self
        kept = {
            found.attributes: tuple(found.codes[enough(self, found, rows)].tolist())
            for found, rows in replace(self, only=None).counted(occurring)
        }
        return replace(self, only=tuple(kept.items()))

    def compared(self, occurring: Occurring, empty: str | None = None) -> list[tuple[Compared, list[str]]]:
        """The groups that can be measured, of each set of attributes, and the names of those left out.

        empty: the bound's own by default; "partly" leaves out none that has rows for one of the values, and names those
        that it lacks. Where the bound states `fewest`, that alone decides.
        Raises: EmptyGroupError for a group without a row, where `empty` says so, and where nothing is left to compare.
        """
        out = []
        for found, rows in self.counted(occurring):
            if self.fewest is None and (rows == 0).any() and (empty or self.empty) == "raise":
                g, r = (int(first) for first in np.argwhere(rows.T == 0)[0])
                what = self.row_words(self.conditions()[r])
                raise EmptyGroupError(
                    f"{self.text!r}: the group {found.name(g)!r} has no {what}, so its part of the bound is undefined. Merge "
                    f"the group with another, mark its value missing, or leave it out: {replace(self, empty='drop').text!r}."
                )
            partly = self.fewest is None and empty == "partly"
            has = np.asarray((rows > 0).any(0)) if partly else enough(self, found, rows)
            kept = found.keep(has)
            if not len(kept if self.compares_alone else kept.pairs("pairwise")[0]):
                raise EmptyGroupError(nothing_left(self, occurring.attributes, found, kept))
            lacks = [kept.name(g) + self.tails[r] for r, g in np.argwhere(rows[:, has] == 0)]
            out.append((kept, [*kept.left_names(), *lacks]))
        return out

    # -- training -----------------------------------------------------------------------------------------------

    def compile(self, builder: Builder) -> None:
        for compared, _ in self.compared(builder.occurring):
            builder.drop(compared)
            numbers = self.quantities(builder, compared)
            if self.against == "best" and self.compares != "values":
                self._compile_best(builder, compared, numbers)
            else:
                found = self.value_contrasts(compared)
                index = numbers.ravel()[found.index]
                bound = 0.0 if self.compares == "ratios" else None
                builder.contrasts(index, found.coefficient, found.name, bound, self._spare(builder.occurring))

    def value_contrasts(self, compared: Compared) -> ValueContrasts:
        """What the bound compares of a set of groups; where each is compared with the best one, every two."""
        if self.compares == "values":
            return singles(compared, self.tails)
        against: Any = "pairwise" if self.against == "best" else self.against
        ratio = self.bound if self.compares == "ratios" else None
        made = differences(compared, against, self.tails, summed=self.summed, averaged=self.averaged, ratio=ratio)
        return made.turned() if self.measures_rest else made

    def _spare(self, occurring: Occurring) -> float | None:
        """For ratios, the slack between the bound and equality, at the rate of positive labels."""
        if self.compares != "ratios":
            return None
        return (1 - self.bound) * occurring.of_label(1) / max(occurring.rows, 1)

    def _compile_best(self, builder: Builder, compared: Compared, numbers: np.ndarray) -> None:
        for r, (tail, higher) in enumerate(zip(self.tails, self.higher_is_better, strict=True)):
            own = numbers[r, :-1]
            index = np.stack([own, own], axis=1)
            if self.compares == "ratios":
                coefficient, words, bound = [self.bound, -1.0], "{} / best", 0.0
            else:
                sign = 1.0 if higher else -1.0
                words = "best - {}" if higher or self.measures_rest else "{} - best"
                coefficient, bound = [sign, -sign], self.bound
            name = lambda i, words=words, tail=tail: words.format(compared.name(i)) + tail  # noqa: E731
            first = builder.contrasts(index, coefficient, name, bound, self._spare(builder.occurring))
            builder.best(first, own.tolist(), 1 if higher or self.compares == "ratios" else -1)

    @property
    def against_everyone(self) -> bool:
        """Whether differences from all rows are bounded one by one."""
        joined = self.summed or self.averaged or self.within
        return self.against == "overall" and self.compares == "differences" and not joined

    def judge(self, rows: Scored, alpha: float) -> Finding:
        return judge_groups(self, rows, alpha)

    def measure(self, rows: Scored) -> float:
        return measured_groups(self, rows)

    def values(self, rows: Scored, compared: Compared) -> Values:
        """What the rows say of each value of each group."""
        raise NotImplementedError

    def value_of(self, raw: Tensor, terms: Tensor | None) -> Tensor:
        if self.compares != "ratios" or terms is None:
            return raw.amax(-1)
        of_other, of_group = terms[..., 0], terms[..., 1]
        equal = torch.where(of_group >= of_other, 1.0, torch.nan)
        return torch.where(of_other > 0, of_group / of_other.clamp_min(1e-300), equal).amin(-1).clamp_max(1.0)


class DecisionBound(GroupBound):
    """Rates of decisions of every group. A notion below it names its `rates`."""

    needs = frozenset({"groups", "two classes"})
    judged_from = "counts"
    rates: ClassVar[tuple[Rate, ...]]

    @property
    def reads_labels(self) -> bool:
        """Whether one of the rates counts rows of the two labels differently."""
        return any(r.successes[0] != r.successes[1] or r.failures[0] != r.failures[1] for r in self.rates)

    @property
    def tails(self) -> tuple[str, ...]:
        return tuple(CONDITION[r.condition] if r.is_mean else "" for r in self.rates)

    @property
    def higher_is_better(self) -> tuple[bool, ...]:
        return tuple(r.higher_is_better for r in self.rates)

    def conditions(self) -> tuple[int | None, ...]:
        return tuple(r.condition if r.is_mean else None for r in self.rates)

    def shares(self, rows: Scored, compared: Compared) -> list[Shares]:
        """What is behind each rate."""
        group = compared.of_rows(rows.groups)
        return [rate_values(r, rows, group, len(compared)) for r in self.rates]


@dataclass(frozen=True, kw_only=True)
class RateBound(DecisionBound):
    """Rates of decisions of every group, compared. A notion below it names its `rates`.

    surrogate: what training differentiates in place of the decision: "sigmoid", "hinge", "clipped" or "loss".
    sharpness: multiplies the score inside the surrogate; larger is nearer the decision and harder to train.
    """

    surrogate: Literal["sigmoid", "hinge", "clipped", "loss"] = "sigmoid"
    sharpness: float = 1.0

    contrasts = measured_contrasts
    clustered = True
    OPTIONS: ClassVar[Any] = {**GroupBound.OPTIONS, **SMOOTHING}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_smoothing(self, "sigmoid", "hinge", "clipped", "loss")
        if self.surrogate == "loss" and not all(r.is_mean for r in self.rates):
            raise OptionError(
                f"surrogate='loss' would put the loss above and below in {self.name}, which is always 1; take another one."
            )
        if self.against == "overall" and not all(r.is_share for r in self.rates):
            raise OptionError(
                f"{self.name} of all rows is no mean of its groups'; compare it pairwise or with the best."
            )

    def quantities(self, builder: Builder, compared: Compared) -> np.ndarray:
        return np.stack([self._rate(builder, compared, rate) for rate in self.rates])

    def _rate(self, builder: Builder, compared: Compared, rate: Rate) -> np.ndarray:
        function, overall = RowFunction(row_table(rate), self.surrogate, self.sharpness), self.against == "overall"
        if rate.is_mean:
            conditions = tuple(
                dict.fromkeys(r.condition for r in self.rates if r.is_mean and row_table(r) == row_table(rate))
            )
            return builder.numbers(compared, function, conditions, rate.condition, overall)
        below = RowFunction(row_table(rate, "among"), self.surrogate, self.sharpness)
        means = [builder.numbers(compared, f, (None,), None, overall) for f in (function, below)]
        return builder.ratio(*means)

    def row_functions(self) -> tuple[tuple[RowFunction, int | None], ...]:
        if not self.against_everyone or not all(r.is_mean for r in self.rates):
            return ()
        return tuple((RowFunction(row_table(r), self.surrogate, self.sharpness), r.condition) for r in self.rates)

    def values(self, rows: Scored, compared: Compared) -> Values:
        one = self.rates[0]
        return Values.of_shares(self.shares(rows, compared), None if one.is_share else one.of_share)
