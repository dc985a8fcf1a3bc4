"""The data of an audit's figures for bounds on areas: ROC curves within groups, across groups, and of what is compared.

The curve of AUC(G, G') shows, for every threshold, the share of G above it over the share of G' above it; the area
below it, with straight lines over ties, is AUC(G, G') with ties as one half.

Source: Kallus, Zhou (2019), for curves across groups (xROC).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from fairbound.base.errors import EmptyGroupError
from fairbound.fairness.bound import Bound
from fairbound.fairness.comparing import Compared
from fairbound.fairness.notions.auc import AUCParity
from fairbound.fairness.scored import Scored
from fairbound.rows.groups import AND

POINTS = 101
MOST_GROUPS = 6
"""Groups whose curves are kept, the largest first."""

AMONG = {"group": None, "positive": 1, "negative": 0}
"""For bounds that compare rows of one group with rows of another: the label of these rows."""


class _Pair(NamedTuple):
    """above, below: groups; upper, lower: the labels of their rows, None for all."""

    above: int
    below: int
    upper: int | None
    lower: int | None


def roc_pictures(rows: Scored, bounds: Sequence[Bound]) -> list[dict[str, Any]]:
    """One entry for each bound on areas and set of attributes; none where the scores are decisions."""
    if rows.scores is None or len(np.unique(rows.scores)) < 3:
        return []
    out = []
    for bound in cast("list[AUCParity]", [b for b in bounds if b.judged_from == "areas"]):
        try:
            made = bound.compared(rows.occurring, "drop")
        except EmptyGroupError:
            continue
        out += [_picture(bound, rows, compared) for compared, _ in made]
    return [entry for entry in out if entry["pictures"]]


def _picture(bound: AUCParity, rows: Scored, compared: Compared) -> dict[str, Any]:
    weight = np.ones(len(rows)) if rows.weight is None else np.asarray(rows.weight, dtype=np.float64)
    member = compared.of_rows(rows.groups)
    sizes = np.bincount(member[member >= 0], minlength=len(compared))
    largest = np.argsort(-sizes, kind="stable")[:MOST_GROUPS].tolist()
    two = [(a, b) for i, a in enumerate(largest) for b in largest[i + 1 :]]
    across = [pair for a, b in two for pair in (_Pair(a, b, 1, 0), _Pair(b, a, 1, 0))][:MOST_GROUPS]
    asked = {"within groups": [_Pair(g, g, 1, 0) for g in largest], "across groups": across}
    if bound.kind in AMONG:
        label = AMONG[bound.kind]
        asked["of two groups"] = [_Pair(a, b, label, label) for a, b in two][:MOST_GROUPS]
    pictures = []
    for kind, pairs in asked.items():
        curves = [_curve(rows, compared, member, weight, pair) for pair in pairs]
        if known := [curve for curve in curves if curve is not None]:
            pictures.append({"kind": kind, "curves": known})
    names = [rows.groups.attributes[a] for a in compared.attributes]
    return {
        "text": bound.text,
        "attribute": AND.join(names),
        "groups_left_out": len(compared) - len(largest),
        "pictures": pictures,
    }


def _curve(
    rows: Scored, compared: Compared, member: np.ndarray, weight: np.ndarray, pair: _Pair
) -> dict[str, Any] | None:
    """The curve of the pair; None where one of its sets has no row."""
    assert rows.scores is not None
    inside = [
        (member == group) & ((rows.target == label) if label is not None else True)
        for group, label in ((pair.above, pair.upper), (pair.below, pair.lower))
    ]
    if not all(part.any() for part in inside):
        return None
    s = rows.scores
    levels = np.unique(s[inside[0] | inside[1]])[::-1]  # from the highest threshold down
    shares = []
    for part in inside:
        at_level = np.bincount(np.searchsorted(-levels, -s[part]), weights=weight[part], minlength=len(levels))
        shares.append(np.r_[0.0, at_level.cumsum() / at_level.sum()])
    up, across = shares
    area = float(np.sum(np.diff(across) * (up[1:] + up[:-1]) / 2))
    kept = np.unique(np.round(np.linspace(0, len(up) - 1, POINTS)).astype(int))
    said = {1: "positives of ", 0: "negatives of ", None: ""}
    return {
        "above": said[pair.upper] + compared.name(pair.above),
        "below": said[pair.lower] + compared.name(pair.below),
        "rows": [int(part.sum()) for part in inside],
        "area": area,
        "x": np.minimum(across[kept], 1.0).tolist(),
        "y": np.minimum(up[kept], 1.0).tolist(),
    }
