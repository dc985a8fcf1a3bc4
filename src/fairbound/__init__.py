"""fairbound: train models under fairness bounds that a person can state, check and defend."""

from fairbound import data, optim, report
from fairbound._version import __version__
from fairbound.audits.audit import audit
from fairbound.base.errors import FairboundError
from fairbound.estimators.classifier import FairClassifier
from fairbound.fairness.formulate import formulate
from fairbound.fairness.measuring import measure, scorer
from fairbound.fairness.notions import (
    ClassRisk,
    DemographicParity,
    EqualizedOdds,
    EqualOpportunity,
    LossGap,
    PredictiveEquality,
    constraint,
)
from fairbound.fairness.problem import FairProblem
from fairbound.methods import (
    ALM,
    DFLS,
    SFLS,
    SGD,
    SSLALM,
    YNW,
    CertifiedLevelSet,
    SGDFairret,
    StochasticGhost,
    SwitchingSubgradient,
)
from fairbound.rows.groups import Groups
from fairbound.solver.budget import Budget
from fairbound.solver.solve import solve
from fairbound.tables import TableEncoder

__all__ = [
    "ALM",
    "DFLS",
    "SFLS",
    "SGD",
    "SSLALM",
    "YNW",
    "Budget",
    "CertifiedLevelSet",
    "ClassRisk",
    "DemographicParity",
    "EqualOpportunity",
    "EqualizedOdds",
    "FairClassifier",
    "FairProblem",
    "FairboundError",
    "Groups",
    "LossGap",
    "PredictiveEquality",
    "SGDFairret",
    "StochasticGhost",
    "SwitchingSubgradient",
    "TableEncoder",
    "__version__",
    "audit",
    "constraint",
    "data",
    "formulate",
    "measure",
    "optim",
    "report",
    "scorer",
    "solve",
]
