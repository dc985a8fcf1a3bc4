"""All rows of a linear model with one score as what each adds to error rate and bounds where it is decided positive.

Where the bounds are differences of rates, these sums are the error rate and the constraints themselves. Where a bound
divides by decisions (predictive parity, F1), and where there are too many bounds to hold one number of each for every
row, as between all pairs of many groups, they are the cell means q, of which these are functions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from fairbound.fairness.compiled.plan import Plan
from fairbound.fairness.compiled.statistics import LOSS, RowFunction
from fairbound.fairness.evaluation.one_pass import MOST_ROWS, is_covered, sums_of_decisions
from fairbound.fairness.evaluation.row_sums import StratifiedSums
from fairbound.models.mlp import is_linear

MOST_CELLS = 1 << 24
"""Cells of rates times rows, at most: with more, they take too much memory. With more bounds times rows, these are taken
from the cell means."""

ROUNDING = 1e-12
"""A sum of shares below it is 0 but for rounding."""


@dataclass(frozen=True)
class CountedRows:
    """features: (n, d), with an intercept in x where `bias`. sums: x -> (S,) float64. turns: (S, n) what each row adds to
    them where it is decided positive. judged: sums (S, ...) -> (1 + m, ...) error rate and constraints. height: of how many numbers
    lines take the sums, S or those of `judged`."""

    features: Tensor
    bias: bool
    sums: Callable[[Tensor], np.ndarray]
    turns: np.ndarray
    judged: Callable[[np.ndarray], np.ndarray]
    height: int

    @classmethod
    def of(cls, problem: Any, x: Tensor) -> CountedRows | None:
        """Of a FairProblem whose objective is an `Accuracy` of the error rate alone, for points like x (n,); None where it
        is not covered: other models, bounds that need more than cell means, too many rows."""
        batch, plan = problem.full(), problem.plan
        whole = problem.one_pass(x, batch)
        differences = whole is not None or is_covered(problem, batch)
        if not differences and not _quotients_are_covered(problem, batch):
            return None
        if whole is None and plan.n_cells * batch.size > MOST_CELLS:
            return None
        X, bias = batch.features, problem.model.bias
        none, each = (whole.none, whole.each) if whole is not None else sums_of_decisions(problem, batch)[:2]

        def means(x: Tensor) -> np.ndarray:
            if whole is not None:
                return whole.true_rates(x).numpy()
            return (none + each @ (_scores(X, bias, x) > 0).double()).numpy()  # type: ignore[no-any-return]

        if not differences:
            return cls(X, bias, means, each.numpy(), _of_quotients(problem), plan.n_cells)
        matrix, bounds = _differences(problem)

        def states(q: np.ndarray) -> np.ndarray:
            return matrix @ q - (bounds if q.ndim == 1 else bounds[:, None])  # type: ignore[no-any-return]

        if len(bounds) * batch.size > MOST_CELLS:
            return cls(X, bias, means, each.numpy(), states, len(bounds))
        return cls(X, bias, lambda x: states(means(x)), matrix @ each.numpy(), lambda sums: sums, len(bounds))

    def scores(self, x: Tensor) -> Tensor:
        """(n,) at x (d,), or (d + 1,) with an intercept."""
        return _scores(self.features, self.bias, x)


def _scores(features: Tensor, bias: bool, x: Tensor) -> Tensor:
    return torch.addmv(x[-1:], features, x[:-1]) if bias else features @ x


def _differences(problem: Any) -> tuple[csr_array, np.ndarray]:
    """A (1 + m, K), of few numbers in each row, and the bounds (1 + m,): the error rate of all rows and the constraints
    are A q - bounds of cell means q."""
    stated = problem.joint
    index, coefficient = stated.index.numpy(), stated.coefficient.double().numpy()
    rows, wide = index.shape
    entries = (coefficient.ravel(), index.ravel(), wide * np.arange(rows + 1))
    return csr_array(entries, shape=(rows, problem.plan.n_cells)), stated.bounds.double().numpy()


def _quotients_are_covered(problem: Any, batch: Any) -> bool:
    """Whether the bounds are quotients of cell means of the batch of all rows that can be counted."""
    if not divides_by_decisions(problem.plan) or not is_linear(problem.model, 1) or not problem.shards.alone:
        return False
    if not isinstance(batch.features, Tensor) or not isinstance(batch.row_sums, StratifiedSums):
        return False
    return batch.size <= MOST_ROWS


def _of_quotients(problem: Any) -> Callable[[np.ndarray], np.ndarray]:
    """Cell means (K, ...) -> (1 + m, ...) error rate and constraints, where bounds are quotients of cell means."""
    contrasts, wrong = problem.contrasts, int(problem.plan.objective.index[1])

    def judged(sums: np.ndarray) -> np.ndarray:
        there = np.where(np.abs(sums) > ROUNDING, sums, 0.0)  # a quotient by 0 is to be one
        q = np.concatenate([there, np.zeros_like(sums[:1])])  # the mean loss, which nothing reads
        g = contrasts.values(torch.from_numpy(np.moveaxis(q, 0, -1)).to(contrasts.bounds.dtype))[0]
        return np.concatenate([sums[wrong][None], np.moveaxis(g.double().numpy(), -1, 0)])

    return judged


def divides_by_decisions(plan: Plan) -> bool:
    """Whether a plan that minimises an `Accuracy` bounds quotients of sums of decisions, and nothing that needs more."""
    more = plan.statistics or plan.auxiliaries or plan.combinations or plan.best
    if more or not len(plan.ratios) or plan.objective is None or plan.objective.how != "sum":
        return False
    return all(isinstance(f, RowFunction) and f.table is not None for f in plan.functions if f != LOSS)
