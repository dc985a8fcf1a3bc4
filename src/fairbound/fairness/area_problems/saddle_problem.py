"""AUC under AUC bounds by the quadratic loss, as a min-max problem of single rows: what the level-set methods solve.

    min over x = (w, a, b) of max over (y, y alpha) in LiftedSimplex of  y . F(x) + y alpha . G(w) - c1 sum y alpha^2

with F and G as in `pair_saddle`: F_0 is the objective 1 - AUC(+, -), F_i - 1 - kappa the bounds. One row drawn at
random gives unbiased F, G and gradients, so batches need no pairs, nor rows of every group. a and b, two for every
loss, lie behind the model's parameters in x; a constraint's value at x is taken at the a and b in x; its least value
over all a and b is the model's.

Source: Yao, Lin, Yang (2023), (10) to (13), (18) to (22). Departs: c1 alpha^2 for alpha^2 (see `pair_saddle`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairbound.base.errors import OptionError
from fairbound.fairness.area_problems.pair_saddle import PairSaddle
from fairbound.fairness.areas.pair_losses import PairLosses, Quadratic
from fairbound.fairness.evaluation.batches import Batch
from fairbound.fairness.problem import FairProblem
from fairbound.models.mlp import is_linear
from fairbound.models.scoring import noise
from fairbound.problems.base import BaseProblem
from fairbound.problems.domain import Ball, Box, Product
from fairbound.problems.dual_sets import LiftedSimplex
from fairbound.problems.problem import Evaluation, Measured, Weights


class PairSaddleProblem(BaseProblem):
    """For areas under ROC curves on batches: a FairProblem whose losses of pairs are written as losses of single rows.

    It is the min-max form of the problem. Its objective is "auc[surrogate=quadratic]" and its bounds are `auc_parity`s
    with surrogate=quadratic and one c1; a bound is then kappa, on the surrogate.

    reach: the interval [-reach, reach] of a, b and alpha, which must hold the mean scores of all sets and their
        differences for every w that training meets. None takes it from a linear model's domain, `Ball(radius)`; other
        models need a number.
    x: (..., n) the model's parameters, then a and b of the objective's loss and of the bounds' losses.
    g: (..., m), of which the last `lifted` are G.

    Raises: OptionError for another objective or bound, and where reach is not known.
    """

    def __init__(self, problem: FairProblem, reach: float | None = None):
        self.problem = problem
        found, kappas = _losses(problem)
        self._inside = _membership(problem, found)
        totals = problem.totals().double()
        weight = float(problem.weight_of_rows().double().sum())
        self._share = (self._inside.double() @ totals / weight).to(problem.dtype)
        curvatures = {statistic.loss.c1 for statistic, _, _ in found}  # type: ignore[attr-defined]
        if len(curvatures) > 1:
            raise OptionError(f"the min-max form needs one c1 for objective and bounds, got {sorted(curvatures)}.")
        (c1,) = curvatures
        pairs = [first + statistic.pairs[j] for statistic, j, first in found]
        self.objective, self.constraints = PairSaddle(pairs[0][None], c1), PairSaddle(np.stack(pairs[1:]), c1)
        less = [kappa - statistic.constant for (statistic, _, _), kappa in zip(found[1:], kappas, strict=True)]
        self._less = torch.tensor(less, dtype=problem.dtype, device=problem.device)
        m, t = self.constraints.pairs.shape[:2]
        self.lifted, self.m = 1 + m * t, m + 1 + m * t
        self.reach = self._reach(reach)
        self.dual_set = LiftedSimplex((0, *np.repeat(np.arange(1, m + 1), t).tolist()), self.reach, c1)
        self.n = problem.n + 2 * self.lifted
        self.domain = Product((problem.domain, Box(-self.reach, self.reach)), (problem.n, 2 * self.lifted))
        self.rows, self.strata, self.blocks = problem.rows, problem.strata, problem.blocks
        self.names = [*problem.names, *(f"inner maximum {j}" for j in range(self.lifted))]
        self.convex = is_linear(problem.model)

    def _reach(self, reach: float | None) -> float:
        """What was asked for, or what the domain of a linear model implies."""
        if reach is not None:
            if not reach > 0:
                raise OptionError(f"reach must be positive, got {reach!r}.")
            return float(reach)
        model, domain = self.problem.model, self.problem.domain
        ball = isinstance(domain, Ball) and isinstance(domain.centre, float) and domain.centre == 0.0
        if not (is_linear(model) and not model.bias and ball):
            raise OptionError(
                "give reach: it is known only of a linear model without bias whose domain is Ball(radius)."
            )
        full = self.problem.full()
        rows = self.problem.features
        means = torch.stack([_mean_row(rows, w) for w in self._weights(full)])
        gaps = torch.cdist(means, means).max()
        return float(domain.radius) * max(float(means.norm(dim=-1).max()), float(gaps))  # type: ignore[attr-defined]

    # -- the four verbs -----------------------------------------------------------------------------------------

    def start(self, seeds: Sequence[int]) -> Tensor:
        """The model's own start, with a and b the means of its scores,
        so that a network's first scores are near them."""
        x = self.problem.start(seeds)
        return self.best(torch.cat([x, x.new_zeros(*x.shape[:-1], 2 * self.lifted)], dim=-1))

    def split(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """The model's parameters, a and b (..., 1, 1) of the objective, a and b (..., m, t) of the bounds."""
        m, t = self.constraints.pairs.shape[:2]
        w, ab = x[..., : self.problem.n], x[..., self.problem.n :]
        a0, b0, a, b = ab.split([1, 1, m * t, m * t], dim=-1)
        return w, a0.unsqueeze(-1), b0.unsqueeze(-1), a.unflatten(-1, (m, t)), b.unflatten(-1, (m, t))

    def sample(self, seeds: Sequence[int], name: str, k: int, size: int, kind: str) -> Batch:
        """The FairProblem's batch; "uniform" ones of a single row are what a stream gives."""
        return self.problem.sample(seeds, name, k, size, kind)

    def _weights(self, batch: Batch) -> Tensor:
        """(..., S, B) the share of every row in every set: its weight in the batch over the set's in all rows."""
        cells = batch.cells
        inside = self._inside[:, cells].any(-1).movedim(0, -2)
        return inside * batch.objective.unsqueeze(-2) / self._share.unsqueeze(-1)

    def values(self, x: Tensor, batch: Batch, true: bool = False) -> Evaluation:
        """F_0 and (F - 1 - kappa, G); `true` makes no difference."""
        w, a0, b0, a, b = self.split(x)
        with noise(self.problem.model, batch.seed):
            s = self.problem.model.scores(w, batch.features)
        return self._evaluation(s, self._weights(batch), a0, b0, a, b)

    def _evaluation(self, s: Tensor, W: Tensor, a0: Tensor, b0: Tensor, a: Tensor, b: Tensor) -> Evaluation:
        first, rest = self.objective.parts(s, W, a0, b0), self.constraints.parts(s, W, a, b)
        return Evaluation(
            first.F.squeeze(-1), torch.cat([rest.F - self._less, first.G.flatten(-2), rest.G.flatten(-2)], dim=-1)
        )

    def gradient(
        self, x: Tensor, batch: Batch, weights: Weights | Callable[[Evaluation], Weights]
    ) -> tuple[Evaluation | None, Tensor]:
        """The gradient (..., n) of w0 F_0 + w . (F, G): of the Lagrangian where (w0, w) is a member of the dual set."""
        theta, a0, b0, a, b = self.split(x)
        with noise(self.problem.model, batch.seed):
            s, tape = self.problem.model.forward(theta, batch.features)
        W = self._weights(batch)
        evaluation = self._evaluation(s, W, a0, b0, a, b) if callable(weights) else None
        w0, w = weights(evaluation) if callable(weights) else weights  # type: ignore[arg-type]
        m, t = self.constraints.pairs.shape[:2]
        y0 = torch.as_tensor(w0, dtype=x.dtype, device=x.device).expand(*x.shape[:-1], 1)
        w = x.new_zeros(*x.shape[:-1], self.m) if w is None else w
        y, lifted0, lifted = w.split([m, 1, m * t], dim=-1)
        of_first, da0, db0 = self.objective.slopes(s, W, a0, b0, y0, lifted0.unsqueeze(-1))
        of_rest, da, db = self.constraints.slopes(s, W, a, b, y, lifted.unflatten(-1, (m, t)))
        of_ab = [part.flatten(-2) for part in (da0, db0, da, db)]
        return evaluation, torch.cat([tape.vjp(of_first + of_rest), *of_ab], dim=-1)

    def evaluate(self, x: Tensor) -> Measured:
        """The quadratic loss of the model's scores and the bounds' surrogates minus kappa (..., m) on all rows, at the
        best a, b and alpha. extra: "auc" and "differences" (..., m), the true ones; "beyond": by how much means of
        scores leave [-reach, reach]."""
        theta, full = x[..., : self.problem.n], self.problem.full()
        found, true = self.problem.values(theta, full), self.problem.evaluate(theta)
        s = self.problem.all_scores(theta)
        means = (self._weights(full) @ s.unsqueeze(-1)).squeeze(-1)
        beyond = torch.maximum(means.abs().amax(-1), means.amax(-1) - means.amin(-1)) - self.reach
        kappa = self.problem.bounds
        return Measured(
            found.f, found.g, {"auc": 1 - true.f, "differences": true.g + kappa, "beyond": beyond.clamp_min(0)}
        )

    def best(self, x: Tensor) -> Tensor:
        """x (..., n) with the best a and b of its model on all rows."""
        theta, full = x[..., : self.problem.n], self.problem.full()
        means = (self._weights(full) @ self.problem.all_scores(theta).unsqueeze(-1)).squeeze(-1)
        parts = (form.best(means)[:2] for form in (self.objective, self.constraints))
        return torch.cat([theta, *(part.flatten(-2) for pair in parts for part in pair)], dim=-1)


Found = tuple[PairLosses, int, int]
"""A statistic, the number of one of its sums, and the number of its first set among all sets."""


def _losses(problem: FairProblem) -> tuple[list[Found], list[float]]:
    """The sums of losses of the objective and of every constraint in turn, and the constraints' bounds."""
    plan, at, first = problem.plan, problem.plan.n_cells + 1, 0
    by_quantity: dict[int, Found] = {}
    for statistic in plan.statistics:
        if not (isinstance(statistic, PairLosses) and isinstance(statistic.loss, Quadratic)):
            raise OptionError("the min-max form takes surrogate=quadratic in the objective and in every bound.")
        by_quantity |= {at + j: (statistic, j, first) for j in range(statistic.size)}
        at, first = at + statistic.size, first + len(statistic.sets)
    objective = plan.objective
    single = objective is not None and len(objective.index) == 1 and objective.index[0] in by_quantity
    plain = plan.m == len(plan.index) > 0 and set(plan.index[:, 0].tolist()) <= by_quantity.keys()
    if objective is None or not single or not plain:
        raise OptionError(
            "the min-max form takes the objective auc[surrogate=quadratic] and bounds auc_parity alone, at least one."
        )
    return [by_quantity[q] for q in (objective.index[0], *plan.index[:, 0].tolist())], plan.bounds.tolist()


def _membership(problem: FairProblem, found: list[Found]) -> Tensor:
    """(S, K + 1) bool: which of the plan's cells each set has."""
    statistics = {first: statistic for statistic, _, first in found}
    inside = np.zeros((sum(len(s.sets) for s in statistics.values()), problem.plan.n_cells + 1), dtype=bool)
    for first, statistic in statistics.items():
        rows, cells = statistic.sets.shape
        inside[first : first + rows, statistic.offset : statistic.offset + cells] = statistic.sets
    return torch.as_tensor(inside, device=problem.device)


def _mean_row(rows: Any, share: Tensor) -> Tensor:
    """(d,) the mean of the rows, dense or SparseRows, under shares (n,)."""
    if isinstance(rows, Tensor):
        return share @ rows
    return torch.as_tensor(rows.matrices[0].T @ share.cpu().numpy())
