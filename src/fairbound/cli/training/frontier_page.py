"""What the page of a frontier shows when its reader moves the bound: each model's rates and ROC curves by group,
and decisions changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairbound.rows.groups import Groups

RATES = ("selection_rate", "true_positive_rate", "false_positive_rate")
CURVE = 33  # points of an ROC curve


def shown_by_group(
    found: dict[str, Any], scores: np.ndarray, target: np.ndarray, groups: Groups, free: np.ndarray
) -> dict[str, Any]:
    """What one model does to each group.

    found: its audit. scores: (n,) its logits on the held-out rows; target: (n,) in {0, 1}; free: (n,) the unconstrained
    model's.
    """
    curves = {}
    for attribute, labels, codes in groups.by_attribute:
        for g, label in enumerate(labels):
            mine = codes == g
            curves[f"{attribute}: {label}"] = roc(scores[mine], target[mine])
    return {
        "groups": {
            f"{g['attribute']}: {g['group']}": {name: g["rates"][name]["value"] for name in RATES}
            for g in found["groups"]
        },
        "roc": curves,
        "changed": int(((scores > 0) != (free > 0)).sum()),
        "rows": len(scores),
    }


def roc(scores: np.ndarray, target: np.ndarray) -> list[list[float]]:
    """(false positive rate, true positive rate) at a few thresholds, from (0, 0) to (1, 1);
    empty where there is one class."""
    if not 0 < target.sum() < len(target):
        return []
    positive, negative = np.sort(scores[target == 1]), np.sort(scores[target == 0])
    at = np.quantile(scores, np.linspace(1, 0, CURVE))
    above = [1 - np.searchsorted(part, at, side="right") / len(part) for part in (negative, positive)]
    inner = np.round(np.stack(above, 1), 4).tolist()
    return [[0.0, 0.0], *inner, [1.0, 1.0]]


def certifiable(points: Sequence[dict[str, Any]], sense: str) -> list[dict[str, Any]]:
    """For each model under a bound of one seed: what a certificate of that bound would say of all models of the seed.

    They are tested from the tightest bound on, each at the whole level, until one fails; the last that passed is the
    one.
    """
    models = sorted(
        (p for p in points if p["bound"] is not None), key=lambda p: p["bound"], reverse=sense == "at least"
    )
    out = []
    for stated in (p["bound"] for p in models):
        passed = None
        for one in models:
            limit = one["lower"] if sense == "at least" else one["upper"]
            if limit is None or (limit < stated if sense == "at least" else limit > stated):
                break
            passed = one
        out.append(
            {
                "bound": stated,
                "verdict": "insufficient" if passed is None else "met",
                "trained_under": None if passed is None else passed["bound"],
                "accuracy": None if passed is None else passed["accuracy"],
            }
        )
    return out
