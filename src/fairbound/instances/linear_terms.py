"""Finite sums of losses of linear scores, over blocks of rows, as a Problem.

    F_i(x) = sum over terms t of function i of  c_t * mean over the rows a of block b_t of loss_t(W a, label of a)  -  r_i

with F_0 = f (r_0 = 0) and F_i = g_i, W (C, d) the flat x row by row: one vector of d entries for each class, C = 1 for one
score per row. With coefficients >= 0 every F_i is convex. Rows are dense or CSR; CSR rows are never made dense.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairbound.base.errors import DataError, OptionError
from fairbound.fairness.pointwise import Pointwise
from fairbound.instances.block_batches import Batch, BlockBatches, Piece
from fairbound.instances.row_matrix import RowMatrix, Rows
from fairbound.instances.score_losses import score_loss
from fairbound.problems.base import BaseProblem, Numbered
from fairbound.problems.domain import Ball, Domain, Product, Space
from fairbound.problems.problem import Evaluation, Measured, Ranges, Weights, check_finite
from fairbound.rows.sampling import Strata


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


class LinearTerms(BlockBatches, BaseProblem):
    """min F_0(x) subject to F_i(x) <= 0, with |w_c|_2 <= radius for each of the C class vectors.

    blocks: K blocks of rows, of equal width. terms: what each of F_0 .. F_m is the sum of; each needs one.
    bounds: (m,) the r_i. classes: C, 1 for one score per row. radius: of the ball of each class vector; None for all
    space. names: of the m constraints. start: (n,) the first iterate, 0 by default. dtype: float64 or float32.

    Every estimate from a batch is unbiased (see `BlockBatches` for the kinds of batches).

    blocks are kept by name and size in `blocks`; x of shape (n,) is `x.view(C, d)`.
    Raises: DataError for rows or labels that cannot be used; OptionError for terms, bounds or a radius that do not fit.
    """

    convex = True
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
        self.m = len(bounds)
        self.bounds = _checked_bounds(bounds, dtype)
        self.names = Numbered(self.m) if names is None else tuple(names)
        if len(self.names) != self.m:
            raise OptionError(f"{len(self.names)} names for {self.m} constraints; give one each.")
        matrix = RowMatrix([b.rows for b in blocks], [b.name for b in blocks], dtype)
        labels = torch.cat([_checked_labels(b, n, classes) for b, n in zip(blocks, matrix.sizes, strict=True)])
        losses = _compiled(terms, self.m, len(blocks), classes, dtype)
        super().__init__(matrix, labels.to(dtype) if classes == 1 else labels, losses, dtype)
        self.blocks = dict(zip((b.name for b in blocks), matrix.sizes, strict=True))
        if len(self.blocks) < len(blocks):
            raise OptionError(f"block names repeat: {', '.join(b.name for b in blocks)}.")
        self.features, self.n = matrix.features, classes * matrix.features
        self._offsets = torch.cat([self.bounds.new_zeros(1), self.bounds])
        self.domain: Domain = _domain(radius, classes, self.features)
        self._start = _checked_start(start, self.n, dtype)
        self._largest: Tensor | None = None

    def start(self, seeds: Sequence[int]) -> Tensor:
        """The same point for every seed: (n,) for one, (R, n) for several."""
        return self._start.clone() if len(seeds) == 1 else self._start.repeat(len(seeds), 1)

    # -- the four verbs -----------------------------------------------------------------------------------------

    def values(self, x: Tensor, batch: Batch, true: bool = False) -> Evaluation:
        """f and g on the batch; metric and surrogate are the same here."""
        return self._evaluation(self._scores(x, batch), batch)

    def gradient(
        self, x: Tensor, batch: Batch, weights: Weights | Callable[[Evaluation], Weights]
    ) -> tuple[Evaluation | None, Tensor]:
        scores = self._scores(x, batch)
        evaluation = None
        if callable(weights):
            evaluation = self._evaluation(scores, batch)
            weights = weights(evaluation)
        w0, w = weights
        if w is None:
            gradient = self._pull(scores, batch, torch.as_tensor(w0, dtype=self.dtype).expand(*x.shape[:-1], 1), (0,))
        else:
            first = torch.as_tensor(w0, dtype=self.dtype).expand(*x.shape[:-1], 1)
            gradient = self._pull(scores, batch, torch.cat([first, w], dim=-1), range(1 + self.m))
        check_finite(gradient, lambda: self._explain(batch, "gradient"))
        return evaluation, gradient

    def jvp(self, x: Tensor, batch: Batch, dx: Tensor) -> Tensor:
        F: Any = 0.0
        for piece, s, ds in zip(batch.pieces, self._scores(x, batch), self._scores(dx, batch), strict=True):
            for loss, share, _ in piece.parts:
                along = loss.slope(s, piece.labels) * ds
                F = F + _weighted(along.sum(-1) if self.classes > 1 else along, share)
        return F

    def jacobian(self, x: Tensor, batch: Batch, which: Sequence[int] | None = None) -> tuple[Evaluation, Tensor]:
        """The evaluation, and the gradients (..., 1 + m, n), or the rows `which` of them."""
        scores = self._scores(x, batch)
        evaluation = self._evaluation(scores, batch)
        one = torch.ones(*x.shape[:-1], 1, dtype=self.dtype)
        places = range(1 + self.m) if which is None else which
        jacobian = torch.stack([self._pull(scores, batch, one, (i,)) for i in places], dim=-2)
        check_finite(jacobian, lambda: self._explain(batch, "gradient"))
        return evaluation, jacobian

    def evaluate(self, x: Tensor) -> Measured:
        """f and g on all rows, uncounted."""
        batch = self.full()
        F: Any = -self._offsets
        for piece in batch.pieces:
            F = F + self._sums(self._score(x, piece.rows), piece)
        check_finite(F, lambda: self._explain(batch, "objective or a constraint"))
        return Measured(F[..., 0], F[..., 1:], {})

    def scores(self, x: Tensor, block: str) -> Tensor:
        """(..., n_b), or (..., n_b, C) of several classes: the scores of a block's rows, uncounted."""
        at = list(self.blocks).index(block)
        first = int(self.strata.starts[at])
        return self._score(x, self.matrix.part(first, first + self.blocks[block]))

    def _score(self, x: Tensor, rows: Rows) -> Tensor:
        scores = rows.scores(x.reshape(*x.shape[:-1], self.classes, self.features))
        return scores if self.classes > 1 else scores.squeeze(-1)

    def _scores(self, x: Tensor, batch: Batch) -> list[Tensor]:
        return [self._score(x, piece.rows) for piece in batch.pieces]

    def _sums(self, scores: Tensor, piece: Piece) -> Tensor:
        """(..., 1 + m): what the rows of a piece add to F_0 .. F_m."""
        total: Any = 0.0
        for loss, share, _ in piece.parts:
            total = total + _weighted(loss.value(scores, piece.labels), share)
        return total

    def _evaluation(self, scores: list[Tensor], batch: Batch) -> Evaluation:
        F: Any = -self._offsets
        for piece, s in zip(batch.pieces, scores, strict=True):
            F = F + self._sums(s, piece)
        check_finite(F, lambda: self._explain(batch, "objective or a constraint"))
        return Evaluation(F[..., 0], F[..., 1:])

    def _pull(self, scores: list[Tensor], batch: Batch, weights: Tensor, functions: Sequence[int]) -> Tensor:
        """(..., n): the gradient of weights (..., len(functions)) times these functions."""
        one = functions[0] if len(functions) == 1 else None
        gradient: Any = None
        for piece, s in zip(batch.pieces, scores, strict=True):
            slopes: Any = None
            for loss, share, touched in piece.parts:
                if one is None:
                    of_rows = _combined(weights, share)
                elif one in touched:
                    of_rows = weights * share[..., one, :]
                else:
                    continue
                part = loss.slope(s, piece.labels) * (of_rows.unsqueeze(-1) if self.classes > 1 else of_rows)
                slopes = part if slopes is None else slopes + part
            if slopes is None:
                continue
            pulled = piece.rows.pull(slopes if self.classes > 1 else slopes.unsqueeze(-1)).flatten(-2)
            gradient = pulled if gradient is None else gradient.add_(pulled)
        return weights.new_zeros(*weights.shape[:-1], self.n) if gradient is None else gradient

    # -- bounds -------------------------------------------------------------------------------------------------

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
            length = x.view(*x.shape[:-1], self.classes, self.features).norm(dim=-1).amax(-1)
        if self._largest is None:
            norms = self.matrix.norms()
            parts = np.split(norms, np.cumsum(self.matrix.sizes)[:-1])
            self._largest = torch.as_tensor(np.array([part.max() for part in parts]), dtype=self.dtype)
        reach = length.unsqueeze(-1) * self._largest
        low: Any = 0.0
        high: Any = 0.0
        for loss, A in self.losses:
            ends = torch.stack(_extremes(loss, reach, self.classes))
            low, high = low + A * ends.amin(0).unsqueeze(-2), high + A * ends.amax(0).unsqueeze(-2)
        return Ranges(low, high)

    def _explain(self, batch: Batch, what: str) -> str:
        where = f"batch {batch.key[1]} of stream {batch.key[0]!r}"
        return f"the {what} of {self.name} is NaN or infinite in {where}; x has grown too large or is NaN: lower the step size."


def _weighted(losses: Tensor, share: Tensor) -> Tensor:
    """(..., 1 + m): what the losses (..., B) of rows add to the functions."""
    if share.shape[-1] == 1:
        losses = losses.sum(-1, keepdim=True)
    if share.dim() == 2:
        return losses @ share.T
    return (share @ losses.unsqueeze(-1)).squeeze(-1)


def _combined(weights: Tensor, share: Tensor) -> Tensor:
    """(..., B): weight of each row's loss in weights (..., 1 + m) times the functions."""
    if share.dim() == 2:
        return weights @ share
    return (weights.unsqueeze(-2) @ share).squeeze(-2)


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
