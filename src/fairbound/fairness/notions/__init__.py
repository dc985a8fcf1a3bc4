"""The notions: what a person can bound. One file per family; the registry turns text into bounds."""

from fairbound.fairness.bound import Bound
from fairbound.fairness.notions.auc import AUCParity
from fairbound.fairness.notions.class_rates import (
    ClassDemographicParity,
    ClassEqualizedOdds,
    ClassErrorParity,
    ClassRecallParity,
)
from fairbound.fairness.notions.classes import ClassRisk
from fairbound.fairness.notions.gaps import (
    ConditionalDemographicParity,
    DemographicParity,
    EqualizedOdds,
    EqualOpportunity,
    ErrorRateParity,
    F1Parity,
    FalseNegativeRateParity,
    FalseOmissionRateParity,
    PredictiveEquality,
    PredictiveParity,
    TreatmentEquality,
)
from fairbound.fairness.notions.losses import GroupLoss, LossGap
from fairbound.fairness.notions.partial import (
    PartialDemographicParity,
    PartialEqualizedOdds,
    PartialEqualOpportunity,
    PartialGroupAUC,
    PartialStatisticalParity,
)
from fairbound.fairness.notions.rankings import ExposureParity, PairwiseParity, QueryPairwiseParity
from fairbound.fairness.notions.ratios import DemographicParityRatio, FalsePositiveRateRatio, TruePositiveRateRatio
from fairbound.fairness.notions.registry import NOTIONS, constraint, constraints, register
from fairbound.fairness.notions.regression import GroupSquaredError, PredictionParity, ResidualGap

__all__ = [
    "NOTIONS",
    "AUCParity",
    "Bound",
    "ClassDemographicParity",
    "ClassEqualizedOdds",
    "ClassErrorParity",
    "ClassRecallParity",
    "ClassRisk",
    "ConditionalDemographicParity",
    "DemographicParity",
    "DemographicParityRatio",
    "EqualOpportunity",
    "EqualizedOdds",
    "ErrorRateParity",
    "ExposureParity",
    "F1Parity",
    "FalseNegativeRateParity",
    "FalseOmissionRateParity",
    "FalsePositiveRateRatio",
    "GroupLoss",
    "GroupSquaredError",
    "LossGap",
    "PairwiseParity",
    "PartialDemographicParity",
    "PartialEqualOpportunity",
    "PartialEqualizedOdds",
    "PartialGroupAUC",
    "PartialStatisticalParity",
    "PredictionParity",
    "PredictiveEquality",
    "PredictiveParity",
    "QueryPairwiseParity",
    "ResidualGap",
    "TreatmentEquality",
    "TruePositiveRateRatio",
    "constraint",
    "constraints",
    "register",
]
