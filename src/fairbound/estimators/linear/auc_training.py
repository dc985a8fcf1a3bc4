"""A linear score of largest area under the ROC curve under bounds on areas, on all rows: from the quadratic loss to the
areas.

1. The exact solutions under the quadratic loss along kappa (`fairness/area_problems/kappa_path.py`), of which the true
   areas choose one, on the validation rows too where there are some.
2. From there, or from the nearest to the stated bound where none meets it, all rows at once under the stated surrogate,
   steered by the true areas and sharpened (`fb.FullBatchALM`).
3. The better of the two by the true areas. A positive decision then begins where most training rows are decided
   rightly, and scores are stretched until their log loss as logits is the lowest, so that probabilities mean something.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fairbound.base.callers import users_line
from fairbound.base.errors import DataError, DataWarning, EmptyGroupError
from fairbound.fairness.area_problems.kappa_path import along_kappa
from fairbound.fairness.area_problems.linear_auc import LinearAUC
from fairbound.fairness.areas.pair_losses import PairLosses
from fairbound.fairness.problem import FairProblem
from fairbound.models.mlp import MLP, is_linear
from fairbound.rows.sparse import SparseRows
from fairbound.solver.solve import Solution

MOST_FEATURES = 1500
MOST_NUMBERS = 250_000_000
"""Numbers in the matrices of all comparisons, features by features, up to which the quadratic loss is solved exactly."""
MANY_PAIRS = 1000
SLOW = (
    "{} compares {:,} pairs of groups, so that training may take minutes. Leave out groups of few rows (fewest=50 in the brackets of the bound), "
    "merge groups, or state a budget."
)
SCALE = 4.0
"""Factor on the scores of the quadratic loss, which aim at a distance of 1 between the classes."""

MOST_STRETCH = 30  # powers of two


class Start(NamedTuple):
    """x: (n,) where training begins. kappa: of the quadratic loss's solution there, None for a score that groups share
    (`group_starts`);
    met: whether it meets the stated bound. steps, samples: of the training that found it, 0 where it was solved."""

    x: Tensor
    kappa: float | None
    met: bool
    steps: int = 0
    samples: int = 0


def ranks_only(problem: FairProblem) -> bool:
    """Whether a linear model's areas are all that objective and bounds look at."""
    plan, model = problem.plan, problem.model
    return (
        is_linear(model, 1)
        and plan.ranks
        and all(bound.judged_from == "areas" for bound in plan.notions)
        and bool(plan.statistics)
        and all(isinstance(statistic, PairLosses) for statistic in plan.statistics)
    )


def warn_of_pairs(problem: FairProblem) -> None:
    """Warns: DataWarning where bounds on areas compare many pairs of groups, each of which is two constraints."""
    compared = [s for s in problem.plan.statistics if isinstance(s, PairLosses)]
    pairs = sum(statistic.size for statistic in compared) // 2
    if pairs > MANY_PAIRS:
        said = " and ".join(bound.text for bound in problem.plan.notions if bound.judged_from == "areas")
        warnings.warn(SLOW.format(said, pairs), DataWarning, stacklevel=users_line())


def auc_start(problem: FairProblem, held: FairProblem | None = None) -> Start | None:
    """Where to begin; None where there is no single bound between the groups of one attribute, or too many features.

    held: the same bound on validation rows. As in `solve` the bound is then to be met on both, and areas count there.
    """
    bounds, n = problem.plan.notions, problem.model.n
    if n > MOST_FEATURES or problem.m * n**2 > MOST_NUMBERS or len(bounds) != 1 or len(problem.groups.attributes) != 1:
        return None
    weight = None if problem.row_weight is None else problem.row_weight.cpu().numpy()
    features: Any = problem.features
    rows = features.double().matrices[0] if isinstance(features, SparseRows) else features.cpu().numpy()
    groups = problem.groups.take(problem.strata.order)
    try:
        program = LinearAUC.of(
            replace(bounds[0], surrogate="quadratic"), rows, problem.targets.cpu().numpy().astype(int), groups, sample_weight=weight
        )  # fmt: skip
    except (DataError, EmptyGroupError):
        return None

    def point(weights: np.ndarray) -> Tensor:
        x = torch.zeros(problem.n, dtype=problem.dtype)
        x[: len(weights)] = SCALE * torch.as_tensor(weights)
        return x.to(problem.device)

    def measure(weights: np.ndarray) -> tuple[float, float]:
        found = [part.evaluate(point(weights)) for part in (problem, held) if part is not None]
        return 1 - float(found[-1].f), max(float(f.g.max()) for f in found) + bounds[0].bound

    path = along_kappa(program, measure, bounds[0].bound)
    return Start(point(path.chosen.scores.weights), path.chosen.scores.kappa, path.met)


def with_best_threshold(problem: FairProblem, solution: Solution, start: Start | None) -> tuple[Solution, list[str]]:
    """The solution with the constant under which most training rows are decided rightly, stretched to logits, and which
    surrogate met the bound."""
    x, notes = solution.x.clone(), []
    model = problem.model
    if isinstance(model, MLP) and model.bias:
        x[-1] = 0.0
        scores = problem.all_scores(x).double().cpu().numpy()
        begins = _threshold(problem, scores)
        x[-1] = -begins
        x *= stretch(problem, scores - begins)
    if start is not None:
        first = int(solution.best_step) == 0
        begun = "one score, scaled and shifted for each group, by " if first and start.kappa is None else ""
        surrogate = (
            f"the quadratic loss with kappa {start.kappa:.3g}"
            if first and start.kappa is not None
            else f"{begun}{_surrogate(problem)} pairs, steered by the true areas"
        )
        verb = "met the bound" if bool(solution.feasible) else "came nearest to the bound"
        notes.append(f"The surrogate that {verb} at the largest area: {surrogate}.")
        solution = replace(solution, best_step=solution.best_step.clamp_min(1) if start.met else solution.best_step)
    return replace(solution, x=x), notes


def _surrogate(problem: FairProblem) -> str:
    return type(problem.plan.statistics[0].loss).__name__.lower()  # type: ignore[attr-defined]


def stretch(problem: FairProblem, scores: np.ndarray) -> float:
    """The power of two by which scores are multiplied for the lowest log loss, convex in it. By a power of two their
    order and the decisions stay as they are, bit for bit."""
    margins = np.where(problem.targets.cpu().numpy() > 0.5, scores, -scores)
    w = problem.weight_of_rows().double().cpu().numpy()

    def loss(power: int) -> float:
        return float(w @ np.logaddexp(0.0, -margins * 2.0**power))

    power, lowest = 0, loss(0)
    for way in (1, -1):
        while abs(power) < MOST_STRETCH and (found := loss(power + way)) < lowest:
            power, lowest = power + way, found
    return float(2.0**power)


def _threshold(problem: FairProblem, scores: np.ndarray) -> float:
    """Between two scores, where the weight of rows that are decided rightly is the largest."""
    y = problem.targets.cpu().numpy() > 0.5
    w = problem.weight_of_rows().double().cpu().numpy()
    order = np.argsort(scores)
    s, gain = scores[order], np.where(y, -w, w)[order]
    right = np.r_[0.0, gain.cumsum()]
    ends = np.r_[True, s[1:] > s[:-1], True]
    best = int(np.where(ends, right, -np.inf).argmax())
    if best in (0, len(s)):
        return float(s[0] - 1.0 if best == 0 else s[-1] + 1.0)
    return float((s[best - 1] + s[best]) / 2)
