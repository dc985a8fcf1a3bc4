"""What is mended in a trained classifier, one step after another. Each step returns what it is given where it is of no
use."""

from __future__ import annotations

from fairbound.estimators.corrections.last_intercept import (
    accurate_within_bounds,
    best_constant,
    clear_of_rounding,
    met_by_intercept,
)
from fairbound.estimators.linear.swept_intercept import swept_intercept
from fairbound.estimators.trained import Trained

CORRECTIONS = (met_by_intercept, swept_intercept, best_constant, accurate_within_bounds, clear_of_rounding)
"""In their order: a model that meets the bounds is looked for, then a better one, then decisions are made clear."""


def corrected(trained: Trained) -> Trained:
    """`trained` after all of `CORRECTIONS`."""
    for step in CORRECTIONS:
        trained = step(trained)
    return trained
