"""Moves the last intercept of a trained model to meet bounds on classes, or so that no decision hangs on rounding.

Adding t >= 0 to the score of a class gives its label to more rows and takes it from none. So the recall of that class rises with t and
that of every other falls; where a bound on classes was missed, the least t that meets it is found by bisection, from the iterate that
missed least and from the last one, for every class and with either sign.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from fairbound.estimators.full_batch import gained
from fairbound.estimators.trained import Trained, meeting
from fairbound.fairness.problem import FairProblem
from fairbound.models.mlp import MLP

ROUNDING = 1e-5
"""The rounding error of float32 sums, as a share of the largest score."""

HALVINGS = 20
"""How often bisection halves the interval of the least move; at first the interval reaches to all rows in one class."""

NEAR_ODDS = 0.9
"""How far the scores of a model that decides all rows alike reach from the log odds to 0, at most."""

ALIKE = "A model that decides all rows alike is better than what training found under the bounds, and is taken."

MOVED = "No iterate met every bound, so the last intercept was moved as far as they needed."


def met_by_intercept(trained: Trained) -> Trained:
    """`trained`; or where no iterate met its bounds, all on single classes, the model of lowest objective whose last
    intercept was moved until they are met. If no such move meets them, `trained`."""
    problem, solution, model = trained.problem, trained.solution, trained.problem.model
    if solution.found or solution.x.dim() > 1 or not problem.m or not problem.shards.alone:
        return trained
    if not isinstance(model, MLP) or not model.bias or any(b.about != "class" for b in problem.plan.notions):
        return trained
    best, lowest = None, float(problem.evaluate(solution.x).f) if bool(solution.feasible) else torch.inf
    for start in (solution.x, solution.last):
        for code in range(model.outputs):
            for sign in (1.0, -1.0):
                x = _least_move(trained, start, code, sign)
                if x is not None and (f := float(problem.evaluate(x).f)) < lowest:
                    best, lowest = x, f
    if best is None:
        return trained
    return trained._replace(solution=meeting(trained, best, MOVED), notes=[*trained.notes, MOVED])


def _least_move(trained: Trained, start: Tensor, code: int, sign: float) -> Tensor | None:
    """`start` (n,) with the least number of this sign added to the intercept of class `code` that meets the bounds which it misses; None
    where none does, or another bound is missed then."""
    problem, model = trained.problem, trained.problem.model
    assert isinstance(model, MLP)
    parts = [part for part in (problem, trained.held) if part is not None]

    def excess(t: float) -> Tensor:
        x = moved(t)
        return torch.cat([part.evaluate(x).g for part in parts])

    def moved(t: float) -> Tensor:
        x = start.clone()
        model.layers.split(problem.split(x)[0])[-1][code] += sign * t
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


def best_constant(trained: Trained, automatic: bool) -> Trained:
    """`trained`, or the best model that meets the bounds and decides all rows alike: where the start alone met the bounds, or,
    if `automatic`, where it is better than what training found: more accurate, by more than chance may give, or of a lower
    objective where accuracy is not asked for."""
    problem, solution, model = trained.problem, trained.solution, trained.problem.model
    if not bool(solution.feasible) or solution.x.dim() > 1 or not isinstance(model, MLP) or not model.bias:
        return trained
    if solution.found and not automatic:
        return trained
    by_accuracy = solution.found and problem.refined
    best, least = solution.x, 0.0 if by_accuracy else float(problem.evaluate(solution.x).f)
    for last in _alike(problem, solution.x):
        x = solution.x.clone()
        for parameter, value in zip(model.layers.split(problem.split(x)[0])[-2:], last, strict=True):
            parameter.copy_(value)
        measured = [part.evaluate(x) for part in (problem, trained.held) if part is not None]
        aim = -gained(problem, solution.x, x) if by_accuracy else float(measured[0].f)
        if all(float(one.violation) <= 0 for one in measured) and aim < least:
            best, least = x, aim
    if best is solution.x or not solution.found:
        return trained._replace(solution=replace(solution, x=best))
    return trained._replace(solution=meeting(trained, best, ALIKE), notes=[*trained.notes, ALIKE], optimality={})


def clear_of_rounding(trained: Trained) -> Trained:
    """`trained`; where a training row's score is so near 0 that sums in another order may change its sign, with the
    last intercept moved to the middle between the scores on either side of 0. So predictions are the decisions that the
    bounds were measured on."""
    problem, solution, model = trained.problem, trained.solution, trained.problem.model
    if not isinstance(model, MLP) or not model.bias or model.outputs > 1:
        return trained
    if solution.x.dim() > 1 or not problem.shards.alone or not problem.m:
        return trained
    scores = problem.all_scores(solution.x)
    above = scores > 0
    if bool(above.all()) or not bool(above.any()) or float(scores.abs().min()) > ROUNDING * float(scores.abs().max()):
        return trained
    x = solution.x.clone()
    model.layers.split(problem.split(x)[0])[-1].sub_((scores[above].min() + scores[~above].max()) / 2)
    same = torch.equal(problem.all_scores(x) > 0, above)
    return trained._replace(solution=replace(solution, x=x)) if same else trained


def _alike(problem: FairProblem, x: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Last layers, weights and intercepts, that decide all rows alike. Of one output, first that of x (n,), shrunk about the log
    odds of the positive label until every score has their sign, so that the rows keep their order. Then those of which every
    row has the same scores: of the classes' shares, and each class for certain."""
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
