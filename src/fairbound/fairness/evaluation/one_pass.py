"""f and g of all rows of a table of moderate size, and their slopes, by one product with the features each way.

For a linear model with one score, where f is a weighted mean of losses and every other row function is a weight by
label and decision whose decision training replaces by one sigmoid of the score, all is a sum over rows of that sigmoid:

    q = q_0 + C sigmoid(t s),    F = A q - bounds,    f = F_0 + own . loss(s),    g = F_1, ..., F_m        s = X w + b

q (K,) are the means of the rates' cells, C (K, n) what each row adds to them, A (1 + m, K) the contrasts, the
objective's before them.

The results are those of `Verbs`, up to rounding, with a tenth of its operations, which are most of the cost on small
tables. Sums over rows are float64: rounding must not hide a small decrease from a line search, which would then fail or
ask many times more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairbound.fairness.compiled.statistics import LOSS, RowFunction
from fairbound.fairness.evaluation.batches import Batch
from fairbound.fairness.evaluation.row_sums import StratifiedSums
from fairbound.fairness.pointwise import Pointwise
from fairbound.models.mlp import MLP
from fairbound.problems.problem import Evaluation, Weights

MOST_ROWS = 1 << 17
"""With more rows, going slice by slice is as quick and needs less memory."""

MOST_CONTRASTS = 1 << 24
"""Numbers in A, at most: with more, as between hundreds of groups, it takes too much memory."""


@dataclass(frozen=True)
class OnePass:
    """All rows of a problem: features (n, d), targets (n,). none: q_0 (K,); each: C (K, n); contrasts: A (1 + m, K);
    bounds: (1 + m,);
    of_loss: own (n,), these five float64; steepness: t. last: the point looked at last, its scores, and what else was
    asked for there and is the same for every objective."""

    features: Tensor
    targets: Tensor
    loss: Pointwise
    bias: bool
    none: Tensor
    each: Tensor
    contrasts: Tensor
    bounds: Tensor
    of_loss: Tensor
    steepness: float
    last: list[dict[str, Tensor]] = field(default_factory=list)

    @classmethod
    def of(cls, problem: Any, batch: Batch) -> OnePass | None:
        """Under the surrogates as they were stated; None for problems that the module's docstring does not cover, and
        for more cells than features."""
        model, plan, X = problem.model, problem.plan, batch.features
        if not is_covered(problem, batch) or not isinstance(X, Tensor):
            return None
        if plan.n_cells > model.features or (1 + plan.m) * plan.n_cells > MOST_CONTRASTS:
            return None
        joint = int(problem.joint is not None)
        A = torch.zeros(1 + plan.m, plan.n_cells, dtype=torch.float64)
        stated = problem.joint if joint else problem.contrasts
        A[1 - joint :] = stated.matrix
        bounds = torch.zeros(1 + plan.m, dtype=torch.float64)
        bounds[1 - joint :] = stated.bounds
        if OnePass not in problem.of_cells:
            problem.of_cells[OnePass] = (*sums_of_decisions(problem, batch), [])
        none, C, of_losses, last = problem.of_cells[OnePass]
        of_loss = batch.objective.double()
        for rows, cells, weight in of_losses:
            of_loss = of_loss.clone()
            of_loss[rows] = A[0, cells] @ weight
        sharpness = next(f.sharpness for f in plan.functions if f != LOSS)
        return cls(X, batch.targets, problem.loss, model.bias, none, C, A, bounds, of_loss, sharpness, last)

    def steeper(self, factor: float) -> OnePass:
        """Under surrogates `factor` times as steep."""
        return replace(self, steepness=factor * self.steepness)

    def values(self, x: Tensor, true: bool = False) -> Evaluation:
        """f and g at x (n,); with `true` of decisions."""
        scores = self.scores(x)
        rates = self.true_rates(x) if true else self._rates(torch.sigmoid(self.steepness * scores).double())
        return self.of_rates(rates, self.losses(x))

    def gradient(self, x: Tensor, weights: Callable[[Evaluation], Weights]) -> tuple[Evaluation, Tensor]:
        """f and g at x (n,), and the gradient (n,) of w0 f + w . g with the weights (w0, w) of these."""
        scores = self.scores(x)
        p = torch.sigmoid(self.steepness * scores).double()
        evaluation = self.of_rates(self._rates(p), self.losses(x))
        w0, w = weights(evaluation)
        of_rates = self.contrasts[0] * w0
        if w is not None:
            of_rates += w.double() @ self.contrasts[1:]
        slopes = ((self.steepness * of_rates) @ self.each).mul_(torch.addcmul(p, p, p, value=-1))
        slopes += w0 * self.of_loss * self.loss.slope(scores, self.targets)
        slopes = slopes.to(x.dtype)
        gradient = slopes @ self.features
        return evaluation, torch.cat([gradient, slopes.sum().unsqueeze(0)]) if self.bias else gradient

    def scores(self, x: Tensor) -> Tensor:
        """(n,) at x (n,)."""
        return self._known(x)["scores"]

    def losses(self, x: Tensor) -> Tensor:
        """(n,) the rows' losses at x (n,)."""
        return self._once(x, "losses", lambda scores: self.loss.value(scores, self.targets))

    def true_rates(self, x: Tensor) -> Tensor:
        """(K,) q of decisions at x (n,), a float64."""

        def counted(scores: Tensor) -> Tensor:
            return self._rates(torch.gt(scores, 0, out=torch.empty_like(scores, dtype=torch.float64)))

        return self._once(x, "rates", counted)

    def of_rates(self, rates: Tensor, loss: Tensor) -> Evaluation:
        """f, a float64, and g of q (K,) and the rows' losses (n,)."""
        F = torch.addmv(self.bounds, self.contrasts, rates, beta=-1)
        return Evaluation(F[0] + self.of_loss @ loss.double(), F[1:].to(loss.dtype))

    def _known(self, x: Tensor) -> dict[str, Tensor]:
        """The point x (n,), its scores (n,) and what was made of them. Those of the point before are kept, at which several
        verbs are asked for; threads that look at other points at once put theirs in its place."""
        known = self.last[0] if self.last else None
        if known is None or not torch.equal(known["x"], x):
            s = torch.addmv(x[-1:], self.features, x[:-1]) if self.bias else self.features @ x
            known = {"x": x.clone(), "scores": s}
            self.last[:] = [known]
        return known

    def _once(self, x: Tensor, what: str, of_scores: Callable[[Tensor], Tensor]) -> Tensor:
        """What is made of the scores at x (n,), kept until another point is looked at."""
        known = self._known(x)
        if what not in known:
            known[what] = of_scores(known["scores"])
        return known[what]

    def _rates(self, p: Tensor) -> Tensor:
        return torch.addmv(self.none, self.each, p)


def is_covered(problem: Any, batch: Batch) -> bool:
    """Whether the module's docstring covers a problem and the batch of all of its rows, however many cells there are."""
    model, plan = problem.model, problem.plan
    if type(model) is not MLP or model.hidden or model.outputs > 1 or not isinstance(batch.features, Tensor):
        return False
    others = plan.beyond_means or not problem.contrasts.linear or not problem.shards.alone
    if others or not isinstance(batch.row_sums, StratifiedSums) or batch.size > MOST_ROWS:
        return False
    rates = [f for f in plan.functions if f != LOSS]
    sigmoids = all(isinstance(f, RowFunction) and f.surrogate == "sigmoid" and f.table for f in rates)
    if not sigmoids or len({f.sharpness for f in rates}) != 1:
        return False
    bounded = np.isin(plan.index[plan.coefficient != 0], plan.cells_averaging(LOSS)).any()
    return LOSS not in plan.functions or (problem.joint is not None and not bounded)


def sums_of_decisions(problem: Any, batch: Batch) -> tuple[Tensor, Tensor, list[tuple[slice, np.ndarray, Tensor]]]:
    """(K,) the means of a plan's cells where no row of a whole batch is decided positive, and (K, n) what each row adds to
    them that is, float64; and of each slice of rows the cells (k,) of mean losses, which are in neither, and the weights
    (k, rows) of the rows' losses in these.

    A cell's weights add up to 1 as far as float64 goes, so that equal rates differ by no more."""
    plan, row_sums, y = problem.plan, batch.row_sums, batch.targets
    none = torch.zeros(plan.n_cells, dtype=torch.float64)
    each = torch.zeros(plan.n_cells, batch.size, dtype=torch.float64)
    of_losses, mass = [], torch.zeros(plan.n_cells, dtype=torch.float64)
    own = [plan.cells_averaging(function) for function in plan.functions]
    shares = row_sums.spread(torch.eye(plan.n_cells, dtype=problem.dtype))  # type: ignore[union-attr]
    for rows, weights in row_sums.weights_of_rows(shares):  # type: ignore[union-attr]
        for function, cells, part in zip(plan.functions, own, weights, strict=True):
            weight = part[cells].double()
            mass[cells] += weight.sum(1)
            if function == LOSS:
                of_losses.append((rows, cells, weight))
                continue
            (no_0, yes_0), (no_1, yes_1) = function.table  # type: ignore[union-attr, misc]
            none[cells] += (weight * (no_0 + (no_1 - no_0) * y[rows])).sum(1)
            each[cells, rows] = weight.mul_(yes_0 - no_0 + (yes_1 - no_1 - yes_0 + no_0) * y[rows])
    by = torch.where(mass > 0, 1 / mass, 0.0)
    return (
        none * by,
        each.mul_(by.unsqueeze(1)),
        [(rows, cells, weight * by[cells, None]) for rows, cells, weight in of_losses],
    )
