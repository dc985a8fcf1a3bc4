"""A model trained under stated bounds. By a method that takes all rows at once: see `full_batch`; under "auto" the better of it
and of random batches, where it meets no bound or where ratios of rates are bounded. By a method of random
batches it is chosen on rows held back, in up to three runs, each of the same budget:

1. on the training rows, choosing the iterate that meets every bound on the rows held back too;
2. where there is none, classes are bounded and the method is the augmented Lagrangian: again, with multipliers of the rows
   held back (Cotter et al. 2019);
3. where there is still none: on all rows, choosing on them.

Runs 1 and 3 under bounds on groups are made again with more of each bound kept as margin, where no iterate but the start met
them: the largest of several noisy differences lies above the bound that each of them is held at.

Under "auto" the step size of random batches is chosen by a short trial, unless the model is linear or all rows at once follow (see `step_trial`).
A network is then trained further on all rows at once where that is of use (see `whole_network`), and its last layer
is solved on all rows (see `last_layer`). The last layer of a network trained without bounds is solved so too: layers that bounds have
shaped may have lost what a last layer needs. The better of the two models is taken.

A run ends the sequence where it finds a model, is interrupted, or shows that its bounds are met by memory alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from fairbound.estimators.auc_training import decided, ranks_only
from fairbound.estimators.full_batch import train_full_batch
from fairbound.estimators.group_starts import area_start
from fairbound.estimators.last_layer import finished
from fairbound.estimators.step_trial import step_tried
from fairbound.estimators.validation import coarse_groups, missed_beyond_chance
from fairbound.estimators.whole_network import trained_further
from fairbound.fairness.bound import Bound
from fairbound.fairness.objectives import AUCLoss, objective_of
from fairbound.fairness.problem import FairProblem
from fairbound.methods import ALM, SGD, FullBatchALM, Method
from fairbound.methods import algorithm as algorithm_named
from fairbound.models.mlp import MLP
from fairbound.models.model import Model
from fairbound.problems.problem import Problem
from fairbound.solver.budget import Budget
from fairbound.solver.solve import Solution, solve

SMOOTH = ("logistic", "squared")
"""Losses for which "auto" takes all rows at once."""

AT_ONCE = Budget(steps=FullBatchALM().rounds)
"""More than the rounds after which a method of all rows ends by itself."""

FEW = Budget(steps=10)
"""Rounds where a group has too few rows for its scores to meet a bound on distributions."""

LEAST_STEPS = 1500
MARGINS = (0.2, 0.5)
"""Shares of each bound that are kept as margin, in turn, where none was found with the method's own."""

EPOCHS = 10
PATIENCE = 4.0


class Trained(NamedTuple):
    """The solution of `problem`, chosen on the rows `held` (None: on none), and the method and budget of the run that gave
    it; notes and warnings say what happened on the way. optimality: as of `train_full_batch`, where rows were taken at once."""

    problem: FairProblem
    held: FairProblem | None
    solution: Solution
    method: Method[Any]
    budget: Budget
    notes: list[str]
    warnings: list[str]
    optimality: dict[str, Any] = {}  # noqa: RUF012  it is replaced, never changed


class Chosen(NamedTuple):
    """A method; why "auto" took it, "" where it was asked for; whether a network's last layer is to be solved after it."""

    method: Method[Any]
    why: str = ""
    last_layer: bool = False

    @property
    def at_once(self) -> bool:
        """Whether it takes all rows at once."""
        return isinstance(self.method, FullBatchALM)

    def refined(self, objective: Any) -> Literal["no", "auto", "yes"]:
        """Whether `objective` is to go from the loss towards the error rate; see `train_full_batch`."""
        if not (self.at_once or self.last_layer) or objective not in ("auto", "accuracy"):
            return "no"
        return "auto" if objective == "auto" else "yes"


def chosen(
    algorithm: Any,
    model: Model,
    *,
    loss: str,
    objective: Any,
    objective_class: Any,
    stated: Sequence[Bound],
) -> Chosen:
    """The method that `algorithm` names, or that "auto" takes. Arguments as in FairClassifier."""
    if algorithm != "auto":
        return Chosen(algorithm_named(algorithm) if isinstance(algorithm, str) else algorithm)
    on_batches = "Trained on random batches (alm): "
    if not isinstance(model, MLP) or model.outputs > 1:
        return Chosen(ALM(), f"{on_batches}the model is no built-in one of two classes.")
    areas = isinstance(objective_of(objective), AUCLoss)
    plain = areas or (loss in SMOOTH and objective in ("auto", "loss", "accuracy"))
    if not plain or objective_class is not None:
        return Chosen(
            ALM(),
            f"{on_batches}the objective is not the {' or '.join(SMOOTH)} loss of all rows, or accuracy, or the AUC.",
        )
    if any(bound.about == "class" for bound in stated):
        return Chosen(ALM(), f"{on_batches}a bound is on a class.")
    if model.hidden:
        why = "Trained on random batches (alm), its last layer then on all rows at once (full_batch_alm)."
        return Chosen(ALM(), why, last_layer=bool(stated) or objective != "loss")
    preset = ":thresholds" if any(bound.free_thresholds for bound in stated) else ""
    why = f"Trained on all rows at once (full_batch_alm{preset}): the model is linear."
    return Chosen(algorithm_named(f"full_batch_alm{preset}"), why)


def train(
    problem: FairProblem,
    held: FairProblem | None,
    all_rows: Callable[[], FairProblem] | None,
    *,
    method: Method[Any],
    last_layer: bool = False,
    part: Callable[[], FairProblem] | None = None,
    refined: Literal["no", "auto", "yes"] = "no",
    margins: Sequence[float] = (),
    rival: bool = False,
    budget: str | float | Budget | None,
    batch_size: int,
    sampling: str,
    seed: int,
    progress: bool,
    x0: Tensor | None = None,
    terms_of: int = 1,
) -> Trained:
    """The runs that the head of this module lists; the last layer is solved on the rows held back too, unless their share was asked for.

    held: rows held back, or None. all_rows: makes the problem of the third run; None leaves it out. last_layer: whether
    `finished` follows. part, refined: as in `train_full_batch`. margins: of the runs made again; none keep the method's own.
    rival: whether a method of all rows that meets no bound, or has ratios to bound, is compared with random batches, and where random
    batches are all that a network has, their step size is tried first.
    terms_of: of how many groups the features have terms. budget: as in FairClassifier. The other arguments are those of `solve`; x0: where the first run of each kind begins, the model's
    parameters or all.
    """
    steps = max(LEAST_STEPS, math.ceil(EPOCHS * problem.total_rows / (batch_size * problem.shards.count)))
    limit = Budget.of(budget) if budget is not None else Budget(steps=steps)
    if (
        x0 is not None and x0.shape[-1] == problem.model.n < problem.n
    ):  # what is trained beside the model begins as ever
        x0 = torch.cat([x0, problem.start((seed,))[problem.model.n :].to(x0)])
    run = partial(
        solve, algorithm=method, budget=limit, batch_size=batch_size, sampling=sampling, seed=seed, progress=progress, x0=x0,
        patience=PATIENCE if budget is None else 1.0,
    )  # fmt: skip
    if isinstance(method, FullBatchALM):
        rounds = AT_ONCE if budget is None else limit
        notes = _beyond_few_rows(problem) if budget is None else []
        if notes:
            rounds, rival, refined = FEW, False, "no"
        areas = ranks_only(problem)
        start = area_start(problem, held, terms_of) if areas and x0 is None else None
        x0 = x0 if start is None else start.x
        options: dict[str, Any] = {"budget": rounds, "sampling": sampling, "seed": seed, "progress": progress, "x0": x0}
        solution, optimality = train_full_batch(problem, part, method, refined=refined, validation=held, **options)
        if areas:
            solution, said = decided(problem, solution, start)
            notes += said
        trained = Trained(problem, held, solution, method, rounds, notes, [], optimality)
        if not rival or _settled(problem, solution):
            return trained
        batches = _on_batches(problem, held, None, partial(run, algorithm=ALM()), ALM(), (), limit)
        return _better(trained, batches, refined, "Random batches (alm) gave the better model, which is taken.")
    if rival and not last_layer and isinstance(method, ALM) and not _linear(problem.model):
        trial = step_tried(run, problem, method, limit)
        if trial.interrupted is not None:
            return Trained(problem, held, trial.interrupted, method, limit, [], [])
        method, limit = trial.method, limit if budget is None else trial.left
        run = partial(run, algorithm=method, budget=limit, x0=x0 if trial.x is None else trial.x)
    trained = _on_batches(problem, held, all_rows, run, method, margins, limit)
    return _network_finished(trained, all_rows, run, limit, refined, seed, progress) if last_layer else trained


def _network_finished(
    trained: Trained,
    all_rows: Callable[[], FairProblem] | None,
    run: Callable[..., Solution],
    limit: Budget,
    refined: Literal["no", "auto", "yes"],
    seed: int,
    progress: bool,
) -> Trained:
    """What follows random batches under "auto" where the model is a network; see the head of this module."""
    if trained.held is not None and all_rows is not None:
        problem, held = all_rows(), None
    else:
        problem, held = trained.problem, trained.held
    finish = partial(_with_last_layer, problem, held, refined=refined, budget=AT_ONCE, progress=progress)
    further, made = trained_further(problem, trained.solution, seed, progress)
    said_so = f"After random batches all layers were trained on all rows at once (rounds: {made}), as rows kept apart showed to be of use."
    trained = finish(trained._replace(solution=further, notes=[*trained.notes, *([said_so] if made else [])]))
    if not problem.m or trained.solution.stopped == "interrupted":
        return trained
    plain = SGD(decay=0.5)
    free = run(problem, validation=held, algorithm=plain, patience=1.0)
    unbound = finish(Trained(problem, held, free, plain, limit, [], []))
    note = "Layers trained without bounds (sgd), the last one then under them, gave the better model, which is taken."
    return _better(trained, unbound, refined, note)


def _linear(model: Model) -> bool:
    return isinstance(model, MLP) and not model.hidden


def _settled(problem: FairProblem, solution: Solution) -> bool:
    """Whether random batches need not be tried after all rows at once; those of few rows of an interval say little of its distribution."""
    met = solution.found and not len(problem.plan.ratios)
    return met or solution.stopped == "interrupted" or any(b.free_thresholds for b in problem.plan.notions)


def _beyond_few_rows(problem: FairProblem) -> list[str]:
    """A note where a group has too few rows for scores of its own to meet a bound on distributions; else none."""
    if not any(bound.free_thresholds for bound, _ in coarse_groups(problem)):
        return []
    why = "as a group has too few rows for its scores to meet the bound; a stated budget is used in full."
    return [f"Only {FEW.text} were tried, {why}"]


def _with_last_layer(problem: FairProblem, held: FairProblem | None, trained: Trained, **options: Any) -> Trained:
    """`trained` with its last layer solved on the rows of `problem`; arguments as of `finished`. Itself where that is of no use."""
    if trained.solution.stopped == "interrupted":
        return trained
    solution, optimality = finished(problem, held, trained.solution, **options)
    if not optimality:
        return trained._replace(solution=solution)
    return trained._replace(problem=problem, held=held, solution=solution, optimality=optimality)


def _better(first: Trained, second: Trained, refined: Literal["no", "auto", "yes"], note: str) -> Trained:
    """The one of two that meets every bound; where both do, that of higher accuracy, or of lower loss where accuracy is not asked
    for; where neither does, that of the smaller excess. note: what is said where it is the second."""

    def rank(trained: Trained) -> tuple[bool, float, float]:
        solution, measured = trained.solution, trained.problem.evaluate(trained.solution.x)
        found = solution.found
        aim = measured.f if refined == "no" or "accuracy" not in measured.extra else -measured.extra["accuracy"]
        return not found, 0.0 if found else float(solution.violation), float(aim)

    if rank(first) <= rank(second):
        stopped = "interrupted" if second.solution.stopped == "interrupted" else first.solution.stopped
        return first._replace(solution=replace(first.solution, stopped=stopped))
    return second._replace(notes=[*second.notes, note])


def margins_of(algorithm: Any, method: Method[Any]) -> tuple[float, ...]:
    """MARGINS for a method that was named, not made, and whose `margin` is a share of each bound; else none."""
    return MARGINS if isinstance(algorithm, str) and getattr(method, "keeps_room", False) else ()


def _on_batches(
    problem: FairProblem,
    held: FairProblem | None,
    all_rows: Callable[[], FairProblem] | None,
    run: Callable[..., Solution],
    method: Method[Any],
    margins: Sequence[float],
    limit: Budget,
) -> Trained:
    """The runs that the head of this module numbers."""
    notes: list[str] = []
    cautions: list[str] = []
    bounds_classes = any(bound.about == "class" for bound in problem.plan.notions)

    solution = with_room(run, problem, held, method, () if bounds_classes else margins, notes)
    followed = False  # whether the multipliers of the solution are of the validation rows
    if held is not None and bounds_classes and method.name == "alm" and _unfinished(solution):
        again = run(problem.with_dual_rows(held), validation=held)
        if again.found or again.violation < solution.violation:
            solution, followed = again, True
        elif again.stopped == "interrupted":
            solution = replace(solution, stopped="interrupted")
    missed = [] if held is None or solution.found else missed_beyond_chance(problem, held, solution.x)
    if missed:
        cautions.append(
            f"On the rows held back for validation {missed[0]!r} is missed by more than chance explains: the model fits its "
            "own rows better than new ones. Take a smaller model or more rows, or loosen the bound."
        )
    elif held is not None and all_rows is not None and _unfinished(solution):
        cautions.append(
            f"No model met every bound on the training rows and on the {held.rows:,} rows held back for validation "
            "too, so it was trained and verified on all rows; on new rows the bound may be missed."
        )
        problem, held, followed = all_rows(), None, False
        solution = with_room(run, problem, held, method, () if bounds_classes else margins, notes)
    if followed:
        notes.append(
            "With multipliers of the training rows no model met every bound on the validation rows too, so the "
            "multipliers follow the validation rows: what is met on them is no evidence for new rows."
        )
    return Trained(problem, held, solution, method, limit, notes, cautions)


def with_room(
    run: Callable[..., Solution],
    problem: Problem,
    held: Problem | None,
    method: Method[Any],
    margins: Sequence[float],
    notes: list[str],
) -> Solution:
    """The solution of `run`, or of the first with one of `margins` that met every bound where it did not."""
    solution = run(problem, validation=held)
    for margin in margins:
        if not _unfinished(solution):
            break
        again = run(problem, validation=held, algorithm=replace(method, margin=margin))  # type: ignore[type-var]
        if again.found:
            notes.append(f"Trained again with {margin:.0%} of each bound kept as margin: with less none was met.")
        solution = again if again.found or again.stopped == "interrupted" else solution
    return solution


def _unfinished(solution: Solution) -> bool:
    """Whether no model other than the start met every bound, and nobody stopped the run."""
    return not solution.found and solution.stopped != "interrupted"
