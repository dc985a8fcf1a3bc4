"""The problems of one fit: of the training rows, of those held back, of a part to begin on, and of all rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from fairbound.base.seeds import seed_for
from fairbound.fairness.compiled.plan import Plan
from fairbound.fairness.problem import FairProblem
from fairbound.models.model import Model
from fairbound.rows.groups import Groups
from fairbound.rows.sampling import reorder
from fairbound.rows.sparse import SparseRows
from fairbound.rows.split import stratified_split
from fairbound.rows.strata import in_least_memory

MANY_ROWS, PART_ROWS = 200_000, 50_000
"""With more rows than the first, training begins on a random part with as many as the second."""


def builder(
    model: Model,
    y: np.ndarray,
    groups: Groups,
    stated: Sequence[Any],
    weights: np.ndarray | None,
    **options: Any,
) -> Callable[..., FairProblem]:
    """A function that builds the problem of some rows from their features, under the plan of another problem (None:
    compile the bounds on these rows); in_place, options: as in FairProblem."""

    def build(features: Any, rows: Any = slice(None), plan: Plan | None = None, in_place: bool = True) -> FairProblem:
        more = {**options, "sample_weight": None if weights is None else weights[rows], "in_place": in_place}
        return FairProblem(model, features, y[rows], groups.take(rows), plan or stated, **more)

    return build


class Problems(NamedTuple):
    """The problem to train on, that to validate on, and what builds those to begin on and of all rows;
    the last three or None."""

    problem: FairProblem
    held: FairProblem | None = None
    part: Callable[[], FairProblem] | None = None
    all_rows: Callable[[], FairProblem] | None = None


def problems_of(
    build: Callable[..., FairProblem],
    features: Any,
    y: np.ndarray,
    groups: Groups,
    *,
    share: float,
    seed: int,
    own: bool,
    begins: bool,
) -> Problems:
    """The problems of n rows with a share of them held back.

    build: (features, numbers of the rows that they are of, plan, in_place) -> problem. own: whether the features (n, d)
    may be sorted in the memory that they have, which the first two problems then share. begins: whether a part is asked
    for.
    """
    strata = np.column_stack([in_least_memory(column) for column in (y, *groups.codes.T)])
    kept, held = None, np.zeros(0, dtype=np.int64)
    if share:
        kept, held = stratified_split(strata, [share], seed_for("validation", root=seed))
    n = len(y) - len(held)
    some = part_of(n, strata if kept is None else strata[kept], seed) if begins else None
    some = some if kept is None or some is None else kept[some]
    del strata

    def part() -> FairProblem:
        assert some is not None
        if not own:
            return build(features[some], some, problem.plan)
        order = problem.strata.order if kept is None else kept[problem.strata.order]
        chosen = np.zeros(len(y), dtype=bool)
        chosen[some] = True
        places = np.flatnonzero(chosen[order])
        return build(features[places], order[places], problem.plan)

    begin = None if some is None else part
    if kept is None:
        problem = build(features, in_place=own)
        return Problems(problem, None, begin, lambda: problem)
    if own:
        reorder(torch.from_numpy(features), np.concatenate([kept, held]))
    first, second = (features[:n], features[n:]) if own else (features[kept], features[held])
    problem = build(first, kept)
    validation = build(second, held, problem.plan)

    def all_rows() -> FairProblem:
        if not own:
            return build(features, in_place=False)
        whole = np.empty_like(features)  # in the order of the table again
        whole[np.concatenate([kept[problem.strata.order], held[validation.strata.order]])] = features
        return build(whole)

    return Problems(problem, validation, begin, all_rows)


def problem_like(
    problem: FairProblem,
    model: Model,
    features: Any,
    plan: Plan | None,
    *,
    rows: np.ndarray | None = None,
    objective: Any = None,
    stated: Sequence[Any] | None = None,
) -> FairProblem:
    """`problem` for another model, or for some of its rows.

    features: of all rows in the problem's order, None for its own. plan: compiled already, objective included; None to
    compile the bounds `stated`, or those of the problem, with `objective`. rows: places (k,) in that order, None for all.
    """
    given = problem.features if features is None else features
    given = given if rows is None else given[rows]
    at = slice(None) if rows is None else rows
    weight, order = problem.exact_weight, problem.strata.order
    return FairProblem(
        model,
        given.matrices[0] if isinstance(given, SparseRows) else given,
        problem.targets[at],
        problem.groups.take(order[at]),
        plan or (problem.plan.notions if stated is None else stated),
        classes=problem.classes,
        objective=objective,
        loss=problem.loss,
        sample_weight=None if weight is None else weight[at].numpy(),
        dtype=problem.dtype,
        device=problem.device,
        shards=problem.shards,
    )


def part_of(n: int, strata: np.ndarray, seed: int) -> np.ndarray | None:
    """Numbers of about PART_ROWS of n rows, at least one of every stratum; None where all rows are to be taken.

    strata: (n, C) integers, equal rows being one stratum.
    """
    if n <= MANY_ROWS:
        return None
    return stratified_split(strata, [1 - PART_ROWS / n], seed_for("part", root=seed))[0]
