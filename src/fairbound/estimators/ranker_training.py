"""A ranker trained under stated bounds: the method, the queries held back, the runs, and the facts of the fit.

All queries at once are two runs. In the first the surrogates of the order are smooth, so that they lead to the bound
over stretches on which the true shares of pairs hardly change. The second begins at the point found, with steeper
surrogates, which follow the metric more closely; the better point of both is kept.

The first may end where no small change of the order comes nearer to the bound, though other orders meet it. It is run
again with smoother surrogates then, to which such places are flat, and steeper ones follow from the point found. Where
none of these finds a model under the bounds, random batches are tried last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fairbound.base.errors import DataError
from fairbound.base.seeds import seed_for
from fairbound.estimators.choosing import MARGINS, Chosen, asked_for
from fairbound.estimators.facts.fit_report import run_facts
from fairbound.estimators.networks.batch_runs import PATIENCE, usual_budget, with_room
from fairbound.estimators.optimality import optimality
from fairbound.estimators.runs import joined, rank
from fairbound.estimators.trained import TrainedRanker
from fairbound.estimators.training import AT_ONCE
from fairbound.fairness.ranking_problem import RankingProblem
from fairbound.fairness.rankings.pair_objective import pair_losses
from fairbound.methods import ALM, FullBatchALM, Method
from fairbound.methods import algorithm as algorithm_named
from fairbound.models.mlp import is_linear
from fairbound.models.model import Model
from fairbound.rows.queries import split_by_query
from fairbound.solver.budget import Budget
from fairbound.solver.solve import Solution, solve
from fairbound.tables import EncodeReport

MOST_AT_ONCE = 4_000_000
"""Pairs of documents of one query up to which "auto" takes all queries at once."""

VALIDATION, LEAST_QUERIES = 0.2, 1000

SMOOTH: Any = algorithm_named("full_batch_alm:rankings")
"""The method of the first run on all queries at once."""

STEEPER: Any = replace(SMOOTH, sharpness=(3.0, 8.0), unmet=10)
"""That of the second, which ends early where it finds nothing."""

SOFTER: Any = tuple(replace(SMOOTH, sharpness=(s,)) for s in (0.3, 0.1))
"""Those of first runs that follow one which found no order, or hardly one, in turn."""

LEAST_GAIN = 0.02
"""Share of the loss of one score for all documents by which an order is better that counts as one."""


RUNS = "Several runs were made, each within its own budget. Their steps, which the report adds up: {}."
"""Note on the runs of one fit."""


def train_ranker(
    ranker: Any, build: Callable[..., RankingProblem], queries: np.ndarray, stated: Budget | None, seed: int, x0: Any
) -> TrainedRanker:
    """The run that the parameters of a FairRanker, whose model is made, ask for. build: row numbers (all without) -> the
    problem of these rows. queries: (n,) query of each row. stated: the budget, if any. x0: parameters to begin at."""
    choice = chosen_method(ranker.algorithm, ranker.model_, queries)
    method = choice.method
    problem, held, said = held_back(build, queries, ranker.validation, choice.at_once, seed)
    made: list[tuple[str, int]] = []

    def runs(by: Method[Any], margins: Sequence[float], x0: Tensor | None = x0) -> tuple[Solution, list[str], Budget]:
        limit = stated or _usual(problem, by, ranker.batch_size)
        patience = PATIENCE if stated is None and not isinstance(by, FullBatchALM) else 1.0
        run = partial(
            solve, batch_size=ranker.batch_size, sampling="shuffled", patience=patience, seed=seed,
            progress=ranker._shows_progress, x0=x0,
        )  # fmt: skip
        solution, notes = with_room(run, problem, held, by, margins, limit)
        made.append((by.name, solution.steps))
        return solution, notes, limit

    solution, more, limit = runs(method, () if choice.at_once else choice.margins)
    notes = [*([choice.why] if choice.why else []), *said, *more]
    if choice.automatic and choice.at_once and problem.m and not solution.interrupted and not limit.over:
        once = AtOnce(problem, problem if held is None else held, lambda by, x: runs(by, (), x)[0])
        solution, method = once.improved(solution, x0)
        if not solution.found and not solution.interrupted:
            rival, more, of_batches = runs(ALM(), MARGINS)
            notes += more
            better = bool(rival.found or rival.violation < solution.violation)
            solution = joined(solution, rival, stay=not better)
            if better:
                method, limit = ALM(), of_batches
                notes.append(
                    "Taken at once, the queries gave no model that met the bounds; random batches (alm) did better."
                )
    if len(made) > 1:
        notes.append(RUNS.format(", ".join(f"{name} {steps:,}" for name, steps in made)))
    return TrainedRanker(problem, held, solution, method, limit, notes)


class AtOnce(NamedTuple):
    """The runs on all queries at once that follow a first one. judged: the problem whose rows choose the better point.
    run: a method and parameters to begin at, or None -> the solution."""

    problem: RankingProblem
    judged: RankingProblem
    run: Callable[[Any, Tensor | None], Solution]

    def improved(self, first: Solution, x0: Tensor | None) -> tuple[Solution, Method[Any]]:
        """The best solution, with the steps of all runs, and the method that gave it. first: by SMOOTH, from x0."""
        if self._is_order(first):
            return self._then(first, SMOOTH, STEEPER)
        best, method = first, SMOOTH
        for softer in SOFTER:
            if best.interrupted:
                break
            found, by = self.run(softer, x0), softer
            if self._is_order(found):
                found, by = self._then(found, by, SMOOTH)
                found, by = self._then(found, by, STEEPER)
            stay = self._rank(best) <= self._rank(found)
            best, method = joined(best, found, stay), method if stay else by
            if self._is_order(best):
                break
        return best, method

    def _then(self, before: Solution, by: Any, steeper: Any) -> tuple[Solution, Any]:
        """`before`, a solution by the method `by`, or the better one that `steeper` finds from there."""
        if before.interrupted or not bool(before.state.multipliers.any()):
            return before, by
        after = self.run(steeper, before.x)
        stay = self._rank(before) <= self._rank(after)
        return joined(before, after, stay), by if stay else steeper

    def _rank(self, solution: Solution) -> tuple[bool, float, float]:
        return rank(solution, self.judged)

    def _is_order(self, solution: Solution) -> bool:
        """Whether it meets the bounds, and is better than one score for all documents by LEAST_GAIN."""
        one = float(pair_losses(self.problem.loss, torch.zeros(1)))
        return bool(solution.found) and self._rank(solution)[2] < (1 - LEAST_GAIN) * one


def chosen_method(algorithm: Any, model: Model, queries: np.ndarray) -> Chosen:
    """The method that `algorithm` names, or that "auto" takes."""
    if algorithm != "auto":
        return asked_for(algorithm)
    pairs = int((np.bincount(queries).astype(np.float64) ** 2).sum())
    if is_linear(model) and pairs <= MOST_AT_ONCE:
        why = "Trained on all queries at once (full_batch_alm): the model is linear and the pairs are few enough."
        return Chosen(SMOOTH, True, why)
    return Chosen(ALM(), True, "Trained on random batches of queries (alm).", MARGINS)


def held_back(
    build: Callable[..., RankingProblem],
    queries: np.ndarray,
    validation: float | str,
    at_once: bool,
    seed: int,
) -> tuple[RankingProblem, RankingProblem | None, list[str]]:
    """The problem to train on, that of the queries held back, or None, and a note where these cannot be judged.
    Raises: DataError then where `validation` asks for them."""
    many = len(np.unique(queries)) >= LEAST_QUERIES
    share = (VALIDATION if many and not at_once else 0.0) if validation == "auto" else float(validation)
    if not share:
        return build(), None, []
    kept, part = split_by_query(queries, [share], seed_for("validation", root=seed))
    try:
        problem = build(kept)
        held = build(part) if problem.m else None
    except DataError as error:
        if validation != "auto":
            raise type(error)(f"with queries held back for validation: {error} Or set validation=0.") from error
        return build(), None, [f"No queries were held back for validation: {error}"]
    return (build() if held is None else problem), held, []


def _usual(problem: RankingProblem, method: Method[Any], batch_size: int) -> Budget:
    if isinstance(method, FullBatchALM):
        return AT_ONCE
    return usual_budget(problem.rows, batch_size)


def report(trained: TrainedRanker, seed: int, encoding: EncodeReport | None) -> dict[str, Any]:
    """What `FairRanker.fit_report_` holds."""
    problem, held, x = trained.problem, trained.held, trained.solution.x
    measured = problem.evaluate(x)
    return {
        **run_facts(trained, seed, encoding, measured, problem.notions),
        "train_rows": len(problem.documents),
        "train_queries": problem.rows,
        "validation_rows": 0 if held is None else len(held.documents),
        "validation_queries": 0 if held is None else held.rows,
        "train_pair_error": float(measured.extra["pair_error"]),
        "optimality": optimality(problem, trained.method, x, len(problem.documents)),
        "dropped_groups": problem.dropped,
        "notes": trained.notes,
        "warnings": [] if encoding is None else encoding.column_lines(),
    }
