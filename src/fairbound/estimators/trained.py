"""`Trained`, the result of training, and the rule that says which of two results is the better one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fairbound.estimators.choosing import Refined
from fairbound.fairness.problem import FairProblem
from fairbound.fairness.ranking_problem import RankingProblem
from fairbound.methods import Method
from fairbound.postprocessing.costs import saves_nothing
from fairbound.problems.problem import Measured
from fairbound.rows.scores import nearly_all_alike
from fairbound.solver.budget import Budget
from fairbound.solver.solve import Solution


class Trained(NamedTuple):
    """The solution of `problem`, chosen on the rows `held` (None: on none), and the method and budget of the run that
    gave it; notes and warnings say what happened on the way. optimality: as of `train_full_batch`,
    where rows were taken at once. automatic: whether the method was left to "auto". by_accuracy: whether the objective
    asks for accuracy."""

    problem: FairProblem
    held: FairProblem | None
    solution: Solution
    method: Method[Any]
    budget: Budget
    notes: list[str]
    warnings: list[str]
    optimality: dict[str, Any] = {}  # noqa: RUF012  it is replaced, never changed
    automatic: bool = False
    by_accuracy: bool = False

    @property
    def parts(self) -> list[FairProblem]:
        """The problems whose bounds are to be met: of the training rows, and of the rows held back, if any."""
        return [self.problem] if self.held is None else [self.problem, self.held]

    @property
    def single(self) -> bool:
        """Whether it is one model, and one process holds all rows, so that they say where to move it."""
        return self.solution.x.dim() == 1 and self.problem.shards.alone

    @property
    def model_alone(self) -> bool:
        """Whether nothing was trained beside the parameters of the model."""
        return self.problem.n == self.problem.model.n

    def measured(self) -> Measured:
        """The exact values of the solution on the training rows."""
        return self.problem.evaluate(self.solution.x)

    def meets(self, x: Tensor) -> bool:
        """Whether x (n,) meets every bound on all parts."""
        return met_by(part.evaluate(x) for part in self.parts)

    def accuracy(self) -> float | None:
        """The share of the training rows decided rightly, as `measured_accuracy`."""
        return measured_accuracy(self.measured())


def met_by(measured: Iterable[Measured]) -> bool:
    """Whether one model meets every bound on all of the rows on which it was measured."""
    return all(float(one.violation) <= 0 for one in measured)


class TrainedRanker(NamedTuple):
    """The solution of `problem`, chosen on the queries `held` (None: on none),
    and the method and budget of the run that gave it."""

    problem: RankingProblem
    held: RankingProblem | None
    solution: Solution
    method: Method[Any]
    budget: Budget
    notes: list[str]


def meeting(trained: Trained, x: Tensor, said: str) -> Solution:
    """The solution with x (n,) in place of its own. x meets every bound on the rows that `trained` is judged on."""
    where = "the training rows" if trained.held is None else "the training and the validation rows"
    return at_point(trained.solution, x, f"every bound is met on {where}. {said}")


def at_point(solution: Solution, x: Tensor, message: str) -> Solution:
    """The solution with x (n,), which meets every bound, in place of its own."""
    return replace(
        solution,
        x=x,
        feasible=torch.ones_like(solution.feasible),
        violation=torch.zeros_like(solution.violation),
        best_step=torch.full_like(solution.best_step, max(solution.steps, 1)),
        message=message,
    )


def no_better_than_constant(accuracy: float, share: float, rows: int) -> bool:
    """Whether a model decides no more of so many rows rightly than one that gives all of them the most
    frequent label, which has this share."""
    return saves_nothing(1 - accuracy, 1 - share, rows)


MOST = 0.8
"""Share of one label from which on a model that gives it to every row is hard to beat."""

HARDLY = 0.05
"""Share of what a constant decides wrongly that a model must decide rightly beyond it, to count as more than one."""


def hardly_better_than_constant(accuracy: float, share: float) -> bool:
    """Whether a model decides hardly more rows rightly than one that gives all of them the most frequent label,
    which has this share."""
    return accuracy < share + HARDLY * (1 - share)


def rows_alike(decided: np.ndarray, share: float) -> int | None:
    """How many rows are given the most frequent answer, where these are nearly all, far more than have one label; else
    None. decided: (n,) classes as numbers from 0. share: of the most frequent label."""
    alike = int(np.bincount(decided).max())
    return alike if nearly_all_alike(alike / len(decided), share) else None


IN_REST = 0.01
"""A slope of the objective up to which nothing but the bounds would hold a model where it is."""


def bounds_cost_nothing(near: Mapping[str, Any]) -> bool:
    """Whether training came to rest where no bound holds it back. near: what is known of the optimality of its end."""
    return bool(near) and not near["multipliers"] and near["violation"] <= 0 and near["stationarity"] <= IN_REST


def measured_accuracy(measured: Measured) -> float | None:
    """The share of the rows decided rightly, in their weights; None where there are no decisions."""
    return min(float(measured.extra["accuracy"]), 1.0) if "accuracy" in measured.extra else None


def largest_share(problem: FairProblem) -> float:
    """The share of the most frequent label, in the weights of the rows."""
    weight = problem.weight_of_classes(max(2, problem.model.outputs))
    return float((weight / weight.sum()).max())


def decisions(problem: FairProblem, x: Tensor) -> Tensor:
    """(n,) the class numbers that x (n,) gives the rows of one process."""
    scores = problem.all_scores(x)
    return (scores > 0).long() if scores.dim() == 1 else scores.argmax(-1)


def weighted_accuracy(problem: FairProblem, x: Tensor) -> float | None:
    """The share of the rows decided rightly where classes count as in the objective; None without class weights, and
    where other processes hold rows too."""
    if problem.class_losses is None or not problem.shards.alone:
        return None
    coefficients = problem.class_losses.coefficients
    y, weight, k = problem.targets.long(), problem.weight_of_rows().double(), len(coefficients)
    right = torch.bincount(y, weight * (decisions(problem, x) == y), minlength=k)
    share = right / torch.bincount(y, weight, minlength=k).clamp_min(1e-300)
    return float(torch.tensor(coefficients).to(share) @ share)


def constant_on(problem: FairProblem, accuracy: float) -> bool:
    """`no_better_than_constant` on the rows of a problem."""
    return no_better_than_constant(accuracy, largest_share(problem), problem.total_rows)


def better(first: Trained, second: Trained, refined: Refined, note: str) -> Trained:
    """The one of two that meets every bound; where both do, that of higher accuracy, or of lower loss where accuracy is
    not asked for; where neither does, that of the smaller excess. note: what is said where it is the second."""

    def rank(trained: Trained) -> tuple[bool, float, float]:
        solution, measured = trained.solution, trained.measured()
        found = solution.found
        accuracy = None if refined == "no" else measured_accuracy(measured)
        aim = float(measured.f) if accuracy is None else -accuracy
        return not found, 0.0 if found else float(solution.violation), aim

    if rank(first) <= rank(second):
        stopped = "interrupted" if second.solution.interrupted else first.solution.stopped
        return first._replace(solution=replace(first.solution, stopped=stopped))
    return second._replace(notes=[*second.notes, note])
