"""The data of an audit's figures for bounds on percentile intervals: scores and disparity at every percentile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import expit

from fairbound.base.errors import EmptyGroupError
from fairbound.fairness.bound import Bound
from fairbound.fairness.percentiles.judging import curves_of
from fairbound.fairness.percentiles.score_profile import attribute_name, profile
from fairbound.fairness.scored import Scored

AMONG = {None: "rows", 1: "positive rows", 0: "negative rows"}
MOST_GROUPS = 50
"""Groups whose scores are kept, the largest first; the disparity is always that of all."""


def percentile_profiles(rows: Scored, bounds: Sequence[Bound]) -> list[dict[str, Any]]:
    """One entry for each bound on a percentile interval, set of attributes, and rows that it speaks of; none where the
    scores are decisions. Scores are predicted probabilities, as in the audit's histograms."""
    if rows.scores is None or len(np.unique(rows.scores)) < 3:
        return []
    out = []
    for bound in bounds:
        for curve, condition in bound.score_curves():
            some = rows if condition is None else rows.take(np.flatnonzero(rows.target == condition))
            try:
                made, _ = curves_of(curve, some, "drop")
            except EmptyGroupError:
                continue
            for curves in made:
                about = profile(curves, attribute_name(curves, some.groups.attributes))
                out.append(
                    {"text": bound.text, "among": AMONG[condition], "threshold": 0.5, **_as_probabilities(about)}
                )
    return out


def _as_probabilities(about: dict[str, Any]) -> dict[str, Any]:
    kept = sorted(about["groups"].items(), key=lambda one: -one[1]["rows"])[:MOST_GROUPS]
    groups = {name: {**one, "scores": expit(one["scores"]).tolist()} for name, one in kept}
    return {**about, "groups": groups}
