"""Values and slopes of plans with more than contrasts of cell means.

They have statistics of whole batches, auxiliary variables, combinations, or another objective than the mean loss."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fairbound.fairness.compiled.contrasts import Memo, PlanContrasts
from fairbound.fairness.compiled.plan import Plan
from fairbound.fairness.evaluation.batches import Batch

UNREAD = object()


class State(NamedTuple):
    """What `value` hands to `vjp`: q (..., Q) all quantities, and the memos of contrasts, statistics (UNREAD for those
    left out) and combinations."""

    q: Tensor
    contrasts: Memo | None
    statistics: Sequence[Any]
    combinations: Sequence[Any]


class Slopes(NamedTuple):
    """of_rows: (..., P*B) weights of the row functions' slopes, None where no cell mean matters; of_loss: (..., 1) of
    the mean loss;
    of_scores: like the scores, from statistics, None without; of_auxiliaries: (..., aux)."""

    of_rows: Tensor | None
    of_loss: Tensor
    of_scores: Tensor | None
    of_auxiliaries: Tensor


def value(
    plan: Plan,
    contrasts: PlanContrasts,
    batch: Batch,
    means: Tensor,
    loss: Tensor,
    scores: Tensor,
    z: Tensor,
    true: bool,
    bounds: bool = True,
) -> tuple[Tensor, Tensor, State]:
    """f (...,), g (..., m) and the memo, from cell means (..., K), mean loss (...,), scores and auxiliaries z (...,
    aux).

    bounds: whether g is asked for; else statistics that the objective does not read are left out, and g means nothing.
    """
    unread = loss.new_zeros(loss.shape)
    computed = [
        s.value(scores, z, batch, true)
        if bounds or read
        else (unread.unsqueeze(-1).expand(*loss.shape, s.size), UNREAD)
        for s, read in zip(plan.statistics, _read(plan), strict=True)
    ]
    q = torch.cat([means, loss.unsqueeze(-1), *(v for v, _ in computed), z], dim=-1)
    g, memo = contrasts.values(q)
    q = contrasts.extended(q)[0]
    combined = [combination.value(q) for combination in plan.combinations] if bounds else []
    g = torch.cat([g, *(v for v, _ in combined)], dim=-1)
    state = State(q, memo, [m for _, m in computed], [m for _, m in combined])
    return _objective(plan, q, loss), g, state


def _read(plan: Plan) -> list[bool]:
    """Which statistics the objective may read."""
    index = () if plan.objective is None else plan.objective.index
    ends = plan.n_cells + 1 + np.cumsum([0, *(s.size for s in plan.statistics)])
    ratios = any(i >= plan.quantities - len(plan.ratios) for i in index)
    return [ratios or any(a <= i < b for i in index) for a, b in pairwise(ends.tolist())]


def _objective(plan: Plan, q: Tensor, loss: Tensor) -> Tensor:
    if plan.objective is None:
        return loss
    terms = q[..., list(plan.objective.index)] * q.new_tensor(plan.objective.coefficient)
    return terms.sum(-1) if plan.objective.how == "sum" else terms.amax(-1)


def vjp(
    plan: Plan, contrasts: PlanContrasts, batch: Batch, w0: float | Tensor, w: Tensor | None, state: State
) -> Slopes:
    """The gradient of w0 f + w . g. w0: a number or (..., 1); w: (..., m), or None for the objective alone."""
    q = state.q
    dq = torch.zeros_like(q)
    if plan.objective is None:
        dq[..., plan.n_cells : plan.n_cells + 1] += w0
    else:
        index = torch.tensor(plan.objective.index, device=q.device)
        share = q.new_tensor(plan.objective.coefficient).expand(*q.shape[:-1], len(index))
        if plan.objective.how == "max":
            largest = (q[..., index] * share).argmax(-1, keepdim=True)
            share = torch.zeros_like(share).scatter(-1, largest, share.gather(-1, largest))
        dq = dq.index_add(-1, index, share * w0)
    if w is not None:
        of_contrasts, *of_combinations = w.split([len(plan.index), *(c.m for c in plan.combinations)], dim=-1)
        for combination, part, memo in zip(plan.combinations, of_combinations, state.combinations, strict=True):
            dq = dq + combination.vjp(part, memo)
        dq = contrasts.collapsed(dq, state.contrasts) + contrasts.vjp(of_contrasts, state.contrasts)
    else:
        dq = contrasts.collapsed(dq, state.contrasts)
    sizes = [s.size for s in plan.statistics]
    of_cells, of_loss, *rest = dq.split([plan.n_cells, 1, *sizes, dq.shape[-1] - plan.n_cells - 1 - sum(sizes)], dim=-1)
    of_auxiliaries, of_scores = rest.pop(), None
    for statistic, part, memo in zip(plan.statistics, rest, state.statistics, strict=True):
        if memo is UNREAD:
            continue
        ds, dz = statistic.vjp(part, memo)
        of_scores = ds if of_scores is None else of_scores + ds
        of_auxiliaries = of_auxiliaries if dz is None else of_auxiliaries + dz
    of_rows = batch.row_sums.spread(of_cells) if plan.uses_means else None  # type: ignore[union-attr]
    return Slopes(of_rows, of_loss, of_scores, of_auxiliaries)
