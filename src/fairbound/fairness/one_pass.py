"""f and g of all rows of a table of moderate size, and their slopes, by one product with the features each way.

For a linear model with one score, where f is a weighted mean of losses and every other row function is a weight by label and decision
whose decision training replaces by one sigmoid of the score, all is a sum over rows of that sigmoid:

    F = constants + G sigmoid(t s),    f = F_0 + own . loss(s),    g = F_1, ..., F_m        G: (1 + m, n), s = X w + b

The results are those of `Verbs`, up to rounding, with a tenth of its operations, which are most of the cost on small
tables. Sums over rows are float64: rounding must not hide a small decrease from a line search, which would then fail or
ask many times more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from fairbound.fairness.batches import Batch
from fairbound.fairness.pointwise import Pointwise
from fairbound.fairness.reduction import StratifiedReduction
from fairbound.fairness.statistics import LOSS, RowFunction
from fairbound.models.mlp import MLP
from fairbound.problems.problem import Evaluation, Weights

MOST_ROWS = 1 << 17
"""With more rows, going slice by slice is as quick and needs less memory."""


@dataclass(frozen=True)
class OnePass:
    """All rows of a problem: features (n, d), targets (n,). of_sigmoid: G (1 + m, n); constants: (1 + m,); of_loss: own (n,), these
    three float64; steepness: t."""

    features: Tensor
    targets: Tensor
    loss: Pointwise
    bias: bool
    of_sigmoid: Tensor
    constants: Tensor
    of_loss: Tensor
    steepness: float
    last: list[Tensor] = field(default_factory=list)

    @classmethod
    def of(cls, problem: Any, batch: Batch) -> OnePass | None:
        """Under the surrogates as they were stated; None for problems that the module's docstring does not cover."""
        model, plan, reduce = problem.model, problem.plan, batch.reduction
        X = batch.features
        if type(model) is not MLP or model.hidden or model.outputs > 1 or not isinstance(X, Tensor):
            return None
        others = plan.beyond_means or not problem.contrasts.linear or not problem.shards.alone
        if others or not isinstance(reduce, StratifiedReduction):
            return None
        rates = [f for f in plan.functions if f != LOSS]
        sigmoids = all(isinstance(f, RowFunction) and f.surrogate == "sigmoid" and f.table for f in rates)
        if batch.size > MOST_ROWS or plan.m >= model.features or not sigmoids or len({f.sharpness for f in rates}) != 1:
            return None
        joint = problem.joint is not None
        shares = reduce.vjp(torch.eye(1 + plan.m, dtype=problem.dtype)[:, 0 if joint else 1 :])
        y, G = batch.targets, torch.zeros(1 + plan.m, batch.size, dtype=torch.float64)
        constants, of_loss = torch.zeros(1 + plan.m, dtype=torch.float64), batch.objective.to(torch.float64, copy=True)
        constants[0 if joint else 1 :] -= problem._reduced.bounds
        for rows, weights in reduce.weights_of_rows(shares):
            for function, weight in zip(plan.functions, weights, strict=True):
                if function == LOSS:
                    if not joint or weight[1:].any():
                        return None
                    of_loss[rows] = weight[0].double()
                    continue
                (no_0, yes_0), (no_1, yes_1) = function.table
                constants += (weight * (no_0 + (no_1 - no_0) * y[rows])).sum(1, dtype=torch.float64)
                G[:, rows] += weight * (yes_0 - no_0 + (yes_1 - no_1 - yes_0 + no_0) * y[rows])
        return cls(X, y, problem.loss, model.bias, G, constants, of_loss, rates[0].sharpness)

    def steeper(self, factor: float) -> OnePass:
        """Under surrogates `factor` times as steep."""
        return replace(self, steepness=factor * self.steepness)

    def values(self, x: Tensor, true: bool = False) -> Evaluation:
        """f and g at x (n,); with `true` of decisions."""
        return self._values(self.scores(x), true)[0]

    def gradient(self, x: Tensor, weights: Callable[[Evaluation], Weights]) -> tuple[Evaluation, Tensor]:
        """f and g at x (n,), and the gradient (n,) of w0 f + w . g with the weights (w0, w) of these."""
        scores = self.scores(x)
        evaluation, p = self._values(scores)
        w0, w = weights(evaluation)
        each = torch.zeros_like(self.constants)
        each[0] = w0
        if w is not None:
            each[1:] = w
        slopes = (each @ self.of_sigmoid).mul_(torch.addcmul(p, p, p, value=-1)).mul_(self.steepness)
        slopes += each[0] * self.of_loss * self.loss.slope(scores, self.targets)
        slopes = slopes.to(x.dtype)
        gradient = slopes @ self.features
        return evaluation, torch.cat([gradient, slopes.sum().unsqueeze(0)]) if self.bias else gradient

    def scores(self, x: Tensor) -> Tensor:
        """(n,) at x (n,); those of the point before are kept, at which several verbs are asked for."""
        if not self.last or not torch.equal(self.last[0], x):
            s = torch.addmv(x[-1:], self.features, x[:-1]) if self.bias else self.features @ x
            self.last[:] = [x.clone(), s]
        return self.last[1]

    def _values(self, scores: Tensor, true: bool = False) -> tuple[Evaluation, Tensor]:
        """f, a float64, and g of the rows' scores, and the sigmoids, or the decisions, (n,)."""
        p = (scores > 0).double() if true else torch.sigmoid(self.steepness * scores).double()
        F = self.constants + self.of_sigmoid @ p
        f = F[0] + self.of_loss @ self.loss.value(scores, self.targets).double()
        return Evaluation(f, F[1:].to(scores.dtype)), p
