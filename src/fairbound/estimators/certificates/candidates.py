"""The models that a certificate tries: without the bounds, under the stated ones, and under tighter and tighter ones.

How far the tighter bounds lie inside the stated ones is measured in half-widths of the interval that the rows to
certify will give, estimated on the other rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from sklearn.base import clone

from fairbound.estimators.certificates.frontier import frontier
from fairbound.estimators.certificates.judged_models import Judged, half_width, judged
from fairbound.estimators.judged_rows import JudgedRows
from fairbound.fairness.bound import Bound
from fairbound.methods import FullBatchALM

INSIDE = (0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0)
"""Half-widths by which the bounds of further candidates lie inside the stated ones;
the first to be tested is the last of these."""

INSIDE_FEW = (1.0, 2.0, 3.0)
"""These half-widths for methods of random batches, each of whose runs takes its whole budget."""

INSIDE_SMOOTH = (2.0, 3.0, 4.0)
"""These half-widths for models held to smoothed decisions. Such models are mostly tested first, and one that fails
keeps all others from being tested."""

SMOOTH = FullBatchALM(sharpness=(1.0,), dual_values="surrogate")
"""The method that trains models held to smoothed decisions. A bound on the decisions of few rows is met by moving
single rows over the threshold, which does nothing for new rows; probabilities of decisions cannot be moved so."""

LEFT = 0.1
"""The share of a stated bound that its tightest candidate keeps at least."""


def candidates(
    classifier: Any, stated: Sequence[Bound], train: JudgedRows, choose: JudgedRows, certify: int, alpha: float
) -> list[Judged]:
    """The models without bounds, under the stated bounds, under tighter ones, and those held to smoothed decisions,
    judged on the rows to train and choose.

    certify: number of rows to certify on, which with what the second model shows decides how much tighter.
    """

    def judge(model: Any) -> Judged:
        return judged(model, [train, choose], stated, alpha, getattr(classifier, "objective", None))

    out = [judge(model) for model in frontier(classifier, train, [(), stated])]
    scale = math.sqrt((len(train) + len(choose)) / max(certify, 1))
    widths = [half_width(found) * scale for found in out[-1].findings]
    at_once = out[-1].model.fit_report_["algorithm"] == FullBatchALM.name

    def stages(all_inside: Sequence[float]) -> list[tuple[Bound, ...]]:
        made = [
            tuple(tightened(b, inside * width) for b, width in zip(stated, widths, strict=True))
            for inside in all_inside
        ]
        return [stage for stage in dict.fromkeys(made) if stage != stated]

    if not out[-1].model.solution_.interrupted:
        out += [judge(m) for m in frontier(classifier, train, stages(INSIDE if at_once else INSIDE_FEW), out[-1].model)]
    if at_once and _may_smooth(classifier, stated) and not out[-1].model.solution_.interrupted:
        smooth = clone(classifier).set_params(algorithm=SMOOTH, objective="loss")
        made = frontier(smooth, train, stages(INSIDE_SMOOTH), out[0].model)
        out += [judge(model)._replace(smoothed=True) for model in made]
    return out


def _may_smooth(classifier: Any, stated: Sequence[Bound]) -> bool:
    """Whether models held to smoothed decisions are candidates: what else trains them is what "auto" takes, and all
    bounds are on rates of decisions."""
    objective = getattr(classifier, "objective", None)
    automatic = classifier.algorithm == "auto" and objective in ("auto", "accuracy", "loss")
    return (
        automatic and not classifier.use_groups_at_prediction and all(bound.judged_from == "counts" for bound in stated)
    )


def tightened(bound: Bound, by: float) -> Bound:
    """The bound tightened, keeping at least the share LEFT of what it leaves free."""
    if bound.sense == "at least":
        return bound.at(round(min(bound.stated + by, 1 - LEFT * (1 - bound.stated)), 5))
    return bound.at(round(max(bound.stated - by, LEFT * bound.stated), 5))
