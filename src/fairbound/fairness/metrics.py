"""Exact fairness metrics: rates per group, gaps between groups, and what the deep benchmark reports.

All in float64 and O(n log n) for any number of groups. ``by_group`` says how rows are read: positive where
``scores > threshold``, rows without a known group left out. A gap over a quantity that is undefined in some group
raises ``EmptyGroupError``, or is NaN with ``undefined="nan"``; it is never a silent 0.

Source: Kliachkin et al. (2025), section 2, for independence, separation and sufficiency.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from scipy.special import expit

from fairbound.base.checks import check_choice
from fairbound.base.errors import DataError, EmptyGroupError, NonFiniteError, OptionError
from fairbound.fairness.counts import (
    RATES,
    GroupCounts,
    by_group,
    read_codes,
    read_scores,
    read_targets,
    read_weights,
)
from fairbound.fairness.distances import group_auc, wasserstein

Against = Literal["pairwise", "overall", "best"]
Undefined = Literal["raise", "nan"]

_LOWER_IS_BETTER = ("false_positive_rate", "false_omission_rate", "error_rate", "mean_loss")


def gap(counts: GroupCounts, quantity: str, against: Against = "pairwise", undefined: Undefined = "raise") -> float:
    """Largest absolute difference of one quantity: between two groups, from the overall value, or from the best group.

    quantity: a name of ``GroupCounts``. "pairwise" and "best" give the same number, max - min; they differ in what a
    report lists per group.
    Raises: EmptyGroupError where the quantity is undefined in a group, or with fewer than two groups; NonFiniteError
        for an infinite mean loss.
    """
    values = _defined(counts, quantity, against, undefined)
    return np.nan if values is None else float(np.max(np.abs(values - _reference(counts, quantity, values, against))))


def ratio(counts: GroupCounts, quantity: str, against: Against = "pairwise", undefined: Undefined = "raise") -> float:
    """Smallest ratio of one quantity, in [0, 1], 1 is parity: min / max of groups, or either way to the overall value.

    Raises: EmptyGroupError as ``gap``, and where the ratio is 0 / 0.
    """
    values = _defined(counts, quantity, against, undefined)
    if values is None:
        return np.nan
    if values.max() == 0:
        if undefined == "nan":
            return np.nan
        raise EmptyGroupError(f"the ratio of {quantity} is 0 / 0: it is zero in every group. Use the difference.")
    if against == "overall":
        return float(min(values.min() / counts.overall[quantity], counts.overall[quantity] / values.max()))
    return float(values.min() / values.max())


def odds_gap(
    counts: GroupCounts,
    quantities: tuple[str, str] = ("true_positive_rate", "false_positive_rate"),
    agg: Literal["max", "sum"] = "max",
    against: Against = "pairwise",
    undefined: Undefined = "raise",
) -> float:
    """Two gaps as one: the larger of them, or the largest sum |difference of one| + |difference of the other|.

    The sum is taken for one pair of groups (or one group and its reference) at a time, then maximised.
    """
    check_choice("agg", agg, ("max", "sum"))
    if agg == "max":
        return float(np.max([gap(counts, q, against, undefined) for q in quantities]))
    first, second = (_defined(counts, q, against, undefined) for q in quantities)
    if first is None or second is None:
        return np.nan
    if against == "pairwise":  # max of an L1 distance in the plane: two ranges
        return float(max(np.ptp(first + second), np.ptp(first - second)))
    away = [np.abs(v - _reference(counts, q, v, against)) for q, v in zip(quantities, (first, second), strict=True)]
    return float(np.max(away[0] + away[1]))


def demographic_parity_difference(
    scores: Any,
    y: Any,
    groups: Any,
    sample_weight: Any = None,
    *,
    threshold: float = 0.0,
    labels: Sequence[Any] | None = None,
    against: Against = "pairwise",
    undefined: Undefined = "raise",
) -> float:
    """Largest difference of selection rates, in [0, 1]; arguments as ``by_group`` (y may be None) and ``gap``."""
    counts = by_group(scores, y, groups, sample_weight, threshold=threshold, labels=labels, ranking=False)
    return gap(counts, "selection_rate", against, undefined)


def demographic_parity_ratio(
    scores: Any,
    y: Any,
    groups: Any,
    sample_weight: Any = None,
    *,
    threshold: float = 0.0,
    labels: Sequence[Any] | None = None,
    against: Against = "pairwise",
    undefined: Undefined = "raise",
) -> float:
    """Smallest ratio of selection rates, in [0, 1], 1 is parity; arguments as ``by_group`` and ``ratio``."""
    counts = by_group(scores, y, groups, sample_weight, threshold=threshold, labels=labels, ranking=False)
    return ratio(counts, "selection_rate", against, undefined)


def equal_opportunity_difference(
    scores: Any,
    y: Any,
    groups: Any,
    sample_weight: Any = None,
    *,
    threshold: float = 0.0,
    labels: Sequence[Any] | None = None,
    against: Against = "pairwise",
    undefined: Undefined = "raise",
) -> float:
    """Largest difference of true positive rates, in [0, 1]; arguments as ``by_group`` and ``gap``."""
    counts = by_group(scores, y, groups, sample_weight, threshold=threshold, labels=labels, ranking=False)
    return gap(counts, "true_positive_rate", against, undefined)


def predictive_equality_difference(
    scores: Any,
    y: Any,
    groups: Any,
    sample_weight: Any = None,
    *,
    threshold: float = 0.0,
    labels: Sequence[Any] | None = None,
    against: Against = "pairwise",
    undefined: Undefined = "raise",
) -> float:
    """Largest difference of false positive rates, in [0, 1]; arguments as ``by_group`` and ``gap``."""
    counts = by_group(scores, y, groups, sample_weight, threshold=threshold, labels=labels, ranking=False)
    return gap(counts, "false_positive_rate", against, undefined)


def equalized_odds_difference(
    scores: Any,
    y: Any,
    groups: Any,
    sample_weight: Any = None,
    *,
    threshold: float = 0.0,
    labels: Sequence[Any] | None = None,
    agg: Literal["max", "sum"] = "max",
    against: Against = "pairwise",
    undefined: Undefined = "raise",
) -> float:
    """Differences of true and of false positive rates as one number: in [0, 1] for "max", in [0, 2] for "sum".

    Arguments as ``by_group`` and ``odds_gap``.
    """
    counts = by_group(scores, y, groups, sample_weight, threshold=threshold, labels=labels, ranking=False)
    return odds_gap(counts, agg=agg, against=against, undefined=undefined)


def loss_gap(
    scores: Any,
    y: Any,
    groups: Any,
    sample_weight: Any = None,
    *,
    losses: Any = None,
    labels: Sequence[Any] | None = None,
    against: Against = "pairwise",
    undefined: Undefined = "raise",
) -> float:
    """Largest difference of mean losses, in the loss's units; arguments as ``by_group`` and ``gap``.

    Raises: DataError where ``scores`` are decisions and no ``losses`` are given: decisions have no loss.
    """
    if losses is None and read_scores(scores)[1]:
        raise DataError("loss_gap got decisions, which have no logistic loss. Pass real scores, or losses=(n,).")
    counts = by_group(scores, y, groups, sample_weight, losses=losses, labels=labels, ranking=False)
    return gap(counts, "mean_loss", against, undefined)


def independence(scores: Any, y: Any, groups: Any, sample_weight: Any = None, *, threshold: float = 0.0) -> float:
    """Ind: |P(Yhat=1|s) - P(Yhat=1|s')|, in [0, 1]; with more than two groups the largest over pairs.

    Raises: EmptyGroupError as ``gap``. Source: Kliachkin et al. (2025), section 2.
    """
    return demographic_parity_difference(scores, y, groups, sample_weight, threshold=threshold)


def separation(scores: Any, y: Any, groups: Any, sample_weight: Any = None, *, threshold: float = 0.0) -> float:
    """Sp: sum over v of |P(Yhat=1|s,Y=v) - P(Yhat=1|s',Y=v)|, in [0, 2]; the largest over pairs of groups.

    Raises: EmptyGroupError as ``gap``. Source: Kliachkin et al. (2025), section 2.
    """
    return equalized_odds_difference(scores, y, groups, sample_weight, threshold=threshold, agg="sum")


def sufficiency(scores: Any, y: Any, groups: Any, sample_weight: Any = None, *, threshold: float = 0.0) -> float:
    """Sf: sum over v of |P(Y=1|s,Yhat=v) - P(Y=1|s',Yhat=v)|, in [0, 2]; the largest over pairs of groups.

    Raises: EmptyGroupError as ``gap``, so also where a group receives one decision only.
    Source: Kliachkin et al. (2025), section 2.
    """
    counts = by_group(scores, y, groups, sample_weight, threshold=threshold, ranking=False)
    return odds_gap(counts, ("positive_predictive_value", "false_omission_rate"), agg="sum")


def inaccuracy(scores: Any, y: Any, sample_weight: Any = None, *, threshold: float = 0.0) -> float:
    """Ina: P(Yhat != Y) over all rows, in [0, 1], whether or not their group is known."""
    s, _ = read_scores(scores)
    target, w = read_targets(y, len(s)), read_weights(sample_weight, len(s))
    if target is None:
        raise DataError("inaccuracy needs y.")
    return float(np.average((s > threshold) != target, weights=w))


def auc(scores: Any, y: Any, sample_weight: Any = None, *, undefined: Undefined = "raise") -> float:
    """Area under the ROC curve over all rows, in [0, 1], ties as one half, weights exact.

    Raises: EmptyGroupError where positives or negatives are absent.
    """
    check_choice("undefined", undefined, ("raise", "nan"))
    s, _ = read_scores(scores)
    target, w = read_targets(y, len(s)), read_weights(sample_weight, len(s))
    if target is None:
        raise DataError("auc needs y.")
    area = float(group_auc(s, target, np.zeros(len(s), dtype=np.int64), 1, w)[0])
    if np.isnan(area) and undefined == "raise":
        raise EmptyGroupError("the AUC is undefined: the rows lack positives or negatives with weight.")
    return area


def wasserstein_distance(
    scores: Any,
    groups: Any,
    sample_weight: Any = None,
    *,
    transform: Literal["sigmoid", "identity"] = "sigmoid",
    order: float = 1,
    labels: Sequence[Any] | None = None,
    undefined: Undefined = "raise",
) -> float:
    """Largest Wasserstein distance between two groups' distributions of predictions; O(n log n + n * groups).

    transform: "sigmoid" compares predicted probabilities, so the distance is in [0, 1]; "identity" the scores as given.
    Raises: DataError for decisions under "sigmoid"; EmptyGroupError for a declared group without rows, or one group.
    """
    check_choice("transform", transform, ("sigmoid", "identity"))
    check_choice("undefined", undefined, ("raise", "nan"))
    s, decisions = read_scores(scores)
    if decisions and transform == "sigmoid":
        raise DataError('wasserstein_distance got decisions, not logits. Pass real scores, or transform="identity".')
    w = read_weights(sample_weight, len(s))
    codes, names = read_codes(groups, labels, len(s))
    values = expit(s) if transform == "sigmoid" else s
    order_by = np.argsort(codes, kind="stable")
    cuts = np.searchsorted(codes[order_by], np.arange(len(names) + 1))
    rows = [order_by[a:b] for a, b in pairwise(cuts)]
    empty = [name for name, r in zip(names, rows, strict=True) if w[r].sum() == 0]
    if empty or len(names) < 2:
        if undefined == "nan":
            return np.nan
        raise EmptyGroupError(_too_few("the Wasserstein distance", names, empty))
    return max(
        wasserstein(values[rows[i]], values[rows[j]], w[rows[i]], w[rows[j]], order)
        for i in range(len(rows))
        for j in range(i)
    )


def benchmark_metrics(scores: Any, y: Any, groups: Any, sample_weight: Any = None) -> dict[str, float]:
    """What KLBM25 reports, by its column names, and the AUC: Ind, Sp, Ina, Sf, Wd (order 1), AUC; NaN where undefined.

    scores: (n,) logits. Table 3's own "Wd" is another quantity: ``distances.binned_squared_wasserstein``.
    """
    counts = by_group(scores, y, groups, sample_weight, ranking=False)
    return {
        "Ind": gap(counts, "selection_rate", undefined="nan"),
        "Sp": odds_gap(counts, agg="sum", undefined="nan"),
        "Ina": inaccuracy(scores, y, sample_weight),
        "Sf": odds_gap(counts, ("positive_predictive_value", "false_omission_rate"), agg="sum", undefined="nan"),
        "Wd": wasserstein_distance(scores, groups, sample_weight, undefined="nan"),
        "AUC": auc(scores, y, sample_weight, undefined="nan"),
    }


def _too_few(what: str, names: Sequence[Any], empty: Sequence[Any]) -> str:
    if empty:
        return (
            f"{what} is undefined in {len(empty)} of {len(names)} groups: {list(empty)[:5]} have no row to average. "
            'Merge or drop such groups, or pass undefined="nan".'
        )
    return f"{what} needs at least two groups to compare, but only {list(names)} occurs."


def _defined(counts: GroupCounts, quantity: str, against: Against, undefined: Undefined) -> np.ndarray | None:
    """(K,) values, all defined; or None where they are not and ``undefined`` is "nan"."""
    check_choice("against", against, ("pairwise", "overall", "best"))
    check_choice("undefined", undefined, ("raise", "nan"))
    check_choice("quantity", quantity, (*RATES, "mean_loss", "auc"))
    values = getattr(counts, quantity)
    if values is None:
        raise OptionError('the counts hold no "auc"; call by_group(..., ranking=True).')
    empty = [name for name, value in zip(counts.labels, values, strict=True) if np.isnan(value)]
    infinite = [name for name, value in zip(counts.labels, values, strict=True) if np.isinf(value)]
    if infinite and undefined == "raise":
        raise NonFiniteError(
            f"{quantity} is infinite in {infinite[:5]}: a row's loss is. Clip the scores or the losses."
        )
    empty += infinite
    if not empty and len(values) > 1:
        return values
    if undefined == "nan":
        return None
    raise EmptyGroupError(_too_few(quantity, counts.labels, empty))


def _reference(counts: GroupCounts, quantity: str, values: np.ndarray, against: Against) -> float:
    if against == "overall":
        return counts.overall[quantity]
    lowest = quantity in _LOWER_IS_BETTER or against == "pairwise"
    return float(values.min() if lowest else values.max())
