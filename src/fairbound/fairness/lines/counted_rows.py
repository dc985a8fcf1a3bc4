"""All rows of a linear model with one score as what each adds to error rate and bounds where it is decided positive.

Where the bounds are differences of rates, these sums are the error rate and the constraints themselves. Where a bound
divides by decisions (predictive parity, F1), they are the cell means q, of which these are functions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairbound.fairness.compiled.plan import Plan
from fairbound.fairness.compiled.statistics import LOSS, RowFunction
from fairbound.fairness.evaluation.one_pass import MOST_ROWS, OnePass, sums_of_decisions
from fairbound.fairness.evaluation.row_sums import StratifiedSums
from fairbound.models.mlp import is_linear

MOST_CELLS = 1 << 24
"""Cells of rates times rows, at most: with more, they take too much memory."""

ROUNDING = 1e-12
"""A sum of shares below it is 0 but for rounding."""


@dataclass(frozen=True)
class CountedRows:
    """features: (n, d), with an intercept in x where `bias`. sums: x -> (S,) float64. turns: (S, n) what each row adds to
    them where it is decided positive. judged: sums (S, ...) -> (1 + m, ...) error rate and constraints."""

    features: Tensor
    bias: bool
    sums: Callable[[Tensor], np.ndarray]
    turns: np.ndarray
    judged: Callable[[np.ndarray], np.ndarray]

    @classmethod
    def of(cls, problem: Any, x: Tensor) -> CountedRows | None:
        """Of a FairProblem whose objective is an `Accuracy` of the error rate alone, for points like x (n,); None where it
        is not covered: other models, bounds that need more than cell means, too many rows."""
        batch = problem.full()
        whole = problem.one_pass(x, batch) or OnePass.of(problem, batch, MOST_CELLS)
        if whole is not None:
            turns = (whole.contrasts @ whole.each).numpy()
            return cls(whole.features, whole.bias, partial(_constraints, whole), turns, lambda sums: sums)
        plan, X = problem.plan, batch.features
        if not divides_by_decisions(plan) or not is_linear(problem.model, 1) or not isinstance(X, Tensor):
            return None
        if not problem.shards.alone or not isinstance(batch.row_sums, StratifiedSums):
            return None
        if batch.size > MOST_ROWS or plan.n_cells * batch.size > MOST_CELLS:
            return None
        none, each, _ = sums_of_decisions(problem, batch)
        contrasts, wrong, bias = problem.contrasts, int(plan.objective.index[1]), problem.model.bias

        def means(x: Tensor) -> np.ndarray:
            return (none + each @ (_scores(X, bias, x) > 0).double()).numpy()  # type: ignore[no-any-return]

        def judged(sums: np.ndarray) -> np.ndarray:
            there = np.where(np.abs(sums) > ROUNDING, sums, 0.0)  # a quotient by 0 is to be one
            q = np.concatenate([there, np.zeros_like(sums[:1])])  # the mean loss, which nothing reads
            g = contrasts.values(torch.from_numpy(np.moveaxis(q, 0, -1)).to(contrasts.bounds.dtype))[0]
            return np.concatenate([sums[wrong][None], np.moveaxis(g.double().numpy(), -1, 0)])

        return cls(X, bias, means, each.numpy(), judged)

    def scores(self, x: Tensor) -> Tensor:
        """(n,) at x (d,), or (d + 1,) with an intercept."""
        return _scores(self.features, self.bias, x)


def _scores(features: Tensor, bias: bool, x: Tensor) -> Tensor:
    return torch.addmv(x[-1:], features, x[:-1]) if bias else features @ x


def _constraints(whole: OnePass, x: Tensor) -> np.ndarray:
    """(1 + m,) the error rate of all rows, and the constraints, at x."""
    return (whole.contrasts @ whole.true_rates(x) - whole.bounds).numpy()  # type: ignore[no-any-return]


def divides_by_decisions(plan: Plan) -> bool:
    """Whether a plan that minimises an `Accuracy` bounds quotients of sums of decisions, and nothing that needs more."""
    more = plan.statistics or plan.auxiliaries or plan.combinations or plan.best
    if more or not len(plan.ratios) or plan.objective is None or plan.objective.how != "sum":
        return False
    return all(isinstance(f, RowFunction) and f.table is not None for f in plan.functions if f != LOSS)
