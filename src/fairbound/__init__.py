"""fairbound: train models under fairness bounds that a person can state, check and defend.

Names are imported when they are first used, so that `import fairbound` costs little.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fairbound.base.version import __version__

if TYPE_CHECKING:
    from fairbound import data, methods, metrics, optim, report
    from fairbound.audits.audit import audit
    from fairbound.audits.compare import compare
    from fairbound.audits.counts import AuditCounts
    from fairbound.base.errors import DataWarning, FairboundError
    from fairbound.estimators.classifier import FairClassifier
    from fairbound.estimators.feasibility import feasibility
    from fairbound.estimators.loading import load
    from fairbound.estimators.ranker import FairRanker
    from fairbound.estimators.reduction import Reduction
    from fairbound.estimators.regressor import FairRegressor
    from fairbound.estimators.streaming_auc import StreamingAUC
    from fairbound.fairness.formulate import formulate
    from fairbound.fairness.measuring import measure
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
    from fairbound.fairness.scorer import scorer
    from fairbound.fairness.suggesting import suggest_interval
    from fairbound.methods import (
        ALM,
        DFLS,
        PLADA,
        SFLS,
        SGD,
        SMD,
        SSLALM,
        YNW,
        CertifiedLevelSet,
        FullBatchALM,
        ProxyLagrangian,
        SGDCorrelation,
        SGDFairret,
        StochasticGhost,
        SwitchingSubgradient,
    )
    from fairbound.monitoring.monitor import Monitor
    from fairbound.postprocessing.processor import PostProcessor
    from fairbound.postprocessing.scale_and_shift import ScaleAndShift
    from fairbound.rows.groups import Groups
    from fairbound.solver.budget import Budget
    from fairbound.solver.diagnosis import diagnose
    from fairbound.solver.solve import solve
    from fairbound.subproblems.multipliers import kkt
    from fairbound.tables import TableEncoder, TableOptions

_ROOMS = ("data", "methods", "metrics", "optim", "report")
_WHERE = {
    "ALM": "fairbound.methods",
    "AuditCounts": "fairbound.audits.counts",
    "Budget": "fairbound.solver.budget",
    "CertifiedLevelSet": "fairbound.methods",
    "ClassRisk": "fairbound.fairness.notions",
    "DFLS": "fairbound.methods",
    "DataWarning": "fairbound.base.errors",
    "DemographicParity": "fairbound.fairness.notions",
    "EqualOpportunity": "fairbound.fairness.notions",
    "EqualizedOdds": "fairbound.fairness.notions",
    "FairClassifier": "fairbound.estimators.classifier",
    "FairProblem": "fairbound.fairness.problem",
    "FairRanker": "fairbound.estimators.ranker",
    "FairRegressor": "fairbound.estimators.regressor",
    "FairboundError": "fairbound.base.errors",
    "FullBatchALM": "fairbound.methods",
    "Groups": "fairbound.rows.groups",
    "LossGap": "fairbound.fairness.notions",
    "Monitor": "fairbound.monitoring.monitor",
    "PLADA": "fairbound.methods",
    "PostProcessor": "fairbound.postprocessing.processor",
    "PredictiveEquality": "fairbound.fairness.notions",
    "Reduction": "fairbound.estimators.reduction",
    "SFLS": "fairbound.methods",
    "SGD": "fairbound.methods",
    "ProxyLagrangian": "fairbound.methods",
    "SGDCorrelation": "fairbound.methods",
    "SGDFairret": "fairbound.methods",
    "ScaleAndShift": "fairbound.postprocessing.scale_and_shift",
    "SMD": "fairbound.methods",
    "SSLALM": "fairbound.methods",
    "StochasticGhost": "fairbound.methods",
    "StreamingAUC": "fairbound.estimators.streaming_auc",
    "SwitchingSubgradient": "fairbound.methods",
    "TableEncoder": "fairbound.tables",
    "TableOptions": "fairbound.tables",
    "YNW": "fairbound.methods",
    "audit": "fairbound.audits.audit",
    "compare": "fairbound.audits.compare",
    "constraint": "fairbound.fairness.notions",
    "diagnose": "fairbound.solver.diagnosis",
    "feasibility": "fairbound.estimators.feasibility",
    "formulate": "fairbound.fairness.formulate",
    "kkt": "fairbound.subproblems.multipliers",
    "load": "fairbound.estimators.loading",
    "measure": "fairbound.fairness.measuring",
    "scorer": "fairbound.fairness.scorer",
    "solve": "fairbound.solver.solve",
    "suggest_interval": "fairbound.fairness.suggesting",
}


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"fairbound.{name}")
    if name in _WHERE:
        value = globals()[name] = getattr(import_module(_WHERE[name]), name)
        return value
    raise AttributeError(f"module 'fairbound' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "ALM",
    "DFLS",
    "PLADA",
    "SFLS",
    "SGD",
    "SMD",
    "SSLALM",
    "YNW",
    "AuditCounts",
    "Budget",
    "CertifiedLevelSet",
    "ClassRisk",
    "DataWarning",
    "DemographicParity",
    "EqualOpportunity",
    "EqualizedOdds",
    "FairClassifier",
    "FairProblem",
    "FairRanker",
    "FairRegressor",
    "FairboundError",
    "FullBatchALM",
    "Groups",
    "LossGap",
    "Monitor",
    "PostProcessor",
    "PredictiveEquality",
    "ProxyLagrangian",
    "Reduction",
    "SGDCorrelation",
    "SGDFairret",
    "ScaleAndShift",
    "StochasticGhost",
    "StreamingAUC",
    "SwitchingSubgradient",
    "TableEncoder",
    "TableOptions",
    "__version__",
    "audit",
    "compare",
    "constraint",
    "data",
    "diagnose",
    "feasibility",
    "formulate",
    "kkt",
    "load",
    "measure",
    "methods",
    "metrics",
    "optim",
    "report",
    "scorer",
    "solve",
    "suggest_interval",
]
