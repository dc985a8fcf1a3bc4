"""The four verbs of a RankingProblem on a batch of queries.

Everything is a function of the batch's scores: f and the quantities of statistics are sums over its queries, and a
bound on every query gives numbers of single queries (`QueryCells`). f sees the scores as they are. Smooth surrogates of
an order see them over their spread (`QueryBatch.scaled`): no scale changes an order, so none may meet a bound on one.
Slopes in the scores come from autograd, a part of the batch at a time, and one backward pass of the model takes them
to x.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairbound.fairness.rankings.batches import QueryBatch, QueryBatches, QueryPart
from fairbound.fairness.rankings.pair_objective import hinge_by_sorting, pair_losses
from fairbound.fairness.rankings.query_cells import QueryCells
from fairbound.models.model import Model
from fairbound.models.scoring import scores_of_rows
from fairbound.problems.problem import Evaluation, Weights, check_finite
from fairbound.ranking.documents import Documents
from fairbound.rows.queries import ragged


class RankingVerbs:
    """m constraints: first m_sums weighted sums `_linear` (m_sums, K) of the quantities of `_statistics`,
    then those of `_cells`."""

    model: Model
    documents: Documents
    loss: str
    rows: int
    m: int
    m_sums: int
    paired: int
    dtype: torch.dtype
    bounds: Tensor
    _statistics: list[Any]
    _cells: list[QueryCells]
    _linear: Tensor

    def values(self, x: Tensor, batch: Any, true: bool = False) -> Evaluation:
        """As in `Problem`."""
        if x.dim() > 1:
            return stacked([self.values(xi, bi, true) for xi, bi in self._runs(x, batch)])
        with torch.no_grad():
            scores = scores_of_rows(self.model, x, batch.features)
            both = torch.stack([scores, scores]) if true else _twice(scores, batch)
            made = [self._functions(both[:, p.places], p, not true) for p in self._parts(batch)]
        return self._evaluation(made, batch)

    def gradient(
        self, x: Tensor, batch: Any, weights: Weights | Callable[[Evaluation], Weights]
    ) -> tuple[Evaluation | None, Tensor]:
        """As in `Problem`."""
        if x.dim() > 1:
            return self._stacked_gradient(x, batch, weights)
        scores, tape = self.model.forward(x, batch.features)
        parts = list(self._parts(batch))
        own = scores.detach().requires_grad_()
        both = _twice(own, batch)
        leaf = both.detach().requires_grad_()
        kept: list[Tensor] = []
        evaluation = None
        if callable(weights):
            if len(parts) == 1:
                with torch.enable_grad():
                    kept = [self._functions(leaf, parts[0], True)]
                evaluation = self._evaluation([kept[0].detach()], batch)
            else:
                evaluation = self.values(x, batch)
        w0, w = weights(evaluation) if callable(weights) else weights  # type: ignore[arg-type]
        first, of_cells = self._weights(w0, w, batch, callable(weights))
        slopes, done = torch.zeros_like(leaf), 0
        for number, part in enumerate(parts):
            with torch.enable_grad():
                F = kept[number] if kept else self._functions(leaf[:, part.places], part, True)
            w_part = of_cells[done : done + len(F) - len(first)]
            done += len(w_part)
            slopes += torch.autograd.grad(F, leaf, torch.cat([first, w_part]))[0]
        check_finite(slopes, lambda: self._explain(scores, batch))
        return evaluation, tape.vjp(torch.autograd.grad(both, own, slopes)[0])

    def jvp(self, x: Tensor, batch: Any, dx: Tensor) -> Tensor:
        """As in `Problem`."""
        if x.dim() > 1:
            return torch.stack([self.jvp(xi, bi, di) for (xi, bi), di in zip(self._runs(x, batch), dx, strict=True)])
        scores, tape = self.model.forward(x, batch.features)
        own = scores.detach().requires_grad_()
        both = _twice(own, batch)
        change = _along(both, own, tape.jvp(dx))
        leaf = both.detach().requires_grad_()
        made = []
        for part in self._parts(batch):
            with torch.enable_grad():
                F = self._functions(leaf[:, part.places], part, True)
            made.append(_along(F, leaf, change))
        F, of_cells = self._joined(made)
        return torch.cat([F[:1], self._linear @ F[1:], self._listed(of_cells, batch)])

    def jacobian(self, x: Tensor, batch: Any, which: Sequence[int] | None = None) -> tuple[Evaluation, Tensor]:
        """As in `Problem`, by a backward pass for each row."""
        if x.dim() > 1:
            made = [self.jacobian(xi, bi, which) for xi, bi in self._runs(x, batch)]
            return stacked([e for e, _ in made]), torch.stack([rows for _, rows in made])
        evaluation, rows = self.values(x, batch), []
        for i in range(1 + evaluation.g.shape[-1]) if which is None else which:
            w = torch.zeros_like(evaluation.g)
            if i:
                w[i - 1] = 1.0
            rows.append(self.gradient(x, batch, partial(_chosen, float(i == 0), w))[1])
        return evaluation, torch.stack(rows)

    # -- functions of the scores --------------------------------------------------------------------------------

    def _parts(self, batch: QueryBatch) -> Iterator[QueryPart]:
        """The batch in parts that hold a bounded number of pairs at a time."""
        each = [s.looked_at(batch) for s in self._statistics]
        if self.loss == "logistic" or batch.seed is not None or self._cells:
            each.append(batch.looked_at)
        return batch.parts(np.max(each, axis=0) if each else np.diff(batch.starts))

    def _functions(self, scores: Tensor, part: QueryPart, smooth: bool) -> Tensor:
        """(1 + K + c,) the part's share of f and of the quantities, and the numbers of its queries' cells.
        scores: (2, documents) for f, and for the quantities and cells."""
        return torch.cat(
            [
                self._objective(scores[0], part),
                *(s.estimate(scores[1], part, smooth) for s in self._statistics),
                *(c.estimate(scores[1], part, smooth) for c in self._cells),
            ]
        )

    def _joined(self, made: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """(1 + K,) the sums over all parts, and (c,) the numbers of all cells."""
        K = 1 + self._linear.shape[1]
        F: Any = sum(part[:K] for part in made)
        return F, torch.cat([part[K:] for part in made])

    def _objective(self, scores: Tensor, part: QueryPart) -> Tensor:
        """(1,) the part's share of the mean over queries of the mean loss of their pairs."""
        count = part.batch.documents.pairs[part.numbers]
        each = torch.as_tensor(part.batch.scale / self.paired / np.maximum(count, 1), dtype=scores.dtype)
        if self.loss == "hinge" and part.batch.seed is None:
            return (each * hinge_by_sorting(scores, part.relevance, part.starts)).sum(0, keepdim=True)
        pairs = part.pairs
        losses = pair_losses(self.loss, scores[pairs.better] - scores[pairs.worse])
        weight = pairs.weight.to(scores.dtype) * each[part.query[pairs.better]]
        return (weight * losses).sum(0, keepdim=True)

    def _evaluation(self, made: Sequence[Tensor], batch: QueryBatch) -> Evaluation:
        F, of_cells = self._joined(made)
        check_finite(
            F,
            lambda: f"the loss or a bound is NaN or infinite in a batch of {batch.size} queries; lower the step size.",
        )
        subset = self._subset(batch)
        g = torch.cat([self._linear @ F[1:], self._listed(of_cells, batch)])
        return Evaluation(F[0], g - (self.bounds if subset is None else self.bounds[subset]), None, subset)

    def _subset(self, batch: QueryBatch) -> Tensor | None:
        """The constraints that the batch speaks of; None for all."""
        if not self._cells or batch.whole:
            return None
        numbers, start = [torch.arange(self.m_sums)], self.m_sums
        for cells in self._cells:
            numbers.append(torch.as_tensor(start + cells.of_queries(np.sort(batch.once[0]))))
            start += len(cells)
        return torch.cat(numbers)

    def _listed(self, of_cells: Tensor, batch: QueryBatch) -> Tensor:
        """The numbers (c,) of all cells, part by part, in the order of the constraints,
        a query that came twice once."""
        return of_cells if not self._cells else of_cells[self._places(batch)]

    def _places(self, batch: QueryBatch) -> Tensor:
        """(c',) where the number of each constraint that is a cell's lies in those of all parts."""
        places, before = [], 0
        sizes = [np.diff(cells.starts) for cells in self._cells]
        starts = []
        for part in self._parts(batch):
            own = []
            for size in sizes:
                mine = size[part.numbers]
                own.append(before + np.cumsum(mine) - mine)
                before += int(mine.sum())
            starts.append(own)
        first = batch.once[1]
        for j, size in enumerate(sizes):
            begin = np.concatenate([own[j] for own in starts])[first]
            places.append(ragged(begin, size[batch.numbers[first]]))
        return torch.as_tensor(np.concatenate(places))

    def _weights(self, w0: float | Tensor, w: Tensor | None, batch: QueryBatch, of_g: bool) -> tuple[Tensor, Tensor]:
        """(1 + K,) and (c,) the weights of the sums and of the cells' numbers in w0 f + w . g. of_g: whether w is of
        the constraints that the batch speaks of, rather than of all."""
        first = torch.as_tensor(w0, dtype=self.dtype).reshape(1)
        K = self._linear.shape[1]
        count = sum(len(cells.of_queries(batch.numbers)) for cells in self._cells)
        if w is None:
            return torch.cat([first, torch.zeros(K, dtype=self.dtype)]), torch.zeros(count, dtype=self.dtype)
        subset = self._subset(batch)
        w = w if of_g or subset is None else w[subset]
        sums = torch.cat([first, w[: self.m_sums] @ self._linear])
        if not self._cells:
            return sums, torch.zeros(0, dtype=self.dtype)
        return sums, torch.zeros(count, dtype=self.dtype).index_copy(0, self._places(batch), w[self.m_sums :])

    def _runs(self, x: Tensor, batch: Any) -> list[tuple[Tensor, QueryBatch]]:
        batches = batch.runs if isinstance(batch, QueryBatches) else (batch,) * len(x)
        return list(zip(x, batches, strict=True))

    def _stacked_gradient(self, x: Tensor, batch: Any, weights: Any) -> tuple[Evaluation | None, Tensor]:
        """Run by run."""
        runs = self._runs(x, batch)
        evaluation = stacked([self.values(xi, bi) for xi, bi in runs]) if callable(weights) else None
        w0, w = weights(evaluation) if callable(weights) else weights
        first = (
            torch.as_tensor(w0, dtype=self.dtype).expand(len(x), 1) if isinstance(w0, Tensor) else [float(w0)] * len(x)
        )
        out = [self.gradient(xi, bi, (first[r], None if w is None else w[r]))[1] for r, (xi, bi) in enumerate(runs)]
        return evaluation, torch.stack(out)

    def _explain(self, scores: Tensor, batch: QueryBatch) -> str:
        bad = ~torch.isfinite(scores)
        labels = self.documents.queries.labels[batch.numbers[np.unique(batch.query[bad.numpy()])]][:5]
        where = f"; scores of queries {', '.join(map(str, labels))} are not finite" if len(labels) else ""
        return f"the gradient is NaN or infinite in a batch of {batch.size} queries{where}. Lower the step size."


def _twice(scores: Tensor, batch: QueryBatch) -> Tensor:
    """(2, b) scores (b,) as f takes them, and as smooth surrogates of an order do, which no scale changes."""
    with torch.set_grad_enabled(scores.requires_grad):
        return torch.stack([scores, batch.scaled(scores)])


def _along(F: Tensor, leaf: Tensor, change: Tensor) -> Tensor:
    """Derivatives of F (...,), a function of `leaf`, along a change of that, by two backward passes."""
    with torch.enable_grad():
        v = torch.zeros_like(F, requires_grad=True)
        (slopes,) = torch.autograd.grad(F, leaf, v, create_graph=True)
        return torch.autograd.grad((slopes * change).sum(), v)[0]


def _chosen(w0: float, w: Tensor, e: Evaluation) -> Weights:
    return w0, w


def stacked(each: Sequence[Evaluation]) -> Evaluation:
    """The evaluations of several runs as one."""
    return Evaluation(torch.stack([e.f for e in each]), torch.stack([e.g for e in each]))
