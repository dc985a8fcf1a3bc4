"""Notions that bound ratios of rates between groups from below: the four-fifths rule and its like.

For a stated bound t the inequality q_a >= t q_b is linear in the rates, so training is as for differences.

Source: Uniform Guidelines on Employee Selection Procedures (1978), 29 CFR 1607.4(D), for the four-fifths rule.
"""

from __future__ import annotations

from typing import ClassVar

from fairbound.base.errors import OptionError
from fairbound.fairness.compiled.statistics import RATES
from fairbound.fairness.notions.groups import RateBound
from fairbound.fairness.notions.registry import register


class RatioBound(RateBound):
    """The lowest rate of a group is at least `bound` times the rate that it is compared with, 0 < bound <= 1."""

    sense = "at least"
    example: ClassVar[str] = "0.8"
    measures: ClassVar[str] = "a ratio"
    compares = "ratios"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.bound == 0:
            raise OptionError(f"the bound of {self.name} must be above 0; every ratio is at least 0.")
        if self.against == "overall":
            raise OptionError(f"{self.name} compares groups with each other; take 'pairwise' or 'best'.")

    @property
    def fewest_rows(self) -> float:
        return 1 / max(1 - self.bound, 0.05) ** 2


@register()
class DemographicParityRatio(RatioBound):
    """Selection rates: the lowest over the highest is at least `bound`; 0.8 is the four-fifths rule."""

    name = "demographic_parity_ratio"
    rates = (RATES["selection_rate"],)


@register()
class TruePositiveRateRatio(RatioBound):
    """True positive rates: the lowest over the highest is at least `bound`."""

    name = "true_positive_rate_ratio"
    rates = (RATES["true_positive_rate"],)


@register()
class FalsePositiveRateRatio(RatioBound):
    """False positive rates: the lowest over the highest is at least `bound`."""

    name = "false_positive_rate_ratio"
    rates = (RATES["false_positive_rate"],)
