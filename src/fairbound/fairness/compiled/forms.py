"""What bounds may use besides means over cells: statistics of a batch, auxiliary variables, other functions of both.

    q = [cell means | mean loss | statistics | auxiliary variables | ratios]        (Plan)
    F = (f, g_1, ..., g_m)                                                          row 0 is the objective

Each of the two stages has its value and its vector-Jacobian product, and hands a memo from the one to the other.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, Self

from torch import Tensor

from fairbound.fairness.pointwise import Pointwise
from fairbound.problems.domain import Domain, Space


class Sharpened:
    """A frozen dataclass with a sharpness, or with a part that has one: `steep` names its field."""

    steep: ClassVar[str] = "sharpness"

    def sharpened(self, factor: float) -> Self:
        """`factor` times as steep, so nearer to the metric."""
        value = getattr(self, self.steep)
        made = value.sharpened(factor) if hasattr(value, "sharpened") else factor * value
        return replace(self, **{self.steep: made})  # type: ignore[type-var]


def steeper(part: Any, factor: float) -> Any:
    """`part` with surrogates `factor` times as steep; itself where it has no `sharpened`, and so no surrogate."""
    return part.sharpened(factor) if hasattr(part, "sharpened") else part


class Function(Protocol):
    """What a cell may average: a function of one row's scores and label, hashable and equal to its like, as a frozen
    dataclass is. A Pointwise is one itself.

    Optional method. `sharpened(factor)`: the same with a surrogate that is steeper where the metric jumps; without it
    training takes the function as it is.
    """

    def trained(self, loss: Pointwise) -> Pointwise:
        """The one that training differentiates. loss: the problem's."""
        ...

    def exact(self, loss: Pointwise) -> Pointwise:
        """The one that the stated metric averages."""
        ...


class Statistic(Protocol):
    """`size` numbers of a batch that are not means over cells. unbiased: whether those of a batch are.

    Optional methods. `sharpened(factor)`: the same with a surrogate that is steeper where the metric jumps.
    `in_parts()`, of a difference of two statistics that are convex in a linear model's parameters: one statistic that
    holds both, (..., 2 size). `basis(memo)`, all slopes at once: rows (R, B) in the scores (B,) and (R, aux) in the
    auxiliary variables, and (size, R), how much of each row a number takes. `nearer(problem, x)`, of the FairProblem of
    a linear model with this statistic alone: a point (n,) that misses the true bounds by less than x, if one is found.
    """

    @property
    def size(self) -> int: ...
    @property
    def unbiased(self) -> bool: ...

    def value(self, scores: Tensor, z: Tensor, batch: Any, true: bool) -> tuple[Tensor, Any]:
        """q (..., size) of scores (..., B) and auxiliary variables z (..., aux) on a Batch, and a memo for `vjp`.

        true: of the stated metric, where training uses a surrogate.
        """
        ...

    def vjp(self, dq: Tensor, memo: Any) -> tuple[Tensor, Tensor | None]:
        """dq (..., size) -> (ds like scores, dz like z or None): the gradient of (dq * q).sum(-1)."""
        ...


class Combination(Protocol):
    """`m` constraint values of the quantities. unbiased: only where it is linear."""

    m: int
    unbiased: bool

    def value(self, q: Tensor) -> tuple[Tensor, Any]:
        """g (..., m) of q (..., Q), bounds subtracted, and a memo for `vjp`."""
        ...

    def vjp(self, w: Tensor, memo: Any) -> Tensor:
        """w (..., m) -> (..., Q): the gradient of (w * g).sum(-1) in q."""
        ...


@dataclass(frozen=True)
class Auxiliary:
    """Variables that are trained beside the model's parameters. start: their first values, or one for all; domain:
    where they lie."""

    size: int
    start: float | tuple[float, ...] = 0.0
    domain: Domain = field(default_factory=Space)
