"""How limits of a bound were computed, in words that name every part (docs/intervals.md has the formulas)."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairbound.confidence.contrasts import Contrasts, pair_level

_WHOLE = "upper bound: each comparison at the whole level (intersection-union)"
_SHARED = "Bonferroni over comparisons"
_JOINTLY = f"jointly over the pairs that can lie near it (Mantel) where there is room, else {_SHARED}"
STATED = "Bonferroni over stated bounds"

OF_RATIOS = (
    "MOVER: Clopper-Pearson limits of the single rates joined for their ratios, widened by half a row; lower bound: each comparison "
    f"at the whole level (intersection-union); upper bound: {_SHARED}; {STATED}"
)


def method_of_rates(what: str, contrasts: Contrasts, alpha: float, transformed: bool = False) -> str:
    """Of `rate_bounds`. what: the contrasts are, as "differences". transformed: of functions of rates, as F1 scores."""
    half = "half a row" + ("" if transformed or contrasts.pairs() is None else ", the larger 1 / (2 n)")
    below = _SHARED if pair_level(contrasts, alpha) is None else _JOINTLY
    between = "" if contrasts.between is None else ", and by the shares of the groups, which are measured too"
    return (
        f"MOVER: Clopper-Pearson limits of the single rates joined for their {what}, widened by {half}{between}; {_WHOLE}; "
        f"lower bound: {below}; {STATED}"
    )


def method_of_means(bound: Any, contrasts: Contrasts) -> str:
    """Of `welch_bounds`, of values without a range."""
    means = f"means of {_averaged(bound)} (asymptotic)"
    if _single(contrasts):
        return f"Student's t for {means}; {_WHOLE}; lower bound: {_SHARED}; {STATED}"
    return f"Welch's t for differences of {means}; {_WHOLE}; lower bound: {_SHARED}; {STATED}"


def method_of_bets(bound: Any, contrasts: Contrasts, least: float, largest: float, weighted: bool) -> str:
    """Of `mean_bounds`, of values between least and largest."""
    between = f"up to {largest:g}" if least == 0 else f"from {least:g} to {largest:g}"
    sure = "guaranteed if no row can weigh more than the heaviest here" if weighted else "guaranteed"
    upper = _WHOLE if _single(contrasts) else "upper bound: Bonferroni over the groups of one comparison"
    return f"betting limits of means of {_averaged(bound)} {between} ({sure}); {upper}; lower bound: Bonferroni over groups; {STATED}"


def _averaged(bound: Any) -> str:
    return str(getattr(bound, "averages", "values"))


def _single(contrasts: Contrasts) -> bool:
    """Whether each contrast is of one cell alone."""
    return bool((np.count_nonzero(contrasts.coefficient, axis=1) == 1).all())
