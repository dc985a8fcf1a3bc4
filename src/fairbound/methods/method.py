"""What a method is: a frozen dataclass of options with `init` and `step`, and the state that these hand on.

    @dataclass(frozen=True, kw_only=True)
    class Mine(Method[State]):
        step_size: float = 0.1
        name: ClassVar[str] = "mine"

        def init(self, problem, x, draws):
            return State(x=x, k=0, multipliers=no_multipliers(problem, x))

        def step(self, state, problem, draws):
            _, slope = problem.gradient(state.x, draws("mine", state.k), (1.0, None))
            state.x.copy_(problem.domain.project(state.x - self.step_size * slope))
            return state.next()

A method of your own needs no entry anywhere: pass `Mine()` to `solve`, or name its class as "package.module:Mine".
A method that runs another holds it in a field `inner`, and that method's state in a field of its own state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

from torch import Tensor

from fairbound.base.checks import check_kinds
from fairbound.base.errors import OptionError
from fairbound.base.names import plain_repr
from fairbound.problems.domain import Space
from fairbound.problems.problem import Draws, Problem

S = TypeVar("S", bound="State")


@dataclass(frozen=True, kw_only=True)
class State:
    """Where a run stands: tensors, plain numbers, torch optimisers, and states of inner methods. It is the checkpoint.

    x: (..., n) the latest iterate, moved in place. k: steps done. multipliers: (..., m) of the constraints g; zero
    where the method has none. outer: (...,) int64, the outer iterates so far, for a method that returns these; None for
    others.
    halted: (...,) bool, whether the method has ended the run by itself; False for one that never does.
    """

    x: Tensor
    k: int
    multipliers: Tensor
    outer: Tensor | None = None
    halted: Tensor | bool = False

    @property
    def point(self) -> Tensor:
        """(..., n) what the method would return now: x, unless it returns something else (an average,
        an outer iterate)."""
        return self.x

    def next(self: S, **changes: Any) -> S:
        """The state after one more step: k + 1, and `changes` of other fields. Nothing is checked,
        since it runs every step."""
        after = object.__new__(type(self))
        after.__dict__.update(self.__dict__, k=self.k + 1, **changes)
        return after

    @property
    def shown(self) -> dict[str, Tensor]:
        """Numbers (...,) that a record of the run is to hold besides, by name."""
        return {}


def has_step_size(method: Method[Any] | None) -> bool:
    """Whether a smaller or larger step size can be asked for: not of a method that takes all rows at each step and finds
    its steps by itself. Of None, a method that is not known, it may be."""
    return not getattr(method, "all_rows", False) or hasattr(method, "step_size")


def no_multipliers(problem: Problem, x: Tensor) -> Tensor:
    """(..., m) zeros, for x (..., n)."""
    return x.new_zeros(*x.shape[:-1], problem.m)


def _checking(own: Callable[..., None] | None) -> Callable[..., None]:
    """A `__post_init__` that checks the kinds of the options, and then does what `own` does.
    more: what a dataclass with an InitVar hands on."""

    def __post_init__(self: Any, *more: Any) -> None:
        check_kinds(self)
        if own is not None:
            own(self, *more)

    return __post_init__


@runtime_checkable
class Method(Protocol[S]):
    """A published algorithm with its options, on states of class S. Subclass it as a frozen dataclass. Its options are
    checked at construction for the kinds that their annotations say (`check_kinds`), before a `__post_init__` of your own
    that checks ranges.

    name: a short word. presets: name -> options, as in "sfls:inventory". needs: what it takes for granted of a problem,
    of the words in NEEDS; `solve` refuses a problem that lacks one before it trains.

    What a method may say besides, in class variables: `record_every`, the steps between records at first, where `solve`
    is not told (50 without it); `searches_at_end` = True, that points near its late iterates are to be tried where none
    of them met the bounds; `partial` = True, that it works on evaluations of some constraints (`Evaluation.subset`), by
    `Evaluation.of` and `put`; `margin_is_share` = True, that its option `margin` is the share of each bound to stay below
    it by; `takes_inner_maxima` = True, that it steps by the dual set alone, and so takes problems with inner
    maximisations (`Problem.lifted`); `all_rows` = True, that its steps take all rows, whatever sampling is asked for,
    and `takes_bounds` = False, that it minimises f alone: `solve` says so where it shows progress; `penalises_groups` =
    True, that it needs groups, with bounds or without. What a method does not say of the last three, the one that it
    holds may (`declared`). None of them stands here, so that a class that has the rest is a method without being made
    from this one.
    """

    name: ClassVar[str]
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    needs: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        own = cls.__dict__.get("__post_init__")
        if own is not None or not hasattr(cls, "__post_init__"):
            cls.__post_init__ = _checking(own)  # type: ignore[attr-defined]

    def init(self, problem: Problem, x: Tensor, draws: Draws) -> S:
        """The first state, at x (n,), or (R, n) for a stack of R runs; x is taken over and moved in place."""
        ...

    def step(self, state: S, problem: Problem, draws: Draws) -> S:
        """The next state. Batches come from `draws`; reductions are over the last axis;
        nothing is kept outside the state."""
        ...


NEEDS: dict[str, tuple[Callable[[Problem], bool], str, str]] = {
    "convex": (
        lambda problem: problem.convex,
        "a convex problem, and this one does not promise to be (`convex` is False)",
        "Take another method, or state the problem so that f and every g_i are convex.",
    ),
    "unbiased": (
        lambda problem: problem.unbiased,
        "batches whose mean is that of all rows, and this problem's are biased (`unbiased` is False)",
        "Take another method, or a bound that is a mean over rows.",
    ),
    "space": (
        lambda problem: isinstance(problem.domain, Space),
        "all of R^n, but the problem's domain is a set: {domain}",
        "State the set as constraints, or take another method.",
    ),
    "differences": (
        lambda problem: problem.plus is not None and problem.minus is not None,
        "a problem that is known as a difference of convex functions, and this one has no `plus` and `minus`",
        "Take another method, or a surrogate that offers the split.",
    ),
}
"""What a method may need: a test of the problem, what it lacks where the test fails, and what to do."""


def check_needs(method: Method[Any], problem: Problem) -> None:
    """Raises: OptionError that names what `problem` lacks of what `method` needs."""
    if problem.partial and not getattr(method, "partial", False):
        raise OptionError(
            f"{method.name} needs all constraints at every step, and this problem's batches speak of some of its {problem.m:,} only. "
            "Take one that works on some, such as alm, ynw or switching_subgradient, or full_batch_alm, which takes all rows."
        )
    if problem.lifted and not getattr(method, "takes_inner_maxima", False):
        raise OptionError(
            f"the problem has {problem.lifted} inner maximisations, which {method.name} would take for constraints. Take a "
            "level-set method ('sfls', 'smd'), or the problem without the min-max form."
        )
    for need in sorted(method.needs):
        if need not in NEEDS:
            raise OptionError(f"{method.name} needs {need!r}, which is not one of {', '.join(NEEDS)}.")
        has, lack, move = NEEDS[need]
        if not has(problem):
            raise OptionError(f"{method.name} needs {lack.format(domain=type(problem.domain).__name__)}. {move}")


def check_inner(method: Any) -> None:
    """Raises: OptionError where what a method holds as its `inner` is no method."""
    if isinstance(method.inner, type) or not isinstance(method.inner, Method):
        raise OptionError(
            f"inner must be a method, such as fb.ALM(step_size=0.05), got {plain_repr(method.inner)}. By name, or as a table "
            f"{{'name': 'alm', 'step_size': 0.05}}, it is given to fairbound.methods.algorithm({method.name!r}, inner=...)."
        )


def declared(method: Any, word: str, otherwise: bool) -> bool:
    """What a method says of itself under this word, else what the method in its field `inner` says, else `otherwise`."""
    if not hasattr(method, word) and hasattr(method, "inner"):
        return declared(method.inner, word, otherwise)
    return getattr(method, word, otherwise)


def described(method: Any) -> str:
    """A method and its options as text that is the same in every process: a function by its name, not its address."""
    parts = []
    for f in fields(method):
        value = getattr(method, f.name)
        if is_dataclass(value) and not isinstance(value, type):
            text = described(value)
        elif callable(value) and hasattr(value, "__qualname__"):
            text = f"{value.__module__}.{value.__qualname__}"
        else:
            text = repr(value)
        parts.append(f"{f.name}={text}")
    return f"{type(method).__name__}({', '.join(parts)})"
