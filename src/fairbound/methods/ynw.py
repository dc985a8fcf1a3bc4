"""YNW: stochastic subgradient steps weighted by virtual queues, one for each constraint.

On a batch with values c = g(x) and subgradients s_0 of f, s_1, ..., s_m of g at x:

    x+ = Proj(x - (V s_0 + sum_k Q_k s_k) / (2 alpha))
    Q_k+ = max(0, Q_k + c_k + s_k . (x+ - x)),   Q = 0 at first

With `normalised` the move is divided by 1 + sum_k Q_k / V, so that it is along the mean of the subgradients, weighted
by V and the queues, and never longer than V / (2 alpha) times the longest of them: the queues of very many constraints
that are violated at once do not lengthen it.

After T steps with V = sqrt(T), alpha = T the mean of the iterates is within O(1 / sqrt(T)) of optimal and of feasible;
single iterates need not be feasible.

Source: Yu, Neely and Wei (2017), "Online convex optimization with stochastic constraints", Algorithm 1; Lin, Nadarajah,
    Soheili, Yang (2020), section 6.1, for V and alpha.
Departs: V and alpha stay as they are when a run goes on past T steps. Lin et al. do not say whether their figures show
    the iterates or their mean; `output` says which is returned, by default the latest iterate. `normalised` is not the
    source's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from fairbound.base.checks import check_choice, positive
from fairbound.methods.method import Method, State, no_multipliers
from fairbound.problems.problem import Draws, Problem

JACOBIAN_UP_TO = 16
"""Most constraints whose subgradients are formed, in one call; with more, s_k . (x+ - x) is a jvp on the same batch."""


@dataclass(frozen=True, kw_only=True)
class YNWState(State):
    """x: (..., n); multipliers: (..., m) the queues Q; mean: (..., n) of the iterates 0, ...,
    k where it is the output, else x."""

    mean: Tensor

    @property
    def point(self) -> Tensor:
        """(..., n) the latest iterate, or the mean of all of them."""
        return self.mean


@dataclass(frozen=True, kw_only=True)
class YNW(Method[YNWState]):
    """For convex problems on random batches: subgradient steps in which a bound weighs more the longer it is broken.

    Take it to compare with its papers; single iterates may break the bounds, and their mean nearly meets them.
    Formulas and source: help(fairbound.methods.ynw).

    horizon: T, the number of steps that V and alpha are made for.
    objective_weight: > 0, V; None for sqrt(T).
    proximal: > 0, alpha; None for T.
    normalised: whether moves are divided by 1 + sum_k Q_k / V, so that queues of very many constraints do not lengthen
        them.
    output: what is returned, the latest iterate ("last") or the mean of all of them ("average").
    """

    horizon: int = 100
    objective_weight: float | None = None
    proximal: float | None = None
    normalised: bool = False
    output: Literal["last", "average"] = "last"

    name: ClassVar[str] = "ynw"
    partial: ClassVar[bool] = True
    presets: ClassVar[dict[str, dict]] = {"paper": {}}

    def __post_init__(self) -> None:
        positive(self, "horizon", "objective_weight", "proximal")
        check_choice("output", self.output, ("last", "average"))

    @property
    def V(self) -> float:
        """The weight of the objective against the queues; by default the square root of the horizon."""
        return max(self.horizon, 0) ** 0.5 if self.objective_weight is None else self.objective_weight

    @property
    def alpha(self) -> float:
        """The weight of the proximal term; by default the horizon."""
        return float(self.horizon) if self.proximal is None else self.proximal

    def init(self, problem: Problem, x: Tensor, draws: Draws) -> YNWState:
        """At x (..., n), with empty queues."""
        mean = x.clone() if self.output == "average" else x
        return YNWState(x=x, k=0, multipliers=no_multipliers(problem, x), mean=mean)

    def step(self, state: YNWState, problem: Problem, draws: Draws) -> YNWState:
        """x and the queues from one batch."""
        k, x, queues = state.k, state.x, state.multipliers
        batch = draws("xi", k)
        weight = x.new_full((*x.shape[:-1], 1), self.V)
        if problem.m <= JACOBIAN_UP_TO:
            e, slopes = problem.jacobian(x, batch)
            direction = weight * slopes[..., 0, :] + (e.of(queues).unsqueeze(-1) * slopes[..., 1:, :]).sum(-2)
            along = lambda change: (slopes[..., 1:, :] * change.unsqueeze(-2)).sum(-1)  # noqa: E731
        else:
            seen, direction = problem.gradient(x, batch, lambda e: (weight, e.of(queues)))
            assert seen is not None
            e = seen
            along = lambda change: problem.jvp(x, batch, change)[..., 1:]  # noqa: E731
        if self.normalised:
            direction = direction / (1 + e.of(queues).sum(-1, keepdim=True) / self.V)
        moved = problem.domain.project(x - direction / (2 * self.alpha))
        queues = e.put(queues, (e.of(queues) + e.g + along(moved - x)).clamp_min(0))
        x.copy_(moved)
        mean = x if self.output == "last" else state.mean + (x - state.mean) / (k + 2)
        return state.next(multipliers=queues, mean=mean)
