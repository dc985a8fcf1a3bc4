"""What a person can state: a bound on how far a group's mean may be from another's, or on the error of one class.

Every notion of fairness here bounds differences of group means of a per-row statistic: the decision `score > 0` (rates) or the
loss. A notion carries the exact metric (the statistic itself) and the surrogate it trains with. Bounds are in the
metric's units: 0.02 means that the measured difference is at most 0.02.

Source: Kliachkin et al. (2025), Table 1 and section 2; Hardt, Price, Srebro (2016); Agarwal et al. (2018).
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from numbers import Real
from typing import Any, ClassVar, Literal

from fairbound.base.errors import OptionError
from fairbound.fairness.class_risk import ClassRisk, class_risk

Against = Literal["pairwise", "overall", "best"]
Condition = int | None  # rows with this label only; None: all rows


@dataclass(frozen=True, kw_only=True)
class GroupGap:
    """|mean in a group - mean elsewhere| <= bound, for every group.

    bound: in the metric's units, 0 <= bound (at most 1 for rates).
    against: "pairwise" every two groups; "overall" each group and all rows whose group is known; "best" each group
        and the best-off one (highest rate, lowest loss).
    attributes: "each" sensitive attribute by itself, "crossed" for their combinations, or a tuple of names.
    surrogate: what training differentiates in place of the decision: "sigmoid", "hinge", "clipped" or "loss".
    sharpness: multiplies the score inside the surrogate; larger is nearer the decision and harder to train.
    empty: a group without a row to measure "raise"s EmptyGroupError, or is "drop"ped from the bound and reported.
    """

    bound: float
    against: Against = "pairwise"
    attributes: Literal["each", "crossed"] | tuple[str, ...] = "each"
    surrogate: Literal["sigmoid", "hinge", "clipped", "loss"] = "sigmoid"
    sharpness: float = 1.0
    empty: Literal["raise", "drop"] = "raise"

    name: ClassVar[str]
    statistic: ClassVar[Literal["rate", "loss"]]
    conditions: ClassVar[tuple[Condition, ...]] = (None,)
    sense: ClassVar[str] = "at most"

    def __post_init__(self) -> None:
        top = (
            1.0
            if self.statistic == "rate" and self.aggregation == "max"
            else 2.0
            if self.statistic == "rate"
            else math.inf
        )
        if not (isinstance(self.bound, Real) and 0 <= self.bound <= top and math.isfinite(self.bound)):
            raise OptionError(
                f"the bound of {self.name} must lie in [0, {top:g}], got {self.bound!r}; it is the largest "
                "difference you accept, in the units of the metric."
            )
        for option, allowed in (
            ("against", ("pairwise", "overall", "best")),
            ("empty", ("raise", "drop")),
            ("surrogate", ("sigmoid", "hinge", "clipped", "loss")),
        ):
            if getattr(self, option) not in allowed:
                raise OptionError(f"{option} must be one of {allowed}, got {getattr(self, option)!r}.")
        if not 0 < self.sharpness < math.inf:
            raise OptionError(f"sharpness must be positive and finite, got {self.sharpness}.")
        if self.attributes not in ("each", "crossed"):
            names = (self.attributes,) if isinstance(self.attributes, str) else tuple(self.attributes)
            if not names or not all(names) or len(set(names)) < len(names):
                raise OptionError(f"attributes must be 'each', 'crossed' or different names, got {self.attributes!r}.")
            object.__setattr__(self, "attributes", names)
        if self.against == "best" and self.aggregation == "sum":
            raise OptionError(f"against='best' needs one best-off group; {self.name}[sum] has none. Use 'pairwise'.")

    @property
    def level(self) -> float:
        """The bound as it was stated."""
        return self.bound

    def shown(self, value: Any) -> Any:
        """A difference, in the units of the bound as it was stated."""
        return value

    @property
    def aggregation(self) -> str:
        """How several conditions join: each its own bound ("max"), or their "sum" under one."""
        return "max"

    @property
    def conditioned(self) -> tuple[Condition, ...]:
        """The labels given which means are compared."""
        return self.conditions

    @property
    def text(self) -> str:
        """The bound as a person states it; `constraint(text)` gives this object back, unless the name of an attribute is
        itself a word of that language ("best", "max") or holds one of its signs (, + = ])."""
        options = []
        for f in fields(self):
            value = getattr(self, f.name)
            if f.name in ("bound", "aggregated", "given") or value == f.default:
                continue
            options.append(
                "+".join(value)
                if f.name == "attributes" and not isinstance(value, str)
                else str(value)
                if f.name in ("against", "attributes")
                else f"{f.name}={value}"
            )
        options += self._own_options()
        inside = f"[{','.join(options)}]" if options else ""
        short = f"{self.bound:g}"
        return f"{self.name}{inside} <= {short if float(short) == self.bound else repr(float(self.bound))}"

    def _own_options(self) -> list[str]:
        return []


@dataclass(frozen=True, kw_only=True)
class DemographicParity(GroupGap):
    """Selection rates Pr(score > 0 | group) differ by at most `bound` (statistical parity, independence)."""

    name = "demographic_parity"
    statistic = "rate"


@dataclass(frozen=True, kw_only=True)
class EqualOpportunity(GroupGap):
    """True positive rates Pr(score > 0 | group, y = 1) differ by at most `bound`."""

    name = "equal_opportunity"
    statistic = "rate"
    conditions = (1,)


@dataclass(frozen=True, kw_only=True)
class PredictiveEquality(GroupGap):
    """False positive rates Pr(score > 0 | group, y = 0) differ by at most `bound`."""

    name = "predictive_equality"
    statistic = "rate"
    conditions = (0,)


@dataclass(frozen=True, kw_only=True)
class EqualizedOdds(GroupGap):
    """True and false positive rates differ by at most `bound`: the larger of the two gaps ("max"), or their "sum"."""

    aggregated: Literal["max", "sum"] = "max"

    name = "equalized_odds"
    statistic = "rate"
    conditions = (1, 0)

    def __post_init__(self) -> None:
        if self.aggregated not in ("max", "sum"):
            raise OptionError(f"aggregated must be 'max' or 'sum', got {self.aggregated!r}.")
        super().__post_init__()

    @property
    def aggregation(self) -> str:
        return self.aggregated

    def _own_options(self) -> list[str]:
        return ["sum"] if self.aggregated == "sum" else []


@dataclass(frozen=True, kw_only=True)
class LossGap(GroupGap):
    """Mean losses differ by at most `bound`; `given` 1 or 0 restricts to rows with that label, "both" to each in turn.

    aggregated: with given="both", the larger of the two gaps is bounded ("max"), or their "sum".
    Kliachkin et al. (2025), Table 1, state on losses: demographic parity (given=None), equal opportunity (given=1) and
    equalised odds (given="both", aggregated="sum").
    """

    given: Literal[0, 1, "both"] | None = None
    aggregated: Literal["max", "sum"] = "max"

    name = "loss_gap"
    statistic = "loss"

    def __post_init__(self) -> None:
        if self.given not in (None, 0, 1, "both"):
            raise OptionError(f"given must be None, 0, 1 or 'both', got {self.given!r}.")
        if self.aggregated not in ("max", "sum"):
            raise OptionError(f"aggregated must be 'max' or 'sum', got {self.aggregated!r}.")
        if self.aggregated == "sum" and self.given != "both":
            raise OptionError("loss_gap[sum] adds the gaps of both labels; say y=both with it.")
        if self.surrogate != "sigmoid" or self.sharpness != 1.0:
            raise OptionError("loss_gap trains on the loss itself; surrogate and sharpness are for bounds on rates.")
        super().__post_init__()

    @property
    def conditioned(self) -> tuple[Condition, ...]:
        return (1, 0) if self.given == "both" else (self.given,)

    @property
    def aggregation(self) -> str:
        return self.aggregated

    def _own_options(self) -> list[str]:
        return ([] if self.given is None else [f"y={self.given}"]) + (["sum"] if self.aggregated == "sum" else [])


Notion = GroupGap | ClassRisk

NOTIONS: dict[str, type[GroupGap]] = {
    c.name: c for c in (DemographicParity, EqualOpportunity, PredictiveEquality, EqualizedOdds, LossGap)
}
NOTIONS |= {"statistical_parity": DemographicParity, "equalised_odds": EqualizedOdds}

_TEXT = re.compile(r"^\s*([a-z_]+)\s*(?:\[([^\]]*)\])?\s*(?:<=|≤)\s*([^\s]+)\s*$")


def constraint(text: str | Notion) -> Notion:
    """The bound stated by `text`, as in "demographic_parity <= 0.02" or "equalized_odds[sum,crossed] <= 0.05".

    Inside the brackets, separated by commas: pairwise | overall | best; each | crossed | attribute names joined by
    "+"; max | sum (equalised odds; loss gap with y=both); y=1 | y=0 | y=both (loss gap); surrogate=...,
    sharpness=..., empty=...
    Of one class: "recall of class b >= 0.95" or "recall[b] >= 0.95"; "error of class b <= 0.05" or "error[b] <= 0.05".
    Raises: OptionError naming what was not understood.
    """
    if isinstance(text, (GroupGap, ClassRisk)):
        return text
    risk = class_risk(text) if isinstance(text, str) else None
    if risk is not None:
        return risk
    match = _TEXT.match(text) if isinstance(text, str) else None
    if not match:
        raise OptionError(f"cannot read the constraint {text!r}; write it like 'demographic_parity <= 0.02'.")
    name, inside, bound_text = match.groups()
    if name not in NOTIONS:
        near = difflib.get_close_matches(name, [*NOTIONS, "recall", "error"], 1)
        meant = f"did you mean {near[0]!r}? " if near else ""
        raise OptionError(f"unknown constraint {name!r}; {meant}known: {', '.join(sorted(NOTIONS))}, recall, error.")
    try:
        options: dict = {"bound": float(bound_text)}
    except ValueError:
        raise OptionError(f"the bound {bound_text!r} in {text!r} is not a number.") from None
    notion = NOTIONS[name]
    for option in filter(None, (o.strip() for o in (inside or "").split(","))):
        key, _, value = option.partition("=")
        if option in ("pairwise", "overall", "best"):
            options["against"] = option
        elif option in ("each", "crossed"):
            options["attributes"] = option
        elif option in ("max", "sum") and notion in (EqualizedOdds, LossGap):
            options["aggregated"] = option
        elif key == "y" and notion is LossGap:
            options["given"] = value if value == "both" else int(value) if value in ("0", "1") else value
        elif key in ("surrogate", "empty"):
            options[key] = value
        elif key == "sharpness":
            try:
                options[key] = float(value)
            except ValueError:
                raise OptionError(f"the sharpness {value!r} in {text!r} is not a number.") from None
        elif value:
            raise OptionError(f"unknown option {option!r} in {text!r}.")
        else:
            options["attributes"] = tuple(option.split("+"))
    return notion(**options)


def constraints(stated: str | Notion | Sequence[str | Notion] | None) -> tuple[Notion, ...]:
    """One or several bounds as objects."""
    if stated is None:
        return ()
    if isinstance(stated, (str, GroupGap, ClassRisk)):
        stated = [stated]
    return tuple(constraint(s) for s in stated)
