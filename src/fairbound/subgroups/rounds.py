"""Bounds on subgroups that are too many to state: rounds of training on a few of them and exact search for the worst.

    active <- the subgroups given (none at first)
    repeat:  train with |mean in S - overall mean| <= bound - margin for every S in active, from the last point
             search all subgroups of at least min_count rows for those farthest from the overall mean
             stop where the farthest is within the bound; else add the farthest ones to active

Every round ends in an exact search, so what a round reports holds for all subgroups, not for the active ones.

Source: Kelley (1960), the cutting-plane method; Kearns, Neel, Roth, Wu (2018) for subgroup fairness as a game between
a learner and an auditor. Departs: the auditor is exact (branch and bound) in place of a heuristic regression.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairbound.base.errors import DataError, OptionError
from fairbound.fairness.compiled.builder import compile_plan
from fairbound.fairness.notions import Bound, constraint
from fairbound.fairness.pointwise import Pointwise, loss_named
from fairbound.fairness.problem import FairProblem
from fairbound.fairness.row_checks import dense_rows, labels_of
from fairbound.models.model import Model, model_of
from fairbound.subgroups.counts import OccurringCells, occurring
from fairbound.subgroups.index import Subgroups
from fairbound.subgroups.search import Found, Search, most_violated

Loss = str | Pointwise | Callable[[Tensor, Tensor], Tensor]
"""By name, as an object, or a function of (scores, targets)."""
Train = Callable[[FairProblem, Tensor | None], Tensor]
"""A round's training: the problem and the last round's point (None at first) to a new point."""
TAKEN = (
    "demographic_parity", "equal_opportunity", "predictive_equality", "equalized_odds", "error_rate_parity",
    "false_negative_rate_parity", "loss_gap",
)  # fmt: skip
"""The notions that take `overall` and compare means of rows."""
CANDIDATES = 8  # subgroups searched for each one added, so that enough remain when overlapping ones wait


def check_notion(bound: Bound) -> Bound:
    """The bound, where it compares means of groups with those of all rows. Raises: OptionError where it does not."""
    if bound.row_functions():
        return bound
    meant = _with_overall(bound)
    if meant is not None:
        raise OptionError(
            f"subgroups are compared with everyone, each label by itself: write {meant.text!r}; got {bound.text!r}."
        )
    raise OptionError(
        f"{bound.text!r} is no bound on subgroups, whose means are compared with those of everyone. Take one of "
        f"{', '.join(TAKEN)}, with overall, as in 'demographic_parity[overall] <= 0.1'."
    )


def _with_overall(bound: Any) -> Bound | None:
    """The same bound against all rows, label by label; None where that does not compare means."""
    if not hasattr(bound, "against"):
        return None
    parts = {"aggregated": "max"} if hasattr(bound, "aggregated") else {}
    try:
        made: Bound = replace(bound, against="overall", **parts)
    except OptionError:
        return None
    return made if made.row_functions() else None


def violations(
    cells: OccurringCells,
    notion: Bound,
    scores: Any,
    targets: Any,
    *,
    min_count: int = 200,
    max_fixed: int | None = None,
    top: int = 1,
    loss: Loss = "logistic",
) -> list[Search]:
    """Exact search for the subgroups worst off under `notion`: one Search for each of its conditions, in their order.

    scores: (n,) logits of the rows that `cells` counted; a row is selected where its score is above 0. targets: (n,) their
    labels, as `bound_subgroups` takes them. A condition (rows with y = 1, say) restricts means and min_count to its rows.
    """
    s = torch.as_tensor(scores).detach().cpu().double()
    y, per_row = _labels(targets, check_notion(notion), loss, 1 if s.dim() == 1 else s.shape[1])
    of_rows = torch.as_tensor(y.astype(np.float64))
    out = []
    for function, label in notion.row_functions():
        statistic = function.exact(per_row).value(s, of_rows).numpy()
        statistic = statistic.astype(bool) if np.isin(statistic, (0, 1)).all() else statistic
        rows = None if label is None else y == label
        out.append(most_violated(cells, statistic, min_count=min_count, max_fixed=max_fixed, top=top, rows=rows))
    return out


@dataclass(frozen=True)
class Round:
    """After one round of training. active: how many subgroups it was trained on. worst: the largest gap there is, over
    the conditions of the notion. visited: conjunctions the search computed. objective: mean loss over all rows."""

    active: int
    worst: Found
    visited: int
    objective: float


@dataclass(frozen=True)
class SubgroupFit:
    """What the rounds reached.

    x: the point of the round with the smallest worst gap, `best` its place in `rounds`. met: whether that gap, and so
    that of every subgroup of at least min_count rows, is within the bound. active: the subgroups added in the end.
    """

    x: Tensor
    best: int
    met: bool
    rounds: tuple[Round, ...]
    active: tuple[int, ...]

    @property
    def worst(self) -> Found:
        return self.rounds[self.best].worst


def bound_subgroups(
    train: Train,
    model: str | Model | torch.nn.Module,
    features: Any,
    targets: Any,
    subgroups: Subgroups,
    codes: np.ndarray,
    notion: str | Bound,
    *,
    min_count: int = 200,
    max_fixed: int | None = None,
    rounds: int = 10,
    add: int = 10,
    overlap: float = 0.5,
    margin: float = 0.0,
    active: Sequence[int] = (),
    x0: Tensor | None = None,
    loss: Loss = "logistic",
    dtype: torch.dtype = torch.float32,
    report: Callable[[Round], None] | None = None,
) -> SubgroupFit:
    """Train until no subgroup of at least min_count rows is farther than the notion's bound from everyone.

    train: called once a round with the problem of the active subgroups, e.g.
        `lambda problem, x0: fb.solve(problem, "alm", budget="2000 steps", sampling="full", x0=x0).last`.
        Multipliers begin at 0 in every round; a large penalty makes up for that.
    features (n, d), targets (n,) in {0, 1}, or numbers for a loss of numbers, codes (n, A) group codes of the same rows.
        notion: such as "demographic_parity[overall] <= 0.1"; docs/subgroups.md lists them. active: subgroups to begin
        with. x0: where to begin.
    rounds: at most this many trainings; fewer where a round neither moves the point nor finds a subgroup to add.
    add: subgroups added after each round, per condition; one that shares more than `overlap` of its rows
        (intersection over union) with one added before it in the same round waits.
    margin: the active subgroups are trained to bound - margin, so that those not active meet the bound itself.
    report: called after every round.
    Raises: OptionError for options out of range and other notions; DataError for other labels, and where lengths differ or
        no subgroup has min_count rows.
    """
    stated = check_notion(constraint(notion))
    if rounds < 1 or add < 1 or not 0 < overlap <= 1 or not 0 <= margin <= stated.bound:
        raise OptionError(
            f"rounds and add must be at least 1, overlap in (0, 1] and margin in [0, {stated.bound:g}]; got {rounds}, "
            f"{add}, {overlap}, {margin}."
        )
    rows = dense_rows(features).to(dtype)
    network = model_of(model, rows.shape[1])
    y, _ = _labels(targets, stated, loss, network.outputs)
    if not len(rows) == len(y) == len(codes):
        raise DataError(f"features, targets and codes differ in length: {len(rows)}, {len(y)}, {len(codes)}.")
    cells = occurring(subgroups, codes)
    inner = replace(stated, bound=stated.bound - margin)  # type: ignore[type-var]
    chosen = dict.fromkeys(active)
    x, done, best, best_x = x0, [], 0, None
    for _ in range(rounds):
        problem = subgroup_problem(network, rows, y, subgroups, tuple(chosen), codes, inner, loss=loss, dtype=dtype)
        before, x = x, train(problem, x)
        scores, most = problem.all_scores(x, rows), CANDIDATES * add
        searches = violations(cells, stated, scores, y, min_count=min_count, max_fixed=max_fixed, top=most, loss=loss)
        worst = max((s.worst for s in searches), key=lambda found: found.gap)
        objective = float(problem.evaluate(x).f)
        done.append(Round(len(chosen), worst, sum(s.visited for s in searches), objective))
        if report is not None:
            report(done[-1])
        if best_x is None or worst.gap < done[best].worst.gap:
            best, best_x = len(done) - 1, x.clone()
        if worst.gap <= stated.bound:
            break
        size = len(chosen)
        for search in searches:
            wanted = [f.index for f in search.found if f.gap > inner.bound and f.index not in chosen]
            chosen |= dict.fromkeys(_spread(cells, wanted, add, overlap))
        if len(chosen) == size and before is not None and torch.equal(x, before):
            break
    assert best_x is not None
    return SubgroupFit(best_x, best, done[best].worst.gap <= stated.bound, tuple(done), tuple(chosen))


def subgroup_problem(
    model: str | Model | torch.nn.Module,
    features: Any,
    targets: Any,
    subgroups: Subgroups,
    indices: Sequence[int],
    codes: np.ndarray,
    notion: str | Bound,
    *,
    loss: Loss = "logistic",
    **options: Any,
) -> FairProblem:
    """A FairProblem that bounds the chosen subgroups, overlapping ones too, against everyone; without any, no bound.

    features, targets, loss: as of `FairProblem`. options: its others (sample_weight, domain, dtype, device).
    Raises: OptionError and DataError as `FairProblem`, and OptionError for a notion that `bound_subgroups` does not take.
    """
    network, stated = model_of(model, np.shape(features)[1]), check_notion(constraint(notion))
    y, per_row = _labels(targets, stated, loss, network.outputs)
    if not len(indices):
        return FairProblem(network, features, y, loss=per_row, **options)
    groups = subgroups.as_groups(indices, codes)
    plan = compile_plan((stated,), groups, y, everyone=True)
    return FairProblem(network, features, y, groups, plan, loss=per_row, **options)


def _labels(targets: Any, notion: Bound, loss: Loss, outputs: int) -> tuple[np.ndarray, Pointwise]:
    """The labels (n,), which loss and notion can be taken of, and the loss of a row."""
    per_row = loss_named(loss, outputs)
    y = labels_of(targets, per_row, outputs)
    notion.check_model(outputs, y)
    return y, per_row


def _spread(cells: OccurringCells, indices: Sequence[int], size: int, overlap: float) -> list[int]:
    """The first `size` subgroups of which no two share more than `overlap` of their rows."""
    taken: list[tuple[int, np.ndarray]] = []
    for index in indices:
        inside = cells.inside(index)
        if all(cells.count[inside & other].sum() <= overlap * cells.count[inside | other].sum() for _, other in taken):
            taken.append((index, inside))
            if len(taken) == size:
                break
    return [index for index, _ in taken]
