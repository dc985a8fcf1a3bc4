"""Where training under bounds on areas begins, with weights of each group or without.

With group terms (`fairbound.tables.GroupTerms`) a linear score has as many weights for a small group as for a large
one, and overfits the small group. A score that all groups share, scaled and shifted for each, has two numbers for a
group:

1. the score of largest area without group terms and without bounds;
2. the largest area under the bound of that score with its group terms, trained as any linear score is;
3. from there, or from the exact solution under the quadratic loss where that is better, all weights are free.

Source: Kallus, Zhou (2019), The fairness of risk scores beyond classification, for scores scaled and shifted by group.
    Departs: scales and shifts are trained with the area, for any number of groups, where theirs are tried on a grid.
"""

from __future__ import annotations

from typing import Any

import torch

from fairbound.estimators.linear.auc_training import Start, auc_start
from fairbound.estimators.problems import problem_like
from fairbound.estimators.runs import solution_of
from fairbound.fairness.problem import FairProblem
from fairbound.methods.full_batch_alm import FullBatchALM
from fairbound.models.mlp import MLP
from fairbound.rows.sparse import SparseRows


def area_start(problem: FairProblem, held: FairProblem | None, groups: int) -> Start | None:
    """`auc_start`; of features with terms of so many `groups` the better of it and of one score for all groups, scaled
    and shifted for each. Both are judged by the true areas, on the rows `held` too."""
    exact = auc_start(problem, held)
    if exact is None or groups < 2:
        return exact

    def rank(start: Start) -> tuple[bool, float, float]:
        found = [part.evaluate(start.x) for part in (problem, held) if part is not None]
        missed = max(float(measured.violation) for measured in found)
        return missed > 0, missed, float(found[-1].f)

    shared = _shared(problem, held, groups)
    return min((exact, shared), key=rank)._replace(steps=shared.steps, samples=shared.samples)


def _shared(problem: FairProblem, held: FairProblem | None, groups: int) -> Start:
    """Steps 1 and 2 of the module's docstring."""
    parts = [problem] if held is None else [problem, held]
    rows: list[Any] = [p.features.matrices[0] if isinstance(p.features, SparseRows) else p.features for p in parts]
    own = (rows[0].shape[1] - groups + 1) // groups
    run: dict[str, Any] = {"budget": f"{FullBatchALM().rounds} steps", "sampling": "full"}

    base = [problem_like(p, MLP(own, bias=False), r[:, :own], p.plan) for p, r in zip(parts, rows, strict=True)]
    free = [p.with_bounds(torch.ones_like(p.bounds)) for p in base]  # no two areas are further apart than 1
    unbound = solution_of(free[0], FullBatchALM(), validation=free[1] if held is not None else None, **run)
    weights = unbound.x[:own]

    terms = torch.zeros(rows[0].shape[1], 2 * groups - 1, dtype=weights.dtype, device=weights.device)
    terms[:own, 0] = weights
    for g in range(1, groups):
        at = own + (g - 1) * (1 + own)
        terms[at, 2 * g - 1] = 1.0
        terms[at + 1 : at + 1 + own, 2 * g] = weights
    product = [r @ (terms if torch.is_tensor(r) else terms.cpu().numpy()) for r in rows]
    small = [
        problem_like(p, MLP(made.shape[1], bias=False), made, p.plan) for p, made in zip(parts, product, strict=True)
    ]
    beside = small[1] if held is not None else None
    first = auc_start(small[0], beside)
    found = solution_of(small[0], FullBatchALM(), validation=beside, x0=None if first is None else first.x, **run)
    x = torch.zeros(problem.n, dtype=problem.dtype, device=problem.device)
    x[: len(terms)] = terms @ found.x[: terms.shape[1]]
    samples = unbound.counts.samples + found.counts.samples
    return Start(x, None, bool(found.feasible), unbound.steps + found.steps, samples)
