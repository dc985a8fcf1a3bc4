"""Rows -> counts and rates per group; reads scores, labels, weights and groups in the forms that people have.

A prediction is positive where ``scores > threshold`` (0 unless said), so logits and decisions in {0, 1} or {-1, 1} are
both read rightly. Rows whose group is missing (-1, None, NaN) are left out of every group quantity, the overall one
included, and counted. A quantity with an empty denominator is NaN and named in ``GroupCounts.undefined``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from fairbound.base.checks import check_choice
from fairbound.base.errors import DataError
from fairbound.fairness.distances import group_auc

# name -> cells (y, yhat) counted, among cells (y, yhat); as masks over [[TN, FP], [FN, TP]]
RATES: Mapping[str, tuple[np.ndarray, np.ndarray]] = MappingProxyType(
    {
        name: (np.array(counted, dtype=float), np.array(among, dtype=float))
        for name, counted, among in [
            ("selection_rate", [[0, 1], [0, 1]], [[1, 1], [1, 1]]),
            ("true_positive_rate", [[0, 0], [0, 1]], [[0, 0], [1, 1]]),
            ("false_positive_rate", [[0, 1], [0, 0]], [[1, 1], [0, 0]]),
            ("positive_predictive_value", [[0, 0], [0, 1]], [[0, 1], [0, 1]]),
            ("false_omission_rate", [[0, 0], [1, 0]], [[1, 0], [1, 0]]),
            ("base_rate", [[0, 0], [1, 1]], [[1, 1], [1, 1]]),
            ("error_rate", [[0, 1], [1, 0]], [[1, 1], [1, 1]]),
        ]
    }
)


@dataclass(frozen=True)
class GroupCounts:
    """Counts and rates of K groups; every array is in the order of ``labels``, and NaN marks what is undefined.

    n: (K,) rows; weight: (K,) their total weight; positives: (K,) rows with y = 1, None without y.
    cells: (K, 2, 2) rows by [group, y, prediction]; cell_weight and cell_square: sums of weights and of their squares.
        Without y all rows stand under y = 0, and only ``selection_rate`` is defined.
    selection_rate P(Yhat=1), true_positive_rate P(Yhat=1|Y=1), false_positive_rate P(Yhat=1|Y=0),
    positive_predictive_value P(Y=1|Yhat=1), false_omission_rate P(Y=1|Yhat=0), base_rate P(Y=1), error_rate
    P(Yhat!=Y): (K,) in [0, 1]. mean_loss, loss_variance (of one row, unbiased without weights): (K,).
    auc: (K,) in [0, 1], None where it was not asked for.
    overall: the same quantities over all rows with a known group. missing: rows whose group is not known.
    undefined: pairs (label, quantity).
    """

    labels: tuple[Any, ...]
    n: np.ndarray
    weight: np.ndarray
    positives: np.ndarray | None
    cells: np.ndarray
    cell_weight: np.ndarray
    cell_square: np.ndarray
    selection_rate: np.ndarray
    true_positive_rate: np.ndarray
    false_positive_rate: np.ndarray
    positive_predictive_value: np.ndarray
    false_omission_rate: np.ndarray
    base_rate: np.ndarray
    error_rate: np.ndarray
    mean_loss: np.ndarray
    loss_variance: np.ndarray
    auc: np.ndarray | None
    overall: Mapping[str, float]
    missing: int
    undefined: tuple[tuple[Any, str], ...]

    def trials(self, quantity: str) -> tuple[np.ndarray, np.ndarray]:
        """(K,) successes and (K,) trials behind a rate, for the bounds of ``fairbound.confidence.contrasts``.

        With weights: Kish's effective number of trials (sum w)^2 / sum w^2, and the weighted rate times it (reals).
        For ``mean_loss``: NaN successes and the (effective) number of rows.
        """
        check_choice("quantity", quantity, (*RATES, "mean_loss"))
        if self.positives is None and quantity not in ("selection_rate", "mean_loss"):
            raise DataError(f"{quantity} needs y, and these counts were made without it.")
        counted, among = RATES.get(quantity, (np.full((2, 2), np.nan), np.ones((2, 2))))
        total = (self.cell_weight * among).sum((1, 2))
        trials = _divide(total**2, (self.cell_square * among).sum((1, 2)), 0.0)
        return (self.cell_weight * counted).sum((1, 2)) * _divide(trials, total, 0.0), trials


def by_group(
    scores: Any,
    y: Any,
    groups: Any,
    sample_weight: Any = None,
    *,
    threshold: float = 0.0,
    losses: Any = None,
    labels: Sequence[Any] | None = None,
    ranking: bool = True,
) -> GroupCounts:
    """Counts and rates of every group.

    scores: (n,) real logits, or decisions (bool, or integers in {0, 1} or {-1, 1}). y: (n,) in {0, 1}, or None.
    groups: (n,) codes or values; -1, None and NaN are missing.
    sample_weight: (n,) non-negative, default 1 each.
    losses: (n,) loss per row; default the logistic loss of ``scores``, NaN for decisions, which have none.
    labels: the declared groups, so that one without rows is seen: names of the codes 0, 1, ... where ``groups`` holds
        integers, else the values themselves. Default: the values that occur, in order.
    ranking: also compute ``auc``, which sorts.

    Raises: DataError for lengths that differ, labels other than 0 and 1, NaN scores, negative or infinite weights,
        groups that are not declared, or no row with a known group.
    """
    s, decisions = read_scores(scores)
    target, w = read_targets(y, len(s)), read_weights(sample_weight, len(s))
    codes, names = read_codes(groups, labels, len(s))
    row_loss = _losses(s, target, losses, decisions)
    known = codes >= 0
    if not known.any():
        raise DataError(f"none of the {len(s)} rows has a known group; every sensitive value is missing.")
    k, code = len(names), codes[known]
    truth = np.zeros(len(code), dtype=np.int64) if target is None else target[known]
    flat = (code * 2 + truth) * 2 + (s[known] > threshold)
    cells = np.bincount(flat, minlength=4 * k).reshape(k, 2, 2)
    cell_weight = np.bincount(flat, weights=w[known], minlength=4 * k).reshape(k, 2, 2)
    cell_square = np.bincount(flat, weights=w[known] ** 2, minlength=4 * k).reshape(k, 2, 2)
    values: dict[str, np.ndarray] = {}
    overall: dict[str, float] = {}
    for name, (counted, among) in RATES.items():
        defined = target is not None or name == "selection_rate"
        top, bottom = (cell_weight * counted).sum((1, 2)), (cell_weight * among).sum((1, 2))
        values[name] = _divide(top, bottom) if defined else np.full(k, np.nan)
        overall[name] = float(_divide(top.sum(), bottom.sum())) if defined else np.nan
    values["mean_loss"], variance, overall["mean_loss"] = _loss_moments(row_loss[known], w[known], code, k)
    if ranking:
        if target is None:
            values["auc"], overall["auc"] = np.full(k, np.nan), np.nan
        else:
            values["auc"] = group_auc(s, target, codes, k, w)
            overall["auc"] = float(group_auc(s, target, np.where(known, 0, -1), 1, w)[0])
    return GroupCounts(
        labels=names,
        n=cells.sum((1, 2)),
        weight=cell_weight.sum((1, 2)),
        positives=None if target is None else cells[:, 1].sum(1),
        cells=cells,
        cell_weight=cell_weight,
        cell_square=cell_square,
        loss_variance=variance,
        overall=overall,
        missing=int(len(s) - known.sum()),
        undefined=tuple((names[i], name) for name, v in values.items() for i in np.flatnonzero(np.isnan(v))),
        **({"auc": None} | values),  # type: ignore[arg-type]
    )


def _divide(top: Any, bottom: Any, otherwise: float = np.nan) -> np.ndarray:
    top, bottom = np.asarray(top, dtype=np.float64), np.asarray(bottom, dtype=np.float64)
    return np.divide(top, bottom, out=np.full(bottom.shape, otherwise), where=bottom > 0)


def _array(values: Any) -> np.ndarray:
    return np.asarray(values.detach().cpu().numpy() if hasattr(values, "detach") else values)


def _column(name: str, values: Any, n: int | None = None) -> np.ndarray:
    column = _array(values)
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if column.ndim != 1 or (n is not None and len(column) != n):
        raise DataError(f"{name} must have shape ({'n' if n is None else n},), got {column.shape}.")
    return column


def read_scores(scores: Any) -> tuple[np.ndarray, bool]:
    """(n,) float64, and whether these are decisions."""
    column = _column("scores", scores)
    if len(column) == 0:
        raise DataError("scores is empty; a metric needs at least one row.")
    decisions = column.dtype.kind in "biu"
    if decisions and column.dtype.kind != "b" and not np.isin(column, (-1, 0, 1)).all():
        raise DataError("scores are integers other than -1, 0, 1; pass logits as floats, or decisions.")
    column = column.astype(np.float64)
    if np.isnan(column).any():
        rows = np.flatnonzero(np.isnan(column))
        raise DataError(f"scores is NaN in {len(rows)} of {len(column)} rows, first in row {rows[0]}.")
    return column, decisions


def read_targets(y: Any, n: int) -> np.ndarray | None:
    if y is None:
        return None
    column = _column("y", y, n)
    if not np.isin(column, (0, 1)).all():
        other = column[~np.isin(column, (0, 1))]
        raise DataError(
            f"y must hold 0 and 1 only, but {len(other)} of {n} rows hold others, such as {other[0]!r}. "
            "Pass y == POSITIVE, with the value that counts as positive."
        )
    return column.astype(np.int64)


def read_weights(sample_weight: Any, n: int) -> np.ndarray:
    if sample_weight is None:
        return np.ones(n)
    column = _column("sample_weight", sample_weight, n).astype(np.float64)
    if not np.isfinite(column).all() or (column < 0).any() or column.sum() == 0:
        raise DataError("sample_weight must be finite, non-negative and not all zero.")
    return column


def _losses(scores: np.ndarray, y: np.ndarray | None, losses: Any, decisions: bool) -> np.ndarray:
    if losses is not None:
        column = _column("losses", losses, len(scores)).astype(np.float64)
        if np.isnan(column).any():
            raise DataError(f"losses is NaN in {int(np.isnan(column).sum())} of {len(column)} rows.")
        return column
    if y is None or decisions:
        return np.full(len(scores), np.nan)
    return np.logaddexp(0.0, np.where(y == 1, -scores, scores))


def _loss_moments(loss: np.ndarray, w: np.ndarray, code: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray, float]:
    """(K,) means, (K,) variances of one row, and the overall mean."""
    total = np.bincount(code, weights=w, minlength=k)
    loss = np.where(w > 0, loss, 0.0)
    mean = _divide(np.bincount(code, weights=w * loss, minlength=k), total)
    with np.errstate(invalid="ignore"):  # an infinite loss has an infinite mean and no variance
        spread = _divide(np.bincount(code, weights=w * (loss - mean[code]) ** 2, minlength=k), total)
    effective = _divide(total**2, np.bincount(code, weights=w**2, minlength=k))
    return mean, spread * _divide(effective, effective - 1), float(_divide((w * loss).sum(), total.sum()))


def read_codes(groups: Any, labels: Sequence[Any] | None, n: int) -> tuple[np.ndarray, tuple[Any, ...]]:
    """(n,) codes into the K labels, -1 where missing."""
    column = _column("groups", groups, n)
    if column.dtype.kind in "biuf":
        missing = np.isnan(column) if column.dtype.kind == "f" else np.zeros(n, dtype=bool)
        missing |= column == -1
        if column.dtype.kind != "f" and labels is not None:
            code = np.where(missing, -1, column).astype(np.int64)
            if code.min() < -1 or code.max() >= len(labels):
                raise DataError(f"groups holds codes {code.min()} to {code.max()}, but {len(labels)} labels are given.")
            return code, tuple(labels)
        known, code = np.unique(column[~missing], return_inverse=True)
        values: list[Any] = known.tolist()
    else:
        rows = column.tolist()
        missing = np.fromiter((_is_missing(v) for v in rows), dtype=bool, count=n)
        present = [v for v, m in zip(rows, missing, strict=True) if not m]
        values = sorted(set(present), key=lambda v: (type(v).__name__, v))
        place = {v: i for i, v in enumerate(values)}
        code = np.fromiter((place[v] for v in present), dtype=np.int64, count=len(present))
    if labels is not None:
        place = {v: i for i, v in enumerate(labels)}
        unknown = [v for v in values if v not in place]
        if unknown:
            raise DataError(f"groups holds {unknown[:5]}, which labels={list(labels)[:5]} does not declare.")
        code = np.array([place[v] for v in values], dtype=np.int64)[code]
        values = list(labels)
    full = np.full(n, -1, dtype=np.int64)
    full[~missing] = code
    return full, tuple(values)


def _is_missing(value: Any) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return bool(value != value) or (value == -1 and not isinstance(value, str))
