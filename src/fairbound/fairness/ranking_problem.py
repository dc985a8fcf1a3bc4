"""Fair ranking as a Problem: a model that scores documents, a loss of pairs, and stated bounds; its unit is the query.

f is the mean loss of the pairs of a query, averaged over the queries that have pairs, and every constraint is linear in
sums over queries, so that a batch of queries, scaled up, gives unbiased estimates of f, g and their gradients; but for
the spread of the scores, which smooth surrogates divide by and a batch has of its own (`QueryBatch.scaled`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairbound.base.checks import check_choice
from fairbound.base.errors import DataError, OptionError
from fairbound.base.names import Names
from fairbound.base.seeds import seed_for
from fairbound.fairness.bound import Bound
from fairbound.fairness.notions import constraints
from fairbound.fairness.rankings.batches import QueryBatch, QueryBatches
from fairbound.fairness.rankings.pair_objective import LOSSES
from fairbound.fairness.rankings.verbs import RankingVerbs
from fairbound.fairness.row_checks import sorted_rows
from fairbound.models.model import Model
from fairbound.models.scoring import scores_of_rows
from fairbound.problems.base import BaseProblem
from fairbound.problems.domain import Space
from fairbound.problems.problem import Measured, check_finite
from fairbound.ranking import by_query
from fairbound.ranking.documents import Documents

EXACT_PAIRS = 1 << 24
"""Pairs up to which `evaluate` takes the logistic loss of each;
of more it takes that of MEASURED partners a document."""

MEASURED = 32


class RankingProblem(RankingVerbs, BaseProblem):
    """Training of a ranker: least mean pair loss over the documents given, subject to the stated bounds on rankings.

    model: one score per row.
    features: (n, d) tensor, array or sparse matrix.
    relevance: (n,) grades >= 0.
    qid: (n,) the query of each row.
    groups: anything Groups.of takes; None without bounds.
    stated: bounds on rankings, as text or objects.
    loss: "logistic" or "hinge".
    partners: worse documents that each better one meets in a random batch.
    dtype: of the arithmetic.

    `rows` and the size of a batch are numbers of queries.
    Raises: DataError for rows that cannot be used; EmptyGroupError as the bounds do; OptionError.
    """

    bounds: Tensor
    partial: bool

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
        dtype: torch.dtype = torch.float32,
    ):
        check_choice("loss", loss, LOSSES)
        if partners < 1:
            raise OptionError(f"partners must be at least 1, got {partners!r}.")
        if model.outputs != 1:
            raise OptionError(f"a ranker gives one score per document, this model {model.outputs}.")
        self.notions = ranking_bounds(stated)
        self.documents = Documents.of(qid, relevance, groups)
        if self.notions and not self.documents.groups.attributes:
            raise DataError(f"{self.notions[0].text!r} needs sensitive features, but none were given.")
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
        self.domain = Space()
        sums = [(b, made) for b in self.notions if not b.each_query for made in b.sums(self.documents)]
        cells = [(b, made) for b in self.notions if b.each_query for made in b.cells(self.documents)]
        self._statistics = [made.statistic for _, made in sums]
        self._cells = [made for _, made in cells]
        self._sums_of = {b.text: [made for own, made in sums if own is b] for b in self.notions}
        self._cells_of = {b.text: [made for own, made in cells if own is b] for b in self.notions}
        self.m_sums, self.partial = sum(len(made.names) for _, made in sums), bool(cells)
        self.m = self.m_sums + sum(map(len, self._cells))
        self.names = Names(
            [(len(made.names), partial(_name, bound.name, made.names.__getitem__)) for bound, made in sums]
            + [(len(made), partial(_name, bound.name, made.name)) for bound, made in cells]
        )
        each = [(b.bound, made.statistic.dual_scale, len(made.names)) for b, made in sums]
        each += [(b.bound, made.dual_scale, len(made)) for b, made in cells]
        self._bounds, scale = (np.repeat([float(v[j]) for v in each], [v[2] for v in each]) for j in (0, 1))
        self.bounds, self.dual_scale = (torch.as_tensor(v, dtype=dtype) for v in (self._bounds, scale))
        self._linear = self._combined([(made.index, made.coefficient, made.statistic.size) for _, made in sums])

    def _combined(self, parts: list[tuple[np.ndarray, np.ndarray, int]]) -> Tensor:
        """(m_sums, K) the weights of all quantities in each constraint that is a sum,
        before its bound is subtracted."""
        whole = np.zeros((self.m_sums, sum(size for *_, size in parts)))
        row = column = 0
        for index, coefficient, size in parts:
            np.add.at(whole, (np.arange(row, row + len(index))[:, None], column + index), coefficient)
            row, column = row + len(index), column + size
        return torch.as_tensor(whole, dtype=self.dtype)

    def start(self, seeds: Sequence[int]) -> Tensor:
        if self.partial and len(seeds) > 1:
            raise OptionError("with a bound on every query runs cannot be stacked; take one seed at a time.")
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
        features = self.features if np.array_equal(queries, np.arange(len(found))) else self.features[rows]
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
        made._cells = [replace(c, sharpness=factor * c.sharpness) for c in self._cells]
        return made

    @cached_property
    def descriptions(self) -> Tensor | None:
        """(m, d) a row for each constraint, that tells it from others: the mean features of the documents whose lost
        pairs it counts less those of its query, each column over its largest size; None where a constraint is not of
        one query, and for sparse or unflattened rows."""
        features, d = self.features, self.documents
        if self.m_sums or not self.m or not isinstance(features, Tensor) or features.dim() != 2:
            return None
        sizes = torch.as_tensor(np.diff(d.starts))
        queries = torch.segment_reduce(features, "mean", lengths=sizes, axis=0)
        parts = []
        for made in self._cells:
            inside = torch.as_tensor(made.of_document >= 0)
            own = torch.as_tensor(made.of_document)[inside]
            sums = features.new_zeros(len(made), features.shape[1]).index_add_(0, own, features[inside])
            parts.append(sums / torch.bincount(own, minlength=len(made)).unsqueeze(1) - queries[made.query])
        found = torch.cat(parts)
        return found / found.abs().amax(0).clamp_min(torch.finfo(self.dtype).tiny)

    # -- measuring ----------------------------------------------------------------------------------------------

    def all_scores(self, x: Tensor) -> Tensor:
        """(..., n) scores of the sorted documents."""
        return scores_of_rows(self.model, x, self.features)

    def evaluate(self, x: Tensor) -> Measured:
        """The objective, the true constraints and the stated bounds' values on all queries; uncounted.

        extra: "pair_error" the share of pairs in the wrong order, a mean over queries, and "stated" (..., bounds) the
        value of each.
        """
        if x.dim() > 1:
            made = [self.evaluate(xi) for xi in x]
            extra = {key: torch.stack([m.extra[key] for m in made]) for key in made[0].extra}
            return Measured(torch.stack([m.f for m in made]), torch.stack([m.g for m in made]), extra)
        scores = self.all_scores(x).double()
        f = self._whole_objective(scores)
        check_finite(f, lambda: "the loss over all queries is not finite at this point; lower the step size.")
        s, d = scores.numpy(), self.documents
        won = d.won(s)
        share = by_query.sums(won, d.starts) / np.maximum(d.pairs, 1)
        extra = {"pair_error": torch.tensor(float((1 - share)[d.pairs > 0].mean()))}
        values = {
            b.text: [*(v.values(s) for v in self._sums_of[b.text]), *(v.values(won) for v in self._cells_of[b.text])]
            for b in self.notions
        }
        stated = [max(float(v.max()) for v in values[b.text]) for b in self.notions]
        if stated:
            extra["stated"] = torch.tensor(stated, dtype=torch.float64)
        summed = [v for b in self.notions if not b.each_query for v in values[b.text]]
        of_cells = [v for b in self.notions if b.each_query for v in values[b.text]]
        g = np.concatenate([np.zeros(0), *summed, *of_cells]) - self._bounds
        return Measured(f, torch.as_tensor(g), extra)

    def _whole_objective(self, scores: Tensor) -> Tensor:
        """() f on all queries, from scores (n,) in float64."""
        whole = self._everything
        if self.loss == "logistic" and int(self.documents.pairs.sum()) > EXACT_PAIRS:
            whole = self.batch(np.arange(self.rows), 0)
            whole.__dict__["partners"] = MEASURED
        each = np.diff(whole.starts) if self.loss == "hinge" else whole.looked_at
        total: Any = sum(self._objective(scores[p.places], p) for p in whole.parts(each))
        return total[0]

    @property
    def dropped(self) -> list[str]:
        """Names of what the bounds leave out for lack of queries."""
        return sorted({name for each in self._sums_of.values() for made in each for name in made.dropped})


def ranking_bounds(stated: Any) -> tuple[Any, ...]:
    """The bounds as objects. Raises: OptionError for one that does not speak of rankings."""
    bounds = constraints(stated)
    for bound in bounds:
        if "queries" not in bound.needs:
            raise OptionError(
                f"{bound.text!r} bounds decisions, and a ranker makes none. State exposure_parity or pairwise_parity, or train a "
                "FairClassifier."
            )
    return bounds


def _name(bound: str, name: Callable[[int], str], i: int) -> str:
    return f"{bound}: {name(i)}"
