"""The last layer of a network solved on all rows at once, its other layers held where training on random batches left
them.

In its last layer a network is a linear model of what the layers before make of the rows, so that what holds for linear
models holds for it: bounds are met exactly on the training rows, where that costs least.

Source: Kirichenko, Izmailov, Wilson (2023), Last layer re-training is sufficient for robustness to spurious
correlations, for the last layer as the place to mend. Departs: it is solved under stated bounds, on the training rows
themselves.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor

from fairbound.estimators.choosing import Refined
from fairbound.estimators.linear.auc_training import auc_start, ranks_only, with_best_threshold
from fairbound.estimators.linear.full_batch import train_full_batch
from fairbound.estimators.linear.weight_decay import decay_of
from fairbound.estimators.problems import problem_like
from fairbound.estimators.runs import joined
from fairbound.fairness.compiled.plan import Plan
from fairbound.fairness.objectives import Accuracy
from fairbound.fairness.problem import FairProblem
from fairbound.methods import FullBatchALM
from fairbound.models.mlp import MLP
from fairbound.models.scoring import last_inputs
from fairbound.solver.solve import Solution


def with_last_layer_solved(
    problem: FairProblem,
    held: FairProblem | None,
    solution: Solution,
    *,
    refined: Refined,
    weight_decay: float | Literal["auto"] = 0.0,
    **options: Any,
) -> tuple[Solution, dict[str, Any]]:
    """`solution` with the last layer of its last iterate solved anew; itself, where it meets the bounds and the other
    does not. And how nearly its last layer meets the conditions of optimality, as of `train_full_batch`.

    problem: of the mean loss or the area of a network with a last layer. held: rows on which the bounds are to be met too.
    weight_decay: as in FairClassifier, of the last layer's weights. refined, options: as in `train_full_batch`. Where
    areas are all that counts it begins at the exact solution of the last layer, if that is better than the last
    iterate's, and ends with where positive begins, as of a linear model (`auc_training`).
    """
    x, more = problem.split(solution.last)
    own = last_layer(problem, x, refined, problem.plan if refined == "no" else None)
    beside = None if held is None else last_layer(held, x, refined, own.plan)
    areas, first = ranks_only(own), torch.cat([x[-own.model.n :], more])
    start = auc_start(own, beside) if areas else None

    def rank(at: Tensor) -> tuple[float, float]:
        found = [part.evaluate(at) for part in (own, beside) if part is not None]
        return max(float(measured.violation) for measured in found), float(found[-1].f)

    if start is not None:
        first = min((start.x, first), key=rank)
    options |= {"validation": beside, "x0": first, "weight_decay": decay_of(own, weight_decay, True)}
    after, facts = train_full_batch(own, None, FullBatchALM(), refined=refined, **options)
    after = with_best_threshold(own, after, None)[0] if areas else after
    if after.interrupted or (solution.found and not after.feasible):
        return replace(solution, stopped=after.stopped), {}
    before = x[: -own.model.n]
    whole = replace(after, x=torch.cat([before, after.x]), last=torch.cat([before, after.last]))
    return joined(solution, whole), facts


def last_layer(problem: FairProblem, x: Tensor, refined: Refined, plan: Plan | None = None) -> FairProblem:
    """The problem of the last layer's parameters, those of the other layers being the first of x (n,).

    refined: unless "no" its objective is an `Accuracy`, at first the mean loss. plan: compiled already, objective
    included.
    """
    hidden = last_inputs(problem.model, x, problem.features)
    assert hidden is not None
    objective = None if refined == "no" else Accuracy(0.0)
    return problem_like(problem, MLP(hidden.shape[1], outputs=problem.model.outputs), hidden, plan, objective=objective)
