"""Stochastic switching subgradient (SSw): step on the objective while the constraints hold, else on the worst of them.

Source: Kliachkin et al. (2025), section 3.4, Algorithm 3; Huang and Lin (2023), whose single-loop method (SSG) this is
    on all rows: rules "constant" and "diminishing" with tolerance_power = 1/2, and "adaptive". The rule
    "strongly-convex" is that of the inner method of their IPP-SSG: steps 2 / (modulus (k + 2)), but none above
    objective_step or constraint_step, and the mean of the points from which a step was taken on the objective, the k-th
    weighted k + 1, as its output.
Departs: with several constraints c is their largest, max_i c_i, and S^c a gradient of the one that is largest on the
    fresh sample. The random output, `SwitchingState.output`, is drawn by reservoir sampling, which gives the same law,
    P(tau = k) = eta_k / sum over the recorded steps of both kinds.
    xi and zeta are batches too; balanced ones, the default, take equally many rows of every subgroup and weight them
    back, xi's as well, where the paper says so of the constraints alone. A constraint whose groups a sample lacks is
    passed over. "0.97 at each epoch" is read as once an epoch from step 500 on; the published code multiplies at every
    iteration past 500 of an epoch and starts again from 1e-4 with the next. The paper has the rule "constant" alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from fairbound.base.checks import check_choice, nonnegative, positive
from fairbound.base.errors import OptionError
from fairbound.base.seeds import seed_for
from fairbound.methods.method import Method, State, no_multipliers
from fairbound.problems.problem import Draws, Evaluation, Problem, Weights

RULES = ("constant", "diminishing", "adaptive", "strongly-convex")


@dataclass(frozen=True, kw_only=True)
class SwitchingState(State):
    """x: (..., n); output: (..., n) the random output so far; weight: (...,) sum of recorded steps; objective_steps:
    (...,) int64, steps taken on the objective; multipliers: zero, as the method has none. mean: (..., n), mean_weight:
    (...,) of the points of the rule "strongly-convex" and their weights so far, None under the others."""

    output: Tensor
    weight: Tensor
    objective_steps: Tensor
    mean: Tensor | None = None
    mean_weight: Tensor | None = None

    @property
    def point(self) -> Tensor:
        """(..., n) x; under the rule "strongly-convex" the mean, once there is one."""
        if self.mean is None or self.mean_weight is None:
            return self.x
        return torch.where(self.mean_weight.unsqueeze(-1) > 0, self.mean, self.x)


@dataclass(frozen=True, kw_only=True)
class SwitchingSubgradient(Method[SwitchingState]):
    """For bounds on random batches: one step lowers the loss while the bounds nearly hold, else the worst of them.

    Take it to compare with its papers; on our 28 problems `alm` mostly had the lower loss (docs/which_method.md).
    Formulas and source: help(fairbound.methods.switching_subgradient).

    objective_step: > 0, eta_f.
    constraint_step: > 0, eta_c.
    rule: "constant"; "diminishing", eta / sqrt(k + 1); "adaptive", eta times (tolerance on an objective step, the
        violation on a constraint step) / |subgradient|^2; "strongly-convex", 2 / (modulus (k + 2)), at most eta.
    modulus: > 0, of strong convexity, for the rule of that name.
    tolerance: >= 0, eps_k before `tolerance_from`.
    tolerance_power: >= 0; the tolerance is divided by (k + 1)^tolerance_power.
    tolerance_factor: > 0, on the tolerance every `tolerance_every` steps from `tolerance_from` on.
    tolerance_from: see tolerance_factor.
    tolerance_every: see tolerance_factor.
    constraint_batch_size: J rows for the test c <= eps; 0 for the run's batch size.
    record_from: k0, the first step that the random output may come from.
    """

    objective_step: float = 0.5
    constraint_step: float = 0.05
    rule: Literal["constant", "diminishing", "adaptive", "strongly-convex"] = "constant"
    modulus: float = 1.0
    tolerance: float = 1e-4
    tolerance_power: float = 0.0
    tolerance_factor: float = 0.97
    tolerance_from: int = 500
    tolerance_every: int = 224
    constraint_batch_size: int = 0
    record_from: int = 0

    name: ClassVar[str] = "switching_subgradient"
    partial: ClassVar[bool] = True
    presets: ClassVar[dict[str, dict]] = {
        "paper": {},
        "paper-equal": {"objective_step": 0.02, "constraint_step": 0.02},
        "ssg": {"rule": "diminishing", "tolerance_factor": 1.0, "tolerance_power": 0.5},
        "strongly-convex": {"rule": "strongly-convex", "tolerance": 0.0, "constraint_step": 0.5},
    }

    def __post_init__(self) -> None:
        positive(self, "objective_step", "constraint_step", "tolerance_every", "tolerance_factor", "modulus")
        nonnegative(self, "tolerance_power", "tolerance", "tolerance_from", "record_from", "constraint_batch_size")
        check_choice("rule", self.rule, RULES)
        if self.rule == "adaptive" and not self.tolerance > 0:
            raise OptionError("the adaptive rule takes steps of length tolerance / |s|, so tolerance must be positive.")

    def init(self, problem: Problem, x: Tensor, draws: Draws) -> SwitchingState:
        """At x (..., n), which is also the first output."""
        lead = x.shape[:-1]
        return SwitchingState(
            x=x,
            k=0,
            multipliers=no_multipliers(problem, x),
            output=x.clone(),
            weight=x.new_zeros(lead),
            objective_steps=torch.zeros(lead, dtype=torch.int64, device=x.device),
            mean=x.clone() if self.rule == "strongly-convex" else None,
            mean_weight=x.new_zeros(lead) if self.rule == "strongly-convex" else None,
        )

    def step(self, state: SwitchingState, problem: Problem, draws: Draws) -> SwitchingState:
        """Lines 4 to 11 of Algorithm 3, every run of a stack on its own side of the switch."""
        k, x, eps = state.k, state.x, self.tolerance_at(state.k)
        worst = x.new_full(x.shape[:-1], -torch.inf)
        if problem.m:
            test = draws("test", k, self.constraint_batch_size or None)  # lines 4, 5
            worst = _masked(problem.values(x, test)).amax(-1)
        feasible = worst <= eps
        gradient = torch.zeros_like(x)
        if bool(feasible.any()):  # lines 7, 8
            _, s_f = problem.gradient(x, draws("xi", k), (1.0, None))
            gradient = torch.where(feasible.unsqueeze(-1), s_f, gradient)
        if not bool(feasible.all()):  # lines 10, 11
            _, s_c = problem.gradient(x, draws("zeta", k), _largest)
            gradient = torch.where(feasible.unsqueeze(-1), gradient, s_c)
        size = self._sizes(k, eps, worst, feasible, gradient)
        output, weight = state.output, state.weight
        if k >= self.record_from:
            weight = weight + size
            output = torch.where((_picks(draws, k, x) * weight < size).unsqueeze(-1), x, output)
        mean, total = state.mean, state.mean_weight
        if mean is not None and total is not None:
            total = total + (k + 1) * feasible
            mean = mean + ((k + 1) * feasible / total.clamp_min(1)).unsqueeze(-1) * (x - mean)
        x.copy_(problem.domain.project(x - size.unsqueeze(-1) * gradient))
        count = state.objective_steps + feasible
        return state.next(output=output, weight=weight, objective_steps=count, mean=mean, mean_weight=total)

    def tolerance_at(self, k: int) -> float:
        """eps_k."""
        epochs = 0 if k < self.tolerance_from else 1 + (k - self.tolerance_from) // self.tolerance_every
        return self.tolerance * self.tolerance_factor**epochs / (k + 1) ** self.tolerance_power

    def _sizes(self, k: int, eps: float, worst: Tensor, feasible: Tensor, gradient: Tensor) -> Tensor:
        """(...,) step size of each run."""
        base = torch.where(
            feasible, torch.full_like(worst, self.objective_step), torch.full_like(worst, self.constraint_step)
        )
        if self.rule == "diminishing":
            return base / (k + 1) ** 0.5
        if self.rule == "strongly-convex":
            return base.clamp_max(2 / (self.modulus * (k + 2)))
        if self.rule == "adaptive":
            length, square = torch.where(feasible, torch.full_like(worst, eps), worst), gradient.square().sum(-1)
            return torch.where(square >= torch.finfo(square.dtype).tiny, base * length / square, 0.0)
        return base


def _picks(draws: Draws, k: int, x: Tensor) -> Tensor:
    """(...,) a uniform number of each run, a function of (seed, k)."""
    generators = (torch.Generator().manual_seed(seed_for("output", k, root=seed)) for seed in draws.seeds)
    drawn = [torch.rand((), generator=generator).item() for generator in generators]
    return torch.tensor(drawn, dtype=x.dtype, device=x.device).view(x.shape[:-1])


def _masked(e: Evaluation) -> Tensor:
    return e.g if e.seen is None else e.g.masked_fill(~e.seen, -torch.inf)


def _largest(e: Evaluation) -> Weights:
    return 0.0, torch.zeros_like(e.g).scatter_(-1, _masked(e).argmax(-1, keepdim=True), 1.0)
