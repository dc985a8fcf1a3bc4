"""Where training on all rows begins besides zeros, where from there it often ends at a poor model.

- Shares within a percentile interval do not change where the decision lies outside it, so no slope leads into it from
  there: training begins at the model without bounds too.
- So it does under bounds on quotients of decisions, such as precision, unless training from zeros is nearly as accurate as
  that model.
- The area under the ROC curve and bounds on the order of scores stay as they are where all scores grow. From zeros a
  round may end at scores so far apart that all surrogates are flat, and no later one moves. So training begins at the
  model of the lowest loss under the same bounds, its scores spread by SPREAD, with gentle surrogates and a penalty that
  keeps it near the bounds. Where bounds train thresholds beside the model, it begins there alone; else at zeros too.

The best of the models is taken.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from torch import Tensor

from fairbound.estimators.linear.auc_training import ranks_only
from fairbound.estimators.linear.lowest_loss import lowest_loss
from fairbound.estimators.problems import problem_like
from fairbound.estimators.runs import joined
from fairbound.estimators.trained import measured_accuracy
from fairbound.fairness.percentiles.interval_shares import WithinShares
from fairbound.fairness.pointwise import LOGISTIC
from fairbound.fairness.problem import FairProblem
from fairbound.methods import FullBatchALM
from fairbound.models.mlp import is_linear
from fairbound.rows.sparse import SparseRows
from fairbound.solver.solve import Solution, solve

NEARLY = 0.005
"""What the bounds on quotients cost in accuracy at most where there is nothing to gain from another start."""

SPREAD = 4.0
"""Standard deviation of the scores where an area begins, at which sigmoids of their differences are near the area."""

STEEP = 10.0
"""By how much larger the penalty is there: with the usual one a round leaves the bounds for a larger area, and comes back
to a smaller one."""

UNBOUNDED = "Begun at the model without bounds, training gave the better model, which is taken."
LOWEST_LOSS = "Begun at the model of the lowest loss under the bounds, training gave the better model, which is taken."


class OtherStart(NamedTuple):
    """x: (n,). method: of the run from there. said: a note where its model is taken. before: the run that found x, if one
    did. enough: from which accuracy on the model from zeros is kept."""

    x: Tensor
    method: FullBatchALM
    said: str
    before: Solution | None = None
    enough: float = 1.0

    def counted(self, solution: Solution) -> Solution:
        """The solution of the run from there with the steps and seconds of the one before it, and as one that found its
        model where that is x."""
        if self.before is not None:
            return joined(replace(self.before, records=solution.records[:1]), solution)
        return replace(solution, best_step=solution.best_step.clamp_min(1)) if bool(solution.feasible) else solution


def other_start(problem: FairProblem, method: FullBatchALM, decay: float, **options: Any) -> OtherStart | None:
    """Where else to begin, as the module's docstring says; None where zeros do. decay: the weight decay. options: budget,
    seed and progress of `solve`."""
    plan, model = problem.plan, problem.model
    if not is_linear(model, 1) or not problem.m or not problem.shards.alone:
        return None
    if plan.ranks:
        if ranks_only(problem):
            return None
        before = solve(problem_like(problem, model, None, None), method, sampling="full", **options)
        gentle = replace(method, sharpness=method.sharpness[:1], penalty=STEEP * method.penalty)
        return OtherStart(_spread(problem, before.x), gentle, LOWEST_LOSS, before)
    dense = not isinstance(problem.features, SparseRows)
    if not dense or problem.loss is not LOGISTIC or not getattr(model, "bias", False) or plan.auxiliaries:
        return None
    if any(isinstance(statistic, WithinShares) for statistic in plan.statistics):
        return OtherStart(lowest_loss(problem, decay), method, UNBOUNDED)
    if len(plan.ratios):
        x = lowest_loss(problem, decay)
        return OtherStart(x, method, UNBOUNDED, enough=(measured_accuracy(problem.evaluate(x)) or 1.0) - NEARLY)
    return None


def _spread(problem: FairProblem, x: Tensor) -> Tensor:
    """(n,) the model at x (n,) and its thresholds, so far from 0 that its scores have the standard deviation SPREAD."""
    spread = float(problem.all_scores(x).std())
    return x * (SPREAD / spread) if spread > 0 else x
