"""Methods that studies alone take: none at all, and several settings in turn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor

from fairbound.base.checks import positive
from fairbound.base.errors import NonFiniteError, OptionError
from fairbound.methods import algorithm
from fairbound.methods.method import Method, State, no_multipliers
from fairbound.problems.problem import Draws, Problem


@dataclass(frozen=True, kw_only=True)
class Unmoved(Method[State]):
    """Takes the point where it begins, for starts that are solutions already. That point counts as its outer
    iterate, so that `solve` looks for no other near it."""

    name: ClassVar[str] = "unmoved"

    def init(self, problem: Problem, x: Tensor, draws: Draws) -> State:
        """At x (..., n), and the run is over."""
        one = torch.ones(x.shape[:-1], dtype=torch.int64, device=x.device)
        return State(x=x, k=0, multipliers=no_multipliers(problem, x), outer=one, halted=True)

    def step(self, state: State, problem: Problem, draws: Draws) -> State:
        """The same state."""
        return state.next()


@dataclass(frozen=True, kw_only=True)
class TriedState(State):
    """inner: the state of the candidate under way, whose x is this x. start: (..., n) where each of them begins. begun:
    its first k.
    diverged: whether it has met a NaN or infinity, or its point has no finite size,
    so that it stays at the start until its turn is over."""

    inner: State
    start: Tensor
    begun: int
    diverged: bool = False

    @property
    def point(self) -> Tensor:
        """(..., n) the candidate's."""
        return self.inner.point


@dataclass(frozen=True, kw_only=True)
class Tried(Method[TriedState]):
    """Several settings in turn from one start, each for as many data passes; `solve` keeps the best iterate of all.

    candidates: tables {name = ..., options} of methods. passes: data passes of each. steps_per_epoch: steps of a pass.
    Source: Yao, Lin, Yang (2023), E.3, for tuning by validation rows over the iterates of all settings.
    """

    candidates: tuple[Mapping[str, Any], ...]
    passes: int = 10
    steps_per_epoch: int = 1

    name: ClassVar[str] = "tried"

    def __post_init__(self) -> None:
        positive(self, "passes", "steps_per_epoch")
        object.__setattr__(self, "candidates", tuple(dict(table) for table in self.candidates))
        if not self.candidates:
            raise OptionError("candidates must name at least one method.")
        _ = self.methods

    @cached_property
    def methods(self) -> tuple[Method[Any], ...]:
        """The candidates, made."""
        return tuple(algorithm(**dict(table)) for table in self.candidates)

    @property
    def needs(self) -> frozenset[str]:  # type: ignore[override]
        """What any of them needs."""
        return frozenset().union(*(method.needs for method in self.methods))

    @property
    def takes_inner_maxima(self) -> bool:
        """Whether all of them take problems with inner maximisations."""
        return all(getattr(method, "takes_inner_maxima", False) for method in self.methods)

    def init(self, problem: Problem, x: Tensor, draws: Draws) -> TriedState:
        """The first candidate at x (..., n)."""
        start = x.clone()
        inner = self.methods[0].init(problem, x, draws)
        return TriedState(x=x, k=0, multipliers=inner.multipliers, inner=inner, start=start, begun=0)

    def step(self, state: TriedState, problem: Problem, draws: Draws) -> TriedState:
        """A step of the candidate whose turn it is, unless it has diverged; the run ends after the last."""
        place, length = state.k // (self.passes * self.steps_per_epoch), self.passes * self.steps_per_epoch
        inner, begun, diverged = state.inner, state.begun, state.diverged
        if state.k and state.k % length == 0:
            state.x.copy_(state.start)
            inner, begun, diverged = self.methods[place].init(problem, state.x, draws), state.k, False
        if not diverged:
            try:
                inner = self.methods[place].step(inner, problem, draws.since(begun))
                diverged = not bool(state.x.square().sum().isfinite())
            except NonFiniteError:
                diverged = True
            if diverged:
                state.x.copy_(state.start)
                inner = self.methods[place].init(problem, state.x, draws)
        ended = state.k + 1 == length * len(self.methods)
        return state.next(multipliers=inner.multipliers, inner=inner, begun=begun, halted=ended, diverged=diverged)
