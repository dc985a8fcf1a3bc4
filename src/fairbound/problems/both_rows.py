"""A problem whose bounds are to hold on the rows of another problem too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fairbound.problems.base import BaseProblem
from fairbound.problems.problem import Evaluation, Problem, Ranges, Weights
from fairbound.problems.stated import rows_of
from fairbound.problems.wrappers import Wrapper, check_alike


class BothBatch(NamedTuple):
    """A batch of each problem. size: the rows of each run in both."""

    own: Any
    other: Any
    size: int


class BothRows(Wrapper):
    """Training under the same bounds on two sets of rows: the bounds of one problem and, after them, those of another.

    Both have the same n and m; there are 2 m constraints and one objective, f of the inner problem's rows alone.
    `evaluate` measures the inner problem: give `solve` the other one as validation rows, so that iterates are judged on
    both. evaluated: how many constraints it measures. Not for partial problems. Raises: OptionError where n or m differ.
    """

    def __init__(self, inner: Problem, other: Problem):
        super().__init__(inner)
        check_alike(inner, other, "other")
        self.other, self.m = other, 2 * inner.m
        self.evaluated = getattr(inner, "evaluated", inner.m - inner.lifted)
        self.names = (*inner.names, *(f"{name} (validation rows)" for name in other.names))
        like = inner.start((0,))[..., :0]
        self.bounds = _one_after_another(inner.bounds, other.bounds, inner.m, like)
        self.dual_scale = _one_after_another(inner.dual_scale, other.dual_scale, inner.m, like)
        self.convex, self.unbiased = inner.convex and other.convex, inner.unbiased and other.unbiased
        self.plus = self.minus = None

    def sample(self, seeds: Sequence[int], name: str, k: int, size: int, kind: str) -> BothBatch:
        """A batch of each problem."""
        own, other = (problem.sample(seeds, name, k, size, kind) for problem in (self.inner, self.other))
        return BothBatch(own, other, rows_of(own) + rows_of(other))

    def values(self, x: Tensor, batch: Any, true: bool = False) -> Evaluation:
        """f (...,) of the inner problem's rows and g (..., 2 m) of both at x (..., n)."""
        return _both(self.inner.values(x, batch.own, true), self.other.values(x, batch.other, true))

    def gradient(
        self, x: Tensor, batch: Any, weights: Weights | Callable[[Evaluation], Weights]
    ) -> tuple[Evaluation | None, Tensor]:
        """The evaluation where `weights` is a function of it (else None), and the gradient (..., n) of w0 f + w . g."""
        m, e = self.inner.m, None
        if callable(weights):
            there, of, made = self.other.values(x, batch.other), weights, []

            def own(here: Evaluation) -> Weights:
                made.append(of(_both(here, there)))
                w0, w = made[0]
                return w0, None if w is None else w[..., :m]

            here, slope = self.inner.gradient(x, batch.own, own)
            assert here is not None
            e, (w0, w) = _both(here, there), made[0]
        else:
            w0, w = weights
            _, slope = self.inner.gradient(x, batch.own, (w0, None if w is None else w[..., :m]))
        if w is not None and bool((w[..., m:] != 0).any()):
            slope = slope + self.other.gradient(x, batch.other, (0.0 * w0, w[..., m:]))[1]
        return e, slope

    def jvp(self, x: Tensor, batch: Any, dx: Tensor) -> Tensor:
        """(..., 1 + 2 m): derivatives of f and of both g along dx (..., n)."""
        own, other = self.inner.jvp(x, batch.own, dx), self.other.jvp(x, batch.other, dx)
        return torch.cat([own, other[..., 1:]], -1)

    def jacobian(self, x: Tensor, batch: Any, which: Sequence[int] | None = None) -> tuple[Evaluation, Tensor]:
        """The evaluation, and the gradients (..., 1 + 2 m, n), or the rows `which` of them,
        by a call of `gradient` each."""
        return BaseProblem.jacobian(self, x, batch, which)

    def ranges(self, x: Tensor | None = None) -> Ranges | None:
        """None: it is not known how far single rows of two problems lie apart."""
        return None

    def sharpened(self, factor: float) -> Problem:
        """Both problems with steeper surrogates."""
        return BothRows(self.inner.sharpened(factor), self.other.sharpened(factor))

    def around(self, inner: Problem) -> Problem:
        """The same bounds of the other rows after those of another problem."""
        return self if inner is self.inner else BothRows(inner, self.other)

    def of_run(self, r: int) -> Problem:
        """Both problems of run r."""
        inner, other = self.inner.of_run(r), self.other.of_run(r)
        return self if inner is self.inner and other is self.other else BothRows(inner, other)


def _one_after_another(first: Any, second: Any, m: int, like: Tensor) -> Tensor:
    """(..., 2 m) of two numbers, or of two tensors (..., m)."""
    parts = (torch.as_tensor(part, dtype=like.dtype, device=like.device) for part in (first, second))
    return torch.cat([part.expand(*part.shape[:-1], m) for part in parts], -1)


def _both(own: Evaluation, other: Evaluation) -> Evaluation:
    """f of the first, g of both."""
    seen = None
    if own.seen is not None or other.seen is not None:
        parts = (torch.ones_like(e.g, dtype=torch.bool) if e.seen is None else e.seen for e in (own, other))
        seen = torch.cat(list(parts), -1)
    return Evaluation(own.f, torch.cat([own.g, other.g], -1), seen)
