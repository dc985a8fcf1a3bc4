"""The Problem protocol, where losses and methods meet: min f(x) subject to g_i(x) <= 0, seen through four verbs.

    values(x, batch)              f and g on a batch
    gradient(x, batch, weights)   the gradient of w0 f + sum_i w_i g_i in one forward and one backward pass
    jvp(x, batch, dx)             directional derivatives of (f, g_1, ..., g_m)
    jacobian(x, batch)            their gradients, sharing one forward pass

x is a flat tensor (n,), or (R, n) for a stack of R runs; every reduction is over the last axis. Feasible means g <= 0.
A problem of your own is a subclass of `fairbound.problems.base.BaseProblem`, which has defaults for most members.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from fairbound.base.errors import NonFiniteError
from fairbound.problems.domain import Domain
from fairbound.problems.dual_sets import DualSet
from fairbound.rows.sampling import check_kind
from fairbound.rows.strata import Strata


class Evaluation(NamedTuple):
    """f: (...,) objective; g: (..., m) constraints, feasible means g <= 0; seen: (..., m) False where the batch lacks a
    group of the constraint, whose g is then 0 and carries no information; None where all were seen.

    subset: None, or of a `partial` problem (k,) int64, the different numbers of the constraints that the batch speaks
    of: g and seen are then (k,), in this order.
    """

    f: Tensor
    g: Tensor
    seen: Tensor | None = None
    subset: Tensor | None = None

    def of(self, numbers: Any) -> Any:
        """Out of `numbers` (..., m) of all constraints, those of the constraints in g; a single number stays."""
        if self.subset is None or not isinstance(numbers, Tensor) or not numbers.dim():
            return numbers
        return numbers[self.subset]

    def put(self, numbers: Tensor, new: Tensor) -> Tensor:
        """`numbers` (..., m) with `new`, shaped like g, in their places: `new` itself where g speaks of all
        constraints, else `numbers`, changed in place."""
        return new if self.subset is None else numbers.index_copy_(0, self.subset, new)


def largest(g: Tensor) -> Tensor:
    """(...,) the largest of the constraints (..., m); -inf where there are none."""
    return g.amax(-1) if g.shape[-1] else g.new_full(g.shape[:-1], -torch.inf)


class Ranges(NamedTuple):
    """low, high: (..., 1 + m, K), between which one row of each of K blocks puts its part of f and g_i, bounds not
    subtracted, so that their sums over the blocks bound what a balanced batch gives."""

    low: Tensor
    high: Tensor


Weights = tuple[float | Tensor, Tensor | None]
"""(w0, w): weight () or (R, 1) of the objective and (..., m) of the constraints; None leaves the constraints out. What
a function of an evaluation gives is shaped like its g."""


@runtime_checkable
class Problem(Protocol):
    """What a method needs. `sample` is a pure function of its arguments: the same call gives the same rows.

    n parameters, m constraints called `names` (m of them; a lazy sequence where there are very many); rows: size of the
    data (1 where there are none), for epochs. domain: where x may lie; dual_set: where the multipliers (1, y) may,
    up to scale, for saddle-point methods. lifted: the last so many entries of g are no constraints: they are what
    inner maximisations of the dual set multiply (`LiftedSimplex`), and `evaluate` leaves them out; 0 for most problems.
    dual_scale: (m,) or a number: what a dual step of each constraint is to be multiplied by so that steep and
    flat constraints move alike; 1 for the group mean of a sigmoid, whose slope is 1/4. bounds: (m,), (R, m) or a
    number: the stated bounds inside g, in the metric's units, of which a method may keep a share as margin; 0 where
    there is none.
    convex: a promise that f and every g_i are convex in x. unbiased: whether f, g and their gradients on a random batch
    have those of all rows as their mean.
    partial: whether evaluations, and rows of jvp and jacobian, may speak of some constraints only
    (`Evaluation.subset`), as is fit where there are very many; runs are then not stacked. `evaluate` and batches of
    kind "full" speak of all of them.
    strata: the groups of rows of which a balanced batch takes equally many, None where there are none; blocks:
    name -> rows of the blocks over which means are taken, empty where there are none.
    plus, minus: two problems with the same n, m, names and batches whose functions have these as their difference, each
    convex (F_i = plus's F_i - minus's F_i for f and every g_i); None where no such split is known.
    """

    n: int
    m: int
    rows: int
    domain: Domain

    @property
    def names(self) -> Sequence[str]: ...
    @property
    def dual_set(self) -> DualSet: ...
    @property
    def lifted(self) -> int: ...
    @property
    def dual_scale(self) -> Tensor | float: ...
    @property
    def bounds(self) -> Tensor | float: ...
    @property
    def convex(self) -> bool: ...
    @property
    def unbiased(self) -> bool: ...
    @property
    def partial(self) -> bool: ...
    @property
    def strata(self) -> Strata | None: ...
    @property
    def blocks(self) -> Mapping[str, int]: ...
    @property
    def plus(self) -> Problem | None: ...
    @property
    def minus(self) -> Problem | None: ...

    def start(self, seeds: Sequence[int]) -> Tensor:
        """x0: (n,) for one seed, (R, n) for several."""
        ...

    def sample(self, seeds: Sequence[int], name: str, k: int, size: int, kind: str) -> Any:
        """The k-th batch of the stream `name`: `size` rows, independent of other names and k. The batch says in its own
        attribute `size`, an int, how many rows of each run it holds."""
        ...

    def values(self, x: Tensor, batch: Any, true: bool = False) -> Evaluation:
        """f and g on the batch at x (..., n); with `true`, g of the metric itself where training uses a surrogate."""
        ...

    def gradient(
        self, x: Tensor, batch: Any, weights: Weights | Callable[[Evaluation], Weights]
    ) -> tuple[Evaluation | None, Tensor]:
        """The evaluation where `weights` is a function of it (else None), and the gradient (..., n) of w0 f + w . g."""
        ...

    def jvp(self, x: Tensor, batch: Any, dx: Tensor) -> Tensor:
        """(..., 1 + m): derivatives of f, g_1, ..., g_m along dx (..., n); 0 for a constraint that the batch lacks."""
        ...

    def jacobian(self, x: Tensor, batch: Any, which: Sequence[int] | None = None) -> tuple[Evaluation, Tensor]:
        """The evaluation, and (..., 1 + m, n): gradients of f, g_1, ..., g_m.

        which: places among (f, g_1, ..., g_m), 0 for f: those rows alone, (..., len(which), n), in this order.
        """
        ...

    def evaluate(self, x: Tensor) -> Measured:
        """The true objective (...,) and the true constraints (..., m) on all rows at x (..., n);
        not counted as an oracle call."""
        ...

    def ranges(self, x: Tensor | None = None) -> Ranges | None:
        """Between what values one row can lie at x (..., n), or at every x of the domain;
        None where it is not known."""
        ...

    def sharpened(self, factor: float) -> Problem:
        """This problem with surrogates `factor` times as steep where the metric jumps, so nearer to it and harder to
        minimise; itself where nothing is smoothed. Batches are shared."""
        ...

    def curvature(self) -> Tensor | None:
        """(n, n), symmetric: what the second derivatives of f look like up to a factor, at any x;
        None where it is not known."""
        ...

    def nearer(self, x: Tensor) -> Tensor | None:
        """A point (n,) beside x (n,) that meets the true bounds or misses them by less, or where x meets them has a
        lower objective; None where the problem knows no way there."""
        ...

    def of_run(self, r: int) -> Problem:
        """The problem of run r of a stack: this one, or where every run has its own bounds (R,
        m) the one with bounds[r]."""
        ...


@dataclass(frozen=True)
class Measured:
    """f: (...,) objective; g: (..., m) true constraint values minus bounds; extra: what else was measured, by name."""

    f: Tensor
    g: Tensor
    extra: dict[str, Any]

    @property
    def violation(self) -> Tensor:
        """(...,) largest max(g, 0); 0 without constraints."""
        if self.g.shape[-1] == 0:
            return torch.zeros_like(self.f)
        return self.g.clamp_min(0).amax(-1)


class Draws:
    """A run's source of batches: `draws("zeta", k)` is a pure function of (seeds, name, k), so nothing random is state.

    seeds: one for a run (n,), R for a stack (R, n). sampling: "balanced", "uniform", "shuffled" or "full". first: the
    number of the batch that is asked for as the 0-th, for a method that begins another anew.
    """

    def __init__(
        self, problem: Problem, seeds: Sequence[int], batch_size: int, sampling: str = "balanced", first: int = 0
    ):
        check_kind(sampling)
        self.problem, self.seeds, self.batch_size, self.sampling = problem, tuple(seeds), batch_size, sampling
        self.first = first

    def since(self, first: int) -> Draws:
        """The same batches, numbered from the `first` on."""
        return Draws(self.problem, self.seeds, self.batch_size, self.sampling, self.first + first)

    def __call__(self, name: str, k: int, size: int | None = None, sampling: str | None = None) -> Any:
        """The k-th batch of the stream `name`; size and sampling: the run's where they are not given."""
        return self.problem.sample(self.seeds, name, self.first + k, size or self.batch_size, sampling or self.sampling)


def check_finite(value: Tensor, explain: Callable[[], str]) -> None:
    """Raises NonFiniteError with `explain()` where value holds NaN or an infinity."""
    total = float(value.sum())
    if total - total != 0.0:
        raise NonFiniteError(explain())
