"""Wrappers: a Wrapper is a Problem that delegates to the problem inside it and changes one thing.

    Counted(problem)                 counts oracle calls, rows, and constraints that batches lacked: the only place that counts
    Rebounded(problem, bounds)       other bounds, (m,) or (R, m)
    DualRows(problem, other)         the batches of the stream "dual" from another problem
    Surrogates(problem)              judged by what training differentiates, in place of the stated metric
    Watched(problem, watch)          what `watch` says at x, added whenever the problem is measured
    Penalised, Proximal              a term added to f (penalised.py)
    Linearised                       differences of convex functions made convex at a point (differences.py)

A wrapper passes attributes it does not know on to the problem inside, and wrappers can be nested. `evaluate` measures
the problem that was stated: a penalty or a proximal term changes how one trains, not what is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fairbound.base.errors import OptionError
from fairbound.base.records import Counts
from fairbound.problems.base import FACTS, BaseProblem
from fairbound.problems.problem import Evaluation, Measured, Problem, Ranges, Weights
from fairbound.problems.stated import check_slopes, evaluation_of, pair_of, rows_of


class Wrapper(BaseProblem):
    """A problem that behaves as another one, `inner`, except for what a subclass changes."""

    def __init__(self, inner: Problem):
        self.inner = inner
        self._say_as(inner, FACTS)

    def __getattr__(self, name: str) -> Any:
        if name == "inner":  # not there yet while an object is being copied
            raise AttributeError(name)
        return getattr(self.inner, name)

    def start(self, seeds: Sequence[int]) -> Tensor:
        """x0: (n,) for one seed, (R, n) for several."""
        return self.inner.start(seeds)

    def sample(self, seeds: Sequence[int], name: str, k: int, size: int, kind: str) -> Any:
        """The inner problem's batch."""
        return self.inner.sample(seeds, name, k, size, kind)

    def values(self, x: Tensor, batch: Any, true: bool = False) -> Evaluation:
        """f (...,) and g (..., m) on the batch at x (..., n)."""
        return self.inner.values(x, batch, true)

    def gradient(
        self, x: Tensor, batch: Any, weights: Weights | Callable[[Evaluation], Weights]
    ) -> tuple[Evaluation | None, Tensor]:
        """The evaluation where `weights` is a function of it (else None), and the gradient (..., n) of w0 f + w . g."""
        return self.inner.gradient(x, batch, weights)

    def jvp(self, x: Tensor, batch: Any, dx: Tensor) -> Tensor:
        """(..., 1 + m): derivatives of f, g_1, ..., g_m along dx (..., n)."""
        return self.inner.jvp(x, batch, dx)

    def jacobian(self, x: Tensor, batch: Any, which: Sequence[int] | None = None) -> tuple[Evaluation, Tensor]:
        """The evaluation, and the gradients (..., 1 + m, n), or the rows `which` of them."""
        return self.inner.jacobian(x, batch, which)

    def evaluate(self, x: Tensor) -> Measured:
        """The inner problem's true objective (...,) and constraints (..., m) at x (..., n)."""
        return self.inner.evaluate(x)

    def ranges(self, x: Tensor | None = None) -> Ranges | None:
        """The inner problem's: between what values one row can lie, for f (...,) and each g (..., m)."""
        return self.inner.ranges(x)

    def sharpened(self, factor: float) -> Problem:
        """The wrapper around the inner problem with steeper surrogates."""
        return self.around(self.inner.sharpened(factor))

    def curvature(self) -> Tensor | None:
        """(n, n) the inner problem's, or None."""
        return self.inner.curvature()

    def nearer(self, x: Tensor) -> Tensor | None:
        """The inner problem's: a point (n,) that misses its true bounds by less, or None."""
        return self.inner.nearer(x)

    def around(self, inner: Problem) -> Problem:
        """This wrapper around another problem of the same shape; itself where it is the one inside."""
        if inner is self.inner:
            return self
        made = object.__new__(type(self))
        made.__dict__ |= self.__dict__
        Wrapper.__init__(made, inner)
        return made

    def of_run(self, r: int) -> Problem:
        """The wrapper around the inner problem of run r."""
        return self.around(self.inner.of_run(r))

    def with_bounds(self, bounds: Any) -> Problem:
        """This problem with other bounds."""
        return Rebounded(self, bounds)


def innermost(problem: Problem) -> Problem:
    """The problem inside all wrappers."""
    while isinstance(problem, Wrapper):
        problem = problem.inner
    return problem


class Counted(Wrapper):
    """The problem with its oracle calls counted in `counts`, per run where runs are stacked; `evaluate` is free.

    Every verb adds 1 to its own entry and the batch's `size` to `samples`; `unseen` is how many constraint values were
    asked of a batch that lacked one of their groups. Raises: OptionError, from a verb, where a batch does not say its
    size, or the problem gives something of another kind or shape than the protocol says.
    """

    def __init__(self, inner: Problem, counts: Counts | None = None):
        super().__init__(inner)
        self.counts = Counts() if counts is None else counts

    def values(self, x: Tensor, batch: Any, true: bool = False) -> Evaluation:
        self.counts.values += 1
        self.counts.samples += rows_of(batch)
        return self._seen("values", x, self.inner.values(x, batch, true))

    def gradient(
        self, x: Tensor, batch: Any, weights: Weights | Callable[[Evaluation], Weights]
    ) -> tuple[Evaluation | None, Tensor]:
        self.counts.gradients += 1
        self.counts.samples += rows_of(batch)
        evaluation, gradient = pair_of("gradient", self.inner.gradient(x, batch, weights))
        if evaluation is not None or callable(weights):
            self._seen("gradient", x, evaluation)
        check_slopes("gradient", x, gradient, self.inner.n)
        return evaluation, gradient

    def jvp(self, x: Tensor, batch: Any, dx: Tensor) -> Tensor:
        self.counts.jvps += 1
        self.counts.samples += rows_of(batch)
        along = self.inner.jvp(x, batch, dx)
        if not self.inner.partial:
            check_slopes("jvp", x, along, 1 + self.inner.m)
        return along

    def jacobian(self, x: Tensor, batch: Any, which: Sequence[int] | None = None) -> tuple[Evaluation, Tensor]:
        self.counts.jacobians += 1
        self.counts.samples += rows_of(batch)
        evaluation, jacobian = pair_of("jacobian", self.inner.jacobian(x, batch, which))
        self._seen("jacobian", x, evaluation)
        check_slopes("jacobian", x, jacobian, 1 + evaluation.g.shape[-1] if which is None else len(which), self.inner.n)
        return evaluation, jacobian

    def nearer(self, x: Tensor) -> Tensor | None:
        """The inner problem's: a point (n,) that misses its true bounds by less, or None."""
        found = self.inner.nearer(x)
        if found is not None:
            check_slopes("nearer", x, found, self.inner.n)
        return found

    def _seen(self, verb: str, x: Tensor, found: Any) -> Evaluation:
        evaluation = evaluation_of(self.inner, verb, x, found)
        if evaluation.seen is not None:
            self.counts.unseen += int((~evaluation.seen).sum())
        return evaluation


def counted_with(problem: Problem, change: Callable[[Problem], Problem]) -> Problem:
    """`change(problem)`, whose oracle calls are counted together with those of `problem`."""
    if isinstance(problem, Counted):
        return Counted(change(problem.inner), problem.counts)
    return change(problem)


class Rebounded(Wrapper):
    """The problem with other bounds: g + (its bounds - these). Data are shared, not copied.

    bounds: (m,), or (R, m) for R stacked runs with a bound each. Raises: OptionError for another shape.
    """

    def __init__(self, inner: Problem, bounds: Any):
        while isinstance(inner, Rebounded):
            inner = inner.inner
        super().__init__(inner)
        stated = inner.bounds
        like = stated if isinstance(stated, Tensor) else inner.start((0,))
        made = torch.as_tensor(bounds, dtype=like.dtype, device=like.device)
        if made.dim() not in (1, 2) or made.shape[-1] != inner.m:
            raise OptionError(
                f"bounds must be ({inner.m},) or (runs, {inner.m}), one per constraint "
                f"({', '.join(inner.names[:3])}, ...), got {tuple(made.shape)}."
            )
        self.bounds = self.own = made
        self.shift = stated - made
        if inner.plus is not None:  # which has the bounds
            self.plus = Rebounded(inner.plus, made)

    def values(self, x: Tensor, batch: Any, true: bool = False) -> Evaluation:
        return self._moved(self.inner.values(x, batch, true))

    def gradient(
        self, x: Tensor, batch: Any, weights: Weights | Callable[[Evaluation], Weights]
    ) -> tuple[Evaluation | None, Tensor]:
        if not callable(weights):
            return self.inner.gradient(x, batch, weights)
        evaluation, gradient = self.inner.gradient(x, batch, lambda e: weights(self._moved(e)))
        assert evaluation is not None
        return self._moved(evaluation), gradient

    def jacobian(self, x: Tensor, batch: Any, which: Sequence[int] | None = None) -> tuple[Evaluation, Tensor]:
        evaluation, jacobian = self.inner.jacobian(x, batch, which)
        return self._moved(evaluation), jacobian

    def evaluate(self, x: Tensor) -> Measured:
        """The inner problem's at x (..., n), with g (..., m) against these bounds."""
        measured = self.inner.evaluate(x)
        return replace(measured, g=measured.g + self.shift)

    def around(self, inner: Problem) -> Problem:
        return self if inner is self.inner else Rebounded(inner, self.own)

    def of_run(self, r: int) -> Problem:
        """With the bounds of run r alone."""
        inner = self.inner.of_run(r)
        if inner is self.inner and self.own.dim() == 1:
            return self
        return Rebounded(inner, self.own if self.own.dim() == 1 else self.own[r])

    def _moved(self, e: Evaluation) -> Evaluation:
        g = e.g + e.of(self.shift)
        return e._replace(g=g if e.seen is None else g * e.seen)


class DualBatch(NamedTuple):
    """A batch of another problem, on which that problem's verbs are to be called. size: its rows of each run."""

    of: Problem
    batch: Any
    size: int


def check_alike(inner: Problem, other: Problem, rows: str) -> None:
    """Raises: OptionError where the problem of other rows, called `rows`, has another n or m."""
    if (other.n, other.m) != (inner.n, inner.m):
        raise OptionError(
            f"the problem of the {rows} rows has n = {other.n} and m = {other.m}, this one n = {inner.n} and m = {inner.m}; "
            "state the same model and bounds for both."
        )


class DualRows(Wrapper):
    """The problem whose stream "dual" draws from the rows of another with the same n and m: x is trained on these rows,
    multipliers on others, so that a model that fits its own rows too well still feels the bounds.

    Source: Cotter, Gupta, Jiang, Srebro, Sridharan, Wang, Woodworth, You (2019), Training well-generalizing classifiers
        for fairness metrics and other data-dependent constraints.
    """

    def __init__(self, inner: Problem, other: Problem):
        super().__init__(inner)
        check_alike(inner, other, "dual")
        self.other = other

    def sample(self, seeds: Sequence[int], name: str, k: int, size: int, kind: str) -> Any:
        """The inner problem's batch; of the stream "dual" the other problem's."""
        if name != "dual":
            return self.inner.sample(seeds, name, k, size, kind)
        batch = self.other.sample(seeds, name, k, size, kind)
        return DualBatch(self.other, batch, rows_of(batch))

    def values(self, x: Tensor, batch: Any, true: bool = False) -> Evaluation:
        if isinstance(batch, DualBatch):
            return batch.of.values(x, batch.batch, true)
        return self.inner.values(x, batch, true)

    def gradient(
        self, x: Tensor, batch: Any, weights: Weights | Callable[[Evaluation], Weights]
    ) -> tuple[Evaluation | None, Tensor]:
        if isinstance(batch, DualBatch):
            return batch.of.gradient(x, batch.batch, weights)
        return self.inner.gradient(x, batch, weights)

    def jvp(self, x: Tensor, batch: Any, dx: Tensor) -> Tensor:
        if isinstance(batch, DualBatch):
            return batch.of.jvp(x, batch.batch, dx)
        return self.inner.jvp(x, batch, dx)

    def jacobian(self, x: Tensor, batch: Any, which: Sequence[int] | None = None) -> tuple[Evaluation, Tensor]:
        if isinstance(batch, DualBatch):
            return batch.of.jacobian(x, batch.batch, which)
        return self.inner.jacobian(x, batch, which)

    def of_run(self, r: int) -> Problem:
        """Both problems of run r."""
        inner, other = self.inner.of_run(r), self.other.of_run(r)
        return self if inner is self.inner and other is self.other else DualRows(inner, other)


class Surrogates(Wrapper):
    """The problem with its surrogates in place of the metric everywhere: what
    is trained is what is measured and met."""

    def values(self, x: Tensor, batch: Any, true: bool = False) -> Evaluation:
        return self.inner.values(x, batch)

    def evaluate(self, x: Tensor) -> Measured:
        """Objective (...,) and surrogates (..., m) on all rows at x (..., n)."""
        e = self.inner.values(x, self.inner.sample((0,), "full", 0, 1, "full"))
        return Measured(e.f, e.g, {})


class Watched(Wrapper):
    """The problem with further measurements: `evaluate` adds to `extra` what `watch` returns, as "watched".

    watch: x (..., n) and the inner problem's own measurement there -> name -> value. A method that moves the problem's
    bounds or adds to its objective does not change what is watched.
    """

    def __init__(self, inner: Problem, watch: Callable[[Tensor, Measured], Mapping[str, Any]]):
        super().__init__(inner)
        self.watch = watch

    def evaluate(self, x: Tensor) -> Measured:
        """The inner problem's at x (..., n), with what was watched among `extra`."""
        measured = self.inner.evaluate(x)
        return replace(measured, extra={**measured.extra, "watched": dict(self.watch(x, measured))})
