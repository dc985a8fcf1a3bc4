"""A threshold for each group on top of any score: the most accurate decisions under bounds on rates of groups."""

from fairbound.postprocessing.fitting import RuleOptions, fit_rule
from fairbound.postprocessing.rule import GroupRule, UnknownGroupError

__all__ = ["GroupRule", "RuleOptions", "UnknownGroupError", "fit_rule"]
