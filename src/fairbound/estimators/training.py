"""A model trained under stated bounds: on all rows at once (see `full_batch`), or on random batches (see `batch_runs`).

Under "auto" a linear model trained on all rows at once that is hardly better than a constant is compared with one moved
inside its bounds along lines (see `moved_inside`), and with one of random batches where it still is a constant, where it
meets no bound, or where ratios of rates are bounded. The step size of random batches is chosen by a short trial, unless
the model is linear or built in and finished on all rows (see `step_trial`). A network makes as many steps as other rows
show to be of use, one of the user's own none beyond the usual number; it is then trained further on all rows at once
where that is of use (see `whole_network`), and its last layer is solved on all rows, with weight decay (see
`last_layer`). The last layer of a network trained without bounds, for as many steps as are of use there, is solved so
too: layers that bounds have shaped may have lost what a last layer needs. Where rows kept apart show that it pays, all
of these layers are trained on under the bounds. The best of these models is taken. Only where none meets the bounds are
random batches made as for other models.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from fairbound.base.names import count_of
from fairbound.estimators.choosing import Chosen, Refined
from fairbound.estimators.linear.auc_training import ranks_only, warn_of_pairs, with_best_threshold
from fairbound.estimators.linear.full_batch import suited, train_full_batch
from fairbound.estimators.linear.group_starts import area_start
from fairbound.estimators.linear.moved_inside import moved_inside
from fairbound.estimators.linear.other_starts import other_start
from fairbound.estimators.linear.shrunk_scores import with_shrunk_scores
from fairbound.estimators.linear.weight_decay import decay_of
from fairbound.estimators.networks.batch_runs import PATIENCE, on_batches, usual_budget
from fairbound.estimators.networks.last_layer import with_last_layer_solved
from fairbound.estimators.networks.step_trial import step_tried
from fairbound.estimators.networks.whole_network import (
    STEP_SIZE,
    judged,
    limits_of,
    rounds_under_bounds,
    trained_further,
    useful_steps,
)
from fairbound.estimators.problems import Problems, problem_like
from fairbound.estimators.trained import (
    MOST,
    Trained,
    better,
    bounds_cost_nothing,
    constant_on,
    hardly_better_than_constant,
    largest_share,
)
from fairbound.fairness.few_rows import bounds_below_a_step
from fairbound.fairness.problem import FairProblem
from fairbound.methods import ALM, SGD, FullBatchALM
from fairbound.models.mlp import is_built_in, is_linear
from fairbound.solver.budget import Budget
from fairbound.solver.solve import Solution, solve

ALONE, BATCHES, BEFORE = 0.5, 0.75, 0.5
"""Shares of the time left, where there is a deadline: of the network under bounds before that without them, of the
random batches of either before what follows them, and of a run that finds where another one begins."""

AT_ONCE = Budget(steps=FullBatchALM().rounds)
"""More rounds than a method of all rows takes before it ends by itself."""

GENTLE = 1 / 8
"""Share of the usual dual step size and penalty, where with these hardly anything was learnt."""

EARLY = "Random batches{} ended after {}, as rows that they had not met showed to be of use."
FURTHER = "After random batches{} all layers were trained on all rows at once (rounds: {}), as rows kept apart showed to be of use."
NO_BOUNDS = " without bounds (sgd)"
FREE = (
    "Of two networks the better one is taken: its random batches knew no bounds (sgd), and its last layer was then solved "
    "under them. The other was under the bounds from its first batch (alm)."
)
ROUNDS_PAY = (
    "Of three networks the best one is taken: its random batches knew no bounds (sgd), and all of its layers were then "
    "trained under them on all rows at once, as rows kept apart showed to be of use. One was under the bounds from its "
    "first batch (alm), one after its batches in its last layer alone."
)
"""Notes on a network."""

FEW = Budget(steps=10)
"""The budget where a group has too few rows for its scores to meet a bound on distributions."""


def slower(method: ALM) -> ALM:
    """The method with slower multipliers of the bounds."""
    return replace(method, dual_step_size=GENTLE * method.dual_step_size, penalty=GENTLE * method.penalty)


@dataclass(frozen=True)
class TrainingOptions:
    """How to train; batch_size, sampling and weight_decay as in FairClassifier.

    stated: the budget, None where none was stated. seed, progress: of `solve`. x0: where the first run of each kind
    begins, the model's parameters or all. refined: what becomes of the objective. terms_of: of how many groups the
    features have terms. decays: weight decays that were chosen before on these features. by_accuracy: whether the
    objective asks for accuracy.
    """

    stated: Budget | None
    batch_size: int
    sampling: str
    seed: int
    progress: bool = False
    x0: Tensor | None = None
    refined: Refined = "no"
    terms_of: int = 1
    weight_decay: float | Literal["auto"] = 0.0
    decays: dict[bytes, float] | None = None
    by_accuracy: bool = False

    def completed(self, problem: FairProblem) -> TrainingOptions:
        """With the usual start of auxiliary variables where x0 is of the model alone."""
        x0, own = self.x0, problem.model.n
        if x0 is None or not x0.shape[-1] == own < problem.n:
            return self
        return replace(self, x0=torch.cat([x0, problem.start((self.seed,))[own:].to(x0)]))


def trained_by(
    estimator: Any,
    made: Problems,
    choice: Chosen,
    limit: Budget | None,
    seed: int,
    x0: Any,
    **more: Any,
) -> Trained:
    """The run of the chosen method on the problems of a fit, by the parameters of the estimator.
    limit: its budget, None where none is stated. more: further `TrainingOptions`."""
    options = TrainingOptions(
        limit, estimator.batch_size, estimator.sampling, seed, progress=estimator._shows_progress, x0=x0, **more
    )
    trained = train(made if estimator.validation == "auto" else made._replace(all_rows=None), choice, options)
    return trained._replace(budget=options.stated or trained.budget, by_accuracy=options.by_accuracy)


def train(made: Problems, choice: Chosen, options: TrainingOptions) -> Trained:
    """Train as the module's docstring says; the last layer is solved on the rows held back too, unless their share was
    asked for.

    made: without `all_rows` if a share of rows to hold back was asked for.
    """
    problem, refined, stated = made.problem, options.refined, options.stated
    warn_of_pairs(problem)
    decay = decay_of(problem, options.weight_decay, choice.at_once, options.decays)
    options, rows = options.completed(problem), options.batch_size * problem.shards.count
    limit = usual_budget(problem.total_rows, rows) if stated is None else stated
    run = partial(
        solve, batch_size=options.batch_size, sampling=options.sampling, seed=options.seed,
        progress=options.progress, x0=options.x0, patience=PATIENCE if stated is None else 1.0,
    )  # fmt: skip
    if choice.at_once:
        few = _beyond_few_rows(problem)
        trained = _of_all_starts(made, choice, options, decay, few, limit)
        if choice.automatic and refined == "yes" and not limit.over:
            rounds = (options.stated or AT_ONCE).until(limit)
            trained = with_shrunk_scores(trained, decay, budget=rounds, seed=options.seed, progress=options.progress)
        if choice.automatic and refined != "no" and (stated is not None or not few) and not limit.over:
            trained = moved_inside(trained, budget=AT_ONCE.until(limit), seed=options.seed, progress=options.progress)
        if not choice.automatic or few or limit.over or _settled(problem, trained, refined):
            return trained
        batches = on_batches(made._replace(all_rows=None), run, ALM(), (), limit)
        return better(trained, batches, refined, "Random batches (alm) gave the better model, which is taken.")
    method, fresh = choice.method, run
    built_in = is_built_in(problem.model)
    if (
        choice.automatic
        and isinstance(method, ALM)
        and not (is_linear(problem.model) or (built_in and choice.last_layer))
    ):
        trial = step_tried(run, problem, method, limit)
        if trial.interrupted is not None:
            return Trained(problem, made.held, trial.interrupted, method, limit, [], [])
        method, limit = trial.method, limit if stated is None else trial.left
        run = partial(run, x0=options.x0 if trial.x is None or choice.last_layer else trial.x)
    if not choice.last_layer:
        return _gentler(on_batches(made, run, method, choice.margins, limit), made, fresh, choice, limit)
    assert isinstance(method, ALM)
    limits = limits_of(limit, stated is not None or not built_in, problem.total_rows, rows)
    if limits and limits[-1] is not limit:
        method = replace(method, step_size=STEP_SIZE)
    trained = _network(made, method, run, limit, limits, options)
    if trained.solution.found or trained.solution.interrupted or limit.over:
        return trained
    batches = on_batches(made, run, method, choice.margins, limit)
    return better(trained, batches, refined, "Random batches alone gave the better model, which is taken.")


def _gentler(trained: Trained, made: Problems, run: Callable[..., Solution], choice: Chosen, limit: Budget) -> Trained:
    """`trained`; where "auto" chose random batches for a model that is not linear, groups are bounded and the result is
    hardly better than a constant, the better of it and of runs with a GENTLE share of dual step size and penalty.
    Many bounds that are missed together add up to multipliers at which one answer for all rows looks best, and few
    batches lead out.

    run: `solve`, from the first start.
    """
    problem, solution, method = trained.problem, trained.solution, choice.method
    groups = problem.m and all(bound.about != "class" for bound in problem.plan.notions)
    if not choice.automatic or not isinstance(method, ALM) or not groups or is_linear(problem.model):
        return trained
    accuracy = trained.accuracy()
    if accuracy is None or solution.interrupted or not problem.shards.alone or limit.over:
        return trained
    if not hardly_better_than_constant(accuracy, largest_share(problem)):
        return trained
    again = on_batches(made, run, slower(method), choice.margins, limit)
    return better(
        trained, again, "no", "Trained again with slower multipliers of the bounds, as nearly nothing was learnt."
    )


def _of_all_starts(
    made: Problems, choice: Chosen, options: TrainingOptions, decay: float, few: list[str], limit: Budget
) -> Trained:
    """The best model of `_at_once` from the usual start and, where "auto" chose, from that of `other_starts`."""
    problem, method = made.problem, choice.method
    assert isinstance(method, FullBatchALM)
    usual = partial(_at_once, made, choice, options, decay, few)
    if not choice.automatic or options.x0 is not None or few:
        return usual()
    zeros = None if problem.plan.auxiliaries else usual()
    if zeros is not None and (zeros.solution.interrupted or limit.over or bounds_cost_nothing(zeros.optimality)):
        return zeros
    rounds = (options.stated or AT_ONCE).until(limit).part(BEFORE)
    more = other_start(problem, method, decay, budget=rounds, seed=options.seed, progress=options.progress)
    if more is None:
        return usual() if zeros is None else zeros
    if more.before is not None and more.before.interrupted:
        ended = Trained(problem, made.held, judged(problem, more.before), method, limit, [], [])
        return ended if zeros is None else zeros._replace(solution=replace(zeros.solution, stopped="interrupted"))
    if zeros is not None and zeros.solution.found and (zeros.accuracy() or 0.0) >= more.enough:
        return zeros
    begun = _at_once(made, choice._replace(method=more.method), replace(options, x0=more.x), decay, few)
    begun = begun._replace(solution=more.counted(begun.solution))
    return begun if zeros is None else better(zeros, begun, options.refined, more.said)


def _at_once(made: Problems, choice: Chosen, options: TrainingOptions, decay: float, few: list[str]) -> Trained:
    """The model of a method that takes all rows at once. decay: the weight decay in its objective. few: as of
    `_beyond_few_rows`."""
    problem, held, method = made.problem, made.held, choice.method
    assert isinstance(method, FullBatchALM)
    if choice.automatic:
        method = suited(method, problem, options.refined)
    rounds, refined = options.stated or AT_ONCE, options.refined
    notes = [] if options.stated else list(few)
    if notes:
        rounds, refined = FEW, "no"
    areas = ranks_only(problem)
    start = area_start(problem, held, options.terms_of) if areas and options.x0 is None else None
    solution, optimality = train_full_batch(
        problem, made.part, method, refined=refined, weight_decay=decay, exact_end=choice.automatic,
        validation=held, budget=rounds, sampling=options.sampling, seed=options.seed, progress=options.progress,
        x0=options.x0 if start is None else start.x,
    )  # fmt: skip
    if areas:
        solution, said = with_best_threshold(problem, solution, start)
        notes += said
    return Trained(problem, held, solution, method, rounds, notes, [], optimality)


def _network(
    made: Problems,
    method: ALM,
    run: Callable[..., Solution],
    limit: Budget,
    limits: Sequence[Budget],
    options: TrainingOptions,
) -> Trained:
    """A network of random batches and what follows them under "auto"; see the module's docstring. limits: as of
    `useful_steps`; limit: of a run where that says nothing. Layers trained without bounds are followed by the last one
    alone where `limit` has a deadline, which a round cannot keep, where the objective is another than the mean loss, and
    where thresholds are trained beside the model."""
    problem, held = made.problem, made.held
    more = problem.plan.objective is None and not problem.plan.auxiliaries and limit.deadline == math.inf

    def batches(by: ALM | SGD, mine: Budget) -> Trained:
        steps, broken_off = useful_steps(run, problem, by, held, options.seed, [one.until(mine) for one in limits])
        until, patience = (Budget(steps=steps), {"patience": 1.0}) if steps else (limit, {})
        until = until.until(mine).part(BATCHES)
        if broken_off is not None:
            return Trained(problem, held, broken_off, by, until, [], [])
        solution, rounds = run(problem, by, validation=held, budget=until, **patience), 0
        if isinstance(by, ALM):
            solution, rounds = trained_further(problem, solution, options.seed, options.progress, mine)
        elif more:
            of = problem_like(problem, problem.model, None, None, stated=())
            after, rounds = trained_further(of, solution, options.seed, options.progress, mine)
            solution = replace(judged(problem, after), records=solution.records)  # those of the rounds have no bounds
        how = NO_BOUNDS if problem.m and isinstance(by, SGD) else ""
        said = EARLY.format(how, count_of(steps, "step"))
        notes = [said] * bool(steps) + [FURTHER.format(how, rounds)] * bool(rounds)
        return Trained(problem, held, solution, by, until, notes, [])

    bound = _with_last_layer(batches(method, first := limit.part(ALONE) if problem.m else limit), options, first)
    if not problem.m or bound.solution.interrupted or limit.over:
        return bound
    layers = batches(SGD(step_size=method.step_size, decay=0.5), limit)
    free = _with_last_layer(layers, options, limit)
    by: Refined = "auto" if options.by_accuracy else "no"
    chosen = better(bound, free, by, FREE)
    if free.solution.interrupted or not more:
        return chosen

    def last(of: FairProblem, solution: Solution) -> Solution:
        return _with_last_layer(layers._replace(problem=of, held=None, solution=solution), options, limit).solution

    starts = (layers.solution, free.solution)
    further = rounds_under_bounds(problem, starts, options.seed, options.progress, last, options.by_accuracy)
    if further is None:
        return chosen
    if further.interrupted:
        return chosen._replace(solution=replace(chosen.solution, stopped="interrupted"))
    return better(chosen, _with_last_layer(layers._replace(solution=further), options, limit), by, ROUNDS_PAY)


def _settled(problem: FairProblem, trained: Trained, refined: Refined) -> bool:
    """Whether random batches need not be tried after all rows at once;
    those of few rows of an interval say little of its distribution."""
    if trained.solution.interrupted or any(b.free_thresholds for b in problem.plan.notions):
        return True
    return trained.solution.found and not len(problem.plan.ratios) and not _constant_under_bounds(trained, refined)


def _constant_under_bounds(trained: Trained, refined: Refined) -> bool:
    """Whether accuracy is the aim, and a model under bounds is no better than a constant one that is not hard to
    beat."""
    problem = trained.problem
    accuracy = trained.accuracy() if problem.m and refined != "no" else None
    if accuracy is None or bounds_cost_nothing(trained.optimality):
        return False
    return largest_share(problem) < MOST and constant_on(problem, accuracy)


def _beyond_few_rows(problem: FairProblem) -> list[str]:
    """A note where a group has too few rows for scores of its own to meet a bound on distributions, or rates are to be
    equal that are so for hardly more than one answer to all rows; else none."""
    bounds = [found.bound for found in bounds_below_a_step(problem.plan, problem.counts_of_cells())]
    if any(bound.free_thresholds for bound in bounds):
        why = "as a group has too few rows for its scores to meet the bound"
    elif any(bound.bound == 0 for bound in bounds):
        why = "as rates of groups that are equal to the last row leave hardly a choice"
    else:
        return []
    return [f"Only {FEW.text} were tried, {why}; a stated budget is used in full."]


def _with_last_layer(trained: Trained, options: TrainingOptions, limit: Budget) -> Trained:
    """`trained` with its last layer solved on all of its rows, until the deadline of `limit`. Itself where that is of no
    use."""
    if trained.solution.interrupted:
        return trained
    solution, optimality = with_last_layer_solved(
        trained.problem, trained.held, trained.solution, refined=options.refined, weight_decay=options.weight_decay,
        budget=AT_ONCE.until(limit), progress=options.progress,
    )  # fmt: skip
    return trained._replace(solution=solution, optimality=optimality or trained.optimality)
