"""Fair ranking as a Problem: a model that scores documents, a loss of pairs, and stated bounds; its unit is the query.

f is the mean loss of the pairs of a query, averaged over the queries that have pairs, and every constraint is linear in sums
over queries, so that a batch of queries, scaled up, gives unbiased estimates of f, g and their gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fairbound.base.checks import check_choice
from fairbound.base.errors import DataError, OptionError
from fairbound.base.seeds import seed_for
from fairbound.fairness.bound import Bound
from fairbound.fairness.notions import constraints
from fairbound.fairness.rankings.batches import QueryBatch, QueryPart
from fairbound.fairness.rankings.documents import Documents
from fairbound.fairness.rankings.pair_objective import LOSSES, hinge_by_sorting, pair_losses
from fairbound.fairness.row_checks import sorted_rows
from fairbound.models.model import Model
from fairbound.models.scoring import scores_of_rows
from fairbound.problems.base import BaseProblem
from fairbound.problems.domain import Domain, Space
from fairbound.problems.problem import Evaluation, Measured, Weights, check_finite
from fairbound.ranking import by_query
from fairbound.rows.sparse import SparseRows

EXACT_PAIRS = 1 << 24
"""Pairs up to which `evaluate` takes the logistic loss of each; of more it takes that of MEASURED partners a document."""

MEASURED = 32


class QueryBatches(NamedTuple):
    """A batch for each of R stacked runs. size: queries of each."""

    runs: tuple[QueryBatch, ...]
    size: int


class RankingProblem(BaseProblem):
    """min mean pair loss subject to bounds on rankings, over the documents given.

    model: one score per row. features: (n, d) tensor, array or sparse matrix. relevance: (n,) grades >= 0. qid: (n,) the query
    of each row. groups: anything Groups.of takes; None without bounds. stated: bounds on rankings, as text or objects.
    loss: "logistic" or "hinge". partners: worse documents that each better one meets in a random batch. dtype: of the arithmetic.
    documents: those of relevance, qid and groups, where they were made before.

    `rows` and the size of a batch are numbers of queries.
    Raises: DataError for rows that cannot be used; EmptyGroupError as the bounds do; OptionError.
    """

    bounds: Tensor

    def __init__(
        self,
        model: Model,
        features: Any,
        relevance: Any,
        qid: Any,
        groups: Any = None,
        stated: str | Bound | Sequence[str | Bound] | None = None,
        *,
        loss: str = "logistic",
        partners: int = 4,
        domain: Domain | None = None,
        dtype: torch.dtype = torch.float32,
    ):
        check_choice("loss", loss, LOSSES)
        if partners < 1:
            raise OptionError(f"partners must be at least 1, got {partners!r}.")
        if model.outputs != 1:
            raise OptionError(f"a ranker gives one score per document, this model {model.outputs}.")
        self.notions = checked_bounds(stated)
        if self.notions and groups is None:
            raise DataError(f"{self.notions[0].text!r} needs sensitive features, but none were given.")
        self.documents = Documents.of(qid, relevance, groups)
        if features.shape[0] != len(self.documents):
            raise DataError(f"there are {features.shape[0]} rows of features and {len(self.documents)} of relevance.")
        self.paired = int((self.documents.pairs > 0).sum())
        if not self.paired:
            raise DataError(
                "no query has two documents of different relevance, so there is nothing to learn an order from."
            )
        self.model, self.loss, self.partners, self.dtype = model, loss, partners, dtype
        order = self.documents.queries.order
        self.features = sorted_rows(model, features, order, dtype, torch.device("cpu"))
        self.n, self.rows = model.n, len(self.documents.queries)
        self.domain = domain or Space()
        self.sums = [[made for made in bound.sums(self.documents)] for bound in self.notions]
        flat = [(bound, made) for bound, each in zip(self.notions, self.sums, strict=True) for made in each]
        self._statistics: list[Any] = [made.statistic for _, made in flat]
        names = [f"{bound.name}: {name}" for bound, made in flat for name in made.names]
        self.m, self.names = len(names), names
        self.bounds = torch.tensor([float(b.bound) for b, made in flat for _ in made.names], dtype=dtype)
        self.dual_scale = torch.tensor([made.statistic.dual_scale for _, made in flat for _ in made.names], dtype=dtype)
        self._linear = self._combined([(made.index, made.coefficient, made.statistic.size) for _, made in flat])

    def _combined(self, parts: list[tuple[np.ndarray, np.ndarray, int]]) -> Tensor:
        """(m, K) the weights of all quantities in each constraint, before its bound is subtracted."""
        whole = np.zeros((self.m, sum(size for *_, size in parts)))
        row = column = 0
        for index, coefficient, size in parts:
            np.add.at(whole, (np.arange(row, row + len(index))[:, None], column + index), coefficient)
            row, column = row + len(index), column + size
        return torch.as_tensor(whole, dtype=self.dtype)

    def start(self, seeds: Sequence[int]) -> Tensor:
        starts = [self.model.start(torch.Generator().manual_seed(seed_for("start", root=s)), self.dtype) for s in seeds]
        return starts[0] if len(seeds) == 1 else torch.stack(starts)

    def sample(self, seeds: Sequence[int], name: str, k: int, size: int, kind: str) -> QueryBatch | QueryBatches:
        """`size` queries with all their documents; "balanced" is "uniform", as `Queries.draw` says."""
        if kind == "full":
            return self._everything if len(seeds) == 1 else QueryBatches((self._everything,) * len(seeds), self.rows)
        drawn = self.documents.queries.draw(seeds, name, k, size, kind)
        runs = tuple(
            self.batch(queries, seed_for("pairs", name, k, root=seed))
            for queries, seed in zip(drawn, seeds, strict=True)
        )
        return runs[0] if len(runs) == 1 else QueryBatches(runs, runs[0].size)

    @cached_property
    def _everything(self) -> QueryBatch:
        """All queries and all pairs."""
        return self.batch(np.arange(self.rows), None)

    def batch(self, queries: np.ndarray, seed: int | None) -> QueryBatch:
        """These queries (B,), with partners drawn by `seed`, or None for all pairs."""
        found = self.documents.queries
        rows = found.documents(queries)
        starts = np.concatenate([[0], np.cumsum(found.sizes[queries])])
        whole = len(rows) == len(self.documents) and len(queries) == len(found)
        features = self.features if whole else taken(self.features, rows)
        drawn = None if seed is None else seed % (1 << 62)
        return QueryBatch(
            self.documents,
            queries,
            rows,
            starts,
            features,
            self.rows / len(queries),
            self.partners,
            drawn,
            len(queries),
        )

    def sharpened(self, factor: float) -> RankingProblem:
        """This problem with sigmoids `factor` times as steep. Documents and batches are shared."""
        made = copy(self)
        made._statistics = [replace(s, sharpness=factor * s.sharpness) for s in self._statistics]
        return made

    # -- the verbs ----------------------------------------------------------------------------------------------

    def values(self, x: Tensor, batch: Any, true: bool = False) -> Evaluation:
        if x.dim() > 1:
            return stacked([self.values(xi, bi, true) for xi, bi in self._runs(x, batch)])
        with torch.no_grad():
            scores = scores_of_rows(self.model, x, batch.features)
            F: Tensor = sum(self._sums(scores[p.places], p, not true) for p in self._parts(batch))  # type: ignore[assignment]
        return self._evaluation(F, batch)

    def gradient(
        self, x: Tensor, batch: Any, weights: Weights | Callable[[Evaluation], Weights]
    ) -> tuple[Evaluation | None, Tensor]:
        if x.dim() > 1:
            return self._stacked_gradient(x, batch, weights)
        scores, tape = self.model.forward(x, batch.features)
        parts = list(self._parts(batch))
        leaf = scores.detach().requires_grad_()
        kept: list[Tensor] = []
        evaluation = None
        if callable(weights):
            if len(parts) == 1:
                with torch.enable_grad():
                    kept = [self._sums(leaf, parts[0], True)]
                evaluation = self._evaluation(kept[0].detach(), batch)
            else:
                evaluation = self.values(x, batch)
        w0, w = weights(evaluation) if callable(weights) else weights  # type: ignore[arg-type]
        of_sums = self._weights(w0, w)
        slopes = torch.zeros_like(scores)
        for number, part in enumerate(parts):
            with torch.enable_grad():
                F = kept[number] if kept else self._sums(leaf[part.places], part, True)
            slopes += torch.autograd.grad(F, leaf, of_sums)[0]
        check_finite(slopes, lambda: self._explain(scores, batch))
        return evaluation, tape.vjp(slopes)

    def jvp(self, x: Tensor, batch: Any, dx: Tensor) -> Tensor:
        if x.dim() > 1:
            return torch.stack([self.jvp(xi, bi, di) for (xi, bi), di in zip(self._runs(x, batch), dx, strict=True)])
        scores, tape = self.model.forward(x, batch.features)
        along = self._along(scores.detach(), tape.jvp(dx), batch)
        return torch.cat([along[:1], self._linear @ along[1:]])

    def _along(self, scores: Tensor, change: Tensor, batch: QueryBatch) -> Tensor:
        """(1 + K,) derivatives of the sums along a change of the scores, by two backward passes."""
        total: Any = 0.0
        leaf = scores.requires_grad_()
        for part in self._parts(batch):
            with torch.enable_grad():
                F = self._sums(leaf[part.places], part, True)
                v = torch.zeros_like(F, requires_grad=True)
                (slopes,) = torch.autograd.grad(F, leaf, v, create_graph=True)
                total = total + torch.autograd.grad((slopes * change).sum(), v)[0]
        return total

    def jacobian(self, x: Tensor, batch: Any, which: Sequence[int] | None = None) -> tuple[Evaluation, Tensor]:
        if x.dim() > 1:
            made = [self.jacobian(xi, bi, which) for xi, bi in self._runs(x, batch)]
            return stacked([e for e, _ in made]), torch.stack([rows for _, rows in made])
        evaluation, rows = self.values(x, batch), []
        for i in range(1 + self.m) if which is None else which:
            one = torch.zeros(1 + self.m, dtype=self.dtype)
            one[i] = 1.0
            rows.append(self.gradient(x, batch, (float(one[0]), one[1:] if i else None))[1])
        return evaluation, torch.stack(rows)

    # -- sums over queries --------------------------------------------------------------------------------------

    def _parts(self, batch: QueryBatch) -> Iterator[QueryPart]:
        """The batch in parts that hold a bounded number of pairs at a time."""
        each = [s.looked_at(batch) for s in self._statistics]
        if self.loss == "logistic" or batch.seed is not None:
            each.append(batch.looked_at)
        return batch.parts(np.max(each, axis=0) if each else np.diff(batch.starts))

    def _sums(self, scores: Tensor, part: QueryPart, smooth: bool) -> Tensor:
        """(1 + K,) the part's share of f and of the quantities."""
        return torch.cat([self._objective(scores, part), *(s.estimate(scores, part, smooth) for s in self._statistics)])

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

    def _evaluation(self, F: Tensor, batch: QueryBatch) -> Evaluation:
        check_finite(
            F,
            lambda: f"the loss or a bound is NaN or infinite in a batch of {batch.size} queries; lower the step size.",
        )
        return Evaluation(F[0], self._linear @ F[1:] - self.bounds)

    def _weights(self, w0: float | Tensor, w: Tensor | None) -> Tensor:
        """(1 + K,) the weight of each sum in w0 f + w . g."""
        first = torch.as_tensor(w0, dtype=self.dtype).reshape(1)
        rest = torch.zeros(self._linear.shape[1], dtype=self.dtype) if w is None else w @ self._linear
        return torch.cat([first, rest])

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

    # -- measuring ----------------------------------------------------------------------------------------------

    def all_scores(self, x: Tensor) -> Tensor:
        """(..., n) scores of the sorted documents."""
        return scores_of_rows(self.model, x, self.features)

    def evaluate(self, x: Tensor) -> Measured:
        """The objective, the true constraints and the stated bounds' values on all queries; uncounted.

        extra: "pair_error" the share of pairs in the wrong order, a mean over queries, and "stated" (..., bounds) the value of each.
        """
        if x.dim() > 1:
            made = [self.evaluate(xi) for xi in x]
            extra = {key: torch.stack([m.extra[key] for m in made]) for key in made[0].extra}
            return Measured(torch.stack([m.f for m in made]), torch.stack([m.g for m in made]), extra)
        scores = self.all_scores(x).double()
        f = self._whole_objective(scores)
        check_finite(f, lambda: "the loss over all queries is not finite at this point; lower the step size.")
        s, d = scores.numpy(), self.documents
        won = by_query.sums(by_query.wins(s, d.relevance, d.starts, np.ones((len(d), 1)))[0], d.starts)[:, 0]
        extra = {"pair_error": torch.tensor(float((1 - won / np.maximum(d.pairs, 1))[d.pairs > 0].mean()))}
        values = [[made.values(s) for made in each] for each in self.sums]
        stated = [max(float(v.max()) for v in each) for each in values]
        if stated:
            extra["stated"] = torch.tensor(stated, dtype=torch.float64)
        flat = [v - float(bound.bound) for bound, each in zip(self.notions, values, strict=True) for v in each]
        return Measured(f, torch.as_tensor(np.concatenate([np.zeros(0), *flat])), extra)

    def _whole_objective(self, scores: Tensor) -> Tensor:
        """() f on all queries, from scores (n,) in float64."""
        whole = self._everything
        if self.loss == "logistic" and int(self.documents.pairs.sum()) > EXACT_PAIRS:
            whole = self.batch(np.arange(self.rows), 0)
            whole.__dict__["partners"] = MEASURED
        each = np.diff(whole.starts) if self.loss == "hinge" else whole.looked_at
        total: Any = sum(self._objective(scores[p.places], p) for p in whole.parts(each))
        return total[0]

    def stated_values(self, measured: Measured) -> list[Tensor]:
        """(...,) the measured value of every stated bound."""
        return list(measured.extra["stated"].unbind(-1)) if self.notions else []


def checked_bounds(stated: Any) -> tuple[Any, ...]:
    """The bounds as objects. Raises: OptionError for one that does not speak of rankings."""
    bounds = constraints(stated)
    for bound in bounds:
        if "queries" not in bound.needs:
            raise OptionError(
                f"{bound.text!r} bounds decisions, and a ranker makes none. State exposure_parity or pairwise_parity, or train a "
                "FairClassifier."
            )
    return bounds


def stacked(each: Sequence[Evaluation]) -> Evaluation:
    """The evaluations of several runs as one."""
    return Evaluation(torch.stack([e.f for e in each]), torch.stack([e.g for e in each]))


def taken(features: Tensor | SparseRows, rows: np.ndarray) -> Tensor | SparseRows:
    """The rows numbered `rows`."""
    return features.rows(rows) if isinstance(features, SparseRows) else features[torch.as_tensor(rows)]
