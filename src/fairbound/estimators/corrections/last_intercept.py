"""Moves the last intercept of a trained model to meet bounds on classes, to where decisions are most accurate, or so that
no decision hangs on rounding.

Adding t >= 0 to the score of a class gives its label to more rows and takes it from none. So the recall of that class
rises with t and that of every other falls; where a bound on classes was missed, the least t that meets it is found by
bisection, from the iterate that missed least and from the last one, for every class and with either sign. Bounds on
groups are met by moving it to ranks of the scores. An objective that looks at the order of the scores alone leaves it
open: then the rank is taken at which most training rows are decided rightly under the bounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import torch
from torch import Tensor

from fairbound.estimators.gains import beyond_chance, gained
from fairbound.estimators.linear.auc_training import ranks_only, stretch
from fairbound.estimators.linear.swept_intercept import best_intercept
from fairbound.estimators.problems import problem_like
from fairbound.estimators.trained import Trained, largest_share, meeting, met_by
from fairbound.fairness.problem import FairProblem
from fairbound.models.mlp import MLP, is_linear
from fairbound.models.scoring import last_intercept
from fairbound.solver.best import MAY_BE_INFEASIBLE

ROUNDING = 1e-5
"""The rounding error of float32 sums, as a share of the largest score."""

HALVINGS = 20
"""How often bisection halves the interval of the least move; at first the interval reaches to all rows in one class."""

NEAR_ODDS = 0.9
"""How far the scores of a model that decides all rows alike reach from the log odds to 0, at most."""

ALIKE = "A model that decides all rows alike is better than what training found under the bounds, and is taken."

REACHABLE = (
    "The same answer for every row meets the bounds, so they are not beyond reach: train longer, or loosen them."
)

NO_INTERCEPT = " A bias in the last layer of the model would be moved to meet them."

BEGINS = (
    "A positive decision begins where most training rows are decided rightly under the bounds: the area under the ROC curve "
    "leaves that open."
)

MOVED = "No iterate met every bound, so the last intercept was moved as far as they needed."


def met_by_intercept(trained: Trained) -> Trained:
    """`trained`; or where no iterate met its bounds, the model of lowest aim whose last intercept was moved until they
    are met: by as little as bounds on single classes need, else, of a model of one output that is not linear, by
    `best_intercept`. If no such move meets them, `trained`, which then does not call a bound
    infeasible that one answer for all rows meets."""
    problem, solution, model = trained.problem, trained.solution, trained.problem.model
    if solution.found or not trained.single or not problem.m:
        return trained
    at = last_intercept(model, solution.x, problem.features)
    classes = all(bound.about == "class" for bound in problem.plan.notions)
    moves: Iterator[tuple[float, Tensor]]
    if at is not None and classes:
        moves = _least_moves(trained, at)
    elif at is not None and model.outputs == 1 and trained.model_alone and not is_linear(model):
        moves = _moves_to_ranks(trained, at)
    else:
        moves = iter(())
    measured = problem.evaluate(solution.x)
    own = float(-measured.extra["accuracy"] if trained.by_accuracy and not classes else measured.f)
    lowest, best = min(moves, key=lambda move: move[0], default=(torch.inf, None))
    if best is not None and not (bool(solution.feasible) and own <= lowest):
        return trained._replace(solution=meeting(trained, best, MOVED), notes=[*trained.notes, MOVED])
    if bool(solution.feasible) or not trained.model_alone or not _one_answer_meets(trained):
        return trained
    said = solution.message.replace(MAY_BE_INFEASIBLE, REACHABLE + (NO_INTERCEPT if at is None else ""))
    return trained._replace(solution=replace(solution, message=said))


def _least_moves(trained: Trained, at: slice) -> Iterator[tuple[float, Tensor]]:
    """The objective and x (n,) of what meets bounds on classes after the least move,
    from the best iterate and the last."""
    for start, code, sign in product(
        (trained.solution.x, trained.solution.last), range(at.start, at.stop), (1.0, -1.0)
    ):
        if (x := _least_move(trained, start, code, sign)) is not None:
            yield float(trained.problem.evaluate(x).f), x


def _moves_to_ranks(trained: Trained, at: slice) -> Iterator[tuple[float, Tensor]]:
    """The aim and x (n,) of `best_intercept`, from the last iterate, or where none of its ranks meets the bounds from
    the best one, which may be the start. It is looked for on scores, so that the model need not run for each rank."""
    for start in (trained.solution.last, trained.solution.x):
        aim, moved = best_intercept(_lines(trained, start), start.new_tensor([1.0, 0.0]), trained.by_accuracy)
        if moved is not None:
            x = start.clone()
            x[at] += moved[-1]
            if trained.meets(x):
                yield aim, x
                return


def _one_answer_meets(trained: Trained) -> bool:
    """Whether the same scores for all rows meet the bounds."""
    c = trained.problem.model.outputs
    parts = trained.parts
    same = [
        problem_like(part, MLP(1, (), c), part.targets.new_zeros(part.rows, 1).to(part.dtype), part.plan)
        for part in parts
    ]
    answers = [torch.zeros(c), *torch.eye(c), *-torch.eye(c)]
    points = [torch.cat([torch.zeros(c), answer]).to(same[0].targets.device, same[0].dtype) for answer in answers]
    return any(met_by(part.evaluate(x) for part in same) for x in points)


def _least_move(trained: Trained, start: Tensor, code: int, sign: float) -> Tensor | None:
    """`start` (n,) with the least number of this sign added to its number `code`, the intercept of a class, that meets
    the bounds which it misses; None where none does, or another bound is missed then."""
    parts = trained.parts

    def excess(t: float) -> Tensor:
        x = moved(t)
        return torch.cat([part.evaluate(x).g for part in parts])

    def moved(t: float) -> Tensor:
        x = start.clone()
        x[code] += sign * t
        return x

    missed = excess(0.0) > 0
    scores = torch.cat([part.all_scores(start).flatten() for part in parts])
    low, high = 0.0, 2.1 * float(scores.abs().max()) + 1e-6
    if not missed.any() or bool((excess(high)[missed] > 0).any()):
        return None
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if bool((excess(middle)[missed] > 0).any()) else (low, middle)
    return moved(high) if bool((excess(high) <= 0).all()) else None


def best_constant(trained: Trained) -> Trained:
    """`trained`, or the best model that meets the bounds and decides all rows alike: where the start alone met the
    bounds, or, if the method was left to "auto", where it is better than what training found: more accurate, by more
    than chance may give, or of a lower objective where neither accuracy nor an order of scores is asked for."""
    problem, solution, model = trained.problem, trained.solution, trained.problem.model
    if not bool(solution.feasible) or solution.x.dim() > 1 or not isinstance(model, MLP) or not model.bias:
        return trained
    if solution.found and (not trained.automatic or problem.plan.ranks):  # equal scores rank nothing
        return trained
    by_accuracy = solution.found and trained.by_accuracy
    if by_accuracy and (trained.accuracy() or 0.0) >= largest_share(problem):
        return trained
    best, least = solution.x, 0.0 if by_accuracy else float(problem.evaluate(solution.x).f)
    for last in _alike(problem, solution.x):
        x = solution.x.clone()
        for parameter, value in zip(model.layers.split(problem.split(x)[0])[-2:], last, strict=True):
            parameter.copy_(value)
        measured = [part.evaluate(x) for part in trained.parts]
        aim = float(measured[0].f)
        if by_accuracy:
            gain, error = gained(problem, solution.x, x)
            aim = beyond_chance(problem) * error - gain
        if met_by(measured) and aim < least:
            best, least = x, aim
    if best is solution.x or not solution.found:
        return trained._replace(solution=replace(solution, x=best))
    return trained._replace(solution=meeting(trained, best, ALIKE), notes=[*trained.notes, ALIKE], optimality={})


def accurate_within_bounds(trained: Trained) -> Trained:
    """`trained`; where its objective is the area under the ROC curve, with the last intercept moved to the rank of the
    scores at which the weight of training rows decided rightly is largest among those that meet the bounds, and a linear
    model's scores stretched as those of areas alone are. The order of the scores stays, and thresholds trained beside
    the model move with them. Itself where no rank is more accurate, and where `with_best_threshold` has chosen."""
    problem, solution, model = trained.problem, trained.solution, trained.problem.model
    if not problem.plan.ranks or ranks_only(problem) or model.outputs > 1:
        return trained
    if not trained.single or not bool(solution.feasible):
        return trained
    if (at := last_intercept(model, solution.x, problem.features)) is None:
        return trained
    x, notes = solution.x.clone(), list(trained.notes)
    lines = _lines(trained, x)
    start = torch.cat([x.new_tensor([1.0, 0.0]), x[model.n :]])
    aim, moved = best_intercept(lines, start, by_accuracy=True, at=slice(1, None))
    if moved is not None and -aim > float(problem.evaluate(x).extra["accuracy"]):
        x[at] += moved[1]
        x[model.n :] += moved[1]
        if not trained.meets(x):
            return trained
        notes.append(BEGINS)
    if is_linear(model):
        stretched = x * stretch(problem, problem.all_scores(x).double().cpu().numpy())
        x = stretched if trained.meets(stretched) else x
    return trained._replace(solution=replace(solution, x=x), notes=notes)


def _lines(trained: Trained, x: Tensor) -> list[FairProblem]:
    """The trained problem's parts as those of one feature, the scores at x (n,), so that the model need not run again."""
    return [problem_like(part, MLP(1), part.all_scores(x).unsqueeze(1), part.plan) for part in trained.parts]


def clear_of_rounding(trained: Trained) -> Trained:
    """`trained`; where a training row's score is so near 0 that sums in another order may change its sign, with the
    last intercept moved to the middle between the scores on either side of 0. So predictions are the decisions that the
    bounds were measured on."""
    problem, solution, model = trained.problem, trained.solution, trained.problem.model
    if model.outputs > 1 or not trained.single or not problem.m:
        return trained
    scores = problem.all_scores(solution.x)
    above = scores > 0
    if bool(above.all()) or not bool(above.any()) or float(scores.abs().min()) > ROUNDING * float(scores.abs().max()):
        return trained
    if (at := last_intercept(model, solution.x, problem.features)) is None:
        return trained
    x = solution.x.clone()
    x[at].sub_((scores[above].min() + scores[~above].max()) / 2)
    same = torch.equal(problem.all_scores(x) > 0, above)
    return trained._replace(solution=replace(solution, x=x)) if same else trained


def _alike(problem: FairProblem, x: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Last layers, weights and intercepts, that decide all rows alike. Of one output, first that of x (n,), shrunk
    about the log odds of the positive label until every score has their sign, so that the rows keep their order. Then
    those of which every row has the same scores: of the classes' shares, and each class for certain."""
    outputs = problem.model.outputs
    mass = problem.weight_of_classes(max(outputs, 2)).to(problem.dtype)
    scores = (mass / mass.sum()).clamp_min(torch.finfo(mass.dtype).tiny).log()
    assert isinstance(problem.model, MLP)
    weights, intercept = problem.model.layers.split(problem.split(x)[0])[-2:]
    none = torch.zeros_like(weights)
    if outputs > 1:
        yield from ((none, one) for one in (scores, *torch.eye(outputs, dtype=mass.dtype, device=mass.device)))
        return
    odds = (scores[1] - scores[0]).reshape(1) if bool((mass > 0).all()) else torch.zeros_like(intercept)
    own = problem.all_scores(x)
    mean = problem.shards.sum(torch.stack([own.sum(), torch.ones_like(own).sum()]))
    mean = mean[0] / mean[1]
    if (farthest := max(problem.shards.gather(float((own - mean).abs().max())))) > 0:
        share = (NEAR_ODDS * odds.abs() / farthest).clamp_max(1.0)
        yield share * weights, odds + share * (intercept - mean)
    yield from ((none, one) for one in (odds, torch.ones_like(odds), -torch.ones_like(odds)))
