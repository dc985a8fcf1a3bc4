"""Bounds on the rows of each group whose scores lie in a percentile interval; percentile 0 is the highest score.

    partial_statistical_parity[0.05:0.3]   the scores of these rows have one distribution: the largest difference of the shares
                                           above a threshold, of any threshold
    partial_demographic_parity[0.05:0.3]   their shares of positive decisions
    partial_group_auc[0.05:0.3]            |AUC(a, b) - 1/2| of these rows
    partial_equal_opportunity[0.05:0.3]    shares of positive decisions, of the interval of the positive rows, which are
                                           ranked among the positive rows of their group
    partial_equalized_odds[0.05:0.3]       the same of the positive and of the negative rows, each ranked among themselves

"0:0.1+0.9:1" is a union, "Female@0.1:0.4" gives one group intervals of its own. Without an interval all rows count, and
these are statistical parity of scores (Kolmogorov-Smirnov), demographic parity, group AUC, equal opportunity and
equalized odds.

Source: He, Huang, Yao, Lin (2026), Definitions 4.2, 4.3, A.1 to A.3, (50), (56).
Departs: see `percentiles` for tied scores; in an area ties count one half. A.2 and A.3 rank a row in its whole group
    and then take the rows of a label; (50) and (56), which the source trains by, rank it among the rows of that label
    in its group. Here it is the latter: with ranks in the group the number of rows of a label within the interval
    itself depends on the scores, so that their share is no difference of convex functions over a constant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from fairbound.base.checks import positive
from fairbound.base.errors import EmptyGroupError, OptionError
from fairbound.fairness.comparing import Compared, differences
from fairbound.fairness.compiled.builder import Builder
from fairbound.fairness.compiled.statistics import LOSS, RATES
from fairbound.fairness.language import Form, Key, number_text
from fairbound.fairness.notions.auc import pair_loss
from fairbound.fairness.notions.checks import check_pairwise
from fairbound.fairness.notions.groups import DecisionBound, GroupBound
from fairbound.fairness.notions.registry import register
from fairbound.fairness.percentiles.interval_shares import GridParity, WithinShares
from fairbound.fairness.percentiles.intervals import EVERYTHING, Percentiles, read_own
from fairbound.fairness.percentiles.judging import gaps_at_thresholds, judge_curves, measured_curves
from fairbound.fairness.percentiles.steps import step_named
from fairbound.fairness.percentiles.window_pairs import WindowPairs, area
from fairbound.fairness.scored import Finding, Scored
from fairbound.fairness.verdicts.judging import measured_contrasts
from fairbound.fairness.verdicts.values import Values

LEAST_POINTS, MOST_POINTS = 10, 40
"""Percentiles at which training compares distributions: one for each `bound` of the interval, within these."""

ROUNDING = 1e-6
"""What float32 leaves of a share of 0 or 1."""

LABELS = {None: "", 1: " of positive labels", 0: " of negative labels"}
"""What a note says of an interval of the rows of a label."""


@dataclass(frozen=True, kw_only=True)
class PartialBound(GroupBound):
    """Groups differ by at most `bound` in their rows whose scores lie in a percentile interval of the group.

    interval: of every group; own: (group, interval) of groups with an interval of their own.
    surrogate: what training puts in place of "above": "logistic" or "clip" of the distance times sharpness.
    """

    interval: Percentiles = EVERYTHING
    own: tuple[tuple[str, Percentiles], ...] = ()
    surrogate: Literal["logistic", "clip"] = "logistic"
    sharpness: float = 1.0

    needs = frozenset({"groups", "two classes", "scores"})
    OPTIONS: ClassVar[Any] = {
        "interval": Form("interval", Percentiles.read, lambda i: i.text, "0.05:0.3"),
        "own": Form("own", read_own, lambda o: f"{o[0]}@{o[1].text}", "GROUP@0.05:0.3", many=True),
        **{key: option for key, option in GroupBound.OPTIONS.items() if key not in ("best", "overall", "pairwise")},
        "surrogate": Key("surrogate"),
        "sharpness": Key("sharpness", float, number_text),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        check_pairwise(self)
        step_named(self.surrogate, self.sharpness)
        positive(self, "sharpness")
        if len({name for name, _ in self.own}) < len(self.own):
            raise OptionError(f"{self.text!r} gives a group two intervals; keep one, or join them by +.")

    def step_of(self, rows: int) -> float:
        return 0.0

    def jump(self, rows: int) -> float:
        """The largest jump of the curve T of so many rows with different scores; the smallest of all intervals."""
        ranks = np.arange(rows + 1) / rows
        return min(float(np.diff(i.through(ranks)).max()) for i in (self.interval, *(own for _, own in self.own)))

    def conditions(self) -> tuple[int | None, ...]:
        return (None,)

    def score_curves(self) -> tuple[tuple[PartialStatisticalParity, int | None], ...]:
        curve = PartialStatisticalParity(
            bound=1.0, interval=self.interval, own=self.own, attributes=self.attributes, fewest=self.fewest
        )
        return tuple((curve, condition) for condition in self.conditions())

    def intervals_of(self, compared: Compared) -> tuple[Percentiles, ...]:
        """The intervals of each of k groups. Raises: OptionError for the name of no group."""
        names, own = [compared.plain_name(g) for g in range(len(compared.codes))], dict(self.own)
        known = {group for labels in compared.labels for group in labels} | set(names)
        if strange := [name for name in own if name not in known]:
            raise OptionError(
                f"{self.text!r} gives intervals to {strange[0]!r}, which is none of the groups {', '.join(names)}."
            )
        return tuple(own.get(name, self.interval) for name in names)


@register("partial_sp")
@dataclass(frozen=True, kw_only=True)
class PartialStatisticalParity(PartialBound):
    """The distributions of the scores of these rows differ, in the share above any threshold, by at most `bound`.

    points: percentiles at which training compares them, None for 1 / bound, at least 10 and at most 40; the verdict and
        the choice of the model look at every threshold.
    sharpness: methods that sharpen surrogates begin at it.
    """

    points: int | None = None
    sharpness: float = 0.5

    name = "partial_statistical_parity"
    example = "0.1"
    free_thresholds = True
    contrasts = gaps_at_thresholds
    measures: ClassVar[str] = "a difference of distributions"
    OPTIONS: ClassVar[Any] = {**PartialBound.OPTIONS, "points": Key("points", int)}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.points is not None and (not isinstance(self.points, int) or self.points < 1):
            raise OptionError(f"points must be a whole number of at least 1, got {self.points!r}.")

    def step_of(self, rows: int) -> float:
        """Half a jump: the least distance of a curve that jumps from one that does not jump there."""
        return self.jump(rows) / 2

    def gap(self, a: np.ndarray, b: np.ndarray) -> float:
        """The largest difference of two curves (t,)."""
        return float((a - b).max())

    def levels(self) -> np.ndarray:
        """(points,) shares of the rows of the interval, equally spaced inside [0, 1 - bound]."""
        points = self.points or math.ceil(max(LEAST_POINTS, min(1 / max(self.bound, 1e-9), MOST_POINTS)))
        return (1 - self.bound) * np.arange(1, points + 1) / (points + 1)

    def compile(self, builder: Builder) -> None:
        step = step_named(self.surrogate, self.sharpness)
        for compared, _ in self.compared(builder.occurring):
            builder.drop(compared)
            column = builder.cells_of(LOSS, compared, (None,))
            levels = self.levels()
            intervals = self.intervals_of(compared)
            middle = np.mean([i.rank(levels) + i.rank(levels + self.bound) for i in intervals], axis=0) / 2
            places = builder.auxiliaries + np.arange(len(levels))
            builder.auxiliary(len(levels), tuple(step.threshold(p) for p in middle.tolist()))
            made = builder.statistic(
                GridParity(
                    column.offset,
                    _sets(column, compared),
                    step,
                    intervals,
                    places=places,
                    levels=levels,
                    kappa=self.bound,
                )
            )
            builder.contrasts(made[:, None], [1.0], partial(_name, compared, levels))

    def measure(self, rows: Scored) -> float:
        return float(measured_curves(self, rows).max())

    def judge(self, rows: Scored, alpha: float) -> Finding:
        return judge_curves(self, rows, alpha)


@register("partial_gauc")
class PartialGroupAUC(PartialBound):
    """|AUC(a, b) - 1/2| of these rows of every two groups is at most `bound`:
    neither group is ranked above the other."""

    name = "partial_group_auc"
    measures: ClassVar[str] = "a difference of areas"
    contrasts = measured_curves

    def gap(self, a: np.ndarray, b: np.ndarray) -> float:
        """AUC(a, b) - 1/2 of two curves (t,)."""
        return area(a, b) - 0.5

    def compile(self, builder: Builder) -> None:
        loss = pair_loss({"clip": "ramp", "logistic": "sigmoid"}[self.surrogate], self.sharpness, 1.0)
        for compared, _ in self.compared(builder.occurring):
            builder.drop(compared)
            column = builder.cells_of(LOSS, compared, (None,))
            first, second = (
                np.stack(p, 1).ravel() for p in (compared.pairs("pairwise"), compared.pairs("pairwise")[::-1])
            )
            pairs = np.stack([second, first], 1)[:, None]
            intervals = self.intervals_of(compared)
            made = builder.statistic(
                WindowPairs(column.offset, _sets(column, compared), pairs, loss, -0.5, intervals=intervals)
            )
            builder.contrasts(made[:, None], [1.0], partial(_above, compared, first, second))

    def measure(self, rows: Scored) -> float:
        return float(measured_curves(self, rows).max())

    def judge(self, rows: Scored, alpha: float) -> Finding:
        return judge_curves(self, rows, alpha)


class PartialRateBound(DecisionBound, PartialBound):
    """Shares of positive decisions among these rows."""

    contrasts = measured_contrasts

    def step_of(self, rows: int) -> float:
        return self.jump(rows)

    def compile(self, builder: Builder) -> None:
        step, conditions = step_named(self.surrogate, self.sharpness), self.conditions()
        for compared, _ in self.compared(builder.occurring):
            builder.drop(compared)
            column = builder.cells_of(LOSS, compared, conditions)
            sets = np.concatenate([_sets(column, compared, place) for place in range(len(conditions))])
            intervals = self.intervals_of(compared) * len(conditions)
            made = builder.statistic(WithinShares(column.offset, sets, step, intervals))
            found = differences(compared, "pairwise", self.tails)
            k = len(compared)
            index = found.index - found.index // (k + 1)  # units without the overall ones are the sets in order
            builder.contrasts(made[index], found.coefficient, found.name)

    def values(self, rows: Scored, compared: Compared) -> Values:
        through = _through(self.intervals_of(compared), len(self.rates))
        return Values.of_shares(self.shares(rows, compared), through)

    def met_trivially(self, rows: Scored) -> str:
        try:
            found = [self.values(rows, compared).estimates for compared, _ in self.compared(rows.occurring, "drop")]
        except EmptyGroupError:
            return ""
        return "" if len(np.unique(rows.predicted)) < 2 else self.outside_words(found)

    def outside_words(self, found: Sequence[np.ndarray]) -> str:
        shares = np.concatenate([one.reshape(len(self.rates), -1) for one in found], axis=1)
        first = shares[:, 0].round()
        if not (np.abs(shares - first[:, None]) < ROUNDING).all():
            return ""
        conditions, decided = self.conditions(), ["positive" if one else "negative" for one in first]
        both = len(conditions) > 1
        whose, share = LABELS[conditions[0]], " of each label" if both else " among them" * (conditions[0] is not None)
        if both and len(set(decided)) == 1:
            whose = " of either label"
        each = f"every row of the interval{whose} is predicted {decided[0]}"
        if len(set(decided)) > 1:
            each += f",{LABELS[conditions[1]]} {decided[1]}"
        return (
            f"{self.text}: in every group the line between positive and negative decisions lies outside the interval, so {each}. "
            "It is met trivially, with value 0, and asks nothing of other rows. An interval around the share of positive decisions"
            f"{share} tells more; partial_statistical_parity compares the scores."
        )


def _above(compared: Compared, first: np.ndarray, second: np.ndarray, i: int) -> str:
    """The name of the i-th constraint: who is ranked above whom."""
    return f"{compared.name(int(first[i]))} above {compared.name(int(second[i]))}"


def _name(compared: Compared, levels: np.ndarray, i: int) -> str:
    """The name of the i-th constraint: group, level, and the side of the level."""
    below, place = divmod(i, len(compared) * len(levels))
    return (
        f"{compared.name(place // len(levels))} at {levels[place % len(levels)]:.3g}, {'below' if below else 'above'}"
    )


def _sets(column: Any, compared: Compared, place: int = 0) -> np.ndarray:
    """(k, cells) the cell of each group, of the place-th condition of the column."""
    sets = np.zeros((len(compared), column.cells), dtype=bool)
    sets[np.arange(len(compared)), place * column.groups + compared.codes] = True
    return sets


def _through(intervals: tuple[Percentiles, ...], values: int) -> Callable[[Any], np.ndarray]:
    """T of shares (..., k) or (..., values k) of the groups; of any shape where all intervals are one."""
    if len(set(intervals)) == 1:
        return intervals[0].through

    def of(p: Any) -> np.ndarray:
        p = np.asarray(p, dtype=np.float64)
        if p.shape[-1] not in (len(intervals), values * len(intervals)):
            return p  # the ends 0 and 1, where every T is as it was
        each = intervals * (p.shape[-1] // len(intervals))
        return np.stack([i.through(p[..., j]) for j, i in enumerate(each)], axis=-1)

    return of


@register("partial_dp")
class PartialDemographicParity(PartialRateBound):
    """Shares of positive decisions among these rows differ by at most `bound`."""

    name = "partial_demographic_parity"
    rates = (RATES["selection_rate"],)


@register("partial_eop")
class PartialEqualOpportunity(PartialRateBound):
    """Shares of positive decisions differ by at most `bound` among the positive rows whose rank among the positive rows of
    their group lies in the interval."""

    name = "partial_equal_opportunity"
    rates = (RATES["true_positive_rate"],)


@register("partial_equalised_odds", "partial_eod")
class PartialEqualizedOdds(PartialRateBound):
    """Shares of positive decisions differ by at most `bound` among the positive rows whose rank among the positive rows of
    their group lies in the interval, and the same of the negative rows."""

    name = "partial_equalized_odds"
    rates = (RATES["true_positive_rate"], RATES["false_positive_rate"])
