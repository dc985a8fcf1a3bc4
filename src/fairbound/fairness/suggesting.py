"""Which percentile interval to bound: of those around the rate of positive decisions, the one with the largest
disparity.

Source: He, Huang, Yao, Lin (2026), Appendix B. Departs: the source leaves the candidates open; here they are all
intervals of a few lengths with ends on a grid. Lengths are as those of the source's experiments, 0.2 to 0.3; a shorter
interval has fewer rows, and so a larger disparity by chance alone.
"""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np

from fairbound.base.errors import DataError, OptionError
from fairbound.fairness.notions import constraint
from fairbound.fairness.percentiles.intervals import Percentiles
from fairbound.fairness.percentiles.judging import Curves, curves_of
from fairbound.fairness.percentiles.score_profile import attribute_name, profile
from fairbound.fairness.scored import Scored
from fairbound.rows.groups import Groups
from fairbound.rows.reading import read_weights
from fairbound.rows.scores import as_logits

LENGTHS = (0.2, 0.25, 0.3)
STEP = 0.05
_NOTION = "partial_statistical_parity"


def suggest_interval(
    scores: Any,
    sensitive_features: Any,
    *,
    positive_rate: float | None = None,
    threshold: float | None = None,
    lengths: Sequence[float] = LENGTHS,
    step: float = STEP,
    sample_weight: Any = None,
) -> dict[str, Any]:
    """Suggest a percentile interval of scores to bound: the one on which the groups differ most, of those that hold
        the rate.

    scores: (n,) probabilities or real scores of a model trained without bounds, on rows that will not judge the final
        model.
    sensitive_features: as in `audit`; of several attributes the largest disparity counts.
    positive_rate: the rate of positive decisions, in [0, 1], such as last year's rate of admission; by default the
        share of scores above the threshold.
    threshold: where a positive decision begins, as in `audit`.
    lengths: of the intervals tried, in (0, 1]. step: of the grid that they begin on, in (0, 0.5].
    sample_weight: (n,) >= 0.

    Returns: plain data that `fairbound.report.interval_files` draws: "interval" (alpha, beta), "text" as a bound writes
        it, "value" (partial statistical parity of the scores there), "positive_rate", "threshold" (None where the rate
        is given), "candidates" (each with "interval" and "value", the largest first), and "profiles" (of each
        attribute the groups' scores and the disparity at every percentile).
    Raises: DataError for decisions in place of scores, EmptyGroupError where fewer than two groups have rows,
        OptionError for options out of range.
    """
    values, _ = as_logits(scores, 0.0)
    if len(np.unique(values)) < 3:
        raise DataError("a percentile interval needs scores or probabilities, and these have no more than two values.")
    weight = None if sample_weight is None else read_weights(sample_weight, len(values))
    groups = Groups.of_rows(Groups.of(sensitive_features), len(values))
    rate, decided_at = _rate(scores, values, positive_rate, threshold, weight)
    tried = candidates(rate, lengths, step)
    nobody = np.zeros(len(values), dtype=np.int64)
    rows = Scored(nobody, nobody, scores=values, groups=groups, weight=weight)
    curves, _ = curves_of(constraint(_NOTION, bound=1.0), rows)
    found = [(interval, max(distance(c, interval) for c in curves)) for interval in tried]
    found.sort(key=lambda one: (-round(one[1], 12), abs(sum(one[0].parts[0]) / 2 - rate)))
    best, value = found[0]
    return {
        "interval": list(best.parts[0]),
        "text": f"{_NOTION}[{best.text}]",
        "value": value,
        "positive_rate": rate,
        "threshold": decided_at,
        "rows": len(values),
        "candidates": [{"interval": list(interval.parts[0]), "value": v} for interval, v in found],
        "profiles": [
            profile(
                Curves(c.compared, c.thresholds, c.above, c.rows, c.count, [best] * len(c.compared)),
                attribute_name(c, groups.attributes),
            )
            for c in curves
        ],
    }


def candidates(rate: float, lengths: Sequence[float] = LENGTHS, step: float = STEP) -> list[Percentiles]:
    """The intervals [alpha, alpha + length) within [0, 1] with `rate` in them, alpha a multiple of `step`; 1 is in
    those that end there.

    Raises: OptionError where there is none, or lengths or step are out of range.
    """
    if not 0 < step <= 0.5:
        raise OptionError(f"step must lie in (0, 0.5], got {step!r}.")
    if not len(lengths) or not all(0 < length <= 1 for length in lengths):
        raise OptionError(f"lengths must be numbers in (0, 1], got {list(lengths)!r}.")
    out = []
    for length in lengths:
        for i in range(int(1 / step) + 1):
            a, b = round(i * step, 10), round(i * step + length, 10)
            if b <= 1 and a <= rate and (rate < b or rate == b == 1):
                out.append(Percentiles(((a, b),)))
    if not out:
        raise OptionError(
            f"no interval of lengths {list(lengths)} that begins at a multiple of {step:g} holds the rate {rate:.4g}; take a "
            "smaller step or longer ones."
        )
    return out


def distance(curves: Curves, interval: Percentiles) -> float:
    """Partial statistical parity on an interval: the largest difference of two
    compared groups' shares above any threshold."""
    through, stratum = interval.through(curves.above), curves.compared.stratum
    return max(float(np.ptp(through[stratum == one], axis=0).max()) for one in np.unique(stratum))


def _rate(
    scores: Any, values: np.ndarray, stated: float | None, threshold: float | None, weight: np.ndarray | None
) -> tuple[float, float | None]:
    """The rate of positive decisions, and the threshold that makes them, in the units of the scores."""
    if stated is None:
        decided, _ = as_logits(scores, threshold)
        probabilities = values.min() >= 0 and values.max() <= 1
        at = threshold if threshold is not None else 0.5 if probabilities else 0.0
        return float(np.average(decided > 0, weights=weight)), float(at)
    if threshold is not None:
        raise OptionError("give either positive_rate or threshold; the rate decides which intervals are tried.")
    if isinstance(stated, bool) or not isinstance(stated, numbers.Real) or not 0 <= stated <= 1:
        raise OptionError(f"positive_rate must lie in [0, 1], got {stated!r}.")
    return float(stated), None
