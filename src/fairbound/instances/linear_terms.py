"""Finite sums of losses of linear scores, over blocks of rows, as a Problem.

    F_i(x) = sum over terms t of function i of  c_t * mean over the rows a of block b_t of loss_t(W a, label of a)  -  r_i

with F_0 = f (r_0 = 0) and F_i = g_i, W (C, d) the flat x row by row: one vector of d entries for each class, C = 1 for
one score per row. With coefficients >= 0 every F_i is convex. Rows are dense or CSR; CSR rows are never made dense.

The blocks are cells of a plan of bounds, one for each loss, and F_0 .. F_m are contrasts of their means: batches and
verbs are those of every problem with bounds (`fairness.evaluation.verbs`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from fairbound.base.errors import DataError, OptionError
from fairbound.fairness.compiled.builder import Builder, compile_plan
from fairbound.fairness.evaluation.batches import Batch
from fairbound.fairness.evaluation.verbs import Verbs
from fairbound.fairness.pointwise import Pointwise
from fairbound.instances.block_rows import stacked
from fairbound.instances.score_losses import score_loss
from fairbound.models.mlp import MLP
from fairbound.problems.base import BaseProblem, Numbered
from fairbound.problems.domain import Ball, Domain, Product, Space
from fairbound.problems.problem import Measured, Ranges
from fairbound.rows.occurring import Occurring
from fairbound.rows.sparse import SparseRows
from fairbound.rows.strata import Strata


@dataclass(frozen=True, eq=False)
class Block:
    """Rows over which a mean is taken.

    rows: (n_b, d) array, tensor or SciPy sparse matrix. labels: one for all rows, or (n_b,): 0 or 1 where a row has one
    score (for the losses that take a label), a class number 0 .. C-1 where it has C.
    """

    name: str
    rows: Any
    labels: Any = 0


@dataclass(frozen=True)
class Term:
    """coefficient (> 0) times the mean over a block of a loss (see `score_losses.LOSSES`), part of F_function.

    function: 0 for the objective, i for the constraint g_i. block: its place among the blocks.
    """

    function: int
    block: int
    loss: str
    coefficient: float = 1.0


@dataclass(frozen=True)
class Sum:
    """F_i as it compiles itself into a plan. terms: (loss, block, coefficient) of each; bound: r_i."""

    name: str
    bound: float
    terms: Sequence[tuple[Pointwise, int, float]]

    def compile(self, builder: Builder) -> None:
        builder.contrasts(np.array([self._cells(builder)]), [c for *_, c in self.terms], lambda _: "mean losses")

    def compile_objective(self, builder: Builder) -> None:
        builder.minimise(self._cells(builder), [c for *_, c in self.terms])

    def _cells(self, builder: Builder) -> list[int]:
        """Numbers of the cells that the terms are means over."""
        blocks = builder.occurring.labels[0]
        return [builder.cells(loss, (0,), (None,), lambda: blocks).offset + block for loss, block, _ in self.terms]


class LinearTerms(Verbs, BaseProblem):
    """For linear scores: least weighted losses of some blocks of rows, subject to bounds on weighted losses of others.

    Take it where every function is such a sum; it is convex, gives unbiased batches, and has `ranges` for certificates.

    In letters: min F_0(x) subject to F_i(x) <= 0, with |w_c|_2 <= radius for each of the C class vectors.

    blocks: K blocks of rows, of equal width; kept by name and size in `blocks`.
    terms: what each of F_0 .. F_m is the sum of; each needs one.
    bounds: (m,) the r_i.
    classes: C, 1 for one score per row; x of shape (n,) is `x.view(C, d)`.
    radius: > 0, of the ball of each class vector; None for all space.
    names: of the m constraints.
    start: (n,) the first iterate, 0 by default.
    dtype: float64 or float32.
    losses (attribute): the distinct losses, each with the coefficients (1 + m, K) of its block means in F_0 .. F_m.

    Every estimate from a batch is unbiased. A *balanced* batch takes equally many rows of every block, as
    `sampling.balanced_layout` does: a smaller block takes part whole. *uniform* and *shuffled* batches take rows of all
    blocks alike, and a block they lack adds 0.

    Raises: DataError for rows or labels that cannot be used; OptionError for terms, bounds or a radius that do not fit.
    """

    convex = True
    own_means = False
    bounds: Tensor
    strata: Strata

    def __init__(
        self,
        blocks: Sequence[Block],
        terms: Sequence[Term],
        bounds: Sequence[float],
        *,
        classes: int = 1,
        radius: float | None = None,
        names: Sequence[str] | None = None,
        start: Any = None,
        dtype: torch.dtype = torch.float64,
        name: str = "linear_terms",
    ):
        if dtype not in (torch.float32, torch.float64):
            raise OptionError(f"dtype must be torch.float32 or torch.float64, got {dtype}.")
        if classes < 1:
            raise OptionError(f"classes must be at least 1, got {classes}.")
        self.name, self.classes, self.radius = name, classes, radius
        self.bounds = _checked_bounds(bounds, dtype)
        self.m = m = len(self.bounds)
        self.names = Numbered(m) if names is None else tuple(names)
        if len(self.names) != m:
            raise OptionError(f"{len(self.names)} names for {m} constraints; give one each.")
        features, sizes = stacked([b.rows for b in blocks], [b.name for b in blocks], dtype)
        targets = torch.cat([_checked_labels(b, n, classes) for b, n in zip(blocks, sizes, strict=True)]).to(dtype)
        self.losses = _compiled(terms, m, len(blocks), classes, dtype)
        self.blocks = dict(zip((b.name for b in blocks), sizes, strict=True))
        if len(self.blocks) < len(blocks):
            raise OptionError(f"block names repeat: {', '.join(b.name for b in blocks)}.")
        sums = [self._sum(i, "objective" if not i else self.names[i - 1]) for i in range(1 + m)]
        each = np.arange(len(sizes))
        occurring = Occurring(
            ("block",), (tuple(self.blocks),), each[:, None], np.zeros(len(sizes), np.int64), np.array(sizes)
        )
        plan = compile_plan(sums[1:], occurring, objective=sums[0])
        cells = plan.cells(np.repeat(each, sizes)[:, None], np.zeros(sum(sizes), dtype=np.int64))
        self.d = features.shape[-1]
        self.model, self.loss = MLP(self.d, outputs=classes, bias=False), self.losses[0][0]
        super().__init__(features, targets, torch.as_tensor(cells), None, Strata.of(cells))
        self._use(plan)
        self.n = self.model.n
        self.domain: Domain = _domain(radius, classes, self.d)
        self._start = _checked_start(start, self.n, dtype)

    def _sum(self, function: int, name: str) -> Sum:
        terms = [
            (loss, b, float(A[function, b]))
            for loss, A in self.losses
            for b in A[function].nonzero().flatten().tolist()
        ]
        return Sum(name, float(self.bounds[function - 1]) if function else 0.0, terms)

    def start(self, seeds: Sequence[int]) -> Tensor:
        """The same point for every seed: (n,) for one, (R, n) for several."""
        return self._start.clone() if len(seeds) == 1 else self._start.repeat(len(seeds), 1)

    def sample(self, seeds: Sequence[int], name: str, k: int, size: int, kind: str) -> Batch:
        """The k-th batch of the stream `name`. Raises: OptionError for an unknown kind."""
        return super().sample(seeds, name, k, size, "full" if kind == "balanced" and size >= self.rows else kind)

    def evaluate(self, x: Tensor) -> Measured:
        """f and g on all rows, uncounted."""
        found = self.values(x, self.full())
        return Measured(found.f, found.g, {})

    def scores(self, x: Tensor, block: str) -> Tensor:
        """(..., n_b), or (..., n_b, C) of several classes: the scores of a block's rows, uncounted."""
        first = int(self.strata.starts[list(self.blocks).index(block)])
        last = first + self.blocks[block]
        rows = self.features
        return self.model.scores(x, rows[first:last])

    @property
    def matrix(self) -> Any:
        """(rows, d) all rows, block after block: a tensor or a CSR matrix."""
        return self.features.matrices[0] if isinstance(self.features, SparseRows) else self.features

    def ranges(self, x: Tensor | None = None) -> Ranges:
        """Between what one row of block k adds to F_i, from |w_c . a| <= |w_c| |a| with the block's longest row.

        x: (..., n), the bounds at these points; None: over the whole domain.
        Raises: OptionError if x is None and the domain is all space.
        """
        if x is None:
            if self.radius is None:
                raise OptionError("all of space has no ranges: give the problem a radius, or give ranges(x) a point.")
            length = torch.tensor(self.radius, dtype=self.dtype)
        else:
            length = x.view(*x.shape[:-1], self.classes, -1).norm(dim=-1).amax(-1)
        reach = length.unsqueeze(-1) * self._longest
        low: Any = 0.0
        high: Any = 0.0
        for loss, A in self.losses:
            ends = torch.stack(_extremes(loss, reach, self.classes))
            low, high = low + A * ends.amin(0).unsqueeze(-2), high + A * ends.amax(0).unsqueeze(-2)
        return Ranges(low, high)

    @cached_property
    def _longest(self) -> Tensor:
        """(K,) the largest Euclidean norm of a row in each block."""
        squares = self.matrix.multiply(self.matrix) if sparse.issparse(self.matrix) else self.matrix.double().square()
        norms = np.sqrt(np.asarray(squares.sum(1), dtype=np.float64).ravel())
        return torch.as_tensor(np.maximum.reduceat(norms, self.strata.starts), dtype=self.dtype)


def _extremes(loss: Pointwise, reach: Tensor, classes: int) -> list[Tensor]:
    """The losses (shaped like reach) at the corners |score| = reach, among them the least and the largest."""
    if classes == 1:
        return [loss.value(s, y) for s in (reach, -reach) for y in (torch.zeros_like(reach), torch.ones_like(reach))]
    own = torch.zeros_like(reach).long()
    sign = -torch.ones(classes, dtype=reach.dtype)
    sign[0] = 1.0
    return [loss.value(s * reach.unsqueeze(-1), own) for s in (sign, -sign)]


def _compiled(
    terms: Sequence[Term], m: int, blocks: int, classes: int, dtype: torch.dtype
) -> list[tuple[Pointwise, Tensor]]:
    """The distinct losses, each with its coefficients (1 + m, K)."""
    table: dict[str, Tensor] = {}
    for term in terms:
        if not 0 <= term.function <= m:
            raise OptionError(f"a term names function {term.function}, but with {m} bounds there are 0 to {m}.")
        if not 0 <= term.block < blocks:
            raise OptionError(f"a term names block {term.block}, but there are 0 to {blocks - 1}.")
        if not 0 < term.coefficient < math.inf:
            raise OptionError(f"a coefficient must be positive (the functions are convex), got {term.coefficient!r}.")
        score_loss(term.loss, classes)
        A = table.setdefault(term.loss, torch.zeros(1 + m, blocks, dtype=dtype))
        A[term.function, term.block] += term.coefficient
    missing = [i for i in range(1 + m) if not any(term.function == i for term in terms)]
    if missing:
        raise OptionError(f"function {missing[0]} has no term; each of 0 (the objective) to {m} needs one.")
    return [(score_loss(name, classes), A) for name, A in table.items()]


def _domain(radius: float | None, classes: int, features: int) -> Domain:
    if radius is None:
        return Space()
    if not 0 < radius < math.inf:
        raise OptionError(f"radius must be a positive number, or None for all of space, got {radius!r}.")
    return Ball(radius) if classes == 1 else Product([Ball(radius)] * classes, [features] * classes)


def _checked_bounds(bounds: Sequence[float], dtype: torch.dtype) -> Tensor:
    made = torch.as_tensor(bounds, dtype=dtype)
    if made.dim() != 1 or not bool(torch.isfinite(made).all()):
        raise OptionError(f"bounds must be finite numbers, one for each constraint, got {bounds!r}.")
    return made


def _checked_labels(block: Block, rows: int, classes: int) -> Tensor:
    labels = np.asarray(block.labels)
    if labels.ndim and labels.shape != (rows,):
        raise DataError(f"block {block.name!r} has {rows} rows but labels of shape {labels.shape}.")
    if not np.isin(labels, np.arange(max(2, classes))).all():
        raise DataError(f"labels of block {block.name!r} must be whole numbers from 0 to {max(2, classes) - 1}.")
    return torch.as_tensor(np.broadcast_to(labels, (rows,)).astype(np.int64))


def _checked_start(start: Any, n: int, dtype: torch.dtype) -> Tensor:
    if start is None:
        return torch.zeros(n, dtype=dtype)
    made = torch.as_tensor(start, dtype=dtype)
    if made.shape != (n,) or not bool(torch.isfinite(made).all()):
        raise OptionError(f"start must be {n} finite numbers, got shape {tuple(made.shape)}.")
    return made
