"""Notions that bound differences of rates of decisions between groups.

Source: Kliachkin et al. (2025), Table 1 and section 2; Hardt, Price, Srebro (2016); Agarwal et al. (2018); Berk,
Heidari, Jabbari, Kearns, Roth (2021) for treatment equality.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from fairbound.base.errors import OptionError
from fairbound.fairness.comparing import Compared
from fairbound.fairness.compiled.statistics import RATES
from fairbound.fairness.language import Key, Word
from fairbound.fairness.notions.checks import check_aggregated, check_pairwise
from fairbound.fairness.notions.groups import RateBound
from fairbound.fairness.notions.registry import register
from fairbound.rows.occurring import Occurring


@register("statistical_parity")
class DemographicParity(RateBound):
    """Selection rates Pr(score > 0 | group) differ by at most `bound` (statistical parity, independence)."""

    name = "demographic_parity"
    rates = (RATES["selection_rate"],)


@register()
@dataclass(frozen=True, kw_only=True)
class ConditionalDemographicParity(RateBound):
    """Selection rates of groups within every group of the attribute `given` differ by at most `bound`.

    given: one of the sensitive features; other bounds compare its groups too, unless they name their attributes.
    """

    given: str

    name = "conditional_demographic_parity"
    rates = (RATES["selection_rate"],)
    OPTIONS: ClassVar[Any] = {"given": Key("given"), **RateBound.OPTIONS}

    def __post_init__(self) -> None:
        if not isinstance(self.given, str) or not self.given:
            raise OptionError(f"given must be the name of a sensitive feature, got {self.given!r}.")
        check_pairwise(self)
        super().__post_init__()

    @property
    def within(self) -> str | None:
        return self.given


@register("true_positive_rate_parity")
class EqualOpportunity(RateBound):
    """True positive rates Pr(score > 0 | group, y = 1) differ by at most `bound`."""

    name = "equal_opportunity"
    rates = (RATES["true_positive_rate"],)


@register("false_positive_rate_parity")
class PredictiveEquality(RateBound):
    """False positive rates Pr(score > 0 | group, y = 0) differ by at most `bound`."""

    name = "predictive_equality"
    rates = (RATES["false_positive_rate"],)


@register("equalised_odds")
@dataclass(frozen=True, kw_only=True)
class EqualizedOdds(RateBound):
    """True and false positive rates differ by at most `bound`: the larger of the two differences ("max"),
    or their "sum"."""

    aggregated: Literal["max", "sum"] = "max"

    name = "equalized_odds"
    rates = (RATES["true_positive_rate"], RATES["false_positive_rate"])
    OPTIONS: ClassVar[Any] = {
        **RateBound.OPTIONS, "max": Word("aggregated", "max"), "sum": Word("aggregated", "sum")
    }  # fmt: skip

    def __post_init__(self) -> None:
        check_aggregated(self)
        super().__post_init__()

    @property
    def largest_bound(self) -> float:
        """The largest bound that says anything."""
        return 2.0 if self.summed else 1.0

    @property
    def summed(self) -> bool:
        return self.aggregated == "sum"


@register("accuracy_parity")
class ErrorRateParity(RateBound):
    """Error rates Pr(decision != y | group) differ by at most `bound` (overall accuracy equality)."""

    name = "error_rate_parity"
    rates = (RATES["error_rate"],)


@register()
class FalseNegativeRateParity(RateBound):
    """False negative rates Pr(score <= 0 | group, y = 1) differ by at most `bound`."""

    name = "false_negative_rate_parity"
    rates = (RATES["false_negative_rate"],)


@register()
class PredictiveParity(RateBound):
    """Positive predictive values Pr(y = 1 | group, score > 0) differ by at most `bound`."""

    name = "predictive_parity"
    rates = (RATES["positive_predictive_value"],)


@register()
class FalseOmissionRateParity(RateBound):
    """False omission rates Pr(y = 1 | group, score <= 0) differ by at most `bound`."""

    name = "false_omission_rate_parity"
    rates = (RATES["false_omission_rate"],)


@register()
class F1Parity(RateBound):
    """F1 scores 2 TP / (2 TP + FP + FN) of the groups differ by at most `bound`."""

    name = "f1_parity"
    rates = (RATES["f1"],)


@register()
class TreatmentEquality(RateBound):
    """Ratios of false negatives to false positives, FN / FP, of the groups differ by at most `bound`."""

    name = "treatment_equality"
    rates = (RATES["false_negatives_per_false_positive"],)
    most = float("inf")

    def counted(self, occurring: Occurring) -> list[tuple[Compared, np.ndarray]]:
        """No rows of a group without a row of label 0: it has no false positives, whatever is decided."""
        return [
            (found, np.where(occurring.per_group(found.attributes, 0)[found.codes] > 0, rows, 0))
            for found, rows in super().counted(occurring)
        ]

    def row_words(self, condition: int | None) -> str:
        return super().row_words(0)
