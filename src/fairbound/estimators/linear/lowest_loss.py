"""The linear model of the lowest loss without bounds."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from fairbound.estimators.linear.weight_decay import MOST_WORK, USUAL
from fairbound.fairness.problem import FairProblem
from fairbound.rows.sparse import SparseRows
from fairbound.tables.shapes.regressions import fitted

ALONE = 0.05
"""Share of the weight of all rows that those which count as one label have."""


def lowest_loss(
    problem: FairProblem,
    decay: float,
    alone: np.ndarray | None = None,
    label: int | None = None,
    without: np.ndarray | None = None,
) -> Tensor:
    """(n,) the model's parameters of lowest loss on the problem's rows, or on as many as MOST_WORK allows. decay: 0 for the
    usual one. alone: (rows,) which rows are among these in any case. label: what they count as, with the share ALONE of
    all weight; None for their own. without: (n - 1,) which features have a weight of 0."""
    features, n = problem.features, problem.model.n
    every = max(1, round(problem.rows * n**2 / MOST_WORK))
    assert not isinstance(features, SparseRows)
    alone = np.zeros(problem.rows, dtype=bool) if alone is None else alone
    kept = np.flatnonzero(alone | (np.arange(problem.rows) % every == 0))
    A = np.column_stack([features[kept].cpu().double().numpy(), np.ones(len(kept))])
    if without is not None:
        A[:, :-1][:, without] = 0.0
    y = problem.targets.cpu().double().numpy()[kept]
    mass = problem.weight_of_rows().cpu().double().numpy()[kept]
    if label is not None:
        own = alone[kept]
        y[own], mass[own] = label, ALONE * mass.sum() / own.sum()
    penalty = np.append(np.full(n - 1, decay * len(A) or USUAL), 0.0)
    return torch.as_tensor(fitted(A, y, mass / mass.mean(), penalty, np.zeros(n)).x).to(features)
