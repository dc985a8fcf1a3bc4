"""YNW: stochastic subgradient steps weighted by virtual queues, one for each constraint.

On a batch with values c = g(x) and subgradients s_0 of f, s_1, ..., s_m of g at x:

    x+ = Proj(x - (V s_0 + sum_k Q_k s_k) / (2 alpha))
    Q_k+ = max(0, Q_k + c_k + s_k . (x+ - x)),   Q = 0 at first

After T steps with V = sqrt(T), alpha = T the mean of the iterates is within O(1 / sqrt(T)) of optimal and of feasible;
single iterates need not be feasible.

Source: Yu, Neely and Wei (2017), "Online convex optimization with stochastic constraints", Algorithm 1; Lin, Nadarajah,
    Soheili, Yang (2020), section 6.1, for V and alpha.
Departs: V and alpha stay as they are when a run goes on past T steps. Lin et al. do not say whether their figures show
    the iterates or their mean; `output` says which is returned, by default the latest iterate.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from torch import Tensor

from fairbound.base.errors import OptionError
from fairbound.methods.primal import positive
from fairbound.problems.problem import Draws, Problem

JACOBIAN_UP_TO = 16
"""Most constraints whose subgradients are formed, in one call; with more, s_k . (x+ - x) is a jvp on the same batch."""


@dataclass(frozen=True, kw_only=True)
class YNW:
    """Options of YNW.

    horizon: T, the number of steps that V and alpha are made for. objective_weight: V, None for sqrt(T); proximal: alpha,
    None for T. output: what is returned, the latest iterate ("last") or the mean of all of them ("average").
    """

    horizon: int = 100
    objective_weight: float | None = None
    proximal: float | None = None
    output: Literal["last", "average"] = "last"

    name: ClassVar[str] = "ynw"
    presets: ClassVar[dict[str, dict]] = {"paper": {}}

    def __post_init__(self) -> None:
        positive(horizon=self.horizon, objective_weight=self.V, proximal=self.alpha)
        if self.output not in ("last", "average"):
            raise OptionError(f"output must be 'last' or 'average', got {self.output!r}.")

    @property
    def V(self) -> float:
        return max(self.horizon, 0) ** 0.5 if self.objective_weight is None else self.objective_weight

    @property
    def alpha(self) -> float:
        return float(self.horizon) if self.proximal is None else self.proximal


@dataclass(frozen=True)
class State:
    """x: (..., n); multipliers: (..., m) the queues Q; point: (..., n) x, or the mean of the iterates 0, ..., k."""

    x: Tensor
    k: int
    multipliers: Tensor
    point: Tensor


def init(config: YNW, problem: Problem, x: Tensor, draws: Draws) -> State:
    return State(x, 0, x.new_zeros(*x.shape[:-1], problem.m), x.clone() if config.output == "average" else x)


def step(config: YNW, state: State, problem: Problem, draws: Draws) -> State:
    k, x, queues = state.k, state.x, state.multipliers
    batch = draws("xi", k)
    weight = x.new_full((*x.shape[:-1], 1), config.V)
    if problem.m <= JACOBIAN_UP_TO:
        e, slopes = problem.jacobian(x, batch)
        direction = weight * slopes[..., 0, :] + (queues.unsqueeze(-1) * slopes[..., 1:, :]).sum(-2)
    else:
        seen, direction = problem.gradient(x, batch, lambda _: (weight, queues))
        assert seen is not None
        e = seen
    moved = problem.domain.project(x - direction / (2 * config.alpha))
    change = moved - x
    if problem.m <= JACOBIAN_UP_TO:
        along = (slopes[..., 1:, :] * change.unsqueeze(-2)).sum(-1)
    else:
        along = problem.jvp(x, batch, change)[..., 1:]
    queues = (queues + e.g + along).clamp_min(0)
    x.copy_(moved)
    point = x if config.output == "last" else state.point + (x - state.point) / (k + 2)
    return replace(state, k=k + 1, multipliers=queues, point=point)
