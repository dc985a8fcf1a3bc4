"""A network of largest area under bounds on areas, on all rows at once, with weights that are kept small.

A few rounds on all rows overfit the training rows, small groups first, so that bounds met there are missed on new rows
and cost area. So decay/2 |x|^2 is added to the objective, and of several decays validation rows choose one. Where no
iterate meets a bound on these rows too, training goes on with their bounds as further constraints
(`full_batch.also_on_validation`).

Source: Krogh, Hertz (1992), A simple weight decay can improve generalization.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from fairbound.base.seeds import seed_for
from fairbound.estimators.linear.auc_training import auc_start
from fairbound.estimators.problems import problem_like
from fairbound.estimators.runs import also_on_validation, rank, solution_of
from fairbound.fairness.problem import FairProblem
from fairbound.methods.full_batch_alm import FullBatchALM
from fairbound.models.mlp import MLP
from fairbound.models.model import ModuleModel
from fairbound.problems.penalised import Proximal
from fairbound.solver.solve import Solution, solve
from fairbound.studies.task import Before

UNITS = 10
DECAYS = (0.001, 0.002, 0.004)


class GroupScaled(nn.Module):
    """The score of `net` for the first `own` features, scaled and shifted in the group in which the feature after them
    is 1 and not 0; both are trained with the network."""

    def __init__(self, net: nn.Module, own: int) -> None:
        super().__init__()
        self.net, self.own = net, own
        self.terms = nn.Parameter(torch.zeros(2))

    def forward(self, rows: Tensor) -> Tensor:
        """(n,) of rows (n, own + 1 or more)."""
        score, inside = self.net(rows[:, : self.own]).squeeze(-1), rows[:, self.own]
        return score + inside * (self.terms[0] * score + self.terms[1])


def network(features: int, seed: int, group_terms: bool) -> ModuleModel:
    """One hidden layer of UNITS sigmoids, that begins at random parameters of the seed. group_terms: whether the
    features are (xi, gamma, gamma xi); the network sees xi, and gamma scales and shifts its score."""
    own = (features - 1) // 2 if group_terms else features
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_for("network", root=seed))
        hidden = nn.Sequential(nn.Linear(own, UNITS), nn.Sigmoid(), nn.Linear(UNITS, 1))
    return ModuleModel(GroupScaled(hidden, own) if group_terms else hidden)


def group_scaled(problem: FairProblem, held: FairProblem, free: Tensor, before: Before) -> Tensor:
    """(n,) of a network with `GroupScaled`: the network alone is `free`, with the scale and shift of largest area under
    the bounds on the rows of both. before: where the cost is counted."""
    module = problem.model.module  # type: ignore[attr-defined]
    x = torch.cat([free.new_zeros(2), free])

    def small(part: FairProblem) -> FairProblem:
        rows: Any = part.features
        score, inside = part.all_scores(x), rows[:, module.own]
        return problem_like(part, MLP(3, bias=False), torch.stack([score, inside, inside * score], 1), part.plan)

    own, other = small(problem), small(held)
    method, start = FullBatchALM(), auc_start(own, other)
    run: dict[str, Any] = {"budget": f"{method.rounds} steps", "sampling": "full"}
    scale, shift, more = before.add(solution_of(own, method, validation=other, x0=start and start.x, **run)).x
    if scale != 0:
        x[0], x[1], x[-UNITS - 1 :] = more / scale, shift, scale * x[-UNITS - 1 :]
    return x


def shrunk(problem: FairProblem, held: FairProblem, x0: Tensor, seed: int, budget: str, before: Before) -> Solution:
    """The best of all DECAYS from x0 (n,), each with this budget: that which meets the bounds on the rows of `problem`
    and of `held`, or misses them by the least, with the largest area on the latter. before: where the cost of all is
    counted."""
    method = FullBatchALM()
    run: dict[str, Any] = {
        "budget": budget, "sampling": "full", "seed": seed, "validation": held,
    }  # fmt: skip

    problems = [Proximal(problem, torch.zeros_like(x0), decay) for decay in DECAYS]
    tried = [(decayed, before.add(solve(decayed, method, x0=x0, **run))) for decayed in problems]
    decayed, best = min(tried, key=lambda found: rank(found[1], held))
    run["budget"] = f"{method.rounds} steps"
    return best if bool(best.feasible) else before.add(also_on_validation(decayed, method, best, **run), after=best)
