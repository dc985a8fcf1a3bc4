"""Verdicts where rows come in clusters: cells that have clusters in common, and what the method's name says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse import vstack

from fairbound.base.errors import OptionError
from fairbound.confidence.contrasts import Contrasts
from fairbound.confidence.effective_rows import shared_clusters
from fairbound.fairness.scored import Scored
from fairbound.fairness.verdicts.values import Values, quotient

STEP = 1e-4


def method_of_rows(method: str, rows: Scored) -> str:
    """The name of a method, with what weights and clusters make of the rows."""
    sure = "guaranteed" in method
    if rows.weight is not None and not sure:
        method += "; weighted rows by their effective number (asymptotic)"
    if rows.clusters is not None:
        method += (
            "; the rows of a cluster as one, if none may have more rows than the largest here"
            if sure
            else "; rows of clusters by their effective number (asymptotic)"
        )
    return method


def with_shared_clusters(bound: Any, values: Sequence[Values], contrasts: Contrasts) -> list[Values]:
    """The values, with so much less evidence as the clusters that cells have in common take from the contrasts.

    Raises: OptionError for a notion whose values do not heed clusters.
    """
    if any(v.moved is None for v in values):
        raise OptionError(
            f"{bound.statement!r} cannot be judged where rows come in clusters: its values do not heed them."
        )
    slopes = np.concatenate([np.ravel(_slopes(v)) for v in values])
    by_slope = Contrasts(contrasts.index, contrasts.coefficient * slopes[contrasts.index])
    factor, out, start = shared_clusters(vstack([v.moved for v in values], "csr"), by_slope), [], 0
    for v in values:
        f = factor[start : start + v.trials.size].reshape(v.trials.shape)
        start += v.trials.size
        if v.means is None:
            out.append(replace(v, successes=v.successes / f, trials=v.trials / f))
        else:
            out.append(replace(v, variances=v.variances * f))
    return out


def _slopes(values: Values) -> np.ndarray:
    """(R, k) by how much each value grows with its share or mean; 0 where that is infinite."""
    if values.transform is None:
        return np.ones(values.trials.shape)
    p = np.nan_to_num(quotient(values.successes, values.trials))
    high, low = np.minimum(p + STEP, 1), np.maximum(p - STEP, 0)
    image: Callable[[Any], np.ndarray] = values.transform
    with np.errstate(invalid="ignore"):
        slope = (image(high) - image(low)) / (high - low)
    return np.where(np.isfinite(slope), slope, 0.0)
