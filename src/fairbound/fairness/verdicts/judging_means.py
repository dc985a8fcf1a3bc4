"""The verdict on weighted sums of means of numbers that are no shares, for notions that state such sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fairbound.confidence.contrasts import Contrasts
from fairbound.fairness.scored import Finding, Scored
from fairbound.fairness.verdicts.clustered import method_of_rows, with_shared_clusters
from fairbound.fairness.verdicts.findings import finding, nothing_found, stated_facts, unmeasured
from fairbound.fairness.verdicts.judging import Sets, loss_bounds, too_few_for_means
from fairbound.fairness.verdicts.values import loss_values


def judge_means(
    bound: Any,
    rows: Scored,
    numbers: np.ndarray,
    cell: np.ndarray,
    names: Sequence[str],
    index: np.ndarray,
    coefficient: np.ndarray,
    name: Callable[[int], str],
    alpha: float,
    between: tuple[float, float] | None = None,
) -> Finding:
    """The verdict on the largest of m weighted sums of means, sum_t coefficient[i, t] mean[index[i, t]] <= bound.

    numbers: (n,) what is averaged. cell: (n,) the cell 0..k-1 of each row, -1 for none; names: of the k cells. index,
    coefficient: (m, t). name: of the i-th sum.
    between: the least and the largest that a number can be: the limits then hold for certain. None: limits of Welch's t,
    which hold for many rows.
    """
    k = len(names)
    least, largest = (0.0, None) if between is None else between
    of = loss_values(np.asarray(numbers, dtype=np.float64), [cell], k, rows, largest, least=least)
    groups = {said: int(n) for said, n in zip(names, of.rows.ravel(), strict=True)}
    if not len(index) or not all(groups.values()):
        empty = [said for said, n in groups.items() if not n]
        why = unmeasured(empty) if empty else "There is nothing to compare."
        return stated_facts(bound, rows) | nothing_found(why) | {"groups": groups}
    sums = Contrasts(index, np.broadcast_to(np.asarray(coefficient, dtype=np.float64), index.shape))
    if rows.clusters is not None:
        (of,) = with_shared_clusters(bound, [of], sums)
    sets = Sets([(None, of)], sums.index, sums.coefficient, [])  # type: ignore[list-item]  # sums name themselves
    found, method, needed = loss_bounds(bound, sets, sums, of.trials.ravel() / max(rows.total, 1), alpha, rows.power)
    why_not = too_few_for_means(sets, names)
    return finding(bound, rows, found, name, groups, method_of_rows(method, rows), needed, why=why_not)
