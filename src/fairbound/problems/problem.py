"""The only place where losses and methods meet: min f(x) subject to g_i(x) <= 0, seen through four verbs.

    values(x, batch)              f and g on a batch
    gradient(x, batch, weights)   the gradient of w0 f + sum_i w_i g_i in one forward and one backward pass
    jvp(x, batch, dx)             directional derivatives of (f, g_1, ..., g_m)
    jacobian(x, batch)            all their gradients, sharing one forward pass

x is a flat tensor (n,), or (R, n) for a stack of R runs; every reduction is over the last axis. Feasible means g <= 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from fairbound.base.errors import NonFiniteError
from fairbound.base.records import Counts
from fairbound.problems.domain import Domain


class Evaluation(NamedTuple):
    """f: (...,) objective; g: (..., m) constraints, feasible means g <= 0; seen: (..., m) False where the batch lacks a
    group of the constraint, whose g is then 0 and carries no information; None where all were seen."""

    f: Tensor
    g: Tensor
    seen: Tensor | None = None


Weights = tuple[float | Tensor, Tensor | None]
"""(w0, w): weight () or (R, 1) of the objective and (..., m) of the constraints; None leaves the constraints out."""


@runtime_checkable
class Problem(Protocol):
    """What a method needs. `sample` is a pure function of its arguments: the same call gives the same rows.

    n parameters, m constraints called `names`; rows: size of the data (1 where there are none), for epochs.
    dual_scale: (m,) or a number: what a dual step of each constraint is to be multiplied by so that constraints of different
    steepness move alike; 1 for the group mean of a sigmoid, whose slope is 1/4. bounds: (m,) or a number: the stated
    bounds inside g, in the metric's units, of which a method may keep a share as margin; 0 where there is none.

    Two more attributes are optional, for methods that certify that a point is feasible. convex: bool, a promise that f and
    every g_i are convex in x, without which feasible points are not mixed. ranges(x): low and high (..., 1 + m, K), between
    which one row of each of K blocks puts its part of f and g_i, bounds not subtracted, so that their sums over the blocks
    bound what a balanced batch gives; without it a certificate takes all rows.
    """

    n: int
    m: int
    rows: int
    domain: Domain
    counts: Counts

    @property
    def names(self) -> Sequence[str]: ...
    @property
    def dual_scale(self) -> Tensor | float: ...
    @property
    def bounds(self) -> Tensor | float: ...

    def start(self, seeds: Sequence[int]) -> Tensor:
        """x0: (n,) for one seed, (R, n) for several."""
        ...

    def sample(self, seeds: Sequence[int], name: str, k: int, size: int, kind: str) -> Any:
        """The k-th batch of the stream `name`: `size` rows, independent of other names and k."""
        ...

    def values(self, x: Tensor, batch: Any, true: bool = False) -> Evaluation:
        """f and g on the batch; with `true`, g of the metric itself where training uses a surrogate."""
        ...

    def gradient(
        self, x: Tensor, batch: Any, weights: Weights | Callable[[Evaluation], Weights]
    ) -> tuple[Evaluation | None, Tensor]:
        """The evaluation where `weights` is a function of it (else None), and the gradient (..., n)."""
        ...

    def jvp(self, x: Tensor, batch: Any, dx: Tensor) -> Tensor:
        """(..., 1 + m): derivatives of f, g_1, ..., g_m along dx."""
        ...

    def jacobian(self, x: Tensor, batch: Any) -> tuple[Evaluation, Tensor]:
        """The evaluation, and (..., 1 + m, n): gradients of f, g_1, ..., g_m."""
        ...

    def evaluate(self, x: Tensor) -> Measured:
        """The true objective and the true constraints on all rows; not counted as an oracle call."""
        ...


@dataclass(frozen=True)
class Measured:
    """f: (...,) objective; g: (..., m) true constraint values minus bounds; extra: further (...,) numbers by name."""

    f: Tensor
    g: Tensor
    extra: dict[str, Tensor]

    @property
    def violation(self) -> Tensor:
        """(...,) largest max(g, 0); 0 without constraints."""
        if self.g.shape[-1] == 0:
            return torch.zeros_like(self.f)
        return self.g.clamp_min(0).amax(-1)


class Draws:
    """A run's source of batches: `draws("zeta", k)` is a pure function of (seeds, name, k), so nothing random is state.

    seeds: one for a run (n,), R for a stack (R, n). sampling: "balanced", "uniform", "shuffled" or "full".
    """

    def __init__(self, problem: Problem, seeds: Sequence[int], batch_size: int, sampling: str = "balanced"):
        self.problem, self.seeds, self.batch_size, self.sampling = problem, tuple(seeds), batch_size, sampling

    def __call__(self, name: str, k: int, size: int | None = None, sampling: str | None = None) -> Any:
        return self.problem.sample(self.seeds, name, k, size or self.batch_size, sampling or self.sampling)


def check_finite(value: Tensor, explain: Callable[[], str]) -> None:
    """Raises NonFiniteError with `explain()` where value holds NaN or an infinity."""
    total = float(value.sum())
    if total - total != 0.0:
        raise NonFiniteError(explain())
