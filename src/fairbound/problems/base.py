"""The base class of problems: every member of the Problem protocol that has a sensible default."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

import torch
from torch import Tensor

from fairbound.problems.domain import Domain, Space
from fairbound.problems.dual_sets import DualSet, DualSimplex
from fairbound.problems.problem import Evaluation, Measured, Problem, Ranges, Weights
from fairbound.rows.strata import Strata

DATA = ("n", "m", "rows", "domain", "dual_set", "dual_scale", "bounds", "names", "strata", "blocks")
"""What a problem says of its size, sets and rows."""

FACTS = (*DATA, "lifted", "convex", "unbiased", "partial", "plus", "minus")
"""All that a problem says of itself, beside its verbs."""


class Numbered(Sequence[str]):
    """The names g1, ..., g<size>, made when asked for: a million cost nothing."""

    def __init__(self, size: int):
        self.size = size

    def __len__(self) -> int:
        return self.size

    @overload
    def __getitem__(self, i: int) -> str: ...
    @overload
    def __getitem__(self, i: slice) -> list[str]: ...
    def __getitem__(self, i: int | slice) -> str | list[str]:
        if isinstance(i, slice):
            return [self[j] for j in range(*i.indices(self.size))]
        if not -self.size <= i < self.size:
            raise IndexError(i)
        return f"g{i % self.size + 1}"


class BaseProblem(ABC):
    """A problem that says only what is its own: `n` and `m`, `start`, `sample`, `values`, `gradient` and `evaluate`.

    The defaults: one row, all of R^n, no stated bounds, no scaling of dual steps, constraints called g1, g2, ...,
    functions not known to be convex, unbiased batches, the simplex for multipliers. The Jacobian comes from one
    gradient a function, and the directional derivatives from the Jacobian: override both where the problem can do
    better.
    """

    n: int
    m: int
    rows: int = 1
    domain: Domain = Space()
    dual_set: DualSet = DualSimplex()
    lifted: int = 0
    dual_scale: Tensor | float = 1.0
    bounds: Tensor | float = 0.0
    convex: bool = False
    unbiased: bool = True
    partial: bool = False
    strata: Strata | None = None
    blocks: Mapping[str, int] = {}

    plus: Problem | None = None
    minus: Problem | None = None

    @property
    def names(self) -> Sequence[str]:
        """m names, one for each constraint."""
        return self.__dict__.get("_names") or Numbered(self.m)

    @names.setter
    def names(self, names: Sequence[str]) -> None:
        self.__dict__["_names"] = names

    def _say_as(self, problem: Problem, facts: Sequence[str]) -> None:
        """Say of itself what another problem says. facts: `DATA` or `FACTS`."""
        for name in facts:
            setattr(self, name, getattr(problem, name))

    @abstractmethod
    def start(self, seeds: Sequence[int]) -> Tensor:
        """x0: (n,) for one seed, (R, n) for several."""

    @abstractmethod
    def sample(self, seeds: Sequence[int], name: str, k: int, size: int, kind: str) -> Any:
        """The k-th batch of the stream `name`, a pure function of the arguments; it has `size`,
        its rows for each run."""

    @abstractmethod
    def values(self, x: Tensor, batch: Any, true: bool = False) -> Evaluation:
        """f (...,) and g (..., m) on the batch at x (..., n); with `true`,
        of the metric where training has a surrogate."""

    @abstractmethod
    def gradient(
        self, x: Tensor, batch: Any, weights: Weights | Callable[[Evaluation], Weights]
    ) -> tuple[Evaluation | None, Tensor]:
        """The evaluation where `weights` is a function of it (else None), and the gradient (..., n) of w0 f + w . g."""

    @abstractmethod
    def evaluate(self, x: Tensor) -> Measured:
        """The true objective (...,) and the true constraints (..., m) on all rows at x (..., n)."""

    def stated_values(self, measured: Measured) -> list[Tensor]:
        """(...,) the measured value of every stated bound, in the units in which it was stated, where `evaluate` says
        them as "stated" (..., bounds); they do not depend on the bounds."""
        stated = measured.extra.get("stated")
        return [] if stated is None else list(stated.unbind(-1))

    def jvp(self, x: Tensor, batch: Any, dx: Tensor) -> Tensor:
        """(..., 1 + m): the products of all gradients with dx (..., n)."""
        return (self.jacobian(x, batch)[1] * dx.unsqueeze(-2)).sum(-1)

    def jacobian(self, x: Tensor, batch: Any, which: Sequence[int] | None = None) -> tuple[Evaluation, Tensor]:
        """The evaluation, and the gradients (..., 1 + m, n), or the rows `which` of them,
        by a call of `gradient` each."""
        evaluation = self.values(x, batch)
        rows = []
        for i in range(1 + self.m) if which is None else which:
            w = torch.zeros_like(evaluation.g)
            if i:
                w[..., i - 1] = 1.0
            w0 = x.new_full((*x.shape[:-1], 1), float(i == 0)) if x.dim() > 1 else float(i == 0)
            rows.append(self.gradient(x, batch, (w0, w if i else None))[1])
        return evaluation, torch.stack(rows, -2)

    def ranges(self, x: Tensor | None = None) -> Ranges | None:
        """None: nothing is known of how far single rows can lie apart."""
        return None

    def sharpened(self, factor: float) -> Problem:
        """Itself: nothing is smoothed."""
        return self

    def curvature(self) -> Tensor | None:
        """None: it is not known."""
        return None

    def nearer(self, x: Tensor) -> Tensor | None:
        """None: no better way is known than trying."""
        return None

    def of_run(self, r: int) -> Problem:
        """Itself: all runs of a stack have the same problem."""
        return self
